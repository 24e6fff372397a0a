"""Managed memory as the host sees it: ranges and their places, advice, the host's own touches, the faults so far.

The table lies in the memory system's array, where `managed` serves the faults of kernels by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.engine.memory.managed import comes_with, fill_leaf, make_room, note_fault, word_of
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.state import memory as ms
from gpusim.errors import ArgumentError

LEAF_BYTES = ms.LEAF_LINES * ms.LINE_BYTES
BLOCK_BYTES = ms.BLOCK_LEAVES * LEAF_BYTES
_GPU, _HOST = ms.ON_GPU, ms.ON_HOST
_WHERE = (1 << ms.READY_BITS) - 1
_LONG_AGO = -(1 << 62)


class Fault(NamedTuple):
    """Leaves that came together, for a page that was asked for where it was not.

    cycle: when that was; ready: from when it is there; address: of its array; to: "gpu" or "host".
    """

    cycle: int
    ready: int
    address: int
    leaf: int
    leaves: int
    to: str


class FaultCosts(NamedTuple):
    """Costs of serving the GPU's faults, in cycles; pages of a batch, and those of one SM; see `managed`."""

    pages: int
    sm_pages: int
    gather: float
    wake: float
    pause: float
    service: float
    new: float
    leaf: float
    page: float
    collapse: float
    evict: float


class Residency:
    """The ranges of one GPU. bus: what the way to host memory adds to a hit in L2 in cycles, its bytes a cycle."""

    def __init__(self, system: MemorySystem, costs: FaultCosts, bus: tuple[float, float]):
        system.hold_managed()
        self._m = system.state
        self._bus = round(bus[0] * ms.TICKS), round(ms.TICKS / bus[1])
        self._numbers: dict[int, int] = {}  # of rows, by address
        self._blocks: dict[int, int] = {}  # of a row's blocks, by address
        first = ms.P_FAULT_GATHER
        self._m[ms.P_FAULT_MOST], self._m[ms.P_FAULT_SM_MOST] = costs.pages, costs.sm_pages
        self._m[first : first + len(costs) - 2] = [round(each * ms.TICKS) for each in costs[2:]]
        self._m[ms.P_FAULT_END] = _LONG_AGO

    def add(self, address: int, nbytes: int) -> None:
        """A range, which nothing has touched. Raises ArgumentError for more ranges or bytes than there is room for."""
        leaves = -(-nbytes // LEAF_BYTES)
        blocks = -(-leaves // ms.BLOCK_LEAVES)
        if len(self._numbers) == ms.MANAGED_MOST:
            raise ArgumentError(f"more than {ms.MANAGED_MOST} managed arrays at a time")
        taken = np.zeros(ms.BLOCKS_MOST, bool)
        for each, number in self._numbers.items():
            start = int(self._row(number)[ms.MANAGED_BLOCK])
            taken[start : start + self._blocks[each]] = True
        runs = np.convolve(~taken, np.ones(max(blocks, 1), np.int64), "valid")
        free = np.flatnonzero(runs == blocks)
        if not free.size:
            raise ArgumentError(
                f"no room for {nbytes:,} bytes: managed arrays have {ms.BLOCKS_MOST * BLOCK_BYTES:,} together"
            )
        number = len(self._numbers)
        lines = address // ms.LINE_BYTES, -(-(address + nbytes) // ms.LINE_BYTES)
        out, back = ms.PEERS_MOST, ms.PEERS_MOST + 1
        block = int(free[0])
        self._row(number)[:] = (*lines, *self._bus, out, out, back, back, ms.CNT_BUS_RECEIVED_BYTES, block, leaves, 0)
        first = self._m[ms.P_MANAGED_BLOCKS] + block * ms.BLOCK_WORDS
        self._m[first : first + blocks * ms.BLOCK_WORDS] = 0
        self._numbers[address], self._blocks[address] = number, blocks
        self._m[ms.P_MANAGED] = len(self._numbers)

    def remove(self, address: int) -> None:
        """A range is freed. The last row takes its place."""
        number, last = self._numbers.pop(address), len(self._numbers)
        self._m[ms.P_MANAGED_HERE] -= np.count_nonzero(self._where(number, 0, self._leaves(number)) & _GPU)
        del self._blocks[address]
        if number != last:
            self._row(number)[:] = self._row(last)
            moved = next(each for each, of in self._numbers.items() if of == last)
            self._numbers[moved] = number
        self._m[ms.P_MANAGED] = last

    def advise(self, address: int, advice: int, on: bool) -> None:
        """READ_MOSTLY or STAYS_ON_HOST hold for a range, or do no longer."""
        row = self._row(self._numbers[address])
        row[ms.MANAGED_ADVICE] = row[ms.MANAGED_ADVICE] & ~advice | (advice if on else 0)

    def begin(self, nbytes: int, cycle: int) -> None:
        """A launch comes: so many bytes of the GPU's memory are free for managed memory. Unless faults are being
        served, the driver has to wake up for its first one."""
        self._m[ms.P_MANAGED_ROOM] = max(nbytes // LEAF_BYTES, 1)
        if int(self._m[ms.P_FAULT_END]) >> ms.TICK_BITS < cycle:
            self._m[ms.P_FAULT_END] = _LONG_AGO

    def where(self, address: int) -> np.ndarray:
        """For each leaf of a range whether it is on the host and on the GPU, bool [leaves, 2]."""
        number = self._numbers[address]
        where = self._where(number, 0, self._leaves(number))
        return np.stack([where & _HOST != 0, where & _GPU != 0], axis=1)

    def host_touches(self, address: int, first: int, end: int, writes: bool, cycle: int) -> dict[str, list[int]]:
        """The host reads or writes leaves first..end-1 in order. Returns the leaves of each group that comes from the
        GPU ("new": the first of a block), of each that nobody had touched ("untouched"), and, one for each, of leaves
        whose copy on the GPU became worthless ("collapsed")."""
        number, row = self._numbers[address], self._at(self._numbers[address])
        groups: dict[str, list[int]] = {"new": [], "more": [], "untouched": [], "collapsed": []}
        for leaf in range(first, end):
            word = self._word(number, leaf)
            where = int(self._m[word]) & _WHERE
            if where & _HOST:
                if writes and where & _GPU:
                    self._set(word, _HOST)
                    groups["collapsed"].append(1)
                continue
            start, count = comes_with(self._m, row, leaf, _HOST)
            block = leaf - leaf % ms.BLOCK_LEAVES
            here = self._where(number, block, min(block + ms.BLOCK_LEAVES, self._leaves(number))) & _HOST
            kind = "untouched" if where == ms.UNTOUCHED else "more" if here.any() else "new"
            groups[kind].append(count - int(np.count_nonzero(self._where(number, start, start + count) & _HOST)))
            mostly = self._row(number)[ms.MANAGED_ADVICE] & ms.READ_MOSTLY and not writes
            for each in range(start, start + count):
                other = self._word(number, each)
                stays = int(self._m[other]) & _GPU if mostly else 0
                if not int(self._m[other]) & _HOST:
                    self._set(other, _HOST | stays)
            note_fault(self._m, row, cycle, cycle, start, count, _HOST)
        self._forget_empty(number, first, end)
        return groups

    def prefetched(self, address: int, to_gpu: bool) -> tuple[int, int, int]:
        """Leaves (from the other side, untouched, there already) that a prefetch of a range would find."""
        number = self._numbers[address]
        where = self._where(number, 0, self._leaves(number))
        there = where & (_GPU if to_gpu else _HOST) != 0
        return int((~there & (where != 0)).sum()), int((where == 0).sum()), int(there.sum())

    def prefetch(self, address: int, to_gpu: bool, cycle: int, takes: int) -> int:
        """A prefetch of a range begins, which takes so many cycles, and more where others must leave the GPU for it.
        What finds no room stays where it is. Returns the cycle at which it is done."""
        number, to, m = self._numbers[address], _GPU if to_gpu else _HOST, self._m
        mostly = self._row(number)[ms.MANAGED_ADVICE] & ms.READ_MOSTLY
        m[ms.P_FAULT_BATCH] += 1  # whose blocks stay
        evicted = 0
        for first in range(0, self._leaves(number), ms.BLOCK_LEAVES):
            end = min(first + ms.BLOCK_LEAVES, self._leaves(number))
            moves = [leaf for leaf in range(first, end) if not int(m[self._word(number, leaf)]) & to]
            block = self._word(number, first) - ms.BLOCK_LEAF
            if to_gpu:
                m[block + ms.BLOCK_BATCH] = m[ms.P_FAULT_BATCH]
                evicted += make_room(m, self._at(number), len(moves), cycle << ms.TICK_BITS) >> ms.TICK_BITS
                if m[ms.P_MANAGED_HERE] + len(moves) > m[ms.P_MANAGED_ROOM]:
                    break
                m[block + ms.BLOCK_MOVED] = max(cycle, 1) << ms.TICK_BITS
            for leaf in moves:
                word = self._word(number, leaf)
                stays = int(m[word]) & _WHERE if mostly else 0
                if to_gpu:
                    fill_leaf(m, self._at(number), 0, leaf, cycle << ms.TICK_BITS)
                self._set(word, to | stays, cycle + takes + evicted if to_gpu else 0)
        self._forget_empty(number, 0, self._leaves(number))
        return cycle + takes + evicted

    def faults(self) -> list[Fault]:
        """Return what has come by faults since the record was last cleared, in the order in which it was asked for."""
        first = self._m[ms.P_FAULT_ROWS]
        rows = self._m[first : first + self._m[ms.P_FAULTS] * ms.FAULT_WORDS].reshape(-1, ms.FAULT_WORDS)
        addresses = {number: address for address, number in self._numbers.items()}
        return [
            Fault(cycle, ready, addresses[row], leaf, leaves, "gpu" if to == _GPU else "host")
            for cycle, ready, row, leaf, leaves, to in rows.tolist()
        ]

    def clear(self) -> None:
        """Empties the record of faults."""
        self._m[ms.P_FAULTS] = 0

    def _at(self, number: int) -> int:
        return int(self._m[ms.P_MANAGED_ROWS]) + number * ms.MANAGED_WORDS

    def _row(self, number: int) -> np.ndarray:
        return self._m[self._at(number) :][: ms.MANAGED_WORDS]

    def _leaves(self, number: int) -> int:
        return int(self._row(number)[ms.MANAGED_LEAVES])

    def _word(self, number: int, leaf: int) -> int:
        return word_of(self._m, self._at(number), leaf)

    def _where(self, number: int, first: int, end: int) -> np.ndarray:
        return self._m[[self._word(number, leaf) for leaf in range(first, end)]] & _WHERE

    def _set(self, word: int, where: int, cycle: int = 0) -> None:
        self._m[ms.P_MANAGED_HERE] += bool(where & _GPU) - bool(int(self._m[word]) & _GPU)
        self._m[word] = cycle << ms.TICK_BITS + ms.READY_BITS | where

    def _forget_empty(self, number: int, first: int, end: int) -> None:
        """Blocks of which the GPU holds nothing are new to it."""
        for leaf in range(first - first % ms.BLOCK_LEAVES, end, ms.BLOCK_LEAVES):
            if not (self._where(number, leaf, min(leaf + ms.BLOCK_LEAVES, self._leaves(number))) & _GPU).any():
                self._m[self._word(number, leaf) - ms.BLOCK_LEAF] = 0
