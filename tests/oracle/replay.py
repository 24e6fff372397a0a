"""Recorded forms and drawn operands through the interpreter, and where the executors are known to differ."""

from collections.abc import Iterable

import numpy as np

from isa.errors import UnknownInstruction
from isa.instruction import Instruction
from isa.lower import lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout
from tests.gpusim.recorded_forms import CONSTANT_OFFSET, OPERAND_REGISTERS, Form, forms, recording
from tests.oracle import Lane, execute
from tests.oracle.lanes_between import execute_warp

_HALVES = {"F16", "BF16"}
NOT_YET = {
    "MUFU.TANH of halves is that of single precision": lambda i: (
        i.opcode == "MUFU" and "TANH" in i.modifiers and _HALVES & set(i.modifiers)
    ),
}
"""Forms in which the executors differ from the H200: who closes one takes it from here."""


def is_known_gap(instruction: Instruction) -> bool:
    return any(concerns(instruction) for concerns in NOT_YET.values())


def writes_one_predicate_twice(instruction: Instruction) -> bool:
    """No compiler does that; the H200 keeps the first result."""
    first = [operand for operand in instruction.operands if operand.kind in ("pred", "upred")][:2]
    return len(first) == 2 and first[0].index == first[1].index != 7 and not first[1].invert


def is_executed(instruction: Instruction) -> bool:
    """Whether the opcode table takes this form."""
    try:
        lower_instruction(instruction, ConstantPool(), RegisterLayout(40, 104))
    except UnknownInstruction:
        return False
    return True


def recorded(opcodes: Iterable[str]) -> dict[str, list[Form]]:
    """Every recorded form of an opcode that is executed; those that reach memory are test_memory.py's."""
    result: dict[str, list[Form]] = {opcode: [] for opcode in opcodes}
    for form in forms():
        usable = form.family != "memory" and not writes_one_predicate_twice(form.instruction)
        if form.instruction.opcode in result and usable and is_executed(form.instruction):
            result[form.instruction.opcode].append(form)
    return result


def constants() -> dict[int, int]:
    return {CONSTANT_OFFSET + 4 * k: int(value) for k, value in enumerate(recording()["constants"])}


def interpret(form: Form, lanes: range) -> np.ndarray:
    """Results [lanes, 8] as `Form.results` has them.

    Raises:
        Undefined: see `tests.oracle.execute`.
    """
    rows = []
    for number in lanes:
        lane = lane_of(form, number)
        execute(form.instruction, lane)
        rows.append(_results(lane))
    return np.array(rows, np.uint32)


def interpret_warp(form: Form, first: int) -> np.ndarray:
    """Results [32, 8] of the warp that begins at lane `first`, for opcodes whose lanes see each other."""
    lanes = [lane_of(form, number) for number in range(first, first + 32)]
    execute_warp(form.instruction, lanes)
    return np.array([_results(lane) for lane in lanes], np.uint32)


def lane_of(form: Form, number: int) -> Lane:
    """What lane `number` of the 64 finds."""
    uniform = form.family == "uniform"
    row = form.operands[number].tolist()
    warp = form.operands[32 * (number // 32) : 32 * (number // 32) + 32]
    lane = Lane(constants=constants(), number=number % 32)
    bits = row[5]
    shared = bits if uniform else int(np.bitwise_or.reduce(warp[:, 5]))
    for k, register in enumerate(OPERAND_REGISTERS):
        lane.registers[register] = row[k]
        lane.uniform[register] = row[k] if uniform else int(warp[0, k])
    for k in range(7):
        lane.predicates[k] = bool(bits >> k & 1)
        lane.uniform_predicates[k] = bool(shared >> k & 1)
    return lane


def _results(lane: Lane) -> list[int]:
    return (
        [lane.registers[register] for register in (24, 25, 26, 27)]
        + [sum(file[k] << k for k in range(7)) for file in (lane.predicates, lane.uniform_predicates)]
        + [lane.uniform[24], lane.uniform[25]]
    )
