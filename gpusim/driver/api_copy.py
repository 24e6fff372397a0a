"""Driver API: copies and fills. They take no simulated time; L2 keeps what it held."""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np

from gpusim.driver.codes import Code, DriverError
from gpusim.driver.registry import function
from gpusim.driver.state import Driver
from gpusim.errors import MemoryAccessError

_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4  # CUmemorytype


def _check_device(driver: Driver, address: int, nbytes: int) -> None:
    """Raises INVALID_VALUE unless the bytes lie in one allocation of the device."""
    try:
        driver.device.memory.check(address, nbytes)
    except MemoryAccessError as error:
        if nbytes:
            driver.say(str(error))
            raise DriverError(Code.INVALID_VALUE) from None


def _copy(driver: Driver, target: int, source: int, nbytes: int, *, to: bool, of: bool) -> None:
    """Copy bytes. to, of: whether target and source are device addresses, which are checked."""
    if to:
        _check_device(driver, target, nbytes)
    if of:
        _check_device(driver, source, nbytes)
    if nbytes and not (target and source):
        raise DriverError(Code.INVALID_VALUE)
    ctypes.memmove(target, source, nbytes)


@function("cuMemcpyHtoD_v2", "ppq")
def to_device(driver: Driver, target: int, source: int, nbytes: int) -> None:
    _copy(driver, target, source, nbytes, to=True, of=False)


@function("cuMemcpyDtoH_v2", "ppq")
def to_host(driver: Driver, target: int, source: int, nbytes: int) -> None:
    _copy(driver, target, source, nbytes, to=False, of=True)


@function("cuMemcpyDtoD_v2", "ppq")
def on_device(driver: Driver, target: int, source: int, nbytes: int) -> None:
    _copy(driver, target, source, nbytes, to=True, of=True)


@function("cuMemcpy", "ppq")
def copy(driver: Driver, target: int, source: int, nbytes: int) -> None:
    memory = driver.device.memory
    known = [memory.holding(address) is not None for address in (target, source)]
    _copy(driver, target, source, nbytes, to=known[0], of=known[1])


@function("cuMemcpyHtoDAsync_v2", "ppqp")
def to_device_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    to_device(driver, target, source, nbytes)


@function("cuMemcpyDtoHAsync_v2", "ppqp")
def to_host_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    to_host(driver, target, source, nbytes)


@function("cuMemcpyDtoDAsync_v2", "ppqp")
def on_device_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    on_device(driver, target, source, nbytes)


@function("cuMemcpyAsync", "ppqp")
def copy_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    copy(driver, target, source, nbytes)


_SIDE = ("x", "y", "kind", "host", "device", "array", "pitch")


class _Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D: sixteen words of 64 bits."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (*(f"source_{each}" for each in _SIDE), *(f"target_{each}" for each in _SIDE), "width", "height")
    )


def _copy_2d(driver: Driver, request: int, stream: int = 0) -> None:
    block = _Copy2D.from_address(request)

    def start(side: str) -> tuple[int, int, bool]:
        kind, pitch = getattr(block, side + "kind") & 0xFFFFFFFF, getattr(block, side + "pitch")
        if kind == _ARRAY:
            raise DriverError(Code.NOT_SUPPORTED)
        base = getattr(block, side + ("host" if kind == _HOST else "device"))
        device = kind == _DEVICE or (kind == _UNIFIED and driver.device.memory.holding(base) is not None)
        pitch = pitch or block.width
        return base + getattr(block, side + "y") * pitch + getattr(block, side + "x"), pitch, device

    source, source_pitch, of = start("source_")
    target, target_pitch, to = start("target_")
    for row in range(block.height):
        _copy(driver, target + row * target_pitch, source + row * source_pitch, block.width, to=to, of=of)


function("cuMemcpy2D_v2", "p")(_copy_2d)
function("cuMemcpy2DUnaligned_v2", "p")(_copy_2d)
function("cuMemcpy2DAsync_v2", "pp")(_copy_2d)


def _fill(
    kind: type[np.unsignedinteger], driver: Driver, address: int, value: int, count: int, stream: int = 0
) -> None:
    size = np.dtype(kind).itemsize
    if address % size:
        raise DriverError(Code.INVALID_VALUE)
    _check_device(driver, address, count * size)
    if count:
        driver.device.memory.view(address, count * size).view(kind)[...] = value


def _fill_2d(
    kind: type[np.unsignedinteger],
    driver: Driver,
    address: int,
    pitch: int,
    value: int,
    width: int,
    height: int,
    stream: int = 0,
) -> None:
    for row in range(height):
        _fill(kind, driver, address + row * pitch, value, width)


for _bits, _letter, _kind in ((8, "b", np.uint8), (16, "s", np.uint16), (32, "u", np.uint32)):
    function(f"cuMemsetD{_bits}_v2", f"p{_letter}q")(partial(_fill, _kind))
    function(f"cuMemsetD{_bits}Async", f"p{_letter}qp")(partial(_fill, _kind))
    function(f"cuMemsetD2D{_bits}_v2", f"pq{_letter}qq")(partial(_fill_2d, _kind))
    function(f"cuMemsetD2D{_bits}Async", f"pq{_letter}qqp")(partial(_fill_2d, _kind))
