"""Effects of bulk copies when their time has come: bytes move, reductions take place, mbarriers are told.

Copies to a block's own shared memory land on its SM when L2 has replied. Stores are read from it, and are in global
memory as other plain stores are, when their last byte has left; then their group is over, be it waited for with .read
or without (H200: both take as long, much less than a reply of L2). All others take effect between windows, in order of
time among atomics at L2: reductions, whose group is over then at the earliest, and what goes to other blocks of the
cluster. That is sent on to their SMs, where it lands as their own copies do. Copies from block to block are there when
the window ends; their mbarriers hear of them at the right time.
"""

import numpy as np

from gpusim.engine.rows.lanes import equal64, join, load_words, splat64
from gpusim.engine.sm import tensor_box as tb
from gpusim.engine.sm.atomics import take_effect_remotely
from gpusim.engine.sm.cluster import BYTE_MASK, SM_SHIFT, peer_of
from gpusim.engine.sm.flight import block_key, event_at, free_token, give_row, is_there, take_end, take_row
from gpusim.engine.sm.mbarrier import amount, tell
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit, of_seat, popc
from isa import microops as M


@compiled
def take_bulk(st, sm, w, i):
    """A row of State.bulk, for a copy of the warp's block."""
    row = take_row(st, sm, w, st.bulk[sm], L.SM_BULKS_NEW, L.SM_BULK_FREE, L.BULK_NEXT, L.POOL_BULK)
    if row < 0:
        return np.int64(0)
    k = st.bulk[sm, row]
    k[:] = 0
    k[L.BULK_PC], k[L.BULK_WARP], k[L.BULK_SEAT] = i, w, st.par[P.SEAT]
    k[L.BULK_BLOCK] = block_key(st, sm, st.warp[w, L.WARP_BLOCK])
    return row


@compiled
def free_bulk(st, sm, row):
    st.bulk[sm, row, L.BULK_BYTES] = 0
    give_row(st, sm, st.bulk[sm], row, L.SM_BULK_FREE, L.BULK_NEXT)


@compiled
def move_plain(st, k, words, to, source, from_):
    """Bytes that lie together, as they are or by a reduction."""
    if st.code[k[L.BULK_PC], M.COL_AUX4] & M.BULK_KIND in (M.BULK_REDUCE, M.BULK_SHARED_REDUCE):
        kind, operation = st.code[k[L.BULK_PC], M.COL_AUX3], st.code[k[L.BULK_PC], M.COL_AUX2]
        step = 2 if kind in (M.TYPE_F16X2, M.TYPE_BF16X2) else 8 if kind in (M.TYPE_U64, M.TYPE_S64, M.TYPE_F64) else 4
        for n in range(0, k[L.BULK_BYTES], step):
            tb.combine(words, to + n, source, from_ + n, step, kind, operation)
        return
    for n in range(k[L.BULK_BYTES] >> 2):
        words[(to >> 2) + n] = source[(from_ >> 2) + n]


@compiled
def move(st, sm, k, load, operation):
    """Moves a copy's bytes to its block's shared memory from global memory, or out of it. operation: of a reduction, -1
    for plain copies."""
    own = (k[L.BULK_BLOCK] & 255) * st.par[P.SHARED_STRIDE] + k[L.BULK_SHARED]
    at = k[L.BULK_MEMORY] - st.par[P.MEMORY_BASE]
    if st.code[k[L.BULK_PC], M.COL_AUX4] & M.BULK_TENSOR != 0:
        tb.move_box(st, sm, k, load, operation)
    elif load:
        move_plain(st, k, st.shared32[sm], own, st.memory32, at)
    else:
        move_plain(st, k, st.memory32, at, st.shared32[sm], own)


@compiled_on_demand()
def leave_with_block(st, sm, slot):
    """A block ends: what it has stored and not waited for leaves its shared memory before another block gets it."""
    for row in range(st.sm[sm, L.SM_BULKS_NEW]):
        k = st.bulk[sm, row]
        if k[L.BULK_BYTES] == 0 or k[L.BULK_BLOCK] != block_key(st, sm, slot):
            continue
        if st.code[k[L.BULK_PC], M.COL_AUX4] & M.BULK_KIND == M.BULK_STORE:
            move(st, sm, k, False, np.int64(-1))
            k[L.BULK_BYTES] = 0


@compiled_on_demand()
def land(st, sm, row, now):
    """Complete a copy: write what it loads, unless its block has ended; a store's bytes leave if they have not."""
    k = st.bulk[sm, row]
    st = of_seat(st, k[L.BULK_SEAT])
    if st.code[k[L.BULK_PC], M.COL_AUX4] & M.BULK_KIND == M.BULK_STORE:
        if k[L.BULK_BYTES] > 0:
            move(st, sm, k, False, np.int64(-1))
        event_at(st, sm, now, k[L.BULK_GROUP])
    elif is_there(st, sm, k[L.BULK_BLOCK]):
        move(st, sm, k, True, np.int64(-1))
    free_bulk(st, sm, row)


@compiled
def send_news(st, sm, slot, kind, barrier, transactions, arrivals):
    """A token that tells an mbarrier of a block something. Returns it."""
    n = take_end(st, sm, 0, kind, block_key(st, sm, slot), barrier, transactions)
    st.token[sm, n, L.TOKEN_SECTORS] = arrivals
    return n


@compiled
def deliver_news(st, sm, n, time):
    """The token's event comes at `time`; at once in a run without time."""
    if st.par[P.MODE] & L.BOOKS != 0:
        event_at(st, sm, time, n)
        return
    if st.token[sm, n, L.TOKEN_BULK] > 0:
        land(st, sm, st.token[sm, n, L.TOKEN_BULK] - 1, time)
    tell(st, sm, n, time)
    free_token(st, sm, n)


@compiled
def copy_to_peer(st, sm, k, rank, time):
    """Sends a copy's bytes, or news of them, to one block of the cluster."""
    own = k[L.BULK_BLOCK] & 255
    there, slot = peer_of(st, sm, own, rank)
    told, whose = peer_of(st, sm, own, rank & ~1 | k[L.BULK_TOLD] - 1) if k[L.BULK_TOLD] else (there, slot)
    news = send_news(st, told, whose, L.COPY_BYTES_TOKEN, k[L.BULK_BARRIER], k[L.BULK_BYTES], np.int64(0))
    if st.code[k[L.BULK_PC], M.COL_AUX4] & M.BULK_KIND == M.BULK_LOAD:
        row = take_bulk(st, there, k[L.BULK_WARP], k[L.BULK_PC])
        copy = st.bulk[there, row]
        for n in range(L.BULK_FIELDS):
            copy[n] = k[n]
        copy[L.BULK_BLOCK] = block_key(st, there, slot)
        if told == there:
            st.token[there, news, L.TOKEN_BULK] = row + 1
        elif st.par[P.MODE] & L.BOOKS != 0:
            landing = send_news(st, there, slot, L.BULK_WRITE_TOKEN, np.int64(0), np.int64(0), np.int64(0))
            st.token[there, landing, L.TOKEN_BULK] = row + 1
            event_at(st, there, time, landing)
        else:
            land(st, there, row, time)
    else:
        from_ = own * st.par[P.SHARED_STRIDE] + k[L.BULK_MEMORY]
        to = slot * st.par[P.SHARED_STRIDE] + k[L.BULK_SHARED]
        move_plain(st, k, st.shared32[there], to, st.shared32[sm], from_)
    deliver_news(st, told, news, time)


@compiled_on_demand()
def apply_copy(st, sm, entry, time):
    """A deferred copy takes effect; L2 has replied to the last of its requests at `time`."""
    row = st.deferred[sm, entry, L.DEFERRED_BULK] - 1
    k = st.bulk[sm, row]
    st = of_seat(st, k[L.BULK_SEAT])
    kind = st.code[k[L.BULK_PC], M.COL_AUX4] & M.BULK_KIND
    if kind == M.BULK_REDUCE:
        move(st, sm, k, False, np.int64(st.code[k[L.BULK_PC], M.COL_AUX2]))
        event_at(st, sm, k[L.BULK_SENT], k[L.BULK_GROUP])
    else:
        for rank in range(max(st.par[P.CLUSTER_BLOCKS], 1)):
            if (k[L.BULK_BLOCKS] >> rank) & 1:
                copy_to_peer(st, sm, k, np.int64(rank), time)
    free_bulk(st, sm, row)


@compiled
def tell_place(st, place, time, transactions, arrivals):
    """News for the mbarrier at SM << 40 | byte of its shared memory."""
    there, byte = place >> SM_SHIFT, place & BYTE_MASK
    slot, barrier = byte // st.par[P.SHARED_STRIDE], byte % st.par[P.SHARED_STRIDE]
    n = send_news(st, there, slot, L.REMOTE_TOKEN, barrier, transactions, arrivals)
    deliver_news(st, there, n, time)


@compiled_on_demand()
def apply_remote(st, sm, entry, time):
    """A deferred SYNCS or STAS on other blocks' shared memory."""
    i, mask = st.deferred[sm, entry, L.DEFERRED_PC], st.deferred[sm, entry, L.DEFERRED_MASK]
    values = st.deferred_values[sm, entry]
    if st.code[i, M.COL_OP] == M.OP_SYNCS:
        what = st.code[i, M.COL_AUX5]
        dropped = np.int64(1) << 32 if what & M.SYNCS_DROP else np.int64(0)
        for lane in range(32):
            if (mask >> lane) & 1:
                value = np.int64(values[0, lane])
                more = amount((what >> 4) & 15, value)
                place = st.deferred_address[sm, entry, lane]
                tell_place(st, place, time, -more, amount(what & 15, value) | dropped)
        return
    take_effect_remotely(st, sm, entry)
    size, left = np.int64(st.code[i, M.COL_AUX1]), np.int64(mask)
    places = join(load_words(values[4], 0), load_words(values[5], 0))
    while left != 0:
        first = lowest_bit(left)
        place = np.int64(values[4, first]) | np.int64(values[5, first]) << 32
        lanes = np.int64(equal64(places, splat64(place))) & left
        tell_place(st, place, time, popc(lanes) * size, np.int64(0))
        left &= ~lanes
