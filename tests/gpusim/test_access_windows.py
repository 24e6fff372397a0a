"""Windows and policies from the program to L2: `gpusim.Device`, the driver's limits and attributes, SASS."""

from __future__ import annotations

import struct
import sys
from ctypes import c_uint64

import numpy as np
import pytest

import gpusim
from gpusim.driver.work.launches import Observer
from gpusim.launch.launch import AccessWindow
from programs import registry
from tests.gpusim import bundled
from tests.gpusim.driver_calls import Calls
from tests.gpusim.kernels import Kernels

KERNELS = Kernels(
    r"""
typedef unsigned long long u64;
extern "C" __global__ void slide(const int *hot, int words, const int *stream, int *out, u64 hot_policy,
                                 u64 stream_policy) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, a, b;
    asm volatile("ld.global.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(a) : "l"(hot + i % words), "l"(hot_policy));
    asm volatile("ld.global.L2::cache_hint.s32 %0, [%1], %2;" : "=r"(b) : "l"(stream + i), "l"(stream_policy));
    if (a + b == 12345) out[0] = a;
}
extern "C" __global__ void plain(const int *hot, int words, const int *stream, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (hot[i % words] + stream[i] == 12345) out[0] = i;
}
extern "C" __global__ void make(u64 *out) {
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, 1.0;" : "=l"(out[0]));
    asm volatile("createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(out[1]));
}
""",
    "sm_90",
)
HOT, STREAM = 15_000, 100_000  # words: 60 KB and 400 KB on a machine with 128 KB of L2
READ = "dram__bytes_read.sum"


@pytest.fixture
def device():
    with gpusim.Device("tiny", overrides={"l2.bytes": 1 << 17}) as device:
        yield device


def read_bytes(device, program, *policies):
    """Bytes from memory of the second of two equal launches."""
    hot, stream, out = (device.device_array(words, np.int32) for words in (HOT, STREAM, 1))
    if not policies:
        device.access_policy(hot)
    for _ in range(2):
        arguments = (hot, np.int32(HOT), stream, out, *(np.uint64(each) for each in policies))
        result = device.launch(program, STREAM // 1024, 1024, arguments[: len(program.parameters)])
    return result.metrics[READ]


def test_policies_of_loads_and_a_window_keep_the_same(device):
    """The hot array stays while an array of three times L2 goes through: of it alone is read from memory."""
    words = device.device_array(2, np.uint64)
    device.launch(KERNELS["make"], 1, 1, (words,))
    last, first = (int(each) for each in words.copy_to_host())
    assert (last, first) == (0x15F << 52, 0x12F << 52)
    device.set_aside_l2(device.config.l2.persisting_max_bytes)
    streamed = 4 * STREAM // 1024 * 1024
    hinted = read_bytes(device, KERNELS["slide"], last, first)
    assert hinted == pytest.approx(streamed, rel=0.03)
    device.reset_persisting()
    assert read_bytes(device, KERNELS["plain"]) == pytest.approx(streamed, rel=0.03)
    device.access_policy(None)
    device.reset_persisting()
    assert read_bytes(device, KERNELS["slide"], 0, 0) > 1.1 * streamed


class Windows(Observer):
    """Windows of launches, in order."""

    def __init__(self) -> None:
        self.seen: list[AccessWindow | None] = []

    def launching(self, call, cycle) -> None:
        self.seen.append(call.window)


@pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
def test_a_launch_has_its_own_window_or_its_streams():
    calls = Calls("h200")
    windows = Windows()
    calls.driver.observers.append(windows)
    kernel, memory, stream = calls.kernel("put"), calls.memory(), calls.handle("cuStreamCreate", 1)
    values = calls.parameters(struct.pack("<Q", memory), struct.pack("<I", 1))
    window = struct.pack("<QQfii", memory, 256, 0.5, 2, 1)
    attribute = struct.pack("<i4x64s", 1, struct.pack("<QQfii", memory, 128, 1.0, 0, 0))

    def launch(where: int) -> None:
        calls.do("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, where, values, None)

    launch(stream)
    calls.do("cuStreamSetAttribute", stream, 1, window.ljust(64, b"\0"))
    launch(stream)
    launch(0)
    config = struct.pack("<7I4xQQI", 1, 1, 1, 1, 1, 1, 0, stream, calls.address(attribute), 1)
    calls.do("cuLaunchKernelEx", config, kernel, values, None)
    calls.do("cuStreamSetAttribute", stream, 1, bytes(64))
    launch(stream)
    whole = AccessWindow(memory, 256, 0.5, "persisting", "streaming")
    assert windows.seen == [None, whole, None, AccessWindow(memory, 128, 1.0, "normal", "normal"), None]
    wrong = struct.pack("<QQfii", memory, 256, 1.5, 2, 1).ljust(64, b"\0")
    assert calls("cuStreamSetAttribute", stream, 1, wrong) == 1
    calls.do("cuCtxResetPersistingL2Cache")

    calls.do("cuStreamSetAttribute", stream, 1, window.ljust(64, b"\0"))  # kernels of graphs keep it
    calls.do("cuStreamBeginCapture_v2", stream, 0)
    launch(stream)
    graph = c_uint64()
    calls.do("cuStreamEndCapture", stream, graph)
    calls.do("cuGraphLaunch", calls.handle("cuGraphInstantiateWithFlags", graph.value, 0), 0)
    assert windows.seen[5:] == [whole]


def test_the_program_loses_its_table_keeps_a_quarter_or_all():
    hits = []
    for variant in registry.families()["persisting"]:
        result = bundled.checked(variant.name, size=variant.default_size)
        read = result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"]
        hits.append(result.metrics["lts__t_sectors_srcunit_tex_lookup_hit.sum"] / read)
    # The table is a third of what is read, and three of four rounds find what is kept.
    assert max(hits[:2]) < 0.01 and 0.8 < hits[2] / (0.25 / 4) < 1 and hits[3] == pytest.approx(0.25, abs=0.01)
