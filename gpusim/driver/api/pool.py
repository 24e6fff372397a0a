"""Driver API: memory pools, each of a device."""

from __future__ import annotations

import struct

from gpusim.driver.caller import get_pointer, get_uint, put_int, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.objects import MemoryPool
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import RELEASE_THRESHOLD, Driver

_SWITCHES = (1, 2, 3)  # CUmemPool_attribute: may freed memory be reused, 32 bits
_RESERVED, _RESERVED_HIGH, _USED, _USED_HIGH = 5, 6, 7, 8
_PINNED, _MANAGED = 1, 2  # CUmemAllocationType
_ON_DEVICE, _ON_HOSTS = 1, (2, 3, 4)  # CUmemLocationType

entries(
    ("cuDeviceGetDefaultMemPool", "*p D", lambda driver, gpu: gpu.default_pool.handle),
    ("cuDeviceGetMemPool", "*p D", lambda driver, gpu: gpu.pool.handle),
    ("cuDeviceSetMemPool", "D P", lambda driver, gpu, pool: setattr(gpu, "pool", pool)),
    ("cuMemPoolTrimTo", "P q", lambda driver, pool, keep: pool.trim(keep)),
    anytime=True,
)


@entry("cuMemPoolCreate", "*p p")
def create(driver: Driver, properties: int) -> int:
    """CUmemPoolProps: type, handle types, location, attributes of another system, most bytes."""
    kind, _, location, number, _, most_bytes = struct.unpack("<4iQQ", read(properties, 32))
    fail_if(kind == _MANAGED or location in _ON_HOSTS, ResultCode.NOT_SUPPORTED, "pools are of device memory alone")
    fail_if((kind, location) != (_PINNED, _ON_DEVICE), ResultCode.INVALID_VALUE)
    fail_if(not 0 <= number < len(driver.visible), ResultCode.INVALID_VALUE)
    pool = MemoryPool(most_bytes, driver.visible[number].number)
    driver.pools[pool.handle] = pool
    return pool.handle


@entry("cuMemPoolDestroy", "P")
def destroy(driver: Driver, pool: MemoryPool) -> None:
    gpu = driver.gpus[pool.gpu]
    fail_if(pool is gpu.default_pool, ResultCode.INVALID_VALUE)
    del driver.pools[pool.handle]
    if gpu.pool is pool:
        gpu.pool = gpu.default_pool


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
