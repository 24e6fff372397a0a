"""Bits of a 128-bit instruction, and the disassembler's text for any such bits."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from isa.errors import ToolchainFailed
from isa.instruction import INSTRUCTION_BYTES
from isa.toolchain import find_tool

NOP = 0x7918 | 7 << 12
RA, RB, RC = 24, 32, 64
"""First bits of the register fields, of 8 bits each."""
_PASSES = 8
_BAD = re.compile(r"at address (0x[0-9a-f]+)")
_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x")


def field(bits: int, at: int, width: int, value: int) -> int:
    """`bits` with one field replaced."""
    mask = (1 << width) - 1
    return bits & ~(mask << at) | (value & mask) << at


def with_control(bits: int, stall: int, *, write: int = 7, read: int = 7, wait: int = 0, keep: bool = True) -> int:
    """`bits` with this control field: stall cycles, scoreboards for results and sources, wait mask, yield hint."""
    return field(bits, 105, 21, stall | keep << 4 | write << 5 | read << 8 | wait << 11)


def texts(encodings: Iterable[int], architecture: str = "SM90") -> list[str | None]:
    """Text of each encoding, None where the disassembler refuses it.

    Raises:
        ToolchainMissing: there is no nvdisasm.
        ToolchainFailed: it fails in another way.
    """
    words = list(encodings)
    refused: set[int] = set()
    for _ in range(_PASSES):
        listing, complaints = _disassemble(words, architecture)
        found = {int(address, 16) // INSTRUCTION_BYTES for address in _BAD.findall(complaints)}
        if not found:
            break
        refused |= found
        for k in found:
            words[k] = NOP
    if not listing:
        raise ToolchainFailed(f"nvdisasm failed: {complaints[:500]}")
    result: list[str | None] = [None] * len(words)
    for match in _LINE.finditer(listing):
        k = int(match[1], 16) // INSTRUCTION_BYTES
        if k not in refused:
            result[k] = " ".join(match[2].split()).replace("] [", "][")
    return result


def _disassemble(words: list[int], architecture: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder, "code.bin")
        path.write_bytes(b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words))
        done = subprocess.run(
            [find_tool("nvdisasm"), "-b", architecture, "-hex", str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return done.stdout, done.stderr
