"""Driver API: memory of all kinds, and what is known about an address."""

from __future__ import annotations

import ctypes

from gpusim.driver.api_stream import stream_of
from gpusim.driver.attributes import total_memory_bytes
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.registry import function, get_pointer, get_uint, put_int, put_pointer, put_size
from gpusim.driver.state import DEVICE, HOST, MANAGED, REGISTERED, Buffer, Driver

_PITCH_BYTES = 512
_POINTER_KINDS = {HOST: 1, REGISTERED: 1, DEVICE: 2, MANAGED: 2}  # CUmemorytype


@function("cuMemGetInfo_v2", "pp")
def info(driver: Driver, free: int, total: int) -> None:
    put_size(total, total_memory_bytes(driver.config))
    put_size(free, total_memory_bytes(driver.config) - driver.device.memory.used_bytes)


@function("cuMemAlloc_v2", "pq")
def allocate(driver: Driver, address: int, nbytes: int) -> None:
    put_pointer(address, driver.allocate(nbytes, DEVICE))


@function("cuMemAllocAsync", "pqp")
def allocate_async(driver: Driver, address: int, nbytes: int, stream: int) -> None:
    _not_in_a_graph(driver, stream)
    put_pointer(address, driver.allocate(nbytes, DEVICE))


@function("cuMemAllocFromPoolAsync", "pqpp")
def allocate_from_pool(driver: Driver, address: int, nbytes: int, pool: int, stream: int) -> None:
    _not_in_a_graph(driver, stream)
    put_pointer(address, driver.allocate(nbytes, DEVICE))


@function("cuMemAllocPitch_v2", "ppqqu")
def allocate_pitch(driver: Driver, address: int, pitch: int, width: int, height: int, element: int) -> None:
    row = -(-width // _PITCH_BYTES) * _PITCH_BYTES
    put_pointer(address, driver.allocate(row * height, DEVICE))
    put_size(pitch, row)


@function("cuMemFree_v2", "p")
def free(driver: Driver, address: int) -> None:
    if address:
        driver.free(driver.owner(address), address)


@function("cuMemFreeAsync", "pp")
def free_async(driver: Driver, address: int, stream: int) -> None:
    _not_in_a_graph(driver, stream)
    free(driver, address)


def _not_in_a_graph(driver: Driver, stream: int) -> None:
    if stream_of(driver, stream).capture is not None:
        driver.say("memory cannot be allocated or freed in a graph")
        raise DriverError(Code.NOT_SUPPORTED)


@function("cuMemAllocManaged", "pqu")
def allocate_managed(driver: Driver, address: int, nbytes: int, flags: int) -> None:
    if flags not in (1, 2):  # global or host
        raise DriverError(Code.INVALID_VALUE)
    put_pointer(address, driver.allocate(nbytes, MANAGED, flags))


@function("cuMemAllocHost_v2", "pq")
def allocate_host(driver: Driver, address: int, nbytes: int) -> None:
    put_pointer(address, driver.allocate(nbytes, HOST))


@function("cuMemHostAlloc", "pqu")
def host_alloc(driver: Driver, address: int, nbytes: int, flags: int) -> None:
    if flags & ~7:
        raise DriverError(Code.INVALID_VALUE)
    put_pointer(address, driver.allocate(nbytes, HOST, flags))


@function("cuMemFreeHost", "p")
def free_host(driver: Driver, address: int) -> None:
    free(driver, address)


@function("cuMemHostRegister_v2", "pqu")
def host_register(driver: Driver, address: int, nbytes: int, flags: int) -> None:
    driver.register(address, nbytes, flags)


@function("cuMemHostUnregister", "p")
def host_unregister(driver: Driver, address: int) -> None:
    if (buffer := driver.buffer_at(address)) is None or buffer.kind != REGISTERED:
        raise DriverError(Code.HOST_MEMORY_NOT_REGISTERED)
    driver.free(driver.owner(buffer.address), buffer.address)


@function("cuMemHostGetDevicePointer_v2", "ppu")
def host_get_device_pointer(driver: Driver, device_address: int, address: int, flags: int) -> None:
    if (buffer := driver.buffer_at(address)) is None or buffer.kind not in (HOST, REGISTERED):
        raise DriverError(Code.INVALID_VALUE)
    if not buffer.visible:
        driver.say("this registered memory lies where the simulated device cannot reach it; use cuMemHostAlloc")
        raise DriverError(Code.NOT_SUPPORTED)
    put_pointer(device_address, address)


@function("cuMemHostGetFlags", "pp")
def host_get_flags(driver: Driver, flags: int, address: int) -> None:
    put_int(flags, _buffer(driver, address).flags)


@function("cuMemGetAddressRange_v2", "ppp")
def address_range(driver: Driver, start: int, nbytes: int, address: int) -> None:
    allocation = driver.device.memory.holding(address)
    if allocation is None:
        raise DriverError(Code.NOT_FOUND)
    put_pointer(start, allocation.address)
    put_size(nbytes, allocation.nbytes)


@function("cuMemPrefetchAsync_v2", "pqqup")
def prefetch(driver: Driver, address: int, nbytes: int, location: int, flags: int, stream: int) -> None:
    """Managed memory lies in device memory already."""


@function("cuMemAdvise_v2", "pqiq")
def advise(driver: Driver, address: int, nbytes: int, advice: int, location: int) -> None:
    """Advice changes nothing that is modelled."""


def _buffer(driver: Driver, address: int) -> Buffer:
    buffer = driver.buffer_at(address)
    if buffer is None:
        raise DriverError(Code.INVALID_VALUE)
    return buffer


def _pointer_attribute(driver: Driver, data: int, number: int, address: int) -> None:
    """Write one attribute of `CUpointer_attribute` in the type that it has. Raises INVALID_VALUE."""
    buffer = driver.buffer_at(address)
    if buffer is None:  # a module's variable is memory too
        allocation = driver.device.memory.holding(address)
        if allocation is None:
            raise DriverError(Code.INVALID_VALUE)
        buffer = Buffer(allocation.address, allocation.nbytes, DEVICE, 0, 0)
    words = {
        1: driver.context().handle,
        3: address,
        4: address,
        7: buffer.number,
        11: buffer.address,
        12: buffer.nbytes,
        17: 0,
        18: buffer.nbytes,
        19: buffer.address,
    }
    numbers = {2: _POINTER_KINDS[buffer.kind], 6: 0, 9: 0, 10: 0, 13: 1, 14: 0, 15: 0, 16: 3}
    if number == 4 and buffer.kind == DEVICE:
        raise DriverError(Code.INVALID_VALUE)
    if number == 8:
        ctypes.c_uint8.from_address(data).value = buffer.kind == MANAGED
    elif number in words:
        put_pointer(data, words[number])
    elif number in numbers:
        put_int(data, numbers[number])
    else:
        raise DriverError(Code.INVALID_VALUE)


@function("cuPointerGetAttribute", "pip")
def pointer_attribute(driver: Driver, data: int, number: int, address: int) -> None:
    _pointer_attribute(driver, data, number, address)


@function("cuPointerGetAttributes", "uppp")
def pointer_attributes(driver: Driver, count: int, numbers: int, data: int, address: int) -> None:
    """Several at once; what does not apply to an address is 0 instead of an error."""
    for k in range(count):
        number, place = get_uint(numbers + 4 * k), get_pointer(data + 8 * k)
        try:
            _pointer_attribute(driver, place, number, address)
        except DriverError:
            if number in (1, 3, 4, 7, 11, 12, 17, 18, 19):
                put_pointer(place, 0)
            elif number == 8:
                ctypes.c_uint8.from_address(place).value = 0
            else:
                put_int(place, -2 if number == 9 else 0)
