"""What streams of programs do beside the default stream and each other: `tests/gpusim/data/beside.cu`, and scripts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpusim.config import load_config
from tests.gpusim.cuda_program import DATA, build
from tests.gpusim.driver_calls import Calls
from tests.gpusim.driver_program import run as run_here
from tests.gpusim.test_api_graphs import (  # noqa: F401 - all of them once more, with a clock
    chain,
    test_events_outside_a_graph,
    test_graphs_allocate_no_memory,
    test_graphs_inside_graphs,
    test_nodes_are_done_in_the_order_of_their_edges,
    test_variables_in_graphs,
)
from tests.gpusim.test_overlap import run, times

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

FUNCTIONAL = "--gpu", "tiny", "--functional", "--no-report"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("beside")


@pytest.fixture(scope="module")
def program(folder) -> Path:
    return build(DATA / "beside.cu", folder / "beside")


@pytest.fixture(scope="module")
def calls() -> Calls:
    return Calls(mode="detailed")


ORDERS = "default, free", "free, default", "legacy, free", "free, legacy", "thread, free", "free, thread"
BESIDE = *ORDERS, "waits, free", "free, waits", "thread, waits"
IN_TURN = "waits, legacy", "legacy, thread", "thread, legacy"


@pytest.mark.parametrize("per_thread", [False, True])
def test_who_waits_for_the_default_stream(folder, program, per_thread):
    """Two kernels of one block: of streams that wait for each other, they take twice the time."""
    if per_thread:
        program = build(DATA / "beside.cu", folder / "per_thread", "--default-stream", "per-thread")
    *lines, copied = run(program, "defaults")
    found = times(lines)
    beside = {"waits, default"} if per_thread else set()
    assert found.keys() == beside | {*BESIDE, *IN_TURN, "waits, default"}
    alone = min(found.values())
    for name, us in found.items():
        assert us == pytest.approx(alone if name in beside | {*BESIDE} else 2 * alone, rel=0.1), name
    assert copied == "copied 5 7 cudaErrorNotReady"


# --- graphs -----------------------------------------------------------------------------------------------------------


def test_branches_of_a_graph_run_beside_each_other_as_an_h200_was_seen_to_begin_them(program):
    options = "--gpu", "h200", "--threads", "1", "--no-report"
    found, launch = times(run(program, "graphs", options=options)), load_config("h200").launch
    clock = load_config("h200").gpu.clock_mhz
    kernel = (found["line"] - found["one"]) / 5
    sooner = (launch.overhead_cycles - launch.node_cycles) / clock
    assert found["stream"] - found["line"] == pytest.approx(5 * sooner, abs=0.5)
    turns = 3 * launch.fork_interval_cycles / clock
    assert found["fork"] - found["one"] == pytest.approx(2 * kernel + turns, abs=0.4)
    assert found["inside"] - found["fork"] == pytest.approx(kernel, abs=0.5)
    assert found["fork, default"] - found["fork"] < 5


def test_all_kinds_of_nodes_in_two_branches_and_a_graph_inside(program):
    assert run(program, "nodes") == run(program, "nodes", options=FUNCTIONAL) == ["nodes 0"]


# --- memory in the order of streams -----------------------------------------------------------------------------------


def test_memory_is_freed_when_its_stream_has_come_to_that_while_another_one_computes(program):
    ordered = "ordered 5 cudaErrorInvalidValue cudaErrorNotReady 512 0"
    assert run(program, "ordered") == [ordered]


# --- cuBLAS -----------------------------------------------------------------------------------------------------------

PRODUCTS = """
import ctypes
from tests.gpusim.blas_program import *

flags = ctypes.c_uint(FLAGS)
n, k, one, zero = 64, 512, scalar(1, C64), scalar(0, C64)  # one block: products of complex numbers have no clusters
streams, handles = [ctypes.c_void_p() for _ in range(2)], [new_handle() for _ in range(2)]
for stream, handle in zip(streams, handles):
    check(runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), flags))
    check(blas.cublasSetStream_v2(handle, stream))
rng = np.random.default_rng(1)
a, b = (np.asfortranarray(rng.standard_normal(shape) + 0j) for shape in ((n, k), (k, n)))
at, bt, ct = to_device(a), to_device(b), [to_device(np.zeros((n, n), "c16")) for _ in range(2)]

def product(handle, c):
    one_at, zero_at = pointer_of(one), pointer_of(zero)
    check(blas.cublasZgemm_v2(handle, N, N, n, n, k, one_at, p(at), n, p(bt), k, zero_at, p(c), n))

def us(handles):
    events = [ctypes.c_void_p() for _ in range(3)]
    for each in events:
        check(runtime.cudaEventCreate(ctypes.byref(each)))
    check(runtime.cudaDeviceSynchronize())
    check(runtime.cudaEventRecord(events[0], streams[0]))
    for handle, c in zip(handles, ct):
        product(handle, c)
    for event, stream in zip(events[1:], streams):
        check(runtime.cudaEventRecord(event, stream))
    check(runtime.cudaDeviceSynchronize())
    ms = ctypes.c_float()
    times = []
    for event in events[1:]:
        check(runtime.cudaEventElapsedTime(ctypes.byref(ms), events[0], event))
        times.append(1000 * ms.value)
    return max(times)

us(handles)
product_of = np.asfortranarray(a @ b)
in_turn, beside = us(handles[:1] * 2), us(handles)
for c in ct:
    np.testing.assert_allclose(to_host(c, product_of), product_of, rtol=1e-4, atol=1e-3)
assert beside < 0.7 * in_turn, (in_turn, beside)
"""


@pytest.mark.usefixtures("toolchain")
def test_products_of_two_handles_overlap():
    run_here(PRODUCTS.replace("FLAGS", "1"))


@pytest.mark.usefixtures("toolchain")
def test_a_result_for_the_host_waits_for_its_stream_alone():
    """Of streams that wait for the default one (flags 0), whose products overlap as well."""
    run_here(
        PRODUCTS.replace("FLAGS", "0")
        + """
x = to_device(np.arange(8, dtype="f4"))
found = np.zeros(1, "f4")
check(runtime.cudaDeviceSynchronize())
for _ in range(8):
    product(handles[1], ct[1])
check(blas.cublasSdot_v2(handles[0], 8, p(x), 1, p(x), 1, pointer_of(found)))
assert found[0] == 140 and runtime.cudaStreamQuery(streams[1]) == 600
check(runtime.cudaDeviceSynchronize())
"""
    )
