"""Source lines of code: the line table of a cubin, `.debug_line` of DWARF 2 to 4 with NVIDIA's two extensions.

An extended opcode 0x90 says that what follows was inlined: at the row of the table, counted from 1 in its sequence,
that its first number names, 0 for none; 0x91 names the function. (Found by comparing tables with the listings of
nvdisasm, which prints a row as a chain of frames, the innermost function first.)
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict

from isa.elf import Elf

Frame = tuple[str, int]
_TOOL_FILES = re.compile(
    r"__nv_nvrtc_builtin_header\.h$|/(site|dist)-packages/(nvidia|numba|numba_cuda|cuda)/"
    r"|/cuda[^/]*/(.*/)?include/"
)
_END, _ADDRESS, _INLINED = 1, 2, 0x90


def of_tools(file: str) -> bool:
    """Return whether a file is a header of the tool chain."""
    return _TOOL_FILES.search(file) is not None


class _Numbers:
    """Reads numbers and strings from a table, from front to back."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def next(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def leb(self, signed: bool = False) -> int:
        """A number of 7 bits a byte."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 70:
                return value - (1 << shift) if signed and byte & 0x40 else value

    def string(self) -> str:
        end = self.data.index(0, self.at)
        text = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return text


def source_lines(file: Elf) -> dict[str, list[tuple[int, Frame]]]:
    """By code section, the byte address from which each line holds, in the order of the table.

    A line is the innermost frame that is not in a header of the tool chain, or the innermost where all are.

    Raises IndexError, ValueError, struct.error (the table is damaged), KeyError (an address has no relocation that says
    to which section it belongs)."""
    found: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
    table = file.by_name.get(".debug_line")
    if table is None:
        return found
    sections = {
        offset: (symbol.section.name if symbol.section else symbol.name, symbol.value + addend)
        for name in (".rel.debug_line", ".rela.debug_line")
        if name in file.by_name
        for offset, _, symbol, addend in file.relocations(file.by_name[name])
    }
    read = _Numbers(file.data(table))
    while read.at < len(read.data):
        size, version = read.next("IH")
        _unit(read, read.at - 2 + size, version, sections, found)
    return found


def _unit(read: _Numbers, end: int, version: int, sections: dict[int, tuple[str, int]], found: dict[str, list]) -> None:
    (size,) = read.next("I")
    program = read.at + size
    step, *_, base, span, first = read.next("BBBbBB" if version >= 4 else "BBbBB")
    lengths = read.next(f"{first - 1}B")
    folders, files = [""], [""]
    while folder := read.string():
        folders.append(folder)
    while name := read.string():
        folder = folders[read.leb()]
        files.append(f"{folder}/{name}" if folder else name)
        read.leb(), read.leb()
    read.at = program
    address, number, line, inlined, section = 0, 1, 1, 0, ""
    rows: list[tuple[Frame, Frame | None]] = []
    while read.at < end:
        (code,) = read.next("B")
        if code >= first:
            address += step * ((code - first) // span)
            line += base + (code - first) % span
        elif code == 0:
            after = read.leb() + read.at
            (code,) = read.next("B")
            if code == _ADDRESS:
                section, start = sections[read.at]
                address = start + int.from_bytes(read.data[read.at : after], "little")
            elif code == _INLINED:
                inlined = read.leb()
            elif code == _END:
                address, number, line, inlined, rows = 0, 1, 1, 0, []
            read.at = after
            continue
        elif code == 2:
            address += step * read.leb()
        elif code == 3:
            line += read.leb(signed=True)
        elif code == 4:
            number = read.leb()
        elif code == 8:
            address += step * ((255 - first) // span)
        elif code == 9:
            address += read.next("H")[0]
        elif code != 1:
            for _ in range(lengths[code - 1]):
                read.leb()
        if code == 1 or code >= first:
            frame, outer = (files[number], line), rows[inlined - 1] if 0 < inlined <= len(rows) else None
            user = frame if not of_tools(frame[0]) else outer[1] if outer else None
            rows.append((frame, user))
            found[section.removeprefix(".text.")].append((address, user or frame))
    read.at = end
