"""Effects between windows, in order of time: atomics, reductions and strong accesses at L2, accesses to other SMs, and
bulk copies that leave shared memory or go to other blocks."""

from gpusim.engine.sm.atomics import take_effect, take_effect_remotely
from gpusim.engine.sm.bulk_effect import apply_copy, apply_remote
from gpusim.engine.sm.tensor_memory import tmem_effect
from gpusim.engine.state import L, P, compiled, of_warp
from gpusim.engine.state.memory import KIND_SM_READ, REQ_KIND, REQ_REPLY, REQ_TOKEN
from isa import microops as M


@compiled
def arrival(st, request):
    """Cycle at which a request has come where it has an effect: the reply of another SM is as long on its way back."""
    return request[REQ_REPLY] - (st.par[P.REMOTE_WAY] if request[REQ_KIND] >= KIND_SM_READ else 0)


@compiled
def take_effect_in_memory(st, sm, entry):
    """An access to device memory takes effect, for all its lanes."""
    d = st.deferred[sm, entry]
    d[L.DEFERRED_DONE] = 1
    st = of_warp(st, d[L.DEFERRED_WARP])
    take_effect(st, sm, entry, st.memory32, st.memory8, st.par[P.MEMORY_BASE], d[L.DEFERRED_MASK])


@compiled
def catch_up(st, sm, entry):
    """Lets what the SM has sent before a load to the load's lines take effect ahead of it.

    A load does not wait for the way that stores take out of the SM, so it may come to L2 first. But a thread sees what
    it has written (PTX manual, "Memory Consistency Model": program order of accesses that overlap).
    """
    lines = st.deferred[sm, entry, L.DEFERRED_LINES]
    for e in range(entry):
        d = st.deferred[sm, e]
        if d[L.DEFERRED_DONE] != 0 or d[L.DEFERRED_LINES] & lines == 0:
            continue
        if of_warp(st, d[L.DEFERRED_WARP]).code[d[L.DEFERRED_PC], M.COL_OP] != M.OP_LOAD:
            take_effect_in_memory(st, sm, e)


@compiled
def apply_deferred(st, order, count):
    """Lets what was deferred in a window take effect. order: (SM, number) of its requests, which have their replies."""
    for n in range(count):
        sm = order[n, 0]
        request = st.request[sm, order[n, 1]]
        entry = (request[REQ_TOKEN] >> 32) - 1
        if entry < 0:
            continue
        d = st.deferred[sm, entry]
        if d[L.DEFERRED_BULK] != 0:
            d[L.DEFERRED_LEFT] -= 1
            d[L.DEFERRED_TIME] = max(d[L.DEFERRED_TIME], arrival(st, request))
            if d[L.DEFERRED_LEFT] == 0:
                apply_copy(st, sm, entry, d[L.DEFERRED_TIME])
            continue
        if d[L.DEFERRED_DONE] != 0:
            continue
        d[L.DEFERRED_DONE] = 1
        st = of_warp(st, d[L.DEFERRED_WARP])
        op = st.code[d[L.DEFERRED_PC], M.COL_OP]
        if op == M.OP_SYNCS or op == M.OP_STAS:
            apply_remote(st, sm, entry, arrival(st, request))
        elif op >= M.OP_TMEM_LOAD:
            tmem_effect(st, sm, entry, arrival(st, request))
        elif d[L.DEFERRED_REMOTE] != 0:
            take_effect_remotely(st, sm, entry)
        else:
            if op == M.OP_LOAD:
                catch_up(st, sm, entry)
            take_effect_in_memory(st, sm, entry)
