"""Driver API: memory that graphs allocate. An address is a node's from the start; memory lies there from a launch of
the graph until it is freed, in the graph or outside."""

from __future__ import annotations

import struct
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpusim.driver.caller import get_pointer, put_pointer, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import DEVICE
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import (
    ALLOCATE,
    FREE,
    DriverStream,
    Executable,
    Graph,
    StreamWork,
)
from gpusim.errors import OutOfDeviceMemory

if TYPE_CHECKING:
    from gpusim.driver.work.queues import WorkQueues

_AUTO_FREE = 1  # CUgraphInstantiate_flags
_PINNED, _ON_DEVICE = 1, 1  # CUmemAllocationType, CUmemLocationType


class GraphAllocation:
    """Addresses that are a graph's as long as somebody holds this."""

    def __init__(self, driver: Driver, nbytes: int):
        self.nbytes = nbytes
        memory = driver.device.memory
        try:
            self.address = memory.reserve(nbytes)
        except OutOfDeviceMemory:
            raise DriverError(ResultCode.OUT_OF_MEMORY) from None
        weakref.finalize(self, memory.release, self.address).atexit = False
        driver.graph_allocations[self.address] = self


@dataclass(frozen=True, eq=False)
class Allocate(StreamWork):
    """An allocation."""

    driver: Driver
    nbytes: int
    allocation: GraphAllocation
    kind = ALLOCATE
    single = True

    def put(self, stream: DriverStream, queues: WorkQueues) -> None:
        queues.clear()
        driver, memory = self.driver, self.allocation
        driver.allocate(self.nbytes, DEVICE, at=memory.address, owner=memory)


@dataclass(frozen=True, eq=False)
class Free(StreamWork):
    """The end of an allocation of this graph or another."""

    driver: Driver
    allocation: GraphAllocation
    kind = FREE
    single = True

    def put(self, stream: DriverStream, queues: WorkQueues) -> None:
        queues.clear()
        address = self.allocation.address
        self.driver.free(known(self.driver.buffer_at(address), ResultCode.INVALID_VALUE))


def allocation(driver: Driver, nbytes: int) -> Allocate:
    """An allocation for a graph. Raises INVALID_VALUE."""
    fail_if(not nbytes, ResultCode.INVALID_VALUE)
    return Allocate(driver, nbytes, GraphAllocation(driver, nbytes))


def release(driver: Driver, graph: Graph, address: int) -> Free:
    """The end of an allocation, for a graph. Raises INVALID_VALUE for what no graph has allocated, or this frees."""
    found = known(driver.graph_allocations.get(address), ResultCode.INVALID_VALUE)
    works = (node.work for node in graph.nodes)
    again = any(isinstance(work, Free) and work.allocation is found for work in works)
    fail_if(again, ResultCode.INVALID_VALUE)
    return Free(driver, found)


def read_allocation(driver: Driver, address: int) -> Allocate:
    """The allocation that CUDA_MEM_ALLOC_NODE_PARAMS describes, where its address is written. Raises INVALID_VALUE,
    NOT_SUPPORTED for memory that is not this device's."""
    kind, _, location, number = struct.unpack("<4i", read(address, 16))
    fail_if(kind != _PINNED, ResultCode.INVALID_VALUE)
    fail_if(location != _ON_DEVICE, ResultCode.NOT_SUPPORTED)
    fail_if(number != 0, ResultCode.INVALID_VALUE)
    work = allocation(driver, get_pointer(address + 104))
    put_pointer(address + 112, work.allocation.address)
    return work


def check_launch(driver: Driver, executable: Executable) -> None:
    """Free what is left of an earlier launch, if the executable was made so. Raises INVALID_VALUE if not."""
    for work, _ in executable.steps:
        if isinstance(work, Allocate):
            left = driver.buffer_at(work.allocation.address)
            fail_if(left is not None and not executable.flags & _AUTO_FREE, ResultCode.INVALID_VALUE)
            if left is not None:
                driver.free(left)
