"""NVLink: the way to memory of another GPU, whose L2 is taken to hold what is asked for, as in the engine."""

from __future__ import annotations

import simpy

from gpusim.config import GPUConfig
from gpusim.engine.memory.system import PeerRow
from gpusim.machine.server import Server

SECTOR = 32


class PeerLink:
    """The links to a GPU in whose memory an array lies, and back. row: where it lies, what the way adds to a hit in L2
    and how many bytes pass in a cycle."""

    def __init__(self, env: simpy.Environment, config: GPUConfig, row: PeerRow):
        self.env, self.row, self.near = env, row, config.l2.latency_near_cycles
        self.out, self.back = Server(env), Server(env)
        self.sent = self.received = 0

    def holds(self, line: int) -> bool:
        """Return whether a line lies there."""
        return self.row.address <= line << 7 < self.row.address + self.row.nbytes

    def read(self, sectors: int) -> float:
        """Return the cycles until sectors are here."""
        size = SECTOR * sectors.bit_count()
        self.received += size
        return self._way(self.back, size)

    def write(self, sectors: int) -> float:
        """Return the cycles until sectors have been taken there."""
        size = SECTOR * sectors.bit_count()
        self.sent += size
        return self._way(self.out, size)

    def atomic(self, sectors: int) -> float:
        """Return the cycles of an atomic: as of a load (between two H200s 1,683 cycles, and 1,688)."""
        return max(self.write(sectors), self.read(sectors))

    def _way(self, link: Server, size: int) -> float:
        return link.book(size / self.row.bytes_per_cycle) - self.env.now + self.near + self.row.cycles
