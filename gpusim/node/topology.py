"""A node: GPUs, what they are joined by, and the path that data takes from one device to another."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

from gpusim.config.load import Overrides
from gpusim.errors import NodeError
from gpusim.node.build import Link, build_links, socket_of, switch_of, switches_of
from gpusim.node.sections import NodeConfig, load_node_config, shipped_nodes


def load_node(
    node: str | Path | Node = "hgx_h200",
    gpus: int | None = None,
    *,
    nodes: int | None = None,
    overrides: Overrides = None,
) -> Node:
    """The node of a shipped name or a TOML file.

    gpus: only the first so many of its GPUs. nodes: so many machines of the kind, joined by the network, such as 128
    for 1,024 GPUs. overrides: as `gpusim.load_config` takes them, such as "nvlink.links=12".

    Raises ConfigError for an unknown name, key or bad value, NodeError for more GPUs than there are.
    """
    if isinstance(node, Node):
        if gpus is None and nodes is None and overrides is None:
            return node
        source: str | Path | NodeConfig = node.config
        gpus = len(node.gpus) if gpus is None and nodes is None else gpus
    else:
        source = node
    config = load_node_config(source, overrides)
    if nodes is not None:
        config = load_node_config(config, {"node.machines": nodes})
    return Node(config, gpus)


def node_with(gpu: Any) -> Node:
    """The node that a GPU comes in: the first shipped one, by name, whose `node.gpu` it is; of another configuration,
    an HGX with it in place of the H200."""
    found = next((each for each in map(load_node, shipped_nodes()) if each.gpu_config == gpu), None)
    own = {"node.gpu": str(gpu), "node.name": f"HGX with {gpu}"} if isinstance(gpu, (str, Path)) else None
    return found or load_node(overrides=own)


class Node:
    """GPUs and links, immutable. `links` are directed; paths are tuples of indices into it, found when first asked for.

    config: the description, with the source of every value. gpus: names of the GPUs, over all machines.
    """

    def __init__(self, config: NodeConfig, gpus: int | None = None):
        every = config.node.gpus * config.node.machines
        count = every if gpus is None else gpus
        if not 1 <= count <= every:
            raise NodeError(f"{config.node.name} has {every} GPUs, not {count}")
        self.config = config
        self.name = config.node.name
        self.gpu_config = config.node.gpu
        self.gpus = tuple(f"gpu{k}" for k in range(count))
        self.links = build_links(config, count)
        self._out: dict[str, list[int]] = {}
        for index, link in enumerate(self.links):
            self._out.setdefault(link.start, []).append(index)
        self._paths: dict[tuple[str, str], tuple[int, ...]] = {}

    def among(self, gpus: Iterable[int]) -> Node:
        """The same node, of whose GPUs only these, by number, do something together."""
        made = copy(self)
        made.gpus = tuple(self.gpus[number] for number in gpus)
        made.__dict__.pop("machines", None)
        return made

    def __repr__(self) -> str:
        return f"<Node {self.name!r}: {len(self.gpus)} x {self.gpu_config}, {len(self.links)} links>"

    @cached_property
    def machines(self) -> tuple[tuple[str, ...], ...]:
        """GPUs of each machine that share a host."""
        groups: dict[int, list[str]] = {}
        for gpu in self.gpus:
            groups.setdefault(int(gpu.removeprefix("gpu")) // self.config.node.gpus, []).append(gpu)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Every end of a link, and every GPU."""
        ends = (end for link in self.links for end in (link.start, link.end))
        return tuple(dict.fromkeys([*self.gpus, *ends]))

    def host_of(self, device: str) -> str:
        """The host memory nearest to a GPU: that of its socket."""
        if device not in self.gpus:
            raise NodeError(f"{self.name} has no gpu {device!r}")
        return f"host{socket_of(self.config, switch_of(self.config, int(device.removeprefix('gpu'))))}"

    def peers_of(self, gpu: int) -> frozenset[int]:
        """Numbers of the GPUs whose memory kernels of a GPU can access: those that NVLink alone leads to."""
        paths = {k: self.path(self.gpus[gpu], name) for k, name in enumerate(self.gpus) if k != gpu}
        return frozenset(k for k, path in paths.items() if all(self.links[each].kind == "nvlink" for each in path))

    def path(self, a: str, b: str) -> tuple[int, ...]:
        """Indices of the links from device `a` to `b`; () from a device to itself.

        Shortest by latency, then by greatest bandwidth; NVLink alone before anything else, as CUDA does for peers. GPUs
        pass nothing on. What PCIe peers cannot reach goes through host memory, as a driver's copy would.

        Raises NodeError, naming both, if there is no way.
        """
        if (a, b) not in self._paths:
            for device in (a, b):
                if device not in self._known:
                    raise NodeError(f"{self.name} has no device {device!r}; it has {', '.join(self.devices[:12])}, ...")
            found = () if a == b else self._route(a, b)
            if found is None:
                raise NodeError(f"no way from {a} to {b} in {self.name}: no links that work join them")
            self._paths[a, b] = found
        return self._paths[a, b]

    def latency_us(self, path: Iterable[int]) -> float:
        """Return the latency of a path, in us: that of its links together."""
        return sum(self.links[index].latency_us for index in path)

    def bandwidth_gb_s(self, path: Iterable[int]) -> float:
        """Return the bandwidth of a path that nothing else uses: its slowest link's."""
        return min(self.links[index].bandwidth_gb_s for index in path)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.devices)

    @cached_property
    def _inward(self) -> dict[int, list[int]]:
        """Links from the network into each machine."""
        found: dict[int, list[int]] = {}
        for index in self._out.get("network0", ()):
            found.setdefault(self._machine(self.links[index].end), []).append(index)
        return found

    def _machine(self, device: str) -> int:
        """Machine of a device; the network belongs to none."""
        kind = device.rstrip("0123456789")
        number = int(device[len(kind) :])
        return -1 if kind == "network" else number // self._per_machine[kind]

    @cached_property
    def _per_machine(self) -> dict[str, int]:
        config = self.config
        switches, sockets = switches_of(config), config.host.sockets
        nics = switches * config.network.nics_per_switch
        counts = {"gpu": config.node.gpus, "switch": 1, "pcie": switches, "nic": nics}
        return {**counts, "bridge": sockets, "host": sockets}

    def _route(self, a: str, b: str) -> tuple[int, ...] | None:
        peers = a.startswith("gpu") and b.startswith("gpu")
        if self._machine(a) != self._machine(b):
            return self._across(a, b)
        if peers:
            found = self._search(a, b, lambda link: link.kind == "nvlink")
            if found is not None:
                return found
        found = self._search(a, b, lambda link: link.kind in ("pcie", "memory", "upi"))
        if found is not None and peers and not self._reaches(found):
            return self._through(a, self.host_of(a), b)
        return found

    def _across(self, a: str, b: str) -> tuple[int, ...] | None:
        """Between machines: to the network by the nearest NIC, and from there. Searched in halves that are kept, so
        that many machines cost no more than few."""
        if "network0" not in self._known:
            return None
        if "network0" not in (a, b):
            if not self.config.network.gpu_direct:
                for device in (a, b):
                    if device.startswith("gpu"):
                        return self._through(a, self.host_of(device), b)
            return self._through(a, "network0", b)
        return self._search(a, b, lambda link: link.kind != "nvlink")

    def _through(self, a: str, middle: str, b: str) -> tuple[int, ...] | None:
        try:
            return self.path(a, middle) + self.path(middle, b)
        except NodeError:
            return None

    def _reaches(self, path: tuple[int, ...]) -> bool:
        """Return whether the PCIe peers of a path can read and write each other's memory."""
        peers = self.config.pcie.peers
        kinds = {self.links[index].kind for index in path}
        bridges = any(self.links[index].end.startswith("bridge") for index in path)
        return peers == "all" or (peers == "bridge" and "upi" not in kinds) or (peers == "switch" and not bridges)

    def _search(self, a: str, b: str, usable: Callable[[Link], bool]) -> tuple[int, ...] | None:
        """Least latency, then greatest bandwidth of the slowest link, then fewest links, then first in the list."""
        seen: set[str] = set()
        heap: list[tuple[float, float, int, str, tuple[int, ...]]] = [(0.0, -float("inf"), 0, a, ())]
        while heap:
            latency, slowest, hops, device, path = heapq.heappop(heap)
            if device == b:
                return path
            ends_here = device != a and device.startswith(("gpu", "host", "network"))  # nothing passes through these
            if device in seen or ends_here:
                continue
            seen.add(device)
            out = self._inward.get(self._machine(b)) if device == "network0" else self._out.get(device)
            for index in out or ():
                link = self.links[index]
                if usable(link):
                    # Latencies are rounded so that the order of a sum does not decide between equal paths.
                    further = round(latency + link.latency_us, 9)
                    rate = max(slowest, -link.bandwidth_gb_s)
                    heapq.heappush(heap, (further, rate, hops + 1, link.end, (*path, index)))
        return None
