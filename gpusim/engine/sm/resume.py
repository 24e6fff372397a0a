"""What waits for the way beyond the SM goes on, and its warps with it."""

from gpusim.engine.sm.access import access
from gpusim.engine.sm.admission import ROOM, no_room, too_many_loads
from gpusim.engine.sm.queued import access_lines, is_store, must_wait, take_queued
from gpusim.engine.sm.readiness import place_of, wake
from gpusim.engine.sm.warp_end import finish_warp
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.seats import of_warp
from isa import microops as M


@compiled
def scoreboard_reply(st, sm, w, scoreboard, release, now):
    """One reply fewer to wait for; the last one wakes the warp."""
    st.warp[w, L.W_PENDING + scoreboard] -= 1
    if release > st.warp[w, L.W_RELEASE + scoreboard]:
        st.warp[w, L.W_RELEASE + scoreboard] = release
    if st.warp[w, L.W_STATE] == L.WAIT_SCOREBOARD:
        counted = st.code[st.warp[w, L.W_PC], M.COL_OP] == M.OP_DEPBAR  # it may wait for some of the replies only
        if st.warp[w, L.W_PENDING + scoreboard] == 0 or counted:
            wake(st, sm, w, now)


@compiled
def resume(st, sm, now):
    """Lets instructions that wait go on, in order, as far as L2 takes them."""
    while st.sm[sm, L.S_QUEUED] > 0:
        path = st.queued[sm, st.sm[sm, L.S_QUEUED_FIRST], L.QUEUED_PATH]
        if must_wait(st, sm, path) or no_room(st, sm, ROOM) or (not is_store(path) and too_many_loads(st, sm)):
            return
        k = take_queued(st, sm)
        h = st.queued[sm, k]
        w, i = h[L.QUEUED_WARP], h[L.QUEUED_PC]
        st = of_warp(st, w)
        wb = 32 * (st.par[L.P_CONST_ROWS] + w * st.par[L.P_ROWS_PER_WARP])
        q = h[L.QUEUED_SMSP]
        a = access(q, w, i, wb, h[L.QUEUED_MASK], h[L.QUEUED_SIZE], now, h[L.QUEUED_POLICY])
        access_lines(st, sm, a, h[L.QUEUED_COUNT], path, k)
        for scoreboard in (st.code[i, M.COL_RBAR], st.code[i, M.COL_WBAR]):
            if scoreboard < 6:
                scoreboard_reply(st, sm, w, scoreboard, now, now)
        if st.warp[w, L.W_STATE] == L.WAIT_DRAIN and st.warp[w, L.W_QUEUED] == 0:
            st.warp[w, L.W_DRAINED] = max(st.warp[w, L.W_DRAINED], now)
            _, slot = place_of(st, sm, w)
            finish_warp(st, sm, q, slot, w, now)
