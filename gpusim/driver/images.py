"""Images that modules are loaded from: a cubin, a fat binary with cubins and PTX, or PTX text, at a host address.

None of them states its size, so that is read from its headers: the ELF header of a cubin, and the fat binary's header
as the tool chain's `fatbinary` writes it (a header of 16 bytes and one of `header size` bytes before each entry). Of a
fat binary only the headers are read, and the entry that is chosen.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gpusim.config import GPUConfig
from gpusim.driver.attributes import compute_capability
from gpusim.driver.caller import caller, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from isa import assemble
from isa.assemble import is_relocatable
from isa.errors import SimulationError

_ELF, _FATBIN, _FATBIN_WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"
_PTX, _CUBIN, _SEVERAL = 1, 2, 0x100
"""Kinds of entries that can be loaded: what `fatbinary -concat` writes holds several cubins, compressed as one."""
_ENTRY = struct.Struct("<HHIQI8xI8xQ8xQ")
"""Kind, version, bytes of the header (of one of several: where it begins among them), bytes that follow, those of them
that are compressed (0 if none is), architecture, flags, bytes before compression. Found by looking at what `fatbinary`
of CUDA 12 and 13 writes with each of its options."""
_LZ4, _ZSTD, _UNKNOWN_COMPRESSION = 0x2000, 0x8000, 0x1000
_SAME_ARCH, _SAME_FAMILY = 0x10_0000, 0x20_0000
"""Flags of code for one architecture alone, as sm_90a, and for its family, as sm_100f."""
_MOST_BYTES = 1 << 32


def read_image(address: int, config: GPUConfig) -> bytes:
    """The cubin that the image at an address holds for this GPU.

    Raises INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX.
    """
    fail_if(not address, ResultCode.INVALID_VALUE)
    address, magic = _content(address)
    if magic == _ELF:
        return read(address, _elf_size(address))
    if magic == _FATBIN:
        return _from_fat_binary(address, config)
    text = caller().text(address)
    fail_if(b".version" not in text or b".target" not in text, ResultCode.INVALID_IMAGE)
    return _from_ptx(text, config)


def read_others(address: int) -> list[bytes]:
    """What an image holds for other GPUs than this one, too: PTX and cubins."""
    address, magic = _content(address)
    if magic == _FATBIN:
        found = [(each.kind, each.content()) for each in _entries(address) if each.kind in (_PTX, _CUBIN)]
        return [text.rstrip(b"\0") if kind == _PTX else text for kind, text in found if not is_relocatable(text)]
    return [] if magic == _ELF else [caller().text(address)]


def _content(address: int) -> tuple[int, bytes]:
    """Return where the image lies that a wrapper may point to, and its first bytes."""
    magic = read(address, 4)
    if magic == _FATBIN_WRAPPER:
        (address,) = struct.unpack("<Q", read(address + 8, 8))
        magic = read(address, 4)
    return address, magic


def _from_ptx(text: bytes, config: GPUConfig) -> bytes:
    """PTX assembled for this GPU, with the instructions of its architecture alone or its family if it asks for them."""
    major, minor = compute_capability(config)
    specific = re.search(rb"^\s*\.target\s+sm_\d+([af])", text, re.MULTILINE)
    try:
        arch = f"sm_{10 * major + minor}{specific[1].decode() if specific else ''}"
        return assemble(text.rstrip(b"\0").decode(), arch)
    except (SimulationError, UnicodeDecodeError) as error:
        raise DriverError(ResultCode.INVALID_PTX, f"the module's PTX cannot be assembled: {error}") from None


def _elf_size(address: int) -> int:
    """A cubin ends with its last section, section table or segment table."""
    header = read(address, 64)
    segments, sections = struct.unpack_from("<QQ", header, 32)
    segment_bytes, segment_count, section_bytes, section_count = struct.unpack_from("<4H", header, 54)
    end = max(64, segments + segment_bytes * segment_count, sections + section_bytes * section_count)
    table = read(address + sections, section_bytes * section_count)
    for row in range(0, len(table), section_bytes):
        (kind,) = struct.unpack_from("<I", table, row + 4)
        offset, size = struct.unpack_from("<QQ", table, row + 24)
        if kind != 8:  # SHT_NOBITS takes no room
            end = max(end, offset + size)
    return end


def _unpacked(data: bytes, flags: int, size: int) -> bytes:
    """Imports what it needs here: few programs bring anything compressed."""
    if flags & _ZSTD:
        import zstandard

        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    import lz4.block

    unpacked: bytes = lz4.block.decompress(data, uncompressed_size=size)
    return unpacked


@dataclass(frozen=True)
class _Entry:
    """A cubin or PTX in a fat binary. address, nbytes: where it is stored; packing: flags of how, from so many bytes.
    part: its first byte and its end, if several are stored as one."""

    kind: int
    arch: int
    flags: int
    address: int
    nbytes: int
    packing: int
    unpacked_bytes: int
    part: tuple[int | None, int | None] = (None, None)

    def content(self) -> bytes:
        """Raises INVALID_IMAGE if it is damaged."""
        data = read(self.address, self.nbytes)
        if self.packing & (_LZ4 | _ZSTD):
            fail_if(self.unpacked_bytes > _MOST_BYTES, ResultCode.INVALID_IMAGE)
            try:
                data = _unpacked(data, self.packing, self.unpacked_bytes)
            except Exception as error:  # each of the libraries has errors of its own
                raise DriverError(ResultCode.INVALID_IMAGE, f"the fat binary cannot be unpacked: {error}") from None
            fail_if(len(data) != self.unpacked_bytes, ResultCode.INVALID_IMAGE)
        return data[slice(*self.part)]

    def rank(self, wanted: int) -> tuple[int, ...]:
        """Return the key by which the greatest of several is taken, () if it does not fit the GPU. Cubins run on GPUs
        of their major number and at least their minor one, PTX on all later ones."""
        if self.flags & _UNKNOWN_COMPRESSION or self.kind not in (_PTX, _CUBIN):
            return ()
        within_major = self.kind == _CUBIN or self.flags & _SAME_FAMILY
        fits = self.arch == wanted if self.flags & _SAME_ARCH else self.arch <= wanted
        if not fits or (within_major and self.arch // 10 != wanted // 10):
            return ()
        return self.kind == _CUBIN, self.arch, self.flags & _SAME_ARCH, self.flags & _SAME_FAMILY


def _from_fat_binary(address: int, config: GPUConfig) -> bytes:
    major, minor = compute_capability(config)
    wanted = 10 * major + minor
    try:
        fitting = [each for each in _entries(address) if each.rank(wanted)]
    except struct.error:
        raise DriverError(ResultCode.INVALID_IMAGE) from None
    for entry in sorted(fitting, key=lambda each: each.rank(wanted), reverse=True):
        content = entry.content()
        if entry.kind == _PTX:
            return _from_ptx(content, config)
        if not is_relocatable(content):  # which is for the linker
            return content
    raise DriverError(ResultCode.NO_BINARY_FOR_GPU)


def _entries(address: int) -> Iterator[_Entry]:
    header_bytes, total = struct.unpack("<HQ", read(address + 6, 10))
    position = address + header_bytes
    end = position + total
    while position < end:
        header = read(position, _ENTRY.size)
        kind, _, entry_header, size, packed, arch, flags, unpacked_bytes = _ENTRY.unpack(header)
        fail_if(entry_header < _ENTRY.size, ResultCode.INVALID_IMAGE)
        stored = position + entry_header, packed or size, flags, unpacked_bytes
        if kind == _SEVERAL:
            table = read(position + _ENTRY.size, entry_header - _ENTRY.size)
            for k in range(int.from_bytes(table[:4], "little")):
                kind, _, first, part_bytes, _, arch, flags, _ = _ENTRY.unpack_from(table, 8 + _ENTRY.size * k)
                yield _Entry(kind, arch, flags, *stored, (first, first + part_bytes))
        else:
            yield _Entry(kind, arch, flags, *stored)
        position += entry_header + size
