"""Thread block clusters: the barrier of a cluster, and shared memory of its other blocks.

Blocks of a cluster run on different SMs, which touch nothing of each other inside a lookahead window. So what one
block does to another takes effect between windows, in order of time, as atomics at L2 do (`deferred.apply_deferred`);
and a barrier opens between windows, once all blocks have arrived. Windows of a launch with clusters are so short that
neither a request from SM to SM nor the barrier takes less (`GPUConfig.cluster_window_cycles`). A shared address has the
block's rank in the cluster in its upper byte, as on the hardware: code builds it from SR_CgaCtaId, or from another rank
with PRMT.
"""

import numpy as np
from numba.core import types

from gpusim.engine.sm.coalescer import atomic_requests, coalesce
from gpusim.engine.sm.l1 import line_words
from gpusim.engine.sm.readiness import all_warps, block, wake
from gpusim.engine.sm.space import fail
from gpusim.engine.state import L, P, compiled, compiled_on_demand, of_block, popc
from isa import microops as M

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
#: A deferred access to another SM keeps the SM above the byte in its shared memory.
SM_SHIFT = 40
BYTE_MASK = (1 << SM_SHIFT) - 1
PEER_SHIFT = 8


@compiled
def peer_of(st, sm, slot, rank):
    """(SM, slot) of the block of a rank in a block's cluster; a block without one is its own."""
    peer = st.block[sm, slot, L.BLOCK_PEER + rank] if st.par[P.CLUSTER_BLOCKS] > 0 else sm << PEER_SHIFT | slot
    return peer >> PEER_SHIFT, peer & ((1 << PEER_SHIFT) - 1)


@compiled
def own_lanes(st, sm, w, mask):
    """Lanes whose shared addresses are the block's own, which lose their rank."""
    address = st.address[sm]
    own = st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_RANK]
    lanes = np.int64(0)
    for lane in range(32):
        if (mask >> lane) & 1 and address[lane] >> RANK_SHIFT == own:
            address[lane] &= OFFSET_MASK
            lanes |= np.int64(1) << lane
    return lanes


@compiled
def own_offsets(st, sm, w):
    """`own_lanes` of all lanes: addresses in other blocks stay as they are, out of all bounds."""
    if st.par[P.CLUSTER_BLOCKS] > 0:
        own_lanes(st, sm, w, np.int64(0xFFFFFFFF))


@compiled
def find_remote(st, sm, i, w, mask, size):
    """Turns the lanes' shared addresses into SM << 40 | byte of its shared memory. False if one is not allowed."""
    address = st.address[sm]
    own = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    loads = st.code[i, M.COL_OP] == M.OP_LOAD
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        rank = address[lane] >> RANK_SHIFT
        offset = address[lane] & OFFSET_MASK
        end = offset + (1 if loads else size)  # as in lsu.shared_access
        misaligned = offset & (size - 1) != 0
        outside = offset < st.par[P.SHARED_FIRST] or end > st.par[P.SHARED_BYTES]
        if misaligned or outside or rank >= max(st.par[P.CLUSTER_BLOCKS], 1):
            error = L.ERROR_MISALIGNED if misaligned else L.ERROR_SHARED_BOUNDS if outside else L.ERROR_CLUSTER
            fail(st, sm, error, i, w, lane, address[lane], size)
            return False
        there, slot = peer_of(st, sm, st.warp[w, L.WARP_BLOCK], rank)
        other = st.block[there, slot]
        # Both fields change only between windows.
        if other[L.BLOCK_STATE] == 0 or other[L.BLOCK_CLUSTER] != own[L.BLOCK_CLUSTER]:
            fail(st, sm, L.ERROR_CLUSTER, i, w, lane, address[lane], size)
            return False
        address[lane] = there << SM_SHIFT | (slot * st.par[P.SHARED_STRIDE] + offset)
    return True


@compiled
def packets_of(st, sm, line, mask, size):
    """A bit for each packet that a store sends for a line: whole sectors, and halves of those that it writes in part
    (H200: `l1tex__m_l1tex2xbar_write_sectors_mem_dshared_op_st.sum`, as measured for `memory.peer`)."""
    words = line_words(st.address[sm], line, mask, max(size, 4))
    packets = np.int64(0)
    for half in range(0, 8, 2):
        sector = (words >> (4 * half)) & 255
        low, high = sector & 15 != 0, sector > 15 and sector != 255
        packets |= (np.int64(low) | np.int64(high) << 1) << half
    return packets


@compiled
def remote_lines(st, sm, i, mask, size):
    """Fills st.touched[sm] with the lines of an access whose addresses `find_remote` has found, and of each with its
    sectors or a store's packets. Returns their number."""
    touched = st.touched[sm]
    op = st.code[i, M.COL_OP]
    if op == M.OP_ATOM or op == M.OP_RED:
        count, _ = atomic_requests(st.address[sm], touched, mask, False)
        return np.int64(count)
    count, _ = coalesce(st.address[sm], touched, mask, size)
    if op != M.OP_LOAD:
        for n in range(count):
            touched[n, 1] = packets_of(st, sm, touched[n, 0], mask, size)
    return np.int64(count)


@compiled_on_demand(types.boolean)
def cluster_barrier(st, sm, q, slot, w, i, mask, time):
    """UCGABAR_ARV, UCGABAR_WAIT. False if the warp has to wait."""
    b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    st.warp[w, L.WARP_PC] = i + 1
    if st.code[i, M.COL_OP] == M.OP_CLUSTER_ARRIVE:
        st.warp[w, L.WARP_CLUSTER_ARRIVALS] += 1
        b[L.BLOCK_CLUSTER_ARRIVED] += popc(mask & st.warp[w, L.WARP_ALIVE])
        b[L.BLOCK_CLUSTER_TIME] = max(b[L.BLOCK_CLUSTER_TIME] + st.par[P.CLUSTER_WARP], time)
        return True
    if b[L.BLOCK_CLUSTER_PHASE] >= st.warp[w, L.WARP_CLUSTER_ARRIVALS]:
        return True
    block(st, w, q, slot, L.WAIT_CLUSTER, L.STALL_BARRIER)
    return False


@compiled
def complete(st, b):
    """(True if all blocks of block b's cluster have arrived, cycle of the last arrival). Exited threads have."""
    last = np.int64(0)
    for rank in range(st.par[P.CLUSTER_BLOCKS]):
        peer = b[L.BLOCK_PEER + rank]
        other = st.block[peer >> PEER_SHIFT, peer & ((1 << PEER_SHIFT) - 1)]
        if other[L.BLOCK_STATE] == 0 or other[L.BLOCK_CLUSTER] != b[L.BLOCK_CLUSTER]:
            continue
        if other[L.BLOCK_CLUSTER_ARRIVED] < other[L.BLOCK_ALIVE]:
            return False, last
        last = max(last, other[L.BLOCK_CLUSTER_TIME])
    return True, last


@compiled
def let_go(st, sm, slot, time):
    """Opens the cluster's barrier for one block: its waiting warps may issue from `time` on."""
    b = st.block[sm, slot]
    b[L.BLOCK_CLUSTER_ARRIVED] = 0
    b[L.BLOCK_CLUSTER_TIME] = 0
    b[L.BLOCK_CLUSTER_PHASE] += 1
    for w in all_warps(st, sm):
        if st.warp[w, L.WARP_BLOCK] == slot and st.warp[w, L.WARP_STATE] == L.WAIT_CLUSTER:
            wake(st, sm, w, time)


@compiled
def open_barriers(st, now):
    """Between windows: opens every cluster barrier at which all blocks have arrived, at `now` or later."""
    for sm in range(st.sm.shape[0]):
        for slot in range(st.par[P.BLOCK_SLOTS]):
            b = st.block[sm, slot]
            if b[L.BLOCK_STATE] == 0 or b[L.BLOCK_CLUSTER_ARRIVED] == 0:
                continue
            st = of_block(st, sm, slot)
            all_there, last = complete(st, b)
            if not all_there:
                continue
            cluster = b[L.BLOCK_CLUSTER]
            time = max(last + st.par[P.CLUSTER_BARRIER], now)
            for rank in range(st.par[P.CLUSTER_BLOCKS]):
                there, where = peer_of(st, sm, slot, rank)
                other = st.block[there, where]
                if other[L.BLOCK_STATE] != 0 and other[L.BLOCK_CLUSTER] == cluster:
                    let_go(st, there, where, time)
