"""Driver API: virtual memory management (`virtual` does it)."""

from __future__ import annotations

import struct

from gpusim.driver.caller import read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.memory.virtual import GRANULARITY
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver

_DESCRIPTION_BYTES = 12
_PINNED, _LOCATIONS, _ON_DEVICE = 1, (1, 2, 3, 4), 1  # CUmemAllocationType, CUmemLocationType
_NONE, _READ, _READ_WRITE = 0, 1, 3  # CUmemAccess_flags

entries(
    ("cuMemAddressFree", "p q", lambda driver, address, nbytes: driver.virtual.release_range(address, nbytes)),
    ("cuMemRelease", "p", lambda driver, handle: driver.virtual.release(handle)),
    ("cuMemUnmap", "p q", lambda driver, address, nbytes: driver.virtual.unmap(address, nbytes)),
)


@entry("cuMemGetAllocationGranularity", "*p (p) i", anytime=True)
def granularity(driver: Driver, option: int) -> int:
    """The least and the recommended one are the same."""
    fail_if(option not in (0, 1), ResultCode.INVALID_VALUE)
    return GRANULARITY


@entry("cuMemAddressReserve", "*p q q p q")
def reserve(driver: Driver, nbytes: int, alignment: int, wanted: int, flags: int) -> int:
    fail_if(flags, ResultCode.INVALID_VALUE)
    return driver.virtual.reserve(nbytes, alignment, wanted)


@entry("cuMemCreate", "*p q p q")
def create(driver: Driver, nbytes: int, properties: int, flags: int) -> int:
    """Handles for other processes may be asked for, but not made of it."""
    kind, _, location, number = struct.unpack("<4i", read(properties, 16))
    fail_if(flags or kind != _PINNED or location not in _LOCATIONS, ResultCode.INVALID_VALUE)
    fail_if(location == _ON_DEVICE and number != 0, ResultCode.INVALID_DEVICE)
    return driver.virtual.create(nbytes)


@entry("cuMemMap", "p q q p q")
def map_memory(driver: Driver, address: int, nbytes: int, offset: int, handle: int, flags: int) -> None:
    fail_if(flags, ResultCode.INVALID_VALUE)
    driver.virtual.map(address, nbytes, offset, handle)


@entry("cuMemSetAccess", "p q p q")
def set_access(driver: Driver, address: int, nbytes: int, descriptions: int, count: int) -> None:
    """Reading alone is not told from reading and writing. The host reaches all that is mapped."""
    rows = list(struct.iter_unpack("<3i", read(descriptions, _DESCRIPTION_BYTES * count)))
    for location, number, flags in rows:
        wrong = flags not in (_NONE, _READ, _READ_WRITE) or location not in _LOCATIONS
        fail_if(wrong or (location == _ON_DEVICE and number != 0), ResultCode.INVALID_VALUE)
    for location, _, flags in rows:
        if location == _ON_DEVICE:
            driver.virtual.set_reached(address, nbytes, flags != _NONE)
