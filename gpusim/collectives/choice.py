"""The algorithm, protocol and channels that NCCL takes for a call, and its cuts of the data.

NCCL predicts a time for each algorithm and protocol, a latency plus bytes over a bandwidth, and takes the least; then
it takes as many channels (thread blocks) as have work enough. The constants and rules are those of NCCL 2.28.9
(src/graph/tuning.cc, src/enqueue.cc, src/init.cc, src/include/collectives.h), for a machine of GPUs behind NVLink
without multicast. `python -m validate node choices` holds them to what NCCL logged on 2 and 4 H200s.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from gpusim.collectives.machine import ALGORITHMS, PROTOCOLS, CollectiveError
from gpusim.launch.memory import round_up

STEPS = 8
"""Slots of the buffer between two ranks of a channel."""

_TUNING = tomllib.loads((Path(__file__).parent / "tuning.toml").read_text("utf-8"))
_THREADS = {"LL": 512, "LL128": 640, "Simple": 512}
_BYTES_PER_THREAD = {"LL": 8, "LL128": 8, "Simple": 64}
_BUFFER_BYTES = {"LL": 512 * 8 * STEPS * 16, "LL128": 120 * 640 * STEPS * 8, "Simple": 4 << 20}
_GRAIN_BYTES = {"LL": 16, "LL128": 32 * 8 // 16 * 15 * 8, "Simple": 512}
_LEAST_TRAFFIC_BYTES = 16 << 10
_P2P_CHUNK_BYTES = 512 << 10
_P2P_LL_BYTES = 16 << 10
_P2P_PART_BYTES = 4 << 10


@dataclass(frozen=True)
class Choice:
    """The plan of a call.

    channels: thread blocks of each rank, each with a part of the data; `parts` are the bytes of each one's part (of the
    whole buffer for all-reduce, broadcast, reduce; of one rank's piece otherwise).
    chunk_bytes: data that a rank passes on at a time; slices: the parts of a chunk that are handed over one by one.
    depth: slices under way between two ranks.
    """

    algorithm: str
    protocol: str
    parts: tuple[int, ...]
    chunk_bytes: int
    slices: int
    depth: int

    @property
    def channels(self) -> int:
        """Channels with a part of the data."""
        return len(self.parts)


@dataclass(frozen=True)
class Communicator:
    """A group of ranks, as NCCL knows it.

    ranks; machines: hosts among them; capability: of the GPUs, as 90; channels: rings that the topology search found,
    each counted as often as it is used; channel_gb_s: bandwidth that the search gave each ring before it was doubled.
    link: "nvlink" or "pcie".
    """

    ranks: int
    machines: int
    capability: int
    channels: int
    channel_gb_s: float
    link: str


def steps_of(name: str, ranks: int) -> int:
    """Steps that NCCL counts for a ring."""
    return {"all_reduce": 2 * (ranks - 1), "all_gather": ranks - 1, "reduce_scatter": ranks - 1}.get(name, ranks)


def prediction(name: str, nbytes: int, group: Communicator, algorithm: str, protocol: str) -> float | None:
    """Microseconds that NCCL's own model gives a call, by which it chooses; None for what it does not do."""
    if algorithm == "tree" and name != "all_reduce":
        return None
    p, ranks, machines = PROTOCOLS.index(protocol), group.ranks, group.machines
    generation = max((int(each) for each in _TUNING["generations"] if int(each) <= group.capability), default=70)
    known, where = _TUNING["generations"][str(generation)], min(machines, 3) - 1
    # The search finds rings of half of the channels, which are then used twice.
    rings = max(group.channels // 2, 1)
    bandwidth = rings * group.channel_gb_s
    if algorithm == "ring":
        if protocol == "LL":
            bandwidth = min(known["ll"][where], bandwidth * 0.5)
        elif protocol == "LL128":
            bandwidth = min(bandwidth * 0.92, rings * known["ring"][where])
        bandwidth *= ranks / steps_of(name, ranks)
    else:
        bandwidth = min(bandwidth * 0.92, rings * known["tree"][where])
        if protocol == "LL":
            bandwidth = min(bandwidth / 3.8, known["ll"][where])
        elif protocol == "LL128":
            bandwidth = min(bandwidth * (7 / 9 if machines == 1 else 120 / 128), rings * known["tree128"][where])
        bandwidth *= 0.5
        size = int(math.log2(nbytes >> 6)) if nbytes >= 64 else -1
        if 0 <= size < 23:
            bandwidth *= _TUNING["tree_shortfall"][protocol][size]
    latency = _TUNING["base_us"][algorithm][p]
    inside = _TUNING["hop_us"][group.link][algorithm][p]
    across = _TUNING["hop_us"]["network"][algorithm][p]
    if algorithm == "tree":
        latency += 2 * ((ranks // machines - 1) * inside + int(math.log2(machines)) * across)
    elif name in ("broadcast", "reduce"):
        latency += inside if machines == 1 else across
    else:
        far = 0 if machines == 1 else 2 * (machines - 1) if name == "all_reduce" else machines - 1
        if machines > 1:
            inside = max(inside, 3.0 if protocol == "Simple" else 1.0)
        latency += (steps_of(name, ranks) - far) * inside + far * across
        plateau = protocol == "Simple" and machines > 1 and name == "all_reduce"
        if plateau and nbytes // (group.channels * ranks) >= 64:
            latency *= 1.9 if group.capability < 80 else 1.4
    return latency + nbytes / (1e3 * bandwidth)


def choose(
    name: str, nbytes: int, group: Communicator, algorithm: str | None = None, protocol: str | None = None
) -> Choice:
    """NCCL's plan of a call of `nbytes` (the larger of a rank's send and receive buffers); what is given is kept.

    Raises CollectiveError for an algorithm that the collective does not have.
    """
    if name in ("all_to_all", "send_recv"):
        return _point_to_point(name, nbytes, group, protocol)
    ways = product([algorithm] if algorithm else ALGORITHMS, [protocol] if protocol else PROTOCOLS)
    found = [(us, *way) for way in ways if (us := prediction(name, nbytes, group, *way)) is not None]
    if not found:
        raise CollectiveError(f"{name} has no {algorithm} algorithm; NCCL has trees for all_reduce only")
    _, algorithm, protocol = min(found)
    simple_ring = protocol == "Simple" and algorithm == "ring"
    wide = name in ("all_reduce", "all_gather", "reduce_scatter")
    chunk_steps, slices = (4, 2) if simple_ring and wide else (1, 1)
    chunk = _BUFFER_BYTES[protocol] // STEPS * chunk_steps
    if protocol == "LL":
        chunk //= 2
    if protocol == "LL128":
        chunk = chunk // 16 * 15
    parts = _parts(name, nbytes, group, algorithm, protocol)
    if algorithm == "tree" and protocol == "LL128":
        each = parts[len(parts) // 2]
        depth = 1 + int(math.log2(group.machines)) + 0.1 * group.ranks / group.machines
        share = group.ranks / group.machines
        while each // chunk < depth * 64 / share and chunk > 131072:
            chunk //= 2
        while each // chunk < depth * 16 / share and chunk > 32768:
            chunk //= 2
    chunk = chunk // _GRAIN_BYTES[protocol] * _GRAIN_BYTES[protocol]
    return Choice(algorithm, protocol, parts, chunk, slices, STEPS // (chunk_steps // slices))


def _parts(name: str, nbytes: int, group: Communicator, algorithm: str, protocol: str) -> tuple[int, ...]:
    """Bytes of each channel: whole cells of at least 16 KiB of traffic, the first and the last what is left."""
    most, threads = group.channels, _THREADS[protocol]
    threshold = _BYTES_PER_THREAD[protocol]
    if protocol == "LL" and algorithm == "ring":
        threshold *= group.ranks
    while most > 1 and nbytes < most * threads * threshold:
        most -= 1
    per_byte = {"all_reduce": 2, "all_gather": group.ranks, "reduce_scatter": group.ranks}.get(name, 1)
    count = nbytes if name in ("all_reduce", "broadcast", "reduce") else nbytes // group.ranks
    if protocol == "LL":
        per_byte *= 4
    per_channel = max(_LEAST_TRAFFIC_BYTES, count * per_byte // most)
    cell = round_up(math.ceil(_LEAST_TRAFFIC_BYTES / per_byte), 16)
    cells = -(-count // cell)
    each = min(cells, -(-per_channel // (cell * per_byte)))
    if cells <= each or most == 1:
        return (count,)
    middle, last = divmod(cells - each, each)
    if 1 + middle + (last > 0) > most:
        middle = most - 2
        each, last = divmod(cells - each, middle + 1)
        last += each
    parts = [each] * (1 + middle) + ([last] if last else [])
    sizes = [part * cell for part in parts]
    sizes[-1] -= cells * cell - count
    return tuple(sizes)


def _point_to_point(name: str, nbytes: int, group: Communicator, protocol: str | None) -> Choice:
    """All-to-all and send/receive: each pair of ranks has its own channels."""
    each = nbytes // group.ranks if name == "all_to_all" else nbytes
    total = 1 << (group.channels - 1).bit_length()
    least = total
    while least * group.ranks > total and least > 1:
        least //= 2
    if protocol is None:
        protocol = "LL" if each <= total * _P2P_LL_BYTES else "Simple"
    step = _P2P_CHUNK_BYTES if protocol == "Simple" else _BUFFER_BYTES[protocol] // STEPS
    smallest = step // 2 if group.machines > 1 else step // 8
    largest = step if group.machines > 1 else step * 32
    count = max(min(least, -(-each // smallest)), 1)
    part = max(smallest, -(-each // count))
    while part > largest and count <= total // 2:
        count *= 2
        part = -(-each // count)
    chunk = step // 2 if protocol == "LL" else step
    part = round_up(math.ceil(each / count), _P2P_PART_BYTES)
    sizes = [min(part, each - k * part) for k in range(count) if each - k * part > 0]
    return Choice("p2p", protocol, tuple(sizes), chunk, 1, STEPS)
