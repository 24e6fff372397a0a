"""The compiled machine: actors, connections and links in order of time.

An actor takes its next operation when the slices it receives have come and its destinations have room; it then works
for the operation's cost and hands packets to the links of each destination's path, which serve packets one at a time in
the order in which they are handed over; it makes a packet while the one before passes. A packet occupies the links of
its path one behind the other, each from when the one before has begun to pass it on. A warp of its own raises the flag
of a slice once its last packet has arrived, while the others work on the next slice, which is handed over no earlier. A
flag, and a credit back, waits for the packets that are on its links.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from gpusim.engine.state.heap import heap_pop, heap_push
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.table import ArrayTable
from gpusim.errors import SimulationError

#: Connections that an actor receives from, and that it sends to, at most.
PARTNERS = 3
#: Columns of an operation. RECEIVES and SENDS are bits of the actor's sources and destinations. COST is microseconds a
#: byte. SHARED: actors of one SM take this time from each other (0: the actor has its SM for itself).
RECEIVES, SENDS, BYTES, COST, SHARED = range(5)
#: Columns of an actor: its next operation and the one after its last, its SM, what it does, whether it sleeps until a
#: partner wakes it; then its sources and destinations, -1 for none.
A_AT, A_END, A_SM, A_STATE, A_ASLEEP, A_SOURCES = range(6)
A_DESTINATIONS = A_SOURCES + PARTNERS
ACTOR_COLUMNS = A_DESTINATIONS + PARTNERS
WAITING, WORKING, ENDED = range(3)
#: Columns of an actor's work: bytes left of the slice, when it began, when its last packet is through its links, when
#: its last flag was raised.
W_LEFT, W_BEGAN, W_THROUGH, W_RAISED = range(4)
#: Columns of a connection: its ends, slices sent and received, and where in `path` its links begin, where those that
#: its credits take begin, and where these end.
C_SENDER, C_RECEIVER, C_SENT, C_RECEIVED, C_PATH, C_BACK, C_END = range(7)
#: Columns of a link: bytes a microsecond, when it is free, bytes moved.
L_RATE, L_FREE, L_MOVED = range(3)
#: Constants: bytes on the link for each byte, microseconds of a step and of a fence, bytes of a packet, share of the
#: bytes that goes back as acknowledgements, microseconds of a bin.
K_WIRE, K_STEP, K_FENCE, K_PACKET, K_ACKNOWLEDGED, K_BIN = range(6)
#: Counts: events in the heap, events so far, rows of the log.
N_HEAP, N_EVENTS, N_ROWS = range(3)


class CollectiveMachine(ArrayTable):
    """State of the machine, which `run` changes. An actor is in the heap at most once, so it has room for each."""

    FIELDS: ClassVar = {
        "operations": (np.float64, 2),  # all tables behind each other
        "actor": (np.int64, 2),
        "work": (np.float64, 2),
        "connection": (np.int64, 2),
        "latency": (np.float64, 1),  # of each connection's flags and credits on links without other traffic
        "seen_at": (np.float64, 2),  # [connections, depth]: when the receiver sees a slice
        "free_at": (np.float64, 2),  # and when the sender sees that its slot is free
        "path": (np.int64, 1),
        "link": (np.float64, 2),
        "sm_free": (np.float64, 1),
        "sm_pace": (np.float64, 1),  # each SM's times, over those of a mean one
        "constant": (np.float64, 1),
        "count": (np.int64, 1),
        "heap_time": (np.float64, 1),
        "heap_actor": (np.int64, 1),
        "log": (np.float64, 2),  # a row for each step: actor, operation, start, end; no rows: not recorded
        "bins": (np.float64, 2),  # [links, bins]: bytes handed over by time; no bins: not recorded
    }


@compiled
def run(m: CollectiveMachine) -> float:
    """Runs all actors as far as they come; returns the microsecond at which the last one has ended."""
    end = 0.0
    while m.count[N_HEAP]:
        time, a = m.heap_time[0], m.heap_actor[0]
        m.count[N_HEAP] = heap_pop(m.heap_time, m.heap_actor, m.count[N_HEAP])
        m.count[N_EVENTS] += 1
        actor = m.actor[a]
        if actor[A_AT] >= actor[A_END]:
            actor[A_STATE] = ENDED
            end = max(end, time, m.work[a, W_RAISED])
        elif actor[A_STATE] == WAITING:
            _begin(m, a, time)
        else:
            _work(m, a, time)
    return end


@compiled
def _call(m: CollectiveMachine, a: int, time: float) -> None:
    """Has an actor looked at again."""
    m.count[N_HEAP] = heap_push(m.heap_time, m.heap_actor, m.count[N_HEAP], time, a)


@compiled
def _begin(m: CollectiveMachine, a: int, time: float) -> None:
    """Takes the next operation, if its slices have come and there is room where they go; else the actor sleeps."""
    actor = m.actor[a]
    operation = m.operations[actor[A_AT]]
    takes, gives, depth = int(operation[RECEIVES]), int(operation[SENDS]), m.seen_at.shape[1]
    ready = time
    for i in range(PARTNERS):
        if takes >> i & 1:
            c = actor[A_SOURCES + i]
            received = m.connection[c, C_RECEIVED]
            if received >= m.connection[c, C_SENT]:
                actor[A_ASLEEP] = 1
            else:
                ready = max(ready, m.seen_at[c, received % depth])
        if gives >> i & 1:
            c = actor[A_DESTINATIONS + i]
            sent = m.connection[c, C_SENT]
            if sent - m.connection[c, C_RECEIVED] >= depth:
                actor[A_ASLEEP] = 1
            elif sent >= depth:
                ready = max(ready, m.free_at[c, sent % depth])
    if actor[A_ASLEEP]:
        return
    actor[A_STATE] = WORKING
    m.work[a, W_LEFT] = operation[BYTES]
    m.work[a, W_BEGAN] = ready
    _call(m, a, ready + m.constant[K_STEP])


@compiled
def _work(m: CollectiveMachine, a: int, time: float) -> None:
    """Makes a packet and sends it; a slice that goes nowhere is made at once if the actor has its SM for itself."""
    actor, work, sm = m.actor[a], m.work[a], m.actor[a, A_SM]
    operation = m.operations[actor[A_AT]]
    gives, alone = int(operation[SENDS]), operation[SHARED] == 0.0
    part = work[W_LEFT] if alone and not gives else min(work[W_LEFT], m.constant[K_PACKET])
    made = time + part * operation[COST] * m.sm_pace[sm]
    if not alone:
        m.sm_free[sm] = max(m.sm_free[sm], time) + part * operation[COST]
        made = max(made, m.sm_free[sm])
    if gives:
        made = max(made, work[W_THROUGH])
    for i in range(PARTNERS):
        if gives >> i & 1:
            work[W_THROUGH] = max(work[W_THROUGH], _send(m, actor[A_DESTINATIONS + i], made, part))
    work[W_LEFT] -= part
    if work[W_LEFT] <= 0.0:
        made = max(made, work[W_RAISED])
        if gives:
            work[W_RAISED] = max(made, work[W_THROUGH]) + m.constant[K_FENCE]
        _hand_over(m, a, made)
    _call(m, a, made)


@compiled
def _send(m: CollectiveMachine, c: int, made: float, part: float) -> float:
    """Puts a packet on the links of a connection; returns when its last byte is passed on."""
    connection, bins = m.connection[c], m.bins.shape[1]
    nbytes = part * m.constant[K_WIRE]
    start = done = made
    for p in range(connection[C_PATH], connection[C_BACK]):
        link = m.link[m.path[p]]
        start = max(start, link[L_FREE])
        free = start + nbytes / link[L_RATE]
        done = max(done, free)
        if bins:
            m.bins[m.path[p], min(int(start / m.constant[K_BIN]), bins - 1)] += nbytes
        link[L_FREE] = free
        link[L_MOVED] += nbytes
    for p in range(connection[C_BACK], connection[C_END]):
        link = m.link[m.path[p]]
        link[L_FREE] = max(link[L_FREE], made) + part * m.constant[K_ACKNOWLEDGED] / link[L_RATE]
    return done


@compiled
def _hand_over(m: CollectiveMachine, a: int, time: float) -> None:
    """Has the flags of the slice that was sent raised, gives its sources their credits, and goes on."""
    actor = m.actor[a]
    operation = m.operations[actor[A_AT]]
    takes, gives = int(operation[RECEIVES]), int(operation[SENDS])
    for i in range(PARTNERS):
        if gives >> i & 1:
            _tell(m, actor[A_DESTINATIONS + i], m.work[a, W_RAISED], m.seen_at, C_SENT, C_PATH, C_RECEIVER)
        if takes >> i & 1:
            _tell(m, actor[A_SOURCES + i], time, m.free_at, C_RECEIVED, C_BACK, C_SENDER)
    row = m.count[N_ROWS]
    if row < len(m.log):
        m.log[row, 0] = a
        m.log[row, 1] = actor[A_AT]
        m.log[row, 2] = m.work[a, W_BEGAN]
        m.log[row, 3] = time
        m.count[N_ROWS] += 1
    actor[A_STATE] = WAITING
    actor[A_AT] += 1


@compiled
def _tell(m: CollectiveMachine, c: int, time: float, at: np.ndarray, count: int, path: int, partner: int) -> None:
    """Notes in `at` when a flag or a credit of a connection comes, behind the data that is on its links now, and wakes
    the partner. count, path, partner: columns of the connection; its links end where those of the next column begin."""
    connection = m.connection[c]
    arrival = time
    for p in range(connection[path], connection[path + 1]):
        arrival = max(arrival, m.link[m.path[p], L_FREE])
    at[c, connection[count] % m.seen_at.shape[1]] = arrival + m.latency[c]
    connection[count] += 1
    a = connection[partner]
    if m.actor[a, A_ASLEEP]:
        m.actor[a, A_ASLEEP] = 0
        _call(m, a, time)


#: Bytes on a link for each byte of data: LL sends a flag beside every four bytes, LL128 eight bytes of flag in 128.
WIRE = {"LL": 2.0, "LL128": 128 / 120, "Simple": 1.0}
#: Data that the threads of a block pass on together with protocols whose flags lie beside the data: 8 bytes of each of
#: 512 threads, 60 of each of 640. Simple hands over whole slices.
GRANULE_BYTES = {"LL": 4096, "LL128": 38400, "Simple": 0}


@cache
def timing() -> Mapping[str, Mapping[str, float]]:
    """The shipped constants, by section and name; the file says where each comes from."""
    tree = tomllib.loads((Path(__file__).parent / "nccl.toml").read_text("utf-8"))
    return {section: {key: leaf["value"] for key, leaf in table.items()} for section, table in tree.items()}


def cost_us(protocol: str, reads: int, twice: bool, blocks: int) -> float:
    """Microseconds a byte that a block takes to pass data on: operands it reads, whether it writes both to its own
    memory and to a peer's, and how many blocks of its GPU do so at the same time."""
    known = timing()[protocol]
    writes = known["store_ps"] + known["second_ps"] * twice + known["block_ps"] * blocks
    return (writes + known["read_ps"] * (reads - 1)) * 1e-6


NAMES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv")
ALGORITHMS = ("tree", "ring")
PROTOCOLS = ("LL", "LL128", "Simple")


class CollectiveError(SimulationError):
    """A collective that no group of ranks can carry out: a wrong name, sizes that cannot be shared."""
