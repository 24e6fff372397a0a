"""mbarriers: 64-bit objects in shared memory that count arrivals and transactions, phase by phase.

As the compiler's own initial values and masks show, bits 1..20 hold the threads expected and bits 43..62 those still
missing, both as 2**20 less the number, bits 21..42 the transactions (bytes) still missing, and bit 63 the phase.
A phase is over when neither arrivals nor transactions are missing (PTX manual, mbarrier).

A look that may wait (SYNCS.PHASECHK.TRYWAIT) has its result when the phase is over, or after a fixed time without
that: on an H200 7,700 cycles, whatever time the program has named (`mbarrier_sleep_*`). Until then its scoreboard is
busy. In a functional run its warp stands still, unless other lanes of it can go on, who may be those it waits for.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import row_offset, set_predicate
from gpusim.engine.sm import shadow_copies
from gpusim.engine.sm.cluster import own_offsets
from gpusim.engine.sm.flight import block_key, event_at, hold, is_there, open_group, release_at, take_token
from gpusim.engine.sm.lane_states import can_run
from gpusim.engine.sm.readiness import block
from gpusim.engine.sm.shadow_clocks import CHECK_RACE
from gpusim.engine.sm.space import check_shared, lane_addresses, same_address
from gpusim.engine.sm.stages import enter_queue, take_data_stage
from gpusim.engine.state import L, P, compiled, lowest_bit, popc
from isa import microops as M

_COUNT = 0xFFFFF
_FULL = 0x100000
_TRANSACTIONS = 0x3FFFFF
_SIGN = 0x200000
_BYTES = 8


@compiled
def parts_of(value):
    """(Arrivals expected, arrivals missing, transactions missing, phase) of an object."""
    expected = (_FULL - ((value >> 1) & _COUNT)) & _COUNT
    missing = (_FULL - ((value >> 43) & _COUNT)) & _COUNT
    left = (((value >> 21) & _TRANSACTIONS) ^ _SIGN) - _SIGN
    return expected, missing, left, (value >> 63) & 1


@compiled
def update(words, at, arrivals, transactions, dropped):
    """`arrivals` threads arrive and `transactions` are added to those missing, at the object in words[at], [at + 1].
    Returns whether that ends its phase."""
    value = np.int64(words[at]) | (np.int64(words[at + 1]) << 32)
    expected, missing, left, phase = parts_of(value)
    expected -= dropped
    missing -= arrivals
    left += transactions
    over = missing == 0 and left == 0
    if over:
        phase ^= 1
        missing = expected
    low = ((_FULL - expected) & _COUNT) << 1 | (left & _TRANSACTIONS) << 21
    high = (left & _TRANSACTIONS) >> 11 | ((_FULL - missing) & _COUNT) << 11 | phase << 31
    words[at] = np.uint32(low & 0xFFFFFFFF)
    words[at + 1] = np.uint32(high & 0xFFFFFFFF)
    return over


@compiled
def arrive_at(st, sm, at, arrivals, transactions, dropped, now):
    """`update` of the object in word `at` of the SM's shared memory; looks that wait for the end of its phase have
    their results soon, one after the other."""
    if update(st.shared32[sm], at, arrivals, transactions, dropped):
        if st.par[P.CHECKS] & CHECK_RACE:
            shadow_copies.end_phase(st, sm, np.int64(at))
        end_looks(st, sm, np.int64(at), now, now + st.par[P.MBARRIER_WAKE], st.par[P.BAR_INTERVAL])


@compiled
def end_looks(st, sm, at, now, time, interval):
    """Looks at the object in word `at`, or (-1) those that may wait no longer, have their results from `time` on, so
    far apart. Returns when the first of the others may wait no longer."""
    ends = L.NEVER
    before = np.int64(-1)
    k = st.sm[sm, L.SM_WAITING] - 1
    while k >= 0:
        token = st.token[sm, k]
        after = token[L.TOKEN_AFTER]
        if token[L.TOKEN_ADDRESS] == at or (at < 0 and token[L.TOKEN_TIME] <= now):
            if before >= 0:
                st.token[sm, before, L.TOKEN_AFTER] = after
            else:
                st.sm[sm, L.SM_WAITING] = after
            token[L.TOKEN_AFTER] = 0
            event_at(st, sm, time, k)
            time += interval
        else:
            ends = min(ends, token[L.TOKEN_TIME])
            before = k
        k = after - 1
    return ends


@compiled
def see_phase(st, sm, k):
    """The result of a look that has waited."""
    token = st.token[sm, k]
    w = token[L.TOKEN_WARP]
    if st.warp[w, L.WARP_AGE] != token[L.TOKEN_AGE]:
        return
    parity, lanes = token[L.TOKEN_BLOCK] & 1, np.uint32(token[L.TOKEN_AMOUNT])
    over = np.int64(st.shared32[sm, token[L.TOKEN_ADDRESS] + 1] >> np.uint32(31)) != parity
    if over and st.par[P.CHECKS] & CHECK_RACE:
        shadow_copies.see_end(st, sm, w, np.int64(lanes), token[L.TOKEN_ADDRESS])
    put_checked(st, w, token[L.TOKEN_BLOCK] >> 1, lanes, lanes if over else np.uint32(0))


@compiled
def put_checked(st, w, i, lanes, checked):
    """The predicate that a look at a phase writes."""
    p = st.code[i, M.COL_PD0]
    set_predicate(st.preds, 16 * w, p, checked, lanes if p < 7 else np.uint32(0xFFFFFFFF))


@compiled
def amount(kind, operand):
    """The amount that one of the SYNCS_ONE... stands for."""
    if kind == M.SYNCS_ONE:
        return np.int64(1)
    if kind == M.SYNCS_OPERAND:
        return operand
    return -operand if kind == M.SYNCS_OPERAND_DONE else np.int64(0)


@compiled
def barrier_lane(st, sm, i, at, operand, dst, lane, checked, time):
    """One lane of SYNCS on the object in word `at`. Returns `checked` with the lane's bit set if the phase is over."""
    code = st.code
    words = st.shared32[sm]
    kind = code[i, M.COL_AUX4]
    old_low = words[at]
    old_high = words[at + 1]
    if kind == M.SYNCS_EXCHANGE:
        words[at] = st.regs[operand + lane]
        words[at + 1] = st.regs[operand + 32 + lane]
    elif kind == M.SYNCS_CHECK:
        if (old_high ^ st.regs[operand + lane]) >> np.uint32(31) != 0:
            checked |= np.uint32(1) << np.uint32(lane)
    elif kind == M.SYNCS_ARRIVE:
        what = code[i, M.COL_AUX5]
        value = np.int64(st.regs[operand + lane])
        dropped = np.int64(1 if what & M.SYNCS_DROP else 0)
        arrive_at(st, sm, at, amount(what & 15, value), amount((what >> 4) & 15, value), dropped, time)
    if code[i, M.COL_DST_COUNT] > 0:
        st.regs[dst + lane] = old_low
        st.regs[dst + 32 + lane] = old_high
    return checked


@compiled
def barrier_object(st, sm, q, slot, w, i, wb, mask, time):
    """SYNCS: every lane in `mask` on the block's own mbarrier at its address (st.address), in order of lanes."""
    par = st.par
    if not check_shared(st, sm, i, w, mask, np.int64(_BYTES)):
        return
    base = st.warp[w, L.WARP_BLOCK] * par[P.SHARED_STRIDE]
    operand = row_offset(st.code[i, M.COL_B], wb)
    dst = row_offset(st.code[i, M.COL_DST], wb)
    checked = np.uint32(0)
    turns = np.int64(popc(mask))
    if par[P.CHECKS] & CHECK_RACE and st.code[i, M.COL_AUX4] == M.SYNCS_ARRIVE:
        shadow_copies.note_arrivals(st, sm, np.int64(w), mask)
    for lane in range(32):
        if (mask >> lane) & 1:
            at = (base + st.address[sm, lane]) >> 2
            checked = barrier_lane(st, sm, i, at, operand, dst, lane, checked, time)
    waits = False
    if st.code[i, M.COL_AUX5] & M.SYNCS_MASK and st.code[i, M.COL_AUX4] == M.SYNCS_ARRIVE:
        # .TMASK tells each lane which lanes arrive at its mbarrier, and the upper word before the first.
        left = np.int64(mask)
        while left != 0:
            first, lanes = lowest_bit(left), same_address(st, sm, left)
            V.store(st.regs, dst, V.splat(lanes), lanes)
            V.store(st.regs, dst + 32, V.splat(st.regs[dst + 32 + first]), lanes)
            left &= ~lanes
    if st.code[i, M.COL_AUX4] == M.SYNCS_CHECK:
        turns = np.int64(1)
        if par[P.CHECKS] & CHECK_RACE and checked != 0:
            shadow_copies.see_ends(st, sm, np.int64(w), np.int64(checked))
        put_checked(st, w, i, np.uint32(mask), checked)
        if st.code[i, M.COL_AUX5] != 0 and checked == 0:
            waits = await_phase(st, sm, q, slot, w, i, operand, mask, time)
    start = enter_queue(st, q, time, 1)
    release_at(st, w, st.code[i, M.COL_RBAR], start + par[P.SHARED_STORE_RELEASE], L.STALL_SHORT)
    data = take_data_stage(st, sm, q, w, start, turns * par[P.SHARED_WAVEFRONT])
    if not waits:
        there = data - par[P.ENTRY] + par[P.MBARRIER_LATENCY] + turns - 1
        release_at(st, w, st.code[i, M.COL_WBAR], there, L.STALL_SHORT)


@compiled
def await_phase(st, sm, q, slot, w, i, operand, mask, time):
    """A look that may wait and has seen that the phase is not over. False if it has to look again instead."""
    first = lowest_bit(mask)
    apart = V.load(st.regs, operand) ^ V.splat(st.regs[operand + first])
    # The lanes that wait for the same phase of the same object as the first one.
    same = np.int64(V.less_u(apart, V.splat(0x80000000))) & same_address(st, sm, mask)
    functional = st.par[P.MODE] & L.BOOKS == 0
    if same != mask or st.code[i, M.COL_WBAR] >= 6 or (functional and can_run(st.warp, st.split, w) != 0):
        return False
    at = (st.warp[w, L.WARP_BLOCK] * st.par[P.SHARED_STRIDE] + st.address[sm, first]) >> 2
    parity = np.int64(st.regs[operand + first] >> np.uint32(31))
    wbar = st.code[i, M.COL_WBAR]
    k = take_token(st, sm, w, wbar, L.PHASE_TOKEN)
    hold(st, w, wbar, L.STALL_LONG)
    token = st.token[sm, k]
    token[L.TOKEN_LEFT], token[L.TOKEN_ADDRESS], token[L.TOKEN_AMOUNT] = 1, at, mask
    token[L.TOKEN_BLOCK], token[L.TOKEN_TIME] = np.int64(i) << 1 | parity, time + st.par[P.MBARRIER_WAIT]
    token[L.TOKEN_AFTER] = st.sm[sm, L.SM_WAITING]
    ends = st.sm[sm, L.SM_WAIT_ENDS] if st.sm[sm, L.SM_WAITING] != 0 else L.NEVER
    st.sm[sm, L.SM_WAIT_ENDS] = min(ends, token[L.TOKEN_TIME])
    st.sm[sm, L.SM_WAITING] = k + 1
    if functional:
        block(st, w, q, slot, L.WAIT_SCOREBOARD, L.STALL_LONG)
    return True


@compiled
def arrive_with_copies(st, sm, w, i, wb, mask, time):
    """ARRIVES.LDGSTSBAR: when the warp's copies so far are there, each lane arrives, or a transaction of it is over.

    The lanes of a warp name one mbarrier; the compiler loops over different ones.
    """
    lane_addresses(st, sm, i, wb, mask)
    own_offsets(st, sm, w)
    if not check_shared(st, sm, i, w, mask, np.int64(_BYTES)):
        return
    first = lowest_bit(mask)
    k = open_group(st, sm, w, L.WARP_COPIES, L.COPY_TOKEN)
    token = st.token[sm, k]
    st.warp[w, L.WARP_COPIES] = 0
    if st.par[P.CHECKS] & CHECK_RACE:
        shadow_copies.end_group_with(st, sm, np.int64(w), np.int64(mask), st.address[sm, first])
    token[L.TOKEN_KIND] = L.COPY_BYTES_TOKEN if st.code[i, M.COL_AUX4] != 0 else L.COPY_ARRIVE_TOKEN
    token[L.TOKEN_BLOCK] = block_key(st, sm, st.warp[w, L.WARP_BLOCK])
    token[L.TOKEN_ADDRESS] = st.address[sm, first]
    token[L.TOKEN_AMOUNT] = popc(mask)
    event_at(st, sm, time + 1, k)


@compiled
def tell(st, sm, k, now):
    """The mbarrier that a token names hears that the copies are there."""
    token = st.token[sm, k]
    slot = token[L.TOKEN_BLOCK] & 255
    if not is_there(st, sm, token[L.TOKEN_BLOCK]):
        return
    at = (slot * st.par[P.SHARED_STRIDE] + token[L.TOKEN_ADDRESS]) >> 2
    if token[L.TOKEN_KIND] == L.COPY_ARRIVE_TOKEN:
        arrive_at(st, sm, at, token[L.TOKEN_AMOUNT], 0, 0, now)
    elif token[L.TOKEN_KIND] == L.REMOTE_TOKEN:
        many = token[L.TOKEN_SECTORS]
        if st.par[P.CHECKS] & CHECK_RACE:
            shadow_copies.note_other_block(st, sm, np.int64(at))
        arrive_at(st, sm, at, many & 0xFFFFFFFF, -token[L.TOKEN_AMOUNT], many >> 32, now)
    else:
        arrive_at(st, sm, at, 0, -token[L.TOKEN_AMOUNT], 0, now)
