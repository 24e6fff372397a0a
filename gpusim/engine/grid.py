"""A launch on its way through the device, what its processes hand each other, and how it may end early."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
import simpy

from gpusim.engine.endless import EndlessWatch
from gpusim.engine.state import L
from gpusim.engine.state.arrays import State

Process = Generator[simpy.Event, Any, None]

Host = Callable[[State, np.ndarray], None]
"""Serves what warps ask of the host: gets the state and their numbers, in the order in which they asked. What it raises
ends the launch."""

Progress = Callable[[int, int, int, int], None]
"""Called now and then with (cycles, blocks finished, blocks in the grid, warp instructions issued)."""


class Inbox:
    """A list of what one process is handed, and the event that it waits for; who ends the process may forget both."""

    def __init__(self, env: simpy.Environment):
        self.env, self.items = env, list[Any]()
        self._come = env.event()

    def put(self, item: Any) -> None:
        """Add an item behind all others."""
        self.items.append(item)
        if not self._come.triggered:
            self._come.succeed()

    def come(self) -> simpy.Event:
        """Return an event that happens when there are items, this cycle if there are some."""
        self._come = self.env.event()
        return self._come.succeed() if self.items else self._come


class Recorder(Protocol):
    """Takes away what the SMs write down about themselves."""

    def begin(self, state: State) -> None:
        """Called before the first block."""

    def collect(self, state: State, until: int) -> None:
        """Called after each window, which ended at cycle `until`."""


class Seat(NamedTuple):
    """A launch's seat among those that share the GPU. number: of its seat; beside: the state of one that is there, None
    for the first."""

    number: int
    beside: State | None


class Grid:
    """Blocks that run together, of one launch.

    `prepare` sets `state`, and `host` where the kernel calls the host. untimed: it takes no time, and `execute` runs
    it. alone: it never shares the GPU. priority: lower numbers get room first, as CUDA counts.

    follows: the grid before it in its stream, ahead of whose end it may begin: when `triggered` of that fires. trigger:
    cycle from which all blocks have let the next one begin, or have ended; lets_on: that from which warps of the next
    one no longer wait for this grid. stops: cycles at which a window ends, so that it can be looked at. takes_room: its
    blocks do nothing but take room, as long as what it follows, and need not be there if nothing runs beside them.

    `left` fires when its last block has left and its stores are in L2; `done` then, or fails with what ended it.
    `start` and `end` are cycles of the device, `began` the one at which its first blocks were handed out. `memory`:
    what the memory system's counters have grown by meanwhile. `seconds`: what the host has spent on SMs, on the memory
    system and on what lies between windows. again: it takes `launch.again_cycles`; None until that is known.
    begins: number of its first block. counted: instructions that its state had counted before it.
    """

    def __init__(
        self,
        env: simpy.Environment,
        blocks: int,
        max_cycles: int | None = None,
        progress: Progress | None = None,
        recorder: Recorder | None = None,
    ):
        self.blocks = blocks
        self.max_cycles, self.progress, self.recorder = max_cycles, progress, recorder
        self.alone, self.priority, self.untimed = False, 0, False
        self.host: Host | None = None
        self.state: State
        self.dispatch = np.zeros(0, np.int64)  # G_* of `dispatcher`, while it is on the GPU
        self.seat = self.begins = self.counted = 0
        self.kind, self.name = "kernel", "kernel"
        self.watch: EndlessWatch | None = None
        self.watched = True  # nobody else writes what it reads while it runs
        self.ended_looks = b""  # what mbarriers, and where, when nothing moved the last time in a functional run
        self.headed = False  # nobody has been before it for room
        self.start = self.began = self.end = 0
        self.memory: list[np.ndarray] = []
        self.seconds = np.zeros(3)
        self.follows: Grid | None = None
        self.followed = self.takes_room = False
        self.again: bool | None = None
        self.trigger = 0
        self.lets_on: int | None = None
        self.stops: tuple[int, ...] = ()
        self.left, self.done, self.triggered = env.event(), env.event(), env.event()

    def prepare(self, seat: Seat | None) -> None:
        """Called when its turn has come. seat: None for a launch that has the GPU for itself."""

    def takes(self) -> int | None:
        """Called when it is about to have the GPU for itself. Returns None if it is to be timed, else it has been
        executed, and the cycles that it takes."""
        return None

    def execute(self) -> None:
        """Called in place of everything else when the turn of an untimed one has come."""

    def tell(self, cycles: int, finished: int) -> None:
        """Calls `progress`, if there is anybody to call."""
        if self.progress is not None:
            issued = int(self.state.counters[:, :, L.COUNT_EXECUTED].sum())
            self.progress(cycles, finished, self.blocks, issued - self.counted)

    def forget(self) -> None:
        """Lets go of the state, some 20 MB, once all has been read that anybody wants of it."""
        self.__dict__.pop("state", None)


class Transfer(Grid):
    """A copy within the GPU's memory or a fill, which is a kernel of the driver's on a GPU: it waits for room as grids
    do, but its blocks are not simulated. cycles: from then on, in which no grid behind it begins; effect: moves the
    bytes, in the end."""

    def __init__(self, env: simpy.Environment, name: str, cycles: int, effect: Callable[[], object], nbytes: int = 0):
        super().__init__(env, 0)
        self.kind, self.name = "copy", name
        self.cycles, self.effect, self.nbytes = cycles, effect, nbytes


@dataclass(slots=True)
class Window:
    """Cycles `start` to `until` of the grids on the GPU, in which no SM can hear of another one. state: that of any of
    them; its seats lead to the others."""

    grids: Sequence[Grid]
    state: State
    start: int
    until: int
    time: float = field(default_factory=perf_counter)  # of the host, when what has been done of it was over

    def spent(self, part: int) -> None:
        """The time since then was spent on this part, see `Grid.seconds`."""
        now = perf_counter()
        for grid in self.grids:
            grid.seconds[part] += (now - self.time) / len(self.grids)
        self.time = now


class RunStopped(Exception):
    """A grid ends early."""


class MachineStopped(RunStopped):
    """A warp met an error: the first SM that recorded one."""

    def __init__(self, sm: int):
        self.sm = sm


class CyclesUsedUp(RunStopped):
    """The run passed its limit of cycles."""


class NothingMoves(RunStopped):
    """Warps are resident, none can ever issue again; found at `cycle` of the launch."""

    def __init__(self, cycle: int):
        self.cycle = cycle


class EndedWithAnother(RunStopped):
    """Another launch on the GPU met an error, which ends all."""
