"""Pools, copies of every shape: codes and numbers are those that an H200 gives."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from ctypes import c_int, c_size_t, c_uint32, c_uint64

import pytest

from tests.gpusim.driver_calls import Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
PIECE = 32 << 20


@pytest.fixture(scope="module")
def calls():
    return Calls()


# --- pools ------------------------------------------------------------------------------------------------------------


def usage(calls, pool):
    """Reserved and used bytes, each now and at most."""
    found = []
    for number in (5, 6, 7, 8):
        place = c_uint64()
        calls.do("cuMemPoolGetAttribute", pool, number, place)
        found.append(place.value)
    return found


def test_a_pool_keeps_books(calls):
    pool, stream = calls.handle("cuDeviceGetDefaultMemPool", 0), calls.handle("cuStreamCreate", 1)
    first, second = (calls.handle("cuMemAllocAsync", 1000, stream), calls.handle("cuMemAllocAsync", 5 << 20, stream))
    both = 1000 + (5 << 20)
    assert usage(calls, pool) == [PIECE, PIECE, both, both]
    calls.do("cuMemFreeAsync", first, stream)
    assert usage(calls, pool) == [PIECE, PIECE, 5 << 20, both]
    assert calls("cuMemFreeAsync", first, stream) == 1
    calls.do("cuMemFreeAsync", 0, stream)
    calls.do("cuMemFreeAsync", second, stream)
    assert usage(calls, pool) == [PIECE, PIECE, 0, both]
    calls.do("cuStreamSynchronize", stream)
    assert usage(calls, pool) == [0, PIECE, 0, both]
    for number, value, code in ((6, 5, 1), (8, 5, 1), (5, 0, 1), (7, 0, 1), (9, 0, 1), (6, 0, 0), (8, 0, 0)):
        assert calls("cuMemPoolSetAttribute", pool, number, c_uint64(value)) == code
    assert usage(calls, pool) == [0] * 4
    calls.do("cuMemPoolSetAttribute", pool, 4, c_uint64(1 << 40))  # keeps what is free
    calls.do("cuMemFreeAsync", calls.handle("cuMemAllocAsync", 16, stream), stream)
    calls.do("cuCtxSynchronize")
    assert usage(calls, pool)[0] == PIECE
    calls.do("cuMemPoolTrimTo", pool, 0)
    assert usage(calls, pool)[0] == 0
    calls.do("cuMemPoolSetAttribute", pool, 4, c_uint64(0))
    switch = c_int(7)
    for number in (1, 2, 3):
        calls.do("cuMemPoolSetAttribute", pool, number, c_int(0))
        calls.do("cuMemPoolGetAttribute", pool, number, switch)
        assert switch.value == 0
    assert [calls("cuMemPoolGetAttribute", pool, number, c_uint64()) for number in (-1, 0, 9, 15)] == [1] * 4
    nothing = c_uint64(5)
    calls.do("cuMemAllocAsync", nothing, 0, stream)
    assert nothing.value == 0
    calls.do("cuMemFreeAsync", calls.memory(), stream)
    calls.do("cuMemFree_v2", calls.handle("cuMemAllocAsync", 16, stream))


@pytest.mark.parametrize(
    ("kind", "location", "code"),
    [(1, (1, 0), 0), (0, (1, 0), 1), (1, (0, 0), 1), (1, (1, 5), 1), (2, (1, 0), 801), (1, (2, 0), 801)],
)
def test_pools_of_a_programs_own(calls, kind, location, code):
    properties = struct.pack("<4iQQ", kind, 0, *location, 0, 1 << 21).ljust(88, b"\0")
    made, place = c_uint64(), c_uint64()
    assert calls("cuMemPoolCreate", made, properties) == code
    if code:
        return
    pool, before = made.value, calls.handle("cuDeviceGetMemPool", 0)
    address = calls.handle("cuMemAllocFromPoolAsync", 1 << 20, pool, 0)
    assert calls("cuMemAllocFromPoolAsync", c_uint64(), (1 << 20) + 1, pool, 0) == 2  # more than it may hold
    assert usage(calls, pool) == [PIECE, PIECE, 1 << 20, 1 << 20]
    calls.do("cuPointerGetAttribute", place, 17, address)
    assert place.value == pool
    calls.do("cuDeviceSetMemPool", 0, pool)
    assert calls.handle("cuDeviceGetMemPool", 0) == pool
    calls.do("cuMemPoolDestroy", pool)
    assert calls.handle("cuDeviceGetMemPool", 0) == before and calls("cuMemPoolDestroy", before) == 1
    calls.do("cuMemFreeAsync", address, 0)


# --- copies -----------------------------------------------------------------------------------------------------------


def box(width, height, depth, source, target):
    """CUDA_MEMCPY3D of sides (x, y, z, kind, address, pitch, rows)."""
    words = []
    for x, y, z, kind, address, pitch, rows in (source, target):
        words += [x, y, z, 0, kind, address if kind == 1 else 0, address if kind != 1 else 0, 0, 0, pitch, rows]
    return struct.pack("<25Q", *words, width, height, depth)


def test_boxes_are_copied(calls):
    """Two slices of three rows out of four, on the device, by the driver's structure and by the runtime's."""
    host = (c_uint32 * 64)(*range(64))
    device = calls.memory(64)
    calls.do("cuMemcpyHtoD_v2", device, host, 256)
    expected = [16 * z + 4 * y + x for z in (1, 2) for y in (1, 2, 3) for x in (1, 2)]
    source, target = (4, 1, 1, 2, device, 16, 4), (0, 0, 0, 1, 0, 8, 3)
    got = (c_uint32 * 12)()
    calls.do("cuMemcpy3D_v2", box(8, 3, 2, source, (*target[:4], calls.address(got), *target[5:])))
    assert list(got) == expected
    got = (c_uint32 * 12)()
    sides = (0, 4, 1, 1, device, 16, 16, 4), (0, 0, 0, 0, calls.address(got), 8, 8, 3)
    calls.do("cudaMemcpy3D", struct.pack("<8Q8Q3QQ", *sides[0], *sides[1], 8, 3, 2, 2))
    assert list(got) == expected
    at = calls.address(got)
    for wrong in (
        box(16, 4, 2, (0, 0, 0, 2, device, 8, 4), (0, 0, 0, 1, at, 0, 0)),
        box(16, 4, 2, (0, 0, 0, 2, device, 64, 2), (0, 0, 0, 1, at, 0, 0)),
        box(16, 4, 2, (0, 0, 0, 0, device, 0, 0), (0, 0, 0, 1, at, 0, 0)),
        box(16, 1, 1, (8 << 20, 0, 0, 2, device, 0, 0), (0, 0, 0, 1, at, 0, 0)),
    ):
        assert calls("cuMemcpy3D_v2", wrong) == 1
    assert calls("cuMemcpy3D_v2", box(0, 0, 0, (0, 0, 0, 2, device, 0, 0), (0, 0, 0, 1, at, 0, 0))) == 0
    assert calls("cuMemcpy3D_v2", box(4, 1, 1, (0, 0, 0, 3, device, 0, 0), (0, 0, 0, 1, at, 0, 0))) == 801


def test_every_fill(calls):
    memory = calls.memory(32)
    calls.do("cuMemsetD16_v2", memory, 0x1234, 2)
    calls.do("cuMemsetD2D32_v2", memory + 16, 32, 7, 1, 2)
    calls.do("cudaMemset2DAsync", memory + 64, 16, 0x101, 3, 2, 0)
    words = calls.words(memory, 32)
    assert words[0] == 0x12341234 and words[4] == words[12] == 7 and words[16] == words[20] == 0x010101
    assert sum(map(bool, words)) == 5
    calls.do("cudaMemset3D", (memory, 16, 16, 2), 0xFF, (4, 1, 2))
    assert [k for k, word in enumerate(calls.words(memory, 32)) if word == 0xFFFFFFFF] == [0, 8]
    assert calls("cuMemsetD32_v2", memory + 2, 0, 1) == 1


def test_what_is_freed_how(calls):
    device, pinned = calls.memory(), calls.handle("cuMemAllocHost_v2", 64)
    page = ctypes.addressof(ctypes.create_string_buffer(64))
    assert [calls("cuMemFree_v2", each) for each in (pinned, device + 4, page)] == [1] * 3
    assert [calls("cuMemFreeHost", each) for each in (device, page)] == [1] * 2
    assert calls("cuMemHostRegister_v2", pinned, 64, 0) == 1
    for name, address in (("cuMemFree_v2", device), ("cuMemFreeHost", pinned)):
        assert [calls(name, address), calls(name, address)] == [0, 1]


def test_there_are_no_peers_and_no_other_processes(calls, capfd):
    other = c_uint64()
    assert calls("cuCtxEnablePeerAccess", calls.context, 0) == 217
    assert calls("cuCtxDisablePeerAccess", calls.context) == 705
    assert calls("cuCtxEnablePeerAccess", 0, 0) == 201
    assert calls("cuDeviceGetP2PAttribute", c_int(), 1, 0, 0) == 101
    assert calls("cuIpcGetMemHandle", other, calls.memory()) == 801
    assert calls("cudaIpcOpenMemHandle", other, (0,) * 8, 1) == 801
    assert calls("cudaGetLastError") == 801 and calls("cudaGetLastError") == 0
    assert calls("cudaMallocArray", other) == calls("cuTexObjectCreate", other) == 801
    said = capfd.readouterr().err.splitlines()
    assert [line for line in said if "processes share" in line] == [
        "gpusim: cuIpcGetMemHandle is not supported: "
        "where a program has several GPUs, processes share memory and events (cudaIpc), and nothing else of a device"
    ]
    assert [line for line in said if "arrays" in line] == [
        "gpusim: cudaMallocArray is not supported: CUDA arrays, textures and surfaces are not simulated"
    ]


def test_a_kernel_that_fails_spoils_its_context_until_it_is_reset(capfd):
    calls = Calls()
    address = calls.memory()
    values = calls.parameters(c_uint64(address + 256), c_uint32(1))
    calls.do("cuLaunchKernel", calls.kernel("put"), 1, 1, 1, 1, 1, 1, 0, 0, values, None)
    assert calls("cuMemcpyDtoH_v2", c_uint32(), address, 4) == calls("cuCtxSynchronize") == 700
    assert re.search(r"out of bounds: global write of 4 bytes .*'device allocation 1'", capfd.readouterr().err)
    calls.do("cuDevicePrimaryCtxReset_v2", 0)
    assert calls.memory()


def test_a_failed_allocation_leaves_no_address(calls):
    place = c_uint64(5)
    assert calls("cudaMalloc", place, 1 << 45) == 2 and place.value == 0
    assert calls("cudaMalloc", None, 16) == 1
    assert calls("cudaMemcpy", place, place, 8, 7) == 21
    free, total = c_size_t(), c_size_t()
    calls.do("cudaMemGetInfo", free, total)
    assert 0 < free.value <= total.value
