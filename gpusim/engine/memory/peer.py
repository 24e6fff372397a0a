"""Requests that this GPU's L2 does not serve.

To another GPU they go over this GPU's links to the L2 there, and back.

Host memory is asked for in the same way, over the bus. It passes L2, which counts it and keeps nothing.

What a kernel reads, writes or reduces on a peer passes its own crossbar as any other request, then the link out, which
carries what is written, and the link back, which carries what is read. A peer's L2 is taken to hold what is asked for.
An atomic there takes as long as a load (between two H200s 1,683 cycles, and 1,688).
"""

from gpusim.engine.memory.crossbar import book, book_reply, book_request
from gpusim.engine.memory.l2 import sectors_of
from gpusim.engine.memory.place import GPC, place_of, target_of
from gpusim.engine.state import compiled, ms, popc

#: Reductions take a part of so many more of the link than stores: between two H200s 329 GB/s, stores 366.
_REDUCTION_SHARE = 8
#: Stores to host memory take a part of what it sends: an H200's sums of two arrays there take 362 thousand cycles, 330
#: if only the terms lie there, 162 if only the sums do.
_BUS_SHARE = 5


@compiled
def row_of(m, line, first, count, words):
    """First word of the row, of so many from `first` on, of the peer or managed memory that a line lies in, or -1."""
    for row in range(first, first + count * words, words):
        if m[row + ms.PEER_FIRST] <= line < m[row + ms.PEER_END]:
            return row
    return -1


@compiled
def book_links(m, row, first, carried, now):
    """Books the first and the last link of a way for so many bytes. Returns how long they wait."""
    near, far = m[row + first], m[row + first + 1]
    wait = book(m, m[ms.P_PEER_PORTS] + near, now, carried * m[row + ms.PEER_BYTE])
    if far != near:
        wait = max(wait, book(m, m[ms.P_PEER_PORTS] + far, now, carried * m[row + ms.PEER_BYTE]))
    return wait


@compiled
def walk_peer(m, row, sm, line, sectors, kind, payload_bytes, now):
    """A request to a peer; the reply is its data, or that the peer has taken it."""
    count = sectors_of(sectors)
    sent = payload_bytes if kind >= ms.KIND_ATOMIC else 0
    wait = book_request(m, sm, sent, 1 + sectors_of(sectors) if sent > 0 else 0, now)
    if sent > 0:
        carried = sent if kind > ms.KIND_REDUCTION else sent + sent // _REDUCTION_SHARE
        wait = max(wait, book_links(m, row, ms.PEER_OUT, carried, now))
        m[m[row + ms.PEER_COUNTER] + 1] += sent
    if m[row + ms.PEER_COUNTER] == ms.CNT_BUS_RECEIVED_BYTES:
        book_links(m, row, ms.PEER_IN, sent // _BUS_SHARE, now)
        # An H200 counts sectors of host memory so: reads miss, stores hit, half of both cross the fabric.
        target, writes = target_of(m, sm, line, ms.CLASS_SAME), sent > 0
        m[ms.CNT_TEX_WRITE_SECTORS if writes else ms.CNT_TEX_READ_SECTORS] += count
        m[ms.CNT_TEX_HIT_SECTORS if writes else ms.CNT_TEX_MISS_SECTORS] += count
        if target.near != target.home:
            m[ms.CNT_FABRIC_WRITE_SECTORS if writes else ms.CNT_FABRIC_READ_SECTORS] += count
    reply = now + m[ms.P_NEAR] + m[row + ms.PEER_LATENCY]
    if kind <= ms.KIND_ATOMIC:
        back = book_links(m, row, ms.PEER_IN, count * ms.SECTOR_BYTES, now)
        wait = max(wait, back, book_reply(m, sm, count, m[ms.P_SM_REPLY_SECTOR], now))
        reply += (count - 1) * m[ms.P_SM_REPLY_SECTOR]
        m[m[row + ms.PEER_COUNTER]] += count * ms.SECTOR_BYTES
    return reply + wait


# From SM to SM of a cluster go packets of up to a sector (H200, counted by Nsight Compute for loads, stores and atomics
# of many patterns, `cluster_load` and its like): a load asks with one for each line and is answered with one for each
# sector; an atomic sends each sector of a line, behind a header if there are several, and gets each back; a store sends
# what `cluster.packets_of` says. An SM sends one in 1.4 cycles, be it a request or a reply, and takes in nearly two.


@compiled
def send_packets(m, sm, there, count, now):
    """Send packets from one SM to another; return (wait, what the last is behind the first)."""
    wait = book(m, m[ms.P_SM_SENDS] + sm, now, count * m[ms.P_SEND])
    wait = max(wait, book(m, m[ms.P_GPC_PACKETS] + place_of(m, sm, GPC), now, count * m[ms.P_PACKET]))
    return max(wait, book(m, m[ms.P_SM_RECEIVES] + there, now, count * m[ms.P_RECEIVE])), (count - 1) * m[ms.P_SEND]


@compiled
def walk_remote(m, sm, line, sectors, kind, now):
    """A request for a line of another SM's shared memory; the reply of a store says that it has arrived."""
    there, count = line >> ms.SM_BIT, popc(sectors)
    asks = 1 if kind == ms.KIND_SM_READ else count
    if kind == ms.KIND_SM_ATOMIC and count > 1:
        asks += 1
    wait, behind = send_packets(m, sm, there, asks, now)
    if kind != ms.KIND_SM_WRITE:
        late, more = send_packets(m, there, sm, count, now)
        wait, behind = max(wait, late), behind + more
    return now + m[ms.P_SM_TO_SM] + wait + behind
