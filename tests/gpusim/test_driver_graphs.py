"""Graphs of the simulated driver: what streams capture is done at a launch, and only then."""

from __future__ import annotations

import sys

import pytest

from tests.gpusim.driver_program import run

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

START = """
import ctypes
from cuda.bindings import driver as cu
from numba import cuda

def do(name, *arguments):
    code, *results = getattr(cu, "cu" + name)(*arguments)
    assert code == 0, (name, code)
    return results[0] if len(results) == 1 else results

def code(name, *arguments):
    return int(getattr(cu, "cu" + name)(*arguments)[0])

@cuda.jit("void(float64[::1], float64)")
def add(a, b):
    a[cuda.grid(1)] += b

@cuda.jit("void(float64[::1], float64)")
def scale(a, b):
    a[cuda.grid(1)] *= b

a, b = cuda.to_device(np.arange(64.0)), cuda.to_device(np.zeros(64))
A, B = (cu.CUdeviceptr(each.device_ctypes_pointer.value) for each in (a, b))
one, two = (cuda.external_stream(int(do("StreamCreate", 1))) for _ in range(2))
ONE, TWO = (cu.CUstream(int(each.handle)) for each in (one, two))
fork, join = do("EventCreate", 2), do("EventCreate", 2)
GLOBAL = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL

def captured(*factors):
    do("StreamBeginCapture", ONE, GLOBAL)
    for factor in factors:
        scale[2, 32, one](a, factor)
    return do("StreamEndCapture", ONE)
"""


def test_captured_work_of_two_streams_is_done_at_each_launch():
    run(
        START
        + """
seen = []
note = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append(data))
do("StreamBeginCapture", ONE, GLOBAL)
scale[2, 32, one](a, 2.0)
do("EventRecord", fork, ONE)
do("StreamWaitEvent", TWO, fork, 0)
assert do("StreamIsCapturing", TWO) == 1
do("MemcpyDtoDAsync", B, A, 512, TWO)
add[2, 32, two](b, 0.5)
do("MemsetD32Async", A, 0, 4, ONE)
do("LaunchHostFunc", TWO, cu.CUhostFn(ctypes.cast(note, ctypes.c_void_p).value), 7)
do("EventRecord", join, TWO)
do("StreamWaitEvent", ONE, join, 0)
add[2, 32, one](a, 3.0)
graph = do("StreamEndCapture", ONE)
assert do("StreamIsCapturing", ONE) == 0 and do("StreamIsCapturing", TWO) == 0
nodes, count = do("GraphGetNodes", graph, 16)
assert [int(do("GraphNodeGetType", node)) for node in nodes[:count]] == [0, 1, 0, 2, 3, 0]
assert (a.copy_to_host() == np.arange(64)).all() and not seen and not driver.log.calls

executable = do("GraphInstantiate", graph, 0)
do("GraphDestroy", graph)
expected = np.arange(64.0)
for launch in range(3):
    do("GraphLaunch", executable, TWO)
    do("StreamSynchronize", TWO)
    expected *= 2
    assert (b.copy_to_host() == expected + 0.5).all()
    expected[:2] = 0
    expected += 3
    assert (a.copy_to_host() == expected).all()
    assert seen == [7] * (launch + 1)
assert driver.log.calls == 9
do("GraphExecDestroy", executable)
assert code("GraphLaunch", executable, ONE) == 1
"""
    )


def test_captures_that_cannot_be():
    """What fails on a stream that is captured ends the capture (`test_api_graphs` tries each)."""
    run(
        START
        + """
assert code("StreamEndCapture", ONE) == 401
assert code("StreamBeginCapture", cu.CUstream(0), GLOBAL) == 900
waited_for = do("StreamCreate", 0)
for stream, status in ((waited_for, 906), (ONE, 0)):
    do("StreamBeginCapture", stream, GLOBAL)
    assert code("StreamIsCapturing", cu.CUstream(0)) == status
    do("StreamEndCapture", stream)
do("EventRecord", join, TWO)
do("StreamBeginCapture", ONE, GLOBAL)
assert code("StreamBeginCapture", ONE, GLOBAL) == 401
assert code("StreamWaitEvent", ONE, join, 0) == 905
assert code("StreamEndCapture", ONE) == 901
do("StreamBeginCapture", ONE, GLOBAL)
do("EventRecord", fork, ONE)
assert code("StreamWaitEvent", cu.CUstream(0), fork, 0) == 906
do("StreamBeginCapture", TWO, GLOBAL)
assert code("StreamWaitEvent", TWO, fork, 0) == 902
assert code("StreamEndCapture", TWO) == 901
do("StreamWaitEvent", TWO, fork, 0)
assert code("StreamEndCapture", TWO) == 903
scale[2, 32, two](a, 2.0)
assert code("StreamEndCapture", ONE) == 904
assert do("StreamIsCapturing", TWO) == 0
do("StreamWaitEvent", TWO, fork, 0)
assert do("StreamIsCapturing", TWO) == 0
scale[2, 32, two](a, 2.0)
assert (a.copy_to_host() == np.arange(64) * 2).all()
"""
    )


def test_graphs_keep_objects_of_the_program_alive():
    run(
        START
        + """
import time
gone = []
destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: gone.append(data))
address = cu.CUhostFn(ctypes.cast(destroy, ctypes.c_void_p).value)
graph = captured(2.0)
held = do("UserObjectCreate", 5, address, 1, 1)
do("GraphRetainUserObject", graph, held, 1, 0)
other = do("UserObjectCreate", 6, address, 1, 1)
do("GraphRetainUserObject", graph, other, 1, 1)
executable = do("GraphInstantiate", graph, 0)
assert code("GraphReleaseUserObject", graph, held, 2) == 1
do("GraphReleaseUserObject", graph, held, 1)
do("UserObjectRelease", held, 1)
do("GraphDestroy", graph)
time.sleep(0.2)
assert not gone
do("GraphExecDestroy", executable)
while len(gone) < 2:
    time.sleep(0.01)
assert sorted(gone) == [5, 6]
assert code("UserObjectRetain", held, 1) == 1
"""
    )
