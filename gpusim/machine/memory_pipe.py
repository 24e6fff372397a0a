"""The memory pipe of an SM: the way of a load, store or atomic from its issue to its result.

A sub-partition's queue hands its instructions on, one every few cycles; the tag stage looks lines up in L1; the data
stage, which L1 and shared memory have together, gives a wavefront a cycle. What misses L1 leaves the SM.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from gpusim.engine.state import L
from gpusim.engine.state.layout import ADDRESSES_WAITING
from gpusim.machine.execution import Executed
from gpusim.machine.global_path import GlobalPath
from gpusim.machine.instruction import Decoded
from gpusim.machine.server import Server
from gpusim.machine.warp import NEVER, Warp
from isa import microops as M


class MemoryPipe:
    """The memory pipe of one SM. leaves: of each sub-partition's queue, when its instructions leave it."""

    GlobalPath = GlobalPath

    def __init__(self, sm: Any):
        self.sm, self.env, self.config = sm, sm.env, sm.config
        self.entry = [Server(sm.env) for _ in range(sm.config.sm.sub_partitions)]
        self.addresses = [Server(sm.env) for _ in self.entry]  # of constants: taken one after the other
        self.taken = [deque[float](maxlen=ADDRESSES_WAITING + 1) for _ in self.entry]  # when the last ones were
        self.leaves: list[deque[float]] = [deque() for _ in self.entry]
        self.held = [0] * len(self.entry)  # of instructions in the queues, those that wait for the way beyond the SM
        self.address_port = Server(sm.env)
        self.path = self.GlobalPath(sm)

    def room(self, sub: int, now: float) -> float:
        """Return the cycle from which a sub-partition's queue has room for another instruction."""
        leaves = self.leaves[sub]
        while leaves and leaves[0] <= now:
            leaves.popleft()
        depth = self.config.memory_instruction.queue_depth - self.held[sub]
        if len(leaves) < depth:
            return now
        return leaves[-depth] if depth > 0 else NEVER

    def issue(self, warp: Warp, sub: int, instruction: Decoded, access: Executed) -> None:
        """Take an instruction of the memory pipe that has just been issued."""
        times, now = self.config.memory_instruction, self.env.now
        shared = instruction.space == M.SPACE_SHARED or (not access.lines and not access.local)
        if instruction.op == M.OP_LDC:
            self.constant(warp, sub, instruction, access)
            return
        start = self.entry[sub].book(self.config.pipes.lsu.initiation_cycles, now + times.entry_cycles)
        if access.lanes == 0 or shared:
            self.leaves[sub].append(start)
        if access.lanes == 0:
            data = self.sm.data.book(1, start)
            self.sources(warp, instruction, now + times.load_source_release_cycles)
            self.result(warp, instruction, data + times.shuffle_latency_cycles - times.entry_cycles, L.STALL_SHORT)
        elif shared:
            done = self.sm.shared.serve(instruction, access, start) - times.entry_cycles
            self.sources(warp, instruction, self.sm.data.free + times.shared_load_source_release_cycles)
            self.result(warp, instruction, done, L.STALL_SHORT)
        else:
            self.sources(warp, instruction, start + times.load_source_release_cycles)
            if instruction.result != 7:
                warp.boards[instruction.result].pending += 1
                warp.boards[instruction.result].kind = L.STALL_LONG
            if instruction.is_copy:
                warp.groups[-1].left += 1
            self.held[sub] += 1
            warp.on_way += 1
            self.sm.under_way[warp.slot] += 1
            self.env.process(self.path.run(warp, sub, instruction, access, start))

    def constant(self, warp: Warp, sub: int, instruction: Decoded, access: Executed) -> None:
        """Load a constant at an address in registers: different addresses are served one by one."""
        times, constant, now = self.config.memory_instruction, self.config.constant, self.env.now
        places = {each for lane, each in enumerate(access.addresses) if access.lanes >> lane & 1}
        start = self.take_address(sub, constant.address_cycles * len(places), now + times.entry_cycles)
        there = start
        if instruction.constant >> 16:
            there = max([self.sm.supply.table(instruction.constant + each, start) for each in places], default=start)
        there += constant.address_cycles * max(len(places) - 1, 0)
        self.sources(warp, instruction, there + times.constant_source_release_cycles)
        self.result(warp, instruction, there + constant.load_latency_cycles, L.STALL_SHORT)

    def take_address(self, sub: int, cycles: float, earliest: float) -> float:
        """Take up the address of a constant. Returns when; few others of the sub-partition wait in front of it."""
        start = self.addresses[sub].book(cycles, earliest)
        self.taken[sub].append(start)
        return start

    def address_room(self, sub: int) -> float:
        """Return the cycle from which another address may wait."""
        return self.taken[sub][0] if len(self.taken[sub]) > ADDRESSES_WAITING else 0

    def sources(self, warp: Warp, instruction: Decoded, until: float) -> None:
        """Hold the scoreboard of the registers that an instruction reads."""
        if instruction.sources != 7:
            warp.boards[instruction.sources].hold(until, L.STALL_SHORT)

    def result(self, warp: Warp, instruction: Decoded, until: float, kind: int) -> None:
        """Hold the scoreboard of an instruction's result."""
        if instruction.result != 7:
            warp.boards[instruction.result].hold(until, kind)
