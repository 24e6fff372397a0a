"""The warp scheduler of a sub-partition: each cycle it chooses a warp (`policies`), asks whether its unit takes the
instruction (`admission`), issues it, and works out when the warp comes up again (`next_issue`)."""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.admission import admit, has_fma_halves, in_both_halves
from gpusim.engine.sm.policies import choose
from gpusim.engine.sm.readiness import block, charge, charge_queue, counts_on, look_again, make_ready, note_ready
from gpusim.engine.sm.run_warp import clear_lanes, finish_warp, run_instruction, stays
from gpusim.engine.state import L, P, compiled, lowest_bit, of_warp
from isa import microops as M

#: NANOSLEEP sleeps a millisecond at most (PTX manual).
LONGEST_SLEEP_NS = 1_000_000
LATE_RESULT = 2
"""Cycles by which the results of doubles and HFMA2.MMA come later to the registers than others'."""


@compiled
def branch_latency(st, i, target):
    """Cycles from the issue of a branch, or of a BSYNC, until the warp's next instruction at `target` can issue."""
    op = st.code[i, M.COL_OP]
    if op == M.OP_BSYNC:
        return st.par[P.MEET_LATENCY]
    if op in (M.OP_RET, M.OP_BRX, M.OP_JMX):
        return st.par[P.INDIRECT_LATENCY]
    if st.code[target, M.COL_CLASS] == M.CLS_CONTROL and st.code[target, M.COL_OP] == M.OP_BSYNC:
        return st.par[P.MEET_AFTER]
    # The target's line holds nothing after it, and the next one has to be fetched.
    last = (1 << st.par[P.ICACHE_SHIFT]) - 1
    late = st.par[P.LAST_IN_LINE] if target & last == last else 0
    return st.par[P.BRANCH_LATENCY] + late


@compiled
def is_wide(st, i):
    """A product of which the high word is wanted."""
    op = st.code[i, M.COL_OP]
    return st.code[i, M.COL_UNIT] == M.UNIT_FMAHEAVY and M.OP_IMAD_WIDE_U <= op <= M.OP_IMAD_HI_S


@compiled
def held(st, i):
    """Cycles that an instruction keeps the dispatcher. A wide product is dispatched twice, as long apart as its pipe
    takes the first half, and only then its stall count begins (H200: IMAD.HI with stall counts of 4 take 6 cycles)."""
    return st.par[P.WIDE_DISPATCH] if is_wide(st, i) else np.int64(0)


@compiled
def unit_interval(st, i, unit):
    """Cycles from the issue of an instruction until its unit takes the next one."""
    if is_wide(st, i):
        return st.par[P.WIDE_INTERVAL]
    interval = st.par[P.UNIT_INTERVAL + unit]
    if unit == M.UNIT_XU:  # H200: F2F.F32.F64 and FCHK, with two registers, take nine cycles
        return interval + ((st.code[i, M.COL_READS] >> 8 & 15) + (st.code[i, M.COL_READS] >> 12) > 1)
    if unit == M.UNIT_UNIFORM and st.code[i, M.COL_OP] == M.OP_MOV:
        return np.int64(1)  # H200: UMOV and ULDC alone 1.01, UIADD3 and UIMAD 1.99
    if unit == M.UNIT_HALF and st.code[i, M.COL_TENSOR] != 0 and has_fma_halves(st):
        return 2 * interval
    # GeForce cards make products whose sums are halves or integers, or that have scales, faster than others.
    op, narrow = st.code[i, M.COL_OP], st.code[i, M.COL_OP] == M.OP_QMMA
    short = op == M.OP_IMMA or ((op == M.OP_HMMA or narrow) and st.code[i, M.COL_AUX2] & 255 == 16)
    short = short or (narrow and st.code[i, M.COL_AUX1] >> 8 & M.SCALES_GIVEN != 0)
    return max(interval // st.par[P.SHORT_SUMS], 1) if short and st.code[i, M.COL_CLASS] == M.CLS_TENSOR else interval


@compiled
def next_issue(st, w, i, active, mask, time):
    """Find when the warp that has executed instruction i at `time` may issue the next one at the earliest.

    Returns (cycle until which it waits for a fixed time, cycle from which it may issue, what it waits for between).
    """
    op = st.code[i, M.COL_OP]
    earliest = time + held(st, i) + max(np.int64(st.code[i, M.COL_STALL]), 1)
    pc = st.warp[w, L.WARP_PC]
    if pc != i + 1 or op == M.OP_BSYNC or op == M.OP_YIELD:
        taken = time + branch_latency(st, i, pc)
        if st.warp[w, L.WARP_TOOK_OLD] != 0 or op == M.OP_YIELD:
            st.warp[w, L.WARP_TOOK_OLD] = 0
            taken += st.par[P.OLD_GROUP]
        return earliest, max(taken, earliest), L.STALL_BRANCH
    if op == M.OP_MEMBAR and mask != 0:
        return np.int64(0), max(earliest, time + st.par[P.MEMBAR_CTA_LATENCY]), L.STALL_MEMBAR
    if op == M.OP_NANOSLEEP and mask != 0:  # nanoseconds from the first active lane
        wb = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
        nanoseconds = np.int64(st.regs[row_offset(st.code[i, M.COL_A], wb) + lowest_bit(active)])
        cycles = min(nanoseconds, LONGEST_SLEEP_NS) * st.par[P.CLOCK_MHZ] // 1000
        return np.int64(0), max(earliest, time + cycles), L.STALL_SLEEPING
    return earliest, earliest, L.STALL_WAIT


@compiled
def book_issue(st, sm, q, slot, w, i, time):
    """Books the unit of instruction i, which issues."""
    unit = st.code[i, M.COL_UNIT]
    charge_queue(st, sm, q, w, unit, time)
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    counts[L.COUNT_STALL + L.STALL_SELECTED] += 1
    interval = unit_interval(st, i, unit)
    smsp = st.smsp[q]
    busy = interval - 1
    if unit == M.UNIT_FMA and has_fma_halves(st):
        interval *= 2
        if smsp[L.SMSP_UNIT_FREE + unit] > time:
            unit, busy = M.UNIT_FMAHEAVY, interval - 1
            counts[L.COUNT_HEAVY] += 1
    elif in_both_halves(st, i, unit):
        interval = max(interval, st.par[P.UNIT_INTERVAL + M.UNIT_FMAHEAVY])  # the others go through the tensor cores
        smsp[L.SMSP_UNIT_FREE + M.UNIT_FMA] = time + interval
        unit, busy = M.UNIT_FMAHEAVY, interval - 1
    smsp[L.SMSP_UNIT_FREE + unit] = max(time, smsp[L.SMSP_UNIT_FREE + unit]) + interval
    if unit != M.UNIT_XU:
        smsp[L.SMSP_BUSY + unit] += busy
    smsp[L.SMSP_LAST] = slot
    smsp[L.SMSP_IN_TURN] = max(smsp[L.SMSP_IN_TURN] - 1, st.code[i, M.COL_YIELD])


@compiled
def issue(st, sm, q, slot, w, time):
    """Issues the warp's next instruction."""
    i = st.warp[w, L.WARP_PC]
    book_issue(st, sm, q, slot, w, i, time)
    active, mask, runs = run_instruction(st, sm, q, slot, w, i, time)
    if st.warp[w, L.WARP_ALIVE] == 0:
        charge(st, sm, w, L.STALL_BRANCH, time + 1 + st.par[P.EXIT_CYCLES])
        if st.warp[w, L.WARP_QUEUED] > 0:
            block(st, w, q, slot, L.WAIT_DRAIN, L.STALL_DRAIN)
        else:
            finish_warp(st, sm, q, slot, w, time)
    elif runs:
        fixed, until, reason = next_issue(st, w, i, active, mask, time)
        if reason != L.STALL_WAIT:
            charge(st, sm, w, L.STALL_WAIT, fixed)
            charge(st, sm, w, reason, until)
        make_ready(st, sm, q, slot, w, time, max(until, st.warp[w, L.WARP_SINCE]))
        if reason != L.STALL_WAIT and st.warp[w, L.WARP_STATE] == L.RUNNING:
            st.warp[w, L.WARP_REASON] = reason
    elif st.warp[w, L.WARP_STATE] == L.RUNNING:
        stays(st, sm, q, slot, w, i)


@compiled
def read_registers(smsp, reads, time):
    """Books the registers that an instruction reads, `time` or later. Returns the cycle in which it is dispatched.

    Each of the two banks delivers one register a cycle. An instruction waits one cycle at most in front of them, so
    what one reads from one bank and the next from the other overlaps (H200: FFMAs with two sources in one bank take two
    cycles each, if they take turns between the banks one and a half; a NOP behind them does not wait).
    """
    even, odd = reads & 15, reads >> 4 & 15
    start = max(time, smsp[L.SMSP_EVEN_FREE] - 1 if even else time, smsp[L.SMSP_ODD_FREE] - 1 if odd else time)
    smsp[L.SMSP_EVEN_FREE] = max(smsp[L.SMSP_EVEN_FREE], start) + even
    smsp[L.SMSP_ODD_FREE] = max(smsp[L.SMSP_ODD_FREE], start) + odd
    return start


@compiled
def dispatch(st, smsp, slot, i, time):
    """Takes the chosen instruction through the dispatcher. Returns the cycle in which it issues, `time` or later.

    H200, loops of chosen instructions: what `.reuse` keeps is lost when another warp issues. Results come to the
    registers one a cycle, those of doubles and HFMA2.MMA two cycles later than others, so an FADD or IADD3 two cycles
    behind one waits for a cycle. A wide product reads its registers again at its second dispatch.
    """
    result, reads = st.code[i, M.COL_RESULT], np.int64(st.code[i, M.COL_READS])
    issued = read_registers(smsp, reads if smsp[L.SMSP_LAST] == slot else reads >> 8, time)
    taken = smsp[L.SMSP_RESULTS] >> min(issued - smsp[L.SMSP_DISPATCHED], 63)
    if result == M.RESULT_SOON:
        while taken & 1 != 0:
            issued += 1
            taken >>= 1
    elif result == M.RESULT_LATER:
        taken |= 1 << LATE_RESULT
    elif result == M.RESULT_XU:
        later = st.par[P.UNIT_LATENCY + M.UNIT_XU] - st.par[P.UNIT_LATENCY + M.UNIT_ALU]
        taken |= 1 << (later + max(smsp[L.SMSP_UNIT_FREE + M.UNIT_XU] - issued, 0))
    last = read_registers(smsp, reads >> 8, issued + held(st, i)) if is_wide(st, i) else issued
    smsp[L.SMSP_RESULTS] = taken >> (last - issued)
    smsp[L.SMSP_DISPATCHED] = last
    smsp[L.SMSP_DISPATCH] += last - time
    unit = st.code[i, M.COL_UNIT]
    return time if unit == M.UNIT_LSU or unit == M.UNIT_ADU else issued


@compiled
def step(st, sm, k, time):
    """One cycle of sub-partition k of an SM: issues at most one instruction and sets SMSP_NEXT."""
    smsps = st.par[P.SUB_PARTITIONS]
    slots = st.par[P.WARP_SLOTS]
    q = sm * smsps + k
    first = sm * smsps * slots + k
    ages = st.warp[first : first + slots * smsps : smsps, L.WARP_AGE]
    smsp = st.smsp[q]
    ready = st.ready[q]
    if time <= smsp[L.SMSP_DISPATCHED]:  # a warp has been woken, but the dispatcher holds an instruction back
        smsp[L.SMSP_NEXT] = smsp[L.SMSP_DISPATCHED] + 1
        return
    smsp[L.SMSP_NEXT] = L.NEVER
    while True:
        slot, several = choose(st, q, ages, time)
        if slot < 0:
            break
        w = first + slot * smsps
        st = of_warp(st, w)
        if st.warp[w, L.WARP_FETCHED] < 0:  # its first instruction has still to be fetched
            charge(st, sm, w, L.STALL_NOT_SELECTED, time)
            clear_lanes(st, sm, w)
            look_again(st, sm, w, time)
            continue
        until = counts_on(st, sm, q, w, ready[slot], time)
        if until > time:
            ready[slot] = until
            continue
        i = st.warp[w, L.WARP_PC]
        free, reason = admit(st, sm, q, w, i, time)
        if free <= time:
            smsp[L.SMSP_GOES_ON] = dispatch(st, smsp, slot, i, time) + 1
            issue(st, sm, q, slot, w, smsp[L.SMSP_GOES_ON] - 1)
            break
        unit = st.code[i, M.COL_UNIT]
        smsp[L.SMSP_IN_TURN] = max(smsp[L.SMSP_IN_TURN], 2 if unit == M.UNIT_LSU else 1)
        charge_queue(st, sm, q, w, unit, time)
        if free == L.NEVER:  # until others that wait for the way beyond the SM have gone on
            block(st, w, q, slot, L.WAIT_THROTTLE, reason)
            st.sm[sm, L.SM_THROTTLED] = 1
        else:
            charge(st, sm, w, reason, free)
            st.warp[w, L.WARP_REASON] = reason
            note_ready(st, q, w, unit, free)
            ready[slot] = free
    earliest = time if several else L.NEVER
    if not several:
        for slot in range(slots):
            earliest = min(earliest, ready[slot])
    smsp[L.SMSP_NEXT] = max(earliest, time + 1, smsp[L.SMSP_DISPATCHED] + 1)
