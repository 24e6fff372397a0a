"""One instruction of one warp, executed by the engine's own executors when the machine issues it.

The engine's state is used without its time: `run_warp` executes one instruction, counts it, and logs which lanes it had
and which lines of memory they touched. All values, divergence and counts are therefore the engine's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.engine.functional import run_warp
from gpusim.engine.grid import MachineStopped
from gpusim.engine.state import L
from gpusim.engine.state.arrays import State
from gpusim.engine.state.log import AS_TRACER, BLOCK_ROWS, WHOLE_SM
from gpusim.machine.instruction import Decoded
from isa import microops as M

LOG_ROWS, LOG_LANES = BLOCK_ROWS + 16, 16
"""Rows of the log that one instruction may take, and of addresses."""


class Executed(NamedTuple):
    """What an instruction did. lanes: those that its guard let execute, as a bit mask.

    local: it was an access to a thread's own memory. lines: (line, sectors as four bits, words as 32) of global or
    local memory that it touched; addresses: of each lane, in the shared memory of its block or in global memory, where
    it had one, else -1; wavefronts: that the engine counts for it in shared memory.
    """

    lanes: int
    local: bool
    lines: list[tuple[int, int, int]]
    addresses: list[int]
    wavefronts: int


def with_words(
    lines: list[tuple[int, int, int]], addresses: list[int], lanes: int, size: int
) -> list[tuple[int, int, int]]:
    """Return lines with the words that lanes access, which functional runs do not note: so many bytes at an address."""
    touched, word = dict.fromkeys((line for line, _, _ in lines), 0), (1 << max(size >> 2, 1)) - 1
    for lane, address in enumerate(addresses):
        if lanes >> lane & 1 and address >> 7 in touched:
            touched[address >> 7] |= word << (address >> 2 & 31)
    return [(line, sectors, touched[line]) for line, sectors, _ in lines]


class Executor:
    """Executes instructions on the engine's state. log: the arrays that belong into that state."""

    def __init__(self, state: State):
        self.state = state
        state.sm[:, L.SM_LOG] = WHOLE_SM | AS_TRACER

    @staticmethod
    def log(sms: int, blocks: int) -> dict[str, np.ndarray]:
        """Return arrays into which each instruction is logged."""
        return {
            "log": np.zeros((sms, LOG_ROWS, L.EVENT_FIELDS), np.int64),
            "log_lanes": np.full((sms, LOG_LANES, 32), -1, np.int64),
            "wanted": np.ones(blocks, np.int32),
            "log_before": np.zeros((1, 1, 32), np.uint32),
            "life": np.zeros((blocks, 3), np.int64),
        }

    def execute(self, sm: int, w: int, instruction: Decoded, now: int) -> Executed:
        """Execute the warp's next instruction. Raises MachineStopped for what a program may not do."""
        state = self.state
        s = state.sm[sm]
        s[L.SM_LOGGED] = s[L.SM_LOG_LANES] = 0
        state.warp[w, L.WARP_SINCE] = now
        run_warp(state, sm, w, 1)
        if s[L.SM_ERROR]:
            raise MachineStopped(sm)
        row = state.log[sm, 0].tolist()
        lines: list[tuple[int, int, int]] = []
        addresses: list[int] = []
        if instruction.is_memory:
            if row[L.EVENT_ACCESS] >= 0:
                addresses = state.log_lanes[sm, row[L.EVENT_ACCESS]].tolist()
            if instruction.space != M.SPACE_SHARED:
                lines = [tuple(each) for each in state.touched[sm, : row[L.EVENT_LINES], :3].tolist()]
                if not row[L.EVENT_LOCAL]:
                    lines = with_words(lines, addresses, row[L.EVENT_EXECUTED], instruction.size)
        local = row[L.EVENT_LOCAL] != 0
        return Executed(row[L.EVENT_EXECUTED], local, lines, addresses, row[L.EVENT_WAVEFRONTS])

    def place_of(self, w: int) -> tuple[int, int]:
        """(program counter, state) of a warp."""
        pc, state = self.state.warp[w, [L.WARP_PC, L.WARP_STATE]].tolist()
        return pc, state
