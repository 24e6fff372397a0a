"""Writes a shared library whose functions jump to addresses that are filled in at run time.

A driver library has to be a real ELF file: programs find it by `dlopen` and its functions by `dlsym`. This one holds
one stub per function, `jump to slot[i]`, and an exported table `gpusim_driver_slots`, which the process that loaded it
fills with the addresses of callbacks. No compiler is needed: the file has two segments, the dynamic symbol table with
its hash table (System V ABI, "Dynamic Linking"), and the stubs: one instruction on x86-64, three on AArch64.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

SLOTS = "gpusim_driver_slots"
"""Symbol of the table: one 64-bit address per function, in the order of `names`."""

GONE, DONE = "gpusim_driver_gone", "gpusim_driver_done"
"""Functions of machine code alone, for slots whose callbacks are gone: they return CUDA_ERROR_DEINITIALIZED (4) and
0."""

MACHINES = {"x86_64": 62, "aarch64": 183}
"""ELF machine numbers by the name that `platform.machine` gives."""

_RETURN = {
    "x86_64": lambda value: struct.pack("<BIB", 0xB8, value, 0xC3),  # mov $value, %eax; ret
    "aarch64": lambda value: struct.pack("<II", 0x52800000 | value << 5, 0xD65F03C0),  # mov w0, #value; ret
}
_PAGE = 0x10000  # AArch64 hosts may have pages of 64 KiB
_STUB_BYTES, _SYMBOL_BYTES, _HEADER_BYTES, _SEGMENT_BYTES = 16, 24, 64, 56
_FUNCTION, _OBJECT = 0x12, 0x11  # global symbols
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 4, 5, 6, 10, 11, 14
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE = 5, 6


def stub_library(names: Sequence[str], machine: str, soname: str, version: str | None = None) -> bytes:
    """The library's file. names: exported functions. machine: 'x86_64' or 'aarch64'. version: of all symbols. Raises
    KeyError for another machine."""
    stubs = [*names, GONE, DONE]
    symbols = [*stubs, SLOTS]
    strings = bytearray(b"\0")
    places = {}
    for text in (soname, *symbols, *((version,) if version else ())):
        places[text] = len(strings)
        strings += text.encode() + b"\0"
    count = len(symbols) + 1
    table = _HEADER_BYTES + 4 * _SEGMENT_BYTES
    hashes = table + _SYMBOL_BYTES * count
    texts = hashes + 4 * (2 + count + count)
    versions = _round_up(texts + len(strings), 8)
    version_table, definitions = _versions(count, version, soname, places) if version else (b"", b"")
    definitions_at = _round_up(versions + len(version_table), 8)
    code = _round_up(definitions_at + len(definitions), _STUB_BYTES)
    data = _round_up(code + _STUB_BYTES * len(stubs), _PAGE)
    dynamic = [
        (_DT_HASH, hashes),
        (_DT_STRTAB, texts),
        (_DT_SYMTAB, table),
        (_DT_STRSZ, len(strings)),
        (_DT_SYMENT, _SYMBOL_BYTES),
        (_DT_SONAME, places[soname]),
        *(((_DT_VERSYM, versions), (_DT_VERDEF, definitions_at), (_DT_VERDEFNUM, 2)) if version else ()),
        (_DT_NULL, 0),
    ]
    slots = data + 16 * len(dynamic)
    end = slots + 8 * len(names)

    addresses = [code + _STUB_BYTES * k for k in range(len(stubs))]
    symbol_rows = [
        (0, 0, 0, 0, 0, 0),
        *((places[name], _FUNCTION, 0, 1, at, _STUB_BYTES) for name, at in zip(stubs, addresses, strict=True)),
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
        0: _elf_header(MACHINES[machine], len(segments)),
        _HEADER_BYTES: b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)
            for kind, flags, start, size, align in segments
        ),
        table: b"".join(struct.pack("<IBBHQQ", *row) for row in symbol_rows),
        hashes: _hash_table(symbols),
        texts: bytes(strings),
        versions: version_table,
        definitions_at: definitions,
        code: b"".join(
            _stub(machine, addresses[k], slots + 8 * k).ljust(_STUB_BYTES, b"\0") for k in range(len(names))
        )
        + b"".join(_RETURN[machine](value).ljust(_STUB_BYTES, b"\0") for value in (4, 0)),
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


def _elf_header(machine: int, segments: int) -> bytes:
    identification = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bits, little endian, version 1
    shared_object, version = 3, 1
    return identification + struct.pack(
        "<HHIQQQIHHHHHH",
        *(shared_object, machine, version, 0, _HEADER_BYTES, 0, 0, _HEADER_BYTES),
        *(_SEGMENT_BYTES, segments, 0, 0, 0),
    )


def _versions(count: int, version: str, soname: str, places: dict[str, int]) -> tuple[bytes, bytes]:
    """The version of each symbol, and the definitions (Linux Standard Base, "Symbol Versioning"): that of the library
    itself, with number 1, and the one that all symbols carry."""
    numbers = (0, *(2 for _ in range(count - 1)))
    rows = b""
    for number, flags, name, following in ((1, 1, soname, 28), (2, 0, version, 0)):
        rows += struct.pack("<4HIII", 1, flags, number, 1, _hash(name), 20, following)
        rows += struct.pack("<II", places[name], 0)
    return struct.pack(f"<{count}H", *numbers), rows


def _hash_table(symbols: Sequence[str]) -> bytes:
    """DT_HASH: as many buckets as symbols, chains by symbol number; symbol 0 is the empty one."""
    count = len(symbols) + 1
    buckets, chain = [0] * count, [0] * count
    for number, name in enumerate(symbols, 1):
        bucket = _hash(name) % count
        chain[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chain)


def _hash(name: str) -> int:
    """The System V ABI's hash of a symbol's name."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
