"""Requests whose address lies on another GPU: over this GPU's links to the L2 there, and back.

What a kernel reads, writes or reduces on a peer passes its own crossbar as any other request, then the link out, which
carries what is written, and the link back, which carries what is read. A peer's L2 is taken to hold what is asked for.
An atomic there takes as long as a load (between two H200s 1,683 cycles, and 1,688).
"""

from gpusim.engine.memory.crossbar import book, book_reply, book_request
from gpusim.engine.memory.l2 import sectors_of
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.memory import (
    CNT_PEER_RECEIVED_BYTES,
    CNT_PEER_SENT_BYTES,
    KIND_ATOMIC,
    KIND_REDUCTION,
    P_NEAR,
    P_PEER_PORTS,
    P_PEER_ROWS,
    P_PEERS,
    P_SM_REPLY_SECTOR,
    PEER_BYTE,
    PEER_END,
    PEER_FIRST,
    PEER_IN,
    PEER_LATENCY,
    PEER_OUT,
    PEER_WORDS,
    SECTOR_BYTES,
)

#: Reductions take a part of so many more of the link than stores: between two H200s 329 GB/s, stores 366.
_REDUCTION_SHARE = 8


@compiled
def peer_of(m, line):
    """First word of the row of the peer memory that a line lies in; -1 for a line of this GPU."""
    for k in range(m[P_PEERS]):
        row = m[P_PEER_ROWS] + k * PEER_WORDS
        if m[row + PEER_FIRST] <= line < m[row + PEER_END]:
            return row
    return -1


@compiled
def walk_peer(m, row, sm, sectors, kind, payload_bytes, now):
    """A request to a peer; the reply is its data, or that the peer has taken it."""
    count = sectors_of(sectors)
    sent = payload_bytes if kind >= KIND_ATOMIC else 0
    wait = book_request(m, sm, sent, now)
    if sent > 0:
        carried = sent if kind > KIND_REDUCTION else sent + sent // _REDUCTION_SHARE
        wait = max(wait, book(m, m[P_PEER_PORTS] + m[row + PEER_OUT], now, carried * m[row + PEER_BYTE]))
        m[CNT_PEER_SENT_BYTES] += sent
    reply = now + m[P_NEAR] + m[row + PEER_LATENCY]
    if kind <= KIND_ATOMIC:
        back = book(m, m[P_PEER_PORTS] + m[row + PEER_IN], now, count * SECTOR_BYTES * m[row + PEER_BYTE])
        wait = max(wait, back, book_reply(m, sm, count, now))
        reply += (count - 1) * m[P_SM_REPLY_SECTOR]
        m[CNT_PEER_RECEIVED_BYTES] += count * SECTOR_BYTES
    return reply + wait
