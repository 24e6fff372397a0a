"""A trace made by hand for the program of `tests.gpusim.records`, so that pages are tested without running the engine.

Warp 0: a coalesced load, arithmetic, a store to shared memory without and a load with a 32-way conflict, a branch that
parts the halves of the warp, of which the lower stores to 16 lines, and the end together. Warp 1: two instructions. Of
warp 0's registers: floats that are loaded and grow from lane to lane, twice them, integers, a uniform one, a predicate.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.results.record import LaunchRecord
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import BLOCK, ISSUE, SPACES, STALL, VALUE, WARP, TraceOptions
from tests.gpusim.records import BRA, EXIT, FADD, FFMA, LDG, LDS, STG, STS

ALL, LOW, HIGH = 0xFFFFFFFF, 0xFFFF, 0xFFFF0000
ADDRESS = 0x7F0000001000
LANES = np.arange(32)

# warp, cycle, pc, active, executed, space, bytes between lanes, wavefronts, ideal, sectors, lines
STEPS = (
    (0, 100, LDG, ALL, ALL, "global", 4, 0, 0, 4, 1),
    (1, 101, LDG, ALL, ALL, "global", 4, 0, 0, 4, 1),
    (0, 700, FFMA, ALL, ALL, "", 0, 0, 0, 0, 0),
    (1, 701, FFMA, ALL, ALL, "", 0, 0, 0, 0, 0),
    (0, 704, FADD, ALL, 0x0F0F0F0F, "", 0, 0, 0, 0, 0),
    (0, 708, STS, ALL, ALL, "shared", 4, 1, 1, 0, 0),
    (0, 740, LDS, ALL, ALL, "shared", 128, 32, 1, 0, 0),
    (0, 820, BRA, ALL, HIGH, "", 0, 0, 0, 0, 0),
    (0, 830, STG, LOW, LOW, "global", 128, 0, 0, 16, 16),
    (0, 840, FADD, HIGH, HIGH, "", 0, 0, 0, 0, 0),
    (0, 850, EXIT, ALL, ALL, "", 0, 0, 0, 0, 0),
)
STALLS = (
    (0, 101, 700, L.STALL_LONG, FFMA),
    (1, 102, 701, L.STALL_LONG, FFMA),
    (0, 701, 703, L.STALL_WAIT, FADD),
    (0, 703, 704, L.STALL_NOT_SELECTED, FADD),
    (0, 741, 820, L.STALL_SHORT, BRA),
)

REGISTERS = (*(f"R{n}" for n in range(7)), "UR4", "P")
LOADED = (1.5 + LANES).astype(np.float32).view(np.uint32)
# warp, cycle of the issue that finds the register changed, register, lanes
VALUES = (
    (0, 700, "R2", LOADED),
    (0, 704, "R4", (2 * LOADED.view(np.float32)).view(np.uint32)),
    (0, 740, "UR4", np.full(32, 0x210, np.uint32)),
    (0, 820, "R6", (1000 + 3 * LANES).astype(np.uint32)),
    (0, 820, "P", np.where(LANES == 0, HIGH, 0).astype(np.uint32)),
    (0, 840, "R4", np.where(LANES < 16, 7, 2 * LANES).astype(np.uint32)),
)


def make_trace(record: LaunchRecord, complete: bool = True) -> Trace:
    """The trace of the module's docstring for a record of `tests.gpusim.records.make_record`."""
    issues = np.zeros(len(STEPS), ISSUE)
    addresses, stores = [], []
    for row, (warp, cycle, pc, active, executed, space, distance, *costs) in zip(issues, STEPS, strict=True):
        row["warp"], row["cycle"], row["pc"], row["active"], row["executed"] = warp, cycle, pc, active, executed
        row["space"] = SPACES.index(space)
        for name, value in zip(("wavefronts", "ideal", "sectors", "lines"), costs, strict=True):
            row[name] = value
        row["divergent"] = pc == BRA
        row["access"] = len(addresses) if space else -1
        if space:
            lanes = (ADDRESS if space == "global" else 1024) + distance * LANES
            addresses.append(np.where(executed >> LANES & 1, lanes, -1))
            stores.append(pc in (STS, STG))
    return Trace(
        issues=issues,
        stalls=np.array(list(STALLS), STALL),
        addresses=np.array(addresses, np.int64),
        sizes=np.full(len(addresses), 4, np.int16),
        stores=np.array(stores, bool),
        blocks=np.zeros(1, BLOCK),
        warps=np.array([(0, 0, 0, 0, 0, 90, 851), (1, 0, 0, 1, 0, 90, 702)], WARP),
        complete=complete,
        until=900,
        options=TraceOptions(),
        program=record.program,
        code=record.code,
        launch=record.launch,
        config=record.config,
        cycles=record.cycles,
        values=np.array([(warp, cycle, REGISTERS.index(name)) for warp, cycle, name, _ in VALUES], VALUE),
        lanes=np.array([lanes for *_, lanes in VALUES], np.uint32),
        values_until=900,
        registers=REGISTERS,
    )
