"""The least time that a block's course takes: latencies, with no other block in the way.

`walk` goes along each of its warps with the latencies of a configuration: stall counts, scoreboards, branches and
barriers as the engine has them, every queue empty. Loads take as long as a hit in L1, unless their data is further
away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.bound.path import IN_L2, IN_MEMORY, LATER, Path
from gpusim.bound.work import Kinds
from gpusim.config import GPUConfig
from gpusim.engine.parameters import unit_timing
from gpusim.engine.sm.fence import TOGETHER
from gpusim.engine.state.jit import compiled
from isa import microops as M
from isa.instruction import INSTRUCTION_BYTES

# What an instruction is to the walk.
PLAIN, LOAD, SHARED, COPY, CLOSE, WAIT, BARRIER, STORE, STRONG, ATOMIC, INDEXED = range(11)
# Columns of the table of instructions.
STALL, WAITS, RESULT, SOURCES, KIND, LATENCY, RELEASE, TAKEN, GROUPS, LINE, CONSTANT, COLUMNS = range(12)
# Times of the walk that come from the configuration.
(
    T_L1,
    T_L2,
    T_MEMORY,
    T_ATOMIC,
    T_TO_L2,
    T_DRAIN,
    T_EXIT,
    T_BARRIER,
    T_ARRIVAL,
    T_FETCH,
    T_FETCH_AHEAD,
    T_NEXT_LINE,
    T_AHEAD,
    T_CONSTANT,
    T_ENTRY,
    T_ADDRESS,
    T_FIELDS,
) = range(17)
# Of a warp: its open group of copies ends; groups closed; the way of instructions asked for ahead is free; its line.
W_OPEN, W_COUNT, W_AHEAD, W_BEFORE, W_DONE = range(5)
_MOST_GROUPS = 32
_NEVER = np.int64(1) << 60


def instruction_table(code: np.ndarray, config: GPUConfig) -> np.ndarray:
    """What the walk knows of each instruction, int64 [instructions, COLUMNS]."""
    memory, issue = config.memory_instruction, config.issue
    kinds = Kinds(code)
    operation, classes, unit = code[:, M.COL_OP], code[:, M.COL_CLASS], code[:, M.COL_UNIT]
    table = np.zeros((len(code), COLUMNS), np.int64)
    table[:, STALL] = np.maximum(code[:, M.COL_STALL], 1)
    table[:, WAITS] = code[:, M.COL_WAIT]
    table[:, RESULT] = code[:, M.COL_WBAR]
    table[:, SOURCES] = code[:, M.COL_RBAR]
    table[:, LINE] = np.arange(len(code)) // (config.icache.line_bytes // INSTRUCTION_BYTES)
    operand = code[:, M.COL_CONST].astype(np.int64)
    fixed = (operand >= 0) & (code[:, M.COL_VARIABLE] == 0)
    table[fixed, CONSTANT] = np.unique(operand[fixed] // config.constant.line_bytes, return_inverse=True)[1]
    table[~fixed, CONSTANT] = -1

    variable = (code[:, M.COL_VARIABLE] != 0) & (classes != M.CLS_MEMORY)
    _, latency = unit_timing(config)
    table[variable, LATENCY] = latency[unit[variable]]
    table[variable, RELEASE] = memory.load_source_release_cycles
    cross = variable & (classes == M.CLS_CROSS)
    table[cross, LATENCY] = memory.vote_latency_cycles
    table[cross & np.isin(operation, (M.OP_MATCH_ANY, M.OP_MATCH_ALL)), LATENCY] = memory.match_latency_cycles
    table[cross & (operation == M.OP_REDUX), LATENCY] = memory.redux_latency_cycles
    table[variable & (operand >= 0), LATENCY] = config.constant.load_latency_cycles
    table[kinds.special, LATENCY] = memory.s2r_latency_cycles
    table[kinds.shuffle, LATENCY] = memory.shuffle_latency_cycles

    shared = kinds.access & (code[:, M.COL_AUX0] == M.SPACE_SHARED) & (operation < M.OP_LDGSTS)
    table[shared, KIND] = SHARED
    table[shared & (operation == M.OP_LOAD), LATENCY] = config.shared.latency_cycles
    table[shared & (operation == M.OP_ATOM), LATENCY] = config.shared.atomic_latency_cycles
    table[shared & (operation == M.OP_LOAD), RELEASE] = memory.shared_load_source_release_cycles
    table[shared & (operation != M.OP_LOAD), RELEASE] = memory.shared_store_source_release_cycles
    table[kinds.constant, LATENCY] = config.constant.load_latency_cycles
    for kind, rows in (
        (INDEXED, kinds.constant),
        (LOAD, kinds.plain_loads & ~kinds.copies),
        (STORE, kinds.writes),
        (STRONG, kinds.strict & ~kinds.atomics),
        (ATOMIC, kinds.returns),
        (COPY, kinds.copies),
    ):
        # What a generic access means is known only when it executes.
        table[rows, KIND] = kind
    generic = kinds.access & (code[:, M.COL_AUX0] == M.SPACE_GENERIC)
    local = kinds.access & (code[:, M.COL_AUX0] == M.SPACE_LOCAL)
    table[(generic & ~kinds.plain_loads & ~kinds.writes) | (local & ~kinds.plain_loads), KIND] = PLAIN
    table[(classes == M.CLS_CONTROL) & (operation == M.OP_LDGDEPBAR), KIND] = CLOSE
    waits = (classes == M.CLS_CONTROL) & (operation == M.OP_DEPBAR)
    table[waits, KIND] = WAIT
    table[waits, RESULT] = 7
    table[waits, GROUPS] = code[waits, M.COL_AUX1]
    table[waits, LATENCY] = code[waits, M.COL_AUX0]
    barrier = (classes == M.CLS_BARRIER) & (operation == M.OP_BAR) & (code[:, M.COL_AUX0] != M.BAR_ARRIVE)
    table[barrier, KIND] = BARRIER

    # Cycles until the next instruction, if that is another than the one behind it.
    control = classes == M.CLS_CONTROL
    table[:, TAKEN] = issue.branch_latency_cycles
    indirect = np.isin(operation, (M.OP_RET, M.OP_BRX, M.OP_JMX)) & control
    table[indirect, TAKEN] = issue.indirect_branch_latency_cycles
    table[control & (operation == M.OP_BSYNC), TAKEN] = issue.bsync_latency_cycles
    fence = control & (operation == M.OP_MEMBAR)
    wide = fence & (code[:, M.COL_AUX0] >= M.SCOPE_GPU)
    table[fence, STALL] = np.maximum(table[fence, STALL], memory.fence_cta_latency_cycles)
    # The warp may come to a fence that is under way.
    table[wide, STALL] = np.maximum(table[wide, STALL], memory.fence_gpu_latency_cycles - TOGETHER)
    return table


def is_bsync(code: np.ndarray) -> np.ndarray:
    """int64 [instructions]: 1 for BSYNC, whose own latency counts whoever goes on."""
    return ((code[:, M.COL_CLASS] == M.CLS_CONTROL) & (code[:, M.COL_OP] == M.OP_BSYNC)).astype(np.int64)


def times_of(config: GPUConfig, blocks: int) -> np.ndarray:
    """Least times of memory, fetch and barriers, int64 [T_FIELDS]."""
    l1, l2, icache = config.l1.latency_cycles, config.l2, config.icache
    times = np.zeros(T_FIELDS, np.int64)
    shortest = l2.latency_near_cycles - (l2.latency_spread_cycles + 1) // 2
    queue = round(config.constant.miss_interval_cycles * min(blocks, config.sm.count) / config.sm.gpcs)
    times[T_L1] = l1
    times[T_L2] = shortest - 1
    times[T_MEMORY] = shortest + int(config.dram_miss_cycles) - config.dram.row_activate_cycles - 1
    extra = l2.atomic_latency_cycles - l2.latency_near_cycles - l2.mean_fabric_latency_cycles
    times[T_ATOMIC] = l2.latency_near_cycles + max(int(extra), 0) - 1
    times[T_TO_L2] = shortest - l1 + l1 // 2 + 1
    times[T_DRAIN] = config.memory_instruction.store_drain_cycles + 2
    times[T_ENTRY] = config.memory_instruction.entry_cycles
    times[T_ADDRESS] = config.constant.address_cycles
    times[T_EXIT] = config.issue.exit_cycles + config.launch.drain_cycles
    times[T_BARRIER] = config.issue.bar_base_cycles
    times[T_ARRIVAL] = config.issue.bar_per_warp_cycles
    times[T_FETCH] = icache.l2_latency_cycles + 3 * queue // 2
    times[T_FETCH_AHEAD] = icache.l2_latency_cycles
    times[T_NEXT_LINE] = icache.l15_line_cycles
    times[T_AHEAD] = icache.prefetch_lines
    times[T_CONSTANT] = config.constant.l15_latency_cycles
    return times


def least_times(path: Path, table: np.ndarray, bsync: np.ndarray, times: np.ndarray, cold: bool) -> tuple[int, int]:
    """Cycles from the start of a block until it has ended, and until its last store is acknowledged."""
    count = len(path.bounds) - 1
    if count <= 0:
        return 0, 0
    lines, constants = int(table[:, LINE].max()) + 1, int(table[:, CONSTANT].max()) + 1
    fetched, known = np.full(lines, _NEVER), np.full(max(constants, 1), _NEVER)
    for _ in range(2 if cold else 1):  # the second time all warps know what any of them has asked for
        warps = Warps(
            path.bounds[:-1].copy(),
            np.zeros(count, np.int64),
            np.zeros((count, 8), np.int64),
            np.zeros((count, _MOST_GROUPS), np.int64),
            np.tile(np.array([0, 0, 0, -1, 0], np.int64), (count, 1)),
            fetched,
            known,
            np.zeros(2, np.int64),
        )
        walk(path, table, bsync, times, cold, warps)
    return int(warps.found[0]), int(warps.found[1])


class Warps(NamedTuple):
    """Where the warps of a block are on their ways, int64 [warps, ...] each but `fetched`, `known` and `found`.

    at: the next of its issues; now: cycle of the last one; release: when each scoreboard is free, and which one counts
    groups of copies; groups: ends of those under way; state: the W_*; fetched, known: when each line of code and of
    constants is there, by the first warp that asks for it. found: ends of the block, and of its last store.
    """

    at: np.ndarray
    now: np.ndarray
    release: np.ndarray
    groups: np.ndarray
    state: np.ndarray
    fetched: np.ndarray
    known: np.ndarray
    found: np.ndarray


@compiled
def walk(path: Path, table: np.ndarray, bsync: np.ndarray, times: np.ndarray, cold: bool, warps: Warps) -> None:
    """Goes along all warps of a block, together from barrier to barrier if they meet there."""
    left = warps.now.size
    while left > 0:
        left = 0
        latest = np.int64(0)
        earliest = np.int64(1) << 60
        for w in range(warps.now.size):
            if to_barrier(path, table, bsync, times, cold, warps, w):
                left += 1
                latest = max(latest, warps.now[w])
                earliest = min(earliest, warps.now[w])
            elif warps.state[w, W_DONE] == 0:
                warps.state[w, W_DONE] = 1
                warps.found[0] = max(warps.found[0], warps.now[w] + times[T_EXIT])
        if left > 0:
            warps.now[:] = max(latest, earliest + (warps.now.size - 1) * times[T_ARRIVAL]) + times[T_BARRIER]


@compiled
def to_barrier(
    path: Path, table: np.ndarray, bsync: np.ndarray, times: np.ndarray, cold: bool, warps: Warps, w: int
) -> bool:
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
            gap = table[before, STALL]
            if i != before + 1 or bsync[before] != 0:
                gap = max(gap, table[before, TAKEN])
            if table[before, KIND] != BARRIER:
                t += gap
        if cold:
            t = max(t, fetch(row, times, warps, w, previous))
        t = max(t, waited_for(row, warps, w))
        far = path.level[k] % LATER if cold else path.level[k] // LATER
        there = result_time(row, times, warps, w, t, far, path.turns[k])
        result = row[RESULT]
        if result < 6 and row[KIND] != CLOSE:
            release[result] = max(release[result], there)
        if row[SOURCES] < 6:
            release[row[SOURCES]] = max(release[row[SOURCES]], t + row[RELEASE])
        k += 1
        if row[KIND] == BARRIER:
            if path.joined:
                arrived = True
            else:
                t += times[T_BARRIER]
    warps.now[w] = t
    warps.at[w] = k
    return arrived


@compiled
def fetch(row: np.ndarray, times: np.ndarray, warps: Warps, w: int, previous: int) -> np.int64:
    """When an instruction and its constant are there, asked for at cycle `previous` if they were not before."""
    state, fetched, known = warps.state[w], warps.fetched, warps.known
    ready = np.int64(0)
    line = row[LINE]
    if line != state[W_BEFORE]:
        state[W_BEFORE] = line
        fetched[line] = min(fetched[line], previous + times[T_FETCH])
        for following in range(line + 1, min(fetched.size - 1, line + times[T_AHEAD]) + 1):
            start = max(previous, state[W_AHEAD])
            if fetched[following] > start + times[T_FETCH_AHEAD]:
                state[W_AHEAD] = start + times[T_NEXT_LINE]
                fetched[following] = start + times[T_FETCH_AHEAD]
        ready = fetched[line]
    operand = row[CONSTANT]
    if operand >= 0:
        known[operand] = min(known[operand], previous + times[T_CONSTANT])
        ready = max(ready, known[operand])
    return ready


@compiled
def waited_for(row: np.ndarray, warps: Warps, w: int) -> np.int64:
    """When the scoreboards and groups of copies that an instruction waits for are done."""
    release, groups, count = warps.release[w], warps.groups[w], warps.state[w, W_COUNT]
    t = np.int64(0)
    for s in range(6):
        if (row[WAITS] >> s) & 1:
            t = max(t, release[s])
            if count > 0 and s == release[7]:
                t = max(t, groups[count - 1])
    if row[KIND] == WAIT:
        if row[LATENCY] == release[7] and count > row[GROUPS]:
            t = max(t, groups[count - row[GROUPS] - 1])
        if row[GROUPS] == 0 and row[LATENCY] < 6:
            t = max(t, release[row[LATENCY]])
    return t


@compiled
def result_time(row: np.ndarray, times: np.ndarray, warps: Warps, w: int, t: int, far: int, turns: int) -> np.int64:
    """When the result of an instruction issued at `t` is there, 0 if nobody waits for it."""
    kind, found = row[KIND], warps.found
    there = np.int64(0)
    if kind in (LOAD, COPY):
        there = t + times[T_MEMORY if far == IN_MEMORY else T_L2 if far == IN_L2 else T_L1]
        if kind == COPY:
            warps.state[w, W_OPEN] = max(warps.state[w, W_OPEN], there)
            there = np.int64(0)
    elif kind == STRONG:
        there = t + times[T_L2]
    elif kind == ATOMIC:
        there = t + times[T_ATOMIC]
    elif kind == STORE:
        found[0] = max(found[0], t + times[T_DRAIN])
        found[1] = max(found[1], t + times[T_TO_L2])
    elif kind == CLOSE:
        close_group(row, warps, w, t)
    elif kind == SHARED:
        if row[LATENCY] > 0:
            there = t + row[LATENCY] + 2 * (turns - 1)
    elif kind == INDEXED:
        there = t + times[T_ENTRY] + row[LATENCY] + times[T_ADDRESS] * (turns - 1)
    elif kind == PLAIN and row[LATENCY] > 0:
        there = t + row[LATENCY]
    return there


@compiled
def close_group(row: np.ndarray, warps: Warps, w: int, t: int) -> None:
    """Notes the end of a group of copies. Groups are done in any order, and waited for by number: kept sorted."""
    state, groups = warps.state[w], warps.groups[w]
    if row[RESULT] < 6:
        if state[W_COUNT] == groups.size:
            for n in range(1, groups.size):
                groups[n - 1] = groups[n]
            state[W_COUNT] -= 1
        n = state[W_COUNT]
        value = max(state[W_OPEN], t + 1)
        while n > 0 and groups[n - 1] > value:
            groups[n] = groups[n - 1]
            n -= 1
        groups[n] = value
        state[W_COUNT] += 1
        warps.release[w, 7] = row[RESULT]
    state[W_OPEN] = 0
