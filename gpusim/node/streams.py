"""Streams of one GPU, as a CUDA program has them: launches, copies, events and calls of the host, on one clock.

Calls return at once; what they ask for happens in simulated time when somebody waits for it. The host's own clock says
when a call was made: it goes on by what a call takes, and to the end of whatever it waits for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import simpy

from gpusim.engine.device import Engine
from gpusim.engine.grid import EndedWithAnother, Transfer
from gpusim.engine.streams import KernelWork, StreamQueue, UntimedWork
from gpusim.host.launch_run import LaunchRun
from gpusim.launch.device_array import DeviceArray
from gpusim.node.result import Copy
from gpusim.node.topology import Node
from gpusim.node.transfers import Mover, engines_of
from gpusim.node.work import CopyWork, HostWork, RecordWork, TimedWork, WaitWork
from gpusim.units import byte_text


class PinnedArray(np.ndarray):
    """An array in page-locked host memory, which copy engines reach by themselves; made by `Device.pinned_array`."""


class HostClock:
    """The cycle up to which the host thread has come."""

    cycles = 0.0


class StreamSet:
    """The streams of a GPU and the host thread that puts work into them.

    node: what the GPU, by its name there, reaches its host and others through. beside: the streams of another GPU of
    the node, which the same host thread serves. timed: whether there is a clock; without one, calls, copies, events and
    functions of the host take no time. waits: lets time pass until work is done; a driver has its own.
    """

    def __init__(self, engine: Engine, node: Node, gpu: str, beside: StreamSet | None = None, timed: bool = True):
        self.engine, self.gpu, self.env, self.timed = engine, gpu, engine.env, timed
        self.per_us = engine.config.gpu.clock_mhz
        self.mover: Mover = beside.mover if beside is not None else Mover(engine.env, node, self.per_us, True)
        engine.engines.count = self.mover.engine_count
        self.host: HostClock = beside.host if beside is not None else HostClock()
        engine.name = engine.main.gpu = gpu
        self.calls = node.config.host
        self._memory = node.host_of(gpu)
        event = engine.config.launch.event_cycles, round(node.config.copies.event_us * self.per_us)
        self.event_cycles = event if timed else (0, 0)  # behind kernels, and where copy engines stamp it
        self.wait_cycles = engine.config.launch.wait_cycles if timed else 0
        self._launches: list[LaunchRun] = []
        self._called: int | None = None
        self.waits: Callable[[simpy.Event], object] = engine.wait

    def cycles(self, duration_us: float) -> float:
        """Cycles that something takes, none where there is no clock."""
        return duration_us * self.per_us if self.timed else 0.0

    def call(self, duration_us: float) -> int:
        """The host makes a call that takes so long. Returns the cycle at which it has been made."""
        if self._called is not None:
            return self._called
        self.host.cycles = max(self.host.cycles, float(self.env.now)) + self.cycles(duration_us)
        return round(self.host.cycles)

    @contextmanager
    def one_call(self, duration_us: float) -> Iterator[None]:
        """All that the host puts into streams within is done by one call that takes so long."""
        before, self._called = self._called, self.call(duration_us)
        try:
            yield
        finally:
            self._called = before

    def launched(self, launch: LaunchRun) -> None:
        """A launch has been put into a stream."""
        self._launches.append(launch)

    def wait(self, done: simpy.Event) -> None:
        """The host waits for work. Raises what a launch has ended with."""
        try:
            self.waits(done)
        except Exception as error:
            if not isinstance(error, EndedWithAnother) and all(each.error is None for each in self._launches):
                raise  # else a launch says it in the user's terms
        self.host.cycles = max(self.host.cycles, float(self.env.now))
        ended = [launch for launch in self._launches if launch.error is not None]
        self._launches = [launch for launch in self._launches if launch.error is None]
        if ended:
            raise min(ended, key=lambda each: isinstance(each.error, EndedWithAnother)).error  # type: ignore[misc]

    def drain(self) -> None:
        """The host waits for the work of all streams."""
        for stream in self.engine.streams:
            while stream.pending:
                self.wait(stream.pending[-1].done)
        self._launches.clear()

    def put(self, stream: StreamQueue, work: TimedWork, duration_us: float) -> TimedWork:
        """The host adds work to a stream, by a call that takes so long."""
        work.submitted = self.call(duration_us)
        stream.put(work)
        return work

    def copy(
        self, queue: StreamQueue, nbytes: int, to_device: bool | None, pinned: bool, effect: Callable[[], Any]
    ) -> TimedWork | KernelWork | UntimedWork:
        """A copy between host and device, or within the device, which is a kernel of the driver's; `effect` moves the
        bytes. Of pageable memory the call returns when the host has done its part."""
        ends = {True: (self._memory, self.gpu), False: (self.gpu, self._memory), None: (self.gpu, self.gpu)}[to_device]
        return self.copy_between(queue, *ends, nbytes, pinned, effect)

    def fill(self, queue: StreamQueue, nbytes: int, effect: Callable[[], Any]) -> TimedWork | KernelWork | UntimedWork:
        """A fill, which reads nothing and so takes half as long as a copy within the device."""
        return self.copy(queue, nbytes // 2, None, True, effect)

    def copy_between(
        self, queue: StreamQueue, start: str, end: str, nbytes: int, pinned: bool, effect: Callable[[], Any]
    ) -> TimedWork | KernelWork | UntimedWork:
        """The same between two memories of the node, by name."""
        ends = start, end
        if not self.timed:
            return self.put(queue, TimedWork(self.env, effect), 0)
        if start == end:
            rate = self.mover.copies.device_gb_s * 1e3 / self.per_us
            takes = self.engine.config.dram.latency_cycles + math.ceil(nbytes / rate)
            grid = Transfer(self.env, f"{start} -> {end} {byte_text(nbytes)}", takes, effect)
            return self.engine.submit(grid, queue, self.call(self.calls.copy_call_us))
        path = self.mover.path(*ends)
        names = tuple(self.mover.links[index].name for index in path)
        copy = Copy(*ends, nbytes, f"{ends[0]} -> {ends[1]}", names)
        engines = engines_of(self.mover.node, self.mover.node.path(*ends), *ends, self.gpu)
        if pinned and start == self._memory and nbytes <= self.mover.copies.command_bytes:
            engines = path = ()
        work = CopyWork(self.mover, copy, path, engines, pinned, effect=effect)
        large = nbytes > self.calls.large_copy_bytes
        self.put(queue, work, self.calls.large_copy_call_us if large else self.calls.copy_call_us)
        copy.submitted_us = work.submitted / self.per_us
        if work.pageable and self._called is None:  # a graph's is copied when its turn has come
            self.wait(work.returned)
        return work


class Stream:
    """An order of work on one GPU; `Device.stream` makes it. priority: lower numbers get room on SMs first."""

    def __init__(self, streams: StreamSet, queue: StreamQueue):
        self.of, self.queue = streams, queue

    @property
    def priority(self) -> int:
        """As CUDA counts: 0 is the lowest."""
        return self.queue.priority

    def record(self, event: Event | None = None) -> Event:
        """Put an event (by default a new one) behind the work so far."""
        event = event or Event(self.of)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Go on only when an event has happened, as last recorded; at once if it has not been recorded."""
        done = [event.work.done] if event.work is not None else []
        work = WaitWork(self.of.env, done, takes=self.of.wait_cycles)
        self.of.put(self.queue, work, self.of.calls.event_call_us)

    def call(self, function: Callable[[], Any]) -> None:
        """Let the host call a function when the work so far is done; what comes behind waits for its end."""
        work = HostWork(self.of.env, function, self.of.cycles(self.of.calls.function_us))
        self.of.put(self.queue, work, self.of.calls.event_call_us)

    def synchronize(self) -> None:
        """Wait for all work of the stream. Raises what a launch has ended with."""
        if self.queue.pending:
            self.of.wait(self.queue.pending[-1].done)


class Event:
    """A point in the work of a stream."""

    def __init__(self, streams: StreamSet):
        self._set = streams
        self.work: RecordWork | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind what a stream has to do so far; without one, behind all that any stream has."""
        queue = stream.queue if stream is not None else self._set.engine.main
        if stream is None:
            self._set.drain()
        self.work = RecordWork(self._set.env, None, *self._set.event_cycles)
        self._set.put(queue, self.work, self._set.calls.event_call_us)

    @property
    def cycle(self) -> int | None:
        """When it has happened, in SM clock cycles since the device was made; None if it has not."""
        return None if self.work is None or self.work.time is None else round(self.work.time)

    def synchronize(self) -> None:
        """Wait for it."""
        if self.work is not None:
            self._set.wait(self.work.done)

    def elapsed_ms(self, later: Event) -> float:
        """Simulated milliseconds from this event to a later one, which are waited for. Raises ValueError if one is not
        recorded."""
        self.synchronize()
        later.synchronize()
        if self.cycle is None or later.cycle is None:
            raise ValueError("both events must be recorded first")
        return (later.cycle - self.cycle) / self._set.per_us / 1000


class StreamedArray(DeviceArray):
    """An array of a `gpusim.Device`: copies take their time, in a stream or with the host waiting."""

    streams: StreamSet

    def __getitem__(self, part: slice) -> StreamedArray:
        """Some rows, in the same memory. Raises IndexError for anything but a slice without a step."""
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise IndexError(f"a part of a device array is a slice without a step, not {part!r}")
        start, stop, _ = part.indices(len(self))
        shape = max(stop - start, 0), *self.shape[1:]
        made = StreamedArray(self.memory, self.address + start * self.strides[0], shape, self.dtype, self.strides)
        made.streams = self.streams
        return made

    def copy_to_host(self, out: np.ndarray | None = None, stream: Stream | None = None) -> np.ndarray:
        """Copy to a new array, or into `out` of the same shape and dtype, and return it. In a stream its contents are
        there when the stream has done it; without one, all streams are waited for first."""
        if out is None:
            out = np.empty(self.shape, self.dtype)
        self._same(out)
        self._copy(False, out, lambda: np.copyto(out, self.host_view), stream)
        return out

    def copy_to_device(self, array: np.ndarray, stream: Stream | None = None) -> None:
        """Copy `array`, of the same shape and dtype, to the device; in a stream when its turn has come."""
        array = np.asanyarray(array)
        self._same(array)
        self._copy(True, array, lambda: DeviceArray.copy_to_device(self, array), stream)

    def _copy(self, to_device: bool, host: np.ndarray, effect: Callable[[], Any], stream: Stream | None) -> None:
        if stream is None:
            self.streams.drain()
        queue, pinned = stream.queue if stream is not None else self.streams.engine.main, isinstance(host, PinnedArray)
        work = self.streams.copy(queue, self.nbytes, to_device, pinned, effect)
        if stream is None or not (self.streams.timed or pinned):
            self.streams.wait(work.done)
