"""A channel of device memory: one data bus, banks with one open row each."""

from __future__ import annotations

import simpy

from gpusim.config import GPUConfig
from gpusim.machine.server import Server


class Channel:
    """A pseudo channel of HBM. It moves a sector at a time; a row that is not open is opened first (JEDEC HBM3)."""

    def __init__(self, env: simpy.Environment, config: GPUConfig):
        self.env, self.config = env, config.dram
        self.bus = Server(env)
        self.cycles_per_byte = config.dram.channels / (config.dram_bytes_per_cycle * config.dram.bus_efficiency)
        self.rows: dict[int, tuple[int, float]] = {}  # of a bank: its open row, the cycle of its last opening
        self.row_hits = self.row_opens = self.bytes_moved = 0

    def transfer(self, place: int, size: int) -> float:
        """Move bytes that begin at a place of the channel. Returns the cycle at which the last one has moved, less the
        latency of idle memory."""
        dram = self.config
        number = place // dram.row_bytes
        bank, row = number % dram.banks_per_channel, number // dram.banks_per_channel
        opened, when = self.rows.get(bank, (-1, -float(dram.row_idle_cycles)))
        earliest = self.env.now
        if opened == row:
            self.row_hits += 1
        else:
            self.row_opens += 1
            earliest = max(earliest, when + dram.row_cycle_cycles)
            self.rows[bank] = row, earliest
        self.bytes_moved += size
        cycles = self.moved(size) * self.cycles_per_byte
        return self.bus.book(cycles, earliest) + cycles

    def moved(self, size: int) -> float:
        """Return how many bytes go over the bus for so many of L2's."""
        return size
