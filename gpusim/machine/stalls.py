"""What keeps a warp: the cycles after a branch or a fence, and the stall reasons that its waiting is charged to."""

from __future__ import annotations

from typing import Any

from gpusim.config import GPUConfig
from gpusim.engine.state import L
from gpusim.machine.instruction import Decoded
from gpusim.machine.pipes import ExecutionUnits
from gpusim.machine.warp import Warp
from isa import microops as M

_INDIRECT = (M.OP_RET, M.OP_BRX, M.OP_JMX)


def after_control(config: GPUConfig, instruction: Decoded, target: int) -> tuple[int, int]:
    """Return (cycles that a branch or a fence keeps its warp, their stall reason). target: where the warp goes on."""
    issue, times, op = config.issue, config.memory_instruction, instruction.op
    if op == M.OP_BSYNC:
        return issue.bsync_latency_cycles, L.STALL_BRANCH
    if target != instruction.pc + 1:
        slow = op in _INDIRECT
        return issue.indirect_branch_latency_cycles if slow else issue.branch_latency_cycles, L.STALL_BRANCH
    if op == M.OP_MEMBAR and instruction.kind == M.CLS_CONTROL:
        block = times.fence_cta_latency_cycles
        scopes = block, block, times.fence_gpu_latency_cycles, times.fence_system_latency_cycles
        return scopes[instruction.space], L.STALL_MEMBAR
    return 0, L.STALL_WAIT


def charge(sm: Any, units: ExecutionUnits, warp: Warp, instruction: Decoded, now: float) -> None:
    """Charge a warp's cycles since its last issue to stall reasons, each up to the cycle at which it was over."""
    counts = sm.gpu.stalls[instruction.pc]
    for until, kind in warp.reasons(instruction.boards):
        if until > warp.since:
            end = min(until, now)
            counts[kind] += end - warp.since
            warp.since = end
    rest = now - warp.since
    if rest > 0:
        throttled = units.free[instruction.unit] >= now and units.intervals[instruction.unit] > 1
        kind = L.STALL_MATH if throttled else L.STALL_NOT_SELECTED
        if instruction.unit == M.UNIT_LSU and sm.memory.was_full(units.number, now):
            kind = L.STALL_MIO if instruction.space == M.SPACE_SHARED else L.STALL_LG
        counts[kind] += rest
    counts[L.STALL_SELECTED] += 1
    warp.since = now + 1
