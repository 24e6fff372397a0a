"""Streams of other people's programs on the simulated driver: what overlaps, waits, fails, and goes on by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from gpusim.driver import library  # noqa: F401 - it declares all functions
from gpusim.driver.registry import ENTRY_POINTS, waits
from tests import forks
from tests.gpusim import cuda_program
from tests.gpusim.cuda_program import DATA, build
from tests.gpusim.driver_program import run as run_here
from tests.gpusim.test_trace_export import Read

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

DETAILED = ("--gpu", "tiny", "--threads", "1", "--no-report")


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    return build(DATA / "overlap.cu", tmp_path_factory.mktemp("overlap") / "overlap")


def gpusim(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = forks.run("-m", "gpusim.cli", *words, env=cuda_program.environment(), timeout=120, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run(program: Path, *words: str, options: tuple[str, ...] = DETAILED, cwd: Path | None = None) -> list[str]:
    """The lines that the program prints."""
    return gpusim("exec", *options, str(program), *words, cwd=cwd).stdout.splitlines()


def times(lines: list[str]) -> dict[str, float]:
    return {name: float(us) for name, _, us in (line.rpartition(" ") for line in lines)}


def test_kernels_copies_and_graphs_overlap_and_do_so_again(program):
    lines = run(program, "overlap", "overlap")
    first, again = times(lines[: len(lines) // 2]), times(lines[len(lines) // 2 :])
    assert first["kernels 2"] < 0.65 * first["kernels 1"]
    assert first["pipeline 4"] < 0.75 * first["pipeline 1"]
    assert first["both"] < 0.65 * (first["stream"] + first["graph"])
    assert {name: pytest.approx(us, rel=0.02) for name, us in first.items()} == again  # the caches are warm
    assert run(program, "overlap") == lines[: len(lines) // 2]


def test_what_is_computed_is_the_same_without_time(program):
    words = "between", "pageable", "blocked"
    assert run(program, *words) == run(program, *words, options=("--gpu", "tiny", "--functional", "--no-report"))


SAID = {
    "between": "between 24",  # ((1 + 1) * 10 + 1) + 3: functions of the host come between kernels
    "blocked": "blocked",  # a function may wait for another thread of the program
    "idle": "idle 14 9",  # work goes on while the program calls nothing
    "pageable": "pageable 0",  # memory is copied as it is at the call
    "flag": "flag 5",  # a kernel waits for one of another stream
    "priority": "priority high",  # a stream of a higher priority comes first
    "query": "query waited",  # whoever asks again and again is told at last
}


@pytest.mark.parametrize("word", SAID)
def test_what_programs_see(program, word):
    assert run(program, word) == [SAID[word]]


def test_programmatic_launches_begin_before_the_one_ahead_ends(program):
    (_, late, total), (_, early, again) = (line.split() for line in run(program, "early"))
    assert float(early) < float(late) and total == again == "8000"


def test_a_fault_is_told_where_the_program_waits_and_ends_what_has_not_begun(program):
    done = gpusim("exec", *DETAILED, str(program), "faults")
    assert done.stdout == "faults cudaSuccess cudaErrorIllegalAddress cudaErrorIllegalAddress 0\n"
    assert "gpusim: launch 2, fault: out of bounds: global write" in done.stderr


def test_what_nobody_waits_for_is_done_at_the_programs_end(program):
    options = *DETAILED[:-1], "--json"
    said = "\n".join(run(program, "unwaited", options=options))
    (launch,) = json.loads(said.partition("unwaited")[2])["launches"]
    assert launch["calls"] == 1


def test_what_is_told_of_launches_beside_each_other(program, tmp_path):
    """Slices of two streams overlap; what is saved runs again, one after the other."""
    options = *DETAILED, "--trace", "all.perfetto-trace", "--save", "saved.launches"
    run(program, "overlap", options=options, cwd=tmp_path)
    slices = [each for each in Read(tmp_path / "all.perfetto-trace").slices if "stream" in each[0][-1]]
    by_stream = {path[-1]: sorted(e[1:3] for e in slices if e[0] == path) for path, *_ in slices}
    for spans in by_stream.values():
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    together = [(a, b) for a in slices for b in slices if a[0] < b[0] and a[1] < b[2] and b[1] < a[2]]
    assert together and {name for *_, name in slices} == {"chain"}
    done = gpusim("replay", "--threads", "1", "--json", "saved.launches", cwd=tmp_path)
    assert sum(each["calls"] for each in json.loads(done.stdout)["launches"]) == len(slices)


# --- Python scripts ---------------------------------------------------------------------------------------------------

SCRIPT = """
from numba import cuda

@cuda.jit
def chain(x, y, rounds):
    i = cuda.grid(1)
    value = x[i]
    for _ in range(rounds):
        value = value * np.float32(0.5) + np.float32(1)
    y[i] = value
"""


def test_what_the_default_stream_does_takes_its_time():
    pytest.importorskip("cuda.bindings")
    run_here(
        """
from cuda.bindings import driver as cu
from numba import cuda
n = 1 << 20
host, x = cuda.pinned_array(n, np.uint8), cuda.device_array(n, np.uint8)
pageable, first, last = np.zeros(n, np.uint8), cuda.event(), cuda.event()

def us(work):
    first.record()
    work()
    last.record()
    return 1000 * cuda.event_elapsed_time(first, last)  # nobody has to wait

event = us(lambda: None)
assert 0 <= event < 4, event
fill = us(lambda: cu.cuMemsetD8(x.device_ctypes_pointer.value, 1, n))
pinned, staged = us(lambda: x.copy_to_device(host)), us(lambda: x.copy_to_device(pageable))
within = us(lambda: cu.cuMemcpyDtoD(x.device_ctypes_pointer.value, x.device_ctypes_pointer.value, n))
assert event < fill < within < pinned < staged, (event, fill, within, pinned, staged)
assert 20 < pinned < 50, pinned  # an H200 takes 24.7 us, and its host 10 to call
assert within < event + 4, (event, within)  # the host is ahead of these, as of launches
"""
    )


def test_what_is_pending_is_not_ready_and_a_streams_function_must_not_wait():
    pytest.importorskip("cuda.bindings")
    run_here(
        SCRIPT
        + """
import ctypes
from cuda.bindings import driver as cu
x, y = cuda.to_device(np.ones(128, np.float32)), cuda.device_array(128, np.float32)
stream, first, last = cuda.stream(), cuda.event(), cuda.event()
chain[1, 128, stream](x, y, 10)
first.record(stream)
stream.synchronize()
answers = []

def note(data):
    answers.append(int(cu.cuCtxSetCurrent(context)[0]))
    answers.append(int(cu.cuCtxSynchronize()[0]))

_, context = cu.cuCtxGetCurrent()
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(note)
cu.cuLaunchHostFunc(int(stream.handle), cu.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value), 0)
last.record(stream)
assert int(cu.cuEventElapsedTime(int(first.handle), int(last.handle))[0]) == 600
assert int(cu.cuEventQuery(int(last.handle))[0]) == 600 and int(cu.cuStreamQuery(int(stream.handle))[0]) == 600
last.synchronize()
assert cuda.event_elapsed_time(first, last) > 0.01  # a function takes 10 us
assert answers == [800, 800], answers
"""
    )


def test_a_finalizer_may_free_memory_in_the_middle_of_a_simulation():
    pytest.importorskip("cuda.bindings")
    run_here(
        SCRIPT
        + """
import gc
import time
from cuda.bindings import driver as cu

inside, codes = [False], []

class Owner:
    def __init__(self):
        self.itself = self
    def __del__(self):
        codes.append((inside[0], int(cu.cuMemFree(there)[0])))

def event(_):
    inside[0] = True
    Owner()
    garbage = [[] for _ in range(1000)]  # more than Python lets lie by its threshold
    inside[0] = False

stream, x, y = cuda.stream(), cuda.to_device(np.ones(128, np.float32)), cuda.device_array(128, np.float32)
_, there = cu.cuMemAlloc(4096)
used = driver.device.memory.used_bytes
gc.collect()
gc.set_threshold(100)
chain[1, 128, stream](x, y, 100)
driver.queues.env.timeout(10).callbacks.append(event)
stream.synchronize()
ends = time.monotonic() + 60
while not codes and time.monotonic() < ends:  # another thread may be the one that collects, and hold this one off
    gc.collect()
    time.sleep(0.001)
assert codes == [(False, 0)], codes
assert driver.device.memory.used_bytes == used - 4096 and (y.copy_to_host() > 1).all()
"""
    )


# --- which functions wait ---------------------------------------------------------------------------------------------


def test_functions_that_touch_memory_wait():
    wait = "cuMemFree_v2 cudaFree cudaMalloc cuModuleUnload cudaDeviceSynchronize cublasDestroy_v2 cuCtxSynchronize"
    assert all(waits(name) for name in (*wait.split(), "cuStreamDestroy_v2"))
    others = """cudaLaunchKernel cuLaunchKernelEx cudaMemcpyAsync cuMemcpyHtoDAsync_v2 cudaMemset2DAsync
    cuMemsetD32Async cudaMemcpy cuMemcpyHtoD_v2 cudaMemset cublasSgemm_v2 cublasLtMatmul cuMemAllocAsync cudaFreeAsync
    cudaEventRecord cudaStreamQuery cuStreamWaitEvent cudaGetDevice cuCtxGetCurrent
    nvmlDeviceGetName"""
    assert not any(waits(name) for name in others.split())
    assert 100 < sum(map(waits, ENTRY_POINTS)) < len(ENTRY_POINTS) - 250
