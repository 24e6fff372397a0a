"""The least time that a block's course takes: latencies, with no other block in the way.

`path_of` takes down what the warps of a block issue, and how far away the data of each load is at least. `least_times`
goes along each warp with the latencies of a machine, which are the engine's own (`result_latency`, and parameters by
the names that it uses): stall counts, scoreboards, branches and barriers, every queue empty. Not part of it, since no
bundled program's bound gains a thirtieth: releases of source registers, groups of asynchronous copies, further
wavefronts of an access, and code behind the first line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.bound.footprint import Accesses, Touched
from gpusim.bound.work import Kinds
from gpusim.config import GPUConfig
from gpusim.engine.parameters import machine_parameters
from gpusim.engine.sm.execute import result_latency
from gpusim.engine.sm.fence import TOGETHER
from gpusim.engine.state import parameters as P
from gpusim.engine.state.jit import compiled
from gpusim.tracing.perfetto import Trace
from isa import microops as M

#: Issues of a block that are walked along; of a longer one only the longest warp is, as far as that goes.
_MOST = 100_000
#: Distance of data at least; that of later blocks stands times LATER.
NEAR, IN_L2, IN_MEMORY = range(3)
LATER = 4
# Kinds of instructions to the walk, and the columns of its table of them.
PLAIN, LOAD, STORE, BARRIER = range(4)
STALL, WAITS, RESULT, KIND, LATENCY, TAKEN, CONSTANT, COLUMNS = range(8)
_NEVER = np.int64(1) << 60


class Path(NamedTuple):
    """Issues of the warps of a block, one warp after the other.

    pc: int32 [issues]; bounds: int64 [warps + 1], places at which each warp's begin and end; level: int8 [issues], of a
    load from global memory the distance of its data: NEAR, in L2 or in MEMORY, for the first blocks and, times LATER,
    for later ones. joined: True if all warps meet at every barrier.
    """

    pc: np.ndarray
    bounds: np.ndarray
    level: np.ndarray
    joined: bool


class Times(NamedTuple):
    """Least times in cycles: until the first instruction is there and a constant, of a load by the distance of its
    data, of an atomic, from a store to L2 and to its warp's end, of that end, and of barriers."""

    fetch: int
    constant: int
    l1: int
    l2: int
    memory: int
    atomic: int
    to_l2: int
    drain: int
    end: int
    barrier: int
    arrival: int

    @classmethod
    def of(cls, config: GPUConfig) -> Times:
        """On a machine."""
        l1, l2, issue = config.l1.latency_cycles, config.l2, config.issue
        way = round(config.crossbar.tpc_cycles + config.crossbar.cpc_cycles)
        shortest = l2.latency_near_cycles - (l2.latency_spread_cycles + 1) // 2 - way
        extra = l2.atomic_latency_cycles - l2.mean_latency_cycles
        return cls(
            fetch=config.icache.l2_latency_cycles,
            constant=config.constant.l15_latency_cycles,
            l1=l1,
            l2=shortest - 1,
            memory=shortest + int(config.dram_miss_cycles) - config.dram.row_activate_cycles - 1,
            atomic=l2.latency_near_cycles + max(int(extra), 0) - 1,
            to_l2=shortest - l1 + l1 // 2 + 1,
            drain=config.memory_instruction.store_drain_cycles + 2,
            end=issue.exit_cycles + config.launch.drain_cycles,
            barrier=issue.bar_base_cycles,
            arrival=issue.bar_per_warp_cycles,
        )


def path_of(trace: Trace, issues: np.ndarray, touched: Touched, code: np.ndarray) -> Path:
    """The path of a block by its issues, sorted by warp."""
    level = _levels(trace, issues, touched, code)
    first = np.flatnonzero(np.diff(issues["warp"], prepend=-1))
    bounds = np.append(first, len(issues))
    barrier = (code[:, M.COL_CLASS] == M.CLS_BARRIER) & (code[:, M.COL_OP] == M.OP_BAR)
    meets = barrier & (code[:, M.COL_AUX0] != M.BAR_ARRIVE) & (code[:, M.COL_AUX2] == 0)
    count = np.add.reduceat(barrier[issues["pc"]].astype(np.int64), bounds[:-1]) if len(first) else np.zeros(0)
    joined = bool((count == count[:1]).all() and (meets | ~barrier)[issues["pc"]].all())
    if len(issues) > _MOST and len(first):
        longest = int(np.argmax(np.diff(bounds)))
        keep = slice(int(bounds[longest]), int(min(bounds[longest + 1], bounds[longest] + _MOST)))
        issues, level, joined = issues[keep], level[keep], False
        bounds = np.array([0, len(issues)])
    return Path(issues["pc"].astype(np.int32), bounds.astype(np.int64), level, joined)


def _levels(trace: Trace, issues: np.ndarray, touched: Touched, code: np.ndarray) -> np.ndarray:
    """int8 [issues]: `Path.level`."""
    level = np.zeros(len(issues), np.int8)
    accesses = Accesses.of(trace, issues)
    reads = ~Kinds(code).stores[accesses.pc]
    if not touched.complete:
        # Nobody has touched anything before the first access of a warp.
        level[accesses.issue[(accesses.turn == 0) & reads]] = IN_MEMORY
        return level
    active = (accesses.addresses >= 0) & reads[:, None]
    at = np.clip((accesses.addresses >> 5) - touched.first, 0, len(touched.read) - 1)
    turn = accesses.turn[:, None]
    new = active & touched.read[at] & (touched.turn[at] >= turn)
    new &= ~(touched.written[at] | touched.maybe_written[at])
    alone = new & (touched.sharers[at] <= 1)
    # Whatever a miss fetches together with others, a line at most, has to be new.
    new_line, line_alone = new.copy(), alone.copy()
    for k in range(4):
        other = np.minimum(at // 4 * 4 + k, len(touched.read) - 1)
        new_line &= touched.turn[other] >= turn
        line_alone &= touched.sharers[other] <= 1
    first = new.any(axis=1) * IN_L2 + new_line.any(axis=1) * (IN_MEMORY - IN_L2)
    later = alone.any(axis=1) * IN_L2 + (line_alone & new_line).any(axis=1) * (IN_MEMORY - IN_L2)
    level[accesses.issue] = first + LATER * later
    return level


def instruction_table(code: np.ndarray, config: GPUConfig, times: Times) -> np.ndarray:
    """int64 [instructions, COLUMNS]: each instruction of a lowered program, as the walk needs it."""
    par, kinds = machine_parameters(config), Kinds(code)
    operation, classes, space = code[:, M.COL_OP], code[:, M.COL_CLASS], code[:, M.COL_AUX0]
    control = classes == M.CLS_CONTROL
    table = np.zeros((len(code), COLUMNS), np.int64)
    table[:, STALL] = np.maximum(code[:, M.COL_STALL], 1)
    table[:, WAITS] = code[:, M.COL_WAIT]
    table[:, RESULT] = code[:, M.COL_WBAR]
    operand = code[:, M.COL_CONST].astype(np.int64)
    fixed = (operand >= 0) & (code[:, M.COL_VARIABLE] == 0)
    table[fixed, CONSTANT] = np.unique(operand[fixed] // config.constant.line_bytes, return_inverse=True)[1]
    table[~fixed, CONSTANT] = -1

    result_latencies(code, par, table[:, LATENCY])
    table[control & (operation == M.OP_LDGDEPBAR), LATENCY] = 1  # if nothing is being copied
    shared = kinds.access & (space == M.SPACE_SHARED)
    table[shared & (operation == M.OP_LOAD), LATENCY] = par[P.SHARED_LATENCY]
    table[shared & (operation == M.OP_ATOM), LATENCY] = par[P.SHARED_ATOMIC_LATENCY]
    table[kinds.constant, LATENCY] = par[P.ENTRY] + par[P.CONST_LATENCY]
    table[kinds.plain_loads & ~kinds.copies, KIND] = LOAD
    table[kinds.writes, KIND] = STORE
    # The space of a generic access is known only when it executes.
    outside = ~np.isin(space, (M.SPACE_GENERIC, M.SPACE_LOCAL))
    table[kinds.strict & ~kinds.atomics & outside, LATENCY] = times.l2
    table[kinds.returns & outside, LATENCY] = times.atomic
    table[kinds.writes & (space == M.SPACE_LOCAL), KIND] = PLAIN
    barrier = (classes == M.CLS_BARRIER) & (operation == M.OP_BAR) & (space != M.BAR_ARRIVE)
    table[barrier, KIND] = BARRIER

    # Cycles until the next instruction, if that is another than the one behind it.
    table[:, TAKEN] = par[P.BRANCH_LATENCY]
    table[control & np.isin(operation, (M.OP_RET, M.OP_BRX, M.OP_JMX)), TAKEN] = par[P.INDIRECT_LATENCY]
    meets = control & (operation == M.OP_BSYNC)  # whose latency counts whoever goes on
    table[meets, STALL] = np.maximum(table[meets, STALL], par[P.MEET_LATENCY])
    fence = control & (operation == M.OP_MEMBAR)
    wide = fence & (space >= M.SCOPE_GPU)
    table[fence, STALL] = np.maximum(table[fence, STALL], par[P.MEMBAR_CTA_LATENCY])
    # The warp may come to a fence that is under way.
    table[wide, STALL] = np.maximum(table[wide, STALL], par[P.MEMBAR_LATENCY] - TOGETHER)
    return table


@compiled
def result_latencies(code: np.ndarray, par: np.ndarray, found: np.ndarray) -> None:
    """Put the latencies of all instructions of variable latency but accesses to memory."""
    for i in range(code.shape[0]):
        if code[i, M.COL_VARIABLE] != 0 and code[i, M.COL_CLASS] != M.CLS_MEMORY:
            found[i] = result_latency(code, par, i)


class Warps(NamedTuple):
    """Places of the warps of a block on their ways, int64 [warps, ...] each but `known` and `found`.

    at: the next of its issues; now: cycle of the last one; release: cycles at which its scoreboards are free; done: 1
    if it has ended. known: cycle at which each line of constants is there. found: ends of the block, and of its last
    store.
    """

    at: np.ndarray
    now: np.ndarray
    release: np.ndarray
    done: np.ndarray
    known: np.ndarray
    found: np.ndarray


def least_times(path: Path, table: np.ndarray, times: Times, cold: bool) -> tuple[int, int]:
    """Cycles from the start of a block until it has ended, and until its last store is acknowledged. cold: for one of
    the first blocks."""
    count = len(path.bounds) - 1
    if count <= 0:
        return 0, 0
    known = np.full(max(int(table[:, CONSTANT].max()) + 1, 1), _NEVER)
    for _ in range(2 if cold else 1):  # the second time all warps know what any of them has asked for
        now, done = np.zeros(count, np.int64), np.zeros(count, np.int64)
        warps = Warps(path.bounds[:-1].copy(), now, np.zeros((count, 6), np.int64), done, known, np.zeros(2, np.int64))
        walk(path, table, times, cold, warps)
    return int(warps.found[0]), int(warps.found[1])


@compiled
def walk(path: Path, table: np.ndarray, times: Times, cold: bool, warps: Warps) -> None:
    """Goes along all warps of a block, together from barrier to barrier if they meet there."""
    left = warps.now.size
    while left > 0:
        left = 0
        latest = np.int64(0)
        earliest = np.int64(1) << 60
        for w in range(warps.now.size):
            if to_barrier(path, table, times, cold, warps, w):
                left += 1
                latest = max(latest, warps.now[w])
                earliest = min(earliest, warps.now[w])
            elif warps.done[w] == 0:
                warps.done[w] = 1
                warps.found[0] = max(warps.found[0], warps.now[w] + times.end)
        if left > 0:
            warps.now[:] = max(latest, earliest + (warps.now.size - 1) * times.arrival) + times.barrier


@compiled
def to_barrier(path: Path, table: np.ndarray, times: Times, cold: bool, warps: Warps, w: int) -> bool:
    """Goes along a warp up to the next barrier where all meet; False if it has ended before."""
    release = warps.release[w]
    t = warps.now[w]
    k = warps.at[w]
    arrived = False
    while k < path.bounds[w + 1] and not arrived:
        i = path.pc[k]
        row = table[i]
        previous = t
        if k > path.bounds[w]:
            before = path.pc[k - 1]
            if table[before, KIND] != BARRIER:
                t += max(table[before, STALL], table[before, TAKEN] if i != before + 1 else 0)
        elif cold:
            t = max(t, times.fetch)
        constant = row[CONSTANT]
        if cold and constant >= 0:
            warps.known[constant] = min(warps.known[constant], previous + times.constant)
            t = max(t, warps.known[constant])
        for s in range(6):
            if (row[WAITS] >> s) & 1:
                t = max(t, release[s])
        latency = row[LATENCY]
        if row[KIND] == LOAD:
            far = path.level[k] % LATER if cold else path.level[k] // LATER
            latency = times.memory if far == IN_MEMORY else times.l2 if far == IN_L2 else times.l1
        elif row[KIND] == STORE:
            warps.found[0] = max(warps.found[0], t + times.drain)
            warps.found[1] = max(warps.found[1], t + times.to_l2)
        if latency > 0 and row[RESULT] < 6:
            release[row[RESULT]] = max(release[row[RESULT]], t + latency)
        k += 1
        if row[KIND] == BARRIER:
            if path.joined:
                arrived = True
            else:
                t += times.barrier
    warps.now[w] = t
    warps.at[w] = k
    return arrived
