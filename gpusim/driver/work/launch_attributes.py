"""Attributes of launches and of streams: CUlaunchAttributeID and its union of values.

What they ask for is mostly how a launch is to be scheduled or ordered, which this device does in one way, but for the
priority of a stream, and for `PROGRAMMATIC`, with which it may begin before the one ahead has ended. Those that say
what a launch is, `COOPERATIVE` and `CLUSTER`, are its to act on; `WINDOW`, which it takes over from its stream, is for
L2, and `CARVEOUT`, which it takes over from its kernel, for L1; the others are checked and kept. Which number is taken
where, with which values, is what an H200's driver answers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.launch.launch import PROPERTIES, AccessWindow

WINDOW, COOPERATIVE, CLUSTER, PROGRAMMATIC, PRIORITY, PREFERRED_CLUSTER, DEVICE_UPDATABLE = 1, 2, 4, 6, 8, 11, 13
CARVEOUT = 14
VALUE_BYTES, ATTRIBUTE_BYTES = 64, 72
PRIORITIES = 0, -5
"""Least and greatest priority of a stream, as on Hopper."""
STREAM, LAUNCH = "stream", "launch"
_EVENTS = (7, 12)
"""Attributes that name an event to be recorded: at blocks' triggers, and when all blocks have begun."""
COOPERATIVELY = {COOPERATIVE: struct.pack("<i", 1)}


def _below(limit: int, first: int = 0) -> Callable[[bytes], bool]:
    return lambda value: first <= int.from_bytes(value, "little") < limit


_WINDOW = struct.Struct("<QQf2i")


def _is_window(value: bytes) -> bool:
    *_, ratio, hit, miss = _WINDOW.unpack_from(value)
    return 0 <= ratio <= 1 and 0 <= hit < len(PROPERTIES) and 0 <= miss < PROPERTIES.index("persisting")


def window_of(values: Mapping[int, bytes]) -> AccessWindow | None:
    """The window of a launch's attributes, None for none or an empty one."""
    address, nbytes, ratio, hit, miss = _WINDOW.unpack_from(values.get(WINDOW, bytes(_WINDOW.size)))
    return AccessWindow(address, nbytes, ratio, PROPERTIES[hit], PROPERTIES[miss]) if nbytes else None


def of_stream(values: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the attributes that a launch takes over from its stream."""
    return {WINDOW: values[WINDOW]} if WINDOW in values else {}


@dataclass(frozen=True)
class _Attribute:
    """size: bytes of the value; where: what has it; default: what it is before it is set."""

    size: int
    where: tuple[str, ...]
    valid: Callable[[bytes], bool] = lambda value: True
    default: bytes = b""


_TABLE = {
    WINDOW: _Attribute(32, (STREAM, LAUNCH), _is_window),
    COOPERATIVE: _Attribute(4, (LAUNCH,)),
    3: _Attribute(4, (STREAM,), _below(5, 1), b"\xff\xff\xff\xff"),  # synchronization policy
    CLUSTER: _Attribute(12, (LAUNCH,)),
    5: _Attribute(4, (LAUNCH,), _below(3)),  # cluster scheduling
    PROGRAMMATIC: _Attribute(4, (LAUNCH,)),
    7: _Attribute(16, (LAUNCH,)),
    PRIORITY: _Attribute(4, (STREAM, LAUNCH)),
    9: _Attribute(2, (STREAM, LAUNCH), lambda value: max(value) < 4, b"\0\1"),  # domains of memory fences
    10: _Attribute(4, (STREAM, LAUNCH), _below(2)),
    PREFERRED_CLUSTER: _Attribute(12, (LAUNCH,)),
    12: _Attribute(16, (LAUNCH,)),
    DEVICE_UPDATABLE: _Attribute(16, (LAUNCH,)),
    CARVEOUT: _Attribute(4, (LAUNCH,), _below(101)),
    16: _Attribute(4, (LAUNCH,), _below(2)),  # scheduling for the use of NVLink
}


def checked(number: int, value: bytes, where: str) -> bytes:
    """The value of an attribute as it is kept, of so many bytes as it has. Raises INVALID_VALUE."""
    attribute = known(_TABLE.get(number), ResultCode.INVALID_VALUE)
    fail_if(where not in attribute.where, ResultCode.INVALID_VALUE)
    fail_if(not attribute.valid(value[: attribute.size]), ResultCode.INVALID_VALUE)
    fail_if(number == DEVICE_UPDATABLE, ResultCode.NOT_SUPPORTED, "kernels do not change graphs here")
    if number == PRIORITY:
        (asked,) = struct.unpack_from("<i", value)
        return struct.pack("<i", min(max(asked, PRIORITIES[1]), PRIORITIES[0]))
    return value[: attribute.size]


def current(values: Mapping[int, bytes], number: int) -> bytes:
    """Return the value of a stream's attribute. Raises INVALID_VALUE."""
    attribute = known(_TABLE.get(number), ResultCode.INVALID_VALUE)
    fail_if(STREAM not in attribute.where, ResultCode.INVALID_VALUE)
    return values.get(number, attribute.default.ljust(attribute.size, b"\0"))


def priority_of(values: Mapping[int, bytes]) -> int:
    """The priority of a stream."""
    return int.from_bytes(current(values, PRIORITY), "little", signed=True)


def cluster_of(values: Mapping[int, bytes], number: int = CLUSTER) -> tuple[int, int, int] | None:
    """Blocks per cluster in x, y and z, None where nothing is said."""
    x, y, z = struct.unpack("<3I", values.get(number, bytes(12)))
    return (x, y, z) if x or y or z else None


def events_of(values: Mapping[int, bytes]) -> list[int]:
    """Handles of the events that are to be recorded."""
    return [int.from_bytes(values[number][:8], "little") for number in _EVENTS if number in values]
