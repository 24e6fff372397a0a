"""Driver API: memory pools."""

from __future__ import annotations

import struct

from gpusim.driver.caller import get_pointer, get_uint, put_int, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.objects import DEVICE, HOST, MANAGED, MemoryPool
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import RELEASE_THRESHOLD, Driver

_SWITCHES = (1, 2, 3)  # CUmemPool_attribute: may freed memory be reused, 32 bits
_RESERVED, _RESERVED_HIGH, _USED, _USED_HIGH = 5, 6, 7, 8
_PINNED, _MANAGED = 1, 2  # CUmemAllocationType
_ON_DEVICE, _ON_HOSTS = 1, (2, 3, 4)  # CUmemLocationType
_NONE, _READ, _READ_WRITE = 0, 1, 3  # CUmemAccess_flags

entries(
    ("cuDeviceGetDefaultMemPool", "*p D", lambda driver, device: driver.default_pool.handle),
    ("cuDeviceGetMemPool", "*p D", lambda driver, device: driver.device_pool.handle),
    ("cuMemGetDefaultMemPool", "*p p i", lambda driver, at, kind: _pool_of(driver, at, kind).handle),
    ("cuMemGetMemPool", "*p p i", lambda driver, at, kind: _pool_of(driver, at, kind).handle),
    ("cuMemPoolTrimTo", "P q", lambda driver, pool, keep: pool.trim(keep)),
    anytime=True,
)


def _location(address: int) -> tuple[int, int]:
    kind, number = struct.unpack("<2i", read(address, 8))
    return kind, number


def _check_device(location: tuple[int, int]) -> None:
    """Raises INVALID_DEVICE for a place that is no device of this machine."""
    fail_if(location[0] == _ON_DEVICE and location[1] != 0, ResultCode.INVALID_DEVICE)


def _pool_of(driver: Driver, address: int, kind: int) -> MemoryPool:
    """The pool of a place for a kind of memory; the device's own, or one made when it is first asked for."""
    location = _location(address)
    fail_if(kind not in (_PINNED, _MANAGED), ResultCode.INVALID_VALUE)
    fail_if(kind == _PINNED and location[0] not in (_ON_DEVICE, *_ON_HOSTS), ResultCode.INVALID_VALUE)
    if (kind, location) == (_PINNED, (_ON_DEVICE, 0)):
        return driver.device_pool
    name = MANAGED if kind == _MANAGED else HOST
    same = (pool for pool in driver.pools.values() if (pool.kind, pool.location) == (name, location))
    found = next(same, None) or MemoryPool(name, location)
    return driver.pools.setdefault(found.handle, found)


@entry("cuDeviceSetMemPool", "D P", anytime=True)
def set_device_pool(driver: Driver, device: int, pool: MemoryPool) -> None:
    fail_if(pool.kind == HOST, ResultCode.INVALID_VALUE)
    if pool.kind == DEVICE:
        driver.device_pool = pool


@entry("cuMemSetMemPool", "p i P", anytime=True)
def set_pool(driver: Driver, location: int, kind: int, pool: MemoryPool) -> None:
    fail_if((kind, _location(location)) != (_PINNED, (_ON_DEVICE, 0)), ResultCode.NOT_SUPPORTED)
    set_device_pool(driver, 0, pool)


@entry("cuMemPoolCreate", "*p p")
def create(driver: Driver, properties: int) -> int:
    """CUmemPoolProps: type, handle types, location, attributes of another system, most bytes."""
    kind, _, *location, _, most_bytes = struct.unpack("<4iQQ", read(properties, 32))
    where = location[0], location[1]
    known_place = where[0] in (_ON_DEVICE, *_ON_HOSTS) and (where[0] != _ON_DEVICE or where[1] == 0)
    fail_if(kind not in (_PINNED, _MANAGED) or not known_place, ResultCode.INVALID_VALUE)
    pool = MemoryPool(MANAGED if kind == _MANAGED else DEVICE if where[0] == _ON_DEVICE else HOST, where, most_bytes)
    driver.pools[pool.handle] = pool
    return pool.handle


@entry("cuMemPoolDestroy", "P")
def destroy(driver: Driver, pool: MemoryPool) -> None:
    fail_if(pool is driver.default_pool, ResultCode.INVALID_VALUE)
    del driver.pools[pool.handle]
    if driver.device_pool is pool:
        driver.device_pool = driver.default_pool


@entry("cuMemPoolGetAttribute", "P i p")
def get_attribute(driver: Driver, pool: MemoryPool, number: int, value: int) -> None:
    if number in _SWITCHES:
        put_int(value, pool.attributes.get(number, 1))
        return
    sizes = {RELEASE_THRESHOLD: pool.attributes.get(RELEASE_THRESHOLD, 0), _RESERVED: pool.reserved}
    sizes |= {_RESERVED_HIGH: pool.reserved_high, _USED: pool.used, _USED_HIGH: pool.used_high}
    put_pointer(value, known(sizes.get(number), ResultCode.INVALID_VALUE))


@entry("cuMemPoolSetAttribute", "P i p")
def set_attribute(driver: Driver, pool: MemoryPool, number: int, value: int) -> None:
    """High water marks can be set to 0, from where they begin anew."""
    if number in _SWITCHES:
        pool.attributes[number] = int(get_uint(value) != 0)
    elif number == RELEASE_THRESHOLD:
        pool.attributes[number] = get_pointer(value)
    else:
        fail_if(number not in (_RESERVED_HIGH, _USED_HIGH) or get_pointer(value), ResultCode.INVALID_VALUE)
        if number == _RESERVED_HIGH:
            pool.reserved_high = pool.reserved
        else:
            pool.used_high = pool.used


@entry("cuMemPoolSetAccess", "P p q")
def set_access(driver: Driver, pool: MemoryPool, descriptions: int, count: int) -> None:
    """The device that a pool is on cannot be shut out; reading alone does not exist."""
    for k in range(count):
        *location, flags = struct.unpack("<3i", read(descriptions + 12 * k, 12))
        _check_device((location[0], location[1]))
        fail_if(flags == _READ, ResultCode.NOT_SUPPORTED)
        fail_if(flags not in (_NONE, _READ_WRITE), ResultCode.INVALID_VALUE)
        own = tuple(location) == pool.location and pool.kind == DEVICE
        fail_if(flags == _NONE and own, ResultCode.INVALID_DEVICE)


@entry("cuMemPoolGetAccess", "*i P p")
def get_access(driver: Driver, pool: MemoryPool, location: int) -> int:
    place = _location(location)
    fail_if(place[0] == _ON_DEVICE and place[1] != 0, ResultCode.INVALID_VALUE)
    on_host = pool.location[0] in _ON_HOSTS
    reached = place[0] in _ON_HOSTS if on_host else place == pool.location and pool.kind == DEVICE
    return _READ_WRITE if reached else _NONE
