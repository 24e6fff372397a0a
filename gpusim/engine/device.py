"""The device as SimPy processes: a stream that starts grids, a block dispatcher, groups of SMs, and the memory system.

Time advances in lookahead windows: no reply can reach an SM sooner than `l2.lookahead_cycles` after its request, so all
SMs run that far on their own in compiled code, a group of them on each host thread; then the memory system serves the
window's requests in order of time, and the dispatcher refills SMs. `processes` shows how a window goes round.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from inspect import GEN_RUNNING, getgeneratorstate
from typing import Any

import simpy

from gpusim.config import GPUConfig
from gpusim.engine.grid import Grid, Host, Process, Progress, Recorder
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.processes import Dispatcher, MemoryProcess, SMGroup
from gpusim.engine.state import layout as L


class Engine:
    """The simulated GPU: its processes and its memory system, in an environment of its own or in `env`.

    env.now counts SM clock cycles. What L2 holds lasts over launches; `memory_system.flush()` empties it. A launch that
    does not end, for a fault of its own, an exception of `progress` or an interrupt of the user, leaves the device as
    new but for the time that has passed: nothing of it goes on, caches are empty, queues idle, counters zero.
    """

    def __init__(self, config: GPUConfig, threads: int = 1, env: simpy.Environment | None = None):
        self.config = config
        self.env = env or simpy.Environment()
        self.memory_system = MemorySystem(config, config.sm.count)
        self.threads = max(1, min(threads, config.sm.count))
        self.queue = simpy.Store(self.env)
        self._pool = ThreadPoolExecutor(self.threads)
        self._start()

    def submit(
        self,
        state: L.State,
        blocks: int,
        max_cycles: int | None,
        progress: Progress | None,
        host: Host | None = None,
        recorder: Recorder | None = None,
    ) -> Grid:
        """Queues a grid behind those submitted before. `host` serves its system calls, `recorder` makes its trace."""
        grid = Grid(self.env, state, blocks, max_cycles, progress, host, recorder)
        try:
            if not self._started:
                self._restart(None)
            self.queue.put(grid)
        except BaseException:  # an interrupt
            self._restart(grid)
            raise
        return grid

    def wait(self, grid: Grid) -> int:
        """Runs until the grid is done. Returns the cycles it took, launch overhead included."""
        try:
            self.env.run(until=grid.done)
        except BaseException:
            if (
                grid.done.callbacks is not None
            ):  # an interrupt, which may have fallen on SimPy's own code as well
                grid.done.callbacks.clear()
                grid.done.defused = True
                self._restart(grid)
            raise
        return grid.end - grid.start

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
        """Makes the processes, and what they hand each other."""
        env, count = self.env, self.config.sm.count
        self._running: Grid | None = None
        memory = MemoryProcess(env, self.memory_system, self.threads)
        bounds = [count * k // self.threads for k in range(self.threads + 1)]
        # The last group runs on the caller's thread, which has nothing to do but to wait for the others.
        submit = [*(self._submit for _ in range(self.threads - 1)), None]
        groups = [SMGroup(env, k, bounds[k], bounds[k + 1], submit[k], memory) for k in range(self.threads)]
        dispatcher = Dispatcher(env, self.config, groups, memory)
        runs = [self._stream(dispatcher), dispatcher.run(), memory.run(), *(group.run() for group in groups)]
        self._processes = [self._guarded(run) for run in runs]
        for process in self._processes:
            env.process(process)
        parts = self, dispatcher, memory, *groups
        self._stores = [
            each for part in parts for each in vars(part).values() if isinstance(each, simpy.Store)
        ]
        self._started = True

    def _submit(self, *work: Any) -> Future[Any]:
        return self._pool.submit(*work)

    def _stream(self, dispatcher: Dispatcher) -> Process:
        """Starts one grid after the other, in the order of their submission."""
        while True:
            grid = self._running = yield self.queue.get()
            grid.start = int(self.env.now)
            yield self.env.timeout(self.config.launch.overhead_cycles)
            dispatcher.grids.put(grid)
            yield dispatcher.finished.get()
            grid.end = int(self.env.now)
            self._running = None
            grid.done.succeed()

    def _guarded(self, process: Process) -> Process:
        """A process whose exceptions end the running grid, and not the device."""
        try:
            yield from process
        except Exception as error:
            grid = self._running
            self._restart(grid)
            if grid is None:
                raise
            grid.done.fail(error)

    def _restart(self, dropped: Grid | None) -> None:
        """Stops whatever runs, and begins anew with the grids that wait, without the one that is dropped."""
        self._started = False  # until this is done, which another interrupt may prevent
        for process in self._processes:
            if getgeneratorstate(process) != GEN_RUNNING:
                process.close()
        for store in self._stores:  # events on their way look at them once more, and must find nothing to do
            store.put_queue.clear()
            store.get_queue.clear()
        self.queue.items[:] = [grid for grid in self.queue.items if grid is not dropped]
        self.close()
        self.memory_system.reset()
        self._start()
