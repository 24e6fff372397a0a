"""Runtime API: memory, copies and fills, and the device's variables that the host's stand for."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from gpusim.driver.api import memory as api_memory
from gpusim.driver.api.copy import NO_ARRAYS, MemoryCopy, Sides, both, copy_of_bytes, fill_1d, fill_2d
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


Make = Callable[..., MemoryCopy]
"""A copy, of a driver and what the program says of it."""


def copy_1d(driver: Driver, target: int, source: int, nbytes: int, kind: int) -> MemoryCopy:
    return copy_of_bytes(driver, sides_of(kind), target, source, nbytes)


def _copy_2d(driver: Driver, target: int, target_pitch: int, source: int, source_pitch: int, *rest: int) -> MemoryCopy:
    width, height, kind = rest
    fail_if(width > min(target_pitch, source_pitch), ResultCode.INVALID_PITCH_VALUE)
    return copy_of_bytes(driver, sides_of(kind), target, source, width, height, target_pitch, source_pitch)


_SIDE_WORDS = 8
"""Of a side of cudaMemcpy3DParms: array, x, y, z, and a cudaPitchedPtr: address, pitch, width and height."""


def copy_3d(driver: Driver, address: int) -> MemoryCopy:
    """The copy that a cudaMemcpy3DParms describes: source, target, extent and cudaMemcpyKind."""
    words = struct.unpack(f"<{2 * _SIDE_WORDS + 4}Q", read(address, 8 * (2 * _SIDE_WORDS + 4)))
    source, target, (width, height, depth, kind) = words[:_SIDE_WORDS], words[_SIDE_WORDS:-4], words[-4:]
    made = copy_of_bytes(driver, sides_of(kind), target[4], source[4], width, height, target[5], source[5])
    made.box.depth = depth
    for side, given in ((made.box.source, source), (made.box.target, target)):
        array, side.x, side.y, side.z, *_, side.rows = given
        fail_if(array, ResultCode.NOT_SUPPORTED, NO_ARRAYS)
    return made.checked()


both("cudaMemcpy", "p p q i", copy_1d)
both("cudaMemcpyPeer", "p D p D q", lambda driver, to, _, of, _of, n: copy_of_bytes(driver, (None, None), to, of, n))
both("cudaMemcpy2D", "p q p q q q i", _copy_2d)
both("cudaMemcpy3D", "p", copy_3d)
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
    gpu = driver.gpu_at(address)
    memory_type, device = _MEMORY_TYPES.get(kind or "", 0), gpu.ordinal if kind else _INVALID_DEVICE
    of_device, of_host = (address if kind else 0), (address if kind != DEVICE else 0)
    caller().write(place, struct.pack("<iiQQ8q", memory_type, device, of_device, of_host, *(0,) * 8))
