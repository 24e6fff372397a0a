"""Readiness of warps: when one may issue next, and the stall reason that each cycle until then is charged to.

`make_ready` walks through everything that can hold the next instruction back: supply, scoreboards, constants. Every
cycle of a resident warp is charged to exactly one reason, so that stalls and issues add up to warp cycles.
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.frontend import fetch
from gpusim.engine.state import L, P, compiled, of_warp, prefetch
from gpusim.engine.state.log import log_stall
from isa import microops as M

CONSTANT_SECOND = -2  # of a line in State.constant: only the second level has it
#: Of one that can be read: the cycle from which it is there, and in these low bits the sub-partition that has it first.
CONSTANT_BITS, CONSTANT_FIRST = 3, 7
CONSTANT_BANK_BITS = 16


@compiled
def charge(st, sm, w, reason, until):
    """Charges the warp's time up to `until` to `reason`, at its next instruction."""
    since = st.warp[w, L.WARP_SINCE]
    if until > since:
        pc = st.warp[w, L.WARP_PC]
        st.counters[st.sm[sm, L.SM_CHUNK], pc, L.COUNT_STALL + reason] += until - since
        st.warp[w, L.WARP_SINCE] = until
        if st.sm[sm, L.SM_LOG] != 0:
            log_stall(st, sm, w, reason, since, until)


@compiled
def constant_line(st, operand):
    """Index of the constant line that `bank << CONSTANT_BANK_BITS | offset` lies in."""
    return st.par[P.CONSTANT_LINE] + (operand >> st.par[P.CONST_SHIFT])


@compiled
def keep_constant(st, sm, line):
    """Takes a line that the first level does not hold into both levels, each in place of the one it has had longest.

    The first levels of all sub-partitions hold the same: what one fetches, the SM brings to all.
    """
    par, s, order, constant = st.par, st.sm[sm], st.constant_order[sm], st.constant[sm]
    if constant[line] == L.CONSTANT_NOWHERE:
        taken = s[L.SM_CONST_SECOND]
        place = par[P.CONST_FIRST] + taken % par[P.CONST_SECOND]
        if taken >= par[P.CONST_SECOND]:
            constant[order[place]] = L.CONSTANT_NOWHERE
        order[place] = line
        s[L.SM_CONST_SECOND] = taken + 1
    taken = s[L.SM_CONST_FIRST]
    place = taken % par[P.CONST_FIRST]
    if taken >= par[P.CONST_FIRST] and constant[order[place]] != L.CONSTANT_NOWHERE:
        constant[order[place]] = CONSTANT_SECOND
    order[place] = line
    s[L.SM_CONST_FIRST] = taken + 1


@compiled
def constants_free(st, sm, now, before):
    """Cycle from which an SM's request for a line of constants is served: behind its last ones; the first one behind
    SMs of its GPC that come before it, and `before` turns of all of them."""
    asked, first = st.sm[sm, L.SM_CONST_ASKED], now + st.sm[sm, L.SM_CONST_WAIT] + before * st.sm[sm, L.SM_CONST_TURN]
    return max(now, asked) if asked > 0 else first


@compiled
def constant_ready(st, sm, q, operand, now):
    """Cycle from which sub-partition q can read a constant operand: it has its line, or gets it after a fixed time.

    As with instructions, a launch brings its constants near: a cold miss takes less time than L2. The SMs of a GPC ask
    for their first line at the same time, and get it in turn. Each sub-partition asks for itself, a turn of all SMs
    behind the one before it (H200, first waves: 330, 370, 405 and 435 cycles; of one SM, all 230).
    """
    line = constant_line(st, operand)
    there = st.constant[sm, line]
    turn, smsps = st.sm[sm, L.SM_CONST_TURN], st.par[P.SUB_PARTITIONS]
    if there < 0:
        start = now
        if there == L.CONSTANT_NOWHERE:
            start = constants_free(st, sm, now, np.int64(0))
            st.sm[sm, L.SM_CONST_ASKED] = start + min(st.sm[sm, L.SM_WARPS], smsps) * turn
        keep_constant(st, sm, line)
        there = (start + st.par[P.CONST_MISS]) << CONSTANT_BITS | q % smsps
        st.constant[sm, line] = there
    ready = there >> CONSTANT_BITS
    if now < ready + (smsps - 1) * turn:
        ready += (q - (there & CONSTANT_FIRST)) % smsps * turn
    return ready


@compiled
def loaded_constant(st, sm, q, operand, now):
    """Cycle from which a constant can be loaded (LDC), which an SM does out of a cache beside those of operands.

    The first load of a launch asks when the sub-partitions do for their operands, and comes last (H200: 41st and later
    warps of an SM, which wait for it, go on 270 to 280 cycles behind the first; where one SM asks, no later than 140).
    """
    if operand >> CONSTANT_BANK_BITS != 0:
        return constant_ready(st, sm, q, operand, now)
    line = constant_line(st, operand)
    if st.loaded[sm, line] < 0:
        start = constants_free(st, sm, now, min(st.sm[sm, L.SM_WARPS], st.par[P.SUB_PARTITIONS]))
        st.loaded[sm, line] = start + st.par[P.CONST_MISS]
    return st.loaded[sm, line]


@compiled
def block(st, w, q, slot, state, reason):
    """The warp waits for something whose time is unknown."""
    st.warp[w, L.WARP_STATE] = state
    st.warp[w, L.WARP_REASON] = reason
    st.ready[q, slot] = L.NEVER


@compiled
def note_ready(st, q, w, unit, now):
    """The warp could issue from now on, or from a time that is known now."""
    st.warp[w, L.WARP_READY_AT] = now
    st.warp[w, L.WARP_DISPATCH] = st.smsp[q, L.SMSP_DISPATCH]
    st.warp[w, L.WARP_BUSY] = st.smsp[q, L.SMSP_BUSY + unit]


@compiled
def counts_on(st, sm, q, w, ready, time):
    """Returns the cycle until which a warp waits whose stall count alone is over at `ready`. The count stands still
    while the dispatcher holds back an instruction (H200: of six warps that issue FADDs with two registers of one bank
    and stall counts of 4, each waits 5.8 cycles for that, not 3)."""
    if st.warp[w, L.WARP_REASON] != L.STALL_WAIT:
        return time
    until = ready + st.smsp[q, L.SMSP_DISPATCH] - st.warp[w, L.WARP_DISPATCH]
    if until > time:
        charge(st, sm, w, L.STALL_WAIT, until)
        note_ready(st, q, w, st.code[st.warp[w, L.WARP_PC], M.COL_UNIT], time)
    return until


@compiled
def charge_queue(st, sm, q, w, unit, until):
    """Charges the time that a warp could have issued but for others.

    In cycles in which its unit is busy that is the unit's throttle, in those in which the dispatcher holds back another
    instruction, a dispatch stall; in the others another warp has been selected. Such cycles are counted from when the
    warp's readiness was known, and taken to be spread evenly.
    """
    since = st.warp[w, L.WARP_SINCE]
    wait = until - since
    if wait <= 0:
        return
    blocked = st.smsp[q, L.SMSP_DISPATCH] - st.warp[w, L.WARP_DISPATCH]
    busy = st.smsp[q, L.SMSP_BUSY + unit] - st.warp[w, L.WARP_BUSY]
    if blocked | busy != 0:
        span = max(until - st.warp[w, L.WARP_READY_AT], wait)
        stood = blocked
        blocked = blocked * wait // span
        if st.warp[w, L.WARP_REASON] == L.STALL_WAIT:
            since = min(since + stood - blocked, until)
            charge(st, sm, w, L.STALL_WAIT, since)
        busy = busy * wait // span * st.par[P.BUSY_PERCENT] // 100
        charge(st, sm, w, L.STALL_DISPATCH, min(since + blocked, until))
        charge(st, sm, w, L.STALL_MATH, min(since + blocked + busy, until))
    charge(st, sm, w, L.STALL_NOT_SELECTED, until)


@compiled
def put_ready(st, q, slot, w, reason, now, time):
    """The warp may issue from `time` on, as is known now."""
    st.warp[w, L.WARP_STATE], st.warp[w, L.WARP_REASON] = L.RUNNING, reason
    note_ready(st, q, w, st.code[st.warp[w, L.WARP_PC], M.COL_UNIT], now)
    st.ready[q, slot] = time
    st.smsp[q, L.SMSP_NEXT] = min(st.smsp[q, L.SMSP_NEXT], time)


@compiled
def load_ahead(st, w, pc):
    """Starts to load the registers that the warp's next instruction reads into the host's caches."""
    wb = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
    for column in (M.COL_A, M.COL_B, M.COL_C, M.COL_DST):
        offset = row_offset(st.code[pc, column], wb)
        prefetch(st.regs, offset)
        prefetch(st.regs, offset + 16)


@compiled
def make_ready(st, sm, q, slot, w, now, earliest):
    """Sets the cycle from which the warp's next instruction may issue: `earliest` or later."""
    pc = st.warp[w, L.WARP_PC]
    # What it has been charged for it waits for: a reply may come before the line of the instruction that it is for.
    time = max(np.int64(earliest), st.warp[w, L.WARP_SINCE])
    line = pc >> st.par[P.ICACHE_SHIFT]
    if line != st.warp[w, L.WARP_FETCHED]:
        there = fetch(st, sm, q, st.warp[w, L.WARP_FETCHED], line, now)
        st.warp[w, L.WARP_FETCHED] = line
        if there > time:
            charge(st, sm, w, L.STALL_WAIT, time)
            charge(st, sm, w, L.STALL_NO_INSTRUCTION, there)
            time = there
    charge(st, sm, w, L.STALL_WAIT, time)
    opens, cls = st.warp[w, L.WARP_OPENS], st.code[pc, M.COL_CLASS]
    if opens > time and (  # such an instruction waits until the barrier is open that its warp has passed (`sm.barrier`)
        cls in (M.CLS_BARRIER, M.CLS_MEMORY)
        or (st.code[pc, M.COL_OP] != M.OP_ELECT if cls == M.CLS_CONTROL else st.code[pc, M.COL_VARIABLE] != 0)
    ):
        if opens == L.NEVER:
            block(st, w, q, slot, L.WAIT_BARRIER, L.STALL_BARRIER)
            return
        charge(st, sm, w, L.STALL_BARRIER, opens)
        time = opens
    wait, most = np.int64(st.code[pc, M.COL_WAIT]), np.int64(0)
    looked_at = wait
    if cls == M.CLS_CONTROL and st.code[pc, M.COL_OP] == M.OP_DEPBAR:
        looked_at, most = wait | np.int64(1) << st.code[pc, M.COL_AUX0], np.int64(st.code[pc, M.COL_AUX1])
    if looked_at != 0:
        for s in range(6):
            if (looked_at >> s) & 1:
                left = np.int64(0) if (wait >> s) & 1 else most
                if st.warp[w, L.WARP_PENDING + s] > left:
                    block(st, w, q, slot, L.WAIT_SCOREBOARD, st.warp[w, L.WARP_KIND + s])
                    return
                release = st.warp[w, L.WARP_RELEASE + s]
                if left == 0 and release > time:
                    charge(st, sm, w, st.warp[w, L.WARP_KIND + s], release)
                    time = release
    operand = st.code[pc, M.COL_CONST]
    if operand >= 0 and st.code[pc, M.COL_VARIABLE] == 0:
        there = constant_ready(st, sm, q, operand, now)
        if there > time:
            charge(st, sm, w, L.STALL_IMC, there)
            time = there
    load_ahead(st, w, pc)
    put_ready(st, q, slot, w, L.STALL_WAIT if time == earliest else L.STALL_NOT_SELECTED, now, time)


@compiled
def place_of(st, sm, w):
    """(sub-partition, slot there) of a warp."""
    smsps = st.par[P.SUB_PARTITIONS]
    local = w - sm * smsps * st.par[P.WARP_SLOTS]
    return sm * smsps + local % smsps, local // smsps


@compiled
def all_warps(st, sm):
    """The rows of State.warp that are an SM's."""
    count = st.par[P.SUB_PARTITIONS] * st.par[P.WARP_SLOTS]
    return range(sm * count, (sm + 1) * count)


@compiled
def look_again(st, sm, w, now):
    """Works out when the warp may issue, from `now` on."""
    q, slot = place_of(st, sm, w)
    make_ready(st, sm, q, slot, w, now, now)


@compiled
def wake(st, sm, w, now):
    """Something that the warp waited for has happened: charge the wait and look again. `st` may be of any launch."""
    st = of_warp(st, w)
    charge(st, sm, w, st.warp[w, L.WARP_REASON], now)
    if st.warp[w, L.WARP_STATE] == L.WAIT_THROTTLE:  # it has been ready before, so it is again
        q, slot = place_of(st, sm, w)
        put_ready(st, q, slot, w, L.STALL_WAIT, now, now)
    else:
        look_again(st, sm, w, now)
