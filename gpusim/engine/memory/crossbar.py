"""Ports of the crossbar, slices and the fabric between partitions: throughput, and how queues add up.

A request passes several resources. Each is booked at the time the request leaves its SM, and the request is late by
the longest of the waits, not by their sum: in a chain of first-come queues the work in front of the slowest one is
what counts, and the others drain meanwhile. It also keeps a reply that comes late (from memory) from holding up
earlier ones.
"""

from gpusim.engine.memory.place import cpc_of, port_of
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

    H200: of the parts of stores, reductions and atomics of all SMs 4.0 to 4.2 a cycle leave each CPC, as of loads.
    """
    port = m[ms.P_REQUEST_PORTS] + port_of(m, sm)
    wait = book(m, port, now, (m[ms.P_HEADER_BYTES] + payload_bytes) * m[ms.P_REQUEST_BYTE])
    return max(wait, book(m, m[ms.P_CPC_PORTS] + cpc_of(m, sm), now, flits * m[ms.P_CPC_REQUEST]))


@compiled
def book_slice(m, slice_, sectors, now):
    """Look a request up in a slice and move `sectors` sectors of its data array; return the wait."""
    m[m[ms.P_SLICE_SECTORS] + slice_] += sectors
    return book(m, m[ms.P_SLICE_QUEUES] + slice_, now, max(m[ms.P_SLICE_LOOKUP], sectors * m[ms.P_SLICE_SECTOR]))


@compiled
def book_fabric(m, source_partition, sectors, now):
    """Move `sectors` sectors out of a partition over the fabric; return the wait."""
    return book(m, m[ms.P_FABRIC] + source_partition, now, sectors * m[ms.P_FABRIC_SECTOR])


@compiled
def book_atomic(m, slice_, cost, now):
    """Take a slice's atomic unit; return the wait."""
    return book(m, m[ms.P_ATOMIC_UNITS] + slice_, now, cost)


@compiled
def book_reply(m, sm, sectors, now):
    """Bring `sectors` sectors to an SM, through the port it shares and its own; return the wait."""
    shared = book(m, m[ms.P_REPLY_PORTS] + port_of(m, sm), now, sectors * m[ms.P_PORT_REPLY_SECTOR])
    return max(shared, book(m, m[ms.P_SM_PORTS] + sm, now, sectors * m[ms.P_SM_REPLY_SECTOR]))


@compiled
def book_past(m, sm, sectors, now):
    """Bring `sectors` sectors to an SM past L1; return the wait. The port of a TPC does not hold them up, but L2's
    total rate does: on an H200 one SM alone gets 105 bytes a cycle by a bulk copy, and all of them 31 each, be their
    GPC one of 16 or of 18 SMs (`bulk_latency`, `bulk_rate`)."""
    shared = book(m, m[ms.P_L2_OUT], now, sectors * m[ms.P_L2_OUT_SECTOR])
    return max(shared, book(m, m[ms.P_SM_PORTS] + sm, now, sectors * m[ms.P_SM_PAST_SECTOR]))
