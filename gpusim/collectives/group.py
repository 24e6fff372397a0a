"""The ranks of a node as NCCL sees them: rings and trees through its links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations

from gpusim.collectives.choice import Communicator
from gpusim.collectives.machine import CollectiveError
from gpusim.config import load_config
from gpusim.errors import NodeError
from gpusim.node import Node

#: Bandwidths in GB/s that the search tries for a ring, the greatest first (NCCL 2.28.9, src/graph/search.cc).
_RING_GB_S = (30.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_MOST_RINGS = 16
#: Machines of more GPUs than this keep the order in which they are named: trying all orders would take too long.
_MOST_PERMUTED = 8


@dataclass(frozen=True)
class RankGroup:
    """Ranks of a communicator.

    orders: rings, each the ranks in the order in which they follow each other; channel c uses the ring c modulo their
    number. parents: trees, each the parent of each rank, -1 for the root; channels take them in turn, as the rings.
    """

    communicator: Communicator
    orders: tuple[tuple[int, ...], ...]
    parents: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=32)
def group_of(node: Node) -> RankGroup:
    """The group of all GPUs of a node. Raises CollectiveError naming ranks that cannot reach each other."""
    ranks = len(node.gpus)
    if ranks < 2:
        raise CollectiveError(f"a collective needs two ranks or more; {node.name} has {ranks}")
    machines = [tuple(node.gpus.index(gpu) for gpu in machine) for machine in node.machines]
    _check_paths(node, machines)
    orders = _orders(node, machines)
    narrowest = min(_bandwidth(node, a, b) for a, b in zip(orders[0], orders[0][1:] + orders[0][:1], strict=True))
    inside = [m for m in machines if len(m) > 1]
    local = min((_bandwidth(node, m[k], m[k + 1]) for m in inside for k in range(len(m) - 1)), default=narrowest)
    each = max(_RING_GB_S, key=lambda gb_s: (min(int(local / gb_s + 1e-9), _MOST_RINGS) * gb_s, gb_s))
    rings = max(min(int(local / each + 1e-9), _MOST_RINGS), 1)
    kinds = {node.links[k].kind for m in inside for k in node.path(node.gpus[m[0]], node.gpus[m[1]])}
    capability = int("".join(c for c in load_config(node.gpu_config).gpu.arch if c.isdigit()))
    communicator = Communicator(
        ranks, len(machines), capability, 2 * rings, min(each, local), "nvlink" if kinds == {"nvlink"} else "pcie"
    )
    return RankGroup(communicator, orders, _trees(machines, ranks))


def _bandwidth(node: Node, a: int, b: int) -> float:
    """GB/s that stores of a kernel reach, which is what NCCL's search reckons with."""
    return node.config.nvlink.sm_share * node.bandwidth_gb_s(node.path(node.gpus[a], node.gpus[b]))


def _check_paths(node: Node, machines: list[tuple[int, ...]]) -> None:
    first = [machine[0] for machine in machines]
    for a, b in [*zip(first, first[1:] + first[:1], strict=True), *((m[0], r) for m in machines for r in m[1:])]:
        if a != b:
            for start, end in ((a, b), (b, a)):
                try:
                    node.path(node.gpus[start], node.gpus[end])
                except NodeError as error:
                    raise CollectiveError(f"ranks {start} and {end} cannot reach each other: {error}") from None


def _orders(node: Node, machines: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Rings: within a machine the order whose narrowest link is widest; between machines each ring leaves through
    another GPU, so that all network cards are used."""
    best = [_best_order(node, machine, closed=len(machines) == 1) for machine in machines]
    if len(machines) == 1:
        return (best[0],)
    size = min(len(order) for order in best)
    return tuple(tuple(r for order in best for r in (*order[k:], *order[:k])) for k in range(size))


def _best_order(node: Node, machine: tuple[int, ...], closed: bool) -> tuple[int, ...]:
    if len(machine) > _MOST_PERMUTED or len(machine) < 3:
        return machine
    wide = {(a, b): _bandwidth(node, a, b) for a in machine for b in machine if a != b}
    if len({round(each, 6) for each in wide.values()}) == 1:
        return machine

    def narrowest(order: tuple[int, ...]) -> tuple[float, float]:
        links = [wide[pair] for pair in zip(order, order[1:] + (order[:1] if closed else ()), strict=False)]
        return min(links), sum(links)

    head, *rest = machine
    return max(((head, *order) for order in permutations(rest)), key=narrowest)


def _trees(machines: list[tuple[int, ...]], ranks: int) -> tuple[tuple[int, ...], ...]:
    """Trees: a chain in each machine, and above those the double binary tree of P. Sanders,
    J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009): the leaves of
    one are inner nodes of the other."""
    count = len(machines)
    first = [_binary_parent(k, count) for k in range(count)]
    if count % 2:  # shifted by one
        second = [(p + 1) % count if p >= 0 else -1 for p in (first[(k - 1) % count] for k in range(count))]
    else:  # mirrored
        second = [count - 1 - p if p >= 0 else -1 for p in (first[count - 1 - k] for k in range(count))]
    trees = []
    for above in (first, second) if count > 1 else (first,):
        for turn in range(min(map(len, machines)) if count > 1 else 1):  # each through another GPU's network card
            chains = [machine[turn:] + machine[:turn] for machine in machines]
            parents = [-1] * ranks
            for k, chain in enumerate(chains):
                for below, rank in pairwise(chain):
                    parents[rank] = below
                if above[k] >= 0:
                    parents[chain[0]] = chains[above[k]][0]
            trees.append(tuple(parents))
    return tuple(trees)


def _binary_parent(k: int, count: int) -> int:
    """Parent in the binary tree whose inner nodes are even: 0 is the root, the lowest set bit says the level."""
    if k == 0:
        return -1
    bit = k & -k
    up = (k ^ bit) | (bit << 1)
    return k ^ bit if up >= count else up
