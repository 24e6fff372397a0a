"""Virtual memory management: ranges of addresses, memory without any, and the one mapped into the other.

Ranges lie above device memory, where nothing else is. What is mapped and may be reached is memory of the host that the
device has adopted, so one piece may be mapped at several addresses; neighbours are one allocation to the device, since
an array may lie across them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from gpusim.driver.caller import caller
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.errors import OutOfDeviceMemory
from gpusim.launch.arena import SharedPieces, map_shared, unmap
from gpusim.launch.memory import DeviceMemory

GRANULARITY = 2 << 20
_FIRST_ADDRESS = 0x2000_0000_0000
_MOST_BYTES = 0x2000_0000_0000


@dataclass(eq=False)
class Physical:
    """Memory without an address, from `start` on in the file of all. held: whether the program has its handle;
    mappings: how often it is mapped. With neither it is free."""

    nbytes: int
    start: int
    handle: int
    held: bool = True
    mappings: int = 0


@dataclass(eq=False)
class Mapping:
    """Memory at an address of a range. number: of its order; reached: whether the device has been given access."""

    reservation: Reservation
    address: int
    physical: Physical
    number: int
    reached: bool = False

    @property
    def end(self) -> int:
        return self.address + self.physical.nbytes


@dataclass(eq=False)
class Reservation:
    """A range of addresses. mappings: by address; adopted: what the device knows of, as (first, behind the last)."""

    address: int
    nbytes: int
    mappings: dict[int, Mapping] = field(default_factory=dict)
    adopted: set[tuple[int, int]] = field(default_factory=set)

    def whole(self, address: int, nbytes: int) -> list[Mapping]:
        """The mappings that fill a part. Raises INVALID_VALUE where there is none, or one goes on."""
        found, at = [], address
        while at < address + nbytes:
            found.append(known(self.mappings.get(at), ResultCode.INVALID_VALUE))
            at = found[-1].end
        fail_if(at != address + nbytes, ResultCode.INVALID_VALUE)
        return found


class VirtualMemory:
    """The ranges and the memory of a device. memory: makes the device's own when it is first needed."""

    def __init__(self, memory: Callable[[], DeviceMemory]):
        self._memory = memory
        self._pieces: SharedPieces | None = None
        self._ranges: dict[int, Reservation] = {}
        self._physical: dict[int, Physical] = {}
        self._next = _FIRST_ADDRESS
        self._numbers = itertools.count(1)

    # --- ranges -------------------------------------------------------------------------------------------------------

    def reserve(self, nbytes: int, alignment: int, wanted: int) -> int:
        """Address of a new range, the wanted one if it lies behind all others. Raises INVALID_VALUE, OUT_OF_MEMORY."""
        fail_if(not nbytes or nbytes % GRANULARITY or alignment & (alignment - 1), ResultCode.INVALID_VALUE)
        unit = max(alignment, GRANULARITY)
        address = -(-self._next // unit) * unit
        if wanted % unit == 0 and wanted > address:
            address = wanted
        beyond = address + nbytes > _FIRST_ADDRESS + _MOST_BYTES or self._memory().base >= _FIRST_ADDRESS
        fail_if(beyond, ResultCode.OUT_OF_MEMORY)
        self._next = address + nbytes + GRANULARITY  # a gap, as between allocations
        self._ranges[address] = Reservation(address, nbytes)
        return address

    def release_range(self, address: int, nbytes: int) -> None:
        """Give a range back. Raises INVALID_VALUE for what is none, and while something is mapped."""
        found = known(self._ranges.get(address), ResultCode.INVALID_VALUE)
        fail_if(found.nbytes != nbytes or found.mappings, ResultCode.INVALID_VALUE)
        del self._ranges[address]

    def _range_at(self, address: int) -> Reservation:
        ranges = (each for each in self._ranges.values() if each.address <= address < each.address + each.nbytes)
        return known(next(ranges, None), ResultCode.INVALID_VALUE)

    def mapping_at(self, address: int) -> Mapping | None:
        """What is mapped at an address."""
        if not _FIRST_ADDRESS <= address < self._next:
            return None
        mappings = (each for found in self._ranges.values() for each in found.mappings.values())
        return next((each for each in mappings if each.address <= address < each.end), None)

    # --- memory -------------------------------------------------------------------------------------------------------

    def create(self, nbytes: int) -> int:
        """Handle of new memory. Raises INVALID_VALUE, OUT_OF_MEMORY."""
        fail_if(not nbytes or nbytes % GRANULARITY, ResultCode.INVALID_VALUE)
        handle = next(self._numbers)
        try:
            self._memory().occupy(nbytes, f"memory {handle} without an address")
        except OutOfDeviceMemory:
            raise DriverError(ResultCode.OUT_OF_MEMORY) from None
        self._pieces = self._pieces or SharedPieces()
        self._physical[handle] = Physical(nbytes, self._pieces.take(nbytes), handle)
        return handle

    def physical(self, handle: int) -> Physical:
        """The memory of a handle that the program holds. Raises INVALID_VALUE."""
        found = self._physical.get(handle)
        return known(found if found and found.held else None, ResultCode.INVALID_VALUE)

    def release(self, handle: int) -> None:
        """The program gives a handle up."""
        found = self.physical(handle)
        found.held = False
        self._free_unless_needed(found)

    def _free_unless_needed(self, piece: Physical) -> None:
        if not piece.held and not piece.mappings:
            assert self._pieces is not None
            self._pieces.give_back(piece.start, piece.nbytes)
            self._memory().occupy(-piece.nbytes, "")
            del self._physical[piece.handle]

    # --- one in the other ---------------------------------------------------------------------------------------------

    def map(self, address: int, nbytes: int, offset: int, handle: int) -> None:
        """Map memory. Raises INVALID_VALUE, NOT_SUPPORTED for a part of it."""
        piece, found = self.physical(handle), self._range_at(address)
        unaligned = address % GRANULARITY or nbytes != piece.nbytes or offset
        fail_if(unaligned, ResultCode.NOT_SUPPORTED)
        fail_if(address + nbytes > found.address + found.nbytes, ResultCode.INVALID_VALUE)
        taken = any(each.address < address + nbytes and address < each.end for each in found.mappings.values())
        fail_if(taken, ResultCode.INVALID_VALUE)
        assert self._pieces is not None
        place = address, nbytes, self._pieces.file, piece.start
        mapped = map_shared(*place) and caller().map(*place)
        fail_if(not mapped, ResultCode.OUT_OF_MEMORY, f"something of the program's lies at {address:#x}")
        piece.mappings += 1
        found.mappings[address] = Mapping(found, address, piece, next(self._numbers))

    def unmap(self, address: int, nbytes: int) -> None:
        """Take mappings out of a part of a range that they fill; of one with none, nothing. Raises INVALID_VALUE."""
        found = self._range_at(address)
        if any(each.address < address + nbytes and address < each.end for each in found.mappings.values()):
            for mapping in found.whole(address, nbytes):
                del found.mappings[mapping.address]
                self._tell_device(found)
                unmap(mapping.address, mapping.physical.nbytes)
                caller().unmap(mapping.address, mapping.physical.nbytes)
                mapping.physical.mappings -= 1
                self._free_unless_needed(mapping.physical)

    def set_reached(self, address: int, nbytes: int, reached: bool) -> None:
        """Give the device access to mappings that fill a part of a range, or take it. Raises INVALID_VALUE."""
        found = self._range_at(address)
        for mapping in found.whole(address, nbytes):
            mapping.reached = reached
        self._tell_device(found)

    def _tell_device(self, found: Reservation) -> None:
        """Let the device know exactly what may be reached, neighbours as one."""
        runs: list[tuple[int, int]] = []
        for _, mapping in sorted(found.mappings.items()):
            if mapping.reached:
                first = runs.pop()[0] if runs and runs[-1][1] == mapping.address else mapping.address
                runs.append((first, mapping.end))
        for first, _ in found.adopted - set(runs):
            self._memory().free(first)
        for first, end in sorted(set(runs) - found.adopted):
            self._memory().adopt(first, end - first, "mapped memory")
        found.adopted = set(runs)
