"""Driver API: where managed memory should be. It lies in device memory, so advice is kept, and changes nothing else."""

from __future__ import annotations

import struct
from typing import Any

from gpusim.driver.caller import caller, get_pointers, get_uint
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.objects import MANAGED, Buffer
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import DriverStream

_READ_MOSTLY, _PREFERRED, _ACCESSED_BY, _PREFETCHED = 1, 2, 3, 4  # CUmem_range_attribute
_TYPES_AND_NUMBERS = {5: (_PREFERRED, 0), 6: (_PREFERRED, 1), 7: (_PREFETCHED, 0), 8: (_PREFETCHED, 1)}
_ON_DEVICE, _ON_HOSTS = 1, (2, 3, 4)  # CUmemLocationType
_NOWHERE = 0, -2
_HOST = 2, -1
_ADVICE = {1: (_READ_MOSTLY, 1), 2: (_READ_MOSTLY, 0), 3: (_PREFERRED, None), 4: (_PREFERRED, _NOWHERE)}
_ADVICE |= {5: (_ACCESSED_BY, None), 6: (_ACCESSED_BY, 0)}
"""By `CUmem_advise`: what it sets to what, None for the place that is named."""


def _managed(driver: Driver, address: int, nbytes: int) -> Buffer:
    """The managed buffer that a range lies in. Raises INVALID_VALUE."""
    buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
    outside = not nbytes or address + nbytes > buffer.address + buffer.nbytes
    fail_if(outside or buffer.kind != MANAGED, ResultCode.INVALID_VALUE)
    return buffer


def _place(location: int) -> tuple[int, int]:
    """A CUmemLocation in a word. Raises INVALID_VALUE, INVALID_DEVICE."""
    kind, number = struct.unpack("<2i", struct.pack("<Q", location))
    fail_if(kind not in (_ON_DEVICE, *_ON_HOSTS), ResultCode.INVALID_VALUE)
    fail_if(kind == _ON_DEVICE and number != 0, ResultCode.INVALID_DEVICE)
    return (kind, number) if kind == _ON_DEVICE else _HOST


def _of_device(number: int) -> int:
    """The location that a device's number means, -1 for the host."""
    kind = _ON_DEVICE if number >= 0 else _HOST[0]
    return int.from_bytes(struct.pack("<2i", kind, max(number, 0)), "little")


@entry("cuMemPrefetchAsync_v2", "p q q u S", since=12020)
def prefetch(driver: Driver, address: int, nbytes: int, location: int, flags: int, stream: DriverStream) -> None:
    buffer, place = _managed(driver, address, nbytes), _place(location)
    fail_if(flags, ResultCode.INVALID_VALUE)
    buffer.advice.append((address, address + nbytes, _PREFETCHED, place))


@entry("cuMemPrefetchAsync", "p q i S", since=8000)
def prefetch_to_device(driver: Driver, address: int, nbytes: int, device: int, stream: DriverStream) -> None:
    prefetch(driver, address, nbytes, _of_device(device), 0, stream)


@entry("cuMemAdvise_v2", "p q i q", since=12020)
def advise(driver: Driver, address: int, nbytes: int, advice: int, location: int) -> None:
    buffer = _managed(driver, address, nbytes)
    number, value = known(_ADVICE.get(advice), ResultCode.INVALID_VALUE)
    if value is None or number == _ACCESSED_BY:
        place = _place(location)
        value = int(value is None) if number == _ACCESSED_BY else place
    buffer.advice.append((address, address + nbytes, number, value))


@entry("cuMemAdvise", "p q i i", since=8000)
def advise_for_device(driver: Driver, address: int, nbytes: int, advice: int, device: int) -> None:
    advise(driver, address, nbytes, advice, _of_device(device))


def _said(buffer: Buffer, first: int, end: int, number: int, otherwise: Any) -> Any:
    """What was last said of a range, if it is the same for all of it."""
    said = [(a, b, value) for a, b, n, value in buffer.advice if n == number]
    cuts = {first, *(cut for a, b, _ in said for cut in (a, b) if first < cut < end)}
    values = {next((value for a, b, value in reversed(said) if a <= cut < b), otherwise) for cut in cuts}
    return values.pop() if len(values) == 1 else otherwise


@entry("cuMemRangeGetAttribute", "p q i p q")
def get_attribute(driver: Driver, place: int, room: int, number: int, address: int, nbytes: int) -> None:
    """A 32-bit integer, or for who has access as many as there is room for."""
    buffer, end = _managed(driver, address, nbytes), address + nbytes
    if number == _ACCESSED_BY:
        fail_if(not room or room % 4, ResultCode.INVALID_VALUE)
        reached = _said(buffer, address, end, number, 0)
        values = [0 if reached else -2, *(-2,) * (room // 4 - 1)]
    else:
        fail_if(room != 4, ResultCode.INVALID_VALUE)
        if number == _READ_MOSTLY:
            values = [_said(buffer, address, end, number, 0)]
        else:
            plain = {_PREFERRED: (_PREFERRED, 1), _PREFETCHED: (_PREFETCHED, 1)}
            of, part = known((plain | _TYPES_AND_NUMBERS).get(number), ResultCode.INVALID_VALUE)
            values = [_said(buffer, address, end, of, _NOWHERE)[part]]
    caller().write(place, struct.pack(f"<{len(values)}i", *values))


@entry("cuMemRangeGetAttributes", "p p p q p q")
def get_attributes(
    driver: Driver, places: int, rooms: int, numbers: int, count: int, address: int, nbytes: int
) -> None:
    for k, (place, room) in enumerate(zip(get_pointers(places, count), get_pointers(rooms, count), strict=True)):
        get_attribute(driver, place, room, get_uint(numbers + 4 * k), address, nbytes)


# many parameters: those of the driver's function
@entry("cuMemPrefetchBatchAsync", "p p q p p q (q) S", since=13000)
@entry("cuMemDiscardAndPrefetchBatchAsync", "p p q p p q (q) S", since=13000)
def prefetch_batch(
    driver: Driver,
    addresses: int,
    sizes: int,
    count: int,
    locations: int,
    indices: int,
    places: int,
    stream: DriverStream,
) -> None:
    """A place holds for the ranges from its index on."""
    starts, where = get_pointers(indices, places), get_pointers(locations, places)
    fail_if(not count or not starts or starts[0] != 0, ResultCode.INVALID_VALUE)
    ranges = list(zip(get_pointers(addresses, count), get_pointers(sizes, count), strict=True))
    for k, (address, nbytes) in enumerate(ranges):
        location = [each for start, each in zip(starts, where, strict=True) if start <= k][-1]
        prefetch(driver, address, nbytes, location, 0, stream)


@entry("cuMemDiscardBatchAsync", "p p q (q) S", since=13000)
def discard_batch(driver: Driver, addresses: int, sizes: int, count: int, stream: DriverStream) -> None:
    """Contents that nobody needs stay what they are."""
    for address, nbytes in zip(get_pointers(addresses, count), get_pointers(sizes, count), strict=True):
        _managed(driver, address, nbytes)
