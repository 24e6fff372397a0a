"""The device as SimPy processes: streams that start grids, and a block dispatcher that has SMs and memory system.

Time advances in lookahead windows: no reply can reach an SM sooner than `l2.lookahead_cycles` after its request, so all
SMs run that far on their own in compiled code, a group of them on each host thread; then the memory system serves the
window's requests in order of time, and the dispatcher refills SMs. `processes` does this, `streams` says where grids
come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import GEN_RUNNING, getgeneratorstate
from typing import Any

import simpy

from gpusim.config import GPUConfig
from gpusim.engine.grid import EndedWithAnother, Grid, MachineStopped, Process, Transfer
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.processes import Dispatcher, SMs
from gpusim.engine.state import L
from gpusim.engine.streams import Engines, FrontEnd, KernelWork, StreamQueue, UntimedWork


class Engine:
    """The simulated GPU: its processes and its memory system, in an environment of its own or in that of the engine of
    another GPU `beside` it, whose links to others it shares.

    env.now counts SM clock cycles. What L2 holds lasts over launches; `memory_system.flush()` empties it. A launch that
    does not end, for a fault of its own, an exception of `progress` or an interrupt of the user, ends those beside it
    and leaves the device as new but for the time that has passed: caches are empty, queues idle, counters zero. Work of
    streams that has not begun goes on.

    main: the stream of those who name none. name: of the GPU, in timelines. shares: whether no grid is ever alone.
    """

    name = "gpu0"
    shares = False

    def __init__(self, config: GPUConfig, threads: int = 1, beside: Engine | None = None):
        self.config = config
        self.env: simpy.Environment = beside.env if beside is not None else simpy.Environment()
        self.memory_system = MemorySystem(config, config.sm.count)
        if beside is not None:
            self.memory_system.share_links(beside.memory_system)
        self.threads = max(1, min(threads, config.sm.count))
        self._pool = ThreadPoolExecutor(self.threads)
        self.engines: Engines = beside.engines if beside is not None else Engines(self.env, lambda name: 1)
        self._front = FrontEnd(self.env, config)
        self.streams: list[StreamQueue] = []
        self._start()
        self.main = self.stream()

    def stream(self, priority: int = 0) -> StreamQueue:
        """A new stream. priority: of its grids, lower numbers first."""
        stream = StreamQueue(self.env, self.engines, priority, next(self._front.queues), len(self.streams))
        stream.gpu = self.name
        self.streams.append(stream)
        return stream

    def submit(
        self, grid: Grid, stream: StreamQueue | None = None, submitted: int = 0, programmatic: bool = False
    ) -> KernelWork | UntimedWork:
        """Queues a grid in a stream, at a cycle that the host's clock shows. programmatic: if there is a grid right
        before it, it may begin when all blocks of that have let it."""
        stream = stream or self.main
        if grid.untimed:
            untimed = UntimedWork(grid)
            stream.put(untimed)
            return untimed
        before = stream.pending[-1] if stream.pending else None
        if programmatic and isinstance(before, KernelWork) and not isinstance(before.grid, Transfer):
            grid.follows, before.grid.followed = before.grid, True
        grid.priority = stream.priority
        if not self._started:
            self._restart(())
        work = self._front.work(grid, max(submitted, int(self.env.now)), stream)
        stream.put(work)
        return work

    def room_for(self, grid: Grid, stream: StreamQueue) -> KernelWork:
        """A part of a stream's work at hand: a grid that only takes room. It runs until all blocks have their places,
        which they keep until `Grid.lets_on` of what the grid follows, whose `left` fires when that is known. From now
        on grids share the GPU, so that others find room while one runs."""
        grid.priority, grid.follows = stream.priority, Grid(self.env, 0)
        grid.takes_room = grid.followed = self.shares = True
        grid.done.callbacks.append(lambda _: grid.forget())
        return KernelWork(self._front, grid, 0, None, 0)

    def wait(self, done: simpy.Event) -> None:
        """Runs until a piece of work is `done`. Raises what has ended it."""
        if done.processed:
            if not done.ok:
                raise error_of(done)
            return
        try:
            self.env.run(until=done)
        except BaseException:
            if done.callbacks is not None:  # an interrupt, which may have fallen on SimPy's own code as well
                done.callbacks.clear()
                self._restart((done,))
            raise

    def drop(self) -> None:
        """Takes all work out of streams, begun or not; nobody hears of its end."""
        self._restart({work.done for stream in self.streams for work in stream.pending})

    def close(self) -> None:
        """Ends the host threads, which a later launch would start again."""
        # An interrupt waits until they leave the launch's memory alone, which takes them milliseconds.
        while True:
            try:
                self._pool.shutdown()
                break
            except KeyboardInterrupt:
                continue
        self._pool = ThreadPoolExecutor(self.threads)

    def _start(self) -> None:
        """Makes the dispatcher, and begins its process."""
        sms = SMs(self.config.sm.count, self.threads, self.submit_work)
        what = sms, self.memory_system, self._front.expected, self._company
        self._front.dispatcher = Dispatcher(self.env, self.config, *what)
        self._process = self._guarded(self._front.dispatcher.run())
        self.env.process(self._process)
        self._started = True

    def _company(self) -> bool:
        """Return True if grids wait in several streams, the one at hand included, or one follows another soon."""
        waiting = [[work.grid for work in each.pending if isinstance(work, KernelWork)] for each in self.streams]
        followed = any(grid.followed for grids in waiting for grid in grids)
        several = sum(any(not isinstance(grid, Transfer) for grid in grids) for grids in waiting) > 1
        return self.shares or followed or several

    def submit_work(self, run: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run a function on one of the host threads."""
        try:
            return self._pool.submit(run, *arguments)
        except RuntimeError:  # the interpreter is about to end, and begins no threads
            done: Future[Any] = Future()
            done.set_result(run(*arguments))
            return done

    def _guarded(self, process: Process) -> Process:
        """The dispatcher's process, whose exceptions end the grids that run, and not the device."""
        try:
            yield from process
        except Exception as error:
            dispatcher = self._front.dispatcher
            running = [*dispatcher.residents, *dispatcher.running.difference(dispatcher.residents)]
            blamed = dispatcher.at_hand or self._blamed(error, running)
            self._restart(())
            if blamed is None:
                raise
            blamed.done.fail(error)
            for grid in running:
                if grid is not blamed:
                    grid.done.fail(EndedWithAnother())
                    grid.done.defused = True

    @staticmethod
    def _blamed(error: Exception, running: list[Grid]) -> Grid | None:
        """The grid that an error is of, if it is of none at hand: whose warp has met it, or the first."""
        if isinstance(error, MachineStopped) and running:
            state = running[0].state
            seat = state.warp[state.sm[error.sm, L.SM_ERROR_WARP], L.WARP_SEAT]
            return next((grid for grid in running if grid.seat == seat), running[0])
        return running[0] if running else None

    def _restart(self, unwanted: Iterable[simpy.Event]) -> None:
        """Stops whatever runs, and begins anew with the work of streams that has not begun, but for what is unwanted,
        by its `done`."""
        self._started = False  # until this is done, which another interrupt may prevent
        ended = {*unwanted, *(grid.done for grid in self._front.dispatcher.running)}
        come = [grid for grid in self._front.dispatcher.grids.items if grid.done not in ended]
        if getgeneratorstate(self._process) != GEN_RUNNING:
            self._process.close()
        self.close()
        self.memory_system.reset()
        for stream in self.streams:
            for work in stream.pending:
                if isinstance(work, KernelWork) and work.done in ended and not work.issued.triggered:
                    work.issued.succeed()  # the next one of its hardware queue waits for that
            stream.drop(ended)
        self._start()
        for grid in come:
            self._front.dispatcher.grids.put(grid)


def error_of(failed: simpy.Event) -> Exception:
    """Return the exception that an event has failed with."""
    error = failed.value
    assert isinstance(error, Exception)
    return error
