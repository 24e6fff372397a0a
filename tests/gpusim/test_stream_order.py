"""What streams of programs do beside the default stream and each other: `tests/gpusim/data/beside.cu`, and scripts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpusim.config import load_config
from tests.gpusim.cuda_program import DATA, build
from tests.gpusim.test_overlap import run, times

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

FUNCTIONAL = "--gpu", "tiny", "--functional", "--no-report"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("beside")


@pytest.fixture(scope="module")
def program(folder) -> Path:
    return build(DATA / "beside.cu", folder / "beside", "-lcuda")


ORDERS = "default, free", "free, default", "legacy, free", "free, legacy", "thread, free", "free, thread"
BESIDE = *ORDERS, "waits, free", "free, waits", "thread, waits"
IN_TURN = "waits, legacy", "legacy, thread", "thread, legacy"


@pytest.mark.parametrize("per_thread", [False, True])
def test_who_waits_for_the_default_stream(folder, program, per_thread):
    """Two kernels of one block: of streams that wait for each other, they take twice the time."""
    if per_thread:
        program = build(DATA / "beside.cu", folder / "per_thread", "-lcuda", "--default-stream", "per-thread")
    *lines, copied = run(program, "defaults")
    found = times(lines)
    beside = {"waits, default"} if per_thread else set()
    assert found.keys() == beside | {*BESIDE, *IN_TURN, "waits, default"}
    alone = min(found.values())
    for name, us in found.items():
        assert us == pytest.approx(alone if name in beside | {*BESIDE} else 2 * alone, rel=0.05), name
    assert copied == "copied 5 7 cudaErrorNotReady"


def test_entry_points_by_name_have_the_stream_that_is_asked_for():
    from tests.gpusim.driver_calls import Calls

    calls = Calls()
    asked = []
    calls.driver.address_of = lambda symbol: asked.append(symbol)
    for flags, wanted in ((0, "cuLaunchKernel"), (1, "cuLaunchKernel"), (2, "cuLaunchKernel_ptsz")):
        asked.clear()
        calls("cuGetProcAddress", "cuLaunchKernel", bytes(8), 12000, flags)
        assert asked[0] == wanted
    assert calls("cuGetProcAddress", "cuLaunchKernel", bytes(8), 12000, 4) == 1


# --- graphs -----------------------------------------------------------------------------------------------------------


def test_branches_of_a_graph_run_beside_each_other_as_an_h200_was_seen_to_begin_them(program):
    options = "--gpu", "h200", "--threads", "1", "--no-report"
    found, launch = times(run(program, "graphs", options=options)), load_config("h200").launch
    clock = load_config("h200").gpu.clock_mhz
    kernel = (found["line"] - found["one"]) / 5
    sooner = (launch.overhead_cycles - launch.node_cycles) / clock
    assert found["stream"] - found["line"] == pytest.approx(5 * sooner, abs=0.5)
    turns = 3 * launch.fork_interval_cycles / clock
    for name in ("fork", "some"):  # the disabled ones of this are those between
        assert found[name] - found["one"] == pytest.approx(2 * kernel + turns, abs=0.2)
    assert found["inside"] - found["fork"] == pytest.approx(kernel, abs=0.5)
    assert found["fork, default"] - found["fork"] < 5


def test_all_kinds_of_nodes_in_two_branches_and_a_graph_inside(program):
    assert run(program, "nodes") == run(program, "nodes", options=FUNCTIONAL) == ["nodes 0"]
