"""Memory instructions that have issued and wait, in order, for the way beyond the SM.

L2 takes only so many stores and reductions of an SM at a time. An H200 issues further ones all the same: they wait in
the queues of the SM, and everything behind them does too. So their warps wait for what they read, for the registers
that they send, at their end (`drain`), or, when the queues are full, in front of them (`lg_throttle`).

What waits keeps a copy of its addresses. It takes effect, as far as others can see it, when it goes on.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.sm.atomics import swaps
from gpusim.engine.sm.coalescer import atomic_requests
from gpusim.engine.sm.flight import hold
from gpusim.engine.sm.lines import atomic_lines, defer, line_filter, read_lines, take_operands, write_lines, write_plain
from gpusim.engine.sm.space import exhausted
from gpusim.engine.sm.stages import keep_place, note_store
from gpusim.engine.state import L, P, compiled, ms
from isa import microops as M

#: Paths of instructions: plain ones have moved their values already, the others take effect at L2.
PATH_READ, PATH_WRITE, PATH_READ_STRONG, PATH_WRITE_STRONG, PATH_REDUCTION, PATH_ATOMIC = range(6)
#: To shared memory of another SM.
PATH_REMOTE_READ, PATH_REMOTE_WRITE, PATH_REMOTE_REDUCTION, PATH_REMOTE_ATOMIC = range(6, 10)
_KIND_OF = (ms.KIND_READ, ms.KIND_WRITE, ms.KIND_READ_STRONG, ms.KIND_WRITE_STRONG, ms.KIND_REDUCTION, ms.KIND_ATOMIC,
            ms.KIND_SM_READ, ms.KIND_SM_WRITE, ms.KIND_SM_ATOMIC, ms.KIND_SM_ATOMIC)  # fmt: skip


@compiled
def is_store(path):
    """It waits for nothing, but L2 has to take it."""
    return path in (PATH_WRITE, PATH_WRITE_STRONG, PATH_REDUCTION, PATH_REMOTE_WRITE, PATH_REMOTE_REDUCTION)


@compiled
def must_wait(st, sm, path):
    """True if L2 takes no further instruction of this kind from the SM at the moment."""
    full = st.sm[sm, L.SM_FLITS] >= st.par[P.MAX_FLITS]
    if path == PATH_WRITE:  # which may still wait with others, or join them
        full = full and st.sm[sm, L.SM_STORED] >= st.par[P.STORED_LINES]
    return (is_store(path) or path == PATH_ATOMIC) and full


@compiled
def access_lines(st, sm, a, count, path, kept):
    """Sends an instruction on its way: `count` lines in st.touched[sm], addresses in st.address[sm].

    kept: row of st.queued[sm] where it has waited, or -1.
    """
    if path == PATH_READ:
        read_lines(st, sm, a, count, False, np.int64(-1))
        return
    if path == PATH_WRITE:
        write_plain(st, sm, a, count)
        return
    entry = defer(st, sm, a, kept)
    if path >= PATH_REMOTE_READ:
        st.deferred[sm, entry, L.DEFERRED_REMOTE] = 1
    else:
        lines = line_filter(st.touched[sm], count)
        st.sm[sm, L.SM_DEFERRED_LINES] |= 0 if path == PATH_READ_STRONG else lines
        st.deferred[sm, entry, L.DEFERRED_LINES] = lines
    if path in (PATH_REDUCTION, PATH_ATOMIC):
        count, _ = atomic_requests(st.address[sm], st.touched[sm], a.mask, swaps(st, a.pc), a.size)
    if is_store(path):
        write_lines(st, sm, a, count, np.int64(_KIND_OF[path]), entry)
    else:
        atomic_lines(st, sm, a, count, np.int64(_KIND_OF[path]), entry)


@compiled
def keep(st, sm, a, count, path):
    """The instruction waits behind all others that do; its scoreboards count it until it goes on."""
    s = st.sm[sm]
    if exhausted(st, sm, L.POOL_QUEUED, a.warp, s[L.SM_QUEUED], st.queued.shape[1]):
        return
    k = (s[L.SM_QUEUED_FIRST] + s[L.SM_QUEUED]) % st.queued.shape[1]
    s[L.SM_QUEUED] += 1
    h = st.queued[sm, k]
    h[L.QUEUED_WARP] = a.warp
    h[L.QUEUED_PC] = a.pc
    h[L.QUEUED_SMSP] = a.smsp
    h[L.QUEUED_MASK] = a.mask
    h[L.QUEUED_SIZE] = a.size
    h[L.QUEUED_COUNT] = count
    h[L.QUEUED_PATH] = path
    h[L.QUEUED_POLICY] = a.policy
    h[L.QUEUED_PLACE] = keep_place(st.smsp[a.smsp])
    st.smsp[a.smsp, L.SMSP_KEPT] += 1
    for n in range(count):
        for field in range(3):
            st.queued_lines[sm, k, n, field] = st.touched[sm, n, field]
    V.store64(st.queued_address[sm, k], 0, V.load64(st.address[sm], 0))
    hold(st, a.warp, st.code[a.pc, M.COL_RBAR], L.STALL_LONG)
    hold(st, a.warp, st.code[a.pc, M.COL_WBAR], L.STALL_LONG)
    st.warp[a.warp, L.WARP_QUEUED] += 1
    if is_store(path):
        st.warp[a.warp, L.WARP_STORES] += 1
    if path != PATH_READ and path != PATH_WRITE:
        s[L.SM_QUEUED_LINES] |= line_filter(st.touched[sm], count)
        take_operands(st, a, st.queued_values[sm, k])


@compiled
def send_lines(st, sm, a, count, path):
    """An instruction that has issued goes on its way, or waits."""
    if st.sm[sm, L.SM_QUEUED] > 0 or must_wait(st, sm, path):
        keep(st, sm, a, count, path)
    else:
        access_lines(st, sm, a, count, path, np.int64(-1))
    if is_store(path):
        note_store(st.smsp[a.smsp])


@compiled
def take_queued(st, sm):
    """Takes the oldest instruction that waits out of the queue. Returns its row of st.queued[sm].

    Its addresses and lines are the SM's instruction at hand again, and its place in the queue of its sub-partition is
    the one that is entered next.
    """
    s = st.sm[sm]
    k = s[L.SM_QUEUED_FIRST]
    s[L.SM_QUEUED_FIRST] = (k + 1) % st.queued.shape[1]
    s[L.SM_QUEUED] -= 1
    if s[L.SM_QUEUED] == 0:
        s[L.SM_QUEUED_LINES] = 0
    h = st.queued[sm, k]
    for n in range(h[L.QUEUED_COUNT]):
        for field in range(3):
            st.touched[sm, n, field] = st.queued_lines[sm, k, n, field]
    V.store64(st.address[sm], 0, V.load64(st.queued_address[sm, k], 0))
    st.smsp[h[L.QUEUED_SMSP], L.SMSP_PLACE_KEPT] = h[L.QUEUED_PLACE] + 1
    st.smsp[h[L.QUEUED_SMSP], L.SMSP_KEPT] -= 1
    w = h[L.QUEUED_WARP]
    st.warp[w, L.WARP_QUEUED] -= 1
    if is_store(h[L.QUEUED_PATH]):
        st.warp[w, L.WARP_STORES] -= 1
    return np.int64(k)
