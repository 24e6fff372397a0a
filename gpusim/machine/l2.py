"""L2: slices in partitions, the way of a request from an SM to the slice of its line and back, links to other GPUs."""

from __future__ import annotations

from collections.abc import Sequence

import simpy

from gpusim.config import GPUConfig
from gpusim.engine.memory.system import PeerRow
from gpusim.engine.state.address_map import GOLDEN
from gpusim.machine.dram import Channel
from gpusim.machine.instruction import Decoded
from gpusim.machine.nvlink import PeerLink
from gpusim.machine.slice import Slice
from isa import microops as M


class L2Cache:
    """All slices, and the way to them: `read`, `write` and `atomic` are a request's whole way from an SM and back.
    links: to other GPUs' memory; requests, crossed: sectors that SMs have asked for, and those from the other half."""

    Slice = Slice
    Channel = Channel
    PeerLink = PeerLink

    def __init__(self, env: simpy.Environment, config: GPUConfig, peers: Sequence[PeerRow] = ()):
        self.env, self.config = env, config
        l2 = config.l2
        self.channels = [self.Channel(env, config, number) for number in range(config.dram.channels)]
        per = max(len(self.channels) // l2.slices, 1)
        self.slices = []
        for number in range(l2.slices):
            first = number * per % len(self.channels)
            self.slices.append(self.Slice(env, config, self.channels[first : first + per]))
        self.links = [self.PeerLink(env, config, row) for row in peers]
        self.requests = dict.fromkeys(("read", "write", "atomic", "reduction"), 0)
        self.crossed = dict.fromkeys(("read", "write", "miss"), 0)
        self.seen: list[set[int]] = [set() for _ in range(l2.partitions)]

    def slice_of(self, line: int) -> Slice:
        """Return the slice that holds a line: in a kilobyte two slices of its home alternate, two lines at a time
        (H200: latencies of atomics to every line). Which two is a hash that spreads any stride, as in the engine."""
        each = len(self.slices) // self.config.l2.partitions
        pairs = max(each // 2, 1)
        turn, pair = divmod(line >> 3, pairs)
        pair = (pair + (turn * GOLDEN >> 12)) % pairs
        return self.slices[self.home(line) * each + (2 * pair + (line >> 1 & 1)) % each]

    def home(self, line: int) -> int:
        """Return the partition that is an address's home: the parity of some of its bits."""
        l2 = self.config.l2
        if l2.partitions != 2:
            return (line >> 5) % l2.partitions
        return sum(line >> bit - 7 & 1 for bit in l2.home_address_bits) & 1

    def is_near(self, line: int, partition: int) -> bool:
        """Return whether an SM of a partition finds a line there, as what has been read from the other one."""
        if self.home(line) == partition or (self.config.l2.near_copy and line in self.seen[partition]):
            return True
        self.seen[partition].add(line)
        return False

    def link(self, line: int) -> PeerLink | None:
        """Return the link to the GPU that a line belongs to, None for this one."""
        return next((each for each in self.links if each.holds(line)), None) if self.links else None

    def read(self, line: int, sectors: int, partition: int) -> float:
        """Return the cycles that a read takes, from the SM's request to its reply, without the SM's own part."""
        self.requests["read"] += sectors.bit_count()
        if link := self.link(line):
            return link.read(sectors)
        home, l2 = self.slice_of(line), self.config.l2
        before = home.fetched
        took = home.read(line, sectors) - self.env.now
        if self.is_near(line, partition):
            return took + l2.latency_near_cycles
        self.crossed["read"] += sectors.bit_count()
        self.crossed["miss"] += home.fetched - before
        return took + l2.latency_far_cycles

    def write(self, line: int, sectors: int, partition: int) -> float:
        """Return the cycles from a store's leaving the SM to its acknowledgement."""
        self.requests["write"] += sectors.bit_count()
        if link := self.link(line):
            return link.write(sectors)
        took, l2 = self.slice_of(line).write(line, sectors) - self.env.now, self.config.l2
        far = self.home(line) != partition
        self.crossed["write"] += sectors.bit_count() if far else 0
        return took + (l2.latency_far_cycles if far else l2.latency_near_cycles)

    # many parameters: an atomic's part on one line
    def atomic(self, instruction: Decoded, line: int, sectors: int, partition: int, lanes: float, turns: int) -> float:
        """Return the cycles of an atomic's part on one line, there and back."""
        self.requests["atomic" if instruction.op == M.OP_ATOM else "reduction"] += sectors.bit_count()
        if link := self.link(line):
            return link.atomic(sectors)
        self.crossed["write"] += sectors.bit_count() if self.home(line) != partition else 0
        done = self.slice_of(line).update(line, sectors, lanes, turns, instruction.adds_floats) - self.env.now
        return done + self.config.l2.atomic_latency_cycles
