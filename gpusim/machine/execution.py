"""One instruction of one warp, executed by the engine's own executors when the machine issues it.

The engine's state is used without its time: `run_warp` executes one instruction, counts it, and logs which lanes it had
and which lines of memory they touched. All values, divergence and counts are therefore the engine's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import typeof

from gpusim.engine.functional import run_warp
from gpusim.engine.grid import Host, MachineStopped, Recorder
from gpusim.engine.sm.readiness import wake
from gpusim.engine.state import L
from gpusim.engine.state.arrays import State
from gpusim.engine.state.log import AS_TRACER, BLOCK_ROWS, WHOLE_SM
from gpusim.machine.instruction import Decoded
from isa import microops as M

LOG_ROWS, LOG_LANES = 2 * BLOCK_ROWS, 16
"""Rows of an SM's log, half of which blocks may need that begin, and of addresses."""


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


NOTHING = Executed(0, False, [], [], 0)
"""Of instructions that access no memory, of which the machine needs to know no more."""


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
    """Executes instructions on the engine's state, which the arrays of `log` belong to. recorder: takes the log of the
    SMs that it wants `traced`, with the stalls that the machine adds to it. host: serves calls such as printf."""

    def __init__(self, state: State, recorder: Recorder | None = None, host: Host | None = None):
        self.state, self.recorder, self.host = state, recorder, host
        if recorder is not None:
            recorder.begin(state)
        self.traced = frozenset(state.sm[:, L.SM_LOG].nonzero()[0].tolist())
        state.sm[:, L.SM_LOG] = AS_TRACER | WHOLE_SM  # stalls are the machine's to log
        # For each instruction: machine code that does not look at its arguments' types, fields without arrays.
        self.run_warp = run_warp.entry.compile(tuple(map(typeof, (state, 0, 0, 1))))
        self.sm, self.warp = memoryview(state.sm), memoryview(state.warp)  # type: ignore[arg-type]

    @staticmethod
    def log(sms: int, blocks: int) -> dict[str, np.ndarray]:
        """Return arrays into which each instruction is logged."""
        return {
            "log": np.zeros((sms, LOG_ROWS, L.EVENT_FIELDS), np.int64),
            "log_lanes": np.full((sms, LOG_LANES, 32), -1, np.int64), "wanted": np.ones(blocks, np.int32),
            "log_before": np.zeros((1, 1, 32), np.uint32), "life": np.zeros((blocks, 3), np.int64),
        }  # fmt: skip

    def execute(self, sm: int, w: int, instruction: Decoded, now: int) -> Executed:
        """Execute the warp's next instruction. Raises MachineStopped for what a program may not do."""
        state, s = self.state, self.sm
        n = s[sm, L.SM_LOGGED]
        self.warp[w, L.WARP_SINCE] = now
        if not self.run_warp(state, sm, w, 1):
            raise AssertionError(f"warp {w} of SM {sm} has not executed its instruction")
        if s[sm, L.SM_ERROR]:
            raise MachineStopped(sm)
        if self.warp[w, L.WARP_STATE] == L.WAIT_HOST and self.host is not None:
            self.host(state, np.array([w]))
            wake(state, sm, w, now)
        found = self.access(sm, n, instruction) if instruction.is_memory else NOTHING
        self.note(sm, now)
        return found

    def access(self, sm: int, n: int, instruction: Decoded) -> Executed:
        """Return what the memory instruction in row n of the SM's log has accessed."""
        row, addresses, lines = self.state.log[sm, n].tolist(), [], []
        if row[L.EVENT_ACCESS] >= 0:
            addresses = self.state.log_lanes[sm, row[L.EVENT_ACCESS]].tolist()
        if instruction.space != M.SPACE_SHARED:
            lines = [tuple(each) for each in self.state.touched[sm, : row[L.EVENT_LINES], :3].tolist()]
            if not row[L.EVENT_LOCAL]:
                lines = with_words(lines, addresses, row[L.EVENT_EXECUTED], instruction.size)
        local = row[L.EVENT_LOCAL] != 0
        return Executed(row[L.EVENT_EXECUTED], local, lines, addresses, row[L.EVENT_WAVEFRONTS])

    def stalled(self, sm: int, w: int, pc: int, kind: int, since: float, until: float) -> None:
        """A warp has waited for a reason."""
        if sm in self.traced:
            row = self.state.log[sm, self.sm[sm, L.SM_LOGGED]]
            row[:] = 0
            row[[L.EVENT_KIND, L.EVENT_WARP, L.EVENT_REASON]] = L.LOG_STALL, self.warp[w, L.WARP_LOGGED] - 1, kind
            row[[L.EVENT_PC, L.EVENT_START, L.EVENT_END]] = pc, since, until
            self.sm[sm, L.SM_LOGGED] += 1
            if self.sm[sm, L.SM_LOGGED] > BLOCK_ROWS // 2:
                self.note(sm, int(until))

    def note(self, sm: int, now: int) -> None:
        """Hand what an SM has logged to the recorder, or forget it. Nothing is traced any more once that has enough."""
        if sm in self.traced and self.recorder is not None:
            self.recorder.collect(self.state, now)
            if not self.sm[sm, L.SM_LOG]:
                self.traced = frozenset()
                self.state.sm[:, L.SM_LOG], self.state.wanted[:] = AS_TRACER | WHOLE_SM, 1
        self.sm[sm, L.SM_LOGGED] = self.sm[sm, L.SM_LOG_LANES] = 0

    def place_of(self, w: int) -> tuple[int, int]:
        """(program counter, state) of a warp."""
        return self.warp[w, L.WARP_PC], self.warp[w, L.WARP_STATE]
