"""The device as SimPy processes: a stream that starts grids, a block dispatcher, the SMs, and the memory partitions.

Time advances in lookahead windows: no reply can reach an SM sooner than `l2.lookahead_cycles` after its request, so all
SMs run that far on their own in compiled code, on as many host threads as wanted; then the memory partitions serve the
window's requests in order of time, and the dispatcher refills SMs. Cycles in which nothing happens are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numba
import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.dispatcher import FRACTION, G_FIELDS, G_FREE_AT, G_TOTAL, fill, refill
from gpusim.engine.host_calls import asked, resume, sm_of
from gpusim.engine.machine import Spare
from gpusim.engine.memory.place import first_blocks
from gpusim.engine.memory.system import MemorySystem, process_window
from gpusim.engine.sm.atomics import apply_deferred
from gpusim.engine.sm.cluster import open_barriers
from gpusim.engine.sm.flight import deliver
from gpusim.engine.sm.sm import advance_range
from gpusim.engine.state import layout as L

Host = Callable[[L.State, np.ndarray], None]
"""Serves what warps ask of the host: gets the state and their numbers, in the order in which they asked."""

class Recorder(Protocol):
    """Takes away what the SMs write down about themselves."""

    def begin(self, state: L.State) -> None:
        """Called before the first block."""

    def collect(self, state: L.State, until: int) -> None:
        """Called after each window, which ended at cycle `until`."""


Progress = Callable[[int, int, int], None]
"""Called now and then with (cycles, blocks finished, blocks in the grid)."""


class Grid:
    """One launch on its way through the device. `done` fires when its last block has left and its stores are in L2."""

    def __init__(
        self,
        env: simpy.Environment,
        state: L.State,
        blocks: int,
        host: Host | None = None,
        recorder: Recorder | None = None,
    ):
        self.state = state
        self.host = host
        self.recorder = recorder
        self.dispatch = np.zeros(G_FIELDS, np.int64)
        self.dispatch[G_TOTAL] = blocks
        self.start = 0
        self.done = env.event()


class MachineStopped(Exception):
    """A warp met an error: the first SM that recorded one."""

    def __init__(self, sm: int):
        self.sm = sm
        super().__init__(sm)  # SimPy makes a copy of a failed event's exception from its arguments


class HostRefused(Exception):
    """A warp asked the host for something that ends the run; `error` says why."""

    def __init__(self, error: Exception):
        self.error = error
        super().__init__(error)


class CyclesUsedUp(Exception):
    """The run passed its limit of cycles."""


class NothingMoves(Exception):
    """Warps are resident, none can ever issue again."""


class Device:
    """The simulated GPU: SimPy environment, memory system and the processes between them.

    env.now counts SM clock cycles since the device was made. What L2 holds lasts over launches;
    `memory_system.flush()` empties it.
    """

    def __init__(self, config: GPUConfig, threads: int = 1):
        self.config = config
        self.env = simpy.Environment()
        self.memory_system = MemorySystem(config, config.sm.count)
        self.spare = Spare()
        # Without compilation host threads would wait for each other's turn in the interpreter.
        self.threads = 1 if numba.config.DISABLE_JIT else max(1, min(threads, config.sm.count))
        self.queue = simpy.Store(self.env)
        self.window = config.l2.lookahead_cycles
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None
        self._order = np.zeros((1, 2), np.int64)
        self.env.process(self._stream())

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
        grid = Grid(self.env, state, blocks, host, recorder)
        self.queue.put((grid, max_cycles, progress))
        return grid

    def wait(self, grid: Grid) -> int:
        """Runs until the grid is done. Returns the cycles it took, launch overhead included."""
        self.env.run(until=grid.done)
        return int(self.env.now) - grid.start

    def close(self) -> None:
        """Ends the host threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _stream(self) -> Generator[simpy.Event, Any, None]:
        """Starts one grid after the other, in the order of their submission."""
        while True:
            grid, max_cycles, progress = yield self.queue.get()
            grid.start = int(self.env.now)
            try:
                yield self.env.timeout(self.config.launch.overhead_cycles)
                yield self.env.process(self._run(grid, max_cycles, progress))
                grid.done.succeed()
            except (MachineStopped, HostRefused, CyclesUsedUp, NothingMoves) as error:
                grid.done.fail(error)

    def _run(
        self, grid: Grid, max_cycles: int | None, progress: Progress | None
    ) -> Generator[simpy.Event, Any, None]:
        """Dispatches the blocks of one grid and advances SMs and memory, window by window, until it is done."""
        state = grid.state
        launch = self.config.launch
        interval = round(launch.block_interval_cycles * FRACTION)
        now = int(self.env.now)
        blocks, per_sm = int(grid.dispatch[G_TOTAL]), int(state.par[L.P_BLOCK_SLOTS])
        order = first_blocks(self.config, self.config.sm.count, blocks, per_sm)
        if grid.recorder is not None:
            grid.recorder.begin(state)
        fill(state, grid.dispatch, now, order, round(launch.fill_interval_cycles * FRACTION))
        grid.dispatch[G_FREE_AT] = 0  # taking note of ends is another server
        limit = None if max_cycles is None else now + max_cycles
        running = 1
        windows = 0
        while True:
            until = now + self.window
            event = self._advance_sms(state, now, until)
            stopped = np.flatnonzero(state.sm[:, L.S_ERROR])
            if stopped.size:
                raise MachineStopped(int(stopped[0]))
            if grid.recorder is not None:
                grid.recorder.collect(state, until)
            moved = self._serve_memory(state)
            if grid.host is not None:
                self._serve_calls(state, grid.host, until)
            running = int(refill(state, grid.dispatch, until, interval))
            if state.par[L.P_CLUSTER_BLOCKS] > 0:
                open_barriers(state, until)
            windows += 1
            if progress is not None and windows % 16 == 0:
                finished = int(grid.dispatch[0]) - running
                progress(until - grid.start, finished, int(grid.dispatch[G_TOTAL]))
            if running == 0:
                break
            if moved == 0:
                event = min(event, int(state.part[:, L.Q_NEXT].min()))
                if event >= L.NEVER:
                    raise NothingMoves
                until = max(until, event)  # nothing happens before: skip
            else:
                event = until
            yield self.env.timeout(until - now)
            now = until
            if limit is not None and now > limit:
                raise CyclesUsedUp
        noted = grid.dispatch[G_FREE_AT] // FRACTION
        last = int(max(state.sm[:, L.S_LAST_EXIT].max(), state.sm[:, L.S_LAST_REPLY].max(), noted))
        yield self.env.timeout(max(last - now, 0))

    def _serve_calls(self, state: L.State, host: Host, until: int) -> None:
        """System calls of the window in order of time, SM and warp; their warps go on with the next window."""
        warps = asked(state)
        if warps.size == 0:
            return
        try:
            host(state, warps)
        except Exception as error:  # whatever the host raises ends the run, and must not end the SimPy process
            raise HostRefused(error) from error
        for w in warps:
            resume(state, sm_of(state, int(w)), int(w), until)

    def _advance_sms(self, state: L.State, now: int, until: int) -> int:
        """All SMs to the end of the window, each host thread its share. Returns the earliest event after it."""
        count = self.config.sm.count
        if self._pool is None:
            return int(advance_range(state, 0, count, 0, now, until))
        bounds = [count * k // self.threads for k in range(self.threads + 1)]
        futures = [
            self._pool.submit(advance_range, state, bounds[k], bounds[k + 1], k, now, until)
            for k in range(self.threads)
        ]
        return min(int(future.result()) for future in futures)

    def _serve_memory(self, state: L.State) -> int:
        """Requests of the window through crossbar, L2 and memory; replies and deferred effects back to the SMs."""
        total = int(state.requests.sum())
        if total:
            if len(self._order) < total:
                self._order = np.zeros((2 * total, 2), np.int64)
            process_window(self.memory_system.state, state.request, state.requests, self._order)
            apply_deferred(state, self._order, total)
        deliver(state, self._order, total)
        return total
