"""The warp scheduler of a sub-partition: in each cycle one of its ready warps issues an instruction."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any

import simpy

from gpusim.engine.sm.policies import LONGEST_WAIT, SHORT_WAIT
from gpusim.engine.state import L
from gpusim.machine.instruction import Decoded
from gpusim.machine.pipes import ExecutionUnits
from gpusim.machine.warp import NEVER, Warp
from isa import microops as M

Policy = Callable[[Any, list[Warp]], Warp]


def by_block(scheduler: Any, ready: list[Warp]) -> Warp:
    """The one that has issued last, unless warps take turns; else of the oldest block's the one that has waited
    longest, as far as that is told apart (H200: `turns_*` in validate/microbench/issue.py)."""
    now, slots, before, longest = scheduler.env.now, scheduler.slots, scheduler.slots, SHORT_WAIT
    if scheduler.in_turn:
        before, longest = (scheduler.last.place if scheduler.last else before), LONGEST_WAIT
    elif scheduler.last in ready and scheduler.goes_on == now:
        return scheduler.last  # type: ignore[no-any-return]
    return min(ready, key=lambda w: (w.block, -min(now - w.ready, longest), (before - 1 - w.place) % slots))


def oldest(scheduler: Any, ready: list[Warp]) -> Warp:
    """The one that was launched first."""
    return min(ready, key=lambda warp: warp.age)


def youngest(scheduler: Any, ready: list[Warp]) -> Warp:
    """The one that was launched last."""
    return max(ready, key=lambda warp: warp.age)


def next_in_turn(scheduler: Any, ready: list[Warp]) -> Warp:
    """The next one behind that which has issued last."""
    turn = scheduler.last.place + 1 if scheduler.last else 0
    return min(ready, key=lambda warp: (warp.place - turn) % scheduler.slots)


def greedy(then: Policy) -> Policy:
    """The one that has issued last as long as it can; else another policy's."""
    return lambda scheduler, ready: scheduler.last if scheduler.last in ready else then(scheduler, ready)


POLICIES: dict[str, Policy] = {
    "block": by_block,
    "glrr": greedy(next_in_turn),
    "gto": greedy(oldest),
    "gty": greedy(youngest),
    "lrr": next_in_turn,
    "oldest": oldest,
}


_INDIRECT = (M.OP_RET, M.OP_BRX, M.OP_JMX)


def after_control(sm: Any, instruction: Decoded, target: int) -> tuple[int, int]:
    """Return (cycles that a branch or a fence keeps its warp, their stall reason). target: where the warp goes on."""
    issue, times, op = sm.config.issue, sm.config.memory_instruction, instruction.op
    if op == M.OP_BSYNC:
        return issue.bsync_latency_cycles, L.STALL_BRANCH
    if target != instruction.pc + 1:
        slow = op in _INDIRECT
        return issue.indirect_branch_latency_cycles if slow else issue.branch_latency_cycles, L.STALL_BRANCH
    if op == M.OP_MEMBAR and instruction.kind == M.CLS_CONTROL:
        if instruction.space < M.SCOPE_GPU:
            return times.fence_cta_latency_cycles, L.STALL_MEMBAR
        wide = instruction.space > M.SCOPE_GPU
        whole = times.fence_system_latency_cycles if wide else times.fence_gpu_latency_cycles
        return math.ceil(sm.fence(whole)), L.STALL_MEMBAR
    return 0, L.STALL_WAIT


def attribute(sm: Any, warp: Warp, kind: int, until: float) -> None:
    """Charge a warp's cycles since it last was charged for any to a stall reason."""
    if until > warp.since:
        sm.gpu.stalls[warp.pc][kind] += until - warp.since
        sm.gpu.executor.stalled(sm.number, warp.number, warp.pc, kind, warp.since, until)
        warp.since = until


def charge(sm: Any, warp: Warp, instruction: Decoded, now: float) -> None:
    """Charge a warp's cycles up to now: to what kept its next instruction, each up to the cycle at which it was over,
    and behind that to other warps' turns."""
    for until, kind in warp.reasons(instruction.awaited):
        attribute(sm, warp, kind, min(until, now))
    attribute(sm, warp, L.STALL_NOT_SELECTED, now)


class Scheduler:
    """A process that issues, and sleeps while no warp can. last: the warp that issued last, which may go on from cycle
    `goes_on`; ended: when its last one did; in_turn: issues for which warps take turns, 1 behind a yield or a busy
    unit, 2 behind a full queue; kept: warps that wait for room in the memory pipe, and the stall reason of each."""

    def __init__(self, sm: Any, number: int):
        self.sm, self.number, self.env, self.config = sm, number, sm.env, sm.config
        self.slots = sm.gpu.warps_per_sm // sm.config.sm.sub_partitions
        self.warps: list[Warp] = []
        self.last: Warp | None = None
        self.goes_on, self.ended, self.in_turn = 0.0, 0.0, 0
        self.kept: dict[Warp, int] = {}
        self.pipes = ExecutionUnits(sm, number)
        self.alarm = self.env.event()
        self.env.process(self.run())

    def run(self) -> Generator[simpy.Event, None, None]:
        """Issue one instruction a cycle as long as a warp is ready and its unit takes it."""
        while True:
            now = self.env.now
            ready = [warp for warp in self.warps if warp.ready <= now]
            if not ready:
                yield self.sleep(min([warp.ready for warp in self.warps], default=NEVER))
                continue
            warp = self.choose(ready) if len(ready) > 1 else ready[0]
            instruction = self.sm.gpu.program[warp.pc]
            free, reason = self.pipes.admit(instruction, now)
            if free > now:
                self.refuse(warp, instruction, free, reason)
                continue
            self.goes_on = self.pipes.read_registers(instruction, now)
            self.issue(warp, instruction)
            yield self.env.timeout(self.goes_on - now)

    def sleep(self, until: float) -> simpy.Event:
        """Return an event that happens at a cycle, or as soon as `wake` is called."""
        alarm = self.alarm = self.env.event()
        if until < NEVER:
            self.env.timeout(math.ceil(until) - self.env.now).callbacks.append(lambda _: self.wake(alarm))
        return alarm

    def wake(self, alarm: simpy.Event | None = None) -> None:
        """Look at the warps: one may be ready sooner than was known."""
        alarm = alarm or self.alarm
        if not alarm.triggered:
            alarm.succeed()

    def choose(self, ready: list[Warp]) -> Warp:
        """Choose among several warps that are ready, by the policy of the configuration."""
        return POLICIES[self.config.issue.policy](self, ready)

    def refuse(self, warp: Warp, instruction: Decoded, free: float, reason: int) -> None:
        """The unit of a warp's next instruction takes it from a later cycle on, or nobody knows when."""
        self.in_turn = max(self.in_turn, 2 if instruction.unit == M.UNIT_LSU else 1)
        charge(self.sm, warp, instruction, self.env.now)
        warp.ready = free
        if free < NEVER:
            attribute(self.sm, warp, reason, free)
        else:
            self.kept[warp] = reason

    def room(self) -> None:
        """The memory pipe may have room for those that wait for it."""
        for warp, reason in self.kept.items():
            attribute(self.sm, warp, reason, self.env.now)
            warp.ready = self.env.now
        self.kept.clear()
        self.wake()

    def issue(self, warp: Warp, instruction: Decoded) -> None:
        """Issue a warp's next instruction: it is executed, its unit and its scoreboards are booked, and it is known
        when the warp comes up again."""
        now, sm = self.env.now, self.sm
        charge(sm, warp, instruction, now)
        sm.gpu.stalls[warp.pc][L.STALL_SELECTED] += 1
        self.last, self.in_turn = warp, max(self.in_turn - 1, instruction.yields)
        self.pipes.book(instruction, now)
        access = sm.gpu.executor.execute(sm.number, warp.number, instruction, int(now))
        warp.since = now + 1
        pc, state = sm.gpu.executor.place_of(warp.number)
        if instruction.is_memory:
            sm.memory.issue(warp, self.number, instruction, access)
        elif instruction.op == M.OP_LDGDEPBAR and instruction.kind == M.CLS_CONTROL:
            warp.commit(instruction.result)
            warp.settle(now + 1)
        elif instruction.variable:
            self.pipes.book_result(warp, instruction, now)
        warp.stall, warp.stall_kind = now + instruction.stall, L.STALL_WAIT
        if pc != warp.pc + 1 or instruction.kind == M.CLS_CONTROL:
            cycles, kind = after_control(sm, instruction, pc)
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
        ready = max(warp.stall, warp.clear(instruction))
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
