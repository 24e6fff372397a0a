"""One cause of lost time, and a launch as the rules read that find such causes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.results.counts import Counts, Place
from gpusim.results.limiter import running_cycles
from isa import microops as M
from isa.instruction import NO_BARRIER
from isa.lower import loops


@dataclass(frozen=True)
class Finding:
    """One cause of lost time.

    kind: a short name, such as 'bank conflicts'. file and line: where in the source, None for the whole launch.
    value: the number that decides it, in the unit that the sentence names. share: of the launch's duration, 0 to 1.
    sentence: what was found, with its numbers, and what to try.
    """

    kind: str
    file: str | None
    line: int | None
    value: float
    share: float
    sentence: str


class LaunchSums:
    """Sums of a launch that several rules read, computed once."""

    def __init__(self, counts: Counts):
        self.counts, self.record, self.counters = counts, counts.record, counts.counters
        self.instructions = self.record.program.instructions
        self.warp_size = self.record.config.gpu.warp_size
        self.cycles = max(int(self.record.cycles), 1)
        self.running = running_cycles(counts)
        self.warps = self.record.launch.blocks * self.record.occupancy.warps_per_block
        self.sms = max(int((self.record.sm_blocks > 0).sum()), 1)
        self.stalls = self.counters[:, L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)]
        self.warp_cycles = max(int(self.stalls.sum()), 1)

    def of_duration(self, warp_cycles: float) -> float:
        """Share of the launch that these warp cycles stand for."""
        return warp_cycles / self.warp_cycles * self.running / self.cycles

    def waits(self, *reasons: str) -> np.ndarray:
        """Warp cycles by instruction for some stall reasons."""
        return self.stalls[:, [L.STALLS.index(reason) for reason in reasons]].sum(axis=1)

    def place(self, row: int) -> Place:
        """File and line of an instruction."""
        return self.instructions[row].file, self.instructions[row].line

    def waits_behind(self, reason: str, *opcodes: str) -> dict[Place, float]:
        """Warp cycles for a stall reason by the line of the instruction that makes warps wait: the last one before that
        at which the wait is counted."""
        waits, rows = self.waits(reason), np.flatnonzero(self.counts.opcodes(*opcodes)).tolist()
        cost: dict[Place, float] = {}
        for row in np.flatnonzero(waits).tolist() if rows else ():
            place = self.place(rows[max(bisect_left(rows, row) - 1, 0)])
            cost[place] = cost.get(place, 0.0) + float(waits[row])
        return cost

    def waits_by_access(self, *reasons: str) -> dict[int, float]:
        """Warp cycles for some stall reasons by the memory instruction whose result, or operands, are waited for."""
        waits = self.waits(*reasons)
        cost: dict[int, float] = {}
        for waiting in np.flatnonzero(waits).tolist():
            access = self._producer(waiting)
            cost[access] = cost.get(access, 0.0) + float(waits[waiting])
        return cost

    def _producer(self, row: int) -> int:
        """The access that an instruction waits for: the last one before it that sets a scoreboard of its wait mask, in
        the round of its loop or in the one before."""
        mask = self.instructions[row].control.wait_mask
        first, last = next((each for each in self.loops if each[0] <= row <= each[1]), (0, row))
        for index in (*range(row - 1, first - 1, -1), *range(last, row, -1), *range(first - 1, -1, -1)):
            control = self.instructions[index].control
            sets = (each for each in (control.write_barrier, control.read_barrier) if each < NO_BARRIER)
            if self.counts.code[index, M.COL_CLASS] == M.CLS_MEMORY and any(mask >> each & 1 for each in sets):
                return index
        return row

    @cached_property
    def loops(self) -> list[tuple[int, int]]:
        """First and last instruction of each loop that was executed, the shortest first."""
        return [each for each in loops(self.counts.code) if self.counters[each[1], L.COUNT_EXECUTED]]


def line_of(place: Place) -> str:
    return "an unknown line" if place[1] is None else f"line {place[1]}"


def where(place: Place) -> str:
    return "Instructions without a source line" if place[1] is None else f"Line {place[1]}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1f} %"
