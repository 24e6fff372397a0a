"""Demands of a block's instructions on each unit of the machine: a vector of amounts, none of which knows its speed.

Amounts are as the engine books them, or less where the engine's depend on what else is under way. Read
`engine/sm/lsu.py`, `engine/sm/lines.py` and `engine/sm/scheduler.py` beside this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np

from gpusim.engine.sm.stages import differs_by_lane
from gpusim.engine.state import layout as L
from isa import microops as M


class Amount(IntEnum):
    """Places of a work vector. Instructions are warp instructions."""

    ISSUES = 0
    WIDE = auto()  # of those of the heavy FMA half: products of 64 bits
    QUEUE = auto()  # turns in the memory queues of the sub-partitions
    WAVEFRONTS = auto()  # shared memory's, in the data stage
    ATOMIC_WAVEFRONTS = auto()  # the same of atomics
    DATA = auto()  # other turns there: a store, a shuffle, a read of a thread's number
    LOAD_LINES = auto()  # lines looked up by loads and stores, several in a cycle
    REQUESTS = auto()  # instructions that look lines up
    STRICT_LINES = auto()  # lines looked up one by one: atomics with a result, strong loads
    STORE_CYCLES = auto()  # of the way to L2
    CONSTANTS = auto()  # addresses of constant loads
    SPECIALS = auto()  # reads of special registers
    WRITE_LINES = auto()
    WRITE_SECTORS = auto()
    WRITE_BYTES = auto()
    PARTIAL_SECTORS = auto()  # written in part
    ATOMIC_LINES = auto()  # with and without a result
    ATOMIC_SECTORS = auto()
    RETURN_SECTORS = auto()  # that come back for atomics
    PAST_L1_SECTORS = auto()  # read past L1, every time
    PAST_L1_LINES = auto()
    UNIT = auto()  # first of UNITS: instructions of each unit, without the wide ones


AMOUNTS = int(Amount.UNIT) + M.UNITS
#: Bytes that a sector lacks if one word of it is written.
_MOST_MISSING = 28


@dataclass(frozen=True)
class Tally:
    """Sums over issues, by instruction: int64 [instructions] each.

    executed: issues; accesses: issues with a lane that accesses memory; threads: lanes of these; wavefronts: of shared
    memory; sectors, lines: of global and local memory.
    """

    executed: np.ndarray
    accesses: np.ndarray
    threads: np.ndarray
    wavefronts: np.ndarray
    sectors: np.ndarray
    lines: np.ndarray

    @classmethod
    def of_issues(cls, issues: np.ndarray, instructions: int) -> Tally:
        """Of rows of `Trace.issues`."""
        pc = issues["pc"]

        def total(weights: np.ndarray) -> np.ndarray:
            return np.bincount(pc, weights, instructions).astype(np.int64)

        return cls(
            np.bincount(pc, minlength=instructions).astype(np.int64),
            total(issues["executed"] != 0),
            total(np.bitwise_count(issues["executed"])),
            total(issues["wavefronts"]),
            total(issues["sectors"]),
            total(issues["lines"]),
        )

    @classmethod
    def of_counters(cls, line: np.ndarray) -> Tally:
        """Of a launch's counters, int64 [instructions, layout.COUNT_FIELDS]."""
        return cls(
            line[:, L.COUNT_EXECUTED],
            np.minimum(line[:, L.COUNT_EXECUTED], line[:, L.COUNT_PRED_ON]),
            line[:, L.COUNT_PRED_ON],
            line[:, L.COUNT_SHARED_DATA],
            line[:, L.COUNT_SECTORS],
            line[:, L.COUNT_TAGS],
        )


def work(tally: Tally, code: np.ndarray, store_line_cycles: int) -> np.ndarray:
    """The work vector, float64 [AMOUNTS], of a tally over the lowered program `code`.

    store_line_cycles: of `l1`, since it is the larger of an instruction's lines and sectors that counts.
    """
    kinds = Kinds(code)
    found = np.zeros(AMOUNTS)
    executed, lines, sectors = tally.executed, tally.lines, tally.sectors

    def put(amount: Amount, values: np.ndarray, rows: np.ndarray) -> None:
        found[amount] += float(values[rows].sum())

    put(Amount.ISSUES, executed, np.ones(len(code), bool))
    put(Amount.WIDE, executed, kinds.wide)
    found[Amount.UNIT :] = np.bincount(code[:, M.COL_UNIT], executed * ~kinds.wide, M.UNITS)[: M.UNITS]
    # An access to shared memory takes a turn for each wavefront, one to global memory one.
    put(Amount.QUEUE, tally.wavefronts, kinds.access & ~kinds.copies)
    outside = kinds.access & (lines > 0)
    requests = np.minimum(tally.accesses, lines)
    put(Amount.QUEUE, requests, outside)
    put(Amount.QUEUE, executed, kinds.shuffle)
    put(Amount.QUEUE, 2 * executed, kinds.lane_register)
    put(Amount.WAVEFRONTS, tally.wavefronts, ~kinds.copies & ~kinds.shared_atomics)
    put(Amount.ATOMIC_WAVEFRONTS, tally.wavefronts, kinds.shared_atomics)
    put(Amount.DATA, executed, kinds.shuffle | kinds.lane_register)
    put(Amount.DATA, requests, kinds.writes)
    put(Amount.LOAD_LINES, lines, kinds.plain_loads | kinds.writes)
    put(Amount.REQUESTS, requests, kinds.plain_loads | kinds.writes)
    put(Amount.STRICT_LINES, lines, kinds.strict)
    put(Amount.STORE_CYCLES, np.maximum(store_line_cycles * lines, sectors), kinds.writes)
    put(Amount.CONSTANTS, np.maximum(tally.accesses, lines), kinds.constant)
    put(Amount.SPECIALS, executed, kinds.special)
    put(Amount.WRITE_LINES, lines, kinds.stores)
    put(Amount.WRITE_SECTORS, sectors, kinds.stores)
    written = np.minimum(tally.threads * kinds.bytes, 32 * sectors)
    put(Amount.WRITE_BYTES, written, kinds.writes)
    put(Amount.PARTIAL_SECTORS, np.minimum(-(-(32 * sectors - written) // _MOST_MISSING), sectors), kinds.stores)
    put(Amount.ATOMIC_LINES, lines, kinds.atomics)
    put(Amount.ATOMIC_SECTORS, sectors, kinds.atomics)
    put(Amount.RETURN_SECTORS, sectors, kinds.returns)
    put(Amount.PAST_L1_LINES, lines, kinds.strict & ~kinds.atomics)
    put(Amount.PAST_L1_SECTORS, sectors, kinds.strict & ~kinds.atomics)
    return found


class Kinds:
    """Kinds of the instructions of a lowered program, as bool [instructions]."""

    def __init__(self, code: np.ndarray):
        operation, unit = code[:, M.COL_OP], code[:, M.COL_UNIT]
        memory = code[:, M.COL_CLASS] == M.CLS_MEMORY
        strong = code[:, M.COL_AUX3] & M.MEM_STRONG != 0
        silent = (code[:, M.COL_DST_COUNT] == 0) & (code[:, M.COL_WBAR] == 7)
        beyond = memory & (code[:, M.COL_AUX0] != M.SPACE_SHARED)
        self.constant = memory & (operation == M.OP_LDC)
        self.access = memory & ~self.constant & ~np.isin(operation, (M.OP_QSPC, M.OP_PREFETCH))
        self.loads = beyond & (operation == M.OP_LOAD)
        self.copies = memory & (operation == M.OP_LDGSTS)
        self.stores = beyond & (operation == M.OP_STORE)
        self.reductions = beyond & ((operation == M.OP_RED) | ((operation == M.OP_ATOM) & silent))
        self.returns = beyond & (operation == M.OP_ATOM) & ~silent
        self.shared_atomics = memory & np.isin(operation, (M.OP_ATOM, M.OP_RED))
        self.atomics = self.reductions | self.returns
        self.writes = self.stores | self.reductions
        self.strict = self.returns | (self.loads & strong)
        self.plain_loads = (self.loads & ~strong) | self.copies
        heavy = (operation >= M.OP_IMAD_WIDE_U) & (operation <= M.OP_IMAD_HI_S)
        self.wide = (unit == M.UNIT_FMAHEAVY) & heavy
        variable = code[:, M.COL_VARIABLE] != 0
        self.shuffle = ~memory & variable & (operation == M.OP_SHFL)
        self.special = variable & (code[:, M.COL_CLASS] == M.CLS_SPECIAL)
        self.lane_register = self.special & np.array([bool(differs_by_lane(code, k)) for k in range(len(code))], bool)
        size = code[:, M.COL_AUX1] & 255
        self.bytes = np.where(self.atomics, np.maximum(size, 4), size).astype(np.int64)
