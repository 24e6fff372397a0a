"""Times of collectives and of transfers between two GPUs, each simulated once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpusim.collectives import collective
from gpusim.collectives.machine import timing
from gpusim.config.load import Overrides
from gpusim.node import Node, load_node


@dataclass(frozen=True)
class CallCost:
    """One call. launch_us: the part of time_us before it takes SMs; channels: SMs that it takes on each of its GPUs;
    links: (name, bytes) of what each link carries; traffic: bytes that one GPU's memory moves for it."""

    time_us: float
    launch_us: float
    channels: int
    links: tuple[tuple[str, float], ...] = ()
    traffic: float = 0.0


FREE = CallCost(0.0, 0.0, 0)


class Communication:
    """Costs on the first `gpus` GPUs of a node. A subclass with other costs may be given to every schedule."""

    def __init__(self, gpus: int | None = None, node: str | Path | Node = "hgx_h200", overrides: Overrides = None):
        self.node = load_node(node, gpus, overrides=overrides)
        self.gpus = len(self.node.gpus)

    def collective(self, name: str, nbytes: int) -> CallCost:
        """A collective of all GPUs, of the larger of a rank's send and receive buffers. Sizes are rounded up to what
        all ranks share evenly."""
        if nbytes <= 0 or self.gpus < 2:
            return FREE
        whole = 4 * self.gpus
        return _collective(self.node, name, -(-int(nbytes) // whole) * whole)

    def transfer(self, source: int, destination: int, nbytes: int) -> CallCost:
        """From one GPU to another, by number."""
        if nbytes <= 0 or source == destination:
            return FREE
        return _transfer(self.node, source, destination, int(nbytes))


@cache
def _collective(node: Node, name: str, nbytes: int) -> CallCost:
    result = collective(name, nbytes, None, node)
    came = sum(link.bytes for link in result.links if link.name.endswith(f">{node.gpus[0]}"))
    links = tuple((link.name, float(link.bytes)) for link in result.links)
    # Stores of peers are written and read again; a rank's own data is read once.
    return CallCost(float(result.time_us), result.launch_us, result.channels, links, float(2 * came + nbytes))


@cache
def _transfer(node: Node, source: int, destination: int, nbytes: int) -> CallCost:
    """NCCL's send and receive: bandwidth of the path as its stores reach it, and the latency of a pair."""
    known = timing()
    path = node.path(node.gpus[source], node.gpus[destination])
    if not path:
        return FREE
    rate = node.bandwidth_gb_s(path) * 1e3 * node.config.nvlink.sm_share
    late = node.latency_us(path) + known["pairs"]["Simple_us"] + known["pairs"]["peer_us"]
    if any(node.links[k].kind in ("infiniband", "socket") for k in path):
        late += known["network"]["Simple_us"]
    launch = known["launch"]["call_us"] + known["launch"]["pair_us"]
    # Enough channels for the bandwidth: each sends a byte and receives one in the time of two stores.
    channels = max(1, round(rate * 2 * known["Simple"]["store_ps"] * 1e-6))
    links = tuple((node.links[k].name, float(nbytes)) for k in path)
    return CallCost(launch + late + nbytes / rate, launch, channels, links, float(nbytes))
