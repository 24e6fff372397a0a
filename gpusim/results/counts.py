"""Sums over a launch's counters, by kind of instruction: what metrics, roofline and report are computed from.

The engine counts per instruction and knows no names. The lowered program says what each instruction is, so a
sum over "global loads" is a sum over the rows whose operation is a load and whose space is global or generic
(Nsight Compute counts generic accesses that reach global memory with the global ones).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.engine.state.memory import SECTOR_BYTES
from gpusim.results.record import LaunchRecord
from isa import microops as M
from isa.opcodes import pipes_of

GLOBAL = (M.SPACE_GLOBAL, M.SPACE_GENERIC)
SHARED = (M.SPACE_SHARED, M.SPACE_GENERIC)
LOCAL = (M.SPACE_LOCAL,)
Place = tuple[str | None, int | None]
"""File and line of instructions, None where they are unknown."""


class Counts:
    """A `LaunchRecord` with the sums that more than one reader needs. All counts are Python ints."""

    def __init__(self, record: LaunchRecord):
        self.record = record
        self.counters = record.counters

    @property
    def code(self) -> np.ndarray:
        """The lowered program, int32 [instructions, COLUMNS]."""
        return self.record.code

    def total(self, field: int, rows: np.ndarray | None = None) -> int:
        """Sum of one COUNT_* counter over all instructions, or over those in `rows` (bool [instructions])."""
        column = self.counters[:, field]
        return int(column.sum() if rows is None else column[rows].sum())

    @property
    def copies(self) -> np.ndarray:
        """Asynchronous copies (LDGSTS), as bool [instructions]."""
        return (self.code[:, M.COL_CLASS] == M.CLS_MEMORY) & (self.code[:, M.COL_OP] == M.OP_LDGSTS)

    @property
    def past_l1(self) -> np.ndarray:
        """Asynchronous copies that bypass L1, as bool [instructions]."""
        return self.copies & (self.code[:, M.COL_AUX3] & M.MEM_BYPASS != 0)

    def accesses(self, spaces: tuple[int, ...], *operations: int) -> np.ndarray:
        """Memory instructions of the given spaces and OP_* (all if none given), as bool [instructions].

        Asynchronous copies count as loads of global memory.
        """
        operation, memory, copies = self.code[:, M.COL_OP], self.code[:, M.COL_CLASS] == M.CLS_MEMORY, self.copies
        rows = memory & ~copies & np.isin(self.code[:, M.COL_AUX0], spaces)
        if operations:
            rows &= np.isin(operation, operations)
        loads = M.SPACE_GLOBAL in spaces and (not operations or M.OP_LOAD in operations)
        return rows | copies if loads else rows

    def global_total(self, field: int, *operations: int) -> int:
        """Sum over accesses to global memory."""
        return self.total(field, self.accesses(GLOBAL, *operations))

    def shared_total(self, field: int, *operations: int) -> int:
        """Sum over accesses to shared memory."""
        return self.total(field, self.accesses(SHARED, *operations))

    def excess(self, actual: int, ideal: int) -> int:
        """Return by how much `actual` exceeds `ideal`, summed over instructions of which each counts at least zero: an
        instruction whose lanes share a word needs less than the ideal for distinct words, and that is no credit
        to others."""
        return int(np.maximum(self.counters[:, actual] - self.counters[:, ideal], 0).sum())

    def memory(self, *counters: int) -> int:
        """Sum of CNT_* counters of the memory system."""
        return int(sum(int(self.record.memory[counter]) for counter in counters))

    def memory_bytes(self, *counters: int) -> int:
        """Bytes of CNT_* counters of the memory system that count sectors, summed."""
        return SECTOR_BYTES * self.memory(*counters)

    @cached_property
    def instructions(self) -> int:
        """Warp instructions executed."""
        return self.total(L.COUNT_EXECUTED)

    @cached_property
    def stalls(self) -> dict[str, int]:
        """Warp cycles by reason, in the order of `layout.STALLS`; 'selected' are the issues themselves."""
        totals = self.counters[:, L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)].sum(axis=0)
        return {reason: int(cycles) for reason, cycles in zip(L.STALLS, totals, strict=True)}

    @cached_property
    def active_cycles(self) -> int:
        """Cycles with a resident warp, summed over SMs."""
        return int(self.record.sm_active_cycles.sum())

    @property
    def scheduler_cycles(self) -> int:
        """Cycles in which a scheduler holds a warp, over all schedulers."""
        return int(self.record.sm_scheduler_cycles.sum())

    @cached_property
    def warp_cycles(self) -> int:
        """Resident warps, summed over cycles and SMs."""
        return int(self.record.sm_warp_cycles.sum())

    @cached_property
    def issued(self) -> int:
        """Warp instructions issued, summed over SMs."""
        return int(self.record.sm_issued.sum())

    @cached_property
    def lines(self) -> dict[Place, np.ndarray]:
        """Rows of the instructions of each source line, in the order of their first ones."""
        rows: dict[Place, list[int]] = {}
        for index, each in enumerate(self.record.program.instructions):
            rows.setdefault((each.file, each.line), []).append(index)
        return {place: np.array(members) for place, members in rows.items()}

    def opcodes(self, *names: str) -> np.ndarray:
        """Instructions of the given base opcodes, as bool [instructions]."""
        return np.array([each.opcode in names for each in self.record.program.instructions], bool)

    def opcode_total(self, field: int, *opcodes: str) -> int:
        """Sum over instructions of the given base opcodes ('FADD' also stands for its 'FADD32I' form)."""
        return self.total(field, self.opcodes(*opcodes, *(f"{opcode}32I" for opcode in opcodes)))

    @cached_property
    def _pipes(self) -> list[tuple[str, ...]]:
        return [pipes_of(each) for each in self.record.program.instructions]

    def pipe_total(self, pipe: str) -> int:
        """Warp instructions that a pipe of `isa.opcodes.PIPES` counts, each once."""
        return self.total(L.COUNT_EXECUTED, np.array([pipe in each for each in self._pipes], bool))


def ratio(numerator: float, denominator: float) -> float:
    """Their quotient; 0.0 where there is nothing to divide by, so that a report and JSON never hold a NaN."""
    return numerator / denominator if denominator else 0.0
