"""Streams as SimPy processes: work in order. Grids go to the block dispatcher; copies are `gpusim.node.work`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import simpy

from gpusim.config import GPUConfig
from gpusim.engine.grid import Grid, Inbox, Process


class Span(NamedTuple):
    """Something that a stream did. kind: kernel, copy or host; times of the environment."""

    gpu: str
    stream: int
    kind: str
    name: str
    start: float
    end: float


class QueuedWork(Protocol):
    """Work of a stream. `run` takes its time until the stream goes on; `done` fires at its end, or fails. engines:
    those that it holds meanwhile, by name, None for work that the stream itself does."""

    done: simpy.Event
    engines: tuple[str, ...] | None

    def run(self, stream: StreamQueue) -> Process:
        """Takes the time that the work takes."""

    def span(self) -> tuple[str, str, float, float] | None:
        """Kind, name, start and end of what it did, as in `Span`; None if there is nothing to show."""


class Engines:
    """Parts of a machine that streams hold one after the other, such as copy engines, by name. count: how many there
    are. stirred: fires when a launch or a copy begins or ends, whereupon all streams that wait look again. spans: what
    all streams have done. heard: called with all that is put into them."""

    heard: Callable[[StreamQueue, QueuedWork], object] | None = None

    def __init__(self, env: simpy.Environment, count: Callable[[str], int]):
        self.env, self.count = env, count
        self.stirred = env.event()
        self.spans: list[Span] = []
        self._resources: dict[str, simpy.Resource] = {}

    def stir(self) -> None:
        """Something begins or ends."""
        stirred, self.stirred = self.stirred, self.env.event()
        stirred.succeed()

    def named(self, name: str) -> simpy.Resource:
        """The engine of a name."""
        if name not in self._resources:
            self._resources[name] = simpy.Resource(self.env, self.count(name))
        return self._resources[name]


class StreamQueue:
    """The work of one stream, in the order in which it is put there.

    It keeps the engines of a copy for what comes next, as a stream of a real GPU is a queue of that engine: an event in
    front of a copy that waits for a busy engine is stamped when the engine is free, so the time between the events
    around a copy is the copy's own (recorded: peer_twice and peer_fan_out in validate/node/results).

    pending: work that has not been done, that at hand included. used: engines of its last copy, none behind a kernel,
    None in a new stream. behind_copy: its last work was a copy; copies_since: when the first of those behind its last
    kernel was taken up. queue: the hardware queue of its launches. overhead: cycles that its launches from now on take,
    which then go through no hardware queue: of graphs. gpu, number: what a timeline calls it.
    """

    gpu = "gpu0"
    overhead: int | None = None

    def __init__(self, env: simpy.Environment, engines: Engines, priority: int = 0, queue: int = 0, number: int = 0):
        self.env, self.priority, self.queue, self.number = env, priority, queue, number
        self.pending: list[QueuedWork] = []
        self.behind_copy = False
        self.copies_since = 0.0
        self.engines = engines
        self._work = Inbox(env)
        self._kept: list[tuple[simpy.Resource, Any]] = []
        self._names: tuple[str, ...] = ()
        self.used: tuple[str, ...] | None = None
        self._begin()

    def put(self, work: QueuedWork) -> None:
        """Adds work behind all others."""
        self.pending.append(work)
        self._work.put(work)
        if self.engines.heard is not None:
            self.engines.heard(self, work)

    def drop(self, ended: Iterable[simpy.Event]) -> None:
        """Takes out work that has ended, or that nobody wants any more, by its `done`; the stream goes on behind it."""
        for work in [each for each in self.pending if each.done in ended]:
            if work in self._work.items:
                self._work.items.remove(work)
            elif work is self._at_hand:
                self._process.close()
                self.release()
                self._begin()
            self.pending.remove(work)

    def take(self, names: Sequence[str]) -> Process:
        """Has these engines and no others. Senders come before receivers, so no two copies wait for each other."""
        names = tuple(names)
        if self._names == names:
            return
        self.release()
        for name in names:
            engine = self.engines.named(name)
            request = engine.request()
            yield request
            self._kept.append((engine, request))
        self._names = names

    def release(self) -> None:
        """Gives its engines back."""
        for engine, request in self._kept:
            engine.release(request)
        self._kept, self._names, self.behind_copy = [], (), False

    def stamping(self) -> tuple[str, ...]:
        """Engines that stamp an event: those of the last copy, in a new stream those that its first one will use; none
        behind a kernel."""
        if self.used is not None:
            return self.used
        return next((work.engines for work in self.pending if work.engines is not None), ())

    def _begin(self) -> None:
        self._at_hand: QueuedWork | None = None
        self._process = self._run()
        self.env.process(self._process)

    def _run(self) -> Process:
        while True:
            if not self._work.items:
                self.release()
            yield self._work.come()
            if not self._work.items:  # dropped meanwhile
                continue
            work = self._at_hand = self._work.items.pop(0)
            yield from work.run(self)
            if work.engines is not None:
                self.used = work.engines
            if work.done.triggered:
                self._over(work)
            else:  # a grid that another one follows before its end
                work.done.callbacks.append(partial(self._over, work))
            work = self._at_hand = None  # a launch that is over must not hold its device's memory

    def _over(self, work: QueuedWork, _: object = None) -> None:
        """Work has ended."""
        if work in self.pending:
            self.pending.remove(work)
            if (did := work.span()) is not None:
                self.engines.spans.append(Span(self.gpu, self.number, *did))


class FrontEnd:
    """The front end, which launches pass on their way from streams to the block dispatcher.

    expected: cycles at which grids will come that are on their way. dispatcher: the present one; there is another after
    a launch has failed.
    """

    dispatcher: Any

    def __init__(self, env: simpy.Environment, config: GPUConfig):
        self.env, self._launch = env, config.launch
        self.expected: list[int] = []
        self._free = -config.launch.grid_interval_cycles - 1  # negative as long as nothing has run
        self._last: dict[int, simpy.Event] = {}
        self.queues = itertools.cycle(range(config.launch.hardware_queues))  # new streams have them in turn

    def work(self, grid: Grid, submitted: int, stream: StreamQueue) -> KernelWork:
        """A launch of a stream, behind all others of its hardware queue."""
        if stream.overhead is not None:
            return KernelWork(self, grid, submitted, None, stream.overhead)
        work = KernelWork(self, grid, submitted, self._last.get(stream.queue), None)
        self._last[stream.queue] = work.issued
        return work

    def look(self, since: float) -> int:
        """Cycles until a stream that waits for its copies since then looks again whether they are over, by itself."""
        first, between = self._launch.copy_look_cycles, self._launch.copy_looks_cycles
        looks = max(math.ceil((self.env.now - since - first) / max(between, 1)), 0)
        return max(math.ceil(since + first + looks * between - self.env.now), 0)

    def comes(self, grid: Grid, submitted: int, overhead: int | None) -> int:
        """Cycle at which a grid comes to the dispatcher that its stream has just taken up."""
        if overhead is not None:
            return grid.start + overhead
        if grid.again is None:
            busy = self.expected or any(not each.takes_room for each in self.dispatcher.running)
            grid.again = self._free >= 0 and not busy and submitted >= grid.start  # else it has waited in its stream
        ready = grid.start + self._launch.overhead_cycles + self._launch.again_cycles * grid.again
        if grid.follows is not None:
            ready = max(grid.follows.trigger, submitted) + self._launch.programmatic_cycles
        self._free = max(ready, self._free + self._launch.grid_interval_cycles, grid.start)
        return self._free


class KernelWork:
    """A grid. `Grid.start` is when the stream takes it up.

    submitted: cycle at which the host has put it there; front: what all launches pass; before: when the launch
    before it has left its hardware queue, which streams share; overhead: of a graph's, `StreamQueue.overhead`.
    """

    engines: tuple[str, ...] | None = ()

    def __init__(self, front: FrontEnd, grid: Grid, submitted: int, before: simpy.Event | None, overhead: int | None):
        self.env, self.grid, self.submitted, self._overhead = front.env, grid, submitted, overhead
        self._front, self._before = front, before
        self.issued, self.done = front.env.event(), grid.done

    def run(self, stream: StreamQueue) -> Process:
        """Hands the grid to the dispatcher, and waits for its end."""
        grid, front = self.grid, self._front
        if self.submitted > self.env.now:
            stream.release()
            yield self.env.timeout(self.submitted - self.env.now)
        if stream.behind_copy:
            yield self.env.timeout(front.look(stream.copies_since)) | stream.engines.stirred
        stream.release()
        if self._before is not None and not self._before.triggered:
            yield self._before
        self.issued.succeed()
        stream.engines.stir()
        grid.start = int(self.env.now)
        comes = front.comes(grid, self.submitted, self._overhead)
        front.expected.append(comes)
        try:
            yield self.env.timeout(comes - grid.start)
        finally:
            front.expected.remove(comes)
        front.dispatcher.grids.put(grid)
        yield grid.left | grid.triggered
        if grid.left.triggered:
            yield from self._end(stream)
        else:  # the stream goes on with the grid that follows
            self.env.process(self._end(stream))

    def let_on(self, takes: float) -> None:
        """What the grid follows is over so long from now, if it is not known already when that is."""
        follows = self.grid.follows
        if follows is not None and not follows.left.triggered:
            follows.lets_on = math.ceil(self.env.now + takes)
            follows.left.succeed()

    def _end(self, stream: StreamQueue) -> Process:
        grid = self.grid
        yield grid.left
        stream.engines.stir()
        grid.end = int(self.env.now)
        grid.done.succeed()

    def span(self) -> tuple[str, str, float, float]:
        """From the hand-out of its first blocks to its end."""
        return self.grid.kind, self.grid.name, self.grid.began, self.grid.end


class UntimedWork:
    """A grid that takes no time."""

    engines: tuple[str, ...] | None = ()

    def __init__(self, grid: Grid):
        self.grid, self.done = grid, grid.done

    def run(self, stream: StreamQueue) -> Process:
        """Runs it at once; what ends it early ends nothing else."""
        stream.release()
        self.grid.start = self.grid.end = int(stream.env.now)
        try:
            self.grid.execute()
        except Exception as error:
            self.done.fail(error).defused = True  # whoever waited may have been dropped since, with its process
        else:
            self.done.succeed()
        return
        yield

    def span(self) -> tuple[str, str, float, float]:
        """It has no length."""
        return self.grid.kind, self.grid.name, self.grid.start, self.grid.end
