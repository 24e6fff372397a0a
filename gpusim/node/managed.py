"""Managed memory of a `gpusim.Device`: arrays that host and kernels use by one address, and that move to who asks.

The bytes lie in simulated device memory all the time; what moves is the table of who has them, and time. A program on a
real machine uses managed memory by its pointer, and the host's own page faults bring it back; a simulator in the same
process cannot see NumPy read memory. So the host says when it touches it: `array[...]`, or `array.host()`, which
moves all of it and gives a NumPy view that may be used until the next kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from gpusim.engine.grid import Process
from gpusim.engine.memory.residency import BLOCK_BYTES, LEAF_BYTES, Fault, FaultCosts, Residency
from gpusim.engine.memory.system import host_row
from gpusim.engine.state.memory import LEAF_PAGES, READ_MOSTLY, STAYS_ON_HOST
from gpusim.engine.streams import Span, StreamQueue
from gpusim.errors import ArgumentError
from gpusim.launch.memory import DeviceMemory
from gpusim.node.sections import ManagedMemory
from gpusim.node.streams import Stream, StreamedArray, StreamSet
from gpusim.node.work import TimedWork

Place = Literal["device", "host"]
FAULTS = -1
"""In the place of a stream's number: what faults have moved."""
_LEAF_MB = LEAF_BYTES / (1 << 20)


class ManagedSet:
    """The managed arrays of a device, and what the driver does about them. known: None for a device without time, where
    they lie does not matter."""

    def __init__(self, memory: DeviceMemory, streams: StreamSet, known: ManagedMemory | None):
        self._memory, self._streams = memory, streams
        self._faults: list[Fault] = []
        self._touches: list[Span] = []
        self.known, self.table = known, None if known is None else _table(streams, known)

    def array(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> ManagedArray:
        """See `Device.managed_array`."""
        if kind.hasobject:
            raise ArgumentError(f"an array of Python objects ({kind}) cannot be managed memory")
        memory, nbytes = self._memory, int(np.prod(shape, dtype=object)) * kind.itemsize
        if nbytes < 0:
            raise ArgumentError(f"an array cannot have the shape {shape}")
        memory.next_address = -(-memory.next_address // BLOCK_BYTES) * BLOCK_BYTES
        memory.occupy(-nbytes, "")  # it takes room when it comes
        with ExitStack() as undoing:
            undoing.callback(memory.occupy, nbytes, "")
            address = memory.alloc(nbytes, f"managed array {shape} of {kind}")
            undoing.callback(memory.free, address)
            if self.table is not None:
                self.table.add(address, nbytes)
            undoing.pop_all()
        made = ManagedArray(memory, address, shape, kind)
        made.streams, made.managed = self._streams, self
        return made

    def freed(self, array: ManagedArray) -> None:
        """An array has been freed."""
        self._memory.occupy(array.nbytes, "")
        if self.table is not None:
            self._collect()
            self.table.remove(array.address)

    def begin(self) -> None:
        """A launch comes: managed memory may have what nothing else takes."""
        if self.table is not None:
            self._collect()
            free = self._memory.capacity_bytes - self._memory.used_bytes
            self.table.begin(free, int(self._streams.env.now))

    @property
    def faults(self) -> list[Fault]:
        """Faults of kernels and host, in the order in which they were asked for."""
        self._collect()
        return self._faults

    @property
    def spans(self) -> list[Span]:
        """Migrations by faults, with their times; those of kernels follow each other, as the driver serves them. Some
        leaves of a range may have been there before."""
        found, end = list(self._touches), 0
        served = sorted((each for each in self.faults if each.to == "gpu"), key=attrgetter("ready"))
        for ready, group in groupby(served, attrgetter("ready")):
            together = list(group)
            start = max(end, min(each.cycle for each in together))
            found.append(self._span(sum(each.leaves for each in together), "GPU", start, ready))
            end = ready
        return found

    def _span(self, leaves: int, to: str, start: int, end: int) -> Span:
        kind = "fault" if to == "GPU" else "host's fault"
        return Span(self._streams.gpu, FAULTS, kind, f"{leaves * LEAF_BYTES >> 10:,} KiB to the {to}", start, end)

    def touch(self, array: ManagedArray, first_byte: int, end_byte: int, writes: bool) -> None:
        """The host uses some bytes, once all streams are through; its clock goes on by what its faults take."""
        streams, known = self._streams, self.known
        if known is None or self.table is None:
            return
        streams.drain()
        self._collect()
        first, end = first_byte // LEAF_BYTES, -(-end_byte // LEAF_BYTES)
        groups = self.table.host_touches(array.address, first, end, writes, int(streams.env.now))
        each_mb = known.host_us_per_mb * _LEAF_MB
        took = len(groups["new"]) * known.host_new_block_us
        took += sum(known.host_fault_us + each * each_mb for each in groups["new"] + groups["more"])
        each_mb = known.host_untouched_us_per_mb * _LEAF_MB
        took += sum(known.host_untouched_us + each * each_mb for each in groups["untouched"])
        took += len(groups["collapsed"]) * LEAF_PAGES * known.host_collapse_page_us
        if took:
            start = int(streams.env.now)
            streams.env.run(until=streams.call(took))
            self._touches.append(self._span(sum(map(sum, groups.values())), "host", start, int(streams.env.now)))

    def prefetch(self, array: ManagedArray, to: str, stream: Stream | None) -> None:
        """See `Device.prefetch`."""
        self._check(array)
        _check_place(to, "device", "host")
        known, mb = self.known, array.nbytes / (1 << 20)
        if known is None:
            return
        if stream is None:
            self._streams.drain()
        self.begin()
        work = PrefetchWork(self, self._streams, array, to == "device")
        queue = self._streams.engine.main if stream is None else stream.queue
        self._streams.put(queue, work, self._streams.calls.copy_call_us)
        if to == "device":
            self._streams.call(known.prefetch_call_us_per_mb * mb)
        if stream is None or (to == "host" and array.nbytes > known.prefetch_waits_bytes):
            self._streams.wait(work.done)

    def advise(self, array: ManagedArray, read_mostly: bool | None, preferred: str | None) -> None:
        """See `Device.advise`."""
        self._check(array)
        if preferred is not None:
            _check_place(preferred, "device", "host", "none")
        if self.table is not None:
            self._streams.drain()
            if read_mostly is not None:
                self.table.advise(array.address, READ_MOSTLY, read_mostly)
            if preferred is not None:
                self.table.advise(array.address, STAYS_ON_HOST, preferred == "host")

    def _check(self, array: Any) -> None:
        if not isinstance(array, ManagedArray) or array.managed is not self:
            raise ArgumentError("only managed arrays of the device are prefetched and advised on")
        self._memory.check(array.address, array.nbytes)

    def _collect(self) -> None:
        """Takes the faults so far out of their record."""
        if self.table is not None:
            self._faults += self.table.faults()
            self.table.clear()


def _table(streams: StreamSet, known: ManagedMemory) -> Residency:
    times = [known.gather_us, known.wake_us, known.pause_us, known.block_us, known.new_block_us]
    times += [known.gpu_us_per_mb * _LEAF_MB, known.page_us, known.collapse_page_us * LEAF_PAGES]
    times.append(known.evict_us_per_mb * _LEAF_MB)
    costs = FaultCosts(known.batch_pages, known.sm_pages, *(each * streams.clock.per_us for each in times))
    bus = host_row(streams.engine.config, known.bus_latency_us, known.bus_gb_s)
    return Residency(streams.engine.memory_system, costs, (bus.cycles, bus.bytes_per_cycle))


def _check_place(place: str, *places: str) -> None:
    if place not in places:
        raise ArgumentError(f"managed memory is on one of {', '.join(places)}, not on {place!r}")


class PrefetchWork(TimedWork):
    """A prefetch of a whole array. Who asks for what it brings to the GPU before it is done waits until then."""

    def __init__(self, of: ManagedSet, streams: StreamSet, array: ManagedArray, to_gpu: bool):
        super().__init__(streams.env)
        self._of, self._per_us, self._address, self._to_gpu = of, streams.clock.per_us, array.address, to_gpu
        self._held = (f"{streams.gpu}.{'to_device' if to_gpu else 'to_host'}",)
        self.engines, self._moved = (), (0, 0.0, 0.0)

    def span(self) -> tuple[str, str, float, float]:
        """For a picture."""
        leaves, start, end = self._moved
        return "prefetch", f"{leaves * LEAF_BYTES >> 10:,} KiB to the {'GPU' if self._to_gpu else 'host'}", start, end

    def _do(self, stream: StreamQueue) -> Process:
        stream.release()
        yield from stream.take(self._held)
        known, table = self._of.known, self._of.table
        assert known is not None and table is not None
        comes, new, there = table.prefetched(self._address, self._to_gpu)
        each = known.prefetch_gpu_us_per_mb if self._to_gpu else known.prefetch_host_us_per_mb
        took = comes * each + new * known.prefetch_new_us_per_mb + there * known.prefetch_there_us_per_mb
        cycles = ((known.prefetch_us if comes or new else known.prefetch_there_us) + took * _LEAF_MB) * self._per_us
        done = table.prefetch(self._address, self._to_gpu, int(self.env.now), round(cycles))
        self._moved = comes + new, self.env.now, done
        yield self.env.timeout(max(done - int(self.env.now), 0))


class ManagedArray(StreamedArray):
    """An array in managed memory; made by `Device.managed_array`. Kernels take it as any device array."""

    managed: ManagedSet

    def host(self, write: bool = False) -> np.ndarray:
        """All of it on the host: waits for the device, brings back what is on the GPU, and returns a NumPy view, to be
        used until the next kernel. write: the host will write it, which makes copies on the GPU worthless."""
        view = self.host_view
        self._touch(view, write)
        return view

    def __getitem__(self, part: Any) -> Any:
        self._touch(self._part(part), False)
        return self.host_view[part]

    def __setitem__(self, key: Any, values: Any) -> None:
        self._touch(self._part(key), True)
        self.host_view[key] = values

    def _copy(self, to_device: bool, host: np.ndarray, effect: Callable[[], Any], stream: Stream | None) -> None:
        """Copies by the host's own loads or stores, once all streams are through."""
        self.host(write=to_device)
        effect()

    @property
    def on_device_bytes(self) -> int:
        """Bytes of it in leaves of 64 KB that the GPU holds; all on a device without time."""
        if self.managed.table is None:
            return self.nbytes
        held = np.flatnonzero(self.managed.table.where(self.address)[:, 1])
        return int(np.minimum(LEAF_BYTES, self.nbytes - held * LEAF_BYTES).sum())

    @property
    def faults(self) -> list[Fault]:
        """Faults of kernels and host at this array, in the order in which they were asked for."""
        return [each for each in self.managed.faults if each.address == self.address]

    def _part(self, key: Any) -> np.ndarray:
        """Return the view that a key names, the whole array for keys that choose single elements."""
        key = key if isinstance(key, tuple) else (key,)
        view = self.host_view
        part = view[key if any(each is Ellipsis for each in key) else (*key, ...)]
        return part if np.may_share_memory(part, view) else view

    def _touch(self, view: np.ndarray, write: bool) -> None:
        if view.size:
            low, high = np.lib.array_utils.byte_bounds(view)
            start = np.lib.array_utils.byte_bounds(self.host_view)[0]
            self.managed.touch(self, low - start, high - start, write)
