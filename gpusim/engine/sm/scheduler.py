"""The warp scheduler of a sub-partition: each cycle it chooses a warp (`policies`), asks whether its unit takes the
instruction (`admission`), issues it, and works out when the warp comes up again (`issue_time`)."""

import numpy as np

from gpusim.engine.rows.common import predicate
from gpusim.engine.sm.admission import admit
from gpusim.engine.sm.execute import execute
from gpusim.engine.sm.issue_time import next_issue, unit_interval
from gpusim.engine.sm.policies import choose
from gpusim.engine.sm.readiness import block, charge, charge_queue, look_again, make_ready, note_ready
from gpusim.engine.sm.space import exhausted, fail
from gpusim.engine.sm.splits import any_ready
from gpusim.engine.sm.warp_end import finish_warp
from gpusim.engine.state import layout as L
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.log import log_costs, log_issue
from isa import microops as M


@compiled
def stays(st, sm, q, slot, w, i):
    """No lane can go on after instruction i: they wait at a barrier, or for each other."""
    if st.split[w, L.D_COUNT] > 0 and not any_ready(st.split, w):
        block(st, w, q, slot, L.WAIT_BARRIER, L.R_BARRIER)
    else:
        fail(st, sm, L.E_DEADLOCK, i, w, 0, 0, 0)


@compiled
def book_issue(st, sm, q, slot, w, i, time):
    """Counts the issue of instruction i and books its unit."""
    unit = st.code[i, M.COL_UNIT]
    charge_queue(st, sm, q, w, unit, time)
    counts = st.counters[st.sm[sm, L.S_CHUNK], i]
    counts[L.N_EXECUTED] += 1
    counts[L.N_STALL + L.R_SELECTED] += 1
    st.warp[w, L.W_SINCE] = time + 1
    st.sm[sm, L.S_ISSUED] += 1
    interval = unit_interval(st, i, unit)
    smsp = st.smsp[q]
    smsp[L.Q_UNIT_FREE + unit] = max(time, smsp[L.Q_UNIT_FREE + unit]) + interval
    if unit != M.UNIT_XU:
        smsp[L.Q_BUSY + unit] += interval - 1
    smsp[L.Q_LAST] = slot
    smsp[L.Q_ISSUED] = time


@compiled
def issue(st, sm, q, slot, w, time):
    """Issues the warp's next instruction."""
    code = st.code
    i = st.warp[w, L.W_PC]
    book_issue(st, sm, q, slot, w, i, time)
    active = np.uint32(st.warp[w, L.W_ACTIVE])
    guard = st.preds[16 * w + code[i, M.COL_GUARD]]
    if code[i, M.COL_GUARD_NEG] != 0:
        guard = ~guard
    mask = active & guard
    executed = mask
    if code[i, M.COL_CLASS] == M.CLS_CONTROL:
        # The profiler counts a second predicate as well (H200: `@!P1 BRA P0`, `@P0 BREAK P1, B2`).
        executed &= np.uint32(predicate(code, i, M.COL_PS0, st.preds, 16 * w))
    counts = st.counters[st.sm[sm, L.S_CHUNK], i]
    counts[L.N_THREADS] += popc(active)
    counts[L.N_PRED_ON] += popc(executed)
    if st.sm[sm, L.S_LOG] != 0:
        log_issue(st, sm, q, slot, w, i, active, executed, time)
    runs = execute(st, sm, q, slot, w, i, mask, time)
    if st.sm[sm, L.S_LOG_ROW] != 0:
        log_costs(st, sm, i)
    if code[i, M.COL_CLASS] == M.CLS_CONTROL and st.split[w, L.D_FULL] != 0:
        exhausted(st, sm, L.POOL_SPLITS, w, L.MOST_SPLITS)
    if st.warp[w, L.W_ALIVE] == 0:
        charge(st, sm, w, L.R_BRANCH, time + 1 + st.par[L.P_EXIT_CYCLES])
        if st.warp[w, L.W_QUEUED] > 0:
            block(st, w, q, slot, L.WAIT_DRAIN, L.R_DRAIN)
        else:
            finish_warp(st, sm, q, slot, w, time)
    elif runs:
        fixed, until, reason = next_issue(st, w, i, active, mask, time)
        if reason != L.R_WAIT:
            charge(st, sm, w, L.R_WAIT, fixed)
            charge(st, sm, w, reason, until)
        make_ready(st, sm, q, slot, w, time, max(until, st.warp[w, L.W_SINCE]))
    elif st.warp[w, L.W_STATE] == L.RUNNING:
        stays(st, sm, q, slot, w, i)


@compiled
def read_registers(smsp, reads, time):
    """Books the register reads of an instruction that issues at `time`; returns when the next one may issue.

    Each of the two banks delivers one register a cycle. An instruction waits one cycle at most in front of them, so
    what one reads from one bank and the next from the other overlaps (H200: FFMAs with two sources in one bank take two
    cycles each, if they take turns between the banks one and a half).
    """
    even = max(smsp[L.Q_EVEN_FREE], time) + (reads & 15)
    odd = max(smsp[L.Q_ODD_FREE], time) + (reads >> 4)
    smsp[L.Q_EVEN_FREE] = even
    smsp[L.Q_ODD_FREE] = odd
    return max(time + 1, even - 1, odd - 1)


@compiled
def clear_lanes(st, w):
    """A warp comes up for the first time: registers are zero, predicates false, all lanes go together.

    Here and not where its block starts, so that host threads share the work.
    """
    rows = st.par[L.P_ROWS_PER_WARP]
    first = 32 * (st.par[L.P_CONST_ROWS] + w * rows)
    st.regs[first : first + 32 * rows] = 0
    st.preds[16 * w : 16 * w + 16] = 0
    st.preds[16 * w + 7] = 0xFFFFFFFF
    st.preds[16 * w + 15] = 0xFFFFFFFF
    st.split[w, :] = 0


@compiled
def step(st, sm, q, time):
    """One cycle of a sub-partition: issues at most one instruction and sets Q_NEXT."""
    smsps = st.par[L.P_SUB_PARTITIONS]
    slots = st.par[L.P_WARP_SLOTS]
    first = sm * smsps * slots + q % smsps
    ages = st.warp[first : first + slots * smsps : smsps, L.W_AGE]
    smsp = st.smsp[q]
    ready = st.ready[q]
    smsp[L.Q_NEXT] = L.NEVER
    behind = time + 1
    while True:
        slot, several = choose(st, q, ages, time)
        if slot < 0:
            break
        w = first + slot * smsps
        if st.warp[w, L.W_FETCHED] < 0:  # its first instruction has still to be fetched
            clear_lanes(st, w)
            look_again(st, sm, w, time)
            continue
        i = st.warp[w, L.W_PC]
        free, reason = admit(st, sm, q, w, i, time)
        if free <= time:
            behind = read_registers(smsp, np.int64(st.code[i, M.COL_READS]), time)
            smsp[L.Q_DISPATCH] += behind - time - 1
            issue(st, sm, q, slot, w, time)
            break
        unit = st.code[i, M.COL_UNIT]
        charge_queue(st, sm, q, w, unit, time)
        if free == L.NEVER:  # until others that wait for the way beyond the SM have gone on
            block(st, w, q, slot, L.WAIT_THROTTLE, reason)
            st.sm[sm, L.S_THROTTLED] = 1
        else:
            charge(st, sm, w, reason, free)
            note_ready(st, q, w, unit, free)
            ready[slot] = free
    earliest = time if several else L.NEVER
    if not several:
        for slot in range(slots):
            earliest = min(earliest, ready[slot])
    smsp[L.Q_NEXT] = max(earliest, behind)
