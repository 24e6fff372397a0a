"""Shared memory: banks, each a word wide, that give one word a cycle; more words of one bank take more wavefronts."""

from __future__ import annotations

import simpy

from gpusim.config import GPUConfig
from gpusim.machine.execution import Executed
from gpusim.machine.instruction import Decoded
from gpusim.machine.server import Server
from isa import microops as M


class SharedMemory:
    """The banks of an SM's shared memory, behind the data stage that L1 shares with them (`data`)."""

    def __init__(self, env: simpy.Environment, config: GPUConfig, data: Server):
        self.env, self.config, self.data = env, config.shared, data

    def bank(self, address: int) -> int:
        """Return the bank that a byte lies in (CUDA programming guide: successive words in successive banks)."""
        return address // self.config.bank_bytes % self.config.banks

    def wavefronts(self, instruction: Decoded, access: Executed) -> int:
        """Return how many passes over the banks an access takes: of the bank with most different words, their number.

        Accesses wider than a word and atomics are grouped as the hardware groups them; the engine counts those.
        """
        if instruction.size != 4 or instruction.op not in (M.OP_LOAD, M.OP_STORE) or not access.addresses:
            return max(access.wavefronts, 1)
        bank_bytes = self.config.bank_bytes
        words = {address // bank_bytes for address in access.addresses if address >= 0}
        if len(words) == 1:
            return 1
        in_bank = [0] * self.config.banks
        for word in words:
            in_bank[self.bank(word * bank_bytes)] += 1
        return max(in_bank)

    def serve(self, instruction: Decoded, access: Executed, earliest: float) -> float:
        """Take a turn of the data stage. Returns the cycle at which the result is there."""
        passes = self.wavefronts(instruction, access)
        atomic = instruction.op in (M.OP_ATOM, M.OP_RED)
        each = self.config.atomic_wavefront_cycles if atomic else self.config.wavefront_cycles
        start = self.data.book(each * passes, earliest)
        latency = self.config.atomic_latency_cycles if atomic else self.config.latency_cycles
        return start + latency + (passes - 1) * self.config.wavefront_latency_cycles
