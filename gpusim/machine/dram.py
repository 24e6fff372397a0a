"""A channel of device memory: one data bus, banks with one open row each."""

from __future__ import annotations

import simpy

from gpusim.config import GPUConfig
from gpusim.machine.server import Server


class Channel:
    """A pseudo channel of HBM. It moves a sector at a time; a row that is not open is opened first (JEDEC HBM3)."""

    def __init__(self, env: simpy.Environment, config: GPUConfig, number: int):
        self.env, self.config, self.number = env, config.dram, number
        self.bus = Server(env)
        self.cycles_per_byte = config.dram.channels / (config.dram_bytes_per_cycle * config.dram.bus_efficiency)
        self.rows: dict[int, tuple[int, float]] = {}  # of a bank: its open row, the cycle of its last opening
        self.held: float = 0  # until which the next read waits with the last one
        self.row_hits = self.row_opens = self.bytes_moved = 0

    def transfer(self, place: int, size: int) -> float:
        """Move bytes that begin at a place of the channel. Returns the cycle at which the last one has moved, less the
        latency of idle memory."""
        dram = self.config
        number = place // dram.row_bytes
        bank, row = number % dram.banks_per_channel, number // dram.banks_per_channel
        opened, when = self.rows.get(bank, (-1, -float(dram.row_idle_cycles)))
        cycles = self.moved(size) * self.cycles_per_byte
        turn = self.bus.book(cycles)
        own = self.refreshed(bank, turn)
        # While one waits for its bank the next read waits with it; others have the bus, as if it were reordered.
        earliest, self.held = max(own if own > turn else self.env.now, self.held), own if own > turn else 0
        if opened == row:
            self.row_hits += 1
        else:
            self.row_opens += 1
            earliest = max(earliest, when + dram.row_cycle_cycles)
            self.rows[bank] = row, earliest
        self.bytes_moved += size
        return max(turn, earliest) + cycles

    def refreshed(self, bank: int, at: float) -> float:
        """Return the cycle from which a bank can be read, `at` one or later. Banks are refreshed one after the other,
        those of one number of some channels together (H200: one load in eight comes up to 540 cycles later)."""
        dram = self.config
        number = self.number // dram.refresh_channels * dram.banks_per_channel + bank
        since = (at + number * 0.618034 * dram.refresh_interval_cycles) % dram.refresh_interval_cycles
        return at + max(dram.refresh_cycles - since, 0)

    def moved(self, size: int) -> float:
        """Return how many bytes go over the bus for so many of L2's."""
        return size
