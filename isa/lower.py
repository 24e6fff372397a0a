"""Lowering: a decoded `Program` becomes the dense table that compiled executors run.

Read `isa.microops` first (what a row means), then `isa.opcodes` (one line per instruction), then this driver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isa import microops as m
from isa.instruction import PT, RZ, Instruction
from isa.lower_writer import SINK_ROWS, ConstantPool, RegisterLayout, RowWriter, is_zero
from isa.opcodes import OPCODES
from isa.program import Once, Program

_SLOTS = {m.COL_A: 0, m.COL_B: 1, m.COL_C: 2}
_MATH = (m.UNIT_FMA, m.UNIT_FMAHEAVY, m.UNIT_ALU, m.UNIT_HALF)


Reused = dict[tuple[int, int], int]
"""A warp's small cache of registers, by bank and source slot."""


def bank_reads(writer: RowWriter, reused: Reused) -> int:
    """Registers that an instruction reads, as COL_READS says. reused: of the instruction before in address order (a
    branch target starts with what was before it), then of this one.

    Each warp's registers lie in two banks by the parity of their number, each bank delivers one register a cycle, and a
    source marked `.reuse` stays in a small cache, one entry per bank and source slot, for the next instruction of the
    warp (Huerta et al., "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, 2025). A register that two sources name
    is read once. An H200 agrees: FFMA with three different registers of one bank takes 3 cycles, with two 2, and R8,
    R8, R8 or R8, R9, R9 take 1; DFMA with three pairs 3. Of wide data that is stored the first register counts."""
    before = dict(reused)
    reused.clear()
    kept, read = ((set[int](), set[int]()) for _ in range(2))
    for column, operand, words in writer.sources:
        if operand.kind != "reg" or operand.index == RZ or writer.columns[m.COL_UNIT] == m.UNIT_TENSOR:
            continue
        for index in range(operand.index, operand.index + words):
            entry = index % 2, _SLOTS[column]
            (kept if before.get(entry) == index else read)[index % 2].add(index)
            if operand.reuse:
                reused[entry] = index
    even, odd = (len(read[bank] | kept[bank]) for bank in (0, 1))
    return len(read[0]) | len(read[1]) << 4 | even << 8 | odd << 12


def result_way(columns: list[int]) -> int:
    """RESULT_* of an instruction."""
    unit = columns[m.COL_UNIT]
    if unit == m.UNIT_XU or columns[m.COL_DST_COUNT] == 0:
        return m.RESULT_XU if unit == m.UNIT_XU else 0
    later = unit == m.UNIT_FP64 or columns[m.COL_TENSOR] != 0
    return m.RESULT_LATER if later else m.RESULT_SOON if unit in _MATH else 0


_SPARE_ROWS = 3  # a 128-bit access names its first register only
_SPARE_UNIFORM_ROWS = 7  # a copy of a tensor's box reads up to seven more than it names


@dataclass(frozen=True)
class Lowered(Once):
    """A program as numbers.

    Attributes:
        code: int32 [instructions, COLUMNS], C-contiguous; row i is the instruction at byte address 16 * i.
        const_rows: int64 [rows, 3]: (0, value, 0) an immediate; (1, bank, byte offset) a 32-bit constant-bank word.
        rows_per_warp: register rows of one warp: registers, uniform registers in use, sink rows.
        ureg_base: row of UR0.
        sink_row: first of four rows that take what is written to RZ and URZ.
    """

    code: np.ndarray
    const_rows: np.ndarray
    rows_per_warp: int
    ureg_base: int
    sink_row: int


def lower(program: Program) -> Lowered:
    """Lower a whole program before anything runs. Raises UnknownInstruction (an opcode, modifier or operand form that
    is not in the opcode table)."""
    layout = _layout(program)
    pool = ConstantPool()
    reused: Reused = {}
    code = np.zeros((len(program.instructions), m.COLUMNS), np.int32)
    for row, instruction in zip(code, program.instructions, strict=True):
        writer = lower_instruction(instruction, pool, layout, program.name)
        writer.columns[m.COL_READS] = bank_reads(writer, reused)
        writer.columns[m.COL_RESULT] = result_way(writer.columns)
        try:
            row[:] = writer.columns
        except OverflowError:
            raise writer.refuse("a number that does not fit in 32 bits") from None
    const_rows = np.array(pool.rows, np.int64)
    return Lowered(code, const_rows, layout.sink_row + SINK_ROWS, layout.ureg_base, layout.sink_row)


def loops(code: np.ndarray) -> list[tuple[int, int]]:
    """First and last instruction of each loop that a BRA closes, the shortest first. code: `Lowered.code`."""
    branches = np.flatnonzero((code[:, m.COL_CLASS] == m.CLS_CONTROL) & (code[:, m.COL_OP] == m.OP_BRA))
    found = ((int(code[row, m.COL_AUX0]), row) for row in branches.tolist())
    return sorted((each for each in found if each[0] < each[1]), key=lambda each: each[1] - each[0])


def lower_instruction(
    instruction: Instruction, pool: ConstantPool, layout: RegisterLayout, kernel: str = ""
) -> RowWriter:
    """Lower one instruction; the finished columns are in the result's `columns`. Raises UnknownInstruction (see
    `lower`)."""
    writer = RowWriter(instruction, pool, layout, kernel)
    opcode = OPCODES.get(instruction.opcode)
    if opcode is None:
        raise writer.refuse(f"opcode {instruction.opcode} is not in the opcode table")
    if opcode.refused:
        raise writer.refuse(opcode.refused)
    for modifier in instruction.modifiers:
        if modifier not in opcode.modifiers:
            raise writer.refuse(f"modifier .{modifier} of {instruction.mnemonic} is not in the opcode table")
    columns = writer.columns
    control = instruction.control
    columns[m.COL_UNIT] = opcode.unit
    columns[m.COL_VARIABLE] = int(opcode.variable)
    columns[m.COL_UNIFORM] = int(opcode.uniform)
    columns[m.COL_GUARD] = instruction.guard + 8 * (instruction.guard_uniform and instruction.guard != PT)
    columns[m.COL_GUARD_NEG] = int(instruction.guard_negated)
    columns[m.COL_STALL : m.COL_REUSE + 1] = map(int, control)
    if 6 in (control.write_barrier, control.read_barrier):
        raise writer.refuse("scoreboard 6, which does not exist")
    if (control.stall, control.write_barrier, control.read_barrier, control.wait_mask) == (0, 7, 7, 0):
        # Code for debugging leaves all waiting to the hardware: no instruction says when its result is there.
        columns[m.COL_WAIT] = 1
        if opcode.variable:
            columns[m.COL_WBAR] = 0
    opcode.lower(writer)
    writer.finish()
    return writer


def _layout(program: Program) -> RegisterLayout:
    """Size the register file by what the program can touch: few rows keep all warps in the host's cache."""
    named = {
        (part.kind, part.index)
        for instruction in program.instructions
        for operand in instruction.operands
        for part in (operand, operand.base, operand.ubase, operand.desc)
        if part is not None and not is_zero(part)
    }
    registers = max([index + 1 + _SPARE_ROWS for kind, index in named if kind == "reg"] + [program.registers])
    uniform = max((index + 1 + _SPARE_UNIFORM_ROWS for kind, index in named if kind == "ureg"), default=0)
    if any(instruction.opcode == "RPCMOV" for instruction in program.instructions):
        registers += 2  # Rpc
    return RegisterLayout(registers, registers + uniform, program.registers)
