"""Values that a program asks its SM for: special registers (who a thread is, where it runs, what time it is), the space
of a generic address (QSPC), and whether an atomic can be done there."""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import row_offset, set_predicate
from gpusim.engine.sm.cluster import RANK_SHIFT
from gpusim.engine.sm.flight import release_at
from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW, in_window
from gpusim.engine.state import L, P, compiled
from isa import microops as M


@compiled
def lane_value(st, sm, w, which, lane, time):
    """Value of a special register in one lane, 64 bits wide."""
    par = st.par
    smsps = par[P.SUB_PARTITIONS]
    thread = st.warp[w, L.WARP_INDEX] * 32 + lane
    b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    x = thread % par[P.BLOCK_X]
    y = (thread // par[P.BLOCK_X]) % par[P.BLOCK_Y]
    z = thread // (par[P.BLOCK_X] * par[P.BLOCK_Y])
    local = w - sm * smsps * par[P.WARP_SLOTS]
    if M.SR_TID_X <= which <= M.SR_TID_Z:
        return (x, y, z)[which - M.SR_TID_X]
    if which == M.SR_TID:
        return x | (y << 16) | (z << 26)
    if M.SR_CTAID_X <= which <= M.SR_CTAID_Z:
        return b[L.BLOCK_X + which - M.SR_CTAID_X]
    if which == M.SR_LANEID:
        return np.int64(lane)
    if which == M.SR_CLOCKLO or which == M.SR_CLOCKHI:
        return time if which == M.SR_CLOCKLO else time >> 32
    if which == M.SR_GLOBALTIMERLO or which == M.SR_GLOBALTIMERHI:
        nanoseconds = time * 1000 // par[P.CLOCK_MHZ]
        return nanoseconds if which == M.SR_GLOBALTIMERLO else nanoseconds >> 32
    if which == M.SR_VIRTUALSMID or which == M.SR_SMID:
        return np.int64(sm)
    if M.SR_EQMASK <= which <= M.SR_GEMASK:  # equal, less, less or equal, greater, greater or equal
        own, end = np.int64(1) << lane, np.int64(1) << 32
        return (own, own - 1, 2 * own - 1, end - 2 * own, end - own)[which - M.SR_EQMASK]
    if which == M.SR_WARPID:
        return np.int64(local)
    if which == M.SR_VIRTID:
        return (np.int64(sm) << 20) | (np.int64(local) << 8)
    if which == M.SR_VIRTCFG:
        return (par[P.SM_COUNT] << 20) | (np.int64(64) << 8)
    if which == M.SR_SMEMSZ:
        return par[P.SHARED_SIZE]
    if which == M.SR_SWINHI:
        return np.int64(SHARED_WINDOW >> 32)
    if which == M.SR_LWINHI:
        return np.int64(LOCAL_WINDOW >> 32)
    if which == M.SR_CGASIZE:
        return np.int64(1)
    return b[L.BLOCK_RANK]  # SR_CGACTAID


@compiled
def read_special(st, sm, w, i, wb, mask, time):
    """S2R, S2UR and CS2R."""
    code = st.code
    which = code[i, M.COL_AUX0]
    dst = row_offset(code[i, M.COL_DST], wb)
    uniform = code[i, M.COL_UNIFORM] != 0
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        value = lane_value(st, sm, w, which, 0 if uniform else lane, time)
        st.regs[dst + lane] = np.uint32(value & 0xFFFFFFFF)
        if code[i, M.COL_DST_COUNT] == 2:
            st.regs[dst + 32 + lane] = np.uint32((value >> 32) & 0xFFFFFFFF)


@compiled
def query_space(st, sm, w, i, mask, time):
    """QSPC: whether each lane's generic address lies in a space; global is what no window holds."""
    space = st.code[i, M.COL_AUX4]
    own = st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_RANK]
    shared, inside = in_window(st, sm, mask, SHARED_WINDOW), in_window(st, sm, mask, LOCAL_WINDOW)
    if space == M.SPACE_GLOBAL:
        inside = mask & ~(shared | inside)
    elif space == M.SPACE_SHARED:
        inside = shared
        if st.code[i, M.COL_AUX5] == 0:  # that of the block alone, not of the whole cluster
            ranks = (V.load64(st.address[sm], 0) - V.splat64(SHARED_WINDOW)) >> V.splat64(RANK_SHIFT)
            inside &= np.int64(V.equal64(ranks, V.splat64(own)))
    set_predicate(st.preds, 16 * w, st.code[i, M.COL_PD0], np.uint32(inside), mask)
    release_at(st, w, st.code[i, M.COL_WBAR], time + st.par[P.SPECIAL_LATENCY], L.STALL_SHORT)


@compiled
def atomic_predicate(st, sm, w, i, mask, space, time):
    """The predicate of an atomic on a generic address: it was done, which in local memory the program has to do itself.

    It is there as soon as the sources are read (measured on an H200). Returns False if nothing is left to do. ATOMG,
    which has the predicate too, makes it false (measured as well); no compiler asks for it.
    """
    done = space != M.SPACE_LOCAL
    if st.code[i, M.COL_AUX4] >> 8 != M.ATOMIC_CAST_SPIN:
        holds = done and st.code[i, M.COL_AUX0] == M.SPACE_GENERIC
        set_predicate(st.preds, 16 * w, st.code[i, M.COL_PD0], np.uint32(mask if holds else 0), mask)
    if not done:
        release_at(st, w, st.code[i, M.COL_RBAR], time + st.par[P.SOURCE_RELEASE], L.STALL_SHORT)
        release_at(st, w, st.code[i, M.COL_WBAR], time + st.par[P.SOURCE_RELEASE], L.STALL_SHORT)
    return done
