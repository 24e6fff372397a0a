"""Autotuning on the simulated driver: each choice is timed once, with nothing of its data in L2."""

from __future__ import annotations

import sys

import pytest

from tests.gpusim.driver_program import run

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

# What is asked of Triton, by Numba: an interface with events, and memory that slices are copied in.
TRITON = """
from types import SimpleNamespace

from cuda.bindings import driver as cu
from numba import cuda

class Event:
    def __init__(self, enable_timing):
        self.event = cuda.event(enable_timing)
    def record(self):
        self.event.record()
    def synchronize(self):
        self.event.synchronize()
    def elapsed_time(self, end):
        return cuda.event_elapsed_time(self.event, end.event)

class Memory:
    def __init__(self, nbytes):
        self.of = cuda.device_array(nbytes, "u1")
    def __len__(self):
        return self.of.size
    def __getitem__(self, part):
        return self.of[part]
    def __setitem__(self, part, value):
        cu.cuMemcpyDtoD(self.of[part].device_ctypes_pointer.value, value.device_ctypes_pointer.value, value.size)

active = SimpleNamespace(
    get_device_interface=lambda: SimpleNamespace(Event=Event), get_empty_cache_for_benchmark=lambda: Memory(4 << 20)
)
runtime = SimpleNamespace(driver=SimpleNamespace(active=active))

def do_bench(fn, warmup=25, rep=100):
    raise NotImplementedError
"""
START = """
from numba import cuda
from cuda.bindings import driver as cu

@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i]

x, y, spare = (cuda.device_array(n, np.float32) for n in (1 << 14, 1 << 14, 1 << 19))
def work():
    double[64, 256](x, y)
def fill(nbytes):
    cu.cuMemsetD8(spare.device_ctypes_pointer.value, 0, nbytes)
def copy(nbytes):
    middle = spare.device_ctypes_pointer.value + nbytes
    cu.cuMemcpyDtoD(spare.device_ctypes_pointer.value, middle, nbytes)
def us(before, *arguments):
    before(*arguments)
    first, last = cuda.event(), cuda.event()
    first.record()
    work()
    last.record()
    last.synchronize()
    return 1000 * cuda.event_elapsed_time(first, last)
work()
warm, l2 = us(work), driver.config.l2.bytes
"""


def test_a_fill_or_a_copy_as_large_as_l2_leaves_nothing_else_there():
    run(
        START
        + """
for displaces in fill, copy:
    assert us(displaces, l2 - 1) == pytest.approx(warm, rel=0.02)
    assert us(displaces, l2) > 1.1 * warm, (us(displaces, l2), warm)
assert int(cu.cuCtxSetLimit(cu.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, l2 // 4)[0]) == 0
warm = us(work)
assert us(fill, l2) == pytest.approx(warm, rel=0.02)  # what persists would stay
""",
        head="import pytest\n",
    )


def test_a_choice_runs_twice_and_is_timed_cold(tmp_path):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").touch()
    (tmp_path / "triton" / "testing.py").write_text(TRITON)
    done = run(
        START
        + f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from triton.testing import do_bench, do_bench_cudagraph

calls = []
class Parameter:
    grad = 1
def step():
    work()
    calls.append(Parameter.grad)
assert 1000 * do_bench(step, warmup=25, rep=100) > 1.1 * warm
assert 1000 * do_bench_cudagraph(step) == pytest.approx(warm, rel=0.02)
assert len(calls) == 4
ms, again = do_bench(step, grad_to_none=[Parameter], quantiles=(0.5, 0.2))
assert ms == again and calls[4:] == [1, None]
(ms,) = do_bench(step, return_mode="all")
assert 1000 * ms > 1.1 * warm
print(sys.modules["triton.testing"].__loader__.__class__.__name__)
""",
        head="import pytest\n",
    )
    assert done.stdout == "SourceFileLoader\n"
