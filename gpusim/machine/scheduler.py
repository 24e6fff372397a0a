"""The warp scheduler of a sub-partition: in each cycle one of its ready warps issues an instruction."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import simpy

from gpusim.engine.state import L
from gpusim.machine.pipes import ExecutionUnits
from gpusim.machine.stalls import after_control, charge
from gpusim.machine.warp import NEVER, Warp
from isa import microops as M


class Scheduler:
    """A process that issues, and sleeps while no warp can."""

    def __init__(self, sm: Any, number: int):
        self.sm, self.number, self.env, self.config = sm, number, sm.env, sm.config
        self.warps: list[Warp] = []
        self.last: Warp | None = None
        self.pipes = ExecutionUnits(sm, number)
        self.alarm = self.env.event()
        self.env.process(self.run())

    def run(self) -> Generator[simpy.Event, None, None]:
        """Issue one instruction a cycle as long as a warp is ready."""
        while True:
            now = self.env.now
            ready, next_time = [], NEVER
            for warp in self.warps:
                if warp.ready > now:
                    next_time = min(next_time, warp.ready)
                elif (free := self.pipes.admit(self.sm.gpu.program[warp.pc], now)) <= now:
                    ready.append(warp)
                else:
                    next_time = min(next_time, free)
            if ready:
                warp = self.choose(ready)
                dispatch = self.pipes.read_registers(self.sm.gpu.program[warp.pc], now)
                self.issue(warp)
                yield self.env.timeout(dispatch - now)
            else:
                yield self.sleep(next_time)

    def sleep(self, until: float) -> simpy.Event:
        """Return an event that happens at a cycle, or as soon as `wake` is called."""
        alarm = self.alarm = self.env.event()
        if until < NEVER:
            timer = self.env.timeout(math.ceil(until) - self.env.now)
            timer.callbacks.append(lambda _: self.wake(alarm))
        return alarm

    def wake(self, alarm: simpy.Event | None = None) -> None:
        """Look at the warps: one may be ready sooner than was known."""
        alarm = alarm or self.alarm
        if not alarm.triggered:
            alarm.succeed()

    def choose(self, ready: list[Warp]) -> Warp:
        """Choose among warps that are ready: the one that has issued last, else the oldest block's, the youngest of
        them."""
        if self.last in ready:
            return self.last
        return min(ready, key=lambda warp: (warp.block, -warp.age))

    def issue(self, warp: Warp) -> None:
        """Issue a warp's next instruction: it is executed, its unit and its scoreboards are booked, and it is known
        when the warp comes up again."""
        now, sm = self.env.now, self.sm
        instruction = sm.gpu.program[warp.pc]
        charge(self.sm, self.pipes, warp, instruction, now)
        self.last = warp
        self.pipes.book(instruction, now)
        access = sm.gpu.executor.execute(sm.number, warp.number, instruction, int(now))
        warp.since = now + 1
        pc, state = sm.gpu.executor.place_of(warp.number)
        if instruction.is_memory:
            sm.memory.issue(warp, self.number, instruction, access)
        elif instruction.variable:
            self.pipes.book_result(warp, instruction, now)
        warp.stall, warp.stall_kind = now + instruction.stall, L.STALL_WAIT
        if pc != warp.pc + 1 or instruction.kind == M.CLS_CONTROL:
            cycles, kind = after_control(self.config, instruction, pc)
            if now + cycles > warp.stall:
                warp.stall, warp.stall_kind = now + cycles, kind
        warp.pc = pc
        if state == L.FREE:
            sm.warp_ends(self, warp, now)
        elif state != L.RUNNING:
            warp.blocked, warp.ready = L.STALL_BARRIER, NEVER
        else:
            self.look(warp)
        if instruction.kind == M.CLS_BARRIER:
            sm.barrier_reached(warp, now)

    def look(self, warp: Warp) -> None:
        """Find when a warp's next instruction may issue, as far as it is known."""
        if warp.blocked >= 0 or warp not in self.warps:
            return
        instruction, now = self.sm.gpu.program[warp.pc], self.env.now
        ready = warp.stall
        for k in instruction.boards:
            ready = max(ready, warp.boards[k].clear)
        if ready < NEVER:
            warp.fetched = self.sm.supply.instruction(warp.pc, max(now, warp.stall))
            ready = max(ready, warp.fetched)
            warp.constant = 0
            if instruction.constant >= 0 and not instruction.variable:
                warp.constant = self.sm.supply.constant(instruction.constant, max(now, ready))
                ready = max(ready, warp.constant)
        warp.ready = ready
        if ready < NEVER:
            self.wake()
