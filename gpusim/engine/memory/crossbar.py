"""Ports of the crossbar, slices and the fabric between partitions: throughput, and how queues add up.

A request passes several resources. Each is booked at the time the request leaves its SM, and the request is late by
the longest of the waits, not by their sum: in a chain of first-come queues the work in front of the slowest one is
what counts, and the others drain meanwhile. It also keeps a reply that comes late (from memory) from holding up
earlier ones.
"""

from gpusim.engine.memory.place import cpc_of, gpc_of, port_of
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
    port = m[ms.P_REQUEST_PORTS] + port_of(m, sm)
    wait = book(m, port, now, (m[ms.P_HEADER_BYTES] + payload_bytes) * m[ms.P_REQUEST_BYTE])
    return max(wait, book(m, m[ms.P_CPC_PORTS] + cpc_of(m, sm), now, flits * m[ms.P_CPC_FLIT])) if flits > 0 else wait


@compiled
def book_slice(m, slice_, sectors, busy, now):
    """Take a request into a slice, which is busy with it for so many ticks, and move `sectors` sectors of its data
    array; return the wait.

    H200, all SMs: stores of whole lines reach L2 in 106 parts a cycle, of a sector each in 112, loads in 76 to 91.
    """
    m[m[ms.P_SLICE_SECTORS] + slice_] += sectors
    return book(m, m[ms.P_SLICE_QUEUES] + slice_, now, max(busy, sectors * m[ms.P_SLICE_SECTOR]))


@compiled
def book_fabric(m, source_partition, sectors, at, now):
    """Move `sectors` sectors out of a partition over the fabric, at `at` or as soon as there is room; return the wait.

    What comes late, out of memory, leaves the time before to others that are visited later: each slot of time has its
    own room, and the last one from `now` on takes all that finds none before.
    """
    last = (now >> ms.SLOT_BITS) + ms.SLOTS - 1
    slot = min(at >> ms.SLOT_BITS, last)
    while True:
        word = m[ms.P_FABRIC] + source_partition * ms.SLOTS + slot % ms.SLOTS
        taken = m[word] & ms.TAKEN_MASK if m[word] >> ms.TAKEN_BITS == slot else 0
        if taken < 1 << ms.SLOT_BITS or slot == last:
            m[word] = slot << ms.TAKEN_BITS | min(taken + sectors * m[ms.P_FABRIC_SECTOR], ms.TAKEN_MASK)
            return max((slot << ms.SLOT_BITS) + taken - at, 0)
        slot += 1


@compiled
def book_reply(m, sm, sectors, each, now):
    """Bring `sectors` sectors to an SM, through the way that its GPC shares and its own, in `each` ticks; return the
    wait.

    H200, lines that L2 has near: an SM alone gets 48 bytes a cycle, 105 by a bulk copy; strong loads get as much where
    both SMs of a TPC or six of a CPC read, 39 where 16 of a GPC do, 35 where 18 of one do, 35.7 where all do.
    """
    shared = book(m, m[ms.P_REPLY_PORTS] + gpc_of(m, sm), now, sectors * m[ms.P_GPC_REPLY_SECTOR])
    return max(shared, book(m, m[ms.P_SM_PORTS] + sm, now, sectors * each))
