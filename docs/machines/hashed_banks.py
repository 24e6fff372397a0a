"""Shared memory whose banks are hashed: word w lies in bank w XOR w / 32, so that columns of a tile lie in 32 banks.

    gpusim run transpose/tiled --model docs/machines/hashed_banks.py:HashedBanks
"""

from gpusim import machine


class Hashed(machine.SharedMemory):
    def bank(self, address: int) -> int:
        word = address // self.config.bank_bytes
        return (word ^ word // self.config.banks) % self.config.banks


class HashedSM(machine.SM):
    SharedMemory = Hashed


class HashedBanks(machine.GPU):
    SM = HashedSM
