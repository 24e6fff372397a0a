"""Driver API: memory pools. One for the device; what a program makes itself differs only in its handle.

Allocations come from device memory directly, so a pool never keeps freed memory: what it has reserved is what it uses.
"""

from __future__ import annotations

import ctypes

from gpusim.driver.api_device import check_device
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.registry import function, put_int, put_pointer, put_size
from gpusim.driver.state import DEFAULT_POOL, Driver

_SWITCHES, _SIZES = (1, 2, 3), (4, 5, 6, 7, 8)  # CUmemPool_attribute: 32 and 64-bit ones
_USAGE = (5, 6, 7, 8)
_READ_WRITE = 3


@function("cuDeviceGetDefaultMemPool", "pi", anytime=True)
def default_pool(driver: Driver, pool: int, device: int) -> None:
    check_device(device)
    put_pointer(pool, DEFAULT_POOL)


@function("cuDeviceGetMemPool", "pi", anytime=True)
def current_pool(driver: Driver, pool: int, device: int) -> None:
    default_pool(driver, pool, device)


@function("cuDeviceSetMemPool", "ip", anytime=True)
def set_current_pool(driver: Driver, device: int, pool: int) -> None:
    check_device(device)
    _attributes(driver, pool)


@function("cuMemPoolCreate", "pp")
def create(driver: Driver, pool: int, properties: int) -> None:
    handle = driver.new_handle()
    driver.pools[handle] = {}
    put_pointer(pool, handle)


@function("cuMemPoolDestroy", "p")
def destroy(driver: Driver, pool: int) -> None:
    if pool == DEFAULT_POOL or driver.pools.pop(pool, None) is None:
        raise DriverError(Code.INVALID_VALUE)


@function("cuMemPoolTrimTo", "pq")
def trim(driver: Driver, pool: int, nbytes: int) -> None:
    _attributes(driver, pool)


@function("cuMemPoolGetAttribute", "pip")
def get_attribute(driver: Driver, pool: int, number: int, value: int) -> None:
    attributes = _attributes(driver, pool)
    if number in _SWITCHES:
        put_int(value, attributes.get(number, 1))
    elif number in _USAGE:
        put_size(value, driver.device.memory.used_bytes)
    elif number in _SIZES:
        put_size(value, attributes.get(number, 0))
    else:
        raise DriverError(Code.INVALID_VALUE)


@function("cuMemPoolSetAttribute", "pip")
def set_attribute(driver: Driver, pool: int, number: int, value: int) -> None:
    attributes = _attributes(driver, pool)
    if number in _SWITCHES:
        attributes[number] = ctypes.c_int.from_address(value).value
    elif number in _SIZES:
        attributes[number] = ctypes.c_uint64.from_address(value).value
    else:
        raise DriverError(Code.INVALID_VALUE)


@function("cuMemPoolSetAccess", "ppq")
def set_access(driver: Driver, pool: int, descriptors: int, count: int) -> None:
    _attributes(driver, pool)


@function("cuMemPoolGetAccess", "ppp")
def get_access(driver: Driver, flags: int, pool: int, location: int) -> None:
    _attributes(driver, pool)
    put_int(flags, _READ_WRITE)


def _attributes(driver: Driver, pool: int) -> dict[int, int]:
    if pool not in driver.pools:
        raise DriverError(Code.INVALID_VALUE)
    return driver.pools[pool]
