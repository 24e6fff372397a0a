"""Work in flight: scoreboards, tokens of memory instructions, requests to L2 and the SM's queue of replies.

A *token* stands for one instruction that waits for replies; an *MSHR* (miss status holding register) for one line
request of L1 that several tokens may wait for. Replies arrive through a heap per SM, ordered by time. What has a fixed
number ends the run with an error when it is used up.
"""

import numpy as np

from gpusim.engine.sm.space import exhausted
from gpusim.engine.state import L, P, compiled, ms, popc
from gpusim.engine.state.address_map import PAGE_BITS
from gpusim.engine.state.heap import heap_pop, heap_push

#: Kinds in the second word of a heap entry and REQ_TOKEN: number * 2 + kind, a deferred entry + 1 from bit 32 up.
FOR_TOKEN, FOR_MSHR = range(2)
_NUMBER_BITS = 47  # of a block: three extents of a grid have 31, 16 and 16 bits, but no grid has so many blocks


@compiled
def push_event(st, sm, time, what):
    """Queues an event of the SM. Events of one cycle are taken in the order of their numbers, misses and tokens in
    turn, so it does not matter which was queued first."""
    count = st.sm[sm, L.SM_EVENTS]
    if exhausted(st, sm, L.POOL_EVENTS, 0, count, st.event.shape[1]):
        return
    st.sm[sm, L.SM_EVENTS] = heap_push(st.event_time[sm], st.event[sm], count, time, what)


@compiled
def pop_event(st, sm):
    """Takes the earliest event off and returns what it is."""
    what = st.event[sm, 0]
    st.sm[sm, L.SM_EVENTS] = heap_pop(st.event_time[sm], st.event[sm], st.sm[sm, L.SM_EVENTS])
    return what


@compiled
def note_request(st, sm, time, line, sectors, kind, what, payload, operations):
    """Appends a request to the SM's outgoing queue. False if it is full."""
    n = st.requests[sm]
    if exhausted(st, sm, L.POOL_REQUESTS, 0, n, st.request.shape[1]):
        return False
    r = st.request[sm, n]
    r[ms.REQ_TIME] = time + st.sm[sm, L.SM_WAY]
    r[ms.REQ_LINE], r[ms.REQ_SECTORS] = line, sectors
    r[ms.REQ_KIND] = kind
    r[ms.REQ_TOKEN] = what
    r[ms.REQ_PAYLOAD_BYTES] = payload
    r[ms.REQ_OPS] = operations
    st.requests[sm] = n + 1
    return True


@compiled
def send(st, sm, time, line, sectors, kind, what, payload, operations):
    """Sends a request beyond the SM in this window."""
    if st.par[P.MODE] & L.BOOKS == 0:  # its reply is there
        event_at(st, sm, time, (what & 0xFFFFFFFF) >> 1)
    elif note_request(st, sm, time, line, sectors, kind, what, payload, operations):
        st.sm[sm, L.SM_IN_FLIGHT] += 1
        if kind < ms.KIND_SM_READ:
            st.sm[sm, L.SM_ASKED] = time
            if popc((line >> PAGE_BITS) & st.par[P.PARITY_PAGES]) & 1 != st.sm[sm, L.SM_PARTITION]:
                st.sm[sm, L.SM_ASKED_FAR] = time
    if st.par[P.MODE] & L.KEEPS != 0:
        note_request(st, sm, time, line, sectors, kind, 0, payload, operations)


@compiled
def note_lines(st, sm, a, count, kind):
    """A functional run keeps the requests of an access that would not hit L1, for L2."""
    payload = popc(a.mask) * a.size // max(count, 1)
    for n in range(count):
        sectors = st.touched[sm, n, 1]
        actual = kind
        if kind == ms.KIND_WRITE and payload < popc(sectors) * ms.SECTOR_BYTES:
            actual = ms.KIND_WRITE_PARTIAL
        operations = popc(a.mask) // max(count, 1) if kind == ms.KIND_ATOMIC else a.policy
        note_request(st, sm, a.time, st.touched[sm, n, 0], sectors, actual, 0, payload, operations)


@compiled
def block_key(st, sm, slot):
    """The key of a block, which differs from those of blocks before and after it in its slot (the low eight bits)."""
    b = st.block[sm, slot]
    return (b[L.BLOCK_SEAT] << _NUMBER_BITS | b[L.BLOCK_NUMBER]) << 8 | slot


@compiled
def is_there(st, sm, key):
    """Return whether the block of a key is still on the SM."""
    slot = key & 255
    return st.block[sm, slot, L.BLOCK_STATE] != 0 and block_key(st, sm, slot) == key


@compiled
def take_row(st, sm, w, rows, new, free, following, pool):
    """Takes a row of a pool of the SM, see `arrays.pool`: the last one given back, else the first that was never used.
    Returns its number, -1 after an error if there is none."""
    s = st.sm[sm]
    k = s[free] - 1
    if k >= 0:
        s[free] = rows[k, following]
        return k
    k = s[new]
    if exhausted(st, sm, pool, w, k, rows.shape[0]):
        return np.int64(-1)
    s[new] = k + 1
    return k


@compiled
def give_row(st, sm, rows, k, free, following):
    """Gives row k of a pool back."""
    rows[k, following] = st.sm[sm, free]
    st.sm[sm, free] = k + 1


@compiled
def take_deferred(st, sm, w, i):
    """Takes an entry for what takes effect between windows (`admission` has seen to it that there is one)."""
    entry = st.sm[sm, L.SM_DEFERRED]
    if exhausted(st, sm, L.POOL_DEFERRED, w, entry, st.deferred.shape[1]):
        return np.int64(0)
    st.sm[sm, L.SM_DEFERRED] = entry + 1
    st.deferred[sm, entry, :] = 0
    st.deferred[sm, entry, L.DEFERRED_PC], st.deferred[sm, entry, L.DEFERRED_WARP] = i, w
    return np.int64(entry)


@compiled
def take_token(st, sm, w, scoreboard, kind):
    """Takes a token (`admission` has seen to it that there is one)."""
    k = take_row(st, sm, w, st.token[sm], L.SM_TOKENS_NEW, L.SM_TOKEN_FREE, L.TOKEN_NEXT, L.POOL_TOKENS)
    if k < 0:
        return np.int64(0)
    token = st.token[sm, k]
    st.sm[sm, L.SM_TOKENS] += 1
    token[L.TOKEN_WARP] = w
    token[L.TOKEN_SEAT] = st.par[P.SEAT]
    token[L.TOKEN_AGE] = st.warp[w, L.WARP_AGE]
    token[L.TOKEN_SCOREBOARD] = scoreboard
    token[L.TOKEN_KIND] = kind
    token[L.TOKEN_LEFT] = token[L.TOKEN_SECTORS] = token[L.TOKEN_AMOUNT] = 0
    token[L.TOKEN_TIME] = token[L.TOKEN_AFTER] = token[L.TOKEN_BULK] = 0
    return k


@compiled
def free_token(st, sm, k):
    give_row(st, sm, st.token[sm], k, L.SM_TOKEN_FREE, L.TOKEN_NEXT)
    st.sm[sm, L.SM_TOKENS] -= 1


@compiled
def take_end(st, sm, w, kind, block, address, amount):
    """Takes a token of which one end is missing, until `event_at`. block: key of the block that it is for."""
    k = take_token(st, sm, w, 7, kind)
    token = st.token[sm, k]
    token[L.TOKEN_LEFT] = 1
    token[L.TOKEN_BLOCK], token[L.TOKEN_ADDRESS], token[L.TOKEN_AMOUNT] = block, address, amount
    return k


@compiled
def hold_flits(st, sm, token, lines, flits):
    """Add lines of a store or an atomic that are under way, of which an SM's flits limit the number (H200: 512 of one
    SM). lines: 0 if they hold all of it until the last one is answered."""
    st.token[sm, token, L.TOKEN_SECTORS] += lines
    st.token[sm, token, L.TOKEN_AMOUNT] += flits
    st.sm[sm, L.SM_FLITS] += flits


@compiled
def hold(st, w, scoreboard, reason):
    """The scoreboard waits for a reply whose time is unknown."""
    if scoreboard < 6:
        st.warp[w, L.WARP_PENDING + scoreboard] += 1
        st.warp[w, L.WARP_KIND + scoreboard] = reason


@compiled
def open_group(st, sm, w, field, kind):
    """Token of the warp's group of copies that is not closed yet; while it is open, one end is missing. field:
    WARP_COPIES for asynchronous copies, WARP_BULK for bulk copies out of shared memory."""
    if st.warp[w, field] == 0:
        st.warp[w, field] = 1 + take_end(st, sm, w, kind, np.int64(0), np.int64(0), np.int64(0))
    return st.warp[w, field] - 1


@compiled
def close_group(st, sm, w, field, kind, time, scoreboard):
    """The copies of `open_group` so far are a group; the scoreboard counts it until all of it is over: bulk copies when
    they have left shared memory. Returns its token."""
    k = open_group(st, sm, w, field, kind)
    st.warp[w, field] = 0
    st.token[sm, k, L.TOKEN_SCOREBOARD] = scoreboard
    hold(st, w, scoreboard, L.STALL_LONG)
    event_at(st, sm, time + 1, k)
    return k


@compiled
def event_at(st, sm, time, k):
    """An end of known time of token k comes by the queue of replies, as those of unknown time do."""
    push_event(st, sm, time, 2 * k + FOR_TOKEN)
    st.sm[sm, L.SM_IN_FLIGHT] += 1


@compiled
def close_copies(st, sm, w, time, scoreboard):
    """`close_group` of asynchronous copies, which is over when all of it, and of the groups before it, has arrived."""
    k = close_group(st, sm, w, L.WARP_COPIES, L.COPY_TOKEN, time, scoreboard)
    before = st.warp[w, L.WARP_CLOSED] - 1
    if before >= 0:
        st.token[sm, before, L.TOKEN_AFTER] = k + 1
        st.token[sm, k, L.TOKEN_LEFT] += 1
    st.warp[w, L.WARP_CLOSED] = k + 1


@compiled
def release_at(st, w, scoreboard, time, reason):
    """The scoreboard is busy until `time` at least."""
    if scoreboard < 6 and time > st.warp[w, L.WARP_RELEASE + scoreboard]:
        st.warp[w, L.WARP_RELEASE + scoreboard] = time
        if st.warp[w, L.WARP_PENDING + scoreboard] == 0:  # else what it waits for longest is memory
            st.warp[w, L.WARP_KIND + scoreboard] = reason


@compiled
def deliver(st, queue, count, m):
    """Moves the replies of a window (`queue` rows: SM, request number) and of deferred reads to their SMs' queues."""
    for n in range(count):
        sm = queue[n, 0]
        r = st.request[sm, queue[n, 1]]
        reply = r[ms.REQ_REPLY]
        if reply < 0:  # not known yet
            continue
        push_event(st, sm, reply, r[ms.REQ_TOKEN] & 0xFFFFFFFF)
        if r[ms.REQ_KIND] == ms.KIND_REDUCTION:  # the fence at the end comes back from its slice as a load does
            reply -= st.par[P.REDUCTION_EXTRA]
        st.sm[sm, L.SM_LAST_REPLY] = max(st.sm[sm, L.SM_LAST_REPLY], reply)
    late = m[ms.P_LATE]
    while m[late + ms.LATE_DONE] != 0:
        entry = m[late + ms.LATE_DONE]
        sm, reply = m[entry + 5] >> 32, (m[entry + 4] + ms.TICKS - 1) >> ms.TICK_BITS
        push_event(st, sm, reply, m[entry + 5] & 0xFFFFFFFF)
        st.sm[sm, L.SM_LAST_REPLY] = max(st.sm[sm, L.SM_LAST_REPLY], reply)
        m[late + ms.LATE_DONE], m[entry], m[late + ms.LATE_FREE] = m[entry], m[late + ms.LATE_FREE], entry
    st.requests[:] = 0
    st.sm[:, L.SM_DEFERRED] = 0
    st.sm[:, L.SM_DEFERRED_LINES] = 0
