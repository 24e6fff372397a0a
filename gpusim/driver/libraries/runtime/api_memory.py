"""Runtime API: memory, copies and fills, and the device's variables that the host's stand for."""

from __future__ import annotations

import ctypes
import struct
from functools import partial
from typing import Any

from gpusim.driver.api import memory as api_memory
from gpusim.driver.api.copy import (
    DEVICE_SIDE,
    HOST_SIDE,
    NO_ARRAYS,
    MemoryCopy,
    Sides,
    both,
    copy_of_bytes,
    fill_1d,
    fill_2d,
)
from gpusim.driver.caller import caller, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.objects import DEVICE, HOST, MANAGED, REGISTERED
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import DriverStream

_SIDES: dict[int, Sides] = {0: (False, False), 1: (True, False), 2: (False, True), 3: (True, True), 4: (None, None)}
"""By `cudaMemcpyKind`."""
_MEMORY_TYPES = {HOST: 1, REGISTERED: 1, DEVICE: 2, MANAGED: 3}  # cudaMemoryType; 0 is unregistered
_INVALID_DEVICE = -2

entries(
    ("cudaGetSymbolAddress", "*p p", lambda driver, symbol: driver.variable_of(symbol)[0]),
    ("cudaGetSymbolSize", "*p p", lambda driver, symbol: driver.variable_of(symbol)[1]),
    ("cudaDeviceFlushGPUDirectRDMAWrites", "(ii)", nothing),
    ("cudaFree", "p", lambda driver, address: api_memory.free(driver, address, DEVICE, MANAGED)),
)


@entry("cudaMalloc", "p q")
def malloc(driver: Driver, place: int, nbytes: int) -> None:
    """Nothing has no address, nor has what there is no room for."""
    fail_if(not place, ResultCode.INVALID_VALUE)
    put_pointer(place, 0)
    put_pointer(place, api_memory.allocate(driver, nbytes) if nbytes else 0)


@entry("cudaMallocPitch", "*p *p q q")
def malloc_pitch(driver: Driver, width: int, height: int) -> tuple[int, int]:
    return api_memory.allocate_pitch(driver, width, height) if width and height else (0, 0)


@entry("cudaMalloc3D", "p Y")
def malloc_3d(driver: Driver, place: int, extent: tuple[int, int, int]) -> None:
    """place: a cudaPitchedPtr."""
    width, height, depth = extent
    address, pitch = malloc_pitch(driver, width, height * depth)
    caller().write(place, struct.pack("<4Q", address, pitch, width, height))


# --- copies and fills -------------------------------------------------------------------------------------------------


def sides_of(kind: int) -> Sides:
    """Of a `cudaMemcpyKind`. Raises INVALID_MEMCPY_DIRECTION."""
    fail_if(kind not in _SIDES, ResultCode.INVALID_MEMCPY_DIRECTION)
    return _SIDES[kind]


def copy_1d(driver: Driver, target: int, source: int, nbytes: int, kind: int) -> MemoryCopy:
    return copy_of_bytes(driver, sides_of(kind), target, source, nbytes)


def _copy_2d(driver: Driver, target: int, target_pitch: int, source: int, source_pitch: int, *rest: int) -> MemoryCopy:
    width, height, kind = rest
    fail_if(width > min(target_pitch, source_pitch), ResultCode.INVALID_PITCH_VALUE)
    return copy_of_bytes(driver, sides_of(kind), target, source, width, height, target_pitch, source_pitch)


_SIDE = tuple((name, ctypes.c_uint64) for name in ("array", "x", "y", "z", "address", "pitch", "columns", "rows"))


class _Side(ctypes.Structure):
    """An array, a position, and a pointer with its pitch and the size of a slice."""

    _fields_ = _SIDE


class _Copy3D(ctypes.Structure):
    """cudaMemcpy3DParms; that of cudaMemcpy3DPeer names a device behind each side."""

    _fields_ = (
        ("source", _Side),
        ("target", _Side),
        ("extent", ctypes.c_uint64 * 3),
        ("kind", ctypes.c_uint64),
    )


def copy_3d(driver: Driver, address: int) -> MemoryCopy:
    """The copy that a cudaMemcpy3DParms describes."""
    given = _Copy3D.from_buffer_copy(read(address, ctypes.sizeof(_Copy3D)))
    return _copy_box(driver, given.source, given.target, given.extent, sides_of(given.kind))


def _copy_box(driver: Driver, source: Any, target: Any, extent: Any, sides: Sides) -> MemoryCopy:
    width, height, depth = extent
    made = copy_of_bytes(driver, sides, target.address, source.address, width, height, target.pitch, source.pitch)
    made.box.depth = depth
    for side, given in ((made.box.source, source), (made.box.target, target)):
        fail_if(given.array, ResultCode.NOT_SUPPORTED, NO_ARRAYS)
        side.x, side.y, side.z, side.rows = given.x, given.y, given.z, given.rows
    return made.checked()


def _copy_3d_peer(driver: Driver, address: int) -> MemoryCopy:
    side = ctypes.sizeof(_Side)
    source, target = (_Side.from_buffer_copy(read(address + k * (side + 8), side)) for k in (0, 1))
    extent = struct.unpack("<3Q", read(address + 2 * (side + 8), 24))
    return _copy_box(driver, source, target, extent, (None, None))


def copy_3d_bytes(work: MemoryCopy) -> bytes:
    """cudaMemcpy3DParms of a copy."""
    made, kinds = _Copy3D(), []
    box = work.box
    made.extent[:] = box.width, box.height, box.depth
    for side, given in ((made.target, box.target), (made.source, box.source)):
        host = given.kind == HOST_SIDE
        kinds.append(False if host else True if given.kind == DEVICE_SIDE else None)
        side.address = given.host if host else given.device
        side.x, side.y, side.z, side.pitch, side.rows = given.x, given.y, given.z, given.pitch, given.rows
    made.kind = next((kind for kind, sides in _SIDES.items() if sides == tuple(kinds)), 4)
    return bytes(made)


both("cudaMemcpy", "p p q i", copy_1d)
both("cudaMemcpyPeer", "p D p D q", lambda driver, to, _, of, _of, n: copy_of_bytes(driver, (None, None), to, of, n))
both("cudaMemcpy2D", "p q p q q q i", _copy_2d)
both("cudaMemcpy3D", "p", copy_3d)
both("cudaMemcpy3DPeer", "p", _copy_3d_peer)
both("cudaMemset", "p i q", partial(fill_1d, 1))
both("cudaMemset2D", "p q i q q", partial(fill_2d, 1))


@entry("cudaMemset3D", "Z i Y")
@entry("cudaMemset3DAsync", "Z i Y S")
def memset_3d(
    driver: Driver,
    pitched: tuple[int, int, int, int],
    value: int,
    extent: tuple[int, int, int],
    stream: DriverStream | None = None,
) -> None:
    """A fill for each slice."""
    address, pitch, _, rows = pitched
    width, height, depth = extent
    for z in range(depth):
        work = fill_2d(1, driver, address + z * pitch * rows, pitch, value, width, height)
        driver.enqueue(stream, work) if stream else driver.do_now(work)


def copy_to_symbol(driver: Driver, symbol: int, source: int, nbytes: int, offset: int, kind: int) -> MemoryCopy:
    return copy_1d(driver, _in_symbol(driver, symbol, nbytes, offset), source, nbytes, kind)


def copy_from_symbol(driver: Driver, target: int, symbol: int, nbytes: int, offset: int, kind: int) -> MemoryCopy:
    return copy_1d(driver, target, _in_symbol(driver, symbol, nbytes, offset), nbytes, kind)


both("cudaMemcpyToSymbol", "p p q q i", copy_to_symbol)
both("cudaMemcpyFromSymbol", "p p q q i", copy_from_symbol)


def _in_symbol(driver: Driver, symbol: int, nbytes: int, offset: int) -> int:
    address, size = driver.variable_of(symbol)
    fail_if(offset + nbytes > size, ResultCode.INVALID_VALUE)
    return address + offset


@entry("cudaPointerGetAttributes", "p p")
def pointer_attributes(driver: Driver, place: int, address: int) -> None:
    """cudaPointerAttributes: type, device, and the address on the device and on the host."""
    buffer = driver.buffer_at(address)
    kind = buffer.kind if buffer else DEVICE if driver.device.memory.holding(address) else None
    memory_type, device = _MEMORY_TYPES.get(kind or "", 0), 0 if kind else _INVALID_DEVICE
    of_device, of_host = (address if kind else 0), (address if kind != DEVICE else 0)
    caller().write(place, struct.pack("<iiQQ8q", memory_type, device, of_device, of_host, *(0,) * 8))
