"""Ports of the crossbar, slices and the fabric between partitions: throughput, and how queues add up.

A request passes several resources. Each is booked at the time the request leaves its SM, and the request is late by
the longest of the waits, not by their sum: in a chain of first-come queues the work in front of the slowest one is
what counts, and the others drain meanwhile. Only what comes late, out of memory, books the fabric when it comes there.
"""

import numpy as np

from gpusim.engine.memory.place import CPC, GPC, PORT, place_of
from gpusim.engine.state import compiled, ms


@compiled
def book(free_at, resource, now, occupancy):
    """Take `resource` for `occupancy` ticks, at `now` or as soon as it is free; return the wait."""
    wait = max(free_at[resource] - now, 0)
    free_at[resource] = now + wait + occupancy
    return wait


@compiled
def book_request(m, sm, payload_bytes, flits, now):
    """Send a request with its data from an SM to its own partition, in so many parts; return the wait.

    H200: a CPC of six SMs stores 5.0 sectors a cycle and sends 5.3 reductions of a word, however many other CPCs do
    nothing; its loads it does not hold up, which have no parts here.
    """
    port = m[ms.P_REQUEST_PORTS] + place_of(m, sm, PORT)
    wait = book(m, port, now, (m[ms.P_HEADER_BYTES] + payload_bytes) * m[ms.P_REQUEST_BYTE])
    way = m[ms.P_CPC_PORTS] + place_of(m, sm, CPC)
    return max(wait, book(m, way, now, flits * m[ms.P_CPC_FLIT])) if flits > 0 else wait


@compiled
def book_slice(m, slice_, sectors, busy, now):
    """Take a request into a slice, which is busy with it for so many ticks, and move `sectors` sectors of its data
    array; return the wait.

    H200, all SMs: stores of whole lines reach L2 in 106 parts a cycle, of a sector each in 112, loads in 76 to 91.
    """
    m[m[ms.P_SLICE_SECTORS] + slice_] += sectors
    return book(m, m[ms.P_SLICE_QUEUES] + slice_, now, max(busy, sectors * m[ms.P_SLICE_SECTOR]))


@compiled
def book_fabric(m, source_partition, sectors, now):
    """Move `sectors` sectors out of a partition over the fabric; return the wait."""
    return book(m, m[ms.P_FABRIC] + source_partition, now, sectors * m[ms.P_FABRIC_SECTOR])


@compiled
def defer(m, partition, sectors, at, rest, least, whose):
    """Have a read from memory take its turn out of a partition when it comes to the fabric, at `at`, and return -1; if
    too many do, `least`, at which its answer is there at the earliest.

    rest: ticks from the fabric to its SM. whose: SM << 32 | token.
    """
    late = m[ms.P_LATE]
    entry = m[late + ms.LATE_FREE]
    if entry == 0:
        return least
    first = m[late + ms.LATE_SLOT]
    head = late + ms.LATE_HEADS + min(max(at >> ms.TICK_BITS, first), first + ms.SLOTS - 1) % ms.SLOTS
    m[late + ms.LATE_FREE], m[entry], m[head] = m[entry], m[head], entry
    m[entry + 1], m[entry + 2], m[entry + 3] = partition << ms.SECTORS_PER_LINE | sectors, at, rest
    m[entry + 4], m[entry + 5] = least, whose
    m[late + ms.LATE_COUNT] += 1
    return np.int64(-1)


@compiled
def let_cross(m, until):
    """Let the deferred reads cross the fabric that come to it before `until`."""
    late = m[ms.P_LATE]
    while m[late + ms.LATE_COUNT] > 0 and m[late + ms.LATE_SLOT] < until >> ms.TICK_BITS:
        head = late + ms.LATE_HEADS + m[late + ms.LATE_SLOT] % ms.SLOTS
        while m[head] != 0:
            entry, what = m[head], m[m[head] + 1]
            wait = book_fabric(m, what >> ms.SECTORS_PER_LINE, what % (1 << ms.SECTORS_PER_LINE), m[entry + 2])
            m[entry + 4] = max(m[entry + 4], m[entry + 2] + wait + m[entry + 3])
            m[head], m[entry], m[late + ms.LATE_DONE] = m[entry], m[late + ms.LATE_DONE], entry
            m[late + ms.LATE_COUNT] -= 1
        m[late + ms.LATE_SLOT] += 1
    if m[late + ms.LATE_COUNT] == 0:
        m[late + ms.LATE_SLOT] = until >> ms.TICK_BITS


@compiled
def book_reply(m, sm, sectors, each, now):
    """Bring `sectors` sectors to an SM, through the way that its GPC shares and its own, in `each` ticks; return the
    wait.

    H200, lines that L2 has near: an SM alone gets 48 bytes a cycle, 105 by a bulk copy; strong loads get as much where
    both SMs of a TPC or six of a CPC read, 39 where 16 of a GPC do, 35 where 18 of one do, 35.7 where all do.
    """
    shared = book(m, m[ms.P_REPLY_PORTS] + place_of(m, sm, GPC), now, sectors * m[ms.P_GPC_REPLY_SECTOR])
    return max(shared, book(m, m[ms.P_SM_PORTS] + sm, now, sectors * each))
