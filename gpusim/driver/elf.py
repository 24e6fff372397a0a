"""Writes a shared library whose functions jump to addresses that are filled in at run time.

A driver library has to be a real ELF file: programs find it by `dlopen` and its functions by `dlsym`. This one holds
one stub per function, `jump to slot[i]`, and an exported table `gpusim_driver_slots`, which the process that loaded it
fills with the addresses of callbacks. No compiler is needed: the file has two segments, the dynamic symbol table with
its hash table (System V ABI, "Dynamic Linking"), and the stubs: one instruction on x86-64, three on AArch64.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from gpusim.launch.memory import round_up

SLOTS = "gpusim_driver_slots"
"""Symbol of the table: one 64-bit address per function, in the order of `names`."""

MACHINES = {"x86_64": 62, "aarch64": 183}
"""ELF machine numbers by the name that `platform.machine` gives."""

_PAGE = 0x10000  # AArch64 hosts may have pages of 64 KiB
_STUB_BYTES, _SYMBOL_BYTES, _HEADER_BYTES, _SEGMENT_BYTES = 16, 24, 64, 56
_FUNCTION, _OBJECT = 0x12, 0x11  # global symbols
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 4, 5, 6, 10, 11, 14
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE = 5, 6


def stub_library(names: Sequence[str], machine: str, soname: str) -> bytes:
    """The library's file. names: exported functions, without versions, so that who asks for one is content. machine:
    'x86_64' or 'aarch64'. Raises KeyError for another machine."""
    symbols = [*names, SLOTS]
    strings = bytearray(b"\0")
    places = {}
    for text in (soname, *symbols):
        places[text] = len(strings)
        strings += text.encode() + b"\0"
    count = len(symbols) + 1
    table = _HEADER_BYTES + 4 * _SEGMENT_BYTES
    hashes = table + _SYMBOL_BYTES * count
    texts = hashes + 4 * (3 + count)
    code = round_up(texts + len(strings), _STUB_BYTES)
    data = round_up(code + _STUB_BYTES * len(names), _PAGE)
    dynamic = [
        (_DT_HASH, hashes),
        (_DT_STRTAB, texts),
        (_DT_SYMTAB, table),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, _SYMBOL_BYTES),
        (_DT_SONAME, places[soname]),
        (_DT_NULL, 0),
    ]
    slots = data + 16 * len(dynamic)
    end = slots + 8 * len(names)

    addresses = [code + _STUB_BYTES * k for k in range(len(names))]
    symbol_rows = [
        (0, 0, 0, 0, 0, 0),
        *((places[name], _FUNCTION, 0, 1, at, _STUB_BYTES) for name, at in zip(names, addresses, strict=True)),
        (places[SLOTS], _OBJECT, 0, 1, slots, 8 * len(names)),
    ]
    segments = [
        (_PT_LOAD, _READ_EXECUTE, 0, data, _PAGE),
        (_PT_LOAD, _READ_WRITE, data, end - data, _PAGE),
        (_PT_DYNAMIC, _READ_WRITE, data, slots - data, 8),
        (_PT_GNU_STACK, _READ_WRITE, 0, 0, 16),
    ]
    content = bytearray(end)
    pieces = {
        # 64 bits, little endian, version 1; a shared object of this machine, version 1 again.
        0: b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        + struct.pack(
            "<HHIQQQIHHHHHH",
            *(3, MACHINES[machine], 1, 0, _HEADER_BYTES, 0, 0, _HEADER_BYTES),
            *(_SEGMENT_BYTES, len(segments), 0, 0, 0),
        ),
        _HEADER_BYTES: b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)
            for kind, flags, start, size, align in segments
        ),
        table: b"".join(struct.pack("<IBBHQQ", *row) for row in symbol_rows),
        # DT_HASH with one bucket: the chain of all symbols, from the first; number 0 is the empty one.
        hashes: struct.pack(f"<{3 + count}I", 1, count, 1, 0, *range(2, count), 0),
        texts: bytes(strings),
        code: b"".join(
            _stub(machine, addresses[k], slots + 8 * k).ljust(_STUB_BYTES, b"\0") for k in range(len(names))
        ),
        data: b"".join(struct.pack("<QQ", *entry) for entry in dynamic),
    }
    for start, piece in pieces.items():
        content[start : start + len(piece)] = piece
    return bytes(content)


def _stub(machine: str, address: int, slot: int) -> bytes:
    """Jump to the address that stands in a slot."""
    if machine == "x86_64":
        return b"\xff\x25" + struct.pack("<i", slot - (address + 6))  # jmp *slot(%rip)
    pages = (slot >> 12) - (address >> 12)
    adrp = 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5  # adrp x16, slot
    load = 0xF9400210 | (slot & 0xFFF) >> 3 << 10  # ldr x16, [x16, #slot's offset in its page]
    return struct.pack("<III", adrp, load, 0xD61F0200)  # br x16
