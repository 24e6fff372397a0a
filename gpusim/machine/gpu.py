"""The GPU: its SMs around one L2, the block dispatcher, and a launch from its first block to its last store."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.dispatcher import C_FIELDS, FRACTION, G_FIELDS, G_NEXT, G_RUNNING, G_TOTAL, fill, place_blocks
from gpusim.engine.grid import CyclesUsedUp, Grid, NothingMoves
from gpusim.engine.memory.place import first_blocks
from gpusim.engine.parameters import unit_timing
from gpusim.engine.state import L, P, ms
from gpusim.engine.state.arrays import State
from gpusim.errors import ModeError, did_you_mean
from gpusim.machine.execution import Executor
from gpusim.machine.instruction import decode
from gpusim.machine.l2 import L2Cache
from gpusim.machine.server import Server
from gpusim.machine.sm import SM


class GPU:
    """One launch on a machine of SimPy processes. state: the launch as the engine's functional mode takes it;
    partitions: of L2, that each SM asks."""

    SM, L2Cache = SM, L2Cache

    def __init__(self, config: GPUConfig, state: State, partitions: np.ndarray, blocks: int, l1_bytes: int):
        self.config, self.state, self.blocks, self.l1_bytes = config, state, blocks, l1_bytes
        self.env = simpy.Environment()
        self.partitions = partitions.tolist()
        self.program = decode(state.code)
        self.code_bytes = 16 * len(self.program)
        self.executor = Executor(state)
        intervals, latencies = unit_timing(config)
        self.units = intervals.tolist(), latencies.tolist()
        self.counts = state.counters[0]
        self.stalls = [[0.0] * len(L.STALLS) for _ in self.program]
        self.warps_per_sm = int(state.par[P.SUB_PARTITIONS] * state.par[P.WARP_SLOTS])
        self.l2 = self.L2Cache(self.env, config)
        crossbar = config.crossbar
        ports = [Server(self.env) for _ in range(config.sm.count)]
        self.sms = [self.SM(self, k, ports[k // crossbar.sms_per_port]) for k in range(min(config.sm.count, blocks))]
        self.grid, self.clock = np.zeros(G_FIELDS, np.int64), np.zeros(C_FIELDS, np.int64)
        self.grid[G_TOTAL] = blocks
        self.over = self.env.event()
        self.end: float = 0

    def start(self) -> None:
        """Hand out the blocks that find room at once, one to each SM in turn."""
        resident, interval = int(self.state.par[P.RESIDENT]), self.config.launch.fill_interval_cycles
        order = first_blocks(self.config, self.config.sm.count, self.blocks, resident)
        fill(self.state, self.grid, self.clock, 0, order, round(interval * FRACTION))
        for sm in self.sms:
            sm.admit()

    def run(self, until: Any = None) -> float:
        """Let time pass until the launch is over, or up to a cycle. Returns the cycles since its first block."""
        if self.env.now == 0 and not self.grid[G_NEXT]:
            self.start()
        self.env.run(self.over if until is None else until)
        return self.end

    def step(self) -> None:
        """Let the next event happen."""
        self.env.step()

    def block_ends(self, sm: SM, slot: int, done: int) -> Generator[simpy.Event, None, None]:
        """A block has ended: its place is free, and the dispatcher gives it to the next one."""
        launch = self.config.launch
        yield self.env.timeout(max(done - self.env.now, 0))
        while sm.under_way[slot]:
            left = self.env.event()
            sm.on_left.append(left)
            yield left
        self.state.block[sm.number, slot, L.BLOCK_STATE] = 0
        self.grid[G_RUNNING] -= 1
        self.end = max(self.end, self.env.now, sm.drained)
        if self.grid[G_NEXT] < self.grid[G_TOTAL]:
            start = self.env.now + launch.refill_cycles + launch.block_launch_cycles
            place_blocks(self.state, self.grid, sm.number, L.NEVER, math.ceil(start))
            sm.admit()
        elif self.grid[G_RUNNING] == 0:
            self.over.succeed()

    def counted(self) -> dict[str, Any]:
        """Return what the machine counts beside the engine's executors, as the fields of a record."""
        memory = np.zeros(ms.COUNTERS, np.int64)
        slices = np.array([each.sectors for each in self.l2.slices], np.int64)
        fetched = sum(each.fetched for each in self.l2.slices)
        asked = self.l2.requests
        memory[ms.CNT_TEX_READ_SECTORS], memory[ms.CNT_TEX_WRITE_SECTORS] = asked["read"], asked["write"]
        memory[ms.CNT_TEX_ATOMIC_SECTORS], memory[ms.CNT_TEX_REDUCTION_SECTORS] = asked["atomic"], asked["reduction"]
        memory[ms.CNT_TEX_HIT_SECTORS] = sum(each.hits for each in self.l2.slices)
        memory[ms.CNT_TEX_MISS_SECTORS] = memory[ms.CNT_HOME_MISS_SECTORS] = memory[ms.CNT_FILL_SECTORS] = fetched
        memory[ms.CNT_WRITEBACK_SECTORS] = sum(each.written for each in self.l2.slices)
        memory[ms.CNT_ROW_HITS] = sum(each.row_hits for each in self.l2.channels)
        memory[ms.CNT_ROW_OPENS] = sum(each.row_opens for each in self.l2.channels)
        channels = np.array([each.bytes_moved for each in self.l2.channels], np.int64)
        return {"memory": memory, "slices": slices, "channels": channels}


def run_machine(
    machine: type[GPU], config: GPUConfig, grid: Grid, partitions: np.ndarray, l1_bytes: int
) -> dict[str, Any]:
    """Run a launch, whose state `grid` has, on a machine. Returns fields of its record; raises what ends it early."""
    state, max_cycles = grid.state, grid.max_cycles
    gpu = machine(config, state, partitions, grid.blocks, l1_bytes)
    grid.dispatch = gpu.grid
    gpu.env.process(_limit(gpu, max_cycles if max_cycles is not None else int(L.NEVER)))
    gpu.run()
    stalls = state.counters[0, : len(gpu.stalls), L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)]
    stalls += np.rint(gpu.stalls).astype(np.int64)
    fields = {"cycles": math.ceil(gpu.end) + config.launch.overhead_cycles, **gpu.counted()}
    gpu.__dict__.clear()  # else the memory waits for the collector: processes refer to it and it to them
    return fields


def _limit(gpu: GPU, cycles: int) -> Generator[simpy.Event, None, None]:
    """End a run that takes too long, or in which nothing will ever happen again."""
    yield gpu.env.timeout(cycles)
    raise NothingMoves(int(gpu.env.now)) if gpu.env.peek() == float("inf") else CyclesUsedUp


def machine_of(model: str | type[GPU]) -> type[GPU] | None:
    """The class that a model's name stands for, None for the engine. Raises ModeError for an unknown name."""
    if isinstance(model, str):
        if model not in MODELS:
            raise ModeError(f"there is no model {model!r}; there are {', '.join(MODELS)}{did_you_mean(model, MODELS)}")
        return MODELS[model]
    return model


MODELS: dict[str, type[GPU] | None] = {"engine": None, "simpy": GPU}
