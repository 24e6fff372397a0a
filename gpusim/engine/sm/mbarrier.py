"""mbarriers: 64-bit objects in shared memory that count arrivals and transactions, phase by phase.

As the compiler's own initial values and masks show, bits 1..20 hold the threads expected and bits 43..62 those still
missing, both as 2**20 less the number, bits 21..42 the transactions (bytes) still missing, and bit 63 the phase.
A phase is over when neither arrivals nor transactions are missing (PTX manual, mbarrier).
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.cluster import own_offsets
from gpusim.engine.sm.flight import event_at, open_copies, release_at
from gpusim.engine.sm.space import check_window, lane_addresses
from gpusim.engine.sm.stages import enter_queue, take_data_stage
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled
from isa import microops as M

_COUNT = 0xFFFFF
_FULL = 0x100000
_TRANSACTIONS = 0x3FFFFF
_SIGN = 0x200000
_BYTES = 8


@compiled
def update(words, at, arrivals, transactions, dropped):
    """`arrivals` threads arrive and `transactions` are added to those missing, at the object in words[at], [at + 1]."""
    value = np.int64(words[at]) | (np.int64(words[at + 1]) << 32)
    expected = (_FULL - ((value >> 1) & _COUNT)) & _COUNT
    missing = (_FULL - ((value >> 43) & _COUNT)) & _COUNT
    left = (((value >> 21) & _TRANSACTIONS) ^ _SIGN) - _SIGN
    phase = (value >> 63) & 1
    expected -= dropped
    missing -= arrivals
    left += transactions
    if missing == 0 and left == 0:
        phase ^= 1
        missing = expected
    low = ((_FULL - expected) & _COUNT) << 1 | (left & _TRANSACTIONS) << 21
    high = (left & _TRANSACTIONS) >> 11 | ((_FULL - missing) & _COUNT) << 11 | phase << 31
    words[at] = np.uint32(low & 0xFFFFFFFF)
    words[at + 1] = np.uint32(high & 0xFFFFFFFF)


@compiled
def amount(kind, operand):
    """What one of the SYNCS_ONE... stands for."""
    if kind == M.SYNCS_ONE:
        return np.int64(1)
    if kind == M.SYNCS_OPERAND:
        return operand
    return -operand if kind == M.SYNCS_OPERAND_DONE else np.int64(0)


@compiled
def barrier_lane(st, i, words, at, operand, dst, lane, checked):
    """One lane of SYNCS on the object at words[at]. Returns `checked` with the lane's bit set if the phase is over."""
    code = st.code
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
        update(words, at, amount(what & 15, value), amount((what >> 4) & 15, value), dropped)
    if code[i, M.COL_DST_COUNT] > 0:
        st.regs[dst + lane] = old_low
        st.regs[dst + 32 + lane] = old_high
    return checked


@compiled
def barrier_object(st, sm, q, w, i, wb, mask, time):
    """SYNCS: every lane in `mask` on the block's own mbarrier at its address (st.address), in order of lanes."""
    par = st.par
    if not check_window(
        st, sm, i, w, mask, np.int64(_BYTES), par[L.P_SHARED_FIRST], par[L.P_SHARED_BYTES], L.E_SHARED_BOUNDS
    ):
        return
    base = st.warp[w, L.W_BLOCK] * par[L.P_SHARED_STRIDE]
    operand = row_offset(st.code[i, M.COL_B], wb)
    dst = row_offset(st.code[i, M.COL_DST], wb)
    checked = np.uint32(0)
    turns = np.int64(0)
    for lane in range(32):
        if (mask >> lane) & 1:
            at = (base + st.address[sm, lane]) >> 2
            checked = barrier_lane(st, i, st.shared32[sm], at, operand, dst, lane, checked)
            turns += 1
    if st.code[i, M.COL_AUX5] & M.SYNCS_MASK and st.code[i, M.COL_AUX4] == M.SYNCS_ARRIVE:
        arrived_together(st, sm, mask, dst)
    p = st.code[i, M.COL_PD0]
    if p != 7 and p != 15:
        lanes = np.uint32(mask) if p < 7 else np.uint32(0xFFFFFFFF)
        st.preds[16 * w + p] = (st.preds[16 * w + p] & ~lanes) | (checked & lanes)
    if st.code[i, M.COL_AUX4] == M.SYNCS_CHECK:
        turns = np.int64(1)
    start = enter_queue(st, q, time, turns)
    release_at(st, w, st.code[i, M.COL_RBAR], start + par[L.P_SHARED_STORE_RELEASE], L.R_SHORT)
    data = take_data_stage(st, sm, q, start, turns * par[L.P_SHARED_WAVEFRONT])
    there = data - par[L.P_ENTRY] + par[L.P_SHARED_ATOMIC_LATENCY] + turns - 1
    release_at(st, w, st.code[i, M.COL_WBAR], there, L.R_SHORT)


@compiled
def arrived_together(st, sm, mask, dst):
    """What .TMASK tells each lane: which lanes arrive at its mbarrier, and the upper word before the first of them."""
    left = np.int64(mask)
    while left != 0:
        first, lanes = np.int64(-1), np.int64(0)
        for lane in range(32):
            if (left >> lane) & 1 and (first < 0 or st.address[sm, lane] == st.address[sm, first]):
                first = lane if first < 0 else first
                lanes |= np.int64(1) << lane
        for lane in range(32):
            if (lanes >> lane) & 1:
                st.regs[dst + lane] = np.uint32(lanes)
                st.regs[dst + 32 + lane] = st.regs[dst + 32 + first]
        left &= ~lanes


@compiled
def arrive_with_copies(st, sm, w, i, wb, mask, time):
    """ARRIVES.LDGSTSBAR: when the warp's copies so far are there, each lane arrives, or a transaction of it is over.

    The lanes of a warp name one mbarrier; the compiler loops over different ones.
    """
    lane_addresses(st, sm, i, wb, mask)
    own_offsets(st, sm, w)
    if not check_window(
        st, sm, i, w, mask, np.int64(_BYTES), st.par[L.P_SHARED_FIRST], st.par[L.P_SHARED_BYTES], L.E_SHARED_BOUNDS
    ):
        return
    lanes = np.int64(0)
    first = np.int64(0)
    for lane in range(31, -1, -1):
        if (mask >> lane) & 1:
            lanes += 1
            first = lane
    k = open_copies(st, sm, w)
    token = st.token[sm, k]
    st.warp[w, L.W_COPIES] = 0
    token[L.T_KIND] = L.TOKEN_COPY_BYTES if st.code[i, M.COL_AUX4] != 0 else L.TOKEN_COPY_ARRIVE
    token[L.T_BLOCK] = st.block[sm, st.warp[w, L.W_BLOCK], L.B_NUMBER] << 8 | st.warp[w, L.W_BLOCK]
    token[L.T_ADDRESS] = st.address[sm, first]
    token[L.T_AMOUNT] = lanes
    event_at(st, sm, max(time + 1, token[L.T_TIME]), k)


@compiled
def tell(st, sm, k):
    """The mbarrier that a token names hears that the copies are there."""
    token = st.token[sm, k]
    slot = token[L.T_BLOCK] & 255
    if st.block[sm, slot, L.B_NUMBER] != token[L.T_BLOCK] >> 8 or st.block[sm, slot, L.B_STATE] == 0:
        return
    at = (slot * st.par[L.P_SHARED_STRIDE] + token[L.T_ADDRESS]) >> 2
    if token[L.T_KIND] == L.TOKEN_COPY_ARRIVE:
        update(st.shared32[sm], at, token[L.T_AMOUNT], 0, 0)
    elif token[L.T_KIND] == L.TOKEN_REMOTE:
        many = token[L.T_SECTORS]
        update(st.shared32[sm], at, many & 0xFFFFFFFF, -token[L.T_AMOUNT], many >> 32)
    else:
        update(st.shared32[sm], at, 0, -token[L.T_AMOUNT], 0)
