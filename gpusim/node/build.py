"""From a description to links: which devices there are, how they are numbered, and what joins them.

Devices are numbered over all machines: `gpu0` ..., `switch0` (the NVSwitches of a machine, which together pass
everything on), `pcie0` (PCIe switches), `bridge0` (host bridges of a socket), `host0` (memory of a socket), `nic0`,
`network0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpusim.errors import NodeError, did_you_mean
from gpusim.node.sections import NodeConfig, Wire


@dataclass(frozen=True)
class Link:
    """One direction of a link, or of a bundle of links side by side.

    name: such as `gpu0.nvlink>switch0`, which reports use; start, end: the devices; kind: nvlink, pcie, infiniband,
    socket (TCP), memory, upi (between processors). bandwidth_gb_s: payload of whole packets, after everything that
    packets carry beside it. reverse: payload's worth of the opposite direction that each byte takes.
    """

    name: str
    start: str
    end: str
    kind: str
    bandwidth_gb_s: float
    latency_us: float
    reverse: float = 0.0


def build_links(config: NodeConfig, gpus: int) -> tuple[Link, ...]:
    """All links, of the first `gpus` GPUs and of every machine. Raises NodeError for a link in `links` that is not."""
    links = {link.name: link for link in _all(config, gpus)}
    for name, factor in [*config.links.scale, *((each, 0.0) for each in config.links.down)]:
        for each in _named(name, links):
            links[each] = replace(links[each], bandwidth_gb_s=links[each].bandwidth_gb_s * factor)
    return tuple(link for link in links.values() if link.bandwidth_gb_s > 0)


def switches_of(config: NodeConfig) -> int:
    """PCIe switches of one machine."""
    return -(-config.node.gpus // config.pcie.gpus_per_switch)


def switch_of(config: NodeConfig, gpu: int) -> int:
    """The PCIe switch, over all machines, that a GPU is below."""
    machine, local = divmod(gpu, config.node.gpus)
    return machine * switches_of(config) + local // config.pcie.gpus_per_switch


def socket_of(config: NodeConfig, switch: int) -> int:
    """The socket, over all machines, that a PCIe switch belongs to."""
    per_machine = switches_of(config)
    machine, local = divmod(switch, per_machine)
    return machine * config.host.sockets + local * config.host.sockets // per_machine


def _all(config: NodeConfig, gpus: int) -> Iterator[Link]:
    yield from _nvlinks(config, gpus)
    pcie, machines = config.pcie, config.node.machines
    for gpu in range(gpus):
        yield from _both(pcie, f"gpu{gpu}", f"pcie{switch_of(config, gpu)}", "pcie", pcie.bandwidth_gb_s(1))
    for switch in range(machines * switches_of(config)):
        bridge = f"bridge{socket_of(config, switch)}"
        yield from _both(pcie, f"pcie{switch}", bridge, "pcie", pcie.bandwidth_gb_s(1) * pcie.uplink_lanes / pcie.lanes)
        for each in range(config.network.nics_per_switch):
            nic = switch * config.network.nics_per_switch + each
            yield from _both(pcie, f"nic{nic}", f"pcie{switch}", "pcie", pcie.bandwidth_gb_s(1))
            if machines > 1:
                network = config.network
                yield from _both(network, f"nic{nic}", "network0", network.kind, network.bandwidth_gb_s(1))
    yield from _memories(config)


def _nvlinks(config: NodeConfig, gpus: int) -> Iterator[Link]:
    nvlink = config.nvlink
    if nvlink.wiring == "switch" and nvlink.links:
        for gpu in range(gpus):
            switch = f"switch{gpu // config.node.gpus}"
            yield from _both(nvlink, f"gpu{gpu}", switch, "nvlink", nvlink.bandwidth_gb_s(nvlink.links))
    elif nvlink.wiring == "pairs":
        for machine in range(config.node.machines):
            first = machine * config.node.gpus
            for a, b, links in nvlink.pairs:
                if max(a, b) + first < gpus:
                    rate = nvlink.bandwidth_gb_s(links)
                    yield from _both(nvlink, f"gpu{first + a}", f"gpu{first + b}", "nvlink", rate)


def _memories(config: NodeConfig) -> Iterator[Link]:
    host = config.host
    for socket in range(config.node.machines * host.sockets):
        memory, bridge = f"host{socket}", f"bridge{socket}"
        for a, b, rate in ((memory, bridge, host.memory_read_gb_s), (bridge, memory, host.memory_write_gb_s)):
            yield Link(f"{a}.memory>{b}", a, b, "memory", rate, host.memory_latency_us)
        for other in range(socket - socket % host.sockets, socket):
            for a, b in ((f"bridge{other}", bridge), (bridge, f"bridge{other}")):
                yield Link(f"{a}.upi>{b}", a, b, "upi", host.socket_gb_s, host.socket_latency_us)


def _both(wire: Wire, a: str, b: str, kind: str, bandwidth: float) -> Iterator[Link]:
    for start, end in ((a, b), (b, a)):
        yield Link(f"{start}.{kind}>{end}", start, end, kind, bandwidth, wire.latency_us, wire.reverse)


def _named(name: str, links: dict[str, Link]) -> list[str]:
    """The links that a name means: one direction by its full name, both by `gpu0-switch0`."""
    if name in links:
        return [name]
    ends = {frozenset(name.split("-"))} if name.count("-") == 1 else set()
    found = [link.name for link in links.values() if frozenset((link.start, link.end)) in ends]
    if not found:
        pairs = dict.fromkeys(f"{link.start}-{link.end}" for link in links.values())
        raise NodeError(f"there is no link {name!r}{did_you_mean(name, [*links, *pairs], 0.4)}")
    return found
