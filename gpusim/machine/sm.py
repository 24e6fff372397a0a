"""A streaming multiprocessor: four schedulers with their warps around one memory pipe, L1 and shared memory."""

from __future__ import annotations

import math
from typing import Any

import simpy

from gpusim.engine.sm.fence import TOGETHER
from gpusim.engine.state import L
from gpusim.machine.l1 import L1Cache
from gpusim.machine.memory_pipe import MemoryPipe
from gpusim.machine.scheduler import Scheduler, attribute
from gpusim.machine.server import Server
from gpusim.machine.shared import SharedMemory
from gpusim.machine.supply import Supply
from gpusim.machine.warp import Warp


class SM:
    """One SM. port: the way of its TPC into the crossbar; drained: cycle at which its last store is in L2."""

    Scheduler, SharedMemory, L1Cache, MemoryPipe, Supply = Scheduler, SharedMemory, L1Cache, MemoryPipe, Supply

    def __init__(self, gpu: Any, number: int, port: Server):
        self.gpu, self.number, self.env, self.config, self.port = gpu, number, gpu.env, gpu.config, port
        self.partition = gpu.partitions[number]
        self.data = Server(self.env)  # the data stage: a wavefront of L1 or of shared memory in a cycle
        self.shared = self.SharedMemory(self.env, self.config, self.data)
        self.l1 = self.L1Cache(self.env, self.config, gpu.l1_bytes)
        self.supply = self.Supply(self.config, gpu.blocks, gpu.code_bytes)
        self.memory = self.MemoryPipe(self)
        self.schedulers = [self.Scheduler(self, k) for k in range(self.config.sm.sub_partitions)]
        self.resident: dict[int, Warp] = {}
        self.under_way = [0] * len(gpu.state.block[number])  # of each block, accesses in the memory pipe's queues
        self.barriers = Server(self.env)
        self.on_left: list[simpy.Event] = []
        self.drained: float = 0
        self.fences, self.asked = (-float("inf"), 0.0), False  # first and last cycle of the latest; L2 was asked since

    def __str__(self) -> str:
        lines = [f"SM {self.number} at cycle {self.env.now:,}: {len(self.resident)} warps"]
        for warp in self.resident.values():
            boards = ", ".join(
                f"SB{k} {f'{each.pending} pending' if each.pending else f'until {each.until:,.0f}'}"
                for k, each in enumerate(warp.boards)
                if each.clear > self.env.now
            )
            state = "waits for others" if warp.blocked >= 0 else f"ready at {warp.ready:,.0f}"
            lines.append(f"  warp {warp.number} (block {warp.block}) at 0x{16 * warp.pc:04x}: {state}; {boards or '-'}")
        return "\n".join(lines)

    def admit(self) -> None:
        """Take in the warps of blocks that have just been placed here."""
        state, first = self.gpu.state, self.number * self.gpu.warps_per_sm
        rows = state.warp[first : first + self.gpu.warps_per_sm]
        for w in rows[:, L.WARP_STATE].nonzero()[0].tolist():
            number = first + w
            if number not in self.resident:
                block, age, start = rows[w, [L.WARP_BLOCK, L.WARP_AGE, L.WARP_START]].tolist()
                of = int(state.block[self.number, block, L.BLOCK_NUMBER])
                warp = Warp(number, w // len(self.schedulers), of, block, age, start)
                self.resident[number] = warp
                scheduler = self.schedulers[w % len(self.schedulers)]
                scheduler.warps.append(warp)
                scheduler.look(warp)
        self.gpu.executor.note(self.number, int(self.env.now))

    def left(self, slot: int) -> None:
        """An access of a block has left the SM."""
        self.under_way[slot] -= 1
        if not self.under_way[slot]:
            for event in self.on_left:
                event.succeed()
            self.on_left.clear()

    def barrier_reached(self, warp: Warp, now: float) -> None:
        """A warp has come to a barrier: if it was the last one, those of its block go on."""
        issue = self.config.issue
        arrived = self.barriers.book(issue.bar_per_warp_cycles) + issue.bar_per_warp_cycles
        for other in self.resident.values():
            comes = other.blocked >= 0 and other.block == warp.block
            if comes and (place := self.gpu.executor.place_of(other.number))[1] == L.RUNNING:
                other.blocked, other.pc, other.stall_kind = -1, place[0], L.STALL_BARRIER
                other.stall = max(other.stall, arrived + issue.bar_base_cycles)
                self.schedulers[other.number % self.gpu.warps_per_sm % len(self.schedulers)].look(other)
        if warp.blocked < 0 and warp.number in self.resident:  # it was the last one
            self.data.book(issue.bar_data_cycles, arrived)

    def fence(self, cycles: int) -> float:
        """Return how long a fence of so many cycles takes that a warp comes to now. One is under way at a time, which
        those share that come in its first cycles; it takes longer if L2 has been asked for something since the last
        one, and as long as the SM's stores do (H200: `fence_beside` in validate/microbench/control.py)."""
        start, end = self.fences
        if self.env.now >= start + TOGETHER:
            start = max(self.env.now, end)
            end = start + cycles + (self.config.memory_instruction.fence_gpu_again_cycles if self.asked else 0)
            self.fences, self.asked = (start, end), False
        return max(end, self.drained) - self.env.now

    def stays(self, warp: Warp, kind: int, until: float) -> None:
        """A warp that has ended keeps its place until a cycle."""
        self.gpu.state.sm[self.number, L.SM_WARP_CYCLES] += math.ceil(max(until - warp.since, 0))
        attribute(self, warp, kind, until)

    def warp_ends(self, scheduler: Scheduler, warp: Warp, now: float) -> None:
        """A warp has executed its last instruction. The block's last one makes room for another block."""
        self.stays(warp, L.STALL_BRANCH, now + 1 + self.config.issue.exit_cycles)
        scheduler.warps.remove(warp)
        held = math.ceil(now - max(scheduler.ended, self.gpu.state.warp[warp.number, L.WARP_START]))
        self.gpu.state.sm[self.number, L.SM_SCHEDULER_CYCLES] += held
        scheduler.ended = now
        del self.resident[warp.number]
        self.barrier_reached(warp, now)
        s = self.gpu.state.sm[self.number]
        for n in range(int(s[L.SM_DONE])):
            done, slot = self.gpu.state.done[self.number, n].tolist()
            self.env.process(self.gpu.block_ends(self, slot, max(done, math.ceil(now))))
        s[L.SM_DONE] = 0
