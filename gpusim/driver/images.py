"""What a module is loaded from: a cubin, a fat binary with cubins and PTX, or PTX text, at an address of the host.

None of them states its size, so that is read from its headers: the ELF header of a cubin, and the fat binary's header
as the tool chain's `fatbinary` writes it (a header of 16 bytes and one of `header size` bytes before each entry).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gpusim.config import GPUConfig
from gpusim.driver.attributes import compute_capability
from gpusim.driver.caller import caller, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from isa import assemble
from isa.errors import IsaError

_ELF, _FATBIN, _FATBIN_WRAPPER = b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"
_PTX_ENTRY, _CUBIN_ENTRY = 1, 2
_COMPRESSED = 0x1000 | 0x2000 | 0x8000


def read_image(address: int, config: GPUConfig) -> bytes:
    """The cubin that the image at an address holds for this GPU.

    Raises INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX.
    """
    fail_if(not address, ResultCode.INVALID_VALUE)
    magic = read(address, 4)
    if magic == _ELF:
        return read(address, _elf_size(address))
    if magic == _FATBIN_WRAPPER:
        (address,) = struct.unpack("<Q", read(address + 8, 8))
        magic = read(address, 4)
    if magic == _FATBIN:
        return _from_fat_binary(address, config)
    text = caller().text(address)
    fail_if(b".version" not in text or b".target" not in text, ResultCode.INVALID_IMAGE)
    return _from_ptx(text, config)


def _from_ptx(text: bytes, config: GPUConfig) -> bytes:
    """PTX assembled for this GPU."""
    try:
        return assemble(text.rstrip(b"\0").decode(), config.gpu.arch)
    except (IsaError, UnicodeDecodeError) as error:
        raise DriverError(ResultCode.INVALID_PTX, f"the module's PTX cannot be assembled: {error}") from None


def _elf_size(address: int) -> int:
    """A cubin ends with its last section, section table or segment table."""
    header = read(address, 64)
    segments, sections = struct.unpack_from("<QQ", header, 32)
    segment_bytes, segment_count, section_bytes, section_count = struct.unpack_from("<4H", header, 54)
    end = max(64, segments + segment_bytes * segment_count, sections + section_bytes * section_count)
    for k in range(section_count):
        row = read(address + sections + section_bytes * k, section_bytes)
        (kind,) = struct.unpack_from("<I", row, 4)
        offset, size = struct.unpack_from("<QQ", row, 24)
        if kind != 8:  # SHT_NOBITS takes no room
            end = max(end, offset + size)
    return end


def _from_fat_binary(address: int, config: GPUConfig) -> bytes:
    major, minor = compute_capability(config)
    wanted = 10 * major + minor
    candidates = list(_entries(address))
    cubins = [(arch, data) for kind, arch, data in candidates if kind == _CUBIN_ENTRY]
    for arch, data in sorted(cubins, reverse=True):
        if arch // 10 == major and arch <= wanted:
            return data
    texts = [(arch, data) for kind, arch, data in candidates if kind == _PTX_ENTRY and arch <= wanted]
    fail_if(not texts, ResultCode.NO_BINARY_FOR_GPU)
    return _from_ptx(max(texts)[1], config)


def _entries(address: int) -> Iterator[tuple[int, int, bytes]]:
    """(kind, architecture, content) of each entry that is not compressed."""
    header_bytes, total = struct.unpack("<HQ", read(address + 6, 10))
    position = address + header_bytes
    end = position + total
    while position < end:
        kind, _, entry_header, size = struct.unpack("<HHIQ", read(position, 16))
        (arch,) = struct.unpack("<I", read(position + 28, 4))
        (flags,) = struct.unpack("<Q", read(position + 40, 8))
        if not flags & _COMPRESSED:
            yield kind, arch, read(position + entry_header, size)
        position += entry_header + size
