"""A node's sections, one class each: every key, what it means, its unit (in the name) and its range.

As for GPUs (`gpusim/config/sections.py`) keys have no defaults: a file, or the one it is based on, gives every value
and where it comes from. Files are read as those of GPUs are (`gpusim/config/load.py`). Rates are in one direction, of
one link.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpusim.config.load import Kind, Overrides, load
from gpusim.config.models import Described, describe
from gpusim.config.sections import Count, Rate, Section, _doc

Number = Annotated[int, Field(ge=0)]
Time = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Pair = tuple[Number, Number, Count]
Scale = tuple[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]


class Box(Section):
    """The product, its GPU, and the numbers of GPUs and machines."""

    name: str = Field(min_length=1, description="name of the product")
    gpu: str = Field(min_length=1, description="GPU configuration of every GPU")
    gpus: Count = _doc("GPUs of one machine")
    machines: Count = _doc("machines, that is hosts with memory of their own, joined by the network")


class Wire(Section):
    """A kind of physical link: from lanes and packets to the payload that it carries."""

    lanes: Count = _doc("lanes of one link in one direction")
    lane_gbit_s: Rate = _doc("signalling rate of a lane, 10^9 bits a second")
    encoding: Share = _doc("share of those bits that is left after line code and forward error correction")
    payload_bytes: Count = _doc("payload of a whole packet")
    header_bytes: Number = _doc("what a packet carries beside it: header, check sum, framing, its part of credits")
    achieved: Share = _doc("share of the time in which packets follow each other, when nothing else holds them up")
    reverse: Time = _doc("payload's worth of the opposite direction that each byte takes: requests, acknowledgements")
    credits: Count = _doc("packets on their way over one link that the far side has room for")
    latency_us: Time = _doc("from one end to the other, with half of what the devices at its ends need to pass it on")

    def bandwidth_gb_s(self, links: int) -> float:
        """Payload of whole packets over so many links side by side, 10^9 bytes a second in one direction."""
        wire = self.lanes * self.lane_gbit_s / 8 * self.encoding * self.achieved
        rate = wire * self.payload_bytes / (self.payload_bytes + self.header_bytes)
        if self.latency_us > 0:  # a credit comes back one latency after its packet has arrived
            rate = min(rate, self.credits * self.payload_bytes / (2e3 * self.latency_us))
        return links * rate


class NVLink(Wire):
    """Links between GPUs."""

    wiring: Literal["switch", "pairs", "none"] = _doc(
        "switch: every GPU's links go to NVSwitches that together pass everything on at full rate; pairs: GPUs are "
        "wired to each other; none"
    )
    links: Number = _doc("links of each GPU to the switches; with `pairs`, the most that a GPU has")
    sm_share: Share = _doc("share of a link's rate that loads and stores of SMs reach, of kernels and of collectives")
    sm_reverse: Time = _doc("as reverse, of what SMs store")
    pairs: tuple[Pair, ...] = _doc("with `pairs`: two GPUs of a machine and the links between them")

    @model_validator(mode="after")
    def _consistent(self) -> NVLink:
        if self.wiring != "pairs":
            return self
        used: dict[int, int] = {}
        seen: set[frozenset[int]] = set()
        for a, b, links in self.pairs:
            if a == b or frozenset((a, b)) in seen:
                raise ValueError(f"pairs must name two GPUs each, and every two once, not {a} and {b}")
            seen.add(frozenset((a, b)))
            for gpu in (a, b):
                used[gpu] = used.get(gpu, 0) + links
                if used[gpu] > self.links:
                    raise ValueError(f"pairs give GPU {gpu} {used[gpu]} links, but nvlink.links is {self.links}")
        return self


class Pcie(Wire):
    """The tree from GPUs and NICs through switches to the host bridges."""

    gpus_per_switch: Count = _doc("GPUs below one PCIe switch")
    uplink_lanes: Count = _doc("lanes from a switch to its host bridge")
    peers: Literal["none", "switch", "bridge", "all"] = _doc(
        "how far GPUs reach each other's memory over PCIe: not at all, below one switch, below one host bridge, or "
        "across sockets as well; what is farther goes through host memory"
    )


class Processors(Section):
    """Processors and their memory."""

    sockets: Count = _doc("processor sockets of a machine; switches are divided evenly among them")
    memory_read_gb_s: Rate = _doc("what devices can read from the memory of one socket")
    memory_write_gb_s: Rate = _doc("what devices can write to the memory of one socket")
    memory_latency_us: Time = _doc("from a host bridge to memory")
    socket_gb_s: Rate = _doc("between two sockets, in one direction")
    socket_latency_us: Time = _doc("between two sockets")
    copy_call_us: Time = _doc("time the host needs to add a copy to a stream")
    large_copy_bytes: Number = _doc("copies over this size take longer to add")
    large_copy_call_us: Time = _doc("time the host needs to add such a copy")
    event_call_us: Time = _doc("time the host needs to add an event, or waiting for one, to a stream")
    launch_call_us: Time = _doc("time the host needs to add a kernel to a stream")
    function_us: Time = _doc("from the end of a stream's work to that of a function of the host behind it")


class Network(Wire):
    """The network between machines: NICs below the PCIe switches, and switches that forward at full rate."""

    kind: Literal["infiniband", "socket"] = _doc("infiniband: NICs read and write memory; socket: the kernel's TCP")
    nics_per_switch: Number = _doc("NICs below one PCIe switch")
    gpu_direct: bool = _doc("NICs reach GPU memory; otherwise everything goes through host memory")


class Copies(Section):
    """Copy engines and what the driver does around them."""

    event_us: Time = _doc("what of the start-ups a copy in a stream has before it, not in itself")
    device_gb_s: Rate = _doc("copy within one GPU's memory, bytes copied")
    device_start_us: Time = _doc("from when a copy within a GPU is taken on until its first byte moves")
    peer_engines: Count = _doc("copies to other GPUs that a GPU sends at once")
    peer_start_us: Time = _doc("the same as device_start_us, to another GPU")
    to_device_engines: Count = _doc("copies from hosts that a GPU fetches at once")
    to_device_start_us: Time = _doc("the same, from host memory")
    to_host_engines: Count = _doc("copies to hosts that a GPU sends at once")
    to_host_start_us: Time = _doc("the same, to host memory")
    takeover_us: Time = _doc("until an engine takes on a copy in a stream that comes from a kernel")
    command_bytes: Number = _doc("pinned copies to a GPU up to this size travel inside the command, by no engine")
    command_us: Time = _doc("what such a copy takes in its stream, beside inline_gb_s")
    inline_bytes: Number = _doc("pageable copies to a GPU up to this size travel inside the command itself")
    inline_gb_s: Rate = _doc("rate at which the host writes those")
    staging_bytes: Count = _doc("one of the two pinned buffers through which pageable memory is copied")
    cache_bytes: Number = _doc("pageable memory up to this size stays in the processor's cache")
    read_cached_gb_s: Rate = _doc("host's copying from pageable memory into staging buffers, from its cache")
    read_gb_s: Rate = _doc("the same, from memory")
    write_cached_gb_s: Rate = _doc("host's copying from staging buffers to pageable memory that its cache holds")
    write_gb_s: Rate = _doc("the same, to memory")


class ManagedMemory(Section):
    """Managed memory: what faults, prefetches and accesses where it lies take. An MB has 2^20 bytes."""

    batch_pages: Count = _doc("pages that a batch of the GPU's faults has at most")
    sm_pages: Count = _doc("pages of one SM that a batch has at most")
    gather_us: Time = _doc("from a fault of the GPU until the driver takes up its batch")
    wake_us: Time = _doc("what that takes more when the driver has paused")
    pause_us: Time = _doc("time without faults after which it has")
    block_us: Time = _doc("service of a batch's faults in one block of 2 MB")
    new_block_us: Time = _doc("what that takes more for a block of which the GPU has nothing yet")
    page_us: Time = _doc("what each page that was asked for adds")
    gpu_us_per_mb: Time = _doc("what comes to the GPU by faults")
    collapse_page_us: Time = _doc("a page written by the GPU of which the host has a copy")
    evict_us_per_mb: Time = _doc("what goes to the host to make room for other managed memory")
    host_fault_us: Time = _doc("a fault of the host on memory that is on the GPU")
    host_new_block_us: Time = _doc("what that takes more for the first of a block of 2 MB")
    host_us_per_mb: Time = _doc("what comes to the host by faults")
    host_untouched_us: Time = _doc("a fault of the host on memory that nobody has touched")
    host_untouched_us_per_mb: Time = _doc("what comes into being on the host by them")
    host_collapse_page_us: Time = _doc("a page written by the host of which the GPU has a copy")
    prefetch_us: Time = _doc("a prefetch, beside what it moves")
    prefetch_there_us: Time = _doc("the same, of memory that is all there")
    prefetch_gpu_us_per_mb: Time = _doc("prefetched to the GPU from the host")
    prefetch_new_us_per_mb: Time = _doc("prefetched where nobody has touched it")
    prefetch_there_us_per_mb: Time = _doc("prefetched that is there")
    prefetch_host_us_per_mb: Time = _doc("prefetched to the host from the GPU")
    prefetch_call_us_per_mb: Time = _doc("time that the host needs to call for a prefetch to the GPU")
    prefetch_waits_bytes: Number = _doc("prefetches to the host over this size return when they are done")
    bus_gb_s: Rate = _doc("what kernels read or write of host memory where it lies")
    bus_latency_us: Time = _doc("a load of a kernel from host memory")


class Changes(Section):
    """Changes on one machine, by the names of links; `gpu0-switch0` means both directions."""

    down: tuple[str, ...] = _doc("links that do not work")
    scale: tuple[Scale, ...] = _doc("links whose bandwidth is multiplied by a factor, as (name, factor)")


class NodeConfig(Described):
    """A whole description: immutable and hashable."""

    node: Box
    nvlink: NVLink
    pcie: Pcie
    host: Processors
    network: Network
    copies: Copies
    managed: ManagedMemory
    links: Changes

    @model_validator(mode="after")
    def _consistent(self) -> NodeConfig:
        if self.nvlink.wiring == "pairs":
            highest = max((max(a, b) for a, b, _ in self.nvlink.pairs), default=0)
            if highest >= self.node.gpus:
                raise ValueError(f"nvlink.pairs names GPU {highest}, but node.gpus is {self.node.gpus}")
        return self


def describe_node_keys() -> Mapping[str, str]:
    """Every dotted key of a node and what it means, in file order."""
    return describe(NodeConfig)


NODE = Kind(NodeConfig, Path(__file__).parent, "node", "nvlink.links=12")


def shipped_nodes() -> tuple[str, ...]:
    """Names of the nodes that come with gpusim, sorted."""
    return NODE.names()


def load_node_config(node: str | Path | NodeConfig, overrides: Overrides = None) -> NodeConfig:
    """The description of a shipped name or a TOML file, with overrides as `gpusim.load_config` takes them.

    Raises ConfigError, naming the dotted key and the nearest real one.
    """
    return load(NODE, node, overrides)
