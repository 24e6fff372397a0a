"""Look a cubin's section table over before anything is read with it: a damaged or hostile file ends here.

pyelftools believes what a file says about itself. What would make it read past the end, unpack a gigabyte out of a
kilobyte, or read the same bytes a million times is refused first, with the section that is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from isa.errors import NotACubin

HEADER_BYTES = 64
_SECTION_BYTES = 64
_SYMTAB, _STRTAB, _RELA, _NOBITS, _REL = 2, 3, 4, 8, 9
_ENTRY_BYTES = {_SYMTAB: 24, _RELA: 24, _REL: 16}
_COMPRESSED = 0x800
"""SHF_COMPRESSED of the ELF specification; the CUDA tools never write it, they use the bits from 20 on."""

MOST_SECTIONS = 1 << 16
MOST_ENTRIES = 1 << 20
"""Symbols or relocations in one table: a thousand times what the largest libraries have."""
_MOST_NAME_READS = 1 << 28
"""Bytes of names that reading all symbols may take, since a table of names may be one name without an end."""


class _Section(NamedTuple):
    number: int
    kind: int
    flags: int
    offset: int
    size: int
    entry: int


def check_sections(data: bytes, path: str) -> None:
    """Raise NotACubin unless the section table and all sections lie in the file and have sizes that can be."""
    if len(data) < HEADER_BYTES:
        raise NotACubin(path, f"it ends after {len(data)} bytes, inside the ELF header")
    if data[4] != 2 or data[5] != 1:
        raise NotACubin(path, "it is not a little-endian 64-bit ELF file")
    start = struct.unpack_from("<Q", data, 40)[0]
    entry, count, names = struct.unpack_from("<HHH", data, 58)
    if entry != _SECTION_BYTES or count == 0:
        raise NotACubin(path, f"its section table has {count} entries of {entry} bytes")
    if start + entry * count > len(data):
        raise NotACubin(path, f"it ends after {len(data)} bytes, before its section table")
    sections = list(_sections(data, start, count))
    if names >= count or sections[names].kind != _STRTAB:
        raise NotACubin(path, "its section names are missing")
    entries = 0
    for section in sections:
        if section.kind == _NOBITS:
            continue
        if section.offset + section.size > len(data):
            raise NotACubin(path, f"it ends after {len(data)} bytes, inside section {section.number}")
        if section.flags & _COMPRESSED:
            raise NotACubin(path, f"section {section.number} is compressed")
        expected = _ENTRY_BYTES.get(section.kind)
        if expected is not None:
            if section.entry != expected or section.size > expected * MOST_ENTRIES:
                raise NotACubin(
                    path, f"section {section.number} has {section.size:,} bytes in entries of {section.entry}"
                )
            entries += section.size // expected
    longest = max(_longest_name(data, each) for each in sections)
    if (entries + count) * longest > _MOST_NAME_READS:
        raise NotACubin(path, f"it has {entries + count:,} symbols and sections and a name of {longest:,} bytes")


def _sections(data: bytes, start: int, count: int) -> Iterator[_Section]:
    for index in range(count):
        at = start + index * _SECTION_BYTES
        _, kind, flags, _, offset, size, _, _, _, entry = struct.unpack_from("<IIQQQQIIQQ", data, at)
        yield _Section(index, kind, flags, offset, size, entry)


def _longest_name(data: bytes, section: _Section) -> int:
    """Bytes of the longest name in a table of names, counted to the end of the file if it never ends."""
    if section.kind != _STRTAB:
        return 0
    names = data[section.offset : section.offset + section.size].split(b"\0")
    return max(*map(len, names), len(names[-1]) and len(data) - section.offset - section.size + len(names[-1]))
