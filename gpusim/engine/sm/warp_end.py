"""The end of a warp, and of its block with the last one."""

from gpusim.engine.sm.bulk_effect import leave_with_block
from gpusim.engine.sm.flight import close_bulk, close_copies
from gpusim.engine.sm.readiness import charge
from gpusim.engine.sm.shadow_clocks import CHECK_RACE
from gpusim.engine.sm.shadow_copies import all_waited_for
from gpusim.engine.sm.space import exhausted
from gpusim.engine.sm.stages import take_turn
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.log import log_end


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
    if st.par[L.P_CHECKS] & CHECK_RACE and b[L.B_WARPS_LEFT] == 1 and not all_waited_for(st, sm, w):
        return
    st.warp[w, L.W_BLOCK] = -1
    b[L.B_WARPS_LEFT] -= 1
    b[L.B_DRAINED] = max(b[L.B_DRAINED], drained)
    if b[L.B_WARPS_LEFT] == 0:
        if s[L.S_BULKS_NEW] > 0:
            leave_with_block(st, sm, number)
        done = max(time, b[L.B_DRAINED] - 1) + st.par[L.P_EXIT_LATENCY]
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
