"""The host's side of `engine.state.log`: room for the SMs' rows, and a Trace made of them after each window."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine.sm.atomics import words_of
from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State
from gpusim.engine.state.log import NO_VALUES, WHOLE_SM
from gpusim.errors import TraceError
from gpusim.launch import Launch
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import BLOCK, ISSUE, SPACES, STALL, VALUE, WARP, TraceOptions
from isa import Program
from isa import microops as M
from isa.lower import SINK_ROWS, Lowered

#: Rows that a warp may have beyond one for each cycle of a window: what it waits for after it.
_ROWS_AHEAD = 32
#: Rows of lanes for each that an access may need in a window: two thirds are for values, see `log.log_values`.
_LANES = 3
_MOST_BYTES_BEFORE = 1 << 28  # of registers as they were last; with more, their values are not recorded
_SPACE = {M.SPACE_GLOBAL: "global", M.SPACE_SHARED: "shared", M.SPACE_LOCAL: "local", M.SPACE_CONST: "constant"}
_SHARED_OPERATIONS = (M.OP_LDSM, M.OP_STSM, M.OP_SYNCS, M.OP_ARRIVES)
_GLOBAL_OPERATIONS = (M.OP_LDGSTS, M.OP_BULK_COPY)
_WRITES = (M.OP_STORE, M.OP_RED, M.OP_ATOM, M.OP_STSM, M.OP_SYNCS, M.OP_ARRIVES)


class TraceRecorder:
    """The log of one launch. `arrays` belong to its state; `begin` before its first block, `collect` after each window,
    `finish` at its end.

    Raises TraceError if an SM is to be traced that the GPU does not have.
    """

    def __init__(self, options: TraceOptions, config: GPUConfig, launch: Launch, par: np.ndarray):
        sms = config.sm.count
        self.options, self._config, self._launch = options, config, launch
        self._sms = np.array(options.sms, np.int64)
        if self._sms.size and self._sms[-1] >= sms:
            raise TraceError(f"SM {self._sms[-1]} is to be traced, but the GPU has {sms}, numbered from 0")
        warps = int(par[P.SUB_PARTITIONS] * par[P.WARP_SLOTS])
        window = config.l2.lookahead_cycles
        accesses = int(par[P.SUB_PARTITIONS]) * window
        blocks = np.array(options.blocks, np.int64)
        blocks = blocks[blocks < launch.blocks]
        before = len(blocks) * int(par[P.WARPS]), int(par[P.ROWS_PER_WARP]) - SINK_ROWS + 1, 32
        valued = 0 < 4 * np.prod(before) <= _MOST_BYTES_BEFORE
        rows = warps * (window + _ROWS_AHEAD) + (_LANES - 1) * accesses * valued
        self.arrays: dict[str, np.ndarray] = {
            "log": np.empty((sms, rows, L.EVENT_FIELDS), np.int64),
            "log_lanes": np.empty((sms, (_LANES if valued else 1) * accesses, 32), np.int64),
            "wanted": np.zeros(launch.blocks, np.int32),
            "log_before": np.zeros(before if valued else (1, 1, 32), np.uint32),
            "life": np.zeros((launch.blocks, 3), np.int64),
        }
        self.arrays["wanted"][blocks] = np.arange(1, len(blocks) + 1)
        self._rows: list[np.ndarray] = []
        self._lanes: list[np.ndarray] = []
        self._accesses = self._issues = self._values = 0
        self._values_until: int | None = None if valued else 0
        self._stopped = False

    def begin(self, state: State) -> None:
        """Say which SMs are logged."""
        state.sm[self._sms, L.SM_LOG] = WHOLE_SM

    def collect(self, state: State, until: int) -> None:
        """Take the rows of a window away, which ended at cycle `until` of the device; with more issues than the limit,
        nothing is logged from now on."""
        for _, logged, lanes in logs(state):
            rows = logged.copy()
            issues, values = (rows[:, L.EVENT_KIND] == kind for kind in (L.LOG_ISSUE, L.LOG_VALUE))
            rows[values | issues & (rows[:, L.EVENT_ACCESS] >= 0), L.EVENT_ACCESS] += self._accesses
            self._issues += int(issues.sum())
            self._values += int(values.sum())
            self._rows.append(rows)
            self._lanes.append(lanes.copy())
            self._accesses += len(lanes)
        if self._values > self.options.limit and self._values_until is None:
            self._values_until = until
            state.sm[:, L.SM_LOG] |= NO_VALUES
        if self._issues > self.options.limit and not self._stopped:
            self._stopped = True
            self._stop(state, until)

    def _stop(self, state: State, until: int) -> None:
        """Log nothing more. What resident warps are waiting for has no row yet if its end is unknown."""
        state.sm[:, L.SM_LOG] = 0
        state.wanted[:] = 0
        warps = state.warp
        waiting = (warps[:, L.WARP_LOGGED] != 0) & (warps[:, L.WARP_STATE] != L.FREE) & (warps[:, L.WARP_SINCE] < until)
        chosen = np.flatnonzero(waiting)
        rows = np.zeros((len(chosen), L.EVENT_FIELDS), np.int64)
        rows[:, L.EVENT_KIND] = L.LOG_STALL
        rows[:, L.EVENT_WARP] = warps[chosen, L.WARP_LOGGED] - 1
        rows[:, L.EVENT_START], rows[:, L.EVENT_END] = warps[chosen, L.WARP_SINCE], until
        running = warps[chosen, L.WARP_STATE] == L.RUNNING
        rows[:, L.EVENT_REASON] = np.where(running, L.STALL_NOT_SELECTED, warps[chosen, L.WARP_REASON])
        rows[:, L.EVENT_PC] = warps[chosen, L.WARP_PC]
        self._rows.append(rows)

    def finish(self, state: State, lowered: Lowered, program: Program, start: int, cycles: int) -> Trace:
        """The trace of a launch that began at cycle `start` of the device and took `cycles`."""
        code = lowered.code
        rows = np.concatenate([np.zeros((0, L.EVENT_FIELDS), np.int64), *self._rows])
        rows[:, [L.EVENT_START, L.EVENT_END]] -= start
        life = state.life.copy()
        life[:, 1:] -= start
        of_sm = np.repeat(life[:, 0], int(state.par[P.WARPS]))
        issues = _issues(rows, of_sm)
        until = cycles
        if len(issues) > self.options.limit:
            until = int(issues["cycle"][self.options.limit])
            issues = issues[issues["cycle"] < until]
        warps = _warps(rows, of_sm, int(state.par[P.WARPS]), until)
        lanes = np.concatenate([np.zeros((0, 32), np.int64), *self._lanes])
        recorded = np.flatnonzero(issues["access"] >= 0)
        addresses = lanes[issues["access"][recorded]]
        issues["access"][recorded] = np.arange(len(recorded))
        _name_spaces(issues, addresses, code)
        pcs = issues["pc"][recorded]
        values, found = _values(rows, until)
        blocks = np.zeros(len(life), BLOCK)
        blocks["block"], blocks["sm"] = np.arange(len(life)), life[:, 0]
        blocks["start"], blocks["end"] = life[:, 1], life[:, 2]
        return Trace(
            issues=issues,
            stalls=_stalls(rows, until),
            addresses=addresses,
            sizes=np.array([lane_bytes(row) for row in code], np.int16)[pcs],
            stores=np.isin(code[:, M.COL_OP], _WRITES)[pcs],
            blocks=blocks,
            warps=warps,
            complete=until == cycles,
            until=until,
            options=self.options,
            program=program,
            code=code,
            launch=self._launch,
            config=self._config,
            cycles=cycles,
            values=values,
            lanes=lanes[found].astype(np.uint32),
            values_until=until if self._values_until is None else min(max(self._values_until - start, 0), until),
            registers=_register_names(lowered),
        )


def logs(state: State) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Each SM with its rows of the log and of lanes, which are forgotten at the end."""
    counts = state.sm[:, L.SM_LOGGED : L.SM_LOG_LANES + 1]
    for sm in np.flatnonzero(counts[:, 0]).tolist():
        logged, accesses = counts[sm].tolist()
        if logged > state.log.shape[1] or accesses > state.log_lanes.shape[1]:
            raise AssertionError(f"SM {sm} logged {logged} rows and {accesses} accesses in one window")
        yield sm, state.log[sm, :logged], state.log_lanes[sm, :accesses]
    counts[:] = 0


def _values(rows: np.ndarray, until: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `Trace.values`, by (cycle, warp), and where their lanes are."""
    rows = rows[(rows[:, L.EVENT_KIND] == L.LOG_VALUE) & (rows[:, L.EVENT_START] < until)]
    rows = rows[np.lexsort((rows[:, L.EVENT_REGISTER], rows[:, L.EVENT_WARP], rows[:, L.EVENT_START]))]
    return _table(rows, VALUE), rows[:, L.EVENT_ACCESS]


_COLUMNS = {"cycle": "START", "scheduler": "SMSP", "space": "LOCAL"}
"""Columns of the log that have another name than the field of a trace's table."""


def _table(rows: np.ndarray, kind: np.dtype, *apart: str) -> np.ndarray:
    """Rows of the log as rows of a table of the trace. apart: fields that the log does not have."""
    found = np.zeros(len(rows), kind)
    for name in set(kind.names or ()).difference(apart):
        found[name] = rows[:, getattr(L, f"EVENT_{_COLUMNS.get(name, name.upper())}")]
    return found


def _register_names(lowered: Lowered) -> tuple[str, ...]:
    """Of the rows of a warp: registers, uniform registers, and the predicates together."""
    uniform = lowered.sink_row - lowered.ureg_base
    return (*(f"R{n}" for n in range(lowered.ureg_base)), *(f"UR{n}" for n in range(uniform)), "P")


def _issues(rows: np.ndarray, of_sm: np.ndarray) -> np.ndarray:
    """Rows of `Trace.issues`, by (cycle, sm, scheduler). of_sm: the SM of each warp. Until `_name_spaces`, `space` says
    whether local memory was accessed."""
    chosen = rows[:, L.EVENT_KIND] == L.LOG_ISSUE
    rows = rows[chosen]
    sm = of_sm[rows[:, L.EVENT_WARP]]
    order = np.lexsort((rows[:, L.EVENT_SMSP], sm, rows[:, L.EVENT_START]))
    issues = _table(rows[order], ISSUE, "sm")
    issues["sm"] = sm[order]
    issues["access"] = np.maximum(issues["access"], -1)
    return issues


def _stalls(rows: np.ndarray, until: int) -> np.ndarray:
    """Rows of `Trace.stalls`, those of a warp that continue each other as one, by (start, warp)."""
    rows = rows[(rows[:, L.EVENT_KIND] == L.LOG_STALL) & (rows[:, L.EVENT_START] < until)]
    rows = rows[np.lexsort((rows[:, L.EVENT_START], rows[:, L.EVENT_WARP]))]
    same = rows[1:, [L.EVENT_WARP, L.EVENT_REASON, L.EVENT_PC]] == rows[:-1, [L.EVENT_WARP, L.EVENT_REASON, L.EVENT_PC]]
    first = np.ones(len(rows), bool)
    first[1:] = ~(same.all(axis=1) & (rows[1:, L.EVENT_START] == rows[:-1, L.EVENT_END]))
    stalls = _table(rows[first], STALL)
    stalls["end"] = np.minimum(rows[np.roll(first, -1), L.EVENT_END], until)  # the last ones: before a first one
    return stalls[np.lexsort((stalls["warp"], stalls["start"]))]


def _warps(rows: np.ndarray, of_sm: np.ndarray, warps_per_block: int, until: int) -> np.ndarray:
    """Rows of `Trace.warps`, by number; those that have not ended by `until` end there."""
    chosen = (rows[:, L.EVENT_KIND] == L.LOG_START) & (rows[:, L.EVENT_START] < until)
    warps = np.sort(_table(rows[chosen], WARP, "block", "sm"), order="warp")
    warps["block"], warps["sm"] = warps["warp"] // warps_per_block, of_sm[warps["warp"]]
    ends = rows[rows[:, L.EVENT_KIND] == L.LOG_END]
    ends = ends[np.isin(ends[:, L.EVENT_WARP], warps["warp"])]
    warps["end"] = until
    warps["end"][np.searchsorted(warps["warp"], ends[:, L.EVENT_WARP])] = np.minimum(ends[:, L.EVENT_END], until)
    return warps


def _name_spaces(issues: np.ndarray, addresses: np.ndarray, code: np.ndarray) -> None:
    """Fills in `space`; a generic access is in the space that it went to, and so are its addresses."""
    memory = code[:, M.COL_CLASS] == M.CLS_MEMORY
    named = np.zeros(len(code), np.int8)
    for space, name in _SPACE.items():
        named[memory & (code[:, M.COL_AUX0] == space)] = SPACES.index(name)
    operation = code[:, M.COL_OP]
    named[memory & np.isin(operation, _SHARED_OPERATIONS)] = SPACES.index("shared")
    named[memory & np.isin(operation, _GLOBAL_OPERATIONS)] = SPACES.index("global")
    named[memory & (operation == M.OP_LDC)] = SPACES.index("constant")
    named[memory & (operation == M.OP_QSPC)] = SPACES.index("")
    common = np.isin(operation, (M.OP_LOAD, M.OP_STORE, M.OP_ATOM, M.OP_RED))
    generic = (memory & common & (code[:, M.COL_AUX0] == M.SPACE_GENERIC))[issues["pc"]]
    went = np.where(issues["wavefronts"] > 0, SPACES.index("shared"), SPACES.index("global"))
    went[issues["space"] == 1] = SPACES.index("local")
    issues["space"] = np.where(generic, went, named[issues["pc"]])
    rows = issues["access"][generic & (issues["access"] >= 0)]
    for window in (SHARED_WINDOW, LOCAL_WINDOW):
        inside = (addresses[rows] >= window) & (addresses[rows] < window + WINDOW_BYTES)
        addresses[rows] -= np.where(inside, window, 0)


def lane_bytes(row: np.ndarray) -> int:
    """Bytes that each lane of a memory instruction accesses, by its lowered row; 0 if its lanes do not access any."""
    operation = row[M.COL_OP]
    if operation in (M.OP_ATOM, M.OP_RED):
        kind = int(row[M.COL_AUX4]) & 255
        return int(row[M.COL_AUX1]) & 255 or 4 * int(words_of(kind))
    if operation in (M.OP_LDSM, M.OP_STSM):
        return 16
    if operation in (M.OP_SYNCS, M.OP_ARRIVES):
        return 8
    return int(row[M.COL_AUX1]) & 255
