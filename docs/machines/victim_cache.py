"""A victim cache beside L1: a few lines that have had to go, fully associative (N. Jouppi, "Improving Direct-Mapped
Cache Performance by the Addition of a Small Fully-Associative Cache and Prefetch Buffers", ISCA 1990).

    gpusim run spmv/csr_scalar --set l1.reserved_lines=1780 --model docs/machines/victim_cache.py:VictimCache
"""

from collections import OrderedDict

from gpusim import machine

LINES = 64


class L1WithVictims(machine.L1Cache):
    victims: OrderedDict[int, int]

    def evict(self, line: int, sectors: int) -> None:
        self.__dict__.setdefault("victims", OrderedDict())[line] = sectors
        if len(self.victims) > LINES:
            self.victims.popitem(last=False)

    def lookup(self, line, sectors):
        if self.sets and sectors & ~self.set_of(line).get(line, 0) and line in self.__dict__.get("victims", ()):
            self.fill(line, self.victims.pop(line))
        return super().lookup(line, sectors)


class SMWithVictims(machine.SM):
    L1Cache = L1WithVictims


class VictimCache(machine.GPU):
    SM = SMWithVictims
