"""Streams of GPUs, as a CUDA program has them: launches, copies, events and calls of the host, on one clock.

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
from gpusim.engine.streams import Engines, KernelWork, StreamQueue, UntimedWork
from gpusim.errors import ArgumentError
from gpusim.host.launch_run import LaunchRun
from gpusim.launch.device_array import DeviceArray
from gpusim.node.flows import Clock
from gpusim.node.result import Copy
from gpusim.node.topology import Node
from gpusim.node.transfers import Mover, engines_of
from gpusim.node.work import CopyWork, HostWork, RecordWork, TimedWork, WaitWork
from gpusim.units import byte_text


class PinnedArray(np.ndarray):
    """An array in page-locked host memory, which copy engines reach by themselves; made by `Device.pinned_array`."""


class HostThread:
    """time: on the clock of the streams, up to which the host thread has come."""

    time = 0.0


class NodeStreams:
    """Streams of GPUs of a node, and the host thread that puts work into them.

    mover: of copies, whose clock is that of all; engines: what streams hold while they copy; queues: the streams. main:
    the stream of those who name none. event_takes, wait_takes: time that an event and waiting for one take.
    """

    timed = True
    event_takes: float = 0
    wait_takes: float = 0
    main: StreamQueue

    def __init__(self, mover: Mover, engines: Engines, queues: list[StreamQueue], host: HostThread):
        self.mover, self.engines, self.queues, self.host = mover, engines, queues, host
        self.clock, self.env, self.calls = mover.clock, mover.env, mover.node.config.host
        self._called: float | None = None

    def units(self, duration_us: float) -> float:
        """Time that something takes, none where there is no clock."""
        return duration_us * self.clock.per_us if self.timed else 0.0

    def call(self, duration_us: float) -> float:
        """The host makes a call that takes so long. Returns the time at which it has been made."""
        if self._called is not None:
            return self._called
        self.host.time = max(self.host.time, float(self.env.now)) + self.units(duration_us)
        return self.clock.nearest(self.host.time)

    @contextmanager
    def one_call(self, duration_us: float) -> Iterator[None]:
        """All that the host puts into streams within is done by one call that takes so long."""
        before, self._called = self._called, self.call(duration_us)
        try:
            yield
        finally:
            self._called = before

    def wait(self, done: simpy.Event) -> None:
        """The host waits for work."""
        if not done.processed:
            self.env.run(until=done)
        self.host.time = max(self.host.time, float(self.env.now))

    def drain(self) -> None:
        """The host waits for the work of all streams."""
        for queue in self.queues:
            while queue.pending:
                self.wait(queue.pending[-1].done)

    def put(
        self, queue: StreamQueue, work: TimedWork, duration_us: float, until: simpy.Event | None = None
    ) -> TimedWork:
        """The host adds work to a stream, by a call that takes so long and, unless it adds more, waits for `until`."""
        work.submitted = self.call(duration_us)
        queue.put(work)
        if until is not None and self._called is None:
            self.wait(until)
        return work

    def send(
        self,
        queue: StreamQueue,
        start: str,
        end: str,
        nbytes: int,
        pinned: bool,
        effect: Callable[[], Any] | None = None,
        name: str | None = None,
    ) -> CopyWork:
        """A copy over the links between two memories of the node, by name; `effect` moves the bytes. Of pageable memory
        the call returns when the host has done its part."""
        mover, path = self.mover, self.mover.path(start, end)
        links = tuple(mover.links[index].name for index in path)
        copy = Copy(start, end, nbytes, name or f"{start} -> {end}", links)
        engines = engines_of(mover.node, path, start, end, queue.gpu)
        if pinned and start.startswith("host") and nbytes <= mover.copies.command_bytes:
            engines = path = ()
        work = CopyWork(mover, copy, path, engines, pinned, effect=effect)
        takes = self.calls.large_copy_call_us if nbytes > self.calls.large_copy_bytes else self.calls.copy_call_us
        self.put(queue, work, takes, work.returned if work.pageable else None)
        copy.submitted_us = work.submitted / self.clock.per_us
        return work


class StreamSet(NodeStreams):
    """The streams of a GPU that runs kernels.

    node: what the GPU, by its name there, reaches its host and others through. beside: the streams of another GPU of
    the node, which the same host thread serves. timed: whether there is a clock; without one, calls, copies, events and
    functions of the host take no time. waits: lets time pass until work is done; a driver has its own.
    """

    def __init__(self, engine: Engine, node: Node, gpu: str, beside: StreamSet | None = None, timed: bool = True):
        self.engine, self.gpu, self.timed = engine, gpu, timed
        clock_mhz, launch = engine.config.gpu.clock_mhz, engine.config.launch
        mover = beside.mover if beside is not None else Mover(Clock(engine.env, clock_mhz, whole=True), node, True)
        super().__init__(mover, engine.engines, engine.streams, beside.host if beside is not None else HostThread())
        engine.engines.count = mover.engine_count
        self.main = engine.main
        engine.name = engine.main.gpu = gpu
        self._memory = node.host_of(gpu)
        self.event_takes, self.wait_takes = (launch.event_cycles, launch.wait_cycles) if timed else (0, 0)
        self._launches: list[LaunchRun] = []
        self.waits: Callable[[simpy.Event], object] = engine.wait

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
        self.host.time = max(self.host.time, float(self.env.now))
        ended = [launch for launch in self._launches if launch.error is not None]
        self._launches = [launch for launch in self._launches if launch.error is None]
        if ended:
            raise min(ended, key=lambda each: isinstance(each.error, EndedWithAnother)).error  # type: ignore[misc]

    def drain(self) -> None:
        """The host waits for the work of all streams."""
        super().drain()
        self._launches.clear()

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
        """Copy between two memories of the node, by name; otherwise like `copy`."""
        if not self.timed:
            return self.put(queue, TimedWork(self.env, effect), 0)
        if start != end:
            return self.send(queue, start, end, nbytes, pinned, effect)
        bytes_per_cycle = self.mover.copies.device_gb_s * 1e3 / self.clock.per_us
        takes = self.engine.config.dram.latency_cycles + math.ceil(nbytes / bytes_per_cycle)
        grid = Transfer(self.env, f"{start} -> {end} {byte_text(nbytes)}", takes, effect, nbytes)
        return self.engine.submit(grid, queue, int(self.call(self.calls.copy_call_us)))


class Stream:
    """An order of work on one GPU; `Device.stream` and `System.stream` make it."""

    def __init__(self, streams: NodeStreams, queue: StreamQueue):
        self.of, self.queue = streams, queue

    @property
    def gpu(self) -> str:
        """The GPU's name in its node, such as 'gpu0'."""
        return self.queue.gpu

    @property
    def priority(self) -> int:
        """CUDA's priority: 0 is the lowest, and lower numbers get room on SMs first."""
        return self.queue.priority

    def record(self, event: Event | None = None) -> Event:
        """Put an event (by default a new one) behind the work so far."""
        return (event or Event(self.of)).record(self)

    def wait_event(self, event: Event) -> None:
        """Go on only when an event has happened, as last recorded; at once if it has not been recorded."""
        done = [event.work.done] if event.work is not None else []
        self.of.put(self.queue, WaitWork(self.of.env, done, takes=self.of.wait_takes), self.of.calls.event_call_us)

    def call(self, function: Callable[[], Any]) -> None:
        """Let the host call a function when the work so far is done; what comes behind waits for its end."""
        work = HostWork(self.of.env, function, self.of.units(self.of.calls.function_us))
        self.of.put(self.queue, work, self.of.calls.event_call_us)

    def synchronize(self) -> None:
        """Wait for all work of the stream. Raises what a launch has ended with."""
        if self.queue.pending:
            self.of.wait(self.queue.pending[-1].done)


class Event:
    """A point in the work of a stream."""

    def __init__(self, streams: NodeStreams):
        self._set = streams
        self.work: RecordWork | None = None

    def record(self, stream: Stream | None = None) -> Event:
        """Put it behind what a stream has to do so far; without one, behind all that any stream has."""
        if stream is None:
            self._set.drain()
        self.work = RecordWork(self._set.env, None, self._set.event_takes)
        queue = stream.queue if stream is not None else self._set.main
        self._set.put(queue, self.work, self._set.calls.event_call_us)
        return self

    def wait(self, stream: Stream) -> None:
        """Let a stream go on only when it has happened, as `Stream.wait_event`."""
        stream.wait_event(self)

    @property
    def time(self) -> float | None:
        """Time at which it has happened, by the clock of the streams; None if it has not."""
        return None if self.work is None or self.work.time is None else self._set.clock.nearest(self.work.time)

    @property
    def cycle(self) -> int | None:
        """SM clock cycles from the device's creation until it happened; None if it has not."""
        return None if self.time is None else int(self.time)

    @property
    def time_us(self) -> float | None:
        """Microseconds from the device's creation until it happened; None if it has not."""
        return None if self.time is None else self.time / self._set.clock.per_us

    def synchronize(self) -> None:
        """Wait for it."""
        if self.work is not None:
            self._set.wait(self.work.done)

    def elapsed_ms(self, later: Event) -> float:
        """Simulated milliseconds from this event to a later one, which are waited for. Raises ValueError if one is not
        recorded."""
        self.synchronize()
        later.synchronize()
        if self.time is None or later.time is None:
            raise ValueError("both events must be recorded first")
        return (later.time - self.time) / self._set.clock.per_us / 1000


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
        array, where = np.asanyarray(array), (self.address, self.dtype, self.shape, self.strides)
        self._same(array)
        self._copy(True, array, lambda: self.memory.write(*where, array), stream)

    def _same(self, array: np.ndarray) -> None:
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ArgumentError(
                f"an array of {array.dtype} with shape {array.shape} does not match the device's "
                f"{self.dtype} with shape {self.shape}"
            )

    def _copy(self, to_device: bool, host: np.ndarray, effect: Callable[[], Any], stream: Stream | None) -> None:
        if stream is None:
            self.streams.drain()
        queue, pinned = (stream.queue if stream is not None else self.streams.main, isinstance(host, PinnedArray))
        work = self.streams.copy(queue, self.nbytes, to_device, pinned, effect)
        if stream is None or not (self.streams.timed or pinned):
            self.streams.wait(work.done)
