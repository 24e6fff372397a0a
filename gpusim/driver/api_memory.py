"""Driver API: memory of all kinds, and what is known about an address."""

from __future__ import annotations

import ctypes
from typing import Any

from gpusim.driver.caller import caller, get_pointer, get_uint
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import DEVICE, HOST, MANAGED, REGISTERED, Buffer, DriverStream
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver

_PITCH_BYTES = 512
_POINTER_KINDS = {HOST: 1, REGISTERED: 1, DEVICE: 2, MANAGED: 2}  # CUmemorytype
_IS_MANAGED, _DEVICE_ORDINAL = 8, 9
_ATTRIBUTE_TYPES: dict[int, Any] = {
    **dict.fromkeys((1, 3, 4, 7, 11, 12, 17, 18, 19), ctypes.c_uint64),
    _IS_MANAGED: ctypes.c_uint8,
}
"""Types of `CUpointer_attribute` by number; the others are 32-bit integers."""

entries(
    ("cuMemAlloc_v2", "*p q", lambda driver, nbytes: driver.allocate(nbytes, DEVICE)),
    ("cuMemAllocHost_v2", "*p q", lambda driver, nbytes: driver.allocate(nbytes, HOST)),
    ("cuMemHostRegister_v2", "p q u", Driver.register),
    (
        "cuMemHostGetFlags",
        "*i p",
        lambda driver, address: known(driver.buffer_at(address), ResultCode.INVALID_VALUE).flags,
    ),
    ("cuMemPrefetchAsync_v2", "(pqqup)", nothing),  # managed memory lies in device memory already
    ("cuMemAdvise_v2", "(pqiq)", nothing),  # advice changes nothing that is modelled
)


@entry("cuMemGetInfo_v2", "*p *p")
def info(driver: Driver) -> tuple[int, int]:
    """Free and total bytes."""
    total = driver.config.dram.capacity_bytes
    return total - driver.device.memory.used_bytes, total


@entry("cuMemAllocAsync", "*p q S")
@entry("cuMemAllocFromPoolAsync", "*p q (p) S")
def allocate_async(driver: Driver, nbytes: int, stream: DriverStream) -> int:
    _not_in_a_graph(stream)
    return driver.allocate(nbytes, DEVICE)


@entry("cuMemAllocPitch_v2", "*p *p q q (u)")
def allocate_pitch(driver: Driver, width: int, height: int) -> tuple[int, int]:
    """Address and bytes of a row."""
    row = -(-width // _PITCH_BYTES) * _PITCH_BYTES
    return driver.allocate(row * height, DEVICE), row


@entry("cuMemFree_v2", "p")
@entry("cuMemFreeHost", "p")
def free(driver: Driver, address: int) -> None:
    if address:
        buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
        fail_if(buffer.address != address, ResultCode.INVALID_VALUE)
        driver.free(buffer)


@entry("cuMemFreeAsync", "p S")
def free_async(driver: Driver, address: int, stream: DriverStream) -> None:
    _not_in_a_graph(stream)
    free(driver, address)


def _not_in_a_graph(stream: DriverStream) -> None:
    message = "memory cannot be allocated or freed in a graph"
    fail_if(stream.capture is not None, ResultCode.NOT_SUPPORTED, message)


@entry("cuMemAllocManaged", "*p q u")
def allocate_managed(driver: Driver, nbytes: int, flags: int) -> int:
    fail_if(flags not in (1, 2), ResultCode.INVALID_VALUE)  # global or host
    return driver.allocate(nbytes, MANAGED, flags)


@entry("cuMemHostAlloc", "*p q u")
def host_alloc(driver: Driver, nbytes: int, flags: int) -> int:
    fail_if(flags & ~7, ResultCode.INVALID_VALUE)
    return driver.allocate(nbytes, HOST, flags)


@entry("cuMemHostUnregister", "p")
def host_unregister(driver: Driver, address: int) -> None:
    buffer = known(driver.buffer_at(address), ResultCode.HOST_MEMORY_NOT_REGISTERED)
    fail_if(buffer.kind != REGISTERED, ResultCode.HOST_MEMORY_NOT_REGISTERED)
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
    allocation = known(driver.device.memory.holding(address), ResultCode.NOT_FOUND)
    return allocation.address, allocation.nbytes


def _pointer_attribute(driver: Driver, number: int, address: int) -> int:
    """One attribute of `CUpointer_attribute`. Raises INVALID_VALUE."""
    buffer = driver.buffer_at(address)
    if buffer is None:  # a module's variable is memory too
        allocation = known(driver.device.memory.holding(address), ResultCode.INVALID_VALUE)
        buffer = Buffer(driver.context(), allocation.address, allocation.nbytes, DEVICE, 0, 0)
    values = {1: driver.context().handle, 3: address, 4: address, 7: buffer.number, 17: 0}
    values |= {11: buffer.address, 12: buffer.nbytes, 18: buffer.nbytes, 19: buffer.address}
    values |= {2: _POINTER_KINDS[buffer.kind], 6: 0, 10: 0, 13: 1, 14: 0, 15: 0, 16: 3}
    values |= {_IS_MANAGED: buffer.kind == MANAGED, _DEVICE_ORDINAL: 0}
    fail_if(number not in values or (number == 4 and buffer.kind == DEVICE), ResultCode.INVALID_VALUE)
    return values[number]


def _put_attribute(place: int, number: int, value: int) -> None:
    if place:
        caller().write(place, bytes(_ATTRIBUTE_TYPES.get(number, ctypes.c_int32)(value)))


@entry("cuPointerGetAttribute", "p i p")
def pointer_attribute(driver: Driver, place: int, number: int, address: int) -> None:
    _put_attribute(place, number, _pointer_attribute(driver, number, address))


@entry("cuPointerGetAttributes", "u p p p")
def pointer_attributes(driver: Driver, count: int, numbers: int, places: int, address: int) -> None:
    """Several at once; what does not apply to an address is 0 (no device: -2) instead of an error."""
    for k in range(count):
        number = get_uint(numbers + 4 * k)
        try:
            value = _pointer_attribute(driver, number, address)
        except DriverError:
            value = -2 if number == _DEVICE_ORDINAL else 0
        _put_attribute(get_pointer(places + 8 * k), number, value)
