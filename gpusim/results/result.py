"""What a run tells: cycles, metrics, stall reasons, costs per source line and per instruction, and the report."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.launch.occupancy import Occupancy
from gpusim.results.advice import Finding, find
from gpusim.results.counts import Counts, ratio
from gpusim.results.limiter import Limiter, find_limiter
from gpusim.results.metrics import MetricValues
from gpusim.results.record import LaunchRecord
from gpusim.results.roofline import Roofline, make_roofline

if TYPE_CHECKING:
    from gpusim.bound import Bound
    from gpusim.tracing.trace import Trace



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
    line as written, '' where unknown; `addresses`: byte offsets of its instructions."""

    file: str | None = None
    line: int | None = None
    text: str = ""
    addresses: tuple[int, ...] = ()


@dataclass(frozen=True)
class InstructionCosts(Costs):
    """Costs of one SASS instruction. `address`: byte offset in the kernel; `text`: as disassembled."""

    address: int = 0
    text: str = ""
    file: str | None = None
    line: int | None = None


def _costs(rows: np.ndarray, warp_size: int) -> dict[str, Any]:
    """Fields of `Costs` for the sum of some rows, int64 [rows, N_FIELDS]."""
    total = rows.sum(axis=0).tolist()
    stalls = total[L.N_STALL : L.N_STALL + len(L.STALLS)]
    return {
        "instructions": total[L.N_EXECUTED],
        "thread_instructions": total[L.N_THREADS],
        "thread_instructions_pred_on": total[L.N_PRED_ON],
        "branches": total[L.N_BRANCHES],
        "divergent_branches": total[L.N_DIVERGENT],
        "shared_wavefronts": total[L.N_SHARED_WAVEFRONTS],
        "shared_wavefronts_excessive": total[L.N_SHARED_WAVEFRONTS] - total[L.N_SHARED_IDEAL],
        "requests": total[L.N_REQUESTS],
        "sectors": total[L.N_SECTORS],
        "sectors_ideal": total[L.N_SECTORS_IDEAL],
        "cycles": sum(stalls),
        "stalls": {reason: cycles for reason, cycles in zip(L.STALLS, stalls, strict=True) if cycles},
        "warp_size": warp_size,
    }


class Result:
    """The outcome of one simulated launch. Everything is computed from `record` when first asked for.

    bound: the least time that the launch can take on this machine, if `simulate(bound=True)` asked for it.
    """

    def __init__(self, record: LaunchRecord, bound: Bound | None = None):
        self.record = record
        self.bound = bound
        self._counts = Counts(record)

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.record.program.name

    @property
    def cycles(self) -> int:
        """SM clock cycles from the start of the launch to its end, launch overhead included."""
        return int(self.record.cycles)

    @property
    def time_us(self) -> float:
        """The same in microseconds, at the configuration's SM clock."""
        return self.record.config.time_us(self.cycles)

    @cached_property
    def metrics(self) -> MetricValues:
        """Metrics by Nsight Compute's names, see `gpusim.results.metrics.METRICS`. An unknown name raises a KeyError
        that names the nearest ones."""
        return MetricValues(self._counts)

    @cached_property
    def stall_reasons(self) -> dict[str, StallReason]:
        """What warps spent their time on, by Nsight Compute's stall reasons, the costliest first. 'selected' is the
        issue itself."""
        stalls = self._counts.stalls
        total = sum(stalls.values())
        order = sorted(stalls, key=lambda reason: -stalls[reason])
        return {
            reason: StallReason(
                stalls[reason], ratio(stalls[reason], total), ratio(stalls[reason], self._counts.issued)
            )
            for reason in order
        }

    @cached_property
    def instructions(self) -> list[InstructionCosts]:
        """Costs of every SASS instruction, in address order."""
        return [
            InstructionCosts(
                **_costs(self.record.line[index : index + 1], self.record.config.gpu.warp_size),
                address=each.address,
                text=each.text,
                file=each.file,
                line=each.line,
            )
            for index, each in enumerate(self.record.program.instructions)
        ]

    @cached_property
    def source_lines(self) -> list[SourceLine]:
        """Costs of every source line that instructions come from, the costliest (warp cycles) first."""
        program = self.record.program
        groups: dict[tuple[str | None, int | None], list[int]] = {}
        for index, each in enumerate(program.instructions):
            groups.setdefault((each.file, each.line), []).append(index)
        lines = []
        for (file, number), members in groups.items():
            first = program.instructions[members[0]]
            lines.append(
                SourceLine(
                    **_costs(self.record.line[members], self.record.config.gpu.warp_size),
                    file=file,
                    line=number,
                    text=(program.source_line(first) or "").strip(),
                    addresses=tuple(program.instructions[index].address for index in members),
                )
            )
        return sorted(lines, key=lambda row: (-row.cycles, -row.instructions, row.file or "", row.line or 0))

    @property
    def trace(self) -> Trace | None:
        """What happened when, if `trace=` asked for it."""
        return self.record.trace

    @property
    def slices(self) -> np.ndarray:
        """Sectors looked up in each slice of L2, int64 [slices]; those of one partition follow each other. Their sum is
        `lts__t_sectors_srcunit_tex.sum` plus what crossed the fabric for data."""
        return self.record.slices

    @property
    def channels(self) -> np.ndarray:
        """Bytes read and written by each memory channel, int64 [channels]. Their sum is `dram__bytes.sum` without what
        the launch itself reads: code, constants and the like."""
        return self.record.channels

    @property
    def occupancy(self) -> Occupancy:
        """Theoretical occupancy and what limits it. What was achieved is the metric
        `sm__warps_active.avg.pct_of_peak_sustained_active`."""
        return self.record.occupancy

    @cached_property
    def roofline(self) -> Roofline:
        """Arithmetic, traffic at each level of memory, and the peaks of the configuration."""
        return make_roofline(self._counts)

    @cached_property
    def limiter(self) -> Limiter:
        """What limits the launch, with the numbers that say so."""
        return find_limiter(self._counts)

    @cached_property
    def advice(self) -> list[Finding]:
        """What costs the launch its time and what to try, the dearest first. See `gpusim.results.advice`."""
        return find(self._counts)

    @property
    def rate(self) -> float:
        """Warp instructions simulated per second of host time, compilation of the simulator excluded."""
        return ratio(self._counts.instructions, self.record.host_seconds)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON. Numbers have the units of the attributes they stand for."""
        record = self.record
        return {
            "kernel": self.kernel,
            "gpu": record.config.gpu.name,
            "grid": list(record.launch.grid),
            "block": list(record.launch.block),
            "shared_bytes": record.launch.shared_bytes,
            "configuration": dict(record.config.items()),
            "cycles": self.cycles,
            "time_us": self.time_us,
            "bound": self.bound.to_dict() if self.bound is not None else None,
            "limiter": asdict(self.limiter),
            "advice": [asdict(each) for each in self.advice],
            "metrics": dict(self.metrics),
            "stall_reasons": {reason: asdict(each) for reason, each in self.stall_reasons.items()},
            "occupancy": asdict(self.occupancy),
            "roofline": self.roofline.to_dict(),
            "source_lines": _dicts(self.source_lines),
            "instructions": _dicts(self.instructions),
            "sm_blocks": record.sm_blocks.tolist(),
            "sm_active_cycles": record.sm_active_cycles.tolist(),
            "simulation": {
                "host_seconds": record.host_seconds,
                "host_threads": record.host_threads,
                "compile_seconds": record.compile_seconds,
                "instructions_per_second": self.rate,
            },
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        from gpusim.results.report import (
            render,  # the report reads results, so it is imported when one is printed
        )

        return render(self)

    def report_html(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write the report as one HTML file that opens from disk, and return its path. With a trace it has the warp
        stepper. title: what was run, by default the kernel's name. Raises OSError if it cannot be written."""
        from gpusim.report_html import write

        return write(self, path, title)

    def _repr_html_(self) -> str:
        from gpusim.report_html.compact import compact

        return compact(self)

    def __repr__(self) -> str:
        return f"<Result of {self.kernel}: {self.cycles:,} cycles, {self.time_us:.2f} us>"


def _dicts(rows: Iterable[Costs]) -> list[dict[str, Any]]:
    return [row.to_dict() for row in rows]
