"""What keeps a warp: the cycles after a branch or a fence, and the stall reasons that its waiting is charged to."""

from __future__ import annotations

import math
from typing import Any

from gpusim.engine.state import L
from gpusim.machine.instruction import Decoded
from gpusim.machine.warp import Warp
from isa import microops as M

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
