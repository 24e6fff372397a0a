"""How long after one instruction of a warp the next one may issue, and how long an instruction keeps its unit."""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.state import layout as L
from gpusim.engine.state.bits import lowest_bit
from gpusim.engine.state.jit import compiled
from isa import microops as M

#: NANOSLEEP sleeps a millisecond at most (PTX manual).
LONGEST_SLEEP_NS = 1_000_000


@compiled
def sleep_cycles(st, w, i, active):
    """NANOSLEEP: nanoseconds from the first active lane, in cycles."""
    wb = 32 * (st.par[L.P_CONST_ROWS] + w * st.par[L.P_ROWS_PER_WARP])
    nanoseconds = np.int64(st.regs[row_offset(st.code[i, M.COL_A], wb) + lowest_bit(active)])
    return min(nanoseconds, LONGEST_SLEEP_NS) * st.par[L.P_CLOCK_MHZ] // 1000


@compiled
def branch_latency(st, i, target):
    """Cycles from the issue of a branch, or of a BSYNC, until the warp's next instruction at `target` can issue."""
    op = st.code[i, M.COL_OP]
    if op == M.OP_BSYNC:
        return st.par[L.P_MEET_LATENCY]
    if op in (M.OP_RET, M.OP_BRX, M.OP_JMX):
        return st.par[L.P_INDIRECT_LATENCY]
    if st.code[target, M.COL_CLASS] == M.CLS_CONTROL and st.code[target, M.COL_OP] == M.OP_BSYNC:
        return st.par[L.P_MEET_AFTER]
    # The target's line holds nothing after it, and the next one has to be fetched.
    last = (1 << st.par[L.P_ICACHE_SHIFT]) - 1
    late = st.par[L.P_LAST_IN_LINE] if target & last == last else 0
    return st.par[L.P_BRANCH_LATENCY] + late


@compiled
def is_wide(st, i):
    """A product of which the high word is wanted."""
    op = st.code[i, M.COL_OP]
    return st.code[i, M.COL_UNIT] == M.UNIT_FMAHEAVY and M.OP_IMAD_WIDE_U <= op <= M.OP_IMAD_HI_S


@compiled
def held(st, i):
    """Cycles after its own for which an instruction keeps the sub-partition from issuing another.

    A wide product is dispatched twice, as long apart as its pipe takes the first half, and only then its stall count
    begins (H200: independent IMAD.HI with stall counts of 4 take 6.3 cycles each, loop included).
    """
    return st.par[L.P_WIDE_DISPATCH] if is_wide(st, i) else np.int64(0)


@compiled
def has_short_sums(code, i):
    """A product of matrices whose sums are halves or integers, which GeForce cards make faster than single ones."""
    op = code[i, M.COL_OP]
    return code[i, M.COL_CLASS] == M.CLS_TENSOR and (
        op == M.OP_IMMA or (op == M.OP_HMMA and code[i, M.COL_AUX2] == 16)
    )


@compiled
def unit_interval(st, i, unit):
    """Cycles from the issue of an instruction until its unit takes the next one."""
    if is_wide(st, i):
        return st.par[L.P_WIDE_INTERVAL]
    interval = st.par[L.P_UNIT_INTERVAL + unit]
    return max(interval // st.par[L.P_SHORT_SUMS], 1) if has_short_sums(st.code, i) else interval


@compiled
def next_issue(st, w, i, active, mask, time):
    """When the warp that has executed instruction i at `time` may issue the next one at the earliest.

    Returns (cycle until which it waits for a fixed time, cycle from which it may issue, what it waits for between).
    """
    op = st.code[i, M.COL_OP]
    earliest = time + held(st, i) + max(np.int64(st.code[i, M.COL_STALL]), 1)
    pc = st.warp[w, L.W_PC]
    if pc != i + 1 or op == M.OP_BSYNC:
        taken = time + branch_latency(st, i, pc)
        if st.warp[w, L.W_TOOK_OLD] != 0:
            st.warp[w, L.W_TOOK_OLD] = 0
            taken += st.par[L.P_OLD_GROUP]
        return earliest, max(taken, earliest), L.R_BRANCH
    if op == M.OP_MEMBAR and mask != 0:
        return np.int64(0), max(earliest, time + st.par[L.P_MEMBAR_CTA_LATENCY]), L.R_MEMBAR
    if op == M.OP_NANOSLEEP and mask != 0:
        return np.int64(0), max(earliest, time + sleep_cycles(st, w, i, active)), L.R_SLEEPING
    return earliest, earliest, L.R_WAIT
