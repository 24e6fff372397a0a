"""The warp scheduler of a sub-partition: which warp issues in this cycle, and when the next one may."""

import numpy as np

from gpusim.engine.rows.common import predicate, row_offset
from gpusim.engine.sm.bulk_copy import BULK_LINES
from gpusim.engine.sm.execute import execute
from gpusim.engine.sm.flight import close_copies
from gpusim.engine.sm.halves import (
    BOTH,
    SECOND,
    begin_count,
    count_both,
    count_first,
    end_other_half,
    held,
    look_again,
    may_go_on,
    running_half,
    settle,
    share_time,
)
from gpusim.engine.sm.readiness import block, charge, charge_queue, make_ready, note_ready
from gpusim.engine.sm.space import fail
from gpusim.engine.sm.splits import any_ready
from gpusim.engine.sm.stages import differs_by_lane, queue_room, store_room
from gpusim.engine.state import layout as L
from gpusim.engine.state.bits import lowest_bit, popc
from gpusim.engine.state.jit import compiled, compiled_in_place
from gpusim.engine.state.log import log_costs, log_end, log_issue
from isa import microops as M

POLICIES = {"gto": 0, "gty": 1, "lrr": 2, "oldest": 3, "glrr": 4, "block": 5}
GTY, LRR, OLDEST, GLRR, BLOCK = 1, 2, 3, 4, 5
#: Room that one memory instruction may need in the SM's queues.
ROOM = 96
BULK_ROOM = BULK_LINES + ROOM
#: H200: loops whose first instruction is the last of its line take two cycles more a round.
LAST_IN_LINE_CYCLES = 2
#: Cycles that EXIT takes, as a branch (H200: `branch_resolving` of kernels without branches, 7 to 8 a warp).
EXIT_CYCLES = 7
#: Cycles before its unit is free that an instruction of special functions may issue (H200, POPC of two warps: of the 8
#: cycles that each takes 4.5 are waits before its issue, 3.9 after it).
XU_AHEAD = 3


@compiled
def next_of_oldest_block(ready, turn, last, again, time):
    """The warp that has issued just before (`again`) if it is ready, else of the ready warps one of the oldest block,
    the next in turn.

    H200: blocks of one SM that wait for the same pipe end one after the other, the warps of one block together; of
    warps that could issue in every cycle two share the cycles, as a branch lets the other one in, and a third gets
    none.
    """
    if again and ready[last] <= time:
        return last
    best = np.int64(-1)
    oldest = np.int64(0)
    slot = last
    for _ in range(ready.size - 1):
        slot = slot - 1 if slot > 0 else ready.size - 1
        if ready[slot] <= time and (best < 0 or turn[slot] < oldest):
            best = np.int64(slot)
            oldest = turn[slot]
    if ready[last] <= time and (best < 0 or turn[last] < oldest):
        return last
    return best


@compiled
def choose(st, q, first_warp, parts, time):
    """Slot of the warp to issue by the policy, or -1 if none is ready."""
    ready = st.ready[q]
    last = st.part[q, L.Q_LAST]
    policy = st.par[L.P_POLICY]
    if policy == BLOCK:
        return next_of_oldest_block(ready, st.turn[q], last, st.part[q, L.Q_ISSUED] == time - 1, time)
    if policy not in (LRR, OLDEST) and ready[last] <= time:
        return last
    best = np.int64(-1)
    best_age = np.int64(0)
    slots = ready.size
    if policy in (LRR, GLRR):
        for k in range(1, slots + 1):
            slot = (last + k) % slots
            if ready[slot] <= time:
                return np.int64(slot)
        return best
    for slot in range(slots):
        if ready[slot] <= time:
            age = st.warp[first_warp + slot * parts, L.W_AGE]
            if policy == GTY:
                age = -age
            if best < 0 or age < best_age:
                best = np.int64(slot)
                best_age = age
    return best


@compiled
def no_room(st, sm, room):
    """True if the SM cannot take another memory instruction before replies come or the window ends."""
    s = st.sm[sm]
    halves = 2 if st.par[L.P_OTHER_HALF] != 0 else 1
    return (
        s[L.S_TOKEN_FREE] < 0
        or (halves == 2 and st.token[sm, s[L.S_TOKEN_FREE], L.T_NEXT] < 0)
        or s[L.S_IN_FLIGHT] + room > st.heap.shape[1]
        or s[L.S_DEFERRED] + 2 * halves > st.deferred.shape[1]
        or st.requests[sm] + room > st.request.shape[1]
    )


@compiled
def too_many_loads(st, sm):
    """True if the SM waits for as many sectors as it may."""
    return st.sm[sm, L.S_OUTSTANDING] >= st.par[L.P_MAX_OUTSTANDING]


@compiled
def sleep_cycles(st, w, i, active):
    """NANOSLEEP: nanoseconds from the first active lane, a millisecond at most (PTX manual), in cycles."""
    wb = 32 * (st.par[L.P_CONST_ROWS] + w * st.par[L.P_ROWS_PER_WARP])
    nanoseconds = np.int64(st.regs[row_offset(st.code[i, M.COL_A], wb) + lowest_bit(active)])
    return min(nanoseconds, 1_000_000) * st.par[L.P_CLOCK_MHZ] // 1000


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
    late = LAST_IN_LINE_CYCLES if target & last == last else 0
    return st.par[L.P_BRANCH_LATENCY] + late


@compiled
def unit_interval(st, i, unit):
    """Cycles from the issue of an instruction until its unit takes the next one."""
    op = st.code[i, M.COL_OP]
    if unit == M.UNIT_FMAHEAVY and M.OP_IMAD_WIDE_U <= op <= M.OP_IMAD_HI_S:
        return st.par[L.P_WIDE_INTERVAL]
    return st.par[L.P_UNIT_INTERVAL + unit]


@compiled_in_place
def next_issue(st, w, i, active, mask, time):
    """When the warp, or half of one, that has executed instruction i at `time` may issue the next one at the earliest.

    Returns (cycle until which it waits for a fixed time, cycle from which it may issue, what it waits for between).
    """
    op = st.code[i, M.COL_OP]
    earliest = time + max(np.int64(st.code[i, M.COL_STALL]), 1)
    pc = st.warp[w, L.W_PC]
    if pc != i + 1 or op == M.OP_BSYNC:
        taken = time + branch_latency(st, i, pc)
        if st.warp[w, L.W_TOOK_OLD] != 0:
            st.warp[w, L.W_TOOK_OLD] = 0
            taken += st.par[L.P_OLD_GROUP]
        return earliest, max(taken, earliest), L.R_BRANCH
    if op == M.OP_MEMBAR:
        wide = st.code[i, M.COL_AUX0] >= M.SCOPE_GPU
        fence = st.par[L.P_MEMBAR_LATENCY] if wide else st.par[L.P_MEMBAR_CTA_LATENCY]
        return np.int64(0), max(earliest, time + fence), L.R_MEMBAR
    if op == M.OP_NANOSLEEP and mask != 0:
        return np.int64(0), max(earliest, time + sleep_cycles(st, w, i, active)), L.R_SLEEPING
    return earliest, earliest, L.R_WAIT


@compiled
def half_executed(st, sm, q, slot, w, i, active, mask, runs, time):
    """A half of a warp of 64 has executed instruction i at `time`: notes when it may go on, and whether it can."""
    may_go_on(st, w, 0, time + max(np.int64(st.code[i, M.COL_STALL]), 1), L.R_WAIT)
    if st.warp[w, L.W_ALIVE] == 0:
        return
    if runs:
        fixed, until, reason = next_issue(st, w, i, active, mask, time)
        may_go_on(st, w, fixed, until, reason)
    elif st.warp[w, L.W_STATE] == L.RUNNING:
        stays(st, sm, q, slot, w, i)


@compiled
def stays(st, sm, q, slot, w, i):
    """No lane can go on after instruction i: they wait at a barrier, or for each other."""
    if st.split[w, L.D_COUNT] > 0 and not any_ready(st.split, w):
        block(st, w, q, slot, L.WAIT_BARRIER, L.R_BARRIER)
    else:
        fail(st, sm, L.E_DEADLOCK, i, w, 0, 0, 0)


@compiled_in_place
def issue(st, sm, q, slot, w, time):
    """Issues the warp's next instruction; of a warp of 64, for the halves that have its slot, one after the other."""
    code = st.code
    other = st.par[L.P_OTHER_HALF]
    row, last = w, w
    if other != 0:
        row = running_half(st, w)
        last = w + other if st.warp[w, L.W_SIDE] & SECOND != 0 else w
    i = st.warp[row, L.W_PC]
    unit = code[i, M.COL_UNIT]
    charge_queue(st, sm, q, row, unit, time)
    line = st.line[st.sm[sm, L.S_CHUNK], i]
    line[L.N_EXECUTED] += 1
    line[L.N_STALL + L.R_SELECTED] += 1
    st.warp[w, L.W_SINCE] = time + 1
    st.sm[sm, L.S_ISSUED] += 1
    interval = unit_interval(st, i, unit)
    if other != 0:
        st.warp[w + other, L.W_SINCE] = time + 1
    if row != last:
        begin_count(st, sm, i)
        if unit != M.UNIT_UNIFORM and unit != M.UNIT_CBU and unit != M.UNIT_ADU:
            interval *= 2
    st.part[q, L.Q_UNIT_FREE + unit] = max(time, st.part[q, L.Q_UNIT_FREE + unit]) + interval
    if unit != M.UNIT_XU:
        st.part[q, L.Q_BUSY + unit] += interval - 1
    st.part[q, L.Q_LAST] = slot
    st.part[q, L.Q_ISSUED] = time

    alive = np.int64(0)
    while True:
        active = np.uint32(st.warp[row, L.W_ACTIVE])
        guard = st.preds[16 * row + code[i, M.COL_GUARD]]
        if code[i, M.COL_GUARD_NEG] != 0:
            guard = ~guard
        mask = active & guard
        line[L.N_THREADS] += popc(active)
        executed = mask
        if code[i, M.COL_CLASS] == M.CLS_CONTROL:
            # The profiler counts a second predicate as well (H200: `@!P1 BRA P0`, `@P0 BREAK P1, B2`).
            executed &= np.uint32(predicate(code, i, M.COL_PS0, st.preds, 16 * row))
        line[L.N_PRED_ON] += popc(executed)
        if st.sm[sm, L.S_LOG] != 0:
            log_issue(st, sm, q, slot, row, i, active, executed, time)
        runs = execute(st, sm, q, slot, row, i, mask, time)
        if st.sm[sm, L.S_LOG_ROW] != 0:
            log_costs(st, sm, i)
        if other == 0:
            alive = st.warp[w, L.W_ALIVE]
            break
        half_executed(st, sm, q, slot, row, i, active, mask, runs, time)
        share_time(st, w)
        if row == last:
            alive = st.warp[w, L.W_ALIVE] | st.warp[w + other, L.W_ALIVE]
            if st.warp[w, L.W_SIDE] == BOTH:
                count_both(st, sm, w, i)
            break
        count_first(st, sm, i)
        row = last

    if alive == 0:
        charge(st, sm, w, L.R_BRANCH, time + 1 + EXIT_CYCLES)
        if held(st, w) > 0:
            block(st, w, q, slot, L.WAIT_DRAIN, L.R_DRAIN)
        else:
            finish_warp(st, sm, q, slot, w, time)
        return
    if other != 0:
        settle(st, sm, q, slot, w, i, time)
        return
    if not runs:
        if st.warp[w, L.W_STATE] == L.RUNNING:
            stays(st, sm, q, slot, w, i)
        return
    fixed, until, reason = next_issue(st, w, i, active, mask, time)
    if reason != L.R_WAIT:
        charge(st, sm, w, L.R_WAIT, fixed)
        charge(st, sm, w, reason, until)
    make_ready(st, sm, q, slot, w, time, max(until, st.warp[w, L.W_SINCE]))


@compiled
def finish_warp(st, sm, q, slot, w, time):
    """The last lane of a warp has exited; with the last warp, the block is done."""
    st.warp[w, L.W_STATE] = L.FREE
    st.warp[w, L.W_AGE] = -1
    if st.par[L.P_OTHER_HALF] != 0:
        end_other_half(st, sm, w, time)
    if st.warp[w, L.W_COPIES] != 0:
        close_copies(st, sm, w, time, 7)
    st.ready[q, slot] = L.NEVER
    st.part[q, L.Q_WARPS] -= 1
    s = st.sm[sm]
    s[L.S_WARPS] -= 1
    drained = max(st.warp[w, L.W_SINCE], st.warp[w, L.W_DRAINED])
    charge(st, sm, w, L.R_DRAIN, drained)
    s[L.S_WARP_CYCLES] += drained - st.warp[w, L.W_START]
    if s[L.S_LOG] != 0:
        log_end(st, sm, w, drained)
    number = st.warp[w, L.W_BLOCK]
    st.warp[w, L.W_BLOCK] = -1
    b = st.block[sm, number]
    b[L.B_WARPS_LEFT] -= 1
    b[L.B_DRAINED] = max(b[L.B_DRAINED], drained)
    if b[L.B_WARPS_LEFT] == 0:
        done = max(time, b[L.B_DRAINED] - 1) + st.par[L.P_EXIT_LATENCY]
        n = s[L.S_DONE]
        st.done[sm, n, 0] = done
        st.done[sm, n, 1] = number
        s[L.S_DONE] = n + 1
        s[L.S_BLOCKS] -= 1
        s[L.S_LAST_EXIT] = max(s[L.S_LAST_EXIT], done)
        if s[L.S_BLOCKS] == 0:
            s[L.S_ACTIVE_CYCLES] += done - s[L.S_ACTIVE_SINCE]


@compiled
def read_registers(part, reads, time):
    """Books the register reads of an instruction that issues at `time`; returns when the next one may issue.

    Each of the two banks delivers one register a cycle. An instruction waits one cycle at most in front of them, so
    what one reads from one bank and the next from the other overlaps (H200: FFMAs with two sources in one bank take two
    cycles each, if they take turns between the banks one and a half).
    """
    even = max(part[L.Q_EVEN_FREE], time) + (reads & 15)
    odd = max(part[L.Q_ODD_FREE], time) + (reads >> 4)
    part[L.Q_EVEN_FREE] = even
    part[L.Q_ODD_FREE] = odd
    return max(time + 1, even - 1, odd - 1)


@compiled_in_place
def step(st, sm, q, time):
    """One cycle of a sub-partition: issues at most one instruction and sets Q_NEXT."""
    par = st.par
    parts = par[L.P_SUB_PARTITIONS]
    slots = par[L.P_WARP_SLOTS]
    first_warp = sm * parts * slots + q % parts
    part = st.part[q]
    ready = st.ready[q]
    part[L.Q_NEXT] = L.NEVER
    behind = time + 1
    while True:
        slot = choose(st, q, first_warp, parts, time)
        if slot < 0:
            break
        first = first_warp + slot * parts
        if st.warp[first, L.W_LINE] < 0:  # its first instruction has still to be fetched
            look_again(st, sm, first, time)
            continue
        w = first
        both = 0
        if par[L.P_OTHER_HALF] != 0:
            w = running_half(st, first)
            both = 1 if st.warp[first, L.W_SIDE] == BOTH else 0
        i = st.warp[w, L.W_PC]
        unit = st.code[i, M.COL_UNIT]
        free = part[L.Q_UNIT_FREE + unit]
        reason = L.R_MATH
        if unit == M.UNIT_LSU or unit == M.UNIT_ADU:
            op = st.code[i, M.COL_OP]
            reason = L.R_MIO
            stores = False
            beyond = False
            if st.code[i, M.COL_CLASS] != M.CLS_MEMORY:
                special = st.code[i, M.COL_CLASS] == M.CLS_SPECIAL
                if unit == M.UNIT_LSU or (special and differs_by_lane(st.code, i)):
                    free = max(free, queue_room(part, max(par[L.P_QUEUE_DEPTH] - both, 1)))
                elif special or st.code[i, M.COL_CONST] >= 0:
                    free = max(free, part[L.Q_ADDRESS])
            elif op == M.OP_LDC:
                free = max(free, part[L.Q_ADDRESS])
            else:
                beyond = st.code[i, M.COL_AUX0] != M.SPACE_SHARED
                # A queue that shared memory fills is the one of all of them.
                if beyond and part[L.Q_BEYOND] != 0:
                    reason = L.R_LG
                stores = op == M.OP_STORE or op == M.OP_RED
                free = max(free, queue_room(part, max(par[L.P_QUEUE_DEPTH] - both, 1)))
                if op == M.OP_STORE:
                    free = max(free, store_room(part, max(par[L.P_STORE_QUEUE_DEPTH] - both, 1)))
            if free <= time and st.code[i, M.COL_CLASS] == M.CLS_MEMORY:
                room = BULK_ROOM if op == M.OP_BULK_COPY else ROOM
                if no_room(st, sm, room << both) or (not stores and beyond and too_many_loads(st, sm)):
                    free = L.NEVER  # an H200 issues a load all the same: the warp waits for what it reads
                    reason = L.R_LONG if beyond else L.R_MIO
                else:
                    part[L.Q_BEYOND] = 1 if beyond else 0
            if free == L.NEVER:  # until others that wait for the way beyond the SM have gone on
                charge_queue(st, sm, q, w, unit, time)
                block(st, w, q, slot, L.WAIT_THROTTLE, reason)
                st.sm[sm, L.S_THROTTLED] = 1
                continue
        elif unit == M.UNIT_XU:
            reason = L.R_MIO
            free -= XU_AHEAD
        if free > time:
            charge_queue(st, sm, q, w, unit, time)
            charge(st, sm, w, reason, free)
            note_ready(st, q, w, unit, free)
            ready[slot] = free
            continue
        behind = read_registers(part, np.int64(st.code[i, M.COL_READS]), time)
        part[L.Q_DISPATCH] += behind - time - 1
        issue(st, sm, q, slot, first, time)
        break
    earliest = L.NEVER
    for slot in range(slots):
        earliest = min(earliest, ready[slot])
    part[L.Q_NEXT] = max(earliest, behind)
