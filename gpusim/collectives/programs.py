"""Work of each block of each rank, slice by slice: the programs that the machine times.

A block (an actor) runs a table of operations, one after the other. An operation may wait for a slice from some of its
sources, combine it with the rank's own input, write the rank's output and hand the slice on to some of its
destinations: NCCL's primitives (send, recvReduceSend, recvCopySend, ...; Z. Hu et al., "Demystifying NCCL", arXiv
2507.04786). All ranks of a ring run the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpusim.collectives.choice import Choice
from gpusim.collectives.machine import GRANULE_BYTES, SHARED, WIRE, Timing


@dataclass
class CollectivePlan:
    """All actors of a collective.

    tables: operations of actors, float64[n, 5] with the columns of `machine`. rank, channel, table: of each actor.
    sources, destinations: int64[actors, 3], numbers of connections, -1 for none.
    connections: (actor that sends, actor that receives). depth: slices that a connection holds. wire: bytes on the
    link for each byte.
    """

    depth: int
    wire: float
    tables: list[np.ndarray] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    channel: list[int] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    sources: list[list[int]] = field(default_factory=list)
    destinations: list[list[int]] = field(default_factory=list)
    connections: list[tuple[int, int]] = field(default_factory=list)

    def add(self, rank: int, channel: int, table: int) -> int:
        """A new actor; returns its number."""
        self.rank.append(rank)
        self.channel.append(channel)
        self.table.append(table)
        self.sources.append([])
        self.destinations.append([])
        return len(self.rank) - 1

    def connect(self, start: int, end: int) -> None:
        """Connect two blocks: what `start` sends next is the next thing that `end` receives."""
        self.destinations[start].append(len(self.connections))
        self.sources[end].append(len(self.connections))
        self.connections.append((start, end))


@dataclass(frozen=True)
class _Step:
    """One primitive of a loop: whether it receives, reads the input, writes the output, sends. halves: the block's
    threads are divided between two such programs."""

    receives: int = 0
    reads: bool = False
    writes: bool = False
    sends: int = 0
    halves: bool = False

    def cost(self, protocol: str, timing: Timing) -> float:
        operands = self.receives.bit_count() + self.reads
        return timing.cost_us(protocol, max(operands, 1), self.writes, self.sends > 0)


def _ring_steps(name: str, ranks: int, place: int) -> list[_Step]:
    """The primitives of one loop. place: of the rank in the ring."""
    last, between = ranks - 1, ranks - 2
    first = _Step(reads=True, sends=1)
    add, hand_on, take = _Step(1, reads=True, sends=1), _Step(1, writes=True, sends=1), _Step(1, writes=True)
    if name == "all_reduce":
        return [first, *[add] * between, _Step(1, True, True, 1), *[hand_on] * between, take]
    if name == "all_gather":
        return [_Step(0, True, True, 1), *[hand_on] * between, take]
    if name == "reduce_scatter":
        return [first, *[add] * between, _Step(1, reads=True, writes=True)]
    if name == "broadcast":
        return [_Step(int(place > 0), reads=place == 0, writes=True, sends=int(place < last))]
    return [_Step(int(place > 0), reads=True, writes=place == last, sends=int(place < last))]


def _sizes(size: int, protocol: str, slices: int, step_bytes: int) -> list[int]:
    """Slices of a chunk."""
    granule = GRANULE_BYTES[protocol]
    if granule:
        return [min(granule, size - at) for at in range(0, size, granule)] or [0]
    each = max(-(-size // (16 * slices)) * 16, step_bytes // 32)
    return [max(min(each, size - k * each), 0) for k in range(slices)]


class _Builder:
    """Puts a table together."""

    def __init__(self, choice: Choice, timing: Timing):
        self.choice, self.timing = choice, timing
        self.operations: list[tuple[float, ...]] = []

    def step(self, step: _Step, size: int) -> None:
        """A primitive on `size` bytes."""
        choice = self.choice
        cost = step.cost(choice.protocol, self.timing)
        for each in _sizes(size, choice.protocol, choice.slices, choice.chunk_bytes // choice.slices):
            self.operations.append((step.receives, step.sends, each, cost, cost if step.halves else 0.0))

    def table(self) -> np.ndarray:
        return np.array(self.operations, np.float64).reshape(-1, 5)


def ring(name: str, choice: Choice, orders: tuple[tuple[int, ...], ...], timing: Timing) -> CollectivePlan:
    """The plan of rings. orders: ranks as they follow each other, the root first for broadcast, last for reduce;
    channel c uses the one at c modulo their number."""
    ranks = len(orders[0])
    plan = CollectivePlan(depth_of(choice), WIRE[choice.protocol])
    pipeline = name in ("broadcast", "reduce")
    for channel, part in enumerate(choice.parts):
        order = orders[channel % len(orders)]
        numbers = {}
        for place in sorted({0, min(1, ranks - 1), ranks - 1}) if pipeline else (0,):
            numbers[place] = len(plan.tables)
            plan.tables.append(_ring_table(name, choice, ranks, place, part, timing))
        actors = []
        for place, rank in enumerate(order):
            kind = 0 if not pipeline or place == 0 else ranks - 1 if place == ranks - 1 else 1
            actors.append(plan.add(rank, channel, numbers[kind]))
        for place in range(ranks - 1 if pipeline else ranks):
            plan.connect(actors[place], actors[(place + 1) % ranks])
    return plan


def _ring_table(name: str, choice: Choice, ranks: int, place: int, part: int, timing: Timing) -> np.ndarray:
    build = _Builder(choice, timing)
    steps = _ring_steps(name, ranks, place)
    pieces = ranks if name == "all_reduce" else 1
    for at in range(0, part, choice.chunk_bytes * pieces):
        left = part - at
        chunk = choice.chunk_bytes
        if name == "all_reduce" and left < chunk * pieces:
            chunk = -(-left // (16 * ranks)) * 16
        # The last piece of an all-reduce's last loop may be short, or empty: the machine's time is that of a full one.
        size = chunk if name == "all_reduce" else min(chunk, left)
        for step in steps:
            build.step(step, size)
    return build.table()


def depth_of(choice: Choice) -> int:
    """Slices that a connection holds."""
    granule = GRANULE_BYTES[choice.protocol]
    return choice.depth * (-(-choice.chunk_bytes // granule) if granule else 1)


def tree(choice: Choice, parents: tuple[tuple[int, ...], ...], timing: Timing) -> CollectivePlan:
    """All-reduce up and down trees. parents: for each channel the parent of each rank, -1 for the root."""
    ranks = len(parents[0])
    plan = CollectivePlan(depth_of(choice), WIRE[choice.protocol])
    for channel, part in enumerate(choice.parts):
        above = parents[channel % len(parents)]
        below: list[list[int]] = [[] for _ in range(ranks)]
        for rank, parent in enumerate(above):
            if parent >= 0:
                below[parent].append(rank)
        known: dict[tuple[str, int], int] = {}

        def number(role: str, children: int, part: int = part, known: dict = known) -> int:
            if (role, children) not in known:
                known[role, children] = len(plan.tables)
                plan.tables.append(_tree_table(role, children, choice, part, timing))
            return known[role, children]

        up, down = [0] * ranks, [0] * ranks
        for rank in range(ranks):
            children = len(below[rank])
            if above[rank] < 0:
                up[rank] = down[rank] = plan.add(rank, channel, number("root", children))
            else:
                up[rank] = plan.add(rank, channel, number("up", children))
                down[rank] = plan.add(rank, channel, number("down", children))
        for rank in range(ranks):
            for child in below[rank]:
                plan.connect(up[child], up[rank])
                plan.connect(down[rank], down[child])
    return plan


def _tree_table(role: str, children: int, choice: Choice, part: int, timing: Timing) -> np.ndarray:
    build = _Builder(choice, timing)
    bits = (1 << children) - 1
    step = {
        "root": _Step(bits, reads=True, writes=True, sends=bits),
        "up": _Step(bits, reads=True, sends=1, halves=True),
        "down": _Step(1, writes=True, sends=bits, halves=True),
    }[role]
    for at in range(0, part, choice.chunk_bytes):
        build.step(step, min(choice.chunk_bytes, part - at))
    return build.table()


def pairs(choice: Choice, sends: list[tuple[int, int]], ranks: int, total: int, timing: Timing) -> CollectivePlan:
    """Point-to-point copies. sends: (rank, peer); total: channels of a GPU, over which a rank's copies are laid."""
    plan = CollectivePlan(depth_of(choice), WIRE[choice.protocol])
    shared = timing.values[choice.protocol]["pair_ps"] * 0.5e-6
    for rank, peer in sends:
        turn = (peer - rank) % ranks  # what a rank sends and receives in one turn shares its channels
        for channel, part in enumerate(choice.parts):
            sender, receiver = _Builder(choice, timing), _Builder(choice, timing)
            for at in range(0, part, choice.chunk_bytes):
                size = min(choice.chunk_bytes, part - at)
                sender.step(_Step(reads=True, sends=1), size)
                receiver.step(_Step(1, writes=True), size)
            tables = [sender.table(), receiver.table()]
            for table in tables:
                table[:, SHARED] = shared
            plan.tables += tables
            ends = [
                plan.add(who, (turn * choice.channels + channel) % total, len(plan.tables) - 2 + k)
                for k, who in enumerate((rank, peer))
            ]
            plan.connect(*ends)
    return plan
