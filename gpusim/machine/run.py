"""A launch on a machine, from its state to what its record says; and the machines by name."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.dispatcher import G_NEXT, G_RUNNING, G_TOTAL
from gpusim.engine.grid import CyclesUsedUp, Grid, NothingMoves
from gpusim.engine.memory.system import PeerRow
from gpusim.engine.state import L
from gpusim.errors import ModeError, did_you_mean
from gpusim.machine.gpu import GPU

_LOOK_CYCLES = 1_000  # from one look at a run's progress to the next


def run_machine(
    machine: type[GPU], config: GPUConfig, grid: Grid, partitions: np.ndarray, l1_bytes: int, peers: Sequence[PeerRow]
) -> dict[str, Any]:
    """Run a launch, whose state `grid` has, on a machine. Returns fields of its record; raises what ends it early."""
    gpu = machine(config, grid, partitions, l1_bytes, peers)
    grid.dispatch = gpu.grid
    gpu.env.process(_watch(gpu, grid))
    gpu.run()
    counters = grid.state.counters[0, : len(gpu.stalls)]
    counters[:, L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)] = np.rint(gpu.stalls).astype(np.int64)
    fields = {"cycles": math.ceil(gpu.end) + config.launch.overhead_cycles, **gpu.counted()}
    gpu.__dict__.clear()  # else the memory waits for the collector: processes refer to it and it to them
    return fields


def _watch(gpu: GPU, grid: Grid) -> Generator[simpy.Event, None, None]:
    """Say how far a run is, and end one that takes too long or in which nothing will ever happen again."""
    most = grid.max_cycles if grid.max_cycles is not None else int(L.NEVER)
    while True:
        yield gpu.env.timeout(min(_LOOK_CYCLES, most - gpu.env.now))
        if gpu.env.peek() == float("inf"):
            raise NothingMoves(int(gpu.env.now))
        if gpu.env.now >= most:
            raise CyclesUsedUp
        grid.tell(int(gpu.env.now), grid.blocks - int(gpu.grid[G_TOTAL] - gpu.grid[G_NEXT] + gpu.grid[G_RUNNING]))


def machine_of(model: str | type[GPU]) -> type[GPU]:
    """The class that a model's name stands for, or the class itself. Raises ModeError for an unknown name."""
    if isinstance(model, str) and model != "simpy":
        known = "engine", "simpy"
        raise ModeError(f"there is no model {model!r}; there are {', '.join(known)}{did_you_mean(model, known)}")
    return GPU if isinstance(model, str) else model
