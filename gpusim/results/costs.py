"""What an instruction or a source line costs, and what warps spent their time on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.results.counts import ratio


@dataclass(frozen=True, slots=True)
class StallReason:
    """Time of one stall reason. The reasons of a launch add up: shares to 1, cycles to all warp cycles.

    cycles: warp cycles (SM clock). share: of all warp cycles. cycles_per_instruction: per issued warp
    instruction; ncu's `smsp__average_warps_issue_stalled_*_per_issue_active.ratio`.
    """

    cycles: int
    share: float
    cycles_per_instruction: float


@dataclass(frozen=True)
class Costs:
    """Counters of one instruction, or summed over those of a source line.

    instructions: warp instructions executed. thread_instructions: active threads summed over them;
    thread_instructions_pred_on: those whose guard holds. divergent_branches: of `branches` executed ones.
    shared_wavefronts, and how many of them are excessive (bank conflicts).
    requests: accesses to global memory; sectors (32 bytes) that they touch; sectors_ideal at contiguous addresses.
    cycles: warp cycles spent at the instruction, issue included; stalls: the same by reason, without zeros.
    warp_size: lanes of a warp.
    """

    instructions: int
    thread_instructions: int
    thread_instructions_pred_on: int
    branches: int
    divergent_branches: int
    shared_wavefronts: int
    shared_wavefronts_excessive: int
    requests: int
    sectors: int
    sectors_ideal: int
    cycles: int
    stalls: dict[str, int]
    warp_size: int

    @property
    def threads_per_instruction(self) -> float:
        """Active threads per warp instruction, 0 to `warp_size`."""
        return ratio(self.thread_instructions, self.instructions)

    @property
    def thread_efficiency(self) -> float:
        """Share of the lanes that are active, 0 to 1."""
        return self.threads_per_instruction / self.warp_size

    @property
    def stall_cycles(self) -> int:
        """Warp cycles without the issues themselves."""
        return self.cycles - self.stalls.get("selected", 0)

    @property
    def main_stall(self) -> str | None:
        """The reason that costs most, None if the warps never waited."""
        waits = {reason: cycles for reason, cycles in self.stalls.items() if reason != "selected"}
        return max(waits, key=lambda reason: waits[reason]) if waits else None

    def to_dict(self) -> dict[str, Any]:
        """All fields and what follows from them."""
        derived = ("threads_per_instruction", "thread_efficiency", "stall_cycles", "main_stall")
        return asdict(self) | {name: getattr(self, name) for name in derived}


@dataclass(frozen=True)
class SourceLine(Costs):
    """Costs of one source line. `file` and `line` are None for instructions of unknown origin; `text` is the
    line as written, '' where unknown; `addresses`: byte offsets of its instructions; `energy_j`: joules of what they
    do, without static power; None without time."""

    file: str | None = None
    line: int | None = None
    text: str = ""
    addresses: tuple[int, ...] = ()
    energy_j: float | None = None


@dataclass(frozen=True)
class InstructionCosts(Costs):
    """Costs of one SASS instruction. `address`: byte offset in the kernel; `text`: as disassembled; `energy_j`: as for
    a line."""

    address: int = 0
    text: str = ""
    file: str | None = None
    line: int | None = None
    energy_j: float | None = None


def costs_of(rows: np.ndarray, warp_size: int) -> dict[str, Any]:
    """Fields of `Costs` for the sum of some rows, int64 [rows, COUNT_FIELDS]."""
    total = rows.sum(axis=0).tolist()
    stalls = total[L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)]
    return {
        "instructions": total[L.COUNT_EXECUTED],
        "thread_instructions": total[L.COUNT_THREADS],
        "thread_instructions_pred_on": total[L.COUNT_PRED_ON],
        "branches": total[L.COUNT_BRANCHES],
        "divergent_branches": total[L.COUNT_DIVERGENT],
        "shared_wavefronts": total[L.COUNT_SHARED_WAVEFRONTS],
        "shared_wavefronts_excessive": total[L.COUNT_SHARED_WAVEFRONTS] - total[L.COUNT_SHARED_IDEAL],
        "requests": total[L.COUNT_REQUESTS],
        "sectors": total[L.COUNT_SECTORS],
        "sectors_ideal": total[L.COUNT_SECTORS_IDEAL],
        "cycles": sum(stalls),
        "stalls": {reason: cycles for reason, cycles in zip(L.STALLS, stalls, strict=True) if cycles},
        "warp_size": warp_size,
    }
