"""Simulated device memory: one arena of bytes, allocations with guard gaps, and words for an address.

A device address is a base plus an index into the arena, so compiled code turns an address into an index with one
subtraction. The arena is reserved as virtual memory once and never moves; the host gives it real pages only where
something was written, so an array of 4 MB costs 4 MB, and takes them back when an allocation is freed (`arena`).

The base is `BASE`, or, with `unified=True`, the address at which the arena lies in this process. Then a pointer
means the same on host and device, as with CUDA's unified virtual addressing, and memory of the host's own can be
made known to the device where it lies (`adopt`).

It has more than 500 lines because allocation, reservation, checks and words for an address share one table.
"""

from __future__ import annotations

import bisect
import ctypes
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpusim.errors import ArgumentError, MemoryAccessError, OutOfDeviceMemory, byte_count
from gpusim.launch.arena import Arena

BASE = 0x7F00_0000_0000
"""First address of device memory, in the range where CUDA places it."""

ALIGNMENT = 512
"""Start of every allocation, in bytes: what cudaMalloc gives in practice (it promises 256)."""

GUARD_BYTES = 4096
"""Least distance between allocations: an access a little outside one never falls into another."""

_ALSO_NEAR = 4
"""An address between two allocations is told by both unless one is so many times as far away as the other."""

EVERYBODY, HOST_MEMORY = -1, -2
"""In place of a GPU's number: managed memory, and page-locked memory of the host's."""

UNIFIED_BASE = 0x1000_0000_0000
"""Address of a unified arena if nothing lies there, so that addresses, and with them L2 slices, are the same in every
process: below the places of position-independent programs, their heaps and libraries on Linux, because compiled code
wants indices from the arena's start that are not negative."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A range of device addresses; `freed` ones are kept to explain a use after free. itemsize, shape: of the array
    that it holds, in C order, where that is known."""

    address: int
    nbytes: int
    label: str
    freed: bool = False
    itemsize: int = 0
    shape: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """First address behind the range."""
        return self.address + self.nbytes

    def index_of(self, address: int) -> str:
        """', at index (3, 0) of shape (3, 4)': the array's index that an address has; empty where it is not known."""
        if not self.itemsize or not all(self.shape) or not self.shape:
            return ""
        index = [(address - self.address) // self.itemsize]
        for extent in self.shape[:0:-1]:
            index[:1] = divmod(index[0], extent)
        return f", at index {index[0] if len(index) == 1 else tuple(index)} of shape {self.shape}"


class MemoryTables(NamedTuple):
    """Ranges by which compiled code checks an access, and the arena that serves it as `arena[address - base]`."""

    starts: np.ndarray
    """int64[n], first address of each live allocation, ascending."""
    ends: np.ndarray
    """int64[n], first address behind each."""
    base: int
    arena: np.ndarray
    """uint8, the bytes themselves; the same array for the life of the memory."""
    unknown: np.ndarray
    """uint8, 1 for every byte that was allocated without contents and not written since; of one element if this is not
    followed."""


class DeviceMemory:
    """The memory of one simulated device.

    capacity_bytes: what can be allocated at once, guard gaps not counted. unified: a device address is the host's
    address of the same byte; `base` is the first one. base: where addresses begin otherwise. gpus: there are addresses
    for so many (`GpuMemory`).
    undoable: launches will be undone that fail, see `all_or_nothing`, which is then cheap where the host allows.
    follow_contents: remember which bytes have contents, for the check of reads without a write before. Bytes have none
        after `forget`, until `upload`, `fill`, `view`, `write` or a kernel writes them.

    A freed range is not handed out again while there are addresses never used (twice the capacity is
    reserved), so a stale pointer points at nothing and is caught. Under memory pressure the lowest freed
    range that fits is reused, and only then can a use after free go unseen.
    """

    number = 0
    """Of the GPU."""
    reached: frozenset[int] | None = None
    """Numbers of the other GPUs whose memory its kernels may access, None for all."""

    def __init__(
        self,
        capacity_bytes: int = 1 << 30,
        *,
        follow_contents: bool = False,
        unified: bool = False,
        undoable: bool = False,
        base: int = BASE,
        gpus: int = 1,
    ):
        if capacity_bytes <= 0:
            raise ValueError(f"capacity_bytes must be positive, got {capacity_bytes}")
        self.capacity_bytes = capacity_bytes
        self.unified = unified
        self._room = round_up(2 * capacity_bytes + 64 * GUARD_BYTES, ALIGNMENT)
        self.gpus = gpus
        self._contents = Arena(gpus * self._room, UNIFIED_BASE if unified else None, undoable)
        self._arena = self._contents.bytes
        self.base = self._contents.address if unified else base
        self._followed = Arena(self._arena.size, undoable=undoable) if follow_contents else None
        self._unknown = self._followed.bytes if self._followed else np.zeros(1, np.uint8)
        self.host_writes = False
        """True once the host may write what a kernel reads while the kernel runs."""
        self.kept_bytes = 0
        """Bytes that `all_or_nothing` has copied so far."""
        self._live: dict[int, Allocation] = {}
        self._starts: list[int] = []
        self._freed: list[Allocation] = []
        self._next: dict[int, int] = {}  # by part
        self._used: defaultdict[int, int] = defaultdict(int)
        self._peak: defaultdict[int, int] = defaultdict(int)
        self._count = 0
        self._owners: dict[int, int] = {}
        self._tables: dict[int, MemoryTables] = {}
        self.version = 0
        """Grows with every alloc and free: tables read at an older version are out of date."""

    @property
    def shared_range(self) -> tuple[int, int, int]:
        """Place from which another process may map the bytes, if memory is `unified`: address, size, file."""
        return self._contents.address, self._arena.size, self._contents.file

    @property
    def used_bytes(self) -> int:
        """Bytes in live allocations of this GPU."""
        return self._used[self.number]

    @property
    def peak_bytes(self) -> int:
        """The most of them so far."""
        return self._peak[self.number]

    @property
    def part(self) -> range:
        """Addresses from which this GPU's memory is taken: they do not depend on what others allocate meanwhile."""
        start = self.base + min(self.number, self.gpus - 1) * self._room
        return range(start, start + self._room)

    @property
    def next_address(self) -> int:
        """Address of the next allocation as long as there are addresses that were never used."""
        return self._next.get(self.part.start, self.part.start + GUARD_BYTES)

    @next_address.setter
    def next_address(self, address: int) -> None:
        part = self.part
        self._next[part.start] = min(max(address, part.start + GUARD_BYTES), part.stop)

    def next_written(self, address: int) -> int:
        """The first address from here on that may hold anything but zero."""
        inside = self.is_inside(address)
        return self.base + self._contents.next_written(address - self.base) if inside else address

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """Live allocations by address."""
        return tuple(self._live[start] for start in self._starts)

    def alloc(self, nbytes: int, label: str | None = None, *, at: int | None = None, owner: int | None = None) -> int:
        """Return the address of `nbytes` new bytes (zero if never used before). A size of 0 gets an address
        of its own that holds nothing. `label` names it in error messages. at: the address that it has to have. owner:
        this GPU, if None. Raises OutOfDeviceMemory, ValueError where something lies at that address or none can."""
        if nbytes < 0:
            raise ValueError(f"nbytes must not be negative, got {nbytes}")
        self._count += 1
        label = label or f"allocation {self._count}"
        owner = self.number if owner is None else owner
        if self._used[owner] + nbytes > self.capacity_bytes:
            raise self._full(nbytes, label)
        address = self._place(nbytes, label) if at is None else self._free_place(at, nbytes)
        self._live[address] = Allocation(address, nbytes, label)
        self._owners[address] = owner
        bisect.insort(self._starts, address)
        self._used[owner] += nbytes
        self._peak[owner] = max(self._peak[owner], self._used[owner])
        self._know(address, nbytes)
        self._changed()
        return address

    def holds_array(self, address: int, itemsize: int, shape: tuple[int, ...]) -> None:
        """Know what the allocation at an address is made of, for messages."""
        self._live[address] = replace(self._live[address], itemsize=itemsize, shape=shape)

    def shares(self, other: DeviceMemory) -> bool:
        """True if another one's addresses are valid here."""
        return self._live is other._live

    def owner(self, address: int) -> int:
        """Number of the GPU that an allocation, by its first address, lies on, `EVERYBODY` or `HOST_MEMORY`."""
        return self._owners.get(address, 0)

    def _is_reached(self, address: int) -> bool:
        owner = self.owner(address)
        return self.reached is None or owner < 0 or owner == self.number or owner in self.reached

    def reach(self, others: frozenset[int]) -> None:
        """Let kernels of this GPU access the memory of these others."""
        self.reached = others
        self._changed()

    def by_gpu(self) -> list[tuple[int, int, int]]:
        """(GPU, address, bytes) of all that is allocated, what lies side by side as one; see `GpuMemory`."""
        found: list[tuple[int, int, int]] = []
        for each in self.allocations:
            owner = self.owner(each.address)
            if found and found[-1][0] == owner:
                found[-1] = owner, found[-1][1], each.end - found[-1][1]
            else:
                found.append((owner, each.address, each.nbytes))
        return found

    def occupy(self, nbytes: int, label: str) -> None:
        """Count bytes as used that lie outside the arena (`adopt`); a negative number, as used no longer. Raises
        OutOfDeviceMemory."""
        if self.used_bytes + nbytes > self.capacity_bytes:
            raise self._full(nbytes, label)
        self._used[self.number] += nbytes

    def forget(self, address: int, nbytes: int) -> None:
        """The contents of these bytes are undefined from now on, as after cudaMalloc; matters to checks alone."""
        self.check(address, nbytes)
        self._know(address, nbytes, 1)

    def _know(self, address: int, nbytes: int, unknown: int = 0) -> None:
        if self._unknown.size > 1 and self.is_inside(address):
            self._unknown[address - self.base : address - self.base + nbytes] = unknown

    def free(self, address: int) -> None:
        """Give back the allocation that starts at `address`.

        Raises MemoryAccessError if none starts there, saying so when it was freed before.
        """
        allocation = self._live.pop(address, None)
        if allocation is None:
            again = any(old.address == address for old in self._freed)
            raise MemoryAccessError(
                "double free" if again else "free of an address that was never allocated",
                address=address,
                size=0,
                access="free",
                allocation=self.describe(address),
            )
        self._starts.remove(address)
        if self.is_inside(address):
            self._freed.append(replace(allocation, freed=True))
            self._used[self.owner(address)] -= allocation.nbytes
            self._contents.discard(address - self.base, allocation.end - self.base)
        self._changed()

    def adopt(self, address: int, nbytes: int, label: str) -> None:
        """Let the device access host memory that lies outside the arena, until `free(address)`. Only where host and
        device share addresses (`unified`). Raises ValueError otherwise, or if a part of it is known already."""
        if not self.unified:
            raise ValueError("host memory can be shared only where host and device have the same addresses")
        following = bisect.bisect_left(self._starts, address)
        before = self._live[self._starts[following - 1]].end if following else 0
        after = self._starts[following] if following < len(self._starts) else address + nbytes
        if address < before or address + nbytes > after or address in self._live:
            raise ValueError(f"a part of the {nbytes:,} bytes at {address:#x} is known to the device already")
        self._live[address] = Allocation(address, nbytes, label)
        self._owners[address] = HOST_MEMORY
        self._starts.insert(following, address)
        self.host_writes = True
        self._changed()

    def holding(self, address: int) -> Allocation | None:
        """The live allocation that an address lies in."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        allocation = self._live[self._starts[index]]
        return allocation if address < max(allocation.end, allocation.address + 1) else None

    def view(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes themselves, uint8[nbytes], without a copy; they count as written. Raises MemoryAccessError
        outside one allocation."""
        self.check(address, nbytes)
        self._know(address, nbytes)
        return self._bytes(address, nbytes)

    def check(self, address: int, nbytes: int, access: str = "host access") -> None:
        """Raise MemoryAccessError unless the bytes lie inside one live allocation."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index >= 0 and address + nbytes <= self._live[self._starts[index]].end and nbytes >= 0:
            return
        stale = any(old.address <= address < old.end for old in self._freed)
        raise MemoryAccessError(
            "use after free" if stale else "out of bounds",
            address=address,
            size=nbytes,
            access=access,
            allocation=self.describe(address, nbytes),
        )

    def upload(self, array: Any, label: str | None = None) -> int:
        """Allocate room for `array` and copy it there in C order; return the address."""
        array = np.asarray(array)
        if array.dtype.hasobject:
            raise ArgumentError(f"an array of Python objects ({array.dtype}) cannot be copied to the device")
        address = self.alloc(array.nbytes, label)
        np.copyto(self._array(address, array.dtype, array.shape, None), array)
        return address

    def fill(self, address: int, nbytes: int, value: int = 0) -> None:
        """Set each of `nbytes` bytes to `value`, as cudaMemset does."""
        self.view(address, nbytes)[...] = value

    def array(
        self, address: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Device memory seen as a NumPy array, without a copy. `strides` in bytes, None for C order; `address` is that
        of the first element. Raises MemoryAccessError if an element lies outside one allocation."""
        low, high = span(np.dtype(dtype).itemsize, shape, strides)
        self.check(address + low, high - low)
        return self._array(address, dtype, shape, strides)

    def write(
        self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], values: Any
    ) -> None:
        """Copy `values` to an array in this memory. Raises MemoryAccessError as `array` does."""
        target = self.array(address, dtype, shape, strides)
        np.copyto(target, values)
        if self._unknown.size > 1 and target.size and self.is_inside(address):
            size = (*shape, dtype.itemsize)
            np.ndarray(size, np.uint8, self._unknown, address - self.base, (*strides, 1))[...] = 0

    def tables(self) -> MemoryTables:
        """Address ranges and bytes for compiled code. Valid until the next alloc or free; see `version`."""
        if self.number not in self._tables:
            found = self._starts if self.reached is None else list(filter(self._is_reached, self._starts))
            starts = np.array(found, dtype=np.int64)
            ends = np.array([self._live[start].end for start in found], dtype=np.int64)
            self._tables[self.number] = MemoryTables(starts, ends, self.base, self._arena, self._unknown)
        return self._tables[self.number]

    @contextmanager
    def all_or_nothing(self, written: Sequence[tuple[int, int]] = ()) -> Iterator[None]:
        """Undo what happens inside, to contents and allocations, if it ends with an exception. written: (address,
        bytes) of what is likely to be written."""
        arenas = [each for each in (self._contents, self._followed) if each and self._contents.can_keep]
        views = [] if arenas else [view for start in self._starts for view in self._views(start)]
        copies = [view.copy() for view in views]
        self.kept_bytes += sum(copy.size for copy in copies)
        books = dict(self._live), list(self._starts), list(self._freed), dict(self._next), self._used.copy()
        try:
            for arena in arenas:
                arena.keep()
                for address, nbytes in written:
                    arena.copy_ahead(address - self.base, nbytes)
            yield
            for start in filter(self.is_inside, self._starts) if arenas else ():
                nbytes = self._live[start].nbytes
                self.kept_bytes += sum(arena.accept(start - self.base, nbytes) for arena in arenas)
        except BaseException:
            for view, copy in zip(views, copies, strict=True):
                view[...] = copy
            self._live, self._starts, self._freed, self._next, self._used = books
            self._changed()
            raise
        finally:
            for arena in arenas:
                arena.undo()

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo at the end what happens inside, to contents and allocations; only of which bytes have contents is
        remembered what a run that ended well has found."""
        found = {}
        try:
            with self.all_or_nothing():
                yield
                if self._unknown.size > 1:
                    found = {start: [*self._views(start)][1].copy() for start in filter(self.is_inside, self._starts)}
                raise _Undo
        except _Undo:
            for start in found.keys() & self._live.keys():
                [*self._views(start)][1][...] = found[start]

    def know_all(self) -> None:
        """All bytes have contents from now on: something may have been written that was not followed."""
        if self._unknown.size > 1:
            for start in self._starts:
                self._know(start, self._live[start].nbytes)

    def _views(self, start: int) -> Iterator[np.ndarray]:
        """The bytes of the allocation that begins at `start`, and what is known of them."""
        nbytes, offset = self._live[start].nbytes, start - self.base
        yield self._bytes(start, nbytes)
        if self._unknown.size > 1 and self.is_inside(start):
            yield self._unknown[offset : offset + nbytes]

    def describe(self, address: int, size: int = 1, told: Iterable[int] = ()) -> str:
        """The allocation at or nearest to `address`, in words: "4 bytes past the end of 'c' (40,000 bytes)". told:
        addresses that a kernel has been given: where another allocation is nearer, measured from one of theirs."""
        if 0 <= address < GUARD_BYTES:
            return "a null pointer" + (f" plus {address:,} bytes" if address else "")
        if not self.is_inside(address):
            return "not an address of device memory"
        found = self.near(address)
        given = [each for each in map(self.holding, told) if each is not None]
        if given and all(_distance(each, address) and each not in given for each in found):
            found = [min(given, key=lambda each: _distance(each, address))]
        return " and ".join(_words(each, address, size) for each in found) or "no allocation is near"

    def near(self, address: int) -> list[Allocation]:
        """The allocation that holds an address, or held it, or is nearest to it, and another that is about as near."""
        if not self.is_inside(address):
            return []
        index = bisect.bisect_right(self._starts, address)
        found = [self._live[start] for start in self._starts[max(index - 1, 0) : index + 1]]
        if not any(each.address <= address < each.end for each in found):
            found += [old for old in reversed(self._freed) if old.address <= address < old.end]
        found.sort(key=lambda each: _distance(each, address))
        distances = [_distance(each, address) for each in found[:2]]
        return found[: 2 if len(found) > 1 and 0 < distances[1] < _ALSO_NEAR * distances[0] else 1]

    def _array(self, address: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> np.ndarray:
        # An empty array may start where the arena ends for NumPy's bounds check, so it gets a buffer of its own.
        if 0 in shape or not np.dtype(dtype).itemsize:
            return np.empty(shape, dtype)
        if not self.is_inside(address):
            low, high = span(np.dtype(dtype).itemsize, shape, strides)
            return np.ndarray(shape, dtype, buffer=self._bytes(address + low, high - low), offset=-low, strides=strides)
        return np.ndarray(shape, dtype, buffer=self._arena, offset=address - self.base, strides=strides)

    def is_inside(self, address: int) -> bool:
        """True if an address is of the device's own memory; host memory that was adopted is not."""
        return self.base <= address < self.base + self._arena.size

    def _bytes(self, address: int, nbytes: int) -> np.ndarray:
        if self.is_inside(address):
            return self._arena[address - self.base : address - self.base + nbytes]
        outside: Any = (ctypes.c_uint8 * nbytes).from_address(address)
        return np.frombuffer(outside, np.uint8)

    def _place(self, nbytes: int, label: str) -> int:
        address = self.next_address
        following = round_up(address + nbytes + GUARD_BYTES, ALIGNMENT)
        if following <= self.part.stop:
            self.next_address = following
            return address
        for address, end in self._gaps():
            if address + nbytes <= end:
                # What was freed here has a new owner: errors must no longer name it.
                self._freed = [f for f in self._freed if f.end <= address or f.address >= address + nbytes]
                return address
        raise self._full(nbytes, label)

    def _free_place(self, address: int, nbytes: int) -> int:
        following = bisect.bisect_left(self._starts, address)
        around = [self._live[start] for start in self._starts[max(following - 1, 0) : following + 1]]
        inside = self.is_inside(address) and self.is_inside(address + nbytes)
        if not inside or any(each.address < address + nbytes and address < each.end for each in around):
            raise ValueError(f"{nbytes:,} bytes cannot be allocated at {address:#x}")
        if address in self._live:
            raise ValueError(f"an allocation begins at {address:#x} already")
        return address

    def _gaps(self) -> Iterator[tuple[int, int]]:
        """Ranges of freed addresses that keep the guard distance to what is live, lowest first."""
        part = self.part
        previous = part.start
        for start in (each for each in self._starts if each in part):
            yield round_up(previous + GUARD_BYTES, ALIGNMENT), start - GUARD_BYTES
            previous = self._live[start].end
        yield round_up(previous + GUARD_BYTES, ALIGNMENT), part.stop - GUARD_BYTES

    def _changed(self) -> None:
        self._tables.clear()
        self.version += 1

    def _full(self, nbytes: int, label: str) -> OutOfDeviceMemory:
        return OutOfDeviceMemory(
            requested_bytes=nbytes, used_bytes=self.used_bytes, capacity_bytes=self.capacity_bytes, label=label
        )


class GpuMemory(DeviceMemory):
    """The memory of one of several GPUs that share their addresses and bytes: of all that is allocated, what is here is
    its own. number: of the GPU; the one whose memory `whole` is has 0."""

    __slots__ = ("number", "reached")

    def __init__(self, whole: DeviceMemory, number: int):
        self.__dict__ = whole.__dict__
        self.number, self.reached = number, None


class _Undo(Exception):
    """Nothing is wrong, and nothing shall be kept."""


def round_up(value: int, unit: int) -> int:
    """The next multiple of a unit, or the value itself if it is one."""
    return -(-value // unit) * unit


def _distance(allocation: Allocation, address: int) -> int:
    if allocation.address <= address < allocation.end:
        return 0
    return min(abs(address - allocation.address), abs(address - allocation.end))


def _words(allocation: Allocation, address: int, size: int) -> str:
    what = f"{allocation.label!r} ({byte_count(allocation.nbytes)}{', freed' if allocation.freed else ''})"
    index = allocation.index_of(address)
    if address < allocation.address:
        return f"{byte_count(allocation.address - address)} before the start of {what}{index}"
    if address > allocation.end:
        return f"{byte_count(address - allocation.end)} past the end of {what}{index}"
    if address == allocation.end:
        return f"just past the end of {what}{index}"
    if address + size > allocation.end:
        inside, beyond = allocation.end - address, address + size - allocation.end
        return f"from {byte_count(inside)} before the end of {what} to {byte_count(beyond)} past it"
    return f"byte {address - allocation.address:,} of {what}"


def contiguous_strides(itemsize: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in bytes of an array in C order."""
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def span(itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> tuple[int, int]:
    """Bytes [low, high) that an array touches, relative to the address of its first element; (0, 0) if it is empty."""
    if 0 in shape:
        return 0, 0
    steps = contiguous_strides(itemsize, shape) if strides is None else strides
    reach = [(extent - 1) * step for extent, step in zip(shape, steps, strict=True)]
    return sum(r for r in reach if r < 0), itemsize + sum(r for r in reach if r > 0)
