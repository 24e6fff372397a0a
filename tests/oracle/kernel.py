"""One instruction inside a kernel, and the same through the interpreter.

A lane has 32 bytes of global, shared and local memory, which hold its operands, R12..R15 and R4..R7, as in
tests/gpusim/recorded_forms.py. Its addresses are R8:R9 (global), R2 (shared) and R3 (local), offset by `at`; R10 is
the offset alone, R11 a quarter of it, UR8:UR9 and UR10 are where global and shared memory begin. R8:R9 may also be
the generic address of the lane's shared or local place.
"""

from dataclasses import dataclass, replace

import numpy as np

import gpusim
from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW
from isa.instruction import Instruction
from tests.gpusim import sass
from tests.gpusim.recorded_forms import OPERAND_REGISTERS, recording
from tests.oracle import execute
from tests.oracle.lane import Lane, Memory
from tests.oracle.lanes_between import MEANINGS as OF_WARPS
from tests.oracle.lanes_between import execute_warp
from tests.oracle.replay import constants

CELL = 32
_SHARED, _GLOBAL = 0x400, 1 << 40
_WORDS = 24
WINDOWS = ("global", "shared", "local")
# Parameters: operands, results, 16 constant words from 0x220 on, offsets and windows.
_KERNEL = """
S2R R0, SR_TID.X
S2R R1, SR_CTAID.X
IMAD R17, R1, 0x20, R0
IMAD.WIDE.U32 R8, R17, 0x20, c[0x0][0x210]
LDG.E.128 R12, desc[UR4][R8.64]
LDG.E.128 R4, desc[UR4][R8.64+0x10]
IMAD R2, R0, 0x20, 0x400
STS.128 [R2], R12
STS.128 [R2+0x10], R4
STL.128 [0x0], R12
STL.128 [0x10], R4
IMAD.WIDE.U32 R18, R17, 0x10, c[0x0][0x260]
LDG.E.128 R20, desc[UR4][R18.64]
MOV R10, R20
MOV R3, R21
IADD3 R2, R10, 0x400, RZ
MOV R20, 0x1
IMAD.WIDE R8, R10, R20, c[0x0][0x210]
ISETP.EQ.U32.AND P0, PT, R22, 0x1, PT
ISETP.EQ.U32.AND P1, PT, R22, 0x2, PT
@P0 MOV R8, R2
@P0 MOV R9, {shared:#x}
@P1 MOV R8, R3
@P1 MOV R9, {local:#x}
SHF.R.U32.HI R11, RZ, 0x2, R10
ULDC.64 UR8, c[0x0][0x210]
UMOV UR10, 0x400
{uniform}
LOP3.LUT R16, R14, 0x1c, RZ, 0xc0, !PT
R2P PR, R5, 0x7f
MOV R24, RZ
MOV R25, RZ
MOV R26, RZ
MOV R27, RZ
UMOV UR24, URZ
UMOV UR25, URZ
{instruction}
P2R R28, PR, RZ, 0x7f
MOV R29, UR24
MOV R30, UR25
MOV R31, RZ
IMAD.WIDE.U32 R18, R17, 0x60, c[0x0][0x218]
STG.E.128 desc[UR4][R18.64], R24
STG.E.128 desc[UR4][R18.64+0x10], R28
IMAD R2, R0, 0x20, 0x400
LDS.128 R32, [R2]
LDS.128 R36, [R2+0x10]
LDL.128 R40, [0x0]
LDL.128 R44, [0x10]
STG.E.128 desc[UR4][R18.64+0x20], R32
STG.E.128 desc[UR4][R18.64+0x30], R36
STG.E.128 desc[UR4][R18.64+0x40], R40
STG.E.128 desc[UR4][R18.64+0x50], R44
"""
_UNIFORM = "\n".join(f"R2UR UR{register}, R{register}" for register in OPERAND_REGISTERS)


@dataclass(frozen=True)
class Case:
    """An instruction and operands uint32 [lanes, 8], in blocks of 32 lanes with shared memory of their own.

    `at`, int32 [lanes, 4], has the offset of global and shared memory, of local memory, and which of `WINDOWS` R8:R9
    points to.
    """

    instruction: Instruction
    operands: np.ndarray
    at: np.ndarray


def own_cells(lanes: int) -> np.ndarray:
    """Offsets with which each lane meets its own bytes; shared memory begins anew in each block."""
    at = np.zeros((lanes, 4), np.int32)
    at[:, 0] = CELL * np.arange(lanes)
    return at


def simulated(case: Case) -> np.ndarray:
    """uint32 [lanes, 32]: R24..R27, predicates, UR24, UR25, 0, then the lane's shared, local and global cells."""
    lanes = len(case.operands)
    cells, results = case.operands.copy(), np.zeros((lanes, _WORDS), np.uint32)
    copies = case.instruction.opcode == "LDGSTS"
    text = _KERNEL.format(
        shared=SHARED_WINDOW >> 32,
        local=LOCAL_WINDOW >> 32,
        uniform=_UNIFORM,
        instruction=case.instruction.text + "\nLDGDEPBAR\nDEPBAR.LE SB0, 0x0" * copies,
    )
    program = sass.assemble(text, 11, static_shared_bytes=1024, local_bytes=CELL)
    if copies:  # their end is announced by the barrier of copies alone
        alone = tuple(
            replace(each, control=each.control._replace(write_barrier=7)) if each.opcode == "LDGSTS" else each
            for each in program.instructions
        )
        program = replace(program, instructions=alone)
    words = recording()["constants"].astype(np.uint32).view(np.uint64)
    gpusim.simulate(program, lanes // 32, 32, (cells, results, *words, case.at.copy()), gpu="tiny")
    return np.concatenate([results, cells], axis=1)


def interpreted(case: Case) -> np.ndarray:
    """The same, one lane after the other, the lowest first.

    Raises:
        Undefined: see `tests.oracle.execute`.
    """
    memory: dict[str, dict[int, int]] = {"global": {}}
    _fill(memory["global"], _GLOBAL, case.operands)
    rows: list[list[int]] = []
    lanes: list[Lane] = []
    for number in range(len(case.operands)):
        if number % 32 == 0:
            memory["shared"] = {}
            _fill(memory["shared"], _SHARED, case.operands[number : number + 32])
            warp = case.operands[number : number + 32]
        lanes.append(_lane(case, number, memory, warp))
        if case.instruction.opcode not in OF_WARPS:
            execute(case.instruction, lanes[-1])
        if number % 32 == 31:
            group = lanes[-32:]
            if case.instruction.opcode in OF_WARPS:
                execute_warp(case.instruction, group)
            rows += [_row(lane) for lane in group]
    last = [_words(memory["global"], _GLOBAL + CELL * number) for number in range(len(lanes))]
    return np.array([row + cell for row, cell in zip(rows, last, strict=True)], np.uint32)


def _fill(space: dict[int, int], start: int, operands: np.ndarray) -> None:
    space.update(enumerate(np.ascontiguousarray(operands).tobytes(), start))


def _words(space: dict[int, int], start: int) -> list[int]:
    return np.frombuffer(bytes(map(space.__getitem__, range(start, start + 32))), np.uint32).tolist()


def _lane(case: Case, number: int, memory: dict[str, dict[int, int]], warp: np.ndarray) -> Lane:
    row = case.operands[number].tolist()
    at, local, window, _ = case.at[number].tolist()
    own: dict[int, int] = {}
    _fill(own, 0, case.operands[number : number + 1])
    spaces = {"global": memory["global"], "shared": memory["shared"], "local": own}
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
    lane = Lane(constants=constants(), number=number % 32, memory=Memory(spaces, windows))
    lane.special |= {"SR_CTAID.X": number // 32, "SR_CTAID.Y": 0, "SR_CTAID.Z": 0}
    for k, register in enumerate(OPERAND_REGISTERS):
        lane.registers[register] = row[k]
        lane.uniform[register] = int(warp[0, k])
    for k in range(7):
        lane.predicates[k] = bool(row[5] >> k & 1)
    shared = _SHARED + at
    pointer = (_GLOBAL + at, SHARED_WINDOW + shared, LOCAL_WINDOW + local)[window]
    lane.registers |= {8: pointer & 0xFFFFFFFF, 9: pointer >> 32, 2: shared, 3: local, 10: at & 0xFFFFFFFF}
    lane.registers |= {11: (at & 0xFFFFFFFF) >> 2, 16: row[2] & 0x1C}
    lane.uniform |= {8: _GLOBAL & 0xFFFFFFFF, 9: _GLOBAL >> 32, 10: _SHARED}
    return lane


def _row(lane: Lane) -> list[int]:
    first = [lane.registers[register] for register in (24, 25, 26, 27)]
    first += [sum(lane.predicates[k] << k for k in range(7)), lane.uniform[24], lane.uniform[25], 0]
    start = _SHARED + CELL * lane.number
    spaces = lane.memory.spaces
    return first + _words(spaces["shared"], start) + _words(spaces["local"], 0)
