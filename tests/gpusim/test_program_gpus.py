"""A program that has several GPUs: devices, memory, peers, streams and events across them."""

from __future__ import annotations

import sys
from ctypes import CFUNCTYPE, c_float, c_int, c_uint32, c_uint64, c_void_p, cast, create_string_buffer
from threading import Event

import pytest

from gpusim.driver.state import Driver
from gpusim.errors import NodeError
from tests.gpusim.driver_calls import Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
PEER_UNSUPPORTED, ALREADY, NOT_ENABLED, ILLEGAL, NO_DEVICE, INVALID_DEVICE = 217, 704, 705, 700, 100, 101


@pytest.fixture
def calls():
    return Calls(gpus=2)


def use(calls, ordinal):
    calls.do("cudaSetDevice", ordinal)


def test_each_has_a_number_a_name_and_a_place(calls):
    assert calls.number("cuDeviceGetCount") == calls.number("cudaGetDeviceCount") == 2
    places, uuids = set(), set()
    for ordinal in range(2):
        text, uuid = create_string_buffer(32), create_string_buffer(16)
        calls.do("cuDeviceGetPCIBusId", text, 32, ordinal)
        calls.do("cuDeviceGetUuid_v2", uuid, ordinal)
        places.add(text.value)
        uuids.add(uuid.raw)
        assert calls.number("cuDeviceGetByPCIBusId", text.value) == ordinal
        assert calls.number("cuDeviceGetAttribute", 33, ordinal) == ordinal
        use(calls, ordinal)
        assert calls.number("cudaGetDevice") == calls.number("cuCtxGetDevice") == ordinal
    assert len(places) == len(uuids) == 2
    assert calls("cuDeviceGet", c_int(), 2) == calls("cudaSetDevice", 2) == INVALID_DEVICE


def test_memory_is_counted_for_the_gpu_that_has_it(calls):
    def free():
        left, whole = c_uint64(), c_uint64()
        calls.do("cuMemGetInfo_v2", left, whole)
        return left.value

    before = free()
    use(calls, 1)
    other = free()
    held = calls.memory(1 << 20)
    assert free() == other - (4 << 20)
    ordinal = c_int(-1)
    calls.do("cuPointerGetAttribute", ordinal, 9, held)
    assert ordinal.value == 1
    use(calls, 0)
    assert free() == before


def test_a_kernel_reaches_a_peer_only_when_that_is_enabled(calls, capfd):
    use(calls, 1)
    far, context = calls.memory(), calls.handle("cuDevicePrimaryCtxRetain", 1)
    use(calls, 0)
    assert calls.number("cuDeviceCanAccessPeer", 0, 1) == 1 and calls.number("cuDeviceCanAccessPeer", 1, 1) == 0
    assert calls("cuCtxDisablePeerAccess", context) == NOT_ENABLED
    assert calls("cuCtxEnablePeerAccess", calls.context, 0) == PEER_UNSUPPORTED
    calls.do("cuCtxEnablePeerAccess", context, 0)
    assert calls("cuCtxEnablePeerAccess", context, 0) == ALREADY == calls("cudaDeviceEnablePeerAccess", 1, 0)
    calls.do("cuLaunchKernel", calls.kernel("bump"), 1, 1, 1, 32, 1, 1, 0, 0, calls.parameters(c_uint64(far)), None)
    assert calls.words(far) == [32]
    calls.do("cudaDeviceDisablePeerAccess", 1)
    calls.do("cuLaunchKernel", calls.kernel("bump"), 1, 1, 1, 32, 1, 1, 0, 0, calls.parameters(c_uint64(far)), None)
    assert calls("cuCtxSynchronize") == ILLEGAL
    use(calls, 1)  # its context is as it was
    assert calls.words(far) == [32]


def test_gpus_without_nvlink_are_no_peers():
    calls = Calls(gpus=2, node="pcie")
    assert calls.number("cuDeviceCanAccessPeer", 0, 1) == 0
    assert calls("cudaDeviceEnablePeerAccess", 1, 0) == PEER_UNSUPPORTED


def test_gpus_are_in_the_node_that_they_come_in():
    assert Calls("v100", gpus=2).driver.node.name == "DGX-1 V100"
    assert Calls("v100", gpus=2, node="pcie").driver.node.gpu_config == "a100"
    with pytest.raises(NodeError, match="has 4 GPUs, not 8"):
        Driver("a100", gpus=8)


def test_copies_between_gpus_take_the_time_of_their_link():
    calls, nbytes, took = Calls("h200", mode="detailed", gpus=2), 1 << 22, {}
    places = []
    for ordinal in range(2):
        use(calls, ordinal)
        places += [calls.handle("cuMemAlloc_v2", nbytes) for _ in range(2)]
        calls.do("cuMemsetD32_v2", places[-2], ordinal + 5, nbytes // 4)
    here, here_too, there, _ = places
    use(calls, 0)
    stream = calls.handle("cuStreamCreate", 1)
    for name, source in (("near", here), ("far", there)):
        events = [calls.handle("cuEventCreate", 0) for _ in range(2)]
        calls.do("cuEventRecord", events[0], stream)
        calls.do("cuMemcpyPeerAsync", here_too, 0, source, 0, nbytes, stream)
        calls.do("cuEventRecord", events[1], stream)
        calls.do("cuStreamSynchronize", stream)
        ms = c_float()
        calls.do("cuEventElapsedTime", ms, *events)
        took[name] = ms.value
        assert calls.words(here_too) == [5 if name == "near" else 6]
    assert took["far"] > 2 * took["near"]  # NVLink has a tenth of the memory's bandwidth


def test_a_stream_waits_for_an_event_of_another_gpu():
    calls = Calls("h200", mode="detailed", gpus=2)
    use(calls, 1)
    source, stream_1, event = calls.memory(), calls.handle("cuStreamCreate", 1), calls.handle("cuEventCreate", 2)
    values = calls.parameters(c_uint64(source))
    calls.do("cuLaunchKernel", calls.kernel("bump"), 64, 1, 1, 256, 1, 1, 0, stream_1, values, None)
    calls.do("cuEventRecord", event, stream_1)
    use(calls, 0)
    target, stream_0 = calls.memory(), calls.handle("cuStreamCreate", 1)
    calls.do("cuStreamWaitEvent", stream_0, event, 0)
    calls.do("cuMemcpyPeerAsync", target, 0, source, 0, 4, stream_0)
    calls.do("cuStreamSynchronize", stream_0)
    assert calls.words(target) == [64 * 256]


def test_kernels_of_two_gpus_run_at_once():
    calls = Calls("tiny", mode="detailed", gpus=2)
    ready, ends = [], []
    for ordinal in (0, 1):
        use(calls, ordinal)
        values = calls.parameters(c_uint64(calls.memory()))
        ready.append((calls.kernel("bump"), values, calls.handle("cuStreamCreate", 1)))
        ends.append(calls.handle("cuEventCreate", 0))
    for ordinal, (kernel, values, stream) in enumerate(ready):
        use(calls, ordinal)
        calls.do("cuLaunchKernel", kernel, 256, 1, 1, 256, 1, 1, 0, stream, values, None)
        calls.do("cuEventRecord", ends[ordinal], stream)
    for ending in ends:
        calls.do("cuEventSynchronize", ending)
    first, second = (calls.driver.event_of(each).cycle for each in ends)
    assert abs(second - first) < 0.5 * first


def test_who_waits_for_a_gpu_does_not_wait_for_another():
    calls, let_go = Calls(gpus=2), Event()
    called = CFUNCTYPE(None, c_void_p)(lambda _: let_go.wait(60) and None)
    use(calls, 1)
    calls.do("cuLaunchHostFunc", calls.handle("cuStreamCreate", 1), cast(called, c_void_p).value, 0)
    use(calls, 0)
    calls.do("cuMemFree_v2", calls.memory())
    calls.do("cudaDeviceSynchronize")
    assert not let_go.is_set()
    let_go.set()
    use(calls, 1)
    calls.do("cudaDeviceSynchronize")


@pytest.mark.parametrize(
    ("named", "numbers"),
    [("1", [1]), ("1,0", [1, 0]), ("", []), ("-1", []), ("0,7,1", [0]), ("0,0", []), ("GPU-67", []), (None, [0, 1])],
)
def test_what_the_environment_leaves_visible(monkeypatch, named, numbers):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    driver = Driver("tiny", gpus=2)
    driver.begin_runtime_call(anytime=True)
    assert [each.number for each in driver.visible] == numbers
    assert [each.ordinal for each in driver.visible] == list(range(len(numbers)))


def test_a_node_has_so_many():
    with pytest.raises(NodeError, match="has 8 GPUs, not 9"):
        Driver("tiny", gpus=9)


def test_the_management_library_knows_all():
    calls = Calls(library="libnvidia-ml.so.1", gpus=2)
    calls.do("nvmlInit_v2")
    count, handle, index, linked = c_uint32(), c_uint64(), c_uint32(), c_uint32()
    calls.do("nvmlDeviceGetCount_v2", count)
    assert count.value == 2
    handles = []
    for ordinal in range(2):
        calls.do("nvmlDeviceGetHandleByIndex_v2", ordinal, handle)
        calls.do("nvmlDeviceGetIndex", handle.value, index)
        assert index.value == ordinal
        handles.append(handle.value)
    calls.do("nvmlDeviceGetP2PStatus", *handles, 0, linked)
    assert linked.value == 0 and calls("nvmlDeviceGetHandleByIndex_v2", 2, handle) != 0
