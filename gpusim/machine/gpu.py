"""The GPU: its SMs around one L2, the block dispatcher, and a launch from its first block to its last store."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.dispatcher import C_FIELDS, G_FIELDS, G_NEXT, G_RUNNING, G_TOTAL, fill, place_blocks
from gpusim.engine.grid import Grid
from gpusim.engine.memory.place import first_blocks
from gpusim.engine.memory.system import PeerRow
from gpusim.engine.parameters import unit_timing
from gpusim.engine.state import L, P, ms
from gpusim.machine.execution import Executor
from gpusim.machine.instruction import Decoded
from gpusim.machine.l2 import L2Cache
from gpusim.machine.server import Server
from gpusim.machine.sm import SM


class GPU:
    """One launch on a machine of SimPy processes. state: the launch as the engine's functional mode takes it;
    partitions: of L2, that each SM asks; peers: memory of other GPUs that it uses."""

    SM, L2Cache = SM, L2Cache

    def __init__(self, config: GPUConfig, grid: Grid, partitions: np.ndarray, l1_bytes: int, peers: Sequence[PeerRow]):
        state, blocks = grid.state, grid.blocks
        self.config, self.state, self.blocks, self.l1_bytes = config, state, blocks, l1_bytes
        self.env = simpy.Environment()
        self.partitions = partitions.tolist()
        self.program = [Decoded(pc, row) for pc, row in enumerate(state.code.tolist())]
        self.code_bytes = 16 * len(self.program)
        self.executor = Executor(state, grid.recorder, grid.host)
        intervals, latencies = unit_timing(config)
        self.units = intervals.tolist(), latencies.tolist()
        self.counts = state.counters[0]
        self.stalls = [[0.0] * len(L.STALLS) for _ in self.program]
        self.warps_per_sm = int(state.par[P.SUB_PARTITIONS] * state.par[P.WARP_SLOTS])
        self.l2 = self.L2Cache(self.env, config, peers)
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
        fill(self.state, self.grid, self.clock, 0, order, round(interval * P.FRACTION))
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
        launch, times = self.config.launch, self.config.memory_instruction
        yield self.env.timeout(max(done - self.env.now, 0))
        while sm.under_way[slot]:
            sm.on_left.append(left := self.env.event())
            yield left
        row = self.state.block[sm.number, slot]
        row[L.BLOCK_STATE], self.state.life[row[L.BLOCK_NUMBER], 2] = 0, self.env.now
        self.grid[G_RUNNING] -= 1
        fenced = self.env.now + (times.fence_gpu_again_cycles if sm.asked else 0)
        self.end = max(self.end, fenced, sm.drained - times.fence_gpu_latency_cycles)
        if self.grid[G_NEXT] < self.grid[G_TOTAL]:
            refill = launch.refill_cycles + launch.refill_spread_cycles / 2 + launch.block_launch_cycles
            place_blocks(self.state, self.grid, sm.number, L.NEVER, math.ceil(self.env.now + refill))
            sm.admit()
        elif self.grid[G_RUNNING] == 0:
            self.over.succeed()

    def counted(self) -> dict[str, Any]:
        """Return what the machine counts beside the engine's executors, as the fields of a record."""
        l2, memory = self.l2, np.zeros(ms.COUNTERS, np.int64)
        for name, count in l2.requests.items():
            memory[getattr(ms, f"CNT_TEX_{name.upper()}_SECTORS")] = count
        for name, count in l2.crossed.items():
            memory[getattr(ms, f"CNT_FABRIC_{name.upper()}_SECTORS")] = count
        memory[ms.CNT_TEX_HIT_SECTORS] = sum(each.hits for each in l2.slices)
        memory[[ms.CNT_TEX_MISS_SECTORS, ms.CNT_HOME_MISS_SECTORS]] = sum(each.missed for each in l2.slices)
        memory[ms.CNT_FILL_SECTORS] = sum(each.fetched for each in l2.slices)
        memory[ms.CNT_WRITEBACK_SECTORS] = sum(each.written for each in l2.slices)
        memory[ms.CNT_ROW_HITS] = sum(each.row_hits for each in l2.channels)
        memory[ms.CNT_ROW_OPENS] = sum(each.row_opens for each in l2.channels)
        memory[ms.CNT_PEER_RECEIVED_BYTES] = sum(each.received for each in l2.links)
        memory[ms.CNT_PEER_SENT_BYTES] = sum(each.sent for each in l2.links)
        slices = np.array([each.sectors for each in l2.slices], np.int64)
        channels = np.array([each.bytes_moved for each in l2.channels], np.int64)
        return {"memory": memory, "slices": slices, "channels": channels}
