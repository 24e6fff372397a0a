"""The global memory that a grid touches, out of what some of its blocks touch, and the atomics that meet on a line.

An access whose addresses move by the same distance from one block to the next is known for every block. Others count
for the blocks that were run alone, so that what is found is never more than what there is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.bound.work import Kinds
from gpusim.engine.state import memory as S
from gpusim.launch.memory import DeviceMemory
from gpusim.results.record import LaunchRecord
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import SPACES

_GLOBAL = SPACES.index("global")
_SECTOR_SHIFT = 5
#: Accesses of all blocks that are looked at; of larger grids some blocks are left out.
_MOST_TOUCHES = 16_000_000
FETCHES = (32, 64, 128)


@dataclass(frozen=True)
class Region:
    """Blocks at like places: a range of positions (first, last) on each axis, which of them are run, and the issues of
    these, by warp and in each by time."""

    ranges: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int, int], ...]
    samples: tuple[np.ndarray, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Positions on each axis."""
        return tuple(last - first + 1 for first, last in self.ranges)

    @property
    def blocks(self) -> int:
        """Number of blocks in the region."""
        return math.prod(self.extents)


@dataclass(frozen=True)
class Footprint:
    """Distinct sectors of 32 bytes that a grid touches.

    fetched: sectors that come from memory, at least, if a miss fetches so many bytes together: by 32, 64, 128.
    written: sectors that stores write.
    """

    fetched: dict[int, int]
    written: int

    def measured(self, record: LaunchRecord) -> Footprint:
        """With what a run on a machine with a large L2 got from memory."""
        filled = int(record.memory[S.CNT_FILL_SECTORS])
        return replace(self, fetched={each: max(count, filled) for each, count in self.fetched.items()})


class Touched:
    """Facts of every sector of memory, by its number from the start of the first allocation.

    read: a block reads it, without having written it before. written: a store writes it. sharers: blocks that touch
    it, 2 for more. turn: of the accesses of a warp that touch it, the number of the earliest. Accesses that may touch
    anything of an array count for all of it there, with `maybe_written` instead of written, but not as reads.
    irregular: whether there are such. complete: whether all blocks were looked at.
    """

    def __init__(self, memory: DeviceMemory):
        live = memory.allocations
        self.first = min((each.address for each in live), default=0) >> _SECTOR_SHIFT
        last = max((each.address + each.nbytes for each in live), default=0) >> _SECTOR_SHIFT
        size = last - self.first + 1
        self.read = np.zeros(size, bool)
        self.written = np.zeros(size, bool)
        self.sharers = np.zeros(size, np.int64)
        self.turn = np.full(size, np.iinfo(np.int32).max, np.int32)
        self.maybe_written = np.zeros(size, bool)
        self.starts = np.sort(np.array([each.address for each in live], np.int64)) >> _SECTOR_SHIFT
        self.left = _MOST_TOUCHES
        self.irregular = False
        self.complete = True

    def anywhere(self, sectors: np.ndarray, turns: np.ndarray, stores: np.ndarray) -> None:
        """Accesses that other blocks may make anywhere in the arrays that these sectors lie in."""
        self.irregular = True
        arrays = np.searchsorted(self.starts, sectors + self.first, side="right") - 1
        ends = np.append(self.starts[1:], self.first + len(self.read)) - self.first
        for array in np.unique(arrays[arrays >= 0]).tolist():
            mine = arrays == array
            where = slice(int(self.starts[array] - self.first), int(ends[array]))
            self.turn[where] = np.minimum(self.turn[where], turns[mine].min())
            self.sharers[where] += 2
            self.maybe_written[where] |= bool(stores[mine].any())

    def footprint(self) -> Footprint:
        """Counts of all that."""
        fetched = {32: int(self.read.sum())}
        for size in FETCHES[1:]:
            each = size >> _SECTOR_SHIFT
            # Units of that size lie at multiples of it, and what has been written whole need not be fetched.
            skip = self.first % each
            units = np.zeros(-(-(len(self.read) + skip) // each) * each, bool)
            units[skip : skip + len(self.read)] = self.read
            wide = np.repeat(units.reshape(-1, each).any(axis=1), each)
            wide[skip : skip + len(self.read)] &= ~self.written | self.read
            fetched[size] = int(wide.sum())
        return Footprint(fetched, int(self.written.sum()))


@dataclass(frozen=True)
class Accesses:
    """Accesses of one block to global memory, a row for each.

    addresses: int64 [rows, 32], -1 for idle lanes; turn: its number among those of its warp; cycle: when it issued.
    issue: its place among the block's issues.
    """

    addresses: np.ndarray
    turn: np.ndarray
    cycle: np.ndarray
    pc: np.ndarray
    issue: np.ndarray

    @classmethod
    def of(cls, trace: Trace, issues: np.ndarray) -> Accesses:
        """Of a block's issues, sorted by warp."""
        issue = np.flatnonzero((issues["space"] == _GLOBAL) & (issues["access"] >= 0) & (issues["sectors"] > 0))
        rows = issues[issue]
        warps, starts = np.unique(rows["warp"], return_index=True)
        turn = np.arange(len(rows)) - (np.repeat(starts, np.diff([*starts, len(rows)])) if len(warps) else 0)
        return cls(trace.addresses[rows["access"]], turn, rows["cycle"], rows["pc"], issue)


def footprint_of(
    trace: Trace, regions: Sequence[Region], memory: DeviceMemory, code: np.ndarray
) -> tuple[Footprint, Touched]:
    """The sectors that the blocks of all regions touch."""
    touched = Touched(memory)
    kinds = Kinds(code)
    for region in regions:
        if region.samples and len(region.samples[0]):
            _add(touched, region, trace, kinds)
    return touched.footprint(), touched


def _add(touched: Touched, region: Region, trace: Trace, kinds: Kinds) -> None:
    accesses = Accesses.of(trace, region.samples[0])
    if not len(accesses.pc):
        return
    steps, regular = steps_of(region, trace, accesses)
    first = _read_first(accesses, kinds)
    for step, rows in _groups(steps, regular):
        lanes = accesses.addresses[rows]
        row, lane = np.nonzero(lanes >= 0)
        addresses = lanes[row, lane]
        reads, stores = first[rows][row, lane], kinds.stores[accesses.pc[rows]][row]
        turns = accesses.turn[rows][row]
        if step is None or all(each % 32 == 0 for each in step):
            addresses &= ~31
        if step is None:
            touched.anywhere((addresses >> _SECTOR_SHIFT) - touched.first, turns, stores)
        addresses, which = np.unique(addresses, return_inverse=True)
        read, written = np.zeros(len(addresses), bool), np.zeros(len(addresses), bool)
        read[which[reads]] = True
        written[which[stores]] = True
        turn = np.full(len(addresses), np.iinfo(np.int32).max, np.int32)
        np.minimum.at(turn, which, turns.astype(np.int32))
        moves, sharers = _moves(region, step)
        room = max(touched.left // len(addresses), 1)
        if len(moves) > room:
            moves = moves[np.linspace(0, len(moves) - 1, room).astype(int)]
            touched.complete = False
        touched.left -= len(moves) * len(addresses)
        at = ((addresses[None] + moves[:, None]) >> _SECTOR_SHIFT) - touched.first
        inside = (at >= 0) & (at < len(touched.read))
        at = np.clip(at, 0, len(touched.read) - 1)
        touched.read[at[inside & read]] = True
        touched.written[at[inside & written]] = True
        # Several addresses of a sector are one touch of a block.
        new = np.ones(at.shape, bool)
        new[:, 1:] = at[:, 1:] != at[:, :-1]
        touched.sharers += sharers * np.bincount(at[inside & new], minlength=len(touched.read))
        np.minimum.at(touched.turn, at[inside], np.broadcast_to(turn, at.shape)[inside])


def steps_of(region: Region, trace: Trace, accesses: Accesses) -> tuple[np.ndarray, np.ndarray]:
    """Distances that accesses move from block to block, int64 [rows, 3] bytes, and True where all blocks
    that were run agree."""
    count = len(accesses.pc)
    steps = np.zeros((count, 3), np.int64)
    regular = np.ones(count, bool)
    others = [Accesses.of(trace, each) for each in region.samples[1:]]
    active = accesses.addresses >= 0
    first = np.argmax(active, axis=1)
    here = np.take_along_axis(accesses.addresses, first[:, None], 1)[:, 0]
    origin = np.array(region.places[0])
    for axis, extent in enumerate(region.extents):
        if extent == 1:
            continue
        for place, other in zip(region.places[1:], others, strict=True):
            moved = np.array(place) - origin
            if moved[axis] and not np.delete(moved, axis).any():
                there = np.take_along_axis(other.addresses, first[:, None], 1)[:, 0]
                steps[:, axis], rest = np.divmod(there - here, moved[axis])
                regular &= rest == 0
                break
        else:
            return steps, np.zeros(count, bool)
    for place, other in zip(region.places[1:], others, strict=True):
        expected = accesses.addresses + (steps @ (np.array(place) - origin))[:, None]
        regular &= (np.where(active, expected, -1) == other.addresses).all(axis=1)
    steps[~regular] = 0
    return steps, regular


def _groups(steps: np.ndarray, regular: np.ndarray) -> Iterator[tuple[tuple[int, ...] | None, np.ndarray]]:
    """Rows that move alike."""
    found, which = np.unique(np.column_stack([steps, regular]), axis=0, return_inverse=True)
    for k, (*step, even) in enumerate(found.tolist()):
        yield tuple(step) if even else None, np.flatnonzero(which.reshape(-1) == k)


def _moves(region: Region, step: tuple[int, ...] | None) -> tuple[np.ndarray, int]:
    """Distances of all blocks' accesses from those of the block that was run, and how many blocks share each."""
    moves = np.zeros(1, np.int64)
    if step is None:  # known for the block that was run alone, and perhaps others touch the same
        return moves, 2
    sharers = 1
    for axis, (first, last) in enumerate(region.ranges):
        if step[axis] == 0:
            sharers *= last - first + 1
        else:
            along = step[axis] * (np.arange(first, last + 1) - region.places[0][axis])
            moves = (moves[:, None] + along[None]).reshape(-1)
    return moves, sharers


def _read_first(accesses: Accesses, kinds: Kinds) -> np.ndarray:
    """bool [rows, 32]: whether a lane reads a sector that its block has not stored to before."""
    lanes = accesses.addresses
    row, lane = np.nonzero(lanes >= 0)
    sectors, which = np.unique(lanes[row, lane] >> _SECTOR_SHIFT, return_inverse=True)
    stores = kinds.stores[accesses.pc]
    earliest = np.full(len(sectors), np.iinfo(np.int64).max)
    writing = stores[row]
    np.minimum.at(earliest, which[writing], accesses.cycle[row[writing]])
    first = np.zeros(lanes.shape, bool)
    first[row, lane] = ~writing & (accesses.cycle[row] <= earliest[which])
    return first


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


def hot_requests(trace: Trace, regions: Sequence[Region], memory: DeviceMemory, kinds: Kinds) -> tuple[float, float]:
    """Requests for atomics on the line that gets most of them, and sectors in them, at least: those of blocks that all
    name one line, and all to an array spread over its lines."""
    if not kinds.atomics.any():
        return 0.0, 0.0
    by_line: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
    by_array: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for region in regions:
        steps, regular = steps_of(region, trace, Accesses.of(trace, region.samples[0]))
        still = regular & (steps == 0).all(axis=1)
        samples = [Requests.of(Accesses.of(trace, each), kinds) for each in region.samples]
        amounts = np.column_stack([samples[0].count, samples[0].sectors])
        for row, line, amount in zip(samples[0].row, samples[0].line.tolist(), amounts, strict=True):
            by_line[line] += amount * (region.blocks if still[row] else 1)
        for array in memory.allocations:
            first, last = array.address >> 7, (array.address + array.nbytes - 1) >> 7
            inside = []
            for each in samples:
                rows = (each.line >= first) & (each.line <= last)
                inside.append((each.count[rows].sum(), each.sectors[rows].sum()))
            by_array[array.address] += region.blocks * np.min(inside, axis=0) / (last - first + 1)
    requests, sectors = np.max([np.zeros(2), *by_line.values(), *by_array.values()], axis=0)
    return float(requests), float(sectors)
