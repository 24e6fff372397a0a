"""The GPU in simulated time, as one SimPy process: the block dispatcher.

`Dispatcher.run` starts waiting grids, sends one lookahead window after the other through SMs and memory system, and
lets the window's time pass. What happens inside a window is compiled, and nobody else can act in between. A grid has
the GPU for itself unless the streams have others for it to share the GPU with.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine import dispatcher as D
from gpusim.engine.endless import EndlessWatch
from gpusim.engine.grid import CyclesUsedUp, Grid, Inbox, MachineStopped, NothingMoves, Process, Seat, Transfer, Window
from gpusim.engine.host_calls import asked, let_on, sm_of
from gpusim.engine.launch_state import SEATS
from gpusim.engine.memory.place import first_blocks
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.sm.cluster import open_barriers
from gpusim.engine.sm.deferred import apply_deferred
from gpusim.engine.sm.flight import deliver
from gpusim.engine.sm.readiness import wake
from gpusim.engine.sm.sm import advance_range
from gpusim.engine.state import L, P, ms
from gpusim.engine.state.arrays import State

_PROGRESS_WINDOWS = 4  # from one call of `progress` to the next
WARPS_APART = 32  # fewer take less time in a window than to wake another thread for them, some 0.1 ms
_LATE = 2
"""Priority of events that come behind all others of a cycle; SimPy's own are 0 and 1."""


class SMs:
    """All SMs, in groups that may run through a window on host threads of their own.

    submit: runs a function on another thread; the last group runs on the caller's, which has nothing to do but to wait.
    """

    def __init__(self, count: int, threads: int, submit: Callable[..., Future[Any]]):
        self._groups = [(count * k // threads, count * (k + 1) // threads, k) for k in range(threads)]
        self._firsts = [first for first, _, _ in self._groups]
        self._submit = submit

    def advance(self, window: Window) -> int:
        """Run through a window. Returns the cycle of the next event on any SM, as far as SMs know themselves."""
        *others, own = self._groups
        through, when = (window.start, window.until), []
        if others and self._worth_threads(window):
            started = [self._submit(advance_range, window.state, *each, *through) for each in others]
            when.append(advance_range(window.state, *own, *through))
            when += [each.result() for each in started]
        else:
            when += [advance_range(window.state, *each, *through) for each in self._groups]
        return int(min(when))

    def _worth_threads(self, window: Window) -> bool:
        """Return whether SMs that act in the window have warps enough, but in the fullest group, for more threads."""
        state = window.state
        acts = (state.smsp[:, L.SMSP_NEXT] < window.until).reshape(len(state.sm), -1).any(axis=1)
        acts |= (state.sm[:, L.SM_EVENTS] > 0) & (state.event_time[:, 0] < window.until)
        warps = np.add.reduceat(state.sm[:, L.SM_WARPS] * acts, self._firsts)
        return int(warps.sum() - warps.max()) >= WARPS_APART


class Dispatcher:
    """Hands out the blocks of grids, and begins windows one after the other as long as there are any.

    expected: cycles at which grids will come that are on their way. company: whether streams have further grids that
    may come beside the next one. Grids get room in the order of their priority, then as they came: the others wait
    until all blocks of those before them have been handed out.
    """

    def __init__(
        self,
        env: simpy.Environment,
        config: GPUConfig,
        sms: SMs,
        system: MemorySystem,
        expected: list[int],
        company: Callable[[], bool],
    ):
        self.grids = Inbox(env)
        self.residents: list[Grid] = []  # in the order in which they get room
        self._waiting: list[Grid] = self.grids.items
        self._resting: list[Grid] = []  # that only take room, while no other could run beside them
        self._moving: Grid | None = None  # a transfer, or a grid that was executed already
        self.running: set[Grid] = set()  # residents, those whose stores are on their way, what is moving
        self.at_hand: Grid | None = None  # what is being done is for this one alone
        self._env, self._config, self._expected, self._company = env, config, expected, company
        self._sms, self._system = sms, system
        self._requests = np.zeros((1, ms.ORDER_WORDS), np.int64)  # of a window, in order of time
        self._table = np.zeros((SEATS, D.G_FIELDS), np.int64)
        self._clock = np.zeros(D.C_FIELDS, np.int64)
        self._interval = round(config.launch.fill_interval_cycles * P.FRACTION)
        self._order = first_blocks(config, config.sm.count, config.sm.count, 1)
        self._over: list[Grid] = []  # which others that have begun ahead of their end wait for
        self._states: dict[int, State] = {}  # by seat, of those that have left as well: warps may still name them
        self._number = 0

    def run(self) -> Process:
        """Takes grids from streams; `Grid.left` of each fires when it is done."""
        while True:
            self._admit()
            if self.residents:
                yield from self._window()
            elif self._moving is not None:
                yield self._env.timeout(self._moving.end - int(self._env.now))
            else:
                yield self.grids.come()
            if self._moving is not None and self._moving.end <= self._env.now:
                moved = self.at_hand = self._moving
                if isinstance(moved, Transfer):
                    moved.effect()
                self._moving = self.at_hand = None
                self.running.discard(moved)
                moved.left.succeed()

    def _admit(self) -> None:
        """Start waiting grids, unless a waiting or a resident one needs the GPU for itself."""
        now = int(self._env.now)
        for grid in [each for each in self._resting if _is_over(each.follows, now)]:
            self._resting.remove(grid)
            grid.left.succeed()
        self._waiting.sort(key=lambda grid: grid.priority)
        while self._waiting and self._moving is None:
            grid = self._waiting[0]
            if isinstance(grid, Transfer):
                before = [each for each in self.residents if each.priority <= grid.priority]
                if all(each.dispatch[D.G_NEXT] == each.dispatch[D.G_TOTAL] for each in before):
                    self._move(self._waiting.pop(0), grid.cycles)
                return
            alone = any(each.alone for each in self.residents)
            if grid.takes_room and (alone or not self.residents):
                self._resting.append(self._waiting.pop(0))
                self._let_next_begin(grid, now)
                continue
            if self.residents and (alone or grid.alone or len(self.residents) == SEATS):
                for each in self.residents:
                    if grid.alone and each.takes_room and each.follows is not None:
                        each.follows.lets_on = now
                return
            self._waiting.pop(0)
            if not grid.alone:
                while self._resting:
                    self._begin(self._resting.pop(0))
            if not self.residents:
                grid.alone = grid.alone or not (self._waiting or self._expected or self._company())
            if not self.residents and grid.alone and grid.follows is None and not grid.followed:
                self.running.add(grid)
                self.at_hand = grid
                cycles = grid.takes()
                self.at_hand = None
                if cycles is not None:
                    self._move(grid, cycles)
                    return
            self._begin(grid)

    def _move(self, grid: Grid, cycles: int) -> None:
        """Nothing else begins for so many cycles, after which the grid has ended."""
        self._moving, grid.began = grid, int(self._env.now)
        grid.end = grid.began + cycles
        self.running.add(grid)

    def _begin(self, grid: Grid) -> None:
        """A grid gets a seat and, if nobody is before it, the blocks that find room at once."""
        grid.seat = next(k for k in range(SEATS) if all(each.seat != k for each in self.residents))
        beside = self.residents[0].state if self.residents else None
        seat = None if grid.alone else Seat(grid.seat, beside)
        grid.memory = [view.copy() for view in self._system.views]
        self.running.add(grid)
        self.at_hand = grid
        grid.prepare(seat)
        self.at_hand = None
        state = self._states[grid.seat] = grid.state
        grid.began = int(self._env.now)
        if grid.follows is not None:
            lets_on = grid.follows.lets_on
            runs = lets_on is None and not grid.follows.done.triggered  # it may have ended with an error
            state.par[P.DEPENDS] = runs or (lets_on is not None and lets_on > grid.began)
            if grid.takes_room:
                self._over.append(grid.follows)
        grid.dispatch = self._table[grid.seat]
        grid.dispatch[:] = 0
        grid.dispatch[D.G_TOTAL] = grid.blocks
        if grid.recorder is not None:
            grid.recorder.begin(state)
        place = next((k for k, each in enumerate(self.residents) if each.priority > grid.priority), len(self.residents))
        self.residents.insert(place, grid)
        if grid.alone and grid.watched and not self._company():
            grid.watch = EndlessWatch.of(state, grid.dispatch)
        if grid.alone:
            order = first_blocks(self._config, self._config.sm.count, grid.blocks, int(state.par[P.RESIDENT]))
            D.fill(state, grid.dispatch, self._clock, grid.began, order, self._interval)
            grid.headed = True
        else:
            self._fill(grid.began)

    def _fill(self, now: int) -> None:
        """The first grid with blocks left, and those behind it once it has none, get the room that there is."""
        for grid in self.residents:
            if not grid.headed:
                D.fill_beside(grid.state, grid.dispatch, self._clock, now, self._order, self._interval)
                grid.headed = True
            if grid.dispatch[D.G_NEXT] < grid.dispatch[D.G_TOTAL]:
                return

    def _window(self) -> Process:
        """Sends SMs and memory system through a window. Cycles in which nothing happens are skipped."""
        now = int(self._env.now)
        self._let_on(now)
        state = self.residents[0].state
        clusters = any(grid.state.par[P.CLUSTER_BLOCKS] > 0 for grid in self.residents)
        until = now + (self._config.cluster_window_cycles if clusters else self._config.l2.lookahead_cycles)
        until = min([until, *(each for each in self._coming() if each > now)])
        window = Window(tuple(self.residents), state, now, until)
        late = self._env.event()  # behind all others of its cycle: what streams do now is done when a window begins
        late._ok, late._value = True, None
        self._env.schedule(late, _LATE)  # type: ignore[arg-type]
        yield late
        next_event = self._sms.advance(window)
        window.spent(0)
        stopped = np.flatnonzero(state.sm[:, L.SM_ERROR])
        if stopped.size:
            raise MachineStopped(int(stopped[0]))
        for grid in window.grids:
            if grid.recorder is not None:
                grid.recorder.collect(grid.state, until)
        requests = self._serve(state, until)
        window.spent(1)
        self._number += 1
        self._end(window)
        window.spent(2)
        rests = False
        if requests == 0 and self.residents:
            event = min(next_event, int(state.smsp[:, L.SMSP_NEXT].min()), self._system.next_late, *self._coming())
            rests = any(grid.takes_room for grid in self.residents)
            if event >= L.NEVER and not rests:
                raise NothingMoves(until - self.residents[0].start)
            until = until if rests else max(until, event)
        if self.residents:
            yield self._env.timeout(until - now)
            if rests:
                yield from self._rest(event)
        for grid in self.residents:
            if grid.max_cycles is not None and until > grid.began + grid.max_cycles:
                self.at_hand = grid
                raise CyclesUsedUp

    def _rest(self, event: int) -> Process:
        """Nothing happens until the next event on an SM, unless it is known when room is free, or a grid comes."""
        first = [each.left for each in self._over if each.lets_on is None]
        if event < L.NEVER:
            first.append(self._env.timeout(max(event - int(self._env.now), 0)))
        if not self._waiting:
            first.append(self.grids.come())
        yield self._env.any_of(first)

    def _coming(self) -> list[int]:
        """Cycles at which something comes from outside: grids, the ends of others that they wait for, that of a
        transfer, those at which a run stops."""
        moved = [self._moving.end] if self._moving is not None else []
        moved.extend(cycle for grid in self.residents for cycle in grid.stops)
        return [*self._expected, *(grid.lets_on for grid in self._over if grid.lets_on is not None), *moved]

    def _let_on(self, now: int) -> None:
        """Warps go on whose grid has waited for the end of another one."""
        for over in [grid for grid in self._over if _is_over(grid, now)]:
            self._over.remove(over)
            for grid in self.residents:
                if grid.follows is over:
                    let_on(grid.state, now)

    def _serve(self, state: State, until: int) -> int:
        """Requests in order of time through crossbar, L2 and memory; replies and deferred effects back to the SMs."""
        total = int(state.requests.sum())
        deferred = self._system.late[ms.LATE_COUNT]
        if total or deferred:
            if len(self._requests) < total:
                self._requests = np.zeros((2 * total, ms.ORDER_WORDS), np.int64)
            self._system.serve(state.request, state.requests, self._requests, until)
            apply_deferred(state, self._requests, total)
        deliver(state, self._requests, total, self._system.state)
        return total or int(deferred - self._system.late[ms.LATE_COUNT])

    def _end(self, window: Window) -> None:
        """Work between windows: the host answers, blocks take the room of others, grids end."""
        for grid in self.residents:
            if grid.host is not None and (warps := asked(grid.state)).size:
                self.at_hand = grid
                grid.host(grid.state, warps)
                self.at_hand = None
                for w in warps:
                    wake(grid.state, sm_of(grid.state, int(w)), int(w), window.until)
        interval = round(self._config.launch.block_interval_cycles * P.FRACTION)
        seats = np.array([grid.seat for grid in self.residents if grid.headed])
        D.refill(window.state, self._table, seats, self._clock, window.until, interval)
        if len(self.residents) > 1:
            self._fill(window.until)
        for grid in window.grids:
            self.at_hand = grid
            if grid.state.par[P.CLUSTER_BLOCKS] > 0:
                open_barriers(grid.state, window.until)
            if grid.watch is not None:
                grid.watch.look()
            running, next_block, total = (int(grid.dispatch[k]) for k in (D.G_RUNNING, D.G_NEXT, D.G_TOTAL))
            if self._number % _PROGRESS_WINDOWS == 0:
                grid.tell(window.until - grid.start, next_block - running)
            if running == 0 and next_block == total:
                self.residents.remove(grid)
                if not self.residents:
                    self._states.clear()
                ended = max(int(grid.dispatch[D.G_LAST]), int(self._clock[D.C_NOTES]) // P.FRACTION)
                sent = int(self._system.counters[ms.CNT_FABRIC_BARRIERS] - grid.memory[0][ms.CNT_FABRIC_BARRIERS])
                l2 = self._config.l2
                last = _fenced(grid.state, ended, sent * l2.barrier_cycles // l2.slices + l2.latency_near_cycles)
                if grid.followed:
                    grid.lets_on = max(last, int(self._env.now)) + self._config.launch.dependency_cycles
                    self._over.append(grid)
                    self._let_next_begin(grid, ended)
                self._env.process(self._leave(grid, last))
            elif grid.takes_room and next_block == total:
                self._let_next_begin(grid, int(self._env.now))
            elif grid.followed and next_block == total:
                blocks = grid.state.block.reshape(-1, L.BLOCK_FIELDS)
                own = blocks[(blocks[:, L.BLOCK_STATE] != 0) & (blocks[:, L.BLOCK_SEAT] == grid.seat)]
                if own[:, L.BLOCK_TRIGGERED].all():
                    self._let_next_begin(grid, int(own[:, L.BLOCK_TRIGGERED].max()))
        self.at_hand = None

    @staticmethod
    def _let_next_begin(grid: Grid, cycle: int) -> None:
        """All blocks of a grid have let the one that follows begin, or have ended."""
        if not grid.triggered.triggered:
            grid.trigger = cycle
            grid.triggered.succeed()

    def _leave(self, grid: Grid, last: int) -> Process:
        """A grid is over when its last block's end has been noted and its last store has come to L2, and when the one
        that it follows is."""
        yield self._env.timeout(max(last - int(self._env.now), 0))
        if grid.follows is not None and not (grid.follows.left.triggered or grid.follows.done.triggered):
            yield grid.follows.left
        grid.follows = None
        grid.memory = [view - before for view, before in zip(self._system.views, grid.memory, strict=True)]
        self.running.discard(grid)
        grid.left.succeed()


def _fenced(state: State, ended: int, barriers: int) -> int:
    """When the fence is over with which SMs end a grid, but for what `launch.overhead_cycles` has of it: a first way to
    L2. barriers: cycles until a slice has answered those of all SMs that have asked it. H200: a load, store or
    reduction of each SM adds 330 to 410 cycles, of one SM 85 to 240, as in `fence_beside`."""
    far, asked = (state.sm[:, row] > state.sm[:, L.SM_FENCED] for row in (L.SM_ASKED_FAR, L.SM_ASKED))
    again = state.par[P.MEMBAR_AGAIN] if far.any() else state.par[P.MEMBAR_NEAR] * asked.any()
    first = state.par[P.MEMBAR_LATENCY]
    return int(max(ended + max(again, barriers - first), state.sm[:, L.SM_LAST_REPLY].max() - first))


def _is_over(grid: Grid | None, now: int) -> bool:
    """Return whether what a grid follows has let it go on by now."""
    return grid is None or (grid.lets_on is not None and grid.lets_on <= now)
