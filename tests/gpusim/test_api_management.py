"""The management library: what it says of the device, to programs that look for one and to NVIDIA's Python bindings."""

from __future__ import annotations

import ctypes
import struct
import sys
from ctypes import c_char, c_int, c_uint32, c_uint64

import pytest

from tests.gpusim.driver_calls import Calls
from tests.gpusim.driver_program import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")


@pytest.fixture(scope="module")
def calls():
    made = Calls("h200", "libnvidia-ml.so.1")
    return made


def test_it_wants_to_be_begun(calls):
    count = c_uint32()
    assert calls("nvmlDeviceGetCount_v2", count) == 1
    assert calls("nvmlShutdown") == 1
    calls.do("nvmlInit_v2")
    calls.do("nvmlInit_v2")
    calls.do("nvmlShutdown")
    calls.do("nvmlDeviceGetCount_v2", count)
    assert count.value == 1
    calls.do("nvmlShutdown")
    assert calls("nvmlDeviceGetCount_v2", count) == 1


@pytest.fixture
def device(calls):
    calls.do("nvmlInit_v2")
    place = c_uint64()
    calls.do("nvmlDeviceGetHandleByIndex_v2", 0, place)
    yield place.value
    calls.do("nvmlShutdown")


def text(calls, name, *arguments, room=96):
    place = (c_char * 96)()
    calls.do(name, *arguments, place, room)
    return place.value.decode()


def number(calls, name, *arguments):
    place = c_uint32()
    code = calls(name, *arguments, place)
    return place.value if code == 0 else f"error {code}"


def test_what_a_device_says(calls, device):
    """As an H200 does, where it is not measured."""
    major, minor = c_int(), c_int()
    calls.do("nvmlDeviceGetCudaComputeCapability", device, major, minor)
    assert (major.value, minor.value) == (9, 0)
    assert number(calls, "nvmlDeviceGetNumGpuCores", device) == 16896
    assert number(calls, "nvmlDeviceGetArchitecture", device) == 9
    assert [number(calls, "nvmlDeviceGetMaxClockInfo", device, kind) for kind in (0, 1, 4)] == [1980, 1980, "error 2"]
    assert number(calls, "nvmlDeviceGetPowerUsage", device) == "error 3"
    assert number(calls, "nvmlDeviceGetTemperature", device, 0) == "error 3"
    assert number(calls, "nvmlDeviceGetNvLinkState", device, 0) == "error 3"
    assert number(calls, "nvmlDeviceGetTopologyCommonAncestor", device, device) == "error 3"
    assert number(calls, "nvmlDeviceGetP2PStatus", device, device, 0) == 5
    running = c_uint32(7)
    calls.do("nvmlDeviceGetComputeRunningProcesses_v3", device, running, None)
    assert running.value == 0
    assert number(calls, "nvmlDeviceGetIndex", device + 1) == "error 2"
    assert number(calls, "nvmlDeviceGetComputeMode", device) == 0
    assert calls("nvmlSystemGetDriverVersion", (c_char * 96)(), 3) == 7


def test_a_device_is_found_by_all_its_names(calls, device):
    uuid = text(calls, "nvmlDeviceGetUUID", device)
    info = (c_char * 68)()
    calls.do("nvmlDeviceGetPciInfo_v3", device, info)
    short, long = info.raw[:16].rstrip(b"\0").decode(), info.raw[36:].rstrip(b"\0").decode()
    found = c_uint64()
    for name, asked in (("UUID", uuid), ("PciBusId", short), ("PciBusId_v2", long)):
        found.value = 0
        calls.do(f"nvmlDeviceGetHandleBy{name}", asked, found)
        assert found.value == device
    assert calls("nvmlDeviceGetHandleByUUID", "GPU-0", found) == 6
    assert calls("nvmlDeviceGetHandleByPciBusId_v2", "0000:FF:1F.0", found) == 6
    assert calls("nvmlDeviceGetHandleByIndex_v2", 1, found) == 2


def test_memory_is_the_drivers(calls, device):
    from gpusim.driver.exports import LIBRARIES
    from gpusim.driver.registry import answer

    before = (c_uint64 * 3)()
    calls.do("nvmlDeviceGetMemoryInfo", device, before)
    place = c_uint64()
    point = LIBRARIES["libcuda.so.1"].point("cuMemAlloc_v2")
    assert answer(calls.driver, point, [ctypes.addressof(place), 1 << 20]) == 0
    after = ctypes.create_string_buffer(struct.pack("<I", 0x2000028), 40)
    calls.do("nvmlDeviceGetMemoryInfo_v2", device, after)
    total, reserved, free, used = struct.unpack_from("<4Q", after, 8)
    assert total == before[0] == calls.driver.config.dram.capacity_bytes and reserved == 0
    assert used - before[2] == 1 << 20 == before[1] - free
    assert calls("nvmlDeviceGetMemoryInfo_v2", device, ctypes.create_string_buffer(40)) == 13


def test_errors_have_texts(calls):
    texts = [ctypes.string_at(calls("nvmlErrorString", code)).decode() for code in (0, 1, 3, 7, 1000)]
    assert texts == ["Success", "Uninitialized", "Not Supported", "Insufficient Size", "Unknown Error"]


def test_it_is_found_as_a_library():
    """By its name, beside the others, by code that knows nothing of this package."""
    run("""
        import ctypes
        library = ctypes.CDLL("libnvidia-ml.so.1")
        count, name = ctypes.c_uint(), ctypes.create_string_buffer(96)
        handle = ctypes.c_void_p()
        assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1
        assert library.nvmlInit_v2() == 0 and library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
        assert library.nvmlDeviceGetName(handle, name, 96) == 0
        assert count.value == 1 and name.value.decode() == driver.config.gpu.name
        library.nvmlErrorString.restype = ctypes.c_char_p
        assert library.nvmlErrorString(6) == b"Not Found"
        runtime = ctypes.CDLL("libcudart.so.13")
        assert runtime.cudaGraphAddMemcpyNode1D and runtime.cudaMemcpyAsync_ptsz
        assert runtime.cudaMallocArray() == 801 and runtime.cudaGetLastError() == 801
    """)
