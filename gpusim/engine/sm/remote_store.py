"""Stores and arrivals at mbarriers of other blocks of the cluster, which nobody waits for (STAS, REDAS, SYNCS), and the
question for another block to run (UGETNEXTWORKID)."""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm import tensor_map as tm
from gpusim.engine.sm.access import access
from gpusim.engine.sm.bulk_copy import aligned, inside_shared
from gpusim.engine.sm.bulk_effect import apply_remote, send_news
from gpusim.engine.sm.cluster import OFFSET_MASK, find_remote, remote_lines
from gpusim.engine.sm.flight import event_at
from gpusim.engine.sm.lines import defer, write_lines
from gpusim.engine.state import L, P, compiled
from gpusim.engine.state.log import AS_TRACER, log_addresses
from gpusim.engine.state.memory import KIND_SM_WRITE
from isa import microops as M

_BYTES = 8
_ANSWER = 16


@compiled
def send_store(st, sm, a, entry):
    """On its way to other SMs, as any store there; in a run without time it is there."""
    st.deferred[sm, entry, L.X_REMOTE] = 1
    if st.par[P.MODE] & L.BOOKS == 0:
        apply_remote(st, sm, entry, a.time)
        st.sm[sm, L.S_DEFERRED] = 0
        return
    write_lines(st, sm, a, remote_lines(st, sm, a.pc, a.mask, a.size), np.int64(KIND_SM_WRITE), entry)


@compiled
def remote_arrive(st, sm, q, w, i, wb, mask, time):
    """SYNCS at mbarriers of which some are other blocks'; st.address holds their addresses with ranks."""
    if find_remote(st, sm, i, w, mask, np.int64(_BYTES)):
        a = access(q, w, i, wb, mask, np.int64(_BYTES), time)
        send_store(st, sm, a, defer(st, sm, a, np.int64(-1)))


@compiled
def remote_store(st, sm, q, w, i, wb, mask, time):
    """STAS, REDAS: a value for each lane, of which an mbarrier of the same block hears."""
    size, row = np.int64(st.code[i, M.COL_AUX1]), row_offset(st.code[i, M.COL_A], wb)
    places, address = st.copy_targets[sm], st.address[sm]
    if st.sm[sm, L.S_LOG_ROW] != 0 and st.sm[sm, L.S_LOG] & AS_TRACER:
        for lane in range(32):
            address[lane] = np.int64(st.regs[row + lane]) | np.int64(st.regs[row + 32 + lane]) << 32
        log_addresses(st, sm, i, mask)
    for lane in range(32):
        address[lane] = np.int64(st.regs[row + 32 + lane])
    if not find_remote(st, sm, i, w, mask, np.int64(_BYTES)):
        return
    for lane in range(32):
        places[lane] = address[lane]
        address[lane] = np.int64(st.regs[row + lane])
    if not find_remote(st, sm, i, w, mask, size):
        return
    a = access(q, w, i, wb, mask, size, time)
    entry = defer(st, sm, a, np.int64(-1))
    for lane in range(32):
        st.deferred_values[sm, entry, 4, lane] = np.uint32(places[lane] & 0xFFFFFFFF)
        st.deferred_values[sm, entry, 5, lane] = np.uint32(places[lane] >> 32)
    send_store(st, sm, a, entry)


@compiled
def next_block(st, sm, w, i, wb, time):
    """UGETNEXTWORKID: the answer is that there is none, which is always right: all blocks are started anyway."""
    address = tm.uniform_word(st, wb, st.code[i, M.COL_A], 0)
    barrier = tm.uniform_word(st, wb, st.code[i, M.COL_B], 0)
    if not aligned(st, sm, w, i, address, _ANSWER) or not aligned(st, sm, w, i, barrier, _BYTES):
        return
    size = np.int64(_ANSWER)
    if not inside_shared(st, sm, w, i, address, size) or not inside_shared(st, sm, w, i, barrier, np.int64(_BYTES)):
        return
    slot = st.warp[w, L.W_BLOCK]
    at = (slot * st.par[P.SHARED_STRIDE] + (address & OFFSET_MASK)) >> 2
    for n in range(_ANSWER >> 2):
        st.shared32[sm, at + n] = np.uint32(0)
    n = send_news(st, sm, slot, L.TOKEN_COPY_BYTES, barrier & OFFSET_MASK, size, np.int64(0))
    event_at(st, sm, time + st.par[P.BULK_START], n)
