"""Driver API: memory pools. One for the device; what a program makes itself differs only in its handle.

Allocations come from device memory directly, so a pool never keeps freed memory: what it has reserved is what it uses.
"""

from __future__ import annotations

from gpusim.driver.caller import get_pointer, get_uint, put_int, put_pointer
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import new_handle
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import DEFAULT_POOL, Driver

_SWITCHES, _SIZES = (1, 2, 3), (4, 5, 6, 7, 8)  # CUmemPool_attribute: 32 and 64-bit ones
_USAGE = (5, 6, 7, 8)
_READ_WRITE = 3

entries(
    ("cuDeviceGetDefaultMemPool", "*p D", lambda driver, device: DEFAULT_POOL),
    ("cuDeviceGetMemPool", "*p D", lambda driver, device: DEFAULT_POOL),
    ("cuDeviceSetMemPool", "D P", nothing),
    anytime=True,
)
entries(
    ("cuMemPoolTrimTo", "P (q)", nothing),
    ("cuMemPoolSetAccess", "P (pq)", nothing),
    ("cuMemPoolGetAccess", "*i P (p)", lambda driver, pool: _READ_WRITE),
)


@entry("cuMemPoolCreate", "*p (p)")
def create(driver: Driver) -> int:
    handle = new_handle()
    driver.pools[handle] = {}
    return handle


@entry("cuMemPoolDestroy", "p")
def destroy(driver: Driver, pool: int) -> None:
    fail_if(pool == DEFAULT_POOL, ResultCode.INVALID_VALUE)
    known(driver.pools.pop(pool, None), ResultCode.INVALID_VALUE)


@entry("cuMemPoolGetAttribute", "P i p")
def get_attribute(driver: Driver, attributes: dict[int, int], number: int, value: int) -> None:
    if number in _SWITCHES:
        put_int(value, attributes.get(number, 1))
    elif number in _USAGE:
        put_pointer(value, driver.device.memory.used_bytes)
    elif number in _SIZES:
        put_pointer(value, attributes.get(number, 0))
    else:
        raise DriverError(ResultCode.INVALID_VALUE)


@entry("cuMemPoolSetAttribute", "P i p")
def set_attribute(driver: Driver, attributes: dict[int, int], number: int, value: int) -> None:
    fail_if(number not in _SWITCHES + _SIZES, ResultCode.INVALID_VALUE)
    attributes[number] = get_uint(value) if number in _SWITCHES else get_pointer(value)
