"""One call of a collective: choose, lay out, time."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.collectives import choice as C
from gpusim.collectives import machine as M
from gpusim.collectives import programs
from gpusim.collectives.group import RankGroup, group_of
from gpusim.collectives.machine import ALGORITHMS, PROTOCOLS, CollectiveError, timing
from gpusim.collectives.result import CollectiveResult, LinkUse, Step
from gpusim.config.load import Overrides
from gpusim.node import Node, load_node

_BINS = 200


# many parameters: what a user says of a call, most of it by name; the options of NCCL and of `load_node`
def collective(
    name: str,
    nbytes: int,
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    root: int = 0,
    algorithm: str | None = None,
    protocol: str | None = None,
    trace: bool = False,
    overrides: Overrides = None,
) -> CollectiveResult:
    """Simulate one call of a collective as NCCL carries it out.

    Args:
        name: "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all" or "send_recv" (each
            rank sends to the next one and receives from the one before).
        nbytes: the larger of the send and receive buffers of one rank, as NCCL's own tests count.
        gpus: the first so many GPUs of the node; None for all.
        node: name of a shipped node, path to a TOML file, or a `gpusim.node.Node`.
        root: rank that a broadcast starts from, or a reduction ends at.
        algorithm, protocol: what NCCL_ALGO and NCCL_PROTO would force: "ring" or "tree"; "LL", "LL128" or "Simple".
            None: NCCL's choice.
        trace: record what each block did (`result.steps`) and how busy links were over time (`result.utilisation`).
        overrides: changes to the node, such as ["nvlink.links=12"].

    Raises:
        CollectiveError: for a name, size, root or algorithm that cannot be.
        NodeError: for GPUs that have no path to each other, ConfigError for an unknown node or key.
    """
    where = load_node(node, gpus, overrides=overrides)
    group = group_of(where)
    ranks = group.communicator.ranks
    _check(name, nbytes, ranks, root, algorithm, protocol)
    known = timing()
    how = C.choose(name, nbytes, group.communicator, algorithm, protocol)
    plan = _plan(name, group, how, root)
    started = time.perf_counter()
    machine = _machine(plan, where)
    end = M.run(machine)
    assert (machine.actor[:, M.A_STATE] == M.ENDED).all(), "a plan whose blocks wait for each other"
    traced = _trace(plan, where, end) if trace else {}
    calls, mine = known["launch"], known[how.protocol]
    launch, reach = calls["call_us"], mine["reach_us"]
    start = mine["start_us"] + mine["slice_us"] * (how.slices - 1)
    if how.algorithm == "p2p":
        partners = ranks - 1 if name == "all_to_all" else 1
        launch += calls["pair_us"] * (partners + (name == "all_to_all"))  # which copies the own piece, too
        start = known["pairs"][f"{how.protocol}_us"] + known["pairs"]["peer_us"] * partners
    start += calls["channel_us"] * plan.blocks
    total = launch + start + end
    moved = machine.link[:, M.L_MOVED]
    busy = moved / machine.link[:, M.L_RATE] / total
    links = (LinkUse(link.name, moved[k], busy[k]) for k, link in enumerate(where.links) if moved[k] > 0)
    return CollectiveResult(
        name, nbytes, ranks, where.name, how.algorithm, how.protocol, how.channels, total, launch, start, reach,
        tuple(sorted(links, key=lambda each: (-each.utilisation, each.name))), int(machine.count[M.N_EVENTS]),
        time.perf_counter() - started, link_names=tuple(link.name for link in where.links), **traced,
    )  # fmt: skip


def _check(name: str, nbytes: int, ranks: int, root: int, algorithm: Any, protocol: Any) -> None:
    if name not in M.NAMES:
        raise CollectiveError(f"no collective {name!r}; there are {', '.join(M.NAMES)}")
    whole = 4 * ranks if name in ("all_gather", "reduce_scatter", "all_to_all") else 4
    if not isinstance(nbytes, (int, np.integer)) or nbytes < whole or nbytes % whole:
        raise CollectiveError(f"{name} of {ranks} ranks needs a multiple of {whole} bytes, got {nbytes!r}")
    if not 0 <= root < ranks:
        raise CollectiveError(f"root {root} is not one of the ranks 0 to {ranks - 1}")
    for what, value, real in (("algorithm", algorithm, ALGORITHMS), ("protocol", protocol, PROTOCOLS)):
        if value is not None and value not in real:
            raise CollectiveError(f"no {what} {value!r}; there are {', '.join(real)}")


def _plan(name: str, group: RankGroup, how: C.Choice, root: int) -> programs.CollectivePlan:
    ranks = group.communicator.ranks
    if how.algorithm == "tree":
        return programs.tree(how, group.parents)
    if how.algorithm == "ring":
        orders = group.orders
        if name in ("broadcast", "reduce"):
            # Each ring is cut open so that it begins, or ends, at the root.
            cuts = [order.index(root) + (name == "reduce") for order in orders]
            orders = tuple(order[at:] + order[:at] for order, at in zip(orders, cuts, strict=True))
        return programs.ring(name, how, orders)
    total = 1 << (group.communicator.channels - 1).bit_length()
    return programs.pairs(how, (1,) if name == "send_recv" else range(ranks), ranks, total)


def _machine(
    plan: programs.CollectivePlan, node: Node, traced: bool = False, bin_us: float = 1.0
) -> M.CollectiveMachine:
    """The machine before it runs. traced: it has room to record every step, and parts of the time, of `bin_us`."""
    known, protocol = timing(), plan.choice.protocol
    constants, store = known[protocol], known["store"]
    actors, links, tables = len(plan.actors), len(node.links), list(plan.tables())
    rank, channel, kind = np.array(plan.actors).T
    starts = np.cumsum([0, *map(len, tables)])
    actor = np.full((actors, M.ACTOR_COLUMNS), -1, np.int64)
    actor[:, M.A_AT], actor[:, M.A_END] = starts[kind], starts[kind + 1]
    actor[:, M.A_SM] = rank * 64 + channel
    actor[:, [M.A_STATE, M.A_ASLEEP]] = 0
    logged = int((actor[:, M.A_END] - actor[:, M.A_AT]).sum()) if traced else 0

    @cache
    def route(a: int, b: int) -> tuple[tuple[int, ...], float]:
        """Links from one rank to another, and their latency."""
        links = node.path(node.gpus[a], node.gpus[b])
        late = sum(node.links[k].latency_us for k in links)
        if any(node.links[k].kind in ("infiniband", "socket") for k in links):
            late += known["network"][f"{protocol}_us"]
        return links, late

    path: list[int] = []
    connection = np.zeros((len(plan.connections), M.C_END + 1), np.int64)
    latency = np.zeros(len(plan.connections))
    for c, (sender, receiver) in enumerate(plan.connections):
        for a, partners in ((receiver, M.A_SOURCES), (sender, M.A_DESTINATIONS)):
            free = np.flatnonzero(actor[a, partners : partners + M.PARTNERS] < 0)
            if not len(free):
                raise CollectiveError(f"a block with more than {M.PARTNERS} partners: a tree has no more branches")
            actor[a, partners + free[0]] = c
        there, late = route(rank[sender], rank[receiver])
        back, _ = route(rank[receiver], rank[sender])
        middle = len(path) + len(there)
        connection[c] = sender, receiver, 0, 0, len(path), middle, middle + len(back)
        latency[c] = late + constants["flag_us"]
        path += [*there, *back]
    link = np.zeros((links, M.L_MOVED + 1))
    link[:, M.L_RATE] = [each.bandwidth_gb_s * 1e3 * node.config.nvlink.sm_share * plan.share for each in node.links]
    # No SM is as far from the links as the next: without a spread all blocks would send at once, then receive at once.
    sm_pace = 1 + store["spread"] * (np.arange(actor[:, M.A_SM].max() + 1) * 0.618034 % 1 - 0.5)
    return M.CollectiveMachine(
        operations=np.concatenate(tables),
        actor=actor, work=np.zeros((actors, M.W_RAISED + 1)),
        connection=connection, latency=latency, path=np.array(path, np.int64), link=link,
        seen_at=np.zeros((len(connection), plan.depth)), free_at=np.zeros((len(connection), plan.depth)),
        sm_free=np.zeros(len(sm_pace)), sm_pace=sm_pace,
        constant=np.array([
            M.WIRE[protocol], constants["step_us"], constants["fence_us"], store["packet_bytes"],
            node.config.nvlink.sm_reverse, bin_us,
        ], np.float64),
        count=np.array([actors, 0, 0], np.int64),
        heap_time=np.zeros(actors), heap_actor=np.arange(actors),
        log=np.zeros((logged, 4)), bins=np.zeros((links, _BINS * traced)),
    )  # fmt: skip


def _trace(plan: programs.CollectivePlan, node: Node, end: float) -> dict[str, Any]:
    """Runs the machine once more, now that its time is known, and records every step and how busy links are."""
    bin_us = max(end, 1e-3) / _BINS
    machine = _machine(plan, node, True, bin_us)
    M.run(machine)
    operations = machine.operations
    done = tuple(
        Step(
            *plan.actors[int(a)][:2], begin, finish, int(operations[int(k), M.BYTES]),
            operations[int(k), M.RECEIVES] > 0, operations[int(k), M.SENDS] > 0,
        )
        for a, k, begin, finish in machine.log
    )  # fmt: skip
    shares = machine.bins / (machine.link[:, M.L_RATE, None] * bin_us)
    return {"steps": done, "utilisation": shares, "bin_us": bin_us}
