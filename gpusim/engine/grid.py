"""A launch on its way through the device, what its processes hand each other, and how it may end early."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import simpy

from gpusim.engine.dispatcher import G_FIELDS, G_TOTAL
from gpusim.engine.state import layout as L

Process = Generator[simpy.Event, Any, None]

Host = Callable[[L.State, np.ndarray], None]
"""Serves what warps ask of the host: gets the state and their numbers, in the order in which they asked. What it raises
ends the launch."""

Progress = Callable[[int, int, int], None]
"""Called now and then with (cycles, blocks finished, blocks in the grid)."""


class Recorder(Protocol):
    """Takes away what the SMs write down about themselves."""

    def begin(self, state: L.State) -> None:
        """Called before the first block."""

    def collect(self, state: L.State, until: int) -> None:
        """Called after each window, which ended at cycle `until`."""


class Grid:
    """One launch. `done` fires when its last block has left and its stores are in L2, or fails with what ended it;
    `start` and `end` are cycles of the device. `seconds`: what the host has spent on SMs, on the memory system and on
    what lies between windows."""

    def __init__(
        self,
        env: simpy.Environment,
        state: L.State,
        blocks: int,
        max_cycles: int | None = None,
        progress: Progress | None = None,
        host: Host | None = None,
        recorder: Recorder | None = None,
    ):
        self.state = state
        self.max_cycles, self.progress, self.host, self.recorder = max_cycles, progress, host, recorder
        self.dispatch = np.zeros(G_FIELDS, np.int64)
        self.dispatch[G_TOTAL] = blocks
        self.start = self.end = 0
        self.seconds = np.zeros(3)
        self.done = env.event()


@dataclass(slots=True)
class Window:
    """Cycles `start` to `until` of a grid, in which no SM can hear of another one. It goes round: every group of SMs
    runs through it, the memory system answers what they have asked, the dispatcher begins the next one."""

    grid: Grid
    start: int
    until: int
    apart: bool = False  # every group of SMs has a host thread of its own
    next_event: int = int(L.NEVER)  # cycle of the next event on any SM, as far as SMs know themselves
    requests: int = 0
    time: float = field(default_factory=perf_counter)  # of the host, when what has been done of it was over

    def spent(self, part: int) -> None:
        """The time since then was spent on this part, see `Grid.seconds`."""
        now = perf_counter()
        self.grid.seconds[part] += now - self.time
        self.time = now


class MachineStopped(Exception):
    """A warp met an error: the first SM that recorded one."""

    def __init__(self, sm: int):
        self.sm = sm
        super().__init__(sm)


class CyclesUsedUp(Exception):
    """The run passed its limit of cycles."""


class NothingMoves(Exception):
    """Warps are resident, none can ever issue again; found at `cycle` of the launch."""

    def __init__(self, cycle: int):
        self.cycle = cycle
        super().__init__(cycle)
