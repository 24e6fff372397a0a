"""Messages in the wire format of Protocol Buffers, as far as a trace needs them (protobuf.dev, "Encoding").

A message is its fields one after the other: a key (field number and wire type), then the value. That is all that has
to be known to write one, so no compiled schema and no library is needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Fixed64:
    """A whole number that takes eight bytes (`fixed64` in a schema)."""

    value: int


Value = int | float | str | bytes | Fixed64


def varint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(*fields: tuple[int, Value]) -> bytes:
    """A message of (field number, value): numbers and enums as varints, floats as doubles, text and messages by
    their length."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3 | _VARINT) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | _FIXED64) + struct.pack("<d", value)
        elif isinstance(value, Fixed64):
            out += varint(number << 3 | _FIXED64) + struct.pack("<Q", value.value)
        else:
            content = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | _BYTES) + varint(len(content)) + content
    return bytes(out)
