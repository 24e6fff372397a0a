"""Single instructions recorded on an H200, and how an executor replays one.

Its 3,680 forms, and 320 that an H200 refuses, are every opcode, modifier set and kind of operand that nvdisasm knows of
single instructions. About half of the operands' values are those at which arithmetic has its corners: both zeros,
denormals, infinities, quiet and signalling NaN with payloads, powers of two and their neighbours, shift counts beyond
the width. Each was run in a kernel of its own, of which everything else waits for everything before it.

Every thread has its 32 bytes of input in R12..R15 and R4..R7; copies of the warp's lowest lane stand in the uniform
registers of the same numbers, bits 0..6 of R5 are in P0..P6 and their disjunction over the warp in UP0..UP6. R24..R27
and UR24, UR25 are zero. Memory operands are 32 bytes of the thread's own, which hold its input: in global memory at
R8:R9, in shared memory at R2, in local memory at R3. R16 holds a small multiple of 4 from R14.

The file holds: text [n], encoding [n, 2], family [n], operands [families, lanes, 8], constants [16], registers
[n, lanes, 8] in the order of `RESULTS` with predicates as changes of the input's, memory [m, lanes, 24] (shared, local
and global cell) for the last m forms, refused: texts, and provenance.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from isa import microops as m
from isa.errors import DecodeError
from isa.instruction import Instruction, parse_instruction
from isa.lower import lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout

OPERAND_REGISTERS = (12, 13, 14, 15, 4, 5, 6, 7)
FAMILIES = ("word", "double", "half", "uniform", "memory")
CONSTANT_OFFSET = 0x220
RESULTS = ("R24", "R25", "R26", "R27", "P", "UP", "UR24", "UR25")
_UNIFORM_BASE, _SINK, _ROWS = 40, 104, 108
FULL = 0xFFFFFFFF
ONE_VALUE_A_WARP = ("VOTEU", "R2UR", "ELECT")
"""Instructions with a uniform result that look at all lanes."""


@dataclass(frozen=True)
class Form:
    """One recorded instruction; results uint32 [64, 8] in the order of `RESULTS`, predicates as they are afterwards."""

    instruction: Instruction
    family: str
    operands: np.ndarray
    results: np.ndarray


@cache
def recording() -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parent / "data" / "h200_instructions.npz") as file:
        return dict(file)


@cache
def forms() -> tuple[Form, ...]:
    data = recording()
    result = []
    for text, encoding, family, registers in zip(
        data["text"].tolist(),
        data["encoding"].tolist(),
        data["family"].tolist(),
        data["registers"],
        strict=True,
    ):
        operands = data["operands"][family]
        after = registers.copy()
        after[:, 4] ^= operands[:, 5] & 0x7F
        try:
            instruction = parse_instruction(0, text, encoding[0] | encoding[1] << 64, {})
        except DecodeError:
            continue  # counted by the test, like what the opcode table refuses
        result.append(Form(instruction, FAMILIES[family], operands, after))
    return tuple(result)


def warps(form: Form) -> list[np.ndarray]:
    """Operands [32, 8] of each warp that ran: a warp for each set of operands of the uniform family."""
    if form.family == "uniform" and form.instruction.opcode in ONE_VALUE_A_WARP:
        return [np.repeat(form.operands[k : k + 1], 32, axis=0) for k in range(len(form.operands))]
    return [form.operands[:32], form.operands[32:]]


def replay(form: Form, executors: dict) -> np.ndarray:
    """Results [64, 8] of the compiled executor.

    Raises:
        UnknownInstruction: the instruction has no lowering.
    """
    pool = ConstantPool()
    layout = RegisterLayout(_UNIFORM_BASE, _SINK)
    columns = lower_instruction(form.instruction, pool, layout, "recording").columns
    code = np.array([columns], np.int32)
    first = 32 * len(pool.rows)
    space = np.zeros(first + 32 * _ROWS + 16, np.uint32)
    regs = space[(-space.ctypes.data // 4) % 16 :]
    constants = recording()["constants"]
    for k, (kind, value, offset) in enumerate(pool.rows):
        regs[32 * k : 32 * k + 32] = constants[(offset - CONSTANT_OFFSET) // 4] if kind else value
    rows = regs[first : first + 32 * _ROWS].reshape(_ROWS, 32)
    results = []
    for operands in warps(form):
        rows[:] = 0
        preds = np.zeros(16, np.uint32)
        preds[[7, 15]] = FULL
        lanes, seven = np.arange(32, dtype=np.uint32), np.arange(7, dtype=np.uint32)[:, None]
        preds[:7] = np.bitwise_or.reduce((operands[:, 5] >> seven & 1) << lanes, axis=1)
        # A warp whose lanes all hold the same stands for 32 warps with the same rule.
        preds[8:15] = preds[:7] if form.family == "uniform" else FULL * (preds[:7] != 0)
        registers = np.array(OPERAND_REGISTERS)
        rows[registers] = operands.T
        rows[_UNIFORM_BASE + registers] = operands.T if form.family == "uniform" else operands[:1].T
        guard = preds[form.instruction.guard]
        mask = np.uint32(~guard if form.instruction.guard_negated else guard)
        executors[columns[m.COL_CLASS]](code, 0, regs, first, preds, 0, mask)
        words = [rows[24], rows[25], rows[26], rows[27], _bits(preds[:7]), _bits(preds[8:15])]
        words += [rows[_UNIFORM_BASE + 24], rows[_UNIFORM_BASE + 25]]
        results.append(np.stack(words, axis=1))
    if len(results) > 2:
        return np.stack([each[0] for each in results])
    return np.concatenate(results)


def _bits(preds: np.ndarray) -> np.ndarray:
    lanes, seven = np.arange(32, dtype=np.uint32), np.arange(7, dtype=np.uint32)[:, None]
    return np.bitwise_or.reduce((preds[:, None] >> lanes & 1) << seven, axis=0)
