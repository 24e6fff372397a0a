"""A slice of L2: tags and sectors of its lines, its port and its unit for atomics, in front of channels of memory."""

from __future__ import annotations

from collections import OrderedDict

import simpy

from gpusim.config import GPUConfig
from gpusim.machine.dram import Channel
from gpusim.machine.server import Server

SECTOR = 32


class Slice:
    """A slice of L2: one port, and lines of four sectors, of which the one used least recently goes."""

    def __init__(self, env: simpy.Environment, config: GPUConfig, channels: list[Channel]):
        self.env, self.config, self.channels = env, config.l2, channels
        self.port, self.atomics = Server(env), Server(env)
        self.room = config.l2.bytes // config.l2.slices // config.l2.line_bytes
        self.lines: OrderedDict[int, list[int]] = OrderedDict()  # line -> [sectors that are there, of them dirty]
        self.arriving: dict[int, float] = {}  # line -> cycle at which its last sectors come from memory
        self.last = -1, 0  # line and sectors of the last atomic
        self.sectors = self.hits = self.missed = self.fetched = self.written = 0
        near, far = config.l2.latency_near_cycles, config.l2.latency_far_cycles
        #: What a miss takes longer than a hit; both are means over near and far lines.
        self.miss = config.dram.latency_cycles - (near if config.l2.partitions == 1 else (near + far) / 2)

    def channel(self, line: int) -> Channel:
        """Return the channel that holds a line: half a kilobyte in each in turn."""
        return self.channels[(line >> 2) % len(self.channels)]

    def read(self, line: int, sectors: int) -> float:
        """Look a line up and fetch what is missing. Returns the cycle at which it is there, less the way to the SM."""
        ready = self._turn(sectors)
        held = self._line(line)
        missing = sectors & ~held[0]
        self.hits += (sectors & ~missing).bit_count()
        self.missed += missing.bit_count()
        if missing:
            ready = max(ready, self._fetch(line, held, missing))
        return max(ready, self.arriving.get(line, 0))

    def write(self, line: int, sectors: int) -> float:
        """Take sectors in. Returns the cycle at which they are there."""
        ready = self._turn(sectors)
        held = self._line(line)
        self.hits += sectors.bit_count()
        held[0] |= sectors
        held[1] |= sectors
        return ready

    def update(self, line: int, sectors: int, lanes: float, turns: int, adds_floats: bool) -> float:
        """Execute an atomic's part on one line, of so many lanes, of which those that share a word take turns. Returns
        the cycle at which it is done: floating-point numbers that are added to one sector in turn take longer."""
        l2, count = self.config, sectors.bit_count()
        each = l2.atomic_whole_sector_cycles if lanes >= 8 * count else l2.atomic_sector_cycles
        busy = max(count, lanes / 8) * each
        floats = adds_floats and self.last == (line, sectors)
        self.last = line, sectors
        busy = max(busy, turns * (l2.atomic_same_float_cycles if floats else l2.atomic_same_address_cycles))
        return max(self.read(line, sectors), self.atomics.book(busy) + busy)

    def _turn(self, sectors: int) -> float:
        count = sectors.bit_count()
        self.sectors += count
        cycles = count * SECTOR / self.config.slice_bytes_per_cycle
        return self.port.book(cycles) + cycles

    def _line(self, line: int) -> list[int]:
        held = self.lines.get(line)
        if held is None:
            if len(self.lines) >= self.room:
                old, (_, dirty) = self.lines.popitem(last=False)
                if dirty:
                    self.written += dirty.bit_count()
                    self.channel(old).transfer(old << 7, SECTOR * dirty.bit_count())
            held = self.lines[line] = [0, 0]
        else:
            self.lines.move_to_end(line)
        return held

    def _fetch(self, line: int, held: list[int], missing: int) -> float:
        pair = self.config.fetch_bytes // SECTOR
        wanted = 0
        for first in range(0, 4, pair):
            if missing >> first & (1 << pair) - 1:
                wanted |= (1 << pair) - 1 << first
        wanted &= ~held[0]
        held[0] |= wanted
        self.fetched += wanted.bit_count()
        self.arriving[line] = self.channel(line).transfer(line << 7, SECTOR * wanted.bit_count()) + self.miss
        return self.arriving[line]
