"""Sections, symbols and relocations of a cubin, looked over before they are read: a damaged or hostile file ends here.

What would make a reader go past the end, unpack a gigabyte out of a kilobyte, or read the same bytes a million times
is refused first, with the section that is wrong. Only headers and names are read ahead, contents when asked for: a
library's cubin has thousands of sections and tens of megabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from isa.errors import NotACubin

HEADER_BYTES = 64
_SECTION_BYTES = 64
PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL = 1, 2, 3, 4, 8, 9
OBJECT, SECTION, FUNC = 1, 3, 2
"""Types of symbols."""
_FIRST_RESERVED = 0xFF00
_ENTRY_BYTES = {SYMTAB: 24, RELA: 24, REL: 16}
_COMPRESSED = 0x800
"""SHF_COMPRESSED of the ELF specification; the CUDA tools never write it, they use the bits from 20 on."""

MOST_ENTRIES = 1 << 20
"""Symbols or relocations in one table: a thousand times what the largest libraries have."""
_MOST_NAME_READS = 1 << 28
"""Bytes of names that reading all symbols may take, since a table of names may be one name without an end."""


class ElfSection(NamedTuple):
    """A row of the section table; `link` and `info` mean what the section's type says."""

    number: int
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class ElfSymbol(NamedTuple):
    """A row of the symbol table. `section` is None for one that is not in this file; `other` is its raw byte."""

    name: str
    kind: int
    other: int
    section: ElfSection | None
    value: int
    size: int


class Elf:
    """A checked cubin.

    Raises:
        NotACubin: the section table or a section lies outside the file, or has a size that cannot be.
    """

    def __init__(self, data: bytes, path: str) -> None:
        self.content, self.path = data, path
        if len(data) < HEADER_BYTES:
            raise NotACubin(path, f"it ends after {len(data)} bytes, inside the ELF header")
        if data[4] != 2 or data[5] != 1:
            raise NotACubin(path, "it is not a little-endian 64-bit ELF file")
        start = struct.unpack_from("<Q", data, 40)[0]
        self.flags, self.abi = struct.unpack_from("<I", data, 48)[0], data[8]
        entry, count, names = struct.unpack_from("<HHH", data, 58)
        if entry != _SECTION_BYTES or count == 0:
            raise NotACubin(path, f"its section table has {count} entries of {entry} bytes")
        if start + entry * count > len(data):
            raise NotACubin(path, f"it ends after {len(data)} bytes, before its section table")
        rows = list(struct.iter_unpack("<IIQQQQIIQQ", data[start : start + entry * count]))
        found = [ElfSection(number, "", *row[1:3], *row[4:]) for number, row in enumerate(rows)]
        if names >= count or found[names].kind != STRTAB:
            raise NotACubin(path, "its section names are missing")
        self._check(found)
        called = (self._name(found[names], row[0]) for row in rows)
        self.sections = [ElfSection(each[0], name, *each[2:]) for each, name in zip(found, called, strict=True)]
        self.by_name = {each.name: each for each in self.sections}
        self.symbols = list(self._symbols())

    def data(self, section: ElfSection) -> bytes:
        """A section's content; none of one that takes no room in the file."""
        return b"" if section.kind == NOBITS else self.content[section.offset : section.offset + section.size]

    def relocations(self, section: ElfSection) -> Iterator[tuple[int, int, ElfSymbol, int]]:
        """(offset, type, symbol, addend) of every entry of a table of relocations."""
        if section.kind not in (REL, RELA):
            raise NotACubin(self.path, f"{section.name} holds no relocations")
        for offset, info, *addend in struct.iter_unpack("<QQq" if section.kind == RELA else "<QQ", self.data(section)):
            yield offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend[0] if addend else 0

    def _check(self, sections: list[ElfSection]) -> None:
        entries, longest = len(sections), 0
        for section in sections:
            if section.kind == NOBITS:
                continue
            if section.offset + section.size > len(self.content):
                raise NotACubin(self.path, f"it ends after {len(self.content)} bytes, inside section {section.number}")
            if section.flags & _COMPRESSED:
                raise NotACubin(self.path, f"section {section.number} is compressed")
            if section.kind == STRTAB:
                longest = max(longest, self._longest_name(section))
            expected = _ENTRY_BYTES.get(section.kind)
            if expected is None:
                continue
            if section.entry != expected or section.size > expected * MOST_ENTRIES or section.size % expected:
                words = f"section {section.number} has {section.size:,} bytes in entries of {section.entry}"
                raise NotACubin(self.path, words)
            entries += section.size // expected
        if entries * longest > _MOST_NAME_READS:
            raise NotACubin(self.path, f"it has {entries:,} symbols and sections and a name of {longest:,} bytes")

    def _symbols(self) -> Iterator[ElfSymbol]:
        table = self.by_name.get(".symtab")
        if table is None:
            return
        if table.kind != SYMTAB or self.sections[table.link].kind != STRTAB:
            raise NotACubin(self.path, "its symbols have no names")
        for name, info, other, where, value, size in struct.iter_unpack("<IBBHQQ", self.data(table)):
            section = self.sections[where] if 0 < where < _FIRST_RESERVED else None
            yield ElfSymbol(self._name(self.sections[table.link], name), info & 15, other, section, value, size)

    def _name(self, table: ElfSection, offset: int) -> str:
        start = table.offset + offset
        end = self.content.find(b"\0", start)
        return self.content[start : len(self.content) if end < 0 else end].decode("utf-8", "replace")

    def _longest_name(self, section: ElfSection) -> int:
        """Bytes of the longest name in a table of names, counted to the end of the file if it never ends."""
        names = self.data(section).split(b"\0")
        beyond = len(self.content) - section.offset - section.size
        return max(*map(len, names), len(names[-1]) and beyond + len(names[-1]))
