"""A warp and its next instruction, whoever decides when it runs: the scheduler, or `functional` without time."""

import numpy as np

from gpusim.engine.rows.common import predicate
from gpusim.engine.sm.bulk_effect import leave_with_block
from gpusim.engine.sm.execute import execute
from gpusim.engine.sm.flight import close_bulk, close_copies
from gpusim.engine.sm.lane_states import can_run
from gpusim.engine.sm.log_operands import log_operands
from gpusim.engine.sm.readiness import block, charge
from gpusim.engine.sm.recording import begin, note, take
from gpusim.engine.sm.shadow_clocks import CHECK_RACE
from gpusim.engine.sm.shadow_copies import all_waited_for
from gpusim.engine.sm.space import exhausted, fail
from gpusim.engine.sm.stages import take_turn
from gpusim.engine.sm.toggles import is_looked_at, look, looked_lane, looked_row
from gpusim.engine.state import L, P, compiled, parts
from gpusim.engine.state.bits import popc
from gpusim.engine.state.log import AS_TRACER, STOPS, log_costs, log_end, log_issue
from isa import microops as M


@compiled
def clear_lanes(st, sm, w):
    """A warp comes up for the first time: registers are zero, predicates false, all lanes go together.

    Here and not where its block starts, so that host threads share the work.
    """
    if st.par[P.MODE] & L.RECORDS != 0 or st.par[P.MODE] & L.COMPUTES == 0:
        begin(st, sm, w)
    if st.par[P.MODE] & L.COMPUTES != 0:
        rows = st.par[P.ROWS_PER_WARP]
        first = 32 * (st.par[P.CONST_ROWS] + w * rows)
        st.regs[first : first + 32 * rows] = 0
        st.warp[w, L.W_LOOKED_AT] = is_looked_at(st, sm, w)
    st.preds[16 * w : 16 * w + 16] = 0
    st.preds[16 * w + 7] = 0xFFFFFFFF
    st.preds[16 * w + 15] = 0xFFFFFFFF


@compiled
def stops(st, sm, w, i):
    """Stops the run if instruction i of this warp is the one that it was to run to."""
    par, number = st.par, st.block[sm, st.warp[w, L.W_BLOCK], L.B_NUMBER]
    if i != par[P.STOP_PC] or (par[P.STOP_BLOCK] >= 0 and number != par[P.STOP_BLOCK]):
        return False
    if par[P.STOP_WARP] >= 0 and st.warp[w, L.W_INDEX] != par[P.STOP_WARP]:
        return False
    st.warp[w, L.W_STATE] = L.STOPPED
    fail(st, sm, L.E_STOPPED, i, w, 0, 0, 0)
    return True


@compiled
def run_instruction(st, sm, q, slot, w, i, time):
    """Counts and executes instruction i of a warp. Returns (active lanes, lanes that it runs for, whether the warp can
    go on)."""
    code = st.code
    active = np.uint32(st.warp[w, L.W_ACTIVE])
    computes = st.par[P.MODE] & L.COMPUTES != 0
    mask = active
    if code[i, M.COL_GUARD] != 7 or code[i, M.COL_GUARD_NEG] != 0:
        if not computes:
            mask = np.uint32(take(st, w))
        else:
            guard = st.preds[16 * w + code[i, M.COL_GUARD]]
            mask = active & (~guard if code[i, M.COL_GUARD_NEG] != 0 else guard)
            note(st, sm, w, np.int64(mask))
    guarded = mask
    if code[i, M.COL_CLASS] == M.CLS_CONTROL:
        # The profiler counts a second predicate as well (H200: `@!P1 BRA P0`, `@P0 BREAK P1, B2`).
        if not computes and code[i, M.COL_PS0] != 7:
            mask = np.uint32(take(st, w))
        else:
            mask &= np.uint32(predicate(code, i, M.COL_PS0, st.preds, 16 * w))
            if code[i, M.COL_PS0] != 7:
                note(st, sm, w, np.int64(mask))
    counts = st.counters[st.sm[sm, L.S_CHUNK], i]
    counts[L.N_EXECUTED] += 1
    counts[L.N_THREADS] += popc(active)
    counts[L.N_PRED_ON] += popc(mask)
    st.warp[w, L.W_SINCE] = time + 1
    st.sm[sm, L.S_ISSUED] += 1
    if st.sm[sm, L.S_LOG] != 0:
        if st.sm[sm, L.S_LOG] == STOPS and stops(st, sm, w, i):
            return active, mask, False
        log_issue(st, sm, q, slot, w, i, active, guarded, mask, time)
        if st.sm[sm, L.S_LOG] & AS_TRACER and st.sm[sm, L.S_LOG_ROW] != 0:
            log_operands(st, sm, w, i)
    parts.mark(st, sm, parts.EXECUTORS)
    row = np.int64(-1)
    if st.warp[w, L.W_LOOKED_AT] != 0 and mask != 0:
        row = looked_row(code, i, 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP]))
    lane = looked_lane(mask)
    old = st.regs[row + lane] if row >= 0 else np.uint32(0)
    runs = execute(st, sm, q, slot, w, i, mask, time)
    if row >= 0:
        look(st, i, w, row, lane, mask, counts, old)
    if st.sm[sm, L.S_LOG_ROW] != 0:
        log_costs(st, sm, i)
    if code[i, M.COL_CLASS] == M.CLS_CONTROL and st.split[w, L.D_FULL] != 0:
        exhausted(st, sm, L.POOL_SPLITS, w, L.WARP_LANES)
    return active, mask, runs


@compiled
def stays(st, sm, q, slot, w, i):
    """No lane can go on after instruction i: they wait at a barrier, or for each other."""
    if can_run(st.warp, st.split, w) == 0:
        block(st, w, q, slot, L.WAIT_BARRIER, L.R_BARRIER)
    else:
        fail(st, sm, L.E_DEADLOCK, i, w, 0, 0, 0)


@compiled
def finish_warp(st, sm, q, slot, w, time):
    """The last lane of a warp has exited; with the last warp, the block is done."""
    st.warp[w, L.W_STATE] = L.FREE
    st.warp[w, L.W_AGE] = -1
    if st.warp[w, L.W_COPIES] != 0:
        close_copies(st, sm, w, time, 7)
    if st.warp[w, L.W_BULK] != 0:
        close_bulk(st, sm, w, time, 7)
    st.ready[q, slot] = L.NEVER
    take_turn(st, st.smsp[q], w, True)
    st.smsp[q, L.Q_WARPS] -= 1
    s = st.sm[sm]
    s[L.S_WARPS] -= 1
    drained = max(st.warp[w, L.W_SINCE], st.warp[w, L.W_DRAINED])
    charge(st, sm, w, L.R_DRAIN, drained)
    s[L.S_WARP_CYCLES] += drained - st.warp[w, L.W_START]
    if s[L.S_LOG] != 0:
        log_end(st, sm, w, drained)
    number = st.warp[w, L.W_BLOCK]
    b = st.block[sm, number]
    if st.par[P.CHECKS] & CHECK_RACE and b[L.B_WARPS_LEFT] == 1 and not all_waited_for(st, sm, w):
        return
    st.warp[w, L.W_BLOCK] = -1
    b[L.B_WARPS_LEFT] -= 1
    b[L.B_DRAINED] = max(b[L.B_DRAINED], drained)
    if b[L.B_WARPS_LEFT] == 0:
        if s[L.S_BULKS_NEW] > 0:
            leave_with_block(st, sm, number)
        done = max(time, b[L.B_DRAINED] - 1) + st.par[P.EXIT_LATENCY]
        n = s[L.S_DONE]
        if n >= st.done.shape[1]:
            exhausted(st, sm, L.POOL_DONE, w, st.done.shape[1])
            return
        st.done[sm, n, 0] = done
        st.done[sm, n, 1] = number
        s[L.S_DONE] = n + 1
        s[L.S_BLOCKS] -= 1
        s[L.S_LAST_EXIT] = max(s[L.S_LAST_EXIT], done)
        if s[L.S_BLOCKS] == 0:
            s[L.S_ACTIVE_CYCLES] += done - s[L.S_ACTIVE_SINCE]
