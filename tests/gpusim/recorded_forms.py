"""Single instructions recorded on an H200 (`python -m validate instructions`), and how an executor replays one.

See validate/instructions/job.py for the registers that an instruction finds: R12..R15 and R4..R7 of each lane, the
same of the lowest lane in uniform registers, predicates from R5.
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
