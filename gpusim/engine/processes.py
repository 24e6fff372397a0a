"""The processes of a device that a window of a grid goes round: block dispatcher, groups of SMs, memory system.

    stream --grid--> Dispatcher --window--> SMGroup, one for each host thread --window--> MemoryProcess
                         ^--------------------------window---------------------------------'

Each has a store that others put into, and a generator `run` that takes from it. All of a window happens at one time of
the environment, its start; then the dispatcher lets the time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.dispatcher import FRACTION, G_FREE_AT, G_NEXT, G_TOTAL, fill, refill
from gpusim.engine.grid import CyclesUsedUp, Grid, MachineStopped, NothingMoves, Process, Window
from gpusim.engine.host_calls import asked, resume, sm_of
from gpusim.engine.memory.place import first_blocks
from gpusim.engine.memory.system import MemorySystem, process_window
from gpusim.engine.sm.cluster import open_barriers
from gpusim.engine.sm.deferred import apply_deferred
from gpusim.engine.sm.flight import deliver
from gpusim.engine.sm.sm import advance_range
from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as ms

_PROGRESS_WINDOWS = 16  # from one call of `progress` to the next
WARPS_APART = 32  # fewer take less time in a window than to wake another thread for them, some 0.1 ms


class MemoryProcess:
    """Crossbar, L2 and device memory: answers the requests of a window once all SMs have run through it."""

    def __init__(self, env: simpy.Environment, system: MemorySystem, groups: int):
        self.requests = simpy.Store(env)  # of (window, what gives a group's next event once it is through)
        self.replies = simpy.Store(env)  # of windows
        self._system = system
        self._groups = groups
        self._order = np.zeros((1, ms.ORDER_WORDS), np.int64)

    def run(self) -> Process:
        """Takes a window from every group, hands it to the dispatcher."""
        while True:
            through = []
            for _ in range(self._groups):
                window, next_event = yield self.requests.get()
                through.append(next_event)
            window.next_event = min(next_event() for next_event in through)
            window.spent(0)
            grid, state = window.grid, window.grid.state
            stopped = np.flatnonzero(state.sm[:, L.S_ERROR])
            if stopped.size:
                raise MachineStopped(int(stopped[0]))
            if grid.recorder is not None:
                grid.recorder.collect(state, window.until)
            window.requests = self._serve(state)
            window.spent(1)
            self.replies.put(window)

    def _serve(self, state: L.State) -> int:
        """Requests in order of time through crossbar, L2 and memory; replies and deferred effects back to the SMs."""
        total = int(state.requests.sum())
        if total:
            if len(self._order) < total:
                self._order = np.zeros((2 * total, ms.ORDER_WORDS), np.int64)
            process_window(self._system.state, state.request, state.requests, self._order)
            apply_deferred(state, self._order, total)
        deliver(state, self._order, total)
        return total


class SMGroup:
    """SMs first..last-1, which run through a window on one host thread: one that `submit` wakes, if it is worth that,
    or the caller's."""

    def __init__(
        self,
        env: simpy.Environment,
        number: int,
        first: int,
        last: int,
        submit: Callable[..., Future[Any]] | None,
        memory: MemoryProcess,
    ):
        self.windows = simpy.Store(env)
        self.first = first
        self._share = first, last, number
        self._submit = submit
        self._memory = memory

    def run(self) -> Process:
        """Takes a window from the dispatcher, hands it to the memory system."""
        while True:
            window = yield self.windows.get()
            self._memory.requests.put((window, self._advance(window)))

    def _advance(self, window: Window) -> Callable[[], int]:
        """Starts the SMs; what it returns waits for them, and tells the cycle of their next event after the window."""
        work = window.grid.state, *self._share, window.start, window.until
        if window.apart and self._submit is not None:
            return self._submit(advance_range, *work).result
        next_event = advance_range(*work)
        return lambda: next_event


class Dispatcher:
    """Hands out the blocks of a grid, and begins its windows one after the other until it is done."""

    def __init__(
        self,
        env: simpy.Environment,
        config: GPUConfig,
        groups: Sequence[SMGroup],
        memory: MemoryProcess,
    ):
        self.grids = simpy.Store(env)
        self.finished = simpy.Store(env)  # of grids
        self._env, self._config = env, config
        self._groups, self._memory = groups, memory

    def run(self) -> Process:
        """Takes a grid from the stream, and hands it back when it is done."""
        while True:
            grid = yield self.grids.get()
            self._hand_out(grid)
            yield from self._windows(grid)
            noted = grid.dispatch[G_FREE_AT] // FRACTION
            sms = grid.state.sm
            last = int(max(sms[:, L.S_LAST_EXIT].max(), sms[:, L.S_LAST_REPLY].max(), noted))
            yield self._env.timeout(max(last - int(self._env.now), 0))
            self.finished.put(grid)

    def _hand_out(self, grid: Grid) -> None:
        """The blocks that find room at once."""
        state, blocks = grid.state, int(grid.dispatch[G_TOTAL])
        order = first_blocks(self._config, self._config.sm.count, blocks, int(state.par[L.P_RESIDENT]))
        if grid.recorder is not None:
            grid.recorder.begin(state)
        interval = round(self._config.launch.fill_interval_cycles * FRACTION)
        fill(state, grid.dispatch, int(self._env.now), order, interval)
        grid.dispatch[G_FREE_AT] = 0  # taking note of ends is another server

    def _windows(self, grid: Grid) -> Process:
        """Sends windows round until no block is left. Cycles in which nothing happens are skipped."""
        now = int(self._env.now)
        limit = None if grid.max_cycles is None else now + grid.max_cycles
        clusters = grid.state.par[L.P_CLUSTER_BLOCKS] > 0
        length = self._config.cluster_window_cycles if clusters else self._config.l2.lookahead_cycles
        number = 0
        while True:
            window = Window(grid, now, now + length, self._apart(grid.state))
            for group in self._groups:
                group.windows.put(window)
            yield self._memory.replies.get()
            number += 1
            running = self._end(window)
            window.spent(2)
            if grid.progress is not None and number % _PROGRESS_WINDOWS == 0:
                finished = int(grid.dispatch[G_NEXT]) - running
                grid.progress(window.until - grid.start, finished, int(grid.dispatch[G_TOTAL]))
            if running == 0:
                return
            until = window.until
            if window.requests == 0:
                event = min(window.next_event, int(grid.state.smsp[:, L.Q_NEXT].min()))
                if event >= L.NEVER:
                    raise NothingMoves(until - grid.start)
                until = max(until, event)
            yield self._env.timeout(until - now)
            now = until
            if limit is not None and now > limit:
                raise CyclesUsedUp

    def _apart(self, state: L.State) -> bool:
        """Whether there are warps enough in all groups but the fullest to be worth waking other threads."""
        if len(self._groups) == 1:
            return False
        warps = np.add.reduceat(state.sm[:, L.S_WARPS], [group.first for group in self._groups])
        return int(warps.sum() - warps.max()) >= WARPS_APART

    def _end(self, window: Window) -> int:
        """What happens between windows: the host answers, blocks take the room of others. Returns the blocks left."""
        grid, state = window.grid, window.grid.state
        if grid.host is not None and (warps := asked(state)).size:
            grid.host(state, warps)
            for w in warps:
                resume(state, sm_of(state, int(w)), int(w), window.until)
        interval = round(self._config.launch.block_interval_cycles * FRACTION)
        running = int(refill(state, grid.dispatch, window.until, interval))
        if state.par[L.P_CLUSTER_BLOCKS] > 0:
            open_barriers(state, window.until)
        return running
