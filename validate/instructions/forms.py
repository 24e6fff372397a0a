"""Which instructions are recorded: every opcode, modifier set and kind of operand that the disassembler knows.

Opcodes are found by asking for all of them, modifiers by changing the bits of an encoding at random and reading what
the disassembler says. So nothing here depends on what a compiler happens to use, or on what the simulator knows.
Operands are the registers that `kernel` prepares.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from isa.opcodes import OPCODES
from validate.instructions.encode import RA, RB, RC, RD, field, texts, with_control
from validate.instructions.kernel import CONSTANT_OFFSET, CONSTANT_WORDS

_BEYOND_TABLE = "F2IP VHMNMX FSWZADD CLMAD UF2FP"
"""Arithmetic that has no row in the opcode table."""
_MEMORY = {
    "LDG": 8, "STG": 8, "ATOMG": 8, "REDG": 8, "LD": 8, "ST": 8, "ATOM": 8, "RED": 8, "QSPC": 8,
    "LDS": 2, "STS": 2, "ATOMS": 2, "LDL": 3, "STL": 3, "LDC": 16,
}  # fmt: skip
"""Opcode to its address register."""
_ELSEWHERE = (
    "BRA BRX JMX JMP CALL RET EXIT BSSY BSYNC BREAK WARPSYNC ENDCOLLECTIVE BMOV YIELD NANOSLEEP DEPBAR KILL BPT LEPC"
    " NOP PMTRIG PREEXIT ACQBULK BAR B2R HMMA IMMA DMMA MOVM LDGSTS LDGDEPBAR LDSM STSM CCTL MEMBAR ERRBAR CGAERRBAR"
    " FENCE S2R S2UR CS2R"
)
"""Control flow, barriers, matrix units and what depends on the machine: not single instructions to be recorded."""
_SPECIAL = re.compile(r"SR_(LANEID|TID\.[XYZ]|CTAID\.[XYZ]|EQMASK|LTMASK|LEMASK|GTMASK|GEMASK|TID|CTAID)$|SRZ$")
_UNDEFINED = re.compile(r"INVALID|\?\?\?|^@|MMIO|PRIVATE|Pnz")
_HINTS = re.compile(r"\.(EF|EL|LU|EU|NA|VC|LTC\w+|F16x[48]|BF16x[48]|F32x\w+)\b|CONSTANT\.(CTA|GPU|SYS|SM)|\.(CTA|VC)$")
"""Cache hints, which change no value, and vectors of atomics."""
_PREDICATES = ((0, 1, 2, 3), (0, 7, 7, 0), (0, 7, 7, 7), (7, 7, 7, 7), (0, 0, 0, 0), (0, 1, 2, 0), (0, 7, 2, 0))
"""Values of the four predicate fields to start from."""
_PREDICATE_FIELDS = (81, 84, 87, 77)
_UNIFORM = 91
_MODIFIERS = range(72, 92)
_OPERAND_MODIFIERS = range(56, 64)
_RANDOM = 2500
_PER_KIND = 5
_IMMEDIATES = (
    0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 31, 32, 33, 5, 0x1F, 0x3F800000, 0xBF000000, 0x7F800000, 0x3C003C00,
    0x7C00BC00, 0x40490FDB, 0x3FF00000, 0xC0240000, 0x12345678, 0x00018001, 0x7632, 0x9810, 0x80, 0x00400000,
)  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One instruction to record: encoding without control bits, text, and which operands it is given."""

    encoding: int
    text: str
    family: str


def opcode_of(text: str) -> str:
    return mnemonic_of(text).split(".")[0]


def mnemonic_of(text: str) -> str:
    return re.sub(r"^@\S+ ", "", text).split()[0]


def find(seed: int = 1) -> list[Form]:
    """All forms to be recorded, the same ones for the same seed and disassembler."""
    rng = random.Random(seed)
    found = {**_explore(_arithmetic_bases(rng), rng), **_explore(_memory_bases(), rng)}
    chosen = [*_choose(found, rng), *_special_registers()]
    return _canonical(list({form.text: form for form in chosen}.values()))


def _canonical(chosen: list[Form]) -> list[Form]:
    """Put RZ and PT into the fields that the text does not show: the hardware refuses most other values there."""
    for at, width in ((RC, 8), (RA, 8), (RB, 8), *((at, 3) for at in _PREDICATE_FIELDS)):
        changed = [field(form.encoding, at, width, (1 << width) - 1) for form in chosen]
        chosen = [
            replace(form, encoding=bits) if text is not None and text == form.text else form
            for form, bits, text in zip(chosen, changed, texts(changed), strict=True)
        ]
    return chosen


def _known(text: str | None) -> bool:
    """An opcode that is recorded here, even if the bits around it have no meaning yet."""
    if text is None:
        return False
    name = opcode_of(text)
    return (name in OPCODES or name in _BEYOND_TABLE.split()) and name not in _ELSEWHERE.split()


def _with_fields(opcode: int, predicates: tuple[int, ...], registers: tuple[int, ...]) -> int:
    bits = with_control(opcode | 7 << 12, 1)
    for at, value in zip((RD, RA, RB, RC), registers, strict=True):
        bits = field(bits, at, 8, value)
    for at, value in zip(_PREDICATE_FIELDS, predicates, strict=True):
        bits = field(bits, at, 3, value)
    return bits


def _arithmetic_bases(rng: random.Random) -> dict[int, list[int]]:
    """Encodings to start from, by opcode bits."""
    candidates = [
        _with_fields(opcode, predicates, (24, 12, 14, 4)) | uniform << _UNIFORM
        for uniform in (0, 1)
        for predicates in _PREDICATES
        for opcode in range(1 << 12)
    ]
    for opcode in range(1 << 12):
        for _ in range(6):
            bits = _with_fields(opcode, rng.choice(_PREDICATES), (24, 12, 14, 4))
            candidates.append(_flipped(bits, _MODIFIERS, 0.2, rng))
    bases: dict[int, list[int]] = defaultdict(list)
    for bits, text in zip(candidates, texts(candidates), strict=True):
        if _known(text) and opcode_of(text or "") not in _MEMORY and len(bases[bits & 0xFFF]) < 5:
            bases[bits & 0xFFF].append(bits)
    return bases


def _memory_bases() -> dict[int, list[int]]:
    candidates = []
    for address in (8, 2, 3, 16):
        for opcode in (each for each in range(1 << 12) if each & 0x180 == 0x180):
            for high in (0x0C1E1900, 0x0C101900, 0x0C000000, 0x0800, 0x08000000, 0x00100800, 0x001EE100, 0x0):
                for target, data, third in ((24, 4, 30), (24, 4, 6), (24, 30, 0), (0, 4, 30)):
                    bits = _with_fields(opcode, (0, 0, 0, 0), (target, address, data, third))
                    candidates.append(bits | high << 64)
    bases: dict[int, list[int]] = defaultdict(list)
    for bits, text in zip(candidates, texts(candidates), strict=True):
        name = opcode_of(text) if text else ""
        if _known(text) and _MEMORY.get(name) == bits >> RA & 0xFF and len(bases[bits & 0xFFF]) < 24:
            bases[bits & 0xFFF].append(bits)
    return bases


def _flipped(bits: int, positions: Iterable[int], chance: float, rng: random.Random) -> int:
    for at in positions:
        if rng.random() < chance:
            bits ^= 1 << at
    return bits


def _explore(bases: dict[int, list[int]], rng: random.Random) -> dict[tuple[int, str], int]:
    """Encodings around the bases, one for each (opcode bits, text)."""
    pool: list[int] = []
    for opcode, starts in bases.items():
        positions = list(_MODIFIERS)
        if opcode >> 9 not in (2, 4):  # no immediate in bits 32..63
            positions += list(_OPERAND_MODIFIERS)
        if opcode >> 9 in (3, 5):
            positions = [at for at in positions if not 54 <= at < 60]  # the bank of a constant
        pool += starts
        pool += [bits ^ 1 << at for bits in starts for at in positions]
        pool += [starts[0] ^ 1 << i ^ 1 << j for i in positions for j in positions if i < j]
        for _ in range(_RANDOM):
            bits = _flipped(rng.choice(starts), positions, rng.choice((0.15, 0.3, 0.5)), rng)
            if opcode & 0x1FF == 0x189 and opcode >> 9 in (1, 2, 4, 7):  # SHFL: lane and clamp may be immediate
                bits = _flipped(bits, range(40, 58), 0.5, rng)
            pool.append(bits)
    pool = [_immediate(bits, rng) for bits in dict.fromkeys(pool)]
    return {
        (bits & 0xFFF, text): bits
        for bits, text in zip(pool, texts(pool), strict=True)
        if text is not None and _known(text) and not _UNDEFINED.search(text) and _operands_are_prepared(text)
    }


def _immediate(bits: int, rng: random.Random) -> int:
    """Give an immediate or a constant of bank 0 a value worth testing."""
    kind = bits >> 9 & 7
    if bits >> RA & 0xFF in (2, 3, 8):  # an address: bits 32..63 hold data register and offset
        return bits
    if kind in (2, 4) and bits & 0x1FF != 0x189:
        return field(bits, RB, 32, rng.choice(_IMMEDIATES))
    if kind in (3, 5) and bits & 0xFFF not in (0x782, 0xB82):
        offset = CONSTANT_OFFSET + 8 * rng.randrange(CONSTANT_WORDS // 2)
        return field(field(bits, 38, 16, offset), 54, 5, 0)
    if bits & 0xFFF == 0xB82:
        offset = CONSTANT_OFFSET + 8 * rng.randrange(CONSTANT_WORDS // 4)
        return field(field(bits, 38, 16, offset), 54, 5, 0)
    return bits


_REGISTERS = re.compile(r"\b(U?R)(\d+)\b")
_PREPARED = {"R": {2, 3, 4, 6, 8, 12, 14, 16, 24}, "UR": {4, 12, 14, 24, 30}}
_ADDRESS = re.compile(r"\[(R8(\.64)?|R2|R3|R16)([+-]0x\w+)?\]")


def _operands_are_prepared(text: str) -> bool:
    if any(int(number) not in _PREPARED[file] for file, number in _REGISTERS.findall(text)):
        return False
    name = opcode_of(text)
    if name not in _MEMORY:
        return not re.search(r"cx?\[(?!0x0\]\[0x)", text)
    if name == "LDC":
        return re.search(r"c\[0x0\]\[(R16\+)?0x", text) is not None and "LDC.I" not in text
    if _HINTS.search(mnemonic_of(text)) or (name in ("LDG", "LD") and re.search(r"P\d", text)):
        return False
    inside = _ADDRESS.search(text)
    return inside is not None and not inside[3] and (_MEMORY[name] != 8 or "E" in mnemonic_of(text).split("."))


def _choose(found: dict[tuple[int, str], int], rng: random.Random) -> Iterator[Form]:
    """One form of each mnemonic, and some more of each kind of operand."""
    by_mnemonic: dict[str, list[tuple[str, int]]] = defaultdict(list)
    by_kind: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for (opcode, text), bits in found.items():
        by_mnemonic[mnemonic_of(text)].append((text, bits))
        by_kind[opcode_of(text), opcode].append((text, bits))
    for forms in by_mnemonic.values():
        # The plainest operands first: registers, no signs, no predicates negated.
        text, bits = min(forms, key=lambda form: (form[1] >> 9 & 7 not in (0, 1), len(form[0]), form[0]))
        yield from _guarded(text, bits, rng)
    for (name, _), forms in by_kind.items():
        count = 4 * _PER_KIND if name in ("LOP3", "PLOP3", "UPLOP3", "ULOP3", "SHFL", "PRMT") else _PER_KIND
        for text, bits in rng.sample(sorted(forms), min(count, len(forms))):
            yield Form(bits, text, family_of(text))


_CROSS = ("VOTE", "MATCH", "REDUX", "SHFL", "R2UR", "ELECT", "VOTEU")


def _guarded(text: str, bits: int, rng: random.Random) -> Iterator[Form]:
    yield Form(bits, text, family_of(text))
    if opcode_of(text) in _CROSS or rng.random() < 0.01:
        guard = rng.randrange(7)
        yield Form(field(bits, 12, 4, guard), f"@P{guard} {text}", family_of(text))


def family_of(text: str) -> str:
    """Name of the operand set in `operands`."""
    name, words = opcode_of(text), set(mnemonic_of(text).split("."))
    if name in _MEMORY:
        return "memory"
    if name.startswith("U") or name == "R2UR":
        return "uniform"
    if name.startswith("D") or (name in ("F2F", "FRND", "F2I") and "F64" in words) or "S64" in words or "U64" in words:
        return "double"
    if name.startswith("H") or name == "VHMNMX" or (words & {"F16", "BF16"} and name in ("F2I", "F2F", "FRND", "MUFU")):
        return "half"
    return "word"


def _special_registers() -> Iterator[Form]:
    pool = [
        _with_fields(opcode, (0, 0, 0, 0), (24, 0, 0, 0)) | number << 72 | high << 80
        for opcode in (0x919, 0x9C3, 0x805)
        for number in range(256)
        for high in (0, 1)
    ]
    for bits, text in zip(pool, texts(pool), strict=True):
        if text is not None and not _UNDEFINED.search(text) and _SPECIAL.search(text):
            yield Form(bits, text, "memory")
