"""Atomics that meet: how many requests they send, and how many of them go to one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.bound.footprint import Accesses, Region, steps_of
from gpusim.bound.work import Kinds
from gpusim.launch.memory import DeviceMemory
from gpusim.tracing.trace import Trace


@dataclass(frozen=True)
class Requests:
    """Requests that atomics send: row of `Accesses`, line, how many, and sectors in them. Lanes at one address need a
    request each."""

    row: np.ndarray
    line: np.ndarray
    count: np.ndarray
    sectors: np.ndarray

    @classmethod
    def of(cls, accesses: Accesses, kinds: Kinds) -> Requests:
        """Of the atomics among a block's accesses."""
        rows = np.flatnonzero(kinds.atomics[accesses.pc])
        lanes = accesses.addresses[rows]
        row, lane = np.nonzero(lanes >= 0)
        address = lanes[row, lane]
        pairs, count = np.unique(np.column_stack([row, address]), axis=0, return_counts=True)
        lines, which = np.unique(np.column_stack([pairs[:, 0], pairs[:, 1] >> 7]), axis=0, return_inverse=True)
        most = np.zeros(len(lines), np.int64)
        np.maximum.at(most, which.reshape(-1), count)
        sectors = np.unique(np.column_stack([row, address >> 5]), axis=0)
        of_line = np.unique(np.column_stack([sectors[:, 0], sectors[:, 1] >> 2]), axis=0, return_counts=True)[1]
        return cls(rows[lines[:, 0]], lines[:, 1], most, np.maximum(of_line, most))


def atomic_requests(trace: Trace, issues: np.ndarray, kinds: Kinds) -> int:
    """Requests of a block's atomics."""
    return int(Requests.of(Accesses.of(trace, issues), kinds).count.sum()) if kinds.atomics.any() else 0


def hot_requests(
    trace: Trace, regions: Sequence[Region], memory: DeviceMemory, kinds: Kinds
) -> tuple[float, float]:
    """Requests for atomics on the line that gets most of them, and sectors in them, at least: those of blocks that all
    name one line, and all to an array spread over its lines."""
    if not kinds.atomics.any():
        return 0.0, 0.0
    by_line: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
    by_array: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for region in regions:
        accesses = Accesses.of(trace, region.samples[0])
        steps, regular = steps_of(region, trace, accesses)
        still = regular & (steps == 0).all(axis=1)
        blocks = int(np.prod(region.extents))
        samples = [Requests.of(Accesses.of(trace, each), kinds) for each in region.samples]
        amounts = np.column_stack([samples[0].count, samples[0].sectors])
        for row, line, amount in zip(samples[0].row, samples[0].line.tolist(), amounts, strict=True):
            by_line[line] += amount * (blocks if still[row] else 1)
        for array in memory.allocations:
            first, last = array.address >> 7, (array.address + array.nbytes - 1) >> 7
            inside = []
            for each in samples:
                rows = (each.line >= first) & (each.line <= last)
                inside.append((each.count[rows].sum(), each.sectors[rows].sum()))
            by_array[array.address] += blocks * np.min(inside, axis=0) / (last - first + 1)
    requests, sectors = np.max([np.zeros(2), *by_line.values(), *by_array.values()], axis=0)
    return float(requests), float(sectors)
