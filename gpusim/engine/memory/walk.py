"""The way of one request through crossbar, L2 and memory: reads, stores and atomics.

Every function takes the request at `now` (ticks, when it leaves its SM) and returns the time at which its last
sector, or its acknowledgement, is back at the SM. Which slices it passes says its `place.SlicePair`.
"""

import numpy as np

from gpusim.engine.memory import l2
from gpusim.engine.memory.crossbar import book, book_fabric, book_reply, book_request, book_slice, defer
from gpusim.engine.memory.place import GPC, place_of, target_of
from gpusim.engine.memory.policy import class_of
from gpusim.engine.memory.request_coalescer import NOBODY, join, note
from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import spread

_WORD_BYTES = 4
_WORDS_PER_SECTOR = ms.SECTOR_BYTES // _WORD_BYTES  # which an atomic unit updates at once
_MOST_MISSING = ms.SECTOR_BYTES - _WORD_BYTES  # bytes that a sector lacks if one word of it is written
_FRACTION_BITS = 10


@compiled
def near_ticks(m, gpc, slice_):
    """From a request's start to its first sector on a hit near at hand; H200: 250 to 345 cycles, evenly spread."""
    place = spread(gpc * m[ms.P_SLICES] + slice_, 1 << _FRACTION_BITS)
    return m[ms.P_NEAR] + ((place * m[ms.P_SPREAD]) >> _FRACTION_BITS) - (m[ms.P_SPREAD] >> 1)


@compiled
def ask(m, sm, slice_):
    """Note that an SM has asked a slice, which a barrier over the fabric flushes at the kernel's end, as on an H200."""
    if m[ms.P_PARTITIONS] > 1:
        word = m[ms.P_ASKED] + sm * m[ms.P_ASKED_WORDS] + slice_ // ms.ASKED_BITS
        bit = 1 << (slice_ % ms.ASKED_BITS)
        if m[word] & bit == 0:
            m[word] |= bit
            m[ms.CNT_FABRIC_BARRIERS] += 1


@compiled
def send_home(m, sm, target, payload_bytes, sectors, sent, flits, now):
    """Send `payload_bytes` of data for so many sectors to their home slice, which takes them in `flits` parts, of which
    the CPC sends `sent`; return (wait, what a far home adds)."""
    busy = flits * m[ms.P_SLICE_FLIT]
    wait = max(book_request(m, sm, payload_bytes, sent, now), book_slice(m, target.home_slice, sectors, busy, now))
    if target.near == target.home:
        return wait, 0
    m[ms.CNT_FABRIC_WRITE_SECTORS] += sectors
    m[m[ms.P_SLICE_SECTORS] + target.near_slice] += sectors
    return max(wait, book_fabric(m, target.near, sectors, now)), m[ms.P_FAR]


@compiled
def walk_read(m, sm, line, sectors, kind, past, policy, token, later, now):
    """A load, a prefetch, or a fetch of instructions or constants. past: not through L1. policy: see `memory.policy`.
    later: ticks by which the answer is late besides. Returns -1 if its time is not known yet."""
    gpc = place_of(m, sm, GPC)
    each = m[ms.P_SM_PAST_SECTOR] if past else m[ms.P_SM_REPLY_SECTOR]
    count = l2.sectors_of(sectors)
    target = target_of(m, sm, line, class_of(m, line, policy))
    ask(m, sm, target.home_slice)
    purpose = l2.FOR_NOBODY if kind == ms.KIND_PREFETCH else l2.FOR_HOME
    opens = kind < ms.KIND_PREFETCH and m[ms.P_LRC_MOST] > 1
    if opens:
        reply = join(m, gpc, line, sectors, now)
        if reply >= 0:
            # H200: the data come once for all SMs that wait (matmul_hopper: 47 bytes a cycle and SM, of its own 32),
            # and the read does not go on to L2 (random sectors of 4,096 lines: 75 of 120 requests a cycle do).
            wait = book(m, m[ms.P_SM_PORTS] + sm, now, count * each)
            return max(reply, now + m[ms.P_NEAR] - (m[ms.P_SPREAD] >> 1) + wait) + (count - 1) * each + later
        opens = reply == NOBODY
    first_back = now + near_ticks(m, gpc, target.near_slice)
    front = book_slice(m, target.near_slice, count if purpose == l2.FOR_HOME else 0, m[ms.P_SLICE_READ], now)
    front = max(front, book_request(m, sm, 0, 0, now))
    wait = book_reply(m, sm, count, each, now) if purpose == l2.FOR_HOME else 0
    if target.near == target.home:
        late, present, fetched = l2.read_home(m, target, sectors, purpose, now)
        late, crosses = max(front, late), np.int64(0)
    else:
        late, present, fetched, crosses = read_far(m, target, sectors, purpose, front, now)
    reply = first_back + max(wait, late)
    if purpose != l2.FOR_HOME:
        reply = first_back  # H200: not even the kernel's end waits
    elif opens:
        note(m, gpc, line, sectors, reply, now + late)
    hits = l2.sectors_of(present)
    if kind >= ms.KIND_INSTRUCTION:
        m[ms.CNT_OTHER_SECTORS] += count
        m[ms.CNT_OTHER_HIT_SECTORS] += hits
    else:
        m[ms.CNT_TEX_READ_SECTORS if purpose == l2.FOR_HOME else ms.CNT_TEX_PREFETCH_SECTORS] += count
        m[ms.CNT_TEX_HIT_SECTORS] += hits
        m[ms.CNT_TEX_MISS_SECTORS] += l2.sectors_of(fetched)
    later += (count - 1) * each
    if crosses > 0:
        rest = first_back + m[ms.P_FAR] + later - now
        return defer(m, target.home, l2.sectors_of(fetched), crosses, rest, reply + later, sm << 32 | token)
    return reply + later


@compiled
def read_far(m, target, sectors, purpose, wait, now):
    """The part of a read whose line lives in another partition; `wait` is that of its way to the near slice and back.

    Returns (ticks later than a hit near at hand, sectors that were there, sectors asked of the home, when these come to
    the fabric out of memory or 0). A prefetch looks for no copy and leaves none: an H200 counts misses of it and of the
    loads that follow.
    """
    keep = m[ms.P_NEAR_COPY] != 0 and purpose == l2.FOR_HOME
    entry = l2.lookup(m, target.near_slice, target) if keep else -1
    present = 0
    late, crosses = wait, np.int64(0)
    if entry >= 0:
        present = m[entry] & sectors
        if present != 0:
            late = max(late, l2.still_pending(m, entry, present, now))
    missing = sectors & ~present
    if missing != 0:
        if keep:
            missing = l2.widened(m, missing)
            if entry >= 0:
                missing &= ~m[entry]
        count = l2.sectors_of(missing)
        moves = count if purpose == l2.FOR_HOME else 0
        wait = max(wait, book_slice(m, target.home_slice, moves, m[ms.P_SLICE_READ], now))
        at_home, _, fetched = l2.read_home(m, target, missing, l2.FOR_COPY if keep else purpose, now)
        if moves > 0 and fetched != 0:
            crosses = now + at_home
        else:
            wait = max(wait, book_fabric(m, target.home, moves, now))
        back = m[ms.P_FAR] + max(wait, at_home)
        late = max(late, back)
        m[ms.CNT_FABRIC_READ_SECTORS] += count
        m[ms.CNT_FABRIC_MISS_SECTORS] += l2.sectors_of(fetched)
        if keep:
            if entry < 0:
                entry, room = l2.replace(m, target.near_slice, target, now)
                late = max(late, room)
            l2.mark_pending(m, entry, missing, now + back, now)
    return late, present, missing, crosses


@compiled
def walk_write(m, sm, line, sectors, kind, payload_bytes, policy, now):
    """A store; the reply is its acknowledgement, which says that L2 has taken it.

    Sectors that it writes in part are merged with what is there by the unit that also does atomics. A request says
    how many bytes it writes, not where: as few sectors count as partly written as can lack the others.
    """
    target = target_of(m, sm, line, class_of(m, line, policy))
    count = l2.sectors_of(sectors)
    sent = count if kind == ms.KIND_WRITE else 1 + count  # as in `stored.store_cycles`
    wait, far = send_home(m, sm, target, payload_bytes, count, sent, 1 + count, now)
    sector_bytes = ms.SECTOR_BYTES if kind == ms.KIND_WRITE else max(payload_bytes // count, 1)
    missing = count * ms.SECTOR_BYTES - payload_bytes
    if kind != ms.KIND_WRITE and missing > 0:
        partial = min((missing + _MOST_MISSING - 1) // _MOST_MISSING, count)
        cost = m[ms.P_PARTIAL_REQUEST] + partial * m[ms.P_PARTIAL_WRITE]
        wait = max(wait, book(m, m[ms.P_ATOMIC_UNITS] + target.home_slice, now, cost))
    ask(m, sm, target.home_slice)
    room = l2.write_home(m, target, sectors, sector_bytes, now)
    if target.near != target.home and m[ms.P_NEAR_COPY] != 0 and sector_bytes >= ms.SECTOR_BYTES:
        entry, kept = l2.line_in(m, target.near_slice, target, now)  # a copy stays in the writer's partition
        m[entry] |= sectors
        room = max(room, kept)
    m[ms.CNT_TEX_WRITE_SECTORS] += count
    m[ms.CNT_TEX_HIT_SECTORS] += count
    return now + near_ticks(m, place_of(m, sm, GPC), target.near_slice) + far + max(wait, room)


@compiled
def walk_atomic(m, sm, line, sectors, kind, payload_bytes, operations, now):
    """An atomic with or without return, done by the atomic unit of the home slice."""
    target = target_of(m, sm, line, class_of(m, line, np.int64(0)))
    count = l2.sectors_of(sectors)
    parts = 1 + count if operations & ~ms.OPS_FLOAT > 1 else 1
    if kind == ms.KIND_ATOMIC:  # each sector by itself
        parts = 2 * count + max((operations & ~ms.OPS_FLOAT) - count, 0) // _WORDS_PER_SECTOR
    wait, far = send_home(m, sm, target, payload_bytes, count, parts, 1, now)  # the slice is busy adding
    reply = now + m[ms.P_NEAR] + m[ms.P_ATOMIC_EXTRA] + far
    least, last = m[ms.P_ATOMIC_REQUEST], m[ms.P_ATOMIC_LAST] + target.home_slice
    if operations & ms.OPS_FLOAT != 0:  # an addition needs the one before it, which integers do not show
        operations &= ~ms.OPS_FLOAT
        least = m[ms.P_ATOMIC_FLOAT] if m[last] == line << 4 | sectors else least
    other = m[last] >> 4 != line
    m[last] = line << 4 | sectors
    passes = max(count, (operations + _WORDS_PER_SECTOR - 1) // _WORDS_PER_SECTOR)
    whole = payload_bytes >= count * ms.SECTOR_BYTES
    # H200: whole lines take no longer in turns, words of hashed lines do; of 16 long words a line takes 4.7 cycles too.
    turn = m[ms.P_ATOMIC_TURN] if other and payload_bytes < ms.LINE_BYTES else 0
    cost = passes * (m[ms.P_ATOMIC_WHOLE_SECTOR] if whole else m[ms.P_ATOMIC_SECTOR])
    wait = max(wait, book(m, m[ms.P_ATOMIC_UNITS] + target.home_slice, now, max(least, cost) + turn))
    if kind == ms.KIND_ATOMIC:
        wait = max(wait, book_reply(m, sm, count, m[ms.P_SM_REPLY_SECTOR], now))
        wait = max(wait, book_fabric(m, target.home, count, now) if far != 0 else 0)
        m[ms.CNT_TEX_ATOMIC_SECTORS] += count
        reply += (count - 1) * m[ms.P_SM_REPLY_SECTOR]
    else:
        m[ms.CNT_TEX_REDUCTION_SECTORS] += count
    ask(m, sm, target.home_slice)
    late, present, fetched = l2.read_home(m, target, sectors, l2.FOR_UPDATE, now)
    if target.near == target.home:
        m[ms.CNT_TEX_HIT_SECTORS] += l2.sectors_of(present)
        m[ms.CNT_TEX_MISS_SECTORS] += l2.sectors_of(fetched)
    else:
        m[ms.CNT_TEX_HIT_SECTORS] += count
        m[ms.CNT_FABRIC_MISS_SECTORS] += l2.sectors_of(fetched)
    return reply + max(wait, late)
