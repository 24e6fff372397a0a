"""Driver API: memory of all kinds, and what is known about an address."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from gpusim.driver.caller import caller, get_pointer, get_uint
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import DEVICE, HOST, MANAGED, REGISTERED, Buffer, MemoryPool
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import NO_ORIGIN, DriverStream, SimpleWork

_PITCH_BYTES = 512
_NOT_OF_GRAPHS = "graphs allocate no memory: allocate it before the capture"
_MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP, which unified addressing sets always
_POINTER_KINDS = {HOST: 1, REGISTERED: 1, DEVICE: 2, MANAGED: 2}  # CUmemorytype
_SYNCHRONOUS, _IS_MANAGED, _DEVICE_ORDINAL = 6, 8, 9
_ATTRIBUTE_TYPES: dict[int, Any] = dict.fromkeys((1, 3, 4, 7, 11, 12, 14, 17, 18, 19, 20), ctypes.c_uint64)
"""Types of `CUpointer_attribute` by number; the others are 32-bit integers."""

entries(
    ("cuMemAlloc_v2", "*p q", lambda driver, nbytes: allocate(driver, nbytes)),
    ("cuMemAllocAsync", "*p q S", lambda driver, nbytes, *into: _from_pool(driver, nbytes, driver.gpu.pool, *into)),
    ("cuMemAllocFromPoolAsync", "*p q P S", lambda *given: _from_pool(*given)),
    ("cuPointerGetAttribute", "p i p", lambda driver, at, n, of: _put_attribute(at, n, _attribute(driver, n, of))),
    ("cuMemAllocHost_v2", "*p q", lambda driver, nbytes: allocate(driver, nbytes, HOST)),
    ("cuMemHostRegister_v2", "p q u", Driver.register),
    ("cuMemFree_v2", "p", lambda driver, address: free(driver, address, DEVICE, MANAGED)),
    ("cuMemFreeHost", "p", lambda driver, address: free(driver, address, HOST)),
)


def allocate(driver: Driver, nbytes: int, kind: str = DEVICE) -> int:
    """Address of new memory. Raises INVALID_VALUE, OUT_OF_MEMORY, STREAM_CAPTURE_UNSUPPORTED."""
    driver.not_in_captures()
    return driver.allocate(nbytes, kind)


@entry("cuMemGetInfo_v2", "*p *p")
def info(driver: Driver) -> tuple[int, int]:
    """Free and total bytes."""
    total = driver.config.dram.capacity_bytes
    return total - driver.device.memory.used_bytes, total


def _from_pool(driver: Driver, nbytes: int, pool: MemoryPool, stream: DriverStream) -> int:
    """Nothing has no address."""
    fail_if(stream.capture is not None, ResultCode.NOT_SUPPORTED, _NOT_OF_GRAPHS)
    if stream.handle in NO_ORIGIN:
        driver.not_in_captures()
    if not nbytes:
        return 0
    try:
        address = driver.allocate(nbytes, DEVICE, pool=pool)
    except DriverError as error:
        if error.code != ResultCode.OUT_OF_MEMORY:
            raise
        driver.wait_for_all(driver.gpu)  # for what streams will free
        address = driver.allocate(nbytes, DEVICE, pool=pool)
    driver.do(stream, _in_order(lambda: None))
    return address


def _in_order(effect: Callable[[], object]) -> SimpleWork:
    """Something that takes no time, when a stream has come to it."""
    return SimpleWork(lambda stream, queues: queues.then(stream, effect))


@entry("cuMemAllocPitch_v2", "*p *p q q (u)")
def allocate_pitch(driver: Driver, width: int, height: int) -> tuple[int, int]:
    """Address and bytes of a row."""
    row = -(-width // _PITCH_BYTES) * _PITCH_BYTES
    return allocate(driver, row * height), row


def free(driver: Driver, address: int, *kinds: str) -> None:
    """Free an allocation of one of these kinds. Raises INVALID_VALUE, STREAM_CAPTURE_UNSUPPORTED."""
    driver.not_in_captures()
    if address:
        buffer = _allocated(driver, address, *kinds)
        driver.wait_for_all(buffer.context.gpu)
        driver.free(buffer)


def _allocated(driver: Driver, address: int, *kinds: str) -> Buffer:
    """The process's allocation of one of these kinds that begins there, and that no stream will free. Raises
    INVALID_VALUE."""
    buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
    wrong = buffer.address != address or buffer.kind not in kinds or buffer.ending or buffer.opened
    fail_if(wrong, ResultCode.INVALID_VALUE)
    return buffer


@entry("cuMemFreeAsync", "p S")
def free_async(driver: Driver, address: int, stream: DriverStream) -> None:
    fail_if(stream.capture is not None, ResultCode.NOT_SUPPORTED, _NOT_OF_GRAPHS)
    if address:
        buffer = _allocated(driver, address, DEVICE, MANAGED)
        buffer.ending = True
        driver.do(stream, _in_order(partial(driver.free, buffer)))


@entry("cuMemAllocManaged", "*p q u")
def allocate_managed(driver: Driver, nbytes: int, flags: int) -> int:
    driver.not_in_captures()
    fail_if(flags not in (1, 2), ResultCode.INVALID_VALUE)  # global or host
    return driver.allocate(nbytes, MANAGED, flags)


@entry("cuMemHostAlloc", "*p q u")
def host_alloc(driver: Driver, nbytes: int, flags: int) -> int:
    fail_if(flags & ~7, ResultCode.INVALID_VALUE)
    return driver.allocate(nbytes, HOST, flags)


@entry("cuMemHostGetFlags", "*i p")
def host_flags(driver: Driver, address: int) -> int:
    buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
    fail_if(buffer.kind == DEVICE, ResultCode.INVALID_VALUE)
    return _MAPPED if buffer.kind == MANAGED else buffer.flags | _MAPPED


@entry("cuMemHostUnregister", "p")
def host_unregister(driver: Driver, address: int) -> None:
    buffer = known(driver.buffer_at(address), ResultCode.HOST_MEMORY_NOT_REGISTERED)
    fail_if(buffer.kind != REGISTERED or buffer.address != address, ResultCode.INVALID_VALUE)
    driver.free(buffer)


@entry("cuMemHostGetDevicePointer_v2", "*p p (u)")
def host_get_device_pointer(driver: Driver, address: int) -> int:
    buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
    fail_if(buffer.kind not in (HOST, REGISTERED), ResultCode.INVALID_VALUE)
    message = "this registered memory lies where the simulated device cannot reach it; use cuMemHostAlloc"
    fail_if(not buffer.visible, ResultCode.NOT_SUPPORTED, message)
    return address


@entry("cuMemGetAddressRange_v2", "*p *p p")
def address_range(driver: Driver, address: int) -> tuple[int, int]:
    buffer = driver.buffer_at(address)  # of the host's memory, what lies below the device's has no other record
    found = buffer or known(driver.device.memory.holding(address), ResultCode.NOT_FOUND)
    return found.address, found.nbytes


def _attribute(driver: Driver, number: int, address: int) -> int:
    """One attribute of `CUpointer_attribute`. Raises INVALID_VALUE."""
    buffer = driver.buffer_at(address)
    if buffer is None:  # a module's variable is memory too
        allocation = known(driver.device.memory.holding(address), ResultCode.INVALID_VALUE)
        buffer = Buffer(driver.context(), allocation.address, allocation.nbytes, DEVICE, 0, 0)
    gpu = driver.gpu_at(address)
    pool, on_device = buffer.pool, buffer.kind in (DEVICE, MANAGED)
    values = {1: 0 if pool else buffer.context.handle, 3: address, 4: address, 7: buffer.number, 20: buffer.number}
    values |= {11: buffer.address, 12: buffer.nbytes, 17: pool.handle if pool else 0}
    values |= {2: _POINTER_KINDS[buffer.kind], _SYNCHRONOUS: on_device, 10: 0, 13: 1, 14: 0, 15: 0, 16: 3, 21: 0}
    values |= {18: buffer.nbytes, 19: buffer.address, _IS_MANAGED: buffer.kind == MANAGED, _DEVICE_ORDINAL: gpu.ordinal}
    fail_if(number not in values or (number == 4 and buffer.kind == DEVICE), ResultCode.INVALID_VALUE)
    return values[number]


@entry("cuPointerSetAttribute", "p i p")
def set_attribute(driver: Driver, value: int, number: int, address: int) -> None:
    """Copies are synchronous anyway."""
    fail_if(number != _SYNCHRONOUS, ResultCode.INVALID_VALUE)
    _attribute(driver, number, address)


def _put_attribute(place: int, number: int, value: int) -> None:
    if place:
        caller().write(place, bytes(_ATTRIBUTE_TYPES.get(number, ctypes.c_int32)(value)))


@entry("cuPointerGetAttributes", "u p p p")
def pointer_attributes(driver: Driver, count: int, numbers: int, places: int, address: int) -> None:
    """Several at once; what does not apply to an address is 0 (no device: -2) instead of an error."""
    for k in range(count):
        number = get_uint(numbers + 4 * k)
        try:
            value = _attribute(driver, number, address)
        except DriverError:
            value = -2 if number == _DEVICE_ORDINAL else 0
        _put_attribute(get_pointer(places + 8 * k), number, value)


# --- where managed memory should be -----------------------------------------------------------------------------------
# It lies in device memory, so requests are checked, and change nothing.

_ON_DEVICE, _ON_HOST, _LAST_LOCATION = 1, 2, 4
"""`CUmemLocationType`: the device, the host, and the last of the host's kinds, its nodes."""
_WITHOUT_PLACE = (1, 2, 4)
"""`CUmem_advise` that names no place: read mostly, no longer, and no preferred place."""
_LAST_ADVICE = 6


def _check_managed(driver: Driver, address: int, nbytes: int) -> None:
    """Raise INVALID_VALUE unless a range lies in a managed allocation."""
    buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
    outside = not nbytes or address + nbytes > buffer.address + buffer.nbytes
    fail_if(outside or buffer.kind != MANAGED, ResultCode.INVALID_VALUE)


def _check_place(driver: Driver, location: int) -> None:
    """location: a CUmemLocation in a word. Raises INVALID_VALUE, INVALID_DEVICE."""
    kind, number = struct.unpack("<2i", struct.pack("<Q", location))
    fail_if(not _ON_DEVICE <= kind <= _LAST_LOCATION, ResultCode.INVALID_VALUE)
    fail_if(kind == _ON_DEVICE and not 0 <= number < len(driver.visible), ResultCode.INVALID_DEVICE)


def _of_device(number: int) -> int:
    """The location that a device's number means, -1 for the host."""
    return _ON_DEVICE | number << 32 if number >= 0 else _ON_HOST


def _prefetch(driver: Driver, address: int, nbytes: int, location: int, flags: int, stream: DriverStream) -> None:
    stream.not_capturing()
    _check_managed(driver, address, nbytes)
    _check_place(driver, location)
    fail_if(flags, ResultCode.INVALID_VALUE)


def _advise(driver: Driver, address: int, nbytes: int, advice: int, location: int) -> None:
    _check_managed(driver, address, nbytes)
    fail_if(not 0 < advice <= _LAST_ADVICE, ResultCode.INVALID_VALUE)
    if advice not in _WITHOUT_PLACE:
        _check_place(driver, location)


entries(
    ("cuMemPrefetchAsync_v2 12020", "p q q u S", _prefetch),
    ("cuMemPrefetchAsync 8000", "p q i S", lambda driver, at, n, to, s: _prefetch(driver, at, n, _of_device(to), 0, s)),
    ("cuMemAdvise_v2 12020", "p q i q", _advise),
    ("cuMemAdvise 8000", "p q i i", lambda driver, at, n, what, of: _advise(driver, at, n, what, _of_device(of))),
)
