"""Runtime API: memory, copies and fills, and the device's variables that the host's stand for."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from gpusim.driver import api_memory
from gpusim.driver.api_copy import copy, copy_rows, fill, fill_2d
from gpusim.driver.caller import caller, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.objects import COPY, DEVICE, FILL, HOST, MANAGED, REGISTERED, DriverStream
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver

_SIDES: dict[int, tuple[bool | None, bool | None]] = {
    0: (False, False),
    1: (True, False),
    2: (False, True),
    3: (True, True),
    4: (None, None),
}
"""Whether target and source are on the device, by `cudaMemcpyKind`; None: as they lie."""
_MEMORY_TYPES = {HOST: 1, REGISTERED: 1, DEVICE: 2, MANAGED: 3}  # cudaMemoryType; 0 is unregistered
_INVALID_DEVICE = -2
_PITCH_BYTES = 512

entries(
    ("cudaMemPrefetchAsync", "p q (quS)", lambda driver, address, nbytes: _known(driver, address, nbytes)),
    ("cudaMemPrefetchAsync@12", "p q (iS)", lambda driver, address, nbytes: _known(driver, address, nbytes)),
    ("cudaMemPrefetchAsync_v2", "p q (quS)", lambda driver, address, nbytes: _known(driver, address, nbytes)),
    ("cudaMemAdvise", "p q (iq)", lambda driver, address, nbytes: _known(driver, address, nbytes)),
    ("cudaMemAdvise@12", "p q (ii)", lambda driver, address, nbytes: _known(driver, address, nbytes)),
    ("cudaMemAdvise_v2", "p q (iq)", lambda driver, address, nbytes: _known(driver, address, nbytes)),
    ("cudaGetSymbolAddress", "*p p", lambda driver, symbol: driver.variable_of(symbol)[0]),
    ("cudaGetSymbolSize", "*p p", lambda driver, symbol: driver.variable_of(symbol)[1]),
    ("cudaDeviceFlushGPUDirectRDMAWrites", "(ii)", nothing),
)


def _known(driver: Driver, address: int, nbytes: int) -> None:
    """Managed memory lies in device memory already, and advice changes nothing that is modelled."""
    buffer = driver.buffer_at(address)
    fail_if(not nbytes or buffer is None or buffer.kind not in (MANAGED, DEVICE), ResultCode.INVALID_VALUE)


@entry("cudaMalloc", "*p q")
def malloc(driver: Driver, nbytes: int) -> int:
    """Nothing has no address."""
    return driver.allocate(nbytes, DEVICE) if nbytes else 0


@entry("cudaMallocManaged", "*p q u")
def malloc_managed(driver: Driver, nbytes: int, flags: int) -> int:
    return api_memory.allocate_managed(driver, nbytes, flags)


@entry("cudaMallocPitch", "*p *p q q")
def malloc_pitch(driver: Driver, width: int, height: int) -> tuple[int, int]:
    return api_memory.allocate_pitch(driver, width, height) if width and height else (0, 0)


@entry("cudaMalloc3D", "p Y")
def malloc_3d(driver: Driver, place: int, extent: tuple[int, int, int]) -> None:
    """place: a cudaPitchedPtr."""
    width, height, depth = extent
    address, pitch = malloc_pitch(driver, width, height * depth)
    caller().write(place, struct.pack("<4Q", address, pitch, width, height))


@entry("cudaFree", "p")
def free(driver: Driver, address: int) -> None:
    api_memory.free(driver, address)


# --- copies and fills -------------------------------------------------------------------------------------------------


def _sides(kind: int) -> dict[str, bool | None]:
    fail_if(kind not in _SIDES, ResultCode.INVALID_MEMCPY_DIRECTION)
    to, of = _SIDES[kind]
    return {"to": to, "of": of}


@entry("cudaMemcpy", "p p q i")
@entry("cudaMemcpyAsync", "p p q i S")
def memcpy(
    driver: Driver, target: int, source: int, nbytes: int, kind: int, stream: DriverStream | None = None
) -> None:
    sides = _sides(kind)
    _enqueue(driver, stream, COPY, lambda: copy(driver, target, source, nbytes, **sides))


@entry("cudaMemcpyPeer", "p D p D q")
@entry("cudaMemcpyPeerAsync", "p D p D q S")
def memcpy_peer(
    driver: Driver, target: int, to: int, source: int, of: int, nbytes: int, stream: DriverStream | None = None
) -> None:
    memcpy(driver, target, source, nbytes, 4, stream)


def _enqueue(driver: Driver, stream: DriverStream | None, kind: int, work: Any) -> None:
    driver.enqueue(stream or driver.stream_of(0), kind, lambda _: work())


@entry("cudaMemcpy2D", "p q p q q q i")
@entry("cudaMemcpy2DAsync", "p q p q q q i S")
def memcpy_2d(driver: Driver, *described: Any) -> None:
    target, target_pitch, source, source_pitch, width, height, kind = described[:7]
    fail_if(width > min(target_pitch, source_pitch), ResultCode.INVALID_PITCH_VALUE)
    sides = _sides(kind)
    stream = described[7] if len(described) > 7 else None
    to, of = (target, target_pitch), (source, source_pitch)
    _enqueue(driver, stream, COPY, lambda: copy_rows(driver, to, of, width, height, **sides))


class _Copy3D(ctypes.Structure):
    """cudaMemcpy3DParms: each side an array, a position, and a pointer with its pitch and the size of a slice."""

    _fields_ = (
        ("source", ctypes.c_uint64 * 8),
        ("target", ctypes.c_uint64 * 8),
        ("extent", ctypes.c_uint64 * 3),
        ("kind", ctypes.c_uint64),
    )


@entry("cudaMemcpy3D", "p")
@entry("cudaMemcpy3DAsync", "p S")
def memcpy_3d(driver: Driver, request: int, stream: DriverStream | None = None) -> None:
    given = _Copy3D.from_buffer_copy(read(request, ctypes.sizeof(_Copy3D)))
    sides = _sides(given.kind)
    width, height, depth = given.extent

    def start(side: Any) -> tuple[int, int, int]:
        """First address, bytes of a row, bytes of a slice."""
        array, x, y, z, address, pitch, _, rows = side
        fail_if(array, ResultCode.NOT_SUPPORTED, "CUDA arrays are not simulated")
        return address + x + pitch * (y + rows * z), pitch, pitch * rows

    target, source = start(given.target), start(given.source)

    def work() -> None:
        for z in range(depth):
            to, of = ((first + z * slice_bytes, pitch) for first, pitch, slice_bytes in (target, source))
            copy_rows(driver, to, of, width, height, **sides)

    _enqueue(driver, stream, COPY, work)


@entry("cudaMemset", "p i q")
@entry("cudaMemsetAsync", "p i q S")
def memset(driver: Driver, address: int, value: int, nbytes: int, stream: DriverStream | None = None) -> None:
    _enqueue(driver, stream, FILL, lambda: fill(np.uint8, driver, address, value & 0xFF, nbytes))


@entry("cudaMemset2D", "p q i q q")
@entry("cudaMemset2DAsync", "p q i q q S")
def memset_2d(
    driver: Driver, address: int, pitch: int, value: int, width: int, height: int, stream: DriverStream | None = None
) -> None:
    where = address, pitch, value & 0xFF, width, height
    _enqueue(driver, stream, FILL, lambda: fill_2d(np.uint8, driver, *where))


@entry("cudaMemset3D", "Z i Y")
@entry("cudaMemset3DAsync", "Z i Y S")
def memset_3d(
    driver: Driver,
    pitched: tuple[int, int, int, int],
    value: int,
    extent: tuple[int, int, int],
    stream: DriverStream | None = None,
) -> None:
    address, pitch, _, rows = pitched
    width, height, depth = extent

    def work() -> None:
        for z in range(depth):
            fill_2d(np.uint8, driver, address + z * pitch * rows, pitch, value & 0xFF, width, height)

    _enqueue(driver, stream, FILL, work)


@entry("cudaMemcpyToSymbol", "p p q q i")
@entry("cudaMemcpyToSymbolAsync", "p p q q i S")
def memcpy_to_symbol(
    driver: Driver, symbol: int, source: int, nbytes: int, offset: int, kind: int, stream: DriverStream | None = None
) -> None:
    memcpy(driver, _in_symbol(driver, symbol, nbytes, offset), source, nbytes, kind, stream)


@entry("cudaMemcpyFromSymbol", "p p q q i")
@entry("cudaMemcpyFromSymbolAsync", "p p q q i S")
def memcpy_from_symbol(
    driver: Driver, target: int, symbol: int, nbytes: int, offset: int, kind: int, stream: DriverStream | None = None
) -> None:
    memcpy(driver, target, _in_symbol(driver, symbol, nbytes, offset), nbytes, kind, stream)


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
