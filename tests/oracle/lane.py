"""One lane's registers and predicates, and one instruction's operands as that lane sees them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from isa.instruction import PT, RZ, URZ, Instruction, Operand

WORD = 0xFFFFFFFF


class Undefined(Exception):
    """A form that no manual describes: only its recording says what it does."""


@dataclass
class Memory:
    """Bytes by address, a dictionary for each space, and where generic addresses of a space begin.

    Local memory is a lane's own; the rest of the warp sees the others.
    """

    spaces: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    windows: dict[str, int] = field(default_factory=dict)

    def read(self, space: str, address: int, count: int) -> int:
        return sum(self.spaces[space][address + k] << 8 * k for k in range(count))

    def write(self, space: str, address: int, count: int, value: int) -> None:
        for k in range(count):
            self.spaces[space][address + k] = value >> 8 * k & 255


@dataclass
class Lane:
    """Registers by number and predicates by number, of the vector and the uniform file; constant bank 0 by offset."""

    registers: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    uniform: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    predicates: dict[int, bool] = field(default_factory=lambda: defaultdict(bool))
    uniform_predicates: dict[int, bool] = field(default_factory=lambda: defaultdict(bool))
    constants: dict[int, int] = field(default_factory=dict)
    number: int = 0
    memory: Memory = field(default_factory=Memory)
    special: dict[str, int] = field(default_factory=dict)


def signed(value: int, bits: int = 32) -> int:
    """Two's complement value of the low bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class View:
    """Operands of an instruction in printed order: result predicates, result, sources, source predicates.

    Predicates that stand before the first source are results, those behind it are sources.
    """

    def __init__(self, instruction: Instruction, lane: Lane, has_result: bool):
        self.instruction, self.lane = instruction, lane
        self.modifiers = set(instruction.modifiers)
        self.results: list[Operand] = []
        self.sources: list[Operand] = []
        self.conditions: list[Operand] = []
        self.result: Operand | None = None
        for operand in instruction.operands:
            if operand.kind in ("pred", "upred"):
                (self.conditions if self.sources else self.results).append(operand)
            elif has_result and self.result is None:
                self.result = operand
            else:
                self.sources.append(operand)

    def has(self, *names: str) -> bool:
        return not self.modifiers.isdisjoint(names)

    # --- sources --------------------------------------------------------------------------------------------------
    def raw(self, k: int, words: int = 1) -> int:
        """Bits of source `k` without its sign; an immediate of two words is the upper one."""
        operand = self.sources[k]
        if operand.kind == "imm":
            bits = int(operand.value or 0) & WORD
            return bits << 32 * (words - 1)
        if operand.kind == "fimm":
            return self.instruction.immediate_bits << 32 * (words - 1)
        if operand.kind == "const":
            return sum(self.lane.constants[operand.offset + 4 * i] << 32 * i for i in range(words))
        file, zero = (self.lane.uniform, URZ) if operand.kind == "ureg" else (self.lane.registers, RZ)
        if operand.index == zero:
            return 0
        return file[operand.index] if words == 1 else sum(file[operand.index + i] << 32 * i for i in range(words))

    def word(self, k: int) -> int:
        """Source `k` as an integer with its '-', '~' or bars applied."""
        operand, value = self.sources[k], self.raw(k)
        if operand.absolute:
            value = abs(signed(value))
        if operand.invert:
            value = ~value
        return (-value if operand.negate else value) & WORD

    def floating(self, k: int, bits: int = 32) -> int:
        """Bits of source `k` as a floating-point number with its sign changes applied."""
        operand, value = self.sources[k], self.raw(k, bits // 32)
        # A printed immediate already carries its sign.
        if operand.kind == "fimm":
            return value
        if operand.absolute:
            value &= ~(1 << bits - 1)
        return value ^ (1 << bits - 1 if operand.negate else 0)

    def condition(self, k: int, default: bool = True) -> bool:
        """Source predicate `k`."""
        if k >= len(self.conditions):
            return default
        return self.predicate(self.conditions[k])

    def predicate(self, operand: Operand) -> bool:
        file = self.lane.uniform_predicates if operand.kind == "upred" else self.lane.predicates
        return (operand.index == PT or file[operand.index]) != operand.invert

    # --- results --------------------------------------------------------------------------------------------------
    def put(self, value: int, words: int = 1) -> None:
        assert self.result is not None
        uniform = self.result.kind == "ureg"
        file, zero = (self.lane.uniform, URZ) if uniform else (self.lane.registers, RZ)
        if self.result.index != zero:
            for i in range(words):
                file[self.result.index + i] = value >> 32 * i & WORD

    def decide(self, k: int, value: bool) -> None:
        """Result predicate `k`, where there is one."""
        if k < len(self.results) and self.results[k].index != PT:
            uniform = self.results[k].kind == "upred"
            file = self.lane.uniform_predicates if uniform else self.lane.predicates
            file[self.results[k].index] = bool(value)
