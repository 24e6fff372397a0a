"""Sentences on warps that wait in vain: for mbarriers, words of memory, other warps, room on an SM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusim.engine.describe import registers
from gpusim.engine.dispatcher import G_NEXT, G_TOTAL
from gpusim.engine.grid import Grid
from gpusim.engine.host_calls import sm_of
from gpusim.engine.sm.mbarrier import parts_of
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State
from gpusim.launch.memory import DeviceMemory
from isa import Program
from isa import microops as M
from isa.instruction import Instruction
from isa.lower import loops


def waits(grid: Grid, program: Program, memory: DeviceMemory, for_ever: bool = False) -> list[str]:
    """A sentence for each thing that resident warps wait for, those that most wait for first. for_ever: it is certain
    that none of them ever does anything else, so that one in a loop spins."""
    state, found = grid.state, dict[str, int]()
    for warp in np.flatnonzero(state.warp[:, L.WARP_STATE] != L.FREE).tolist():
        for sentence in _of_warp(state, warp, program, memory, for_ever):
            found[sentence] = found.get(sentence, 0) + 1
    said = [f"{count:,} warp{'s' * (count > 1)} {each}" for each, count in sorted(found.items(), key=lambda f: -f[1])]
    left = int(grid.dispatch[G_TOTAL] - grid.dispatch[G_NEXT])
    if left and said:
        said.insert(1, f"{left:,} block{'s' * (left > 1)} cannot start until one of those that run has ended")
    return said


def _of_warp(state: State, warp: int, program: Program, memory: DeviceMemory, for_ever: bool) -> Iterator[str]:
    row, sm = state.warp[warp], sm_of(state, warp)
    pc = int(row[L.WARP_PC])
    if int(row[L.WARP_STATE]) == L.WAIT_BARRIER:
        yield f"wait at barrier {int(row[L.WARP_BARRIER])} of their block{_line(program.instructions[max(pc - 1, 0)])}"
        return
    if int(row[L.WARP_STATE]) == L.WAIT_CLUSTER:
        yield "wait at the barrier of their cluster"
        return
    if (look := _look(state, sm, warp)) is not None:
        yield _at_mbarrier(state, sm, warp, look, program)
        return
    around = program.once("loops", lambda: loops(state.code))
    loop = next((range(first, last + 1) for first, last in around if first <= pc <= last), range(0))
    if any(state.code[k, M.COL_OP] == M.OP_SYNCS for k in loop):
        yield f"look at an mbarrier{_line(program.instructions[pc])}"
        return
    reads = [k for k in loop if state.code[k, M.COL_CLASS] == M.CLS_MEMORY and state.code[k, M.COL_OP] != M.OP_LDC]
    if reads and for_ever:
        place = _address(state, warp, program.instructions[reads[0]])
        what = "a word that nobody writes" if place is None else f"{memory.describe(place, 4)}, which nobody writes"
        yield f"spin{_line(program.instructions[reads[0]])} on {what}"


def _line(instruction: Instruction) -> str:
    return "" if instruction.line is None else f" (line {instruction.line})"


def _look(state: State, sm: int, warp: int) -> np.ndarray | None:
    """The token with which a warp waits for the phase of an mbarrier."""
    k = int(state.sm[sm, L.SM_WAITING]) - 1
    while k >= 0:
        token = state.token[sm, k]
        if int(token[L.TOKEN_WARP]) == warp:
            return token
        k = int(token[L.TOKEN_AFTER]) - 1
    return None


def _at_mbarrier(state: State, sm: int, warp: int, look: np.ndarray, program: Program) -> str:
    """Return which mbarrier a warp waits for, and what its phase lacks."""
    at, line = int(look[L.TOKEN_ADDRESS]), _line(program.instructions[int(look[L.TOKEN_BLOCK]) >> 1])
    low, high = (int(each) for each in state.shared32[sm, at : at + 2])
    expected, missing, nbytes, phase = parts_of.function(low | high << 32)
    address = 4 * at - int(state.warp[warp, L.WARP_BLOCK]) * int(state.par[P.SHARED_STRIDE])
    return (
        f"wait{line} for the mbarrier at {address:#x} of shared memory: in its phase of parity {phase} "
        f"{missing:,} of {expected:,} arrivals are missing, and {nbytes:,} bytes of copies that were announced"
    )


def _address(state: State, warp: int, instruction: Instruction) -> int | None:
    """Address that the first active lane reads, where registers alone say it."""
    operand = next((each for each in instruction.operands if each.kind == "mem"), None)
    active = int(state.warp[warp, L.WARP_ACTIVE])
    if operand is None or operand.base is None or operand.ubase is not None or not active:
        return None
    lane = (active & -active).bit_length() - 1
    own, first = registers(state, warp), operand.base.index
    return (int(own[f"R{first}"][lane]) | int(own[f"R{first + 1}"][lane]) << 32) + operand.offset
