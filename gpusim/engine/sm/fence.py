"""Fences at device and system scope, MEMBAR: a way to L2 and back, and a second one if L2 was asked for something.

That is so whichever warp of the SM has loaded, stored or added to memory, before the fence or during its first half,
and however long ago that was over, unless another fence came in between (H200, `fence_beside`: 290 and 570 to 650
cycles; 385 where all that was asked for is of the near partition of L2). A fence waits for what its own warp has
stored, too.

An SM has one fence under way. Warps that come to one in its first cycles share it, later ones share the next: so 64
warps that do nothing else wait for 520 cycles in the mean and 1,080 at most, eight that come together for 300.
"""

import numpy as np

from gpusim.engine.sm.flight import event_at, free_token, take_token
from gpusim.engine.sm.readiness import all_warps, charge, make_ready, place_of
from gpusim.engine.state import L, P, compiled, of_warp
from isa import microops as M

#: WARP_FENCE of a warp: its fence is over but for what it has stored; under way; will be when that of others is over.
STORES, UNDER_WAY, NEXT = 1, 2, 3
TOGETHER = 80
"""Cycles in which warps come to the same fence: those of eight warps that a barrier has let go do (`fence_beside`)."""


@compiled
def begin_fence(st, sm, w, scope, time):
    """Warp w waits for a fence of this scope from now on."""
    s = st.sm[sm]
    wide = np.int64(scope > M.SCOPE_GPU)
    if s[L.SM_FENCE_BEGAN] == 0:
        _start(st, sm, w, wide, time)
    elif time > s[L.SM_FENCE_BEGAN] + TOGETHER or wide > s[L.SM_FENCE_SYSTEM]:
        st.warp[w, L.WARP_FENCE] = NEXT
        st.sm[sm, L.SM_FENCE_NEXT] |= wide
    else:
        st.warp[w, L.WARP_FENCE] = UNDER_WAY


@compiled
def _start(st, sm, w, wide, time):
    """The SM has a fence under way from now on, which warp w stands for; wide: it is of the scope of the system."""
    s = st.sm[sm]
    st.warp[w, L.WARP_FENCE] = UNDER_WAY
    k = take_token(st, sm, w, 7, L.FENCE_TOKEN)
    token = st.token[sm, k]
    token[L.TOKEN_LEFT] = 1
    token[L.TOKEN_TIME] = time
    s[L.SM_FENCE_BEGAN] = max(time, 1)
    s[L.SM_FENCE_SYSTEM] = wide
    token[L.TOKEN_SECTORS] = wide  # that has no second way
    event_at(st, sm, time + (st.par[P.MEMBAR_SYSTEM] if wide != 0 else st.par[P.MEMBAR_LATENCY]), k)


@compiled
def pass_fence(st, sm, w, now, after):
    """The warp, of whichever launch, goes on at `after`."""
    st = of_warp(st, w)
    st.warp[w, L.WARP_FENCE] = 0
    charge(st, sm, w, L.STALL_MEMBAR, after)
    q, slot = place_of(st, sm, w)
    make_ready(st, sm, q, slot, w, now, after)


@compiled
def fence_reply(st, sm, k, now):
    """The first half of a fence is over, or the second."""
    s = st.sm[sm]
    token = st.token[sm, k]
    if token[L.TOKEN_SECTORS] == 0 and s[L.SM_ASKED] > s[L.SM_FENCED]:
        token[L.TOKEN_SECTORS] = 1
        token[L.TOKEN_LEFT] = 1
        far = s[L.SM_ASKED_FAR] > s[L.SM_FENCED]
        event_at(st, sm, now + (st.par[P.MEMBAR_AGAIN] if far else st.par[P.MEMBAR_NEAR]), k)
        return
    s[L.SM_FENCED] = max(s[L.SM_FENCED], token[L.TOKEN_TIME])
    s[L.SM_FENCE_BEGAN] = 0
    free_token(st, sm, k)
    for w in all_warps(st, sm):
        if st.warp[w, L.WARP_STATE] != L.WAIT_MEMBAR:
            continue
        if st.warp[w, L.WARP_FENCE] == NEXT:
            st.warp[w, L.WARP_FENCE] = UNDER_WAY
            if s[L.SM_FENCE_BEGAN] == 0:
                _start(st, sm, w, s[L.SM_FENCE_NEXT], now)
                s[L.SM_FENCE_NEXT] = 0
        elif st.warp[w, L.WARP_FENCE] == UNDER_WAY:
            st.warp[w, L.WARP_FENCE] = STORES
            if st.warp[w, L.WARP_STORES] == 0:
                pass_fence(st, sm, w, now, now)
