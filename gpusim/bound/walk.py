"""The least time that a block's course takes: latencies, with no other block in the way.

`walk` goes along each of its warps with the latencies of a configuration: stall counts, scoreboards, branches and
barriers as the engine has them, every queue empty. Loads take as long as a hit in L1, unless their data is further
away.
"""

from __future__ import annotations

import numpy as np

from gpusim.bound.path import IN_L2, IN_MEMORY, LATER, Path
from gpusim.bound.work import Kinds
from gpusim.config import GPUConfig
from gpusim.engine.parameters import unit_timing
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
    T_NEXT_LINE,
    T_AHEAD,
    T_CONSTANT,
    T_ENTRY,
    T_ADDRESS,
    T_FIELDS,
) = range(16)
# Of a warp: its open group of copies ends; groups closed; the way of instructions asked for ahead is free; its line.
W_OPEN, W_COUNT, W_AHEAD, W_BEFORE, W_DONE = range(5)
_MOST_GROUPS = 32


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
    table[wide, STALL] = np.maximum(table[wide, STALL], memory.fence_gpu_latency_cycles)
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
    times[T_NEXT_LINE] = icache.l15_line_cycles
    times[T_AHEAD] = icache.prefetch_lines
    times[T_CONSTANT] = config.constant.l15_latency_cycles
    return times


def least_times(path: Path, table: np.ndarray, bsync: np.ndarray, times: np.ndarray, cold: bool) -> tuple[int, int]:
    """Cycles from the start of a block until it has ended, and until its last store is acknowledged."""
    warps = len(path.bounds) - 1
    if warps <= 0:
        return 0, 0
    found = np.zeros(2, np.int64)
    lines, constants = int(table[:, LINE].max()) + 1, int(table[:, CONSTANT].max()) + 1
    walk(
        path.pc,
        path.bounds,
        path.level,
        path.turns,
        path.joined,
        table,
        bsync,
        times,
        cold,
        found,
        path.bounds[:-1].copy(),
        np.zeros(warps, np.int64),
        np.zeros((warps, 8), np.int64),
        np.zeros((warps, _MOST_GROUPS), np.int64),
        np.tile(np.array([0, 0, 0, -1, 0], np.int64), (warps, 1)),
        np.full((warps, lines), -1, np.int64),
        np.full((warps, max(constants, 1)), -1, np.int64),
    )
    return int(found[0]), int(found[1])


@compiled
def walk(
    pc, bounds, level, turns, joined, table, bsync, times, cold, found, at, now, release, groups, warp, fetched, known
):
    """Goes along all warps of a block, together from barrier to barrier if they meet there."""
    warps = bounds.size - 1
    lines = fetched.shape[1]
    left = warps
    while left > 0:
        left = 0
        latest = np.int64(0)
        earliest = np.int64(1) << 60
        for w in range(warps):
            t = now[w]
            arrived = False
            k = at[w]
            while k < bounds[w + 1] and not arrived:
                i = pc[k]
                row = table[i]
                previous = t
                if k > bounds[w]:
                    i0 = pc[k - 1]
                    gap = table[i0, STALL]
                    if i != i0 + 1 or bsync[i0] != 0:
                        gap = max(gap, table[i0, TAKEN])
                    if table[i0, KIND] == BARRIER:
                        gap = np.int64(0)
                    t += gap
                if cold:
                    line = row[LINE]
                    if line != warp[w, W_BEFORE]:
                        warp[w, W_BEFORE] = line
                        if fetched[w, line] < 0:
                            fetched[w, line] = previous + times[T_FETCH]
                        last = min(lines - 1, line + times[T_AHEAD])
                        for following in range(line + 1, last + 1):
                            if fetched[w, following] < 0:
                                start = max(previous, warp[w, W_AHEAD])
                                warp[w, W_AHEAD] = start + times[T_NEXT_LINE]
                                fetched[w, following] = start + times[T_FETCH]
                        t = max(t, fetched[w, line])
                    operand = row[CONSTANT]
                    if operand >= 0:
                        if known[w, operand] < 0:
                            known[w, operand] = previous + times[T_CONSTANT]
                        t = max(t, known[w, operand])
                waits = row[WAITS]
                for s in range(6):
                    if (waits >> s) & 1:
                        t = max(t, release[w, s])
                        if warp[w, W_COUNT] > 0 and s == release[w, 7]:
                            t = max(t, groups[w, warp[w, W_COUNT] - 1])
                kind = row[KIND]
                result = row[RESULT]
                if kind == WAIT:
                    if row[LATENCY] == release[w, 7] and warp[w, W_COUNT] > row[GROUPS]:
                        t = max(t, groups[w, warp[w, W_COUNT] - row[GROUPS] - 1])
                    if row[GROUPS] == 0 and row[LATENCY] < 6:
                        t = max(t, release[w, row[LATENCY]])
                there = np.int64(0)
                if kind in (LOAD, COPY):
                    far = level[k] % LATER if cold else level[k] // LATER
                    there = t + times[T_L1]
                    if far == IN_MEMORY:
                        there = t + times[T_MEMORY]
                    elif far == IN_L2:
                        there = t + times[T_L2]
                    if kind == COPY:
                        warp[w, W_OPEN] = max(warp[w, W_OPEN], there)
                        there = 0
                elif kind == STRONG:
                    there = t + times[T_L2]
                elif kind == ATOMIC:
                    there = t + times[T_ATOMIC]
                elif kind == STORE:
                    found[0] = max(found[0], t + times[T_DRAIN])
                    found[1] = max(found[1], t + times[T_TO_L2])
                elif kind == CLOSE:
                    if result < 6:
                        # Groups are done in any order, and waited for by number: kept sorted, the latest of them.
                        if warp[w, W_COUNT] == groups.shape[1]:
                            for n in range(1, groups.shape[1]):
                                groups[w, n - 1] = groups[w, n]
                            warp[w, W_COUNT] -= 1
                        n = warp[w, W_COUNT]
                        value = max(warp[w, W_OPEN], t + 1)
                        while n > 0 and groups[w, n - 1] > value:
                            groups[w, n] = groups[w, n - 1]
                            n -= 1
                        groups[w, n] = value
                        warp[w, W_COUNT] += 1
                        release[w, 7] = result
                    warp[w, W_OPEN] = 0
                elif kind == SHARED:
                    if row[LATENCY] > 0:
                        there = t + row[LATENCY] + 2 * (turns[k] - 1)
                elif kind == INDEXED:
                    there = t + times[T_ENTRY] + row[LATENCY] + times[T_ADDRESS] * (turns[k] - 1)
                elif kind == PLAIN and row[LATENCY] > 0:
                    there = t + row[LATENCY]
                if result < 6 and kind != CLOSE:
                    release[w, result] = max(release[w, result], there)
                if row[SOURCES] < 6:
                    release[w, row[SOURCES]] = max(release[w, row[SOURCES]], t + row[RELEASE])
                k += 1
                if kind == BARRIER:
                    if joined:
                        arrived = True
                        latest = max(latest, t)
                        earliest = min(earliest, t)
                    else:
                        t += times[T_BARRIER]
            now[w] = t
            at[w] = k
            if arrived:
                left += 1
            elif warp[w, W_DONE] == 0:
                warp[w, W_DONE] = 1
                found[0] = max(found[0], t + times[T_EXIT])
        if left > 0:
            opens = max(latest, earliest + (warps - 1) * times[T_ARRIVAL]) + times[T_BARRIER]
            for w in range(warps):
                now[w] = opens
