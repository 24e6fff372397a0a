"""A warp and its next instruction, whoever decides when it runs: the scheduler, or `functional` without time."""

import numpy as np

from gpusim.engine.rows.common import predicate, row_offset
from gpusim.engine.sm.bulk_effect import leave_with_block
from gpusim.engine.sm.execute import execute
from gpusim.engine.sm.flight import close_copies, close_group
from gpusim.engine.sm.lane_states import can_run
from gpusim.engine.sm.readiness import block, charge
from gpusim.engine.sm.shadow_clocks import CHECK_RACE
from gpusim.engine.sm.shadow_copies import all_waited_for
from gpusim.engine.sm.space import exhausted, fail
from gpusim.engine.sm.stages import take_turn
from gpusim.engine.sm.tensor_memory import tmem_end
from gpusim.engine.state import L, P, compiled, lowest_bit, popc
from gpusim.engine.state.log import STOPS, log_costs, log_end, log_issue
from isa import microops as M

# How many bits change where values go, for the energy of a launch: of a warp in eight, by its number and its block's,
# each result is compared with what the register held and with that of the lane sixteen further; without a result the
# first operand is, or what is stored. So the counts depend neither on time nor on the machine.
_LANE = 13  # that is looked at, if it runs, else the lowest: lane 0 often has a part of its own
_FURTHER = 16


@compiled
def looked_row(code, i, wb):
    """Offset of the row that is looked at, -1 if there is none."""
    kind = code[i, M.COL_CLASS]
    if code[i, M.COL_DST_COUNT] > 0:
        # A strong load has no value yet when it is issued.
        late = kind == M.CLS_MEMORY and code[i, M.COL_AUX0] != M.SPACE_SHARED
        late &= code[i, M.COL_OP] == M.OP_ATOM or code[i, M.COL_AUX3] & M.MEM_STRONG != 0
        return np.int64(-1) if late else row_offset(code[i, M.COL_DST], wb)
    if kind == M.CLS_MEMORY and (code[i, M.COL_OP] == M.OP_STORE or code[i, M.COL_OP] == M.OP_RED):
        return row_offset(code[i, M.COL_B], wb)
    if kind == M.CLS_INT or kind == M.CLS_FLOAT or kind == M.CLS_DOUBLE or kind == M.CLS_HALF or kind == M.CLS_CROSS:
        return row_offset(code[i, M.COL_A], wb)
    return np.int64(-1)


@compiled
def clear_lanes(st, sm, w):
    """A warp comes up for the first time: registers are zero, predicates false, all lanes go together.

    Here and not where its block starts, so that host threads share the work.
    """
    rows = st.par[P.ROWS_PER_WARP]
    first = 32 * (st.par[P.CONST_ROWS] + w * rows)
    st.regs[first : first + 32 * rows] = 0
    block = st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_NUMBER]
    mixed = (block * 2654435761 + st.warp[w, L.WARP_INDEX] * 40503 + 1) & 0xFFFFFFFF
    looked_at = block == 0 or ((mixed * 2246822519) >> 20) & 7 == 0
    st.warp[w, L.WARP_LOOKED_AT] = looked_at and st.par[P.MODE] & L.BOOKS != 0  # without time there is no energy
    st.preds[16 * w : 16 * w + 16] = 0
    st.preds[16 * w + 7] = 0xFFFFFFFF
    st.preds[16 * w + 15] = 0xFFFFFFFF


@compiled
def stops(st, sm, w, i):
    """Stops the run if instruction i of this warp is the one that it was to run to."""
    par, number = st.par, st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_NUMBER]
    if i != par[P.STOP_PC] or (par[P.STOP_BLOCK] >= 0 and number != par[P.STOP_BLOCK]):
        return False
    if par[P.STOP_WARP] >= 0 and st.warp[w, L.WARP_INDEX] != par[P.STOP_WARP]:
        return False
    st.warp[w, L.WARP_STATE] = L.STOPPED
    fail(st, sm, L.ERROR_STOPPED, i, w, 0, 0, 0)
    return True


@compiled
def guarded(st, w, i, active):
    """Return which of the active lanes an instruction's guard leaves."""
    if st.code[i, M.COL_GUARD] == 7 and st.code[i, M.COL_GUARD_NEG] == 0:
        return active
    guard = st.preds[16 * w + st.code[i, M.COL_GUARD]]
    return active & (~guard if st.code[i, M.COL_GUARD_NEG] != 0 else guard)


@compiled
def count_lanes(counts, active, mask):
    """Counts an instruction of a warp."""
    counts[L.COUNT_EXECUTED] += 1
    counts[L.COUNT_THREADS] += popc(active)
    counts[L.COUNT_PRED_ON] += popc(mask)


@compiled
def counted_lanes(st, sm, w, i, active):
    """Counts instruction i of a warp. Returns the lanes that execute it: all for a uniform register, of which later
    readers look at any lane."""
    mask = guarded(st, w, i, active)
    count_lanes(st.counters[st.sm[sm, L.SM_CHUNK], i], active, mask)
    return np.uint32(0xFFFFFFFF) if st.code[i, M.COL_UNIFORM] != 0 and mask != 0 else mask


@compiled
def run_instruction(st, sm, q, slot, w, i, time):
    """Counts and executes instruction i of a warp. Returns (active lanes, lanes that it runs for, whether the warp can
    go on)."""
    code = st.code
    active = np.uint32(st.warp[w, L.WARP_ACTIVE])
    mask = lanes = guarded(st, w, i, active)
    if code[i, M.COL_CLASS] == M.CLS_CONTROL:
        # The profiler counts a second predicate as well (H200: `@!P1 BRA P0`, `@P0 BREAK P1, B2`).
        mask &= np.uint32(predicate(code, i, M.COL_PS0, st.preds, 16 * w))
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    count_lanes(counts, active, mask)
    st.warp[w, L.WARP_SINCE] = time + 1
    st.sm[sm, L.SM_ISSUED] += 1
    if st.sm[sm, L.SM_LOG] != 0:
        if st.sm[sm, L.SM_LOG] == STOPS and stops(st, sm, w, i):
            return active, mask, False
        log_issue(st, sm, q, slot, w, i, active, lanes, mask, time)
    row = np.int64(-1)
    if st.warp[w, L.WARP_LOOKED_AT] != 0 and mask != 0:
        row = looked_row(code, i, 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP]))
    lane = np.int64(_LANE) if (mask >> _LANE) & 1 else lowest_bit(mask)
    old = st.regs[row + lane] if row >= 0 else np.uint32(0)
    runs = execute(st, sm, q, slot, w, i, mask, time)
    if row >= 0:
        new, other = st.regs[row + lane], lane ^ _FURTHER
        counts[L.COUNT_LOOKED] += 1
        counts[L.COUNT_TOGGLED] += popc(np.uint32(old ^ new))
        if (mask >> other) & 1:
            counts[L.COUNT_SPREAD] += popc(np.uint32(new ^ st.regs[row + other]))
    if st.sm[sm, L.SM_LOG_ROW] != 0:
        log_costs(st, sm, i)
    if code[i, M.COL_CLASS] == M.CLS_CONTROL and st.split[w, L.SPLIT_FULL] != 0:
        exhausted(st, sm, L.POOL_SPLITS, w, L.LANES_OF_WARP, L.LANES_OF_WARP)
    return active, mask, runs


@compiled
def stays(st, sm, q, slot, w, i):
    """No lane can go on after instruction i: they wait at a barrier, or for each other."""
    if can_run(st.warp, st.split, w) == 0:
        block(st, w, q, slot, L.WAIT_BARRIER, L.STALL_BARRIER)
    else:
        fail(st, sm, L.ERROR_DEADLOCK, i, w, 0, 0, 0)


@compiled
def finish_warp(st, sm, q, slot, w, time):
    """The last lane of a warp has exited; with the last warp, the block is done."""
    st.warp[w, L.WARP_STATE] = L.FREE
    st.warp[w, L.WARP_AGE] = -1
    if st.warp[w, L.WARP_COPIES] != 0:
        close_copies(st, sm, w, time, 7)
    if st.warp[w, L.WARP_BULK] != 0:
        close_group(st, sm, w, L.WARP_BULK, L.BULK_WRITE_TOKEN, time, 7)
    st.ready[q, slot] = L.NEVER
    take_turn(st, st.smsp[q], w, True)
    st.smsp[q, L.SMSP_WARPS] -= 1
    s = st.sm[sm]
    s[L.SM_WARPS] -= 1
    drained = max(st.warp[w, L.WARP_SINCE], st.warp[w, L.WARP_DRAINED])
    charge(st, sm, w, L.STALL_DRAIN, drained)
    s[L.SM_WARP_CYCLES] += drained - st.warp[w, L.WARP_START]
    s[L.SM_SCHEDULER_CYCLES] += max(drained - max(st.smsp[q, L.SMSP_ENDED], st.warp[w, L.WARP_START]), 0)
    st.smsp[q, L.SMSP_ENDED] = max(st.smsp[q, L.SMSP_ENDED], drained)
    if s[L.SM_LOG] != 0:
        log_end(st, sm, w, drained)
    number = st.warp[w, L.WARP_BLOCK]
    b = st.block[sm, number]
    if st.par[P.CHECKS] & CHECK_RACE and b[L.BLOCK_WARPS_LEFT] == 1 and not all_waited_for(st, sm, w):
        return
    b[L.BLOCK_WARPS_LEFT] -= 1
    b[L.BLOCK_DRAINED] = max(b[L.BLOCK_DRAINED], drained)
    if b[L.BLOCK_WARPS_LEFT] == 0:
        if s[L.SM_BULKS_NEW] > 0:
            leave_with_block(st, sm, number)
        if st.par[P.TMEM] != 0:
            tmem_end(st, sm, w)
        done = max(time, b[L.BLOCK_DRAINED] - 1) + st.par[P.EXIT_LATENCY]
        n = s[L.SM_DONE]
        if exhausted(st, sm, L.POOL_DONE, w, n, st.done.shape[1]):
            return
        st.done[sm, n, 0] = done
        st.done[sm, n, 1] = number
        s[L.SM_DONE] = n + 1
        s[L.SM_BLOCKS] -= 1
        s[L.SM_LAST_EXIT] = max(s[L.SM_LAST_EXIT], done)
        if s[L.SM_BLOCKS] == 0:
            s[L.SM_ACTIVE_CYCLES] += done - s[L.SM_ACTIVE_SINCE]
