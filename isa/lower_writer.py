"""Turns the operands of one instruction into the columns of one code row, refusing whatever it does not understand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from isa import microops as m
from isa.errors import UnknownInstruction
from isa.instruction import INSTRUCTION_BYTES, PT, RZ, URZ, Instruction, Operand
from isa.limits import BANK_BYTES

WORD = 0xFFFFFFFF
ZERO_ROWS = 4
SINK_ROWS = 4
SOURCES = {"A": m.COL_A, "B": m.COL_B, "C": m.COL_C}
BOOLEANS = {"AND": m.BOOL_AND, "OR": m.BOOL_OR, "XOR": m.BOOL_XOR}
_LT, _EQ, _GT, _UNORDERED = m.COMPARE_LT, m.COMPARE_EQ, m.COMPARE_GT, m.COMPARE_UNORDERED
_RELATIONS = {"LT": _LT, "EQ": _EQ, "LE": _LT | _EQ, "GT": _GT, "NE": _LT | _GT, "GE": _GT | _EQ}
COMPARES = {
    **{"F": 0, "NUM": _LT | _EQ | _GT, "NAN": _UNORDERED, "T": _LT | _EQ | _GT | _UNORDERED},
    **_RELATIONS,
    **{name + "U": relation | _UNORDERED for name, relation in _RELATIONS.items()},
}
BYTES = {f"B{k}": k for k in range(4)}
NO_RELATION = "a comparison without a relation"


def constants(prefix: str, names: str) -> dict[str, int]:
    """Modifiers that are named as constants of `isa.microops` are, by their names."""
    return {name: getattr(m, prefix + name.upper()) for name in names.split()}


@dataclass
class ConstantPool:
    """Rows shared by all warps: immediates and words of constant banks; the first four are zero.

    Attributes:
        rows: (0, value, 0) an immediate, (1, bank, byte offset) a word of a constant bank.
    """

    rows: list[tuple[int, int, int]] = field(default_factory=lambda: [(0, 0, 0)] * ZERO_ROWS)
    _known: dict[tuple[tuple[int, int, int], ...], int] = field(default_factory=dict)

    def code(self, *words: tuple[int, int, int]) -> int:
        """Operand code of consecutive constant rows with this content."""
        if all(word == (0, 0, 0) for word in words):
            return ~0
        if words not in self._known:
            self._known[words] = len(self.rows)
            self.rows.extend(words)
        return ~self._known[words]


@dataclass(frozen=True)
class RegisterLayout:
    """Places of a warp's rows: registers, then uniform registers from `ureg_base`, then the sink rows. `registers`: of
    a thread at the launch."""

    ureg_base: int
    sink_row: int
    registers: int = 0


class RowWriter:
    """One code row in the making. Operands are consumed in printed order; `finish` rejects what is left.

    Args:
        instruction: what is lowered.
        pool: receives immediates and constant-bank words.
        layout: row numbers.
        kernel: name for messages.
    """

    def __init__(self, instruction: Instruction, pool: ConstantPool, layout: RegisterLayout, kernel: str):
        self.instruction = instruction
        self.modifiers = instruction.modifiers
        self.columns = [0] * m.COLUMNS
        self._pool = pool
        self._layout = layout
        self._kernel = kernel
        self._operands = list(instruction.operands)
        for column in (m.COL_A, m.COL_B, m.COL_C, m.COL_CONST):
            self.columns[column] = -1
        self.columns[m.COL_DST] = layout.sink_row
        for column in (m.COL_PD0, m.COL_PD1, m.COL_PS0, m.COL_PS1, m.COL_PS2):
            self.columns[column] = PT
        self.sources: list[tuple[int, Operand, int]] = []
        self.launched_with = layout.registers

    # --- errors and columns ---------------------------------------------------------------------------------------
    def refuse(self, reason: str) -> UnknownInstruction:
        """The error to raise for something that this row's opcode cannot mean."""
        ins = self.instruction
        return UnknownInstruction(ins.text, ins.encoding, ins.line, self._kernel, reason)

    def set(self, op: int, **columns: int) -> None:
        """Choose the micro-operation; keyword names are column names without COL_, in lower case."""
        self.columns[m.COL_OP] = op
        self.columns[m.COL_CLASS] = op // 100
        for name, value in columns.items():
            self.columns[getattr(m, "COL_" + name.upper())] = value

    def has(self, *names: str) -> bool:
        """True if any of the modifiers is there."""
        return any(name in self.modifiers for name in names)

    def choose(self, choices: dict[str, int], default: int) -> int:
        """The value of the one modifier that is in `choices`."""
        found = [choices[name] for name in self.modifiers if name in choices]
        if len(set(found)) > 1:
            raise self.refuse("contradicting modifiers")
        return found[0] if found else default

    def one_of(self, choices: dict[str, int], missing: str) -> int:
        """The same of a modifier that has to be there. missing: what is wrong without."""
        if (found := self.choose(choices, -1)) < 0:
            raise self.refuse(missing)
        return found

    # --- operands in printed order --------------------------------------------------------------------------------
    def peek(self, ahead: int = 0) -> Operand | None:
        return self._operands[ahead] if len(self._operands) > ahead else None

    def next_is(self, *kinds: str) -> bool:
        operand = self.peek()
        return operand is not None and operand.kind in kinds

    def take(self, *kinds: str) -> Operand:
        """The next operand, which must be of one of the kinds (of any if none is given)."""
        if not self._operands:
            raise self.refuse("an operand is missing")
        operand = self._operands.pop(0)
        if kinds and operand.kind not in kinds:
            raise self.refuse(f"a {operand.kind} operand where {' or '.join(kinds)} is expected")
        return operand

    def number(self) -> int:
        """The next operand's integer value."""
        operand = self.take("imm", "reg", "ureg")
        if operand.kind == "imm" and isinstance(operand.value, int):
            return operand.value
        if is_zero(operand):
            return 0
        raise self.refuse("a register where an immediate is expected")

    def target(self) -> int:
        """Index of the instruction that the next operand, a label, names."""
        return int(self.take("label").value or 0) // INSTRUCTION_BYTES

    def finish(self) -> None:
        if self._operands:
            raise self.refuse(f"{len(self._operands)} operands more than expected")

    # --- registers ------------------------------------------------------------------------------------------------
    def register_row(self, operand: Operand, destination: bool = False) -> int:
        """Row of a register or uniform register; RZ and URZ give a zero row, or the sink as destinations."""
        if is_zero(operand):
            return self._layout.sink_row if destination else ~0
        if operand.kind == "ureg":
            return self._layout.ureg_base + operand.index
        return operand.index

    def return_pair_row(self, half: int) -> int:
        """Row of the lower (0) or upper (1) word of Rpc, behind the registers of a program that names it."""
        return self._layout.ureg_base - 2 + half

    def dst(self, rows: int = 1) -> None:
        """Consume the destination register."""
        operand = self.take("reg", "ureg")
        self.columns[m.COL_DST] = self.register_row(operand, destination=True)
        self.columns[m.COL_DST_COUNT] = 0 if is_zero(operand) else rows

    def src(self, column: int, rows: int = 1, numeric: str = "int") -> None:
        """Consume a source into `column` and its modifier column. rows: 1 for 32-bit, 2 for 64-bit sources. numeric:
        'int' (negation is two's complement), 'float' (sign bit), 'raw' (no modifier allowed) or 'upper' (as 'raw'; the
        immediate is the upper of two words, as it is of doubles)."""
        operand = self.take("reg", "ureg", "imm", "fimm", "const")
        self.put(column, operand, rows, numeric)

    def put(self, column: int, operand: Operand, rows: int = 1, numeric: str = "int") -> None:
        self.columns[column] = self.operand_code(operand, rows, numeric)
        self.columns[column + 1] = self._modifier(operand, numeric)
        self.sources.append((column, operand, rows))

    def operand_code(self, operand: Operand, rows: int = 1, numeric: str = "int") -> int:
        if operand.kind in ("reg", "ureg"):
            if rows > 1 and not is_zero(operand) and operand.index % 2:
                raise self.refuse(f"{operand.index} is not the start of a register pair")
            return self.register_row(operand)
        if operand.kind == "const":
            return self._constant_bank(operand, rows)
        if operand.kind == "fimm":
            # The printed decimal may be a NaN or rounded; the encoding holds the bits.
            bits = self.instruction.immediate_bits
            words = [0, bits] if rows == 2 else [bits]
        else:
            value = int(operand.value or 0)
            if numeric in ("float", "upper") and rows == 2:
                words = [0, value & WORD]
            else:
                words = [value >> 32 * k & WORD for k in range(rows)]
        return self._pool.code(*((0, word, 0) for word in words))

    def immediate_code(self, *words: int) -> int:
        """Operand code of constant rows that hold these words."""
        return self._pool.code(*((0, word & WORD, 0) for word in words))

    def constant_code(self, bank: int, offset: int, rows: int = 1) -> int:
        """Operand code of words of a constant bank."""
        if not 0 <= offset <= BANK_BYTES - 4 * rows:
            raise self.refuse("a constant outside its bank")
        return self._pool.code(*((1, bank, offset + 4 * k) for k in range(rows)))

    def _constant_bank(self, operand: Operand, rows: int) -> int:
        if operand.bank is None or operand.base is not None or operand.ubase is not None:
            raise self.refuse("an indexed constant as an arithmetic operand")
        if operand.offset % (4 * rows):
            raise self.refuse("a misaligned constant")
        self.columns[m.COL_CONST] = operand.bank << 16 | operand.offset
        return self.constant_code(operand.bank, operand.offset, rows)

    def _modifier(self, operand: Operand, numeric: str) -> int:
        if operand.suffixes:
            raise self.refuse(f"operand suffix {'.'.join(operand.suffixes)}")
        if numeric == "float" and not operand.invert:
            return m.MOD_FABS * operand.absolute + m.MOD_FNEG * operand.negate
        if numeric == "int" and not operand.absolute and not (operand.negate and operand.invert):
            return m.MOD_INEG if operand.negate else m.MOD_NOT if operand.invert else m.MOD_NONE
        if operand.negate or operand.absolute or operand.invert:
            raise self.refuse("an operand modifier that has no meaning here")
        return m.MOD_NONE

    def operands(self, pattern: str, rows: int = 1, numeric: str = "int") -> None:
        """Consume several operands in printed order: 'd', sources 'A', 'B', 'C', predicates 'pd0' to 'ps2'; a 'number'
        and a 'label' into AUX0, a 'barrier' of lanes into AUX1; 'other' is a word that changes nothing."""
        for name in pattern.split():
            if name == "d":
                self.dst(rows)
            elif name in SOURCES:
                self.src(SOURCES[name], rows, numeric)
            elif name == "number":
                self.columns[m.COL_AUX0] = self.number()
            elif name == "label":
                self.columns[m.COL_AUX0] = self.target()
            elif name == "barrier":
                self.columns[m.COL_AUX1] = self.take("barrier").index
            elif name == "other":
                self.take("other")
            else:
                (self.pd if name.startswith("pd") else self.ps)(int(name[2]))

    # --- predicates -----------------------------------------------------------------------------------------------
    def pd(self, k: int) -> bool:
        """Consume destination predicate k (0 or 1) if the next operand is one; whether it was."""
        if not self.next_is("pred", "upred"):
            return False
        self.columns[m.COL_PD0 + k] = self._predicate(self.take())
        return True

    def ps(self, k: int, default: bool = True) -> bool:
        """Consume source predicate k (0..2) if the next operand is one, else it is `default`; whether it was."""
        column = m.COL_PS0 + 2 * k
        if not self.next_is("pred", "upred"):
            self.columns[column], self.columns[column + 1] = PT, int(not default)
            return False
        operand = self.take()
        self.columns[column], self.columns[column + 1] = self._predicate(operand), int(operand.invert)
        return True

    def ps_false(self, k: int) -> None:
        """Source predicate k is false: no carry."""
        self.columns[m.COL_PS0 + 2 * k], self.columns[m.COL_PS0 + 2 * k + 1] = PT, 1

    def writes_predicates(self) -> bool:
        """True if a destination predicate is other than PT and UPT, which discard what is written."""
        return any(self.columns[column] not in (7, 15) for column in (m.COL_PD0, m.COL_PD1))

    @staticmethod
    def _predicate(operand: Operand) -> int:
        return operand.index + (8 if operand.kind == "upred" else 0)


def is_zero(operand: Operand) -> bool:
    """RZ or URZ."""
    return (operand.kind == "reg" and operand.index == RZ) or (operand.kind == "ureg" and operand.index == URZ)


def plain(
    op: str, pattern: str = "", numeric: str = "int", instead: Mapping[str, str] = {}, **words: str
) -> Callable[[RowWriter], None]:
    """The lowering of an instruction that is one micro-operation. pattern: its operands as `RowWriter.operands` takes
    them. instead: other micro-operations by the modifier that asks for them. words: AUX words that are 1 if the
    instruction has the modifier."""
    usual, others = getattr(m, "OP_" + op), {modifier: getattr(m, "OP_" + name) for modifier, name in instead.items()}

    def lower(w: RowWriter) -> None:
        w.set(w.choose(others, usual), **{word: int(w.has(modifier)) for word, modifier in words.items()})
        w.operands(pattern, numeric=numeric)

    return lower
