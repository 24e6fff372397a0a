"""Driver API: copies and fills. They take no simulated time; L2 keeps what it held."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

from gpusim.driver.api_stream import stream_of
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.graphs import COPY, FILL, enqueue
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


def _later(driver: Driver, stream: int, kind: int, work: Callable[[], None]) -> None:
    """Do it as work of a stream."""
    enqueue(driver, stream_of(driver, stream), kind, lambda _: work())


@function("cuMemcpyHtoDAsync_v2", "ppqp")
def to_device_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    _later(driver, stream, COPY, partial(to_device, driver, target, source, nbytes))


@function("cuMemcpyDtoHAsync_v2", "ppqp")
def to_host_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    _later(driver, stream, COPY, partial(to_host, driver, target, source, nbytes))


@function("cuMemcpyDtoDAsync_v2", "ppqp")
def on_device_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    _later(driver, stream, COPY, partial(on_device, driver, target, source, nbytes))


@function("cuMemcpyAsync", "ppqp")
def copy_async(driver: Driver, target: int, source: int, nbytes: int, stream: int) -> None:
    _later(driver, stream, COPY, partial(copy, driver, target, source, nbytes))


_SIDE = ("x", "y", "kind", "host", "device", "array", "pitch")


class _Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D: sixteen words of 64 bits."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (*(f"source_{each}" for each in _SIDE), *(f"target_{each}" for each in _SIDE), "width", "height")
    )


def _copy_2d(driver: Driver, block: _Copy2D) -> None:
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


@function("cuMemcpy2D_v2", "p")
def copy_2d(driver: Driver, request: int) -> None:
    _copy_2d(driver, _Copy2D.from_address(request))


@function("cuMemcpy2DUnaligned_v2", "p")
def copy_2d_unaligned(driver: Driver, request: int) -> None:
    copy_2d(driver, request)


@function("cuMemcpy2DAsync_v2", "pp")
def copy_2d_async(driver: Driver, request: int, stream: int) -> None:
    _later(driver, stream, COPY, partial(_copy_2d, driver, _Copy2D.from_buffer_copy(_Copy2D.from_address(request))))


def _fill(kind: type[np.unsignedinteger], driver: Driver, address: int, value: int, count: int) -> None:
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
) -> None:
    for row in range(height):
        _fill(kind, driver, address + row * pitch, value, width)


def _fill_later(fill: Callable[..., None], driver: Driver, *arguments: int) -> None:
    *what, stream = arguments
    _later(driver, stream, FILL, partial(fill, driver, *what))


for _bits, _letter, _kind in ((8, "b", np.uint8), (16, "s", np.uint16), (32, "u", np.uint32)):
    for _name, _types, _fills in (("D", f"p{_letter}q", _fill), ("D2D", f"pq{_letter}qq", _fill_2d)):
        _now = partial(_fills, _kind)
        function(f"cuMemset{_name}{_bits}_v2", _types)(_now)
        function(f"cuMemset{_name}{_bits}Async", _types + "p")(partial(_fill_later, _now))
