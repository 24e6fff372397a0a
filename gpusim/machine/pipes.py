"""The execution units of a sub-partition: when each takes an instruction, and when its result is there."""

from __future__ import annotations

from typing import Any

from gpusim.engine.state import L
from gpusim.machine.instruction import Decoded
from gpusim.machine.warp import Warp
from isa import microops as M


class ExecutionUnits:
    """free: cycle from which each unit takes an instruction; even, odd: from which the two register banks read again.
    halves: the FMA pipe has a light half, for single precision alone, and a heavy one for all."""

    def __init__(self, sm: Any, number: int):
        self.sm, self.number, self.config = sm, number, sm.config
        self.free = [0.0] * 16
        self.even = self.odd = 0.0
        self.intervals, self.latencies = sm.gpu.units
        self.halves = self.config.pipes.fma.initiation_cycles < self.config.pipes.imad.initiation_cycles

    def admit(self, instruction: Decoded, now: float) -> tuple[float, int]:
        """Return (cycle from which its unit takes an instruction, stall reason of a warp that waits for it)."""
        unit = instruction.unit
        free = self.free[unit]
        if instruction.is_memory and instruction.op == M.OP_LDC:
            return max(free, self.sm.memory.address_room(self.number)), L.STALL_MIO
        if unit == M.UNIT_LSU:
            reason = L.STALL_LG if instruction.beyond else L.STALL_MIO
            return max(free, self.sm.memory.room(self.number, now)), reason
        if unit == M.UNIT_XU:
            return free - self.config.pipes.xu_ahead_cycles, L.STALL_MIO
        if unit == M.UNIT_FMA and self.halves:
            free = min(free, self.free[M.UNIT_FMAHEAVY])
        return free, L.STALL_MATH

    def read_registers(self, instruction: Decoded, now: float) -> float:
        """Book the register banks. Returns the cycle from which the next instruction may issue: an instruction waits a
        cycle at most in front of them (H200: FFMAs with two sources in one bank take two cycles each)."""
        self.even = max(self.even, now) + instruction.even
        self.odd = max(self.odd, now) + instruction.odd
        held = self.config.pipes.wide_dispatch_cycles if instruction.wide else 0
        return max(now + 1 + held, self.even - 1, self.odd - 1)

    def book(self, instruction: Decoded, now: float) -> None:
        """Book the unit of an instruction that issues."""
        unit = instruction.unit
        interval = self.config.pipes.wide_initiation_cycles if instruction.wide else self.intervals[unit]
        if unit == M.UNIT_FMA and self.halves:
            interval *= 2
            if self.free[unit] > now:
                unit = M.UNIT_FMAHEAVY
                self.sm.gpu.counts[instruction.pc, L.COUNT_HEAVY] += 1
        self.free[unit] = max(self.free[unit], now) + interval

    def book_result(self, warp: Warp, instruction: Decoded, now: float) -> None:
        """Hold the scoreboards of an instruction of variable latency that accesses no memory."""
        times, kind, op = self.config.memory_instruction, instruction.kind, instruction.op
        start = now
        if op in (M.OP_SHFL, M.OP_MOVM) and kind == M.CLS_CROSS:
            entered = self.sm.memory.entry[self.number].book(2, now + times.entry_cycles)
            self.sm.memory.leaves[self.number].append(entered)
            start = self.sm.data.book(1, entered) - times.entry_cycles
            latency = times.shuffle_latency_cycles
        elif instruction.constant >= 0:
            asked = self.sm.memory.address_port.book(times.address_interval_cycles, now + times.entry_cycles)
            start = max(asked, self.sm.supply.constant(instruction.constant, asked)) - times.entry_cycles
            latency = self.config.constant.load_latency_cycles
        elif kind == M.CLS_SPECIAL:
            start = self.sm.memory.address_port.book(times.address_interval_cycles, now)
            latency = times.s2r_latency_cycles
        elif kind == M.CLS_CROSS:  # REDUX, and MATCH, whose further values are those that it has found in the mean
            counts = self.sm.gpu.counts[instruction.pc]
            more = counts[L.COUNT_TURNS] / counts[L.COUNT_EXECUTED]
            start = self.sm.memory.address_port.book(times.address_interval_cycles * (1 + more), now)
            latency = times.match_latency_cycles + more * times.match_value_cycles
            latency = times.redux_latency_cycles if op == M.OP_REDUX else latency
        else:
            latency = self.latencies[instruction.unit]
            start = max(now, self.free[instruction.unit] - self.intervals[instruction.unit])
        if instruction.sources != 7:
            warp.boards[instruction.sources].hold(now + times.load_source_release_cycles, L.STALL_SHORT)
        if instruction.result != 7:
            warp.boards[instruction.result].hold(start + latency, L.STALL_SHORT)
