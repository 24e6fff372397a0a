"""Fences at device scope, MEMBAR: they take one way to L2 and back, and a second one if L2 was asked for something.

That is so whichever warp of the SM has loaded, stored or added to memory, before the fence or during its first half,
and however long ago that was over, unless another fence came in between (H200, `fence_beside`: 290 and 570 to 650
cycles, 400 to 440 where all that was asked for lay in one near line, which makes no difference here). A fence waits for
what its own warp has stored, too.
"""

from gpusim.engine.sm.flight import event_at, free_token, take_token
from gpusim.engine.sm.readiness import charge, make_ready, place_of
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled


@compiled
def begin_fence(st, sm, w, time):
    """Warp w waits for its fence from now on."""
    k = take_token(st, sm, w, 7, L.TOKEN_FENCE)
    token = st.token[sm, k]
    token[L.T_LEFT] = 1
    token[L.T_TIME] = time
    st.warp[w, L.W_FENCE] = 0
    event_at(st, sm, time + st.par[L.P_MEMBAR_LATENCY], k)


@compiled
def pass_fence(st, sm, w, now, after):
    """The warp goes on at `after`."""
    charge(st, sm, w, L.R_MEMBAR, after)
    q, slot = place_of(st, sm, w)
    make_ready(st, sm, q, slot, w, now, after)


@compiled
def fence_reply(st, sm, k, now):
    """The first half of a fence is over, or the second."""
    token = st.token[sm, k]
    if token[L.T_SECTORS] == 0 and st.sm[sm, L.S_ASKED] > st.sm[sm, L.S_FENCED]:
        token[L.T_SECTORS] = 1
        token[L.T_LEFT] = 1
        event_at(st, sm, now + st.par[L.P_MEMBAR_AGAIN], k)
        return
    w = token[L.T_WARP]
    st.sm[sm, L.S_FENCED] = max(st.sm[sm, L.S_FENCED], token[L.T_TIME])
    st.warp[w, L.W_FENCE] = 1
    if st.warp[w, L.W_STORES] == 0:
        pass_fence(st, sm, w, now, now)
    free_token(st, sm, k)
