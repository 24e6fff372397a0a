"""The L1 data cache of an SM: tags, and the misses on their way (MSHRs), on which later loads of a sector wait."""

from __future__ import annotations

from collections import OrderedDict

import simpy

from gpusim.config import GPUConfig


class L1Cache:
    """Lines of four sectors in sets; the one used least recently goes. pending: the event that ends the miss of a
    sector, by (line, sector): a second load of it waits for the same event."""

    def __init__(self, env: simpy.Environment, config: GPUConfig, l1_bytes: int):
        self.env, self.config = env, config.l1
        self.sets: list[OrderedDict[int, int]] = [OrderedDict() for _ in range(config.l1.sets(l1_bytes))]
        self.pending: dict[tuple[int, int], simpy.Event] = {}

    def lookup(self, line: int, sectors: int) -> tuple[list[simpy.Event], int]:
        """Look up sectors of a line. Returns (the misses under way of some, those that have to be asked for)."""
        held = self.set_of(line).get(line, 0) if self.sets else 0
        waits, missing = [], 0
        for sector in (1, 2, 4, 8):
            if sectors & sector & ~held:
                if (line, sector) in self.pending:
                    waits.append(self.pending[line, sector])
                else:
                    missing |= sector
        if held:
            self.set_of(line).move_to_end(line)
        return waits, missing

    def ask(self, line: int, sectors: int) -> simpy.Event:
        """Note that sectors are on their way; the event is to be triggered when they are there."""
        arrival = self.env.event()
        for sector in (1, 2, 4, 8):
            if sectors & sector:
                self.pending[line, sector] = arrival
        return arrival

    def fill(self, line: int, sectors: int) -> None:
        """Take in sectors that have arrived, in place of the line used least recently."""
        for sector in (1, 2, 4, 8):
            if sectors & sector:
                self.pending.pop((line, sector), None)
        if not self.sets:
            return
        lines = self.set_of(line)
        if line not in lines and len(lines) >= self.config.ways:
            self.evict(*lines.popitem(last=False))
        lines[line] = lines.pop(line, 0) | sectors  # behind all others

    def evict(self, line: int, sectors: int) -> None:
        """A line has had to go. What is stored is in L2 already, so nothing is lost."""

    def set_of(self, line: int) -> OrderedDict[int, int]:
        """Return the set that a line belongs to."""
        return self.sets[(line ^ line >> 9) % len(self.sets)]
