"""The text of an instruction from its encoding, without the vendor's disassembler.

`encodings/` holds texts that `python -m validate templates` has learned from nvdisasm and checked against it. Each has
fields for its operands and belongs to one value of all bits outside of them; one of which the text is `?` keeps what
it fits from those behind it. A field reads `{kind run,... flag...}`:

- kind: R, UR, P, UP, B or SB of a register; X of an integer; F, D or H of a float32, of a float64's upper half or of a
  float16; L of a jump's distance from the next instruction.
- runs of bits, lowest first: first bit + width, `<` shift if the lowest does not count one, `-` at the last if signed.
- flags: the bit that prints `-`, `~`, `!` before a register, `|` around it, or `r`, `.reuse`, behind it.
"""

from __future__ import annotations

import json
import lzma
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GUARD = 0xF << 12
SHOWN = (1 << 105) - 1 & ~GUARD | 0xF << 122
"""Bits that a text shows beside its guard: all but the guard, stall, scoreboards and wait mask."""
UNKNOWN = "?"
_OPCODE = 0xFFF
# Of 93,000 encodings of these from PyTorch's libraries and the tests none has another text than on sm_80.
_ENCODED_AS = {"sm_86": "sm_80", "sm_87": "sm_80", "sm_89": "sm_80"}
_FIELD = re.compile(r"\{(\w+) ([\d+<,-]+)((?: [-~!|r]\d+)*)\}")
_RUN = re.compile(r"(\d+)\+(\d+)(?:<(\d+))?(-?)")
_LAST = {"R": ("Z", 255), "P": ("T", 7), "UP": ("T", 7)}
# Forms of the word and of the number, low bits that an instruction leaves out, bits of the sign and of a quiet NaN.
_FLOATS = {"F": ("<I", "<f", 0, 31, 22), "D": ("<Q", "<d", 32, 31, 19), "H": ("<H", "<e", 0, 15, 9)}


@dataclass(frozen=True, slots=True)
class Field:
    """An operand's place in an encoding. runs: first bit, width, shift, signed; flags: sign and bit."""

    kind: str
    runs: tuple[tuple[int, int, int, bool], ...]
    flags: tuple[tuple[str, int], ...]

    @property
    def bits(self) -> int:
        """The bits that it takes."""
        runs = (((1 << width) - 1) << first for first, width, _, _ in self.runs)
        return sum(runs) | sum(1 << bit for _, bit in self.flags)

    def value(self, encoding: int) -> int:
        """The number in its bits."""
        value = 0
        for first, width, shift, signed in self.runs:
            part = encoding >> first & (1 << width) - 1
            value += part - (signed << width if part >> width - 1 else 0) << shift
        return value

    def text(self, encoding: int, urz: int) -> str:
        """The operand as nvdisasm prints it. urz: the index of URZ."""
        value = self.value(encoding)
        if self.kind in _FLOATS:
            return float_text(self.kind, value)
        if self.kind in "LX":
            return f"{'=>' * (self.kind == 'L')}{'-' * (value < 0)}0x{abs(value):x}"
        last, number = ("Z", urz) if self.kind == "UR" else _LAST.get(self.kind, ("", -1))
        text = f"{self.kind}{last if value == number else value}"
        for sign, bit in self.flags:
            if encoding >> bit & 1:
                text = f"|{text}|" if sign == "|" else f"{text}.reuse" if sign == "r" else sign + text
        return text


def float_text(kind: str, bits: int) -> str:
    """A float as nvdisasm prints it; one that is no digits has a space behind it."""
    word, form, missing, sign_bit, quiet_bit = _FLOATS[kind]
    (value,) = struct.unpack(form, struct.pack(word, bits << missing))
    sign = "-" if bits >> sign_bit else "+"
    if value != value:
        return f"{sign}{'Q' if bits >> quiet_bit & 1 else 'S'}NAN "
    if abs(value) == float("inf"):
        return f"{sign}INF "
    if not value and sign == "-":
        return "-0.0 "
    return f"{value:.20e}" if abs(value) >= 1e9 else f"{value:.20g}"


@dataclass(frozen=True, slots=True)
class Template:
    """A text with fields, of encodings that have `fixed` in the bits of `mask`. guard: 'P', 'UP', or '' without one."""

    parts: tuple[str | Field, ...]
    guard: str
    mask: int
    fixed: int

    def text(self, encoding: int, urz: int) -> str | None:
        """The text of an encoding; None from a template without one, of encodings that others cannot tell apart."""
        if self.parts[0] == UNKNOWN:
            return None
        guard = encoding >> 12 & 0xF
        before = "" if guard == 7 else f"@{'!' * (guard >> 3)}{self.guard}{guard & 7 if guard & 7 < 7 else 'T'} "
        parts = (part if isinstance(part, str) else part.text(encoding, urz) for part in self.parts)
        return (before + "".join(parts)).rstrip()


def read_template(text: str, example: int) -> Template:
    """A template from its text, with the kind of guard before the first space, and an encoding that has it."""
    guard, _, text = text.partition(" ")
    parts: list[str | Field] = []
    at, mask = 0, SHOWN if guard else SHOWN | GUARD
    for match in _FIELD.finditer(text):
        runs = tuple((int(a), int(b), int(c or 0), bool(d)) for a, b, c, d in _RUN.findall(match[2]))
        each = Field(match[1], runs, tuple((flag[0], int(flag[1:])) for flag in match[3].split()))
        parts += text[at : match.start()], each
        mask &= ~each.bits
        at = match.end()
    return Template((*parts, text[at:]), guard, mask, example & mask)


class Templates:
    """Those of one architecture, by opcode; of several that fit an encoding the first counts."""

    def __init__(self, urz: int, rows: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        self._urz, self._rows = urz, rows
        self._of: dict[int, list[Template]] = {}

    def text(self, encoding: int) -> str | None:
        """The text of an encoding, None if none is known; a jump's target reads `=>` and its distance in bytes from
        the next instruction."""
        opcode = encoding & _OPCODE
        if opcode not in self._of:
            rows = self._rows.get(f"{opcode:x}", ())
            self._of[opcode] = [read_template(text, int(example, 16)) for text, example in rows]
        for each in self._of[opcode]:
            if encoding & each.mask == each.fixed:
                return each.text(encoding, self._urz)
        return None


@cache
def templates(arch: str) -> Templates | None:
    """The templates of an architecture, such as 'sm_90'; None if none were learned."""
    if not file_of(arch).exists():
        return None
    with lzma.open(file_of(arch), "rt", encoding="utf-8") as file:
        return Templates(**json.load(file))


def file_of(arch: str) -> Path:
    """The file with the templates of an architecture, and of those that are encoded like it."""
    return Path(__file__).with_name("encodings") / f"{_ENCODED_AS.get(arch, arch)}.json.xz"
