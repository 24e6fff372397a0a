"""Work of a program's streams in those of the device: launches, copies and fills, events, functions of the host.

The default stream and the others wait for each other, but for those that the program made not to. As long as there is
none of these, what the default stream does is done when its call returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import simpy

from gpusim.collectives import CollectiveResult
from gpusim.collectives.blocks import blocks_of
from gpusim.device import Device
from gpusim.driver.caller import caller
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.objects import DriverGpu
from gpusim.driver.work import launch_attributes as A
from gpusim.driver.work import streams as S
from gpusim.driver.work.launches import CopyCall, JointCall, LaunchCall, Launcher
from gpusim.driver.work.passing import PassingTime, QueueOwner
from gpusim.driver.work.streams import DriverEvent, DriverStream, Executable, StreamWork, called_by_stream
from gpusim.engine.grid import EndedWithAnother
from gpusim.engine.streams import KernelWork, StreamQueue
from gpusim.host.launch_run import LaunchRun
from gpusim.node.streams import Stream, StreamSet
from gpusim.node.work import HostWork, JointWork, Meeting, PauseWork, RecordWork, TimedWork, WaitWork
from gpusim.units import byte_text
from isa.errors import SimulationError


class WorkQueues(PassingTime):
    """The streams of a process, on GPUs that share one clock and links. All is done with the driver's lock held."""

    def __init__(self, driver: QueueOwner):
        super().__init__(driver)
        self._queues: dict[DriverStream, StreamQueue] = {}
        self._mains: dict[DriverGpu, StreamQueue] = {}  # of default streams
        self._ends: dict[StreamQueue, simpy.Event] = {}  # of what was put there last
        self._waited: dict[tuple[StreamQueue, StreamQueue], simpy.Event] = {}  # by the first, for the second
        self._launches: list[LaunchRun] = []

    @property
    def busy(self) -> bool:
        """True if any stream has work left."""
        return any(map(self._has_work, self._own()))

    @property
    def calls_host(self) -> bool:
        """True if a stream has a function of the host to call."""
        return any(isinstance(each, HostWork) for queue in self._own() for each in queue.pending)

    def mains(self) -> Iterable[StreamQueue]:
        return self._mains.values()

    def _own(self, gpu: DriverGpu | None = None) -> list[StreamQueue]:
        """Queues of all its streams, or of those of a GPU."""
        mains = [queue for its, queue in self._mains.items() if gpu in (None, its)]
        return mains + [queue for stream, queue in self._queues.items() if gpu in (None, stream.gpu)]

    def _has_work(self, queue: StreamQueue) -> bool:
        """Return whether work is left there, or somebody is still to be told that it is done."""
        return bool(queue.pending) or (queue in self._ends and not self._ends[queue].processed)

    # --- what streams get ---------------------------------------------------------------------------------------------

    def add(self, stream: DriverStream, work: StreamWork | Executable) -> None:
        """Put work into a stream. What has the GPU for itself waits for all others and is done, but for functions of
        the host and graphs."""
        if isinstance(work, Executable):
            self._add(stream, self._graph(stream, work), waits=False)
        else:
            self._add(stream, partial(work.put, stream, self), work.kind != S.HOST_CALL)

    def _graph(self, stream: DriverStream, executable: Executable) -> Callable[[], object]:
        """Puts the work of a graph that is launched behind that of a stream."""
        if executable.graph is None:
            executable.graph, nodes = self._device_of(stream).graph(), list[Any]()
            for work, after in executable.steps:
                put = partial(self._put_step, executable, work)
                nodes.append(executable.graph.add(put, [nodes[number] for number in after]))
            for each in executable.graph.lines:
                executable.lines[each.queue] = DriverStream(stream.gpu, S.NON_BLOCKING, branch=True)
            self._queues |= {line: queue for queue, line in executable.lines.items()}
        for number, line in enumerate(executable.lines.values()):
            line.nvtx_range, line.correlation = stream.nvtx_range, stream.correlation
            if number == 0:
                line.shown_handle = stream.shown_handle
        return partial(executable.graph.start, Stream(self._set_of(stream), self.queue_of(stream)))

    def _put_step(self, executable: Executable, work: StreamWork, queue: Stream) -> None:
        """Put work into a graph's stream. Raises what ends the launch of the graph."""
        work.put(executable.lines[queue.queue], self)
        self._driver.fail_if_failed()

    def _add(self, stream: DriverStream, put: Callable[[], object], waits: bool = True) -> None:
        """put: puts something into a stream. waits: for it, if nothing goes beside. Without a clock all is done that
        waits for nothing of the program. The next call is told of a launch that fails meanwhile."""
        apart = self.alone(stream)
        if apart:
            self.clear(stream)
        self._order(stream)
        put()
        self._driver.fail_if_failed()
        if apart and waits:
            self.drain()
        elif not self._set.timed:
            self.settle()
        if self.busy:
            self.watch(caller().standby())

    def clear(self, stream: DriverStream) -> None:
        """Wait for all on its GPU, before work that has nothing beside it. Raises what a launch has left."""
        self.drain(stream.gpu)
        self._driver.fail_if_failed()

    def reads_now(self, stream: DriverStream) -> bool:
        """Return whether a copy that is put into a stream is done before the call returns."""
        return self.alone(stream) or not (self._set.timed or self.busy)

    def alone(self, stream: DriverStream) -> bool:
        """Return whether nothing is ever done beside a stream: it is the default one of the program's only GPU, all
        others wait for that, and what the host computes takes no time."""
        others = (each for context in self._driver.contexts() for each in context.streams.values())
        only = stream.handle in S.NO_ORIGIN and not (self._driver.is_shared or self._shared.host.measured)
        return only and not any(each.flags & S.NON_BLOCKING for each in others)

    def _device_of(self, stream: DriverStream) -> Device:
        return self._driver.simulated(stream.gpu)

    def _set_of(self, stream: DriverStream) -> StreamSet:
        return self._device_of(stream).streams

    def queue_of(self, stream: DriverStream) -> StreamQueue:
        """The device's stream that does a stream's work."""
        engine = self._set_of(stream).engine
        if stream.handle in S.NO_ORIGIN:
            if stream.gpu not in self._mains:
                taken = any(engine.main in each.mains() for each in self._shared.members.values())
                self._mains[stream.gpu] = engine.stream() if taken else engine.main
            return self._mains[stream.gpu]
        if stream not in self._queues:
            self._queues[stream] = engine.stream(A.priority_of(stream.attributes))
        return self._queues[stream]

    def forget(self, *streams: DriverStream) -> None:
        """Streams without work are destroyed."""
        for stream in streams:
            queue = self._queues.pop(stream, None)
            if queue is not None and queue in (queues := self._set_of(stream).queues):
                queues.remove(queue)
                self._ends.pop(queue, None)
                self._waited = {pair: end for pair, end in self._waited.items() if queue not in pair}

    def _order(self, stream: DriverStream) -> None:
        """Let a stream's next work wait for the default stream; of that one, for all streams that wait for it."""
        if not stream.flags & S.NON_BLOCKING:
            queue, main = self.queue_of(stream), self._mains.get(stream.gpu)
            before = self._blocking(stream) if queue is main else [main] if main is not None else []
            if self._driver.is_shared:
                self._pass(lambda: any(each.pending for each in before), self._set.host.time)
            ends = [end for each in before if (end := self._new_end(each, queue)) is not None]
            if ends:
                self._set.put(queue, WaitWork(self.env, ends, takes=self._set.wait_takes), 0)

    def _blocking(self, default: DriverStream) -> list[StreamQueue]:
        """Queues of the streams that a GPU's default stream waits for."""
        own = ((stream, queue) for stream, queue in self._queues.items() if stream.gpu is default.gpu)
        return [queue for stream, queue in own if not stream.flags & S.NON_BLOCKING]

    def _new_end(self, queue: StreamQueue, waiting: StreamQueue) -> simpy.Event | None:
        """The end of all work of a queue, None if another one waits for that already. It never fails, as the end of a
        launch may."""
        if not queue.pending:
            return None
        if isinstance(queue.pending[-1], KernelWork):
            self._set.put(queue, RecordWork(self.env, ()), 0)
        end = queue.pending[-1].done
        if self._waited.get((waiting, queue)) is end:
            return None
        self._waited[waiting, queue] = end
        return end

    def launch(self, stream: DriverStream, call: LaunchCall, failed: Callable[[Exception], object]) -> None:
        """A launch, which takes the host no time where nothing goes beside it. failed: called with what it has ended
        with. Raises LaunchError."""

        def ended(run: LaunchRun) -> None:
            if run in self._launches:
                self._launches.remove(run)
            if run.error is None or isinstance(run.error, EndedWithAnother):
                return
            if not isinstance(run.error, SimulationError):
                raise run.error  # the host's, such as a disk that is full: the call that waits tells of it
            self._shared.failed = self
            failed(run.error)

        driver, queue = self._driver, self.queue_of(stream)
        self._device_of(stream).calls.write = self.at_home(lambda text: caller().print(text))
        into = None if self.alone(stream) else queue
        how = driver.max_cycles, driver.stop_if_interrupted
        run = Launcher(self._device_of(stream), driver.log, driver.observers, *how).begin(call, into)
        run.on_end.append(ended)
        self._ends[queue] = run.done
        self._launches.append(run)

    def copy(self, stream: DriverStream, copy: CopyCall, effect: Callable[[], object], wait: bool = False) -> None:
        """A copy or a fill. effect: moves the bytes. wait: until that is done."""
        queue, streams, moves = self.queue_of(stream), self._set_of(stream), self.at_home(effect)

        def done() -> None:
            moves()
            if not self._launches:
                copy.displace(self._device_of(stream))
            span = queue.pending[0].span()
            self._driver.copied(copy, round(span[2] if span is not None else self.env.now))

        to_device = {"HtoD": True, "DtoH": False}.get(copy.kind)
        dropped = self._shared.dropped
        with streams.one_call(0.0) if copy.pinned and self.alone(stream) else nullcontext():  # as a launch
            if copy.kind == "fill":
                work = streams.fill(queue, copy.nbytes, done)
            elif copy.source_gpu != copy.target_gpu:
                names = self._driver.node.gpus
                ends = names[copy.source_gpu], names[copy.target_gpu]
                work = streams.copy_between(queue, *ends, copy.nbytes, True, done)
            else:
                its = streams if to_device is None else self._sets[copy.target_gpu]
                work = its.copy(queue, copy.nbytes, to_device, copy.pinned, done)
        if dropped == self._shared.dropped:  # it may have waited for pageable memory
            self._ends[queue] = work.done
        if wait:
            self.run_until(work.done)

    def join(
        self,
        stream: DriverStream,
        meetings: Sequence[Meeting],
        given_up: simpy.Event,
        call: JointCall,
        alike: CollectiveResult | None,
    ) -> None:
        """A part of what several streams do together. alike: what takes as long, and as much room; None for one that is
        alone."""
        units, name = self._set.units, f"{call.name} {byte_text(call.nbytes)}"
        work = JointWork(self.env, meetings, given_up, units(alike.kernel_us if alike is not None else 0.0), name)

        def done(_: simpy.Event) -> None:
            for each in self._driver.observers:
                each.joined(call, *(round(time) for time in (self.env.now, work.came, work.began)))

        work.done.callbacks.append(done)
        if alike is None:
            self._put(stream, work, self._set.calls.event_call_us)
            return
        device = self._device_of(stream)
        if self._set.timed:
            work.blocks = partial(device.room_for, blocks_of(alike, device.config))
        self._put(stream, PauseWork(self.env, units(alike.reach_us), ()), alike.launch_us)
        self._put(stream, work, 0.0)

    def call(self, stream: DriverStream, function: Callable[[], object]) -> None:
        """A function of the host."""

        def begin() -> simpy.Event:
            self._due.append((function, self.env.event()))
            return self._due[-1][1]

        work = HostWork(self.env, begin, self._set.units(self._set.calls.function_us))
        self._put(stream, work, self._set.calls.event_call_us)

    def then(self, stream: DriverStream, effect: Callable[[], object]) -> None:
        """Something that happens at once when a stream has come to it."""
        self._put(stream, TimedWork(self.env, self.at_home(effect)), self._set.calls.event_call_us)

    def _put(self, stream: DriverStream, work: TimedWork, call_us: float) -> None:
        queue = self.queue_of(stream)
        self._ends[queue] = self._set.put(queue, work, call_us).done

    def record(self, stream: DriverStream, event: DriverEvent) -> None:
        """A point at which an event is recorded. In a stream that has the GPU for itself it is there at once."""
        timed = not event.flags & S.DISABLE_TIMING
        work = RecordWork(self.env, None, self._set.event_takes) if timed else RecordWork(self.env, ())
        event.captured, event.work = None, (work, self._shared.dropped)
        self._put(stream, work, 0.0 if self.alone(stream) else self._set.calls.event_call_us)

    def wait_event(self, stream: DriverStream, event: DriverEvent) -> None:
        """Let later work wait for an event, as it was last recorded."""
        events = [event.work[0].done] if self.is_pending(event) and event.work else []
        self._put(stream, WaitWork(self.env, events, takes=self._set.wait_takes), self._set.calls.event_call_us)

    # --- who waits for what -------------------------------------------------------------------------------------------

    def is_pending(self, event: DriverEvent) -> bool:
        """Return whether an event has been recorded in work that is still to be done."""
        return event.work is not None and event.work[1] == self._shared.dropped and not event.work[0].done.processed

    def is_busy(self, stream: DriverStream) -> bool:
        """Return whether a stream has work left, or one that it waits for."""
        return any(map(self._has_work, self._waited_for(stream)))

    def _waited_for(self, stream: DriverStream) -> list[StreamQueue]:
        """Queues that are empty once a stream is idle: its own, and for the default stream all blocking ones."""
        return [*(self._blocking(stream) if stream.handle in S.NO_ORIGIN else ()), self.queue_of(stream)]

    def passes(self, pending: Callable[[], bool]) -> bool:
        """A call that asks whether something is pending takes the host some time, which passes. The answer then. Where
        several processes share the time, that of a thread which only looks on, such as PyTorch's watchdog, takes none.
        """
        if not pending():
            return False
        if self._driver.is_shared and not self._driver.thread.works:
            self._driver.calls -= 2  # it is as if it had not called
            return True
        if self._driver.is_shared:  # as it is when the call is made, however far the others have let time go
            self._pass(pending, self._set.host.time)
        if pending():
            self._pass(pending, self._set.call(self._set.calls.event_call_us))
        return pending()

    def _pass(self, pending: Callable[[], bool], until: float) -> None:
        """Let time pass while something is pending."""
        while pending() and (self._go_on(until) or self._others_act(until)):
            pass

    def _others_act(self, until: float) -> bool:
        """Let other processes call, if one may do something by then."""
        if first := self._set.timed and self._shared.comes_first(self) < until:
            self._shared.let_in(self)
        return first

    def wait(self, stream: DriverStream) -> None:
        """Wait for the work of a stream, and of those that it waits for."""
        for queue in self._waited_for(stream):
            self._wait_for(queue)

    def _wait_for(self, queue: StreamQueue) -> None:
        if self._has_work(queue):
            self.run_until(queue.pending[-1].done if queue.pending else self._ends[queue])

    def wait_for_event(self, event: DriverEvent) -> None:
        """Wait for an event."""
        if event.work is not None and self.is_pending(event):
            fail_if(called_by_stream(), ResultCode.NOT_PERMITTED, "a function that a stream calls waits for an event")
            self.run_until(event.work[0].done)

    def drain(self, gpu: DriverGpu | None = None) -> None:
        """Wait for all work of all streams, or of those of a GPU."""
        while any(map(self._has_work, self._own(gpu))):
            for queue in self._own(gpu):
                self._wait_for(queue)

    def forget_work(self) -> None:
        super().forget_work()
        launches, self._launches = self._launches, []
        for each in launches:
            each.drop()
        self._ends.clear()
        self._waited.clear()
