"""Driver API: copies and fills. They take no simulated time; L2 keeps what it held."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpusim.driver.caller import caller, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.objects import COPY, FILL, DriverStream
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.errors import MemoryAccessError

_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4  # CUmemorytype


def _check_device(driver: Driver, address: int, nbytes: int, written: bool = False) -> None:
    """Raises INVALID_VALUE unless the bytes lie in one allocation of the device. written: they get contents now."""
    memory = driver.device.memory
    try:
        memory.view(address, nbytes) if written else memory.check(address, nbytes)
    except MemoryAccessError as error:
        if nbytes:
            raise DriverError(ResultCode.INVALID_VALUE, str(error)) from None


def on_device(driver: Driver, address: int) -> bool:
    return driver.device.memory.holding(address) is not None


def copy(
    driver: Driver, target: int, source: int, nbytes: int, *, to: bool | None = None, of: bool | None = None
) -> None:
    """Copy bytes. to, of: whether target and source are device addresses, which are checked; None: as they lie."""
    copy_rows(driver, (target, nbytes), (source, nbytes), nbytes, 1, to=to, of=of)


def copy_rows(
    driver: Driver,
    target: tuple[int, int],
    source: tuple[int, int],
    nbytes: int,
    rows: int,
    *,
    to: bool | None = None,
    of: bool | None = None,
) -> None:
    """Copy so many bytes of each of some rows. target, source: first address, and bytes from a row to the next."""
    if not (nbytes and rows):
        return
    for (address, pitch), device, written in ((target, to, True), (source, of, False)):
        fail_if(not address, ResultCode.INVALID_VALUE)
        if on_device(driver, address) if device is None else device:
            _check_device(driver, address, (rows - 1) * pitch + nbytes, written)
    caller().move(target[0], source[0], nbytes, rows, target[1], source[1])
    if driver.observers:
        to = driver.is_device_memory(target[0]) if to is None else to
        of = driver.is_device_memory(source[0]) if of is None else of
        driver.copied(f"{'D' if of else 'H'}to{'D' if to else 'H'}", target[0], source[0], nbytes * rows)


def later(kind: int, do: Callable[..., None]) -> Callable[..., None]:
    """The same as work of a stream, which comes last."""

    def run(driver: Driver, *arguments: Any) -> None:
        *what, stream = arguments
        driver.enqueue(stream, kind, lambda _: do(driver, *what))

    return run


for _name, _suffix, _to, _of in (
    ("cuMemcpyHtoD", "_v2", True, False),
    ("cuMemcpyDtoH", "_v2", False, True),
    ("cuMemcpyDtoD", "_v2", True, True),
    ("cuMemcpy", "", None, None),
):
    _run = partial(copy, to=_to, of=_of)
    entry(f"{_name}{_suffix}", "p p q")(_run)
    entry(f"{_name}Async{_suffix}", "p p q S")(later(COPY, _run))


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
        fail_if(kind == _ARRAY, ResultCode.NOT_SUPPORTED)
        base = getattr(block, side + ("host" if kind == _HOST else "device"))
        device = kind == _DEVICE or (kind == _UNIFIED and on_device(driver, base))
        pitch = pitch or block.width
        return base + getattr(block, side + "y") * pitch + getattr(block, side + "x"), pitch, device

    source, source_pitch, of = start("source_")
    target, target_pitch, to = start("target_")
    copy_rows(driver, (target, target_pitch), (source, source_pitch), block.width, block.height, to=to, of=of)


def _request(address: int) -> _Copy2D:
    return _Copy2D.from_buffer_copy(read(address, ctypes.sizeof(_Copy2D)))


@entry("cuMemcpy2D_v2", "p")
@entry("cuMemcpy2DUnaligned_v2", "p")
def copy_2d(driver: Driver, request: int) -> None:
    _copy_2d(driver, _request(request))


@entry("cuMemcpy2DAsync_v2", "p S")
def copy_2d_async(driver: Driver, request: int, stream: DriverStream) -> None:
    kept = _request(request)  # the caller may change its own before
    driver.enqueue(stream, COPY, lambda _: _copy_2d(driver, kept))


def fill(kind: type[np.unsignedinteger], driver: Driver, address: int, value: int, count: int) -> None:
    fill_2d(kind, driver, address, 0, value, count, 1)


def fill_2d(
    kind: type[np.unsignedinteger], driver: Driver, address: int, pitch: int, value: int, width: int, height: int
) -> None:
    size = np.dtype(kind).itemsize
    for row in range(height):
        start = address + row * pitch
        fail_if(start % size, ResultCode.INVALID_VALUE)
        _check_device(driver, start, width * size)
        if width:
            driver.device.memory.view(start, width * size).view(kind)[...] = value
    if width and height:
        driver.copied("fill", address, value, width * height * size)


for _bits, _letter, _kind in ((8, "b", np.uint8), (16, "h", np.uint16), (32, "u", np.uint32)):
    for _name, _signature, _fills in (("D", f"p {_letter} q", fill), ("D2D", f"p q {_letter} q q", fill_2d)):
        _run = partial(_fills, _kind)
        entry(f"cuMemset{_name}{_bits}_v2", _signature)(_run)
        entry(f"cuMemset{_name}{_bits}Async", f"{_signature} S")(later(FILL, _run))
