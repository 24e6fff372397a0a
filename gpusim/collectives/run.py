"""One call of a collective: choose, lay out, time, and move the data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.collectives import choice as C
from gpusim.collectives import programs
from gpusim.collectives.data import move
from gpusim.collectives.errors import CollectiveError
from gpusim.collectives.group import Group, group_of
from gpusim.collectives.machine import run
from gpusim.collectives.names import ALGORITHMS, PROTOCOLS
from gpusim.collectives.result import CollectiveResult, LinkUse, Step
from gpusim.collectives.timing import Timing, timing
from gpusim.node import Node, load_node

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOGGED = 200_000
_BINS = 200


def collective(
    name: str | Sequence[str],
    nbytes: int | Sequence[int],
    gpus: int | None = 8,
    node: str | Path | Node = "hgx_h200",
    *,
    root: int = 0,
    algorithm: str | None = None,
    protocol: str | None = None,
    channels: int | None = None,
    data: Sequence[np.ndarray] | None = None,
    trace: bool = False,
    overrides: Mapping[str, Any] | Sequence[str] | None = None,
) -> CollectiveResult:
    """Simulate one call of a collective as NCCL carries it out.

    Args:
        name: "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all" or "send_recv" (each
            rank sends to the next one and receives from the one before). A list says what each rank calls.
        nbytes: the larger of the send and receive buffers of one rank, as NCCL's own tests count; or a list, of each.
        gpus: the first so many GPUs of the node; None for all.
        node: name of a shipped node, path to a TOML file, or a `gpusim.node.Node`.
        root: rank that a broadcast starts from, or a reduction ends at.
        algorithm, protocol, channels: what NCCL_ALGO, NCCL_PROTO and the number of channels would force: "ring" or
            "tree"; "LL", "LL128" or "Simple". None: NCCL's choice.
        data: the send buffer of each rank, of one type and size; moved as the plan says, sums and all, into
            `result.outputs`. The size must be that of `nbytes`.
        trace: record what each block did (`result.steps`) and how busy links were over time (`result.utilisation`).
        overrides: changes to the node, such as ["nvlink.links=12"].

    Raises:
        CollectiveError: for a name, size, root, algorithm or data that cannot be, and for ranks that call different
            collectives or sizes, where real ranks would wait for each other forever; it names the ranks.
        NodeError: for GPUs that have no path to each other, ConfigError for an unknown node or key.
    """
    machine = load_node(node, gpus, overrides=overrides)
    group = group_of(machine)
    ranks = group.communicator.ranks
    called: str = _one("what they call", name, ranks)
    size: int = _one("bytes", nbytes, ranks)
    C.check_name(called)
    _check(called, size, ranks, root, algorithm, protocol, channels)
    if data is not None:
        _check_data(called, size, ranks, data)
    known = timing()
    how = C.choose(called, size, group.communicator, algorithm, protocol, channels)
    plan = _plan(called, size, group, how, root, known)
    started = time.perf_counter()
    end, moved, busy, events, steps, use, bin_us = _time(plan, how, machine, known, trace)
    launch, start = known.values["launch"]["call_us"], known.values[how.protocol]["start_us"]
    if how.algorithm == "p2p":
        pairs = known.values["pairs"]
        start = pairs[f"{how.protocol}_us"] + pairs["peer_us"] * (ranks - 1 if called == "all_to_all" else 1)
    total = launch + start + end
    links = sorted(
        (LinkUse(link.name, moved[k], busy[k] / total) for k, link in enumerate(machine.links) if moved[k] > 0),
        key=lambda each: (-each.utilisation, each.name),
    )
    outputs = None
    if data is not None:
        outputs = move(plan, list(data), size // ranks if called == "reduce_scatter" else size)
        _local(called, data, outputs, root)
    return CollectiveResult(
        called, size, ranks, machine.name, how.algorithm, how.protocol, how.channels, total, launch, start,
        tuple(links), events, time.perf_counter() - started, outputs, steps, use, bin_us,
        tuple(link.name for link in machine.links),
    )  # fmt: skip


def _one(what: str, given: Any, ranks: int) -> Any:
    """What all ranks say alike; a text or number stands for all."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return given
    if len(given) != ranks:
        raise CollectiveError(f"{what} of {len(given)} ranks, but there are {ranks}")
    groups: dict[Any, list[int]] = {}
    for rank, each in enumerate(given):
        groups.setdefault(each, []).append(rank)
    if len(groups) > 1:
        told = [
            f"{'ranks' if who[1:] else 'rank'} {', '.join(map(str, who[:8]))}{', ...' if who[8:] else ''}: {each}"
            for each, who in groups.items()
        ]
        raise CollectiveError(f"ranks differ in {what} ({'; '.join(told)}) and would wait for each other forever")
    return given[0]


def _check(name: str, nbytes: int, ranks: int, root: int, algorithm: Any, protocol: Any, channels: Any) -> None:
    whole = 4 * ranks if name in ("all_gather", "reduce_scatter", "all_to_all") else 4
    if not isinstance(nbytes, (int, np.integer)) or nbytes < whole or nbytes % whole:
        raise CollectiveError(f"{name} of {ranks} ranks needs a multiple of {whole} bytes, got {nbytes!r}")
    if not 0 <= root < ranks:
        raise CollectiveError(f"root {root} is not one of the ranks 0 to {ranks - 1}")
    for what, value, real in (("algorithm", algorithm, ALGORITHMS), ("protocol", protocol, PROTOCOLS)):
        if value is not None and value not in real:
            raise CollectiveError(f"no {what} {value!r}; there are {', '.join(real)}")
    if channels is not None and not 1 <= channels <= 64:
        raise CollectiveError(f"channels must be 1 to 64, got {channels}")


def _check_data(name: str, nbytes: int, ranks: int, data: Sequence[np.ndarray]) -> None:
    if len(data) != ranks:
        raise CollectiveError(f"{len(data)} buffers for {ranks} ranks")
    size = nbytes // ranks if name == "all_gather" else nbytes
    wrong = [f"rank {r} has {each.nbytes:,}" for r, each in enumerate(data) if each.nbytes != size]
    if wrong:
        raise CollectiveError(f"every rank's send buffer must have {size:,} bytes; {', '.join(wrong[:8])}")
    kinds = {each.dtype for each in data}
    if len(kinds) > 1:
        raise CollectiveError(f"ranks send different types: {', '.join(sorted(map(str, kinds)))}")
    if 16 % data[0].dtype.itemsize:
        raise CollectiveError(f"elements of {data[0].dtype.itemsize} bytes cannot be sent; 1, 2, 4, 8 or 16 can")


def _plan(name: str, nbytes: int, group: Group, how: C.Choice, root: int, known: Timing) -> programs.Plan:
    ranks = group.communicator.ranks
    if how.algorithm == "tree":
        return programs.tree(how, group.parents, known)
    if how.algorithm == "ring":
        orders = group.orders
        if name in ("broadcast", "reduce"):
            orders = tuple(_from(order, root, first=name == "broadcast") for order in orders)
        whole = name in ("all_reduce", "broadcast", "reduce")
        return programs.ring(name, how, orders, nbytes if whole else nbytes // ranks, known)
    total = 1 << (group.communicator.channels - 1).bit_length()
    if name == "send_recv":
        sends = [(rank, (rank + 1) % ranks, 0, 0) for rank in range(ranks)]
    else:
        each = nbytes // ranks
        sends = [(a, b, b * each, a * each) for a in range(ranks) for b in range(ranks) if a != b]
    return programs.pairs(how, sends, ranks, total, known)


def _from(order: tuple[int, ...], root: int, first: bool) -> tuple[int, ...]:
    """The ring cut open so that it begins, or ends, at the root."""
    at = order.index(root) + (0 if first else 1)
    return order[at:] + order[:at]


def _local(name: str, data: Sequence[np.ndarray], outputs: list[np.ndarray], root: int) -> None:
    """What a rank has without a link: its own piece of an exchange. Only the root of a reduction has a result."""
    ranks = len(data)
    if name == "all_to_all":
        for rank, out in enumerate(outputs):
            each = len(out) // ranks
            out[rank * each : (rank + 1) * each] = data[rank].reshape(-1)[rank * each : (rank + 1) * each]


def _time(plan: programs.Plan, how: C.Choice, node: Node, known: Timing, trace: bool) -> tuple[Any, ...]:
    """Runs the machine on a plan, twice if its links are to be shown over time."""
    constants, store = known.values[how.protocol], known.values["store"]
    tables = [table.operations for table in plan.tables]
    starts = np.cumsum([0, *(len(each) for each in tables)])
    ends = np.array(plan.connections, np.int64).reshape(-1, 2)
    rank = np.array(plan.rank, np.int64)
    routes: dict[tuple[int, int], tuple[tuple[int, ...], float]] = {}

    def route(a: int, b: int) -> tuple[tuple[int, ...], float]:
        if (a, b) not in routes:
            path = node.path(node.gpus[a], node.gpus[b])
            late = sum(node.links[k].latency_us for k in path)
            if any(node.links[k].kind in ("infiniband", "socket") for k in path):
                late += known.values["network"][f"{how.protocol}_us"]
            routes[a, b] = (tuple(path), late)
        return routes[a, b]

    there = [route(int(rank[a]), int(rank[b])) for a, b in ends]
    back = [route(int(rank[b]), int(rank[a])) for a, b in ends]
    latency = np.array([late for _, late in there]) + constants["flag_us"]
    rate = np.array([link.bandwidth_gb_s * 1e3 * store["efficiency"] for link in node.links])
    log = np.zeros((_LOGGED if trace else 0, 4))

    def go(bins: np.ndarray, bin_us: float) -> tuple[Any, ...]:
        return run(
            np.concatenate(tables), starts, np.array(plan.table, np.int64),
            rank * 64 + np.array(plan.channel, np.int64),
            _padded(plan.sources), _padded(plan.destinations), ends[:, 0].copy(), ends[:, 1].copy(),
            *_flat([path for path, _ in there]), *_flat([path for path, _ in back]),
            latency, rate, plan.depth, plan.wire,
            constants["step_us"], constants["fence_us"], float(store["packet_bytes"]), int(store["window"]),
            store["acknowledged"], log, bins, bin_us,
        )  # fmt: skip

    end, moved, busy, _, events, stuck, rows = go(np.zeros((len(rate), 0)), 1.0)
    assert stuck == 0, "a plan whose blocks wait for each other"
    if not trace:
        return end, moved, busy, events, (), None, 0.0
    bins = np.zeros((len(rate), _BINS))
    bin_us = max(end, 1e-3) / _BINS
    go(bins, bin_us)
    every = np.concatenate(tables)
    steps = tuple(
        Step(
            plan.rank[int(a)], plan.channel[int(a)], begin, finish, int(every[int(k), programs.BYTES]),
            every[int(k), programs.RECEIVES] > 0, every[int(k), programs.SENDS] > 0,
        )
        for a, k, begin, finish in log[:rows]
    )  # fmt: skip
    return end, moved, busy, events, steps, bins / (rate[:, None] * bin_us), bin_us


def _padded(lists: list[list[int]]) -> np.ndarray:
    out = np.full((len(lists), 3), -1, np.int64)
    for k, each in enumerate(lists):
        if len(each) > 3:
            raise CollectiveError(f"a block with {len(each)} partners; a tree may have three branches")
        out[k, : len(each)] = each
    return out


def _flat(paths: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *(len(path) for path in paths)])
    return starts, np.array([link for path in paths for link in path], np.int64)
