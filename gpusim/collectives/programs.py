"""Work of each block of each rank, slice by slice: the programs that the machine times.

A block (an actor) runs a table of operations, one after the other. An operation may wait for a slice from some of its
sources, combine it with the rank's own input, write the rank's output and hand the slice on to some of its
destinations: NCCL's primitives (send, recvReduceSend, recvCopySend, ...; Z. Hu et al., "Demystifying NCCL", arXiv
2507.04786). Blocks that do the same run one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from gpusim.collectives.choice import Choice
from gpusim.collectives.machine import GRANULE_BYTES, cost_us, timing


@dataclass(frozen=True)
class _Step:
    """One primitive of a loop: whether it receives, reads the input, writes the output, sends. halves: the block's
    threads are divided between two such programs."""

    receives: int = 0
    reads: bool = False
    writes: bool = False
    sends: int = 0
    halves: bool = False


@dataclass
class CollectivePlan:
    """All actors of a collective.

    blocks: of a GPU, that work at the same time. share: of the links' bandwidth that they reach.
    kinds: what blocks do, by number: primitives on each of some chunks of so many bytes. actors: (rank, channel, number
    of its kind) of each. connections: (actor that sends, actor that receives): what the one sends next is the next
    thing that the other receives.
    """

    choice: Choice
    blocks: int
    share: float = 1.0
    kinds: dict[tuple[tuple[int, ...], tuple[_Step, ...]], int] = field(default_factory=dict)
    actors: list[tuple[int, int, int]] = field(default_factory=list)
    connections: list[tuple[int, int]] = field(default_factory=list)

    def add(self, rank: int, channel: int, sizes: tuple[int, ...], *steps: _Step) -> int:
        """A new actor; returns its number."""
        self.actors.append((rank, channel, self.kinds.setdefault((sizes, steps), len(self.kinds))))
        return len(self.actors) - 1

    @property
    def depth(self) -> int:
        """Slices that a connection holds."""
        granule = GRANULE_BYTES[self.choice.protocol]
        return self.choice.depth * (-(-self.choice.chunk_bytes // granule) if granule else 1)

    def tables(self) -> Iterator[np.ndarray]:
        """Operations of each kind, float64[n, 5] with the columns of `machine`."""
        protocol, slices = self.choice.protocol, self.choice.slices
        for sizes, steps in self.kinds:
            rows: list[tuple[float, ...]] = []
            for size, step in product(sizes, steps):
                operands = max(step.receives.bit_count() + step.reads, 1)
                cost = cost_us(protocol, operands, step.writes and step.sends > 0, self.blocks)
                for each in _slices(size, protocol, slices, self.choice.chunk_bytes // slices):
                    rows.append((step.receives, step.sends, each, cost, step.halves))
            yield np.array(rows, np.float64).reshape(-1, 5)


def _slices(size: int, protocol: str, slices: int, step_bytes: int) -> list[int]:
    """Slices of a chunk."""
    granule = GRANULE_BYTES[protocol]
    if granule:
        return [min(granule, size - at) for at in range(0, size, granule)] or [0]
    each = max(-(-size // (16 * slices)) * 16, step_bytes // 32)
    return [max(min(each, size - k * each), 0) for k in range(slices)]


def _chunks(part: int, chunk: int) -> tuple[int, ...]:
    """Bytes of a part's chunks."""
    return tuple(min(chunk, part - at) for at in range(0, part, chunk))


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


def ring(name: str, choice: Choice, orders: tuple[tuple[int, ...], ...]) -> CollectivePlan:
    """The plan of rings. orders: ranks as they follow each other, the root first for broadcast, last for reduce;
    channel c uses the one at c modulo their number."""
    ranks, chunk = len(orders[0]), choice.chunk_bytes
    plan = CollectivePlan(choice, choice.channels)
    closed = name not in ("broadcast", "reduce")
    for channel, part in enumerate(choice.parts):
        sizes = _chunks(part, chunk)
        if name == "all_reduce":
            # The last piece of the last loop may be short, or empty: the machine's time is that of a full one.
            whole = chunk * ranks
            sizes = tuple(chunk if loop == whole else -(-loop // (16 * ranks)) * 16 for loop in _chunks(part, whole))
        actors = [
            plan.add(rank, channel, sizes, *_ring_steps(name, ranks, place))
            for place, rank in enumerate(orders[channel % len(orders)])
        ]
        plan.connections += zip(actors, actors[1:] + actors[:1] * closed, strict=False)
    return plan


def tree(choice: Choice, parents: tuple[tuple[int, ...], ...]) -> CollectivePlan:
    """All-reduce up and down trees. parents: for each channel the parent of each rank, -1 for the root."""
    plan = CollectivePlan(choice, choice.channels)
    for channel, part in enumerate(choice.parts):
        above, sizes = parents[channel % len(parents)], _chunks(part, choice.chunk_bytes)
        below = [[child for child, parent in enumerate(above) if parent == rank] for rank in range(len(above))]
        up, down = [], []
        for rank, parent in enumerate(above):
            bits = (1 << len(below[rank])) - 1
            if parent < 0:
                up.append(plan.add(rank, channel, sizes, _Step(bits, reads=True, writes=True, sends=bits)))
                down.append(up[-1])
            else:
                up.append(plan.add(rank, channel, sizes, _Step(bits, reads=True, sends=1, halves=True)))
                down.append(plan.add(rank, channel, sizes, _Step(1, writes=True, sends=bits, halves=True)))
        for rank, children in enumerate(below):
            for child in children:
                plan.connections += (up[child], up[rank]), (down[rank], down[child])
    return plan


def pairs(choice: Choice, turns: Sequence[int], ranks: int, total: int) -> CollectivePlan:
    """Point-to-point copies. turns: in each, every rank sends to the one so many places on (0: it copies its own
    piece); total: channels of a GPU, of which a turn's copies take those from its number on, whose bits are reversed.
    """
    partners, bits = sum(turn > 0 for turn in turns), total.bit_length() - 1
    share = timing()["pairs"]["share"] if partners > 1 else 1.0
    plan = CollectivePlan(choice, min(partners * choice.channels, total), share)
    for rank, turn in product(range(ranks), turns):
        peer, base = (rank + turn) % ranks, int(f"{turn % total:0{bits}b}"[::-1], 2)
        for number, part in enumerate(choice.parts):
            channel, sizes = (base + number) % total, _chunks(part, choice.chunk_bytes)
            step = _Step(reads=True, writes=not turn, sends=int(turn > 0), halves=True)
            sender = plan.add(rank, channel, sizes, step)
            if turn:
                plan.connections.append((sender, plan.add(peer, channel, sizes, _Step(1, writes=True, halves=True))))
    return plan
