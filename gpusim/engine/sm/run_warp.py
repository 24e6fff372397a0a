"""A warp and its next instruction, whoever decides when it runs: the scheduler, or `functional` without time."""

import numpy as np

from gpusim.engine.rows.common import predicate
from gpusim.engine.sm.execute import execute
from gpusim.engine.sm.lane_states import can_run
from gpusim.engine.sm.log_operands import log_operands
from gpusim.engine.sm.readiness import block
from gpusim.engine.sm.recording import begin, put, take
from gpusim.engine.sm.space import exhausted, fail
from gpusim.engine.sm.toggles import is_looked_at, look, looked_lane, looked_row
from gpusim.engine.state import layout as L
from gpusim.engine.state import parts
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.log import AS_TRACER, STOPS, log_costs, log_issue
from isa import microops as M


@compiled
def clear_lanes(st, sm, w):
    """A warp comes up for the first time: registers are zero, predicates false, all lanes go together.

    Here and not where its block starts, so that host threads share the work.
    """
    if st.par[L.P_MODE] == L.RECORDS or st.par[L.P_MODE] == L.REPLAYS:
        begin(st, sm, w)
    if st.par[L.P_MODE] != L.REPLAYS:
        rows = st.par[L.P_ROWS_PER_WARP]
        first = 32 * (st.par[L.P_CONST_ROWS] + w * rows)
        st.regs[first : first + 32 * rows] = 0
        st.warp[w, L.W_LOOKED_AT] = is_looked_at(st, sm, w)
    st.preds[16 * w : 16 * w + 16] = 0
    st.preds[16 * w + 7] = 0xFFFFFFFF
    st.preds[16 * w + 15] = 0xFFFFFFFF


@compiled
def stops(st, sm, w, i):
    """Stops the run if instruction i of this warp is the one that it was to run to."""
    par, number = st.par, st.block[sm, st.warp[w, L.W_BLOCK], L.B_NUMBER]
    if i != par[L.P_STOP_PC] or (par[L.P_STOP_BLOCK] >= 0 and number != par[L.P_STOP_BLOCK]):
        return False
    if par[L.P_STOP_WARP] >= 0 and st.warp[w, L.W_INDEX] != par[L.P_STOP_WARP]:
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
    mode = st.par[L.P_MODE]
    mask = active
    if code[i, M.COL_GUARD] != 7 or code[i, M.COL_GUARD_NEG] != 0:
        if mode == L.REPLAYS:
            mask = np.uint32(take(st, w))
        else:
            guard = st.preds[16 * w + code[i, M.COL_GUARD]]
            mask = active & (~guard if code[i, M.COL_GUARD_NEG] != 0 else guard)
            if mode == L.RECORDS:
                put(st, sm, w, np.int64(mask))
    guarded = mask
    if code[i, M.COL_CLASS] == M.CLS_CONTROL:
        # The profiler counts a second predicate as well (H200: `@!P1 BRA P0`, `@P0 BREAK P1, B2`).
        if mode == L.REPLAYS and code[i, M.COL_PS0] != 7:
            mask = np.uint32(take(st, w))
        else:
            mask &= np.uint32(predicate(code, i, M.COL_PS0, st.preds, 16 * w))
            if mode == L.RECORDS and code[i, M.COL_PS0] != 7:
                put(st, sm, w, np.int64(mask))
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
        row = looked_row(code, i, 32 * (st.par[L.P_CONST_ROWS] + w * st.par[L.P_ROWS_PER_WARP]))
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
