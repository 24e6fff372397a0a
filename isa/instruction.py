"""One decoded SASS instruction: guard, operands, encoding, control bits and source line.

Reading order: `Operand` and `Instruction` say what a decoded instruction is; `parse_instruction` turns one
line of the vendor's disassembly into an `Instruction`. It needs that text and the labels of the section,
nothing else, so a recorded program image stores the text and opens without any tool chain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from isa.errors import DecodeError

NO_BARRIER = 7
"""Value of `Control.write_barrier` and `Control.read_barrier` that means that no scoreboard is set."""


class Control(NamedTuple):
    """Scheduling bits of one instruction, in the order of their columns in a code row.

    Attributes:
        stall: cycles before the same warp may issue its next instruction (0..15).
        yield_flag: True when the scheduler is advised to switch to another warp after this instruction.
        write_barrier: scoreboard (0..5) that is released when the result has been written, 7 = none.
        read_barrier: scoreboard (0..5) that is released when the source registers have been read, 7 = none.
        wait_mask: bit i set = wait until scoreboard i is zero before issuing.
        reuse: bit i set = keep source slot i (0 = Ra, 1 = Rb, 2 = Rc) in the operand reuse cache.
    """

    stall: int
    yield_flag: bool
    write_barrier: int
    read_barrier: int
    wait_mask: int
    reuse: int


def decode_control(encoding: int) -> Control:
    """Read the control bits (105..125) of a 128-bit encoding.

    The yield bit (109) is stored inverted: 0 asks for a switch to another warp. Two facts of ptxas's output
    say so: a switch would void the operand reuse cache, and of the instructions that keep an operand there
    none has the bit clear; and every stall of 12 cycles or more has it clear (Jia et al., "Dissecting the
    NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, describe the same polarity).
    """
    bits = encoding >> 105
    return Control(
        stall=bits & 0xF,
        yield_flag=not bits >> 4 & 1,
        write_barrier=bits >> 5 & 0x7,
        read_barrier=bits >> 8 & 0x7,
        wait_mask=bits >> 11 & 0x3F,
        reuse=bits >> 17 & 0xF,
    )


INSTRUCTION_BYTES = 16
RZ = 255
"""Register index that reads zero and ignores writes."""
URZ = 255
"""Uniform register index that reads zero (Volta to Hopper encode it as 63, which Blackwell has as a register)."""
PT = 7
"""Predicate index that is always true, in both register files."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand as printed.

    Attributes:
        kind: what it is, and which other fields count:

            - 'reg', 'ureg', 'pred', 'upred': `index` (RZ and URZ 255, PT and UPT 7).
            - 'imm': `value`, an int with its printed sign (64-bit immediates as printed).
            - 'fimm': `value`, a float as printed; `Instruction.immediate_bits` has its exact bits.
            - 'const': `bank` and `offset` in bytes, `base` or `ubase` where the offset is a register; a
              bindless `cx[UR4][0x10]` has bank None and its descriptor in `desc`.
            - 'mem': `base` (register or None), `ubase` (uniform register or None), `offset` in bytes, `desc`
              for `desc[UR4][...]`. Suffixes inside the brackets ('64', 'U32', 'X4') stay on `base`.
            - 'special': `value` is the name ('SR_TID.X', 'SRZ').
            - 'label': `value` is the target's address in the section, in bytes.
            - 'barrier' (B0..B15) and 'scoreboard' (SB0..SB5): `index`.
            - 'other': `value` is the text, or the name of a function outside the section; for a bracketed
              descriptor ('gdesc', 'tmem', 'idesc') it is the word before the bracket, with `ubase` or
              `base` and `offset` inside.

        negate, absolute, invert: '-', '|..|', and '~' or '!'.
        reuse: the printed '.reuse' flag.
        suffixes: words after the operand, such as ('H0_H0',), in order.
    """

    kind: str
    index: int = 0
    value: int | float | str | None = None
    negate: bool = False
    absolute: bool = False
    invert: bool = False
    reuse: bool = False
    suffixes: tuple[str, ...] = ()
    bank: int | None = None
    offset: int = 0
    base: Operand | None = None
    ubase: Operand | None = None
    desc: Operand | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a kernel's section.

    Attributes:
        address: byte offset in the section, 16 times the instruction's index.
        opcode, modifiers: 'IADD3' and ('X',) for 'IADD3.X'.
        guard: predicate that must hold (0..6), 7 = always; `guard_negated` for '@!P0' ('@!PT' is never);
            `guard_uniform` for '@UP0'.
        operands: in printed order, destinations first.
        encoding: the 128 bits as an int, first word lowest.
        control: scheduling bits.
        line, file: source line and file, None where unknown.
        text: the whole instruction as disassembled, with single spaces.
        targets: possible target addresses in bytes that the compiler recorded for an indirect branch.
    """

    address: int
    opcode: str
    modifiers: tuple[str, ...]
    guard: int
    guard_negated: bool
    guard_uniform: bool
    operands: tuple[Operand, ...]
    encoding: int
    control: Control
    line: int | None
    file: str | None
    text: str
    targets: tuple[int, ...] = ()

    @property
    def mnemonic(self) -> str:
        """Opcode and modifiers as printed, such as 'IADD3.X'."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def immediate_bits(self) -> int:
        """Bits 32..63 of the encoding: the immediate of every form that has one.

        A float32 as it is, the upper word of a float64, or two float16 with the first printed one in the upper half.
        """
        return self.encoding >> 32 & 0xFFFFFFFF


_GUARD = re.compile(r"@(!?)(U?)P([0-6T])\s+")
_LABEL = re.compile(r"`\((.+)\)$")
_RELOCATED = re.compile(r"32@(lo|hi)\((.*?(\.L_x_\d+)?(?:@srel)?)\)+$")
Match = re.Match[str]
_LONGEST_OPERANDS = 8192
"""Characters of all operands together; names of functions make them long."""
_MOST_SIGNS = 8
_HIGHEST = {"R": 254, "UR": 254, "P": 6, "UP": 6, "B": 15, "SB": 5}
_LAST = {"R": {"Z": RZ}, "UR": {"Z": URZ}, "P": {"T": PT}, "UP": {"T": PT}}
_KINDS = {"R": "reg", "UR": "ureg", "P": "pred", "UP": "upred", "B": "barrier", "SB": "scoreboard"}


def parse_instruction(
    address: int, text: str, encoding: int, labels: Mapping[str, int], line: int | None = None, file: str | None = None
) -> Instruction:
    """Decode one line of disassembly. address: byte offset in the section. text: for instance "@!P0 IADD3.X R1, R2,
    c[0x0][0x28], RZ, P1, !PT", without the closing semicolon. encoding: 128 bits. labels: label name to byte offset in
    the section. Raises DecodeError (the guard or an operand fits no known form; the message names the text)."""
    targets = tuple(labels[name] for name in re.findall(r"\.L_x_\d+", text) if name in labels) if "(*" in text else ()
    body = _without_annotations(text).strip()
    guard, guard_negated, guard_uniform = PT, False, False
    if body.startswith("@"):
        match = _GUARD.match(body)
        if not match:
            raise DecodeError(f"unknown guard in '{text}' at 0x{address:x}")
        guard = PT if match[3] == "T" else int(match[3])
        guard_negated, guard_uniform = bool(match[1]), bool(match[2])
        body = body[match.end() :]
    mnemonic, _, rest = body.partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    try:
        operands = tuple(_operand(part, labels) for part in _split(rest))
    except DecodeError as error:
        raise DecodeError(f"{error} in '{text}' at 0x{address:x} (0x{encoding:032x})") from None
    return Instruction(
        address, opcode, tuple(modifiers), guard, guard_negated, guard_uniform, operands, encoding,
        decode_control(encoding), line, file, " ".join(text.split()), targets,
    )  # fmt: skip


def _without_annotations(text: str) -> str:
    """The text without its comments, (* ... *)."""
    kept = []
    while True:
        before, start, rest = text.partition("(*")
        _, end, after = rest.partition("*)")
        if not start or not end:
            kept.append(text)
            return "".join(kept)
        kept.append(before)
        text = after


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    """Split at commas outside braces, and at the space before a label or an offset ('R4 -0x100')."""
    if len(text) > _LONGEST_OPERANDS:
        raise DecodeError(f"operands of {len(text):,} characters")
    parts = re.split(r",(?![^{]*\})|(?<=\w)\s+(?=`\(|-?0x)", text)
    return tuple(part.strip() for part in parts if part.strip())


def _operand(text: str, labels: Mapping[str, int]) -> Operand:
    """An operand that may name a label; a function of another section is kind 'other' with its name."""
    if sum(text.count(sign) for sign in "-~!|") > _MOST_SIGNS and not text.startswith(("`", "32@")):
        raise DecodeError(f"unknown operand form '{text[:40]}'")
    match = _LABEL.match(text)
    if match and match[1] in labels:
        return Operand("label", value=labels[match[1]])
    if match and match[1].startswith(".L"):
        raise DecodeError(f"label '{match[1]}' is not in the section")
    if match:
        return Operand("other", value=match[1])
    match = _RELOCATED.match(text)
    if match and match[3] in labels:
        # Half of an address in this section; the section counts as placed at address 0.
        return Operand("imm", value=labels[match[3]] >> (32 if match[1] == "hi" else 0) & 0xFFFFFFFF)
    return Operand("other", value=text) if match else parse_operand(text)


@lru_cache(maxsize=65536)
def parse_operand(text: str) -> Operand:
    """Decode one operand that is not a label. Raises DecodeError (it fits no known form)."""
    for pattern, form in _FORMS.items():
        if (match := pattern.match(text)) and (operand := form(match)) is not None:
            return operand
    raise DecodeError(f"unknown operand form '{text}'")


def _signed(match: Match) -> Operand | None:
    """'-', '~' or '!' before another operand."""
    inner = parse_operand(match[2])
    if match[1] == "-":
        return None if inner.negate else replace(inner, negate=True)
    return None if inner.invert else replace(inner, invert=True)


def _absolute(match: Match) -> Operand:
    """Bars around another operand, with suffixes before or after the closing bar."""
    return replace(parse_operand(match[1] + match[2]), absolute=True)


def _suffixes(text: str) -> tuple[bool, tuple[str, ...]]:
    words = text.split(".")[1:] if text else []
    return "reuse" in words, tuple(word for word in words if word != "reuse")


def _integer(match: Match) -> Operand:
    reuse, suffixes = _suffixes(match[3])
    return Operand("imm", value=int(match[1] + match[2], 16), reuse=reuse, suffixes=suffixes)


def _float(match: Match) -> Operand:
    # Python has one NaN; which one was meant, the bits in the encoding say.
    digits = "nan" if match[2].endswith("NAN") else match[2]
    return Operand("fimm", value=float(match[1] + digits), suffixes=_suffixes(match[3])[1])


def _register(match: Match) -> Operand | None:
    file, number, tail = match.groups()
    reuse, suffixes = _suffixes(tail)
    index = int(number) if number.isdigit() and len(number) < 4 else _LAST.get(file, {}).get(number)
    if index is None or (number.isdigit() and index > _HIGHEST[file]):
        return None
    return Operand(_KINDS[file], index=index, reuse=reuse, suffixes=suffixes)


def _constant(match: Match) -> Operand:
    base, ubase, offset = _address(match[3])
    reuse, suffixes = _suffixes(match[4])
    bindless = not re.fullmatch("0x[0-9a-f]{1,4}", match[2])
    return Operand(
        "const",
        bank=None if bindless else int(match[2], 16),
        desc=parse_operand(match[2]) if bindless else None,
        offset=offset,
        base=base,
        ubase=ubase,
        reuse=reuse,
        suffixes=suffixes,
    )


def _memory(match: Match) -> Operand:
    base, ubase, offset = _address(match[2])
    desc = parse_operand(match[1]) if match[1] else None
    return Operand("mem", offset=offset, base=base, ubase=ubase, desc=desc, suffixes=_suffixes(match[3])[1])


def _descriptor(match: Match) -> Operand:
    base, ubase, offset = _address(match[2])
    return Operand("other", value=match[1], base=base, ubase=ubase, offset=offset, suffixes=_suffixes(match[3])[1])


def _address(text: str) -> tuple[Operand | None, Operand | None, int]:
    """Base register, uniform register and byte offset of a sum such as 'R2.64+UR4+-0x8'."""
    base = ubase = None
    offset = 0
    for term in text.replace("+-", "-").replace("-0x", "+-0x").split("+"):
        if not term:
            continue
        operand = parse_operand(term)
        if operand.kind == "imm" and isinstance(operand.value, int):
            offset += operand.value
        elif operand.kind == "ureg" and ubase is None:
            ubase = operand
        elif operand.kind == "reg" and base is None:
            base = operand
        else:
            raise DecodeError(f"unknown address form '[{text}]'")
    return base, ubase, offset


def _word(match: Match) -> Operand:
    return Operand("special" if match[0].startswith("SR") else "other", value=match[0])


_FORMS: dict[re.Pattern[str], Callable[[Match], Operand | None]] = {
    re.compile(r"(-?)0x([0-9a-f]+)((?:\.\w+)*)$"): _integer,
    re.compile(r"([+-]?)(\d+(?:\.\d*)?(?:e[+-]?\d+)?|INF|Q?NAN|SNAN)((?:\.[A-Z]\w*)*)$"): _float,
    re.compile(r"(UR|R|UP|P|SB|B)(\d+|Z|T)((?:\.\w+)*)$"): _register,
    re.compile(r"(c|cx)\[(\w+)\] ?\[([^\]]*)\]((?:\.\w+)*)$"): _constant,  # operands of halves have the space
    re.compile(r"(?:desc\[(\w+)\])?\[([^\]]*)\]((?:\.\w+)*)$"): _memory,
    re.compile(r"([-~!])(.*)", re.DOTALL): _signed,
    re.compile(r"\|([^|]*)\|?(.*)", re.DOTALL): _absolute,
    re.compile(r"(gdesc|tmem|idesc|tdesc|sdesc|desc)\[([^\]]*)\]((?:\.\w+)*)$"): _descriptor,
    re.compile(r"SR.*|(?:\w+|Rpc\.\w+|\{[\d,]+\})$", re.DOTALL): _word,
}
"""What reads an operand that fits a pattern; the first that gives one counts."""
