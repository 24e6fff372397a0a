"""Compressed transfers between L2 and memory: two bytes in three go over the bus, whatever they are.

    gpusim run saxpy --model docs/machines/compressed_memory.py:CompressedMemory
"""

from gpusim import machine

SHARE = 2 / 3
"""Of the bytes that are left: what a scheme of base and differences reaches on typical data (G. Pekhimenko et al.,
"Base-Delta-Immediate Compression", PACT 2012, has 1.5)."""


class CompressedChannel(machine.Channel):
    def moved(self, size: int) -> float:
        return SHARE * size


class L2WithCompression(machine.L2Cache):
    Channel = CompressedChannel


class CompressedMemory(machine.GPU):
    L2Cache = L2WithCompression
