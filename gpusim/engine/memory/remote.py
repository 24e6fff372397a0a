"""The way of a request from an SM to another of its cluster, and of the reply.

What goes by it are packets of up to a sector (H200, counted by Nsight Compute for loads, stores and atomics of many
patterns, `cluster_load` and its like): a load asks with one for each line and is answered with one for each sector; an
atomic sends each sector of a line, behind a header if there are several, and gets each back; a store sends what
`cluster.packets_of` says. An SM sends one in 1.4 cycles, be it a request or a reply, and takes in nearly two.
"""

from gpusim.engine.memory.crossbar import book
from gpusim.engine.memory.place import gpc_of
from gpusim.engine.state import memory as ms
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled


@compiled
def send_packets(m, sm, there, count, now):
    """Send packets from one SM to another; return (wait, what the last is behind the first)."""
    wait = book(m, m[ms.P_SM_SENDS] + sm, now, count * m[ms.P_SEND])
    wait = max(wait, book(m, m[ms.P_GPC_PACKETS] + gpc_of(m, sm), now, count * m[ms.P_PACKET]))
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
