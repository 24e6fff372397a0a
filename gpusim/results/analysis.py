"""Analysis of a run: cycles, metrics, stall reasons, costs per source line and per instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.errors import ModeError
from gpusim.launch.occupancy import Occupancy
from gpusim.results.advice import find
from gpusim.results.counts import Counts, ratio
from gpusim.results.energy import LaunchEnergy
from gpusim.results.finding import Finding
from gpusim.results.interval import Interval, interval_of, kind_of
from gpusim.results.limiter import Limiter, find_limiter
from gpusim.results.metrics import MetricValues
from gpusim.results.record import Bound, LaunchRecord, Sampling, Simulation
from gpusim.results.roofline import Roofline, make_roofline, matrix_operations
from gpusim.tracing.perfetto import Trace


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


class Analysis:
    """Quantities that follow from the record of one launch, each computed when first asked for.

    bound: the least time that the launch can take on this machine, if `simulate(bound=True)` asked for it;
    why_no_bound: where it asked in vain, the reason.
    """

    def __init__(self, record: LaunchRecord, bound: Bound | None = None, why_no_bound: str = ""):
        self.record = record
        self.bound, self.why_no_bound = bound, why_no_bound
        self.counts = Counts(record)

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.record.program.name

    @property
    def cycles(self) -> int:
        """SM clock cycles from the start of the launch to its end, launch overhead included."""
        self._needs_time("cycles")
        return int(self.record.cycles)

    @property
    def time_us(self) -> float:
        """Duration of the launch in microseconds, at the configuration's SM clock."""
        return self.record.config.time_us(self.cycles)

    @cached_property
    def metrics(self) -> MetricValues:
        """Metrics by Nsight Compute's names, see `gpusim.results.metrics.METRICS`. An unknown name raises a KeyError
        that names the nearest one."""
        return MetricValues(self.counts)

    @cached_property
    def stall_reasons(self) -> dict[str, StallReason]:
        """Time of warps by Nsight Compute's stall reasons, the costliest first. 'selected' is the issue itself."""
        self._needs_time("stall reasons")
        stalls, total = self.counts.stalls, sum(self.counts.stalls.values())
        order = sorted(stalls, key=lambda reason: -stalls[reason])
        return {
            reason: StallReason(stalls[reason], ratio(stalls[reason], total), ratio(stalls[reason], self.counts.issued))
            for reason in order
        }

    @cached_property
    def instructions(self) -> list[InstructionCosts]:
        """Costs of every SASS instruction, in address order."""
        return [
            InstructionCosts(**self._costs([k]), address=each.address, text=each.text, file=each.file, line=each.line)
            for k, each in enumerate(self.record.program.instructions)
        ]

    @cached_property
    def source_lines(self) -> list[SourceLine]:
        """Costs of every source line that instructions come from, the costliest (warp cycles) first."""
        program = self.record.program
        lines = [
            SourceLine(
                **self._costs(members), file=file, line=number,
                text=(program.source_line(program.instructions[members[0]]) or "").strip(),
                addresses=tuple(program.instructions[index].address for index in members),
            )
            for (file, number), members in self.counts.lines.items()
        ]  # fmt: skip
        return sorted(lines, key=lambda row: (-row.cycles, -row.instructions, row.file or "", row.line or 0))

    def _costs(self, rows: Sequence[int] | np.ndarray) -> dict[str, Any]:
        """Fields of the costs of some instructions together."""
        joules = float(self.energy.instruction_j[rows].sum()) if self.record.timed else None
        return costs_of(self.record.counters[rows], self.record.config.gpu.warp_size) | {"energy_j": joules}

    @property
    def trace(self) -> Trace | None:
        """The trace of the run if `trace=` asked for it, None otherwise."""
        return self.record.trace

    @property
    def sampling(self) -> Sampling | None:
        """Extent of a sampled run, and the error that its cycles may have; None of other runs."""
        return self.record.sampling

    @property
    def slices(self) -> np.ndarray:
        """Sectors looked up in each slice of L2, int64 [slices]; those of one partition follow each other. Their sum is
        `lts__t_sectors_srcunit_tex.sum` plus what crossed the fabric for data."""
        self._needs_time("traffic of L2")
        return self.record.slices

    @property
    def channels(self) -> np.ndarray:
        """Bytes read and written by each memory channel, int64 [channels]. Their sum is `dram__bytes.sum` without what
        the launch itself reads: code, constants and the like."""
        self._needs_time("traffic of memory")
        return self.record.channels

    @property
    def occupancy(self) -> Occupancy:
        """Theoretical occupancy and what limits it. What was achieved is the metric
        `sm__warps_active.avg.pct_of_peak_sustained_active`."""
        return self.record.occupancy

    @cached_property
    def roofline(self) -> Roofline:
        """Arithmetic, traffic at each level of memory, and the peaks of the configuration."""
        self._needs_time("roofline")
        return make_roofline(self.counts)

    @cached_property
    def limiter(self) -> Limiter:
        """The limiter of the launch, with the numbers that say so."""
        self._needs_time("limiter")
        return find_limiter(self.counts)

    @cached_property
    def kind(self) -> str:
        """The kind of kernel it is among those that judge the model. See `gpusim.results.interval`."""
        self._needs_time("kind")
        return kind_of(self.counts)

    @cached_property
    def interval(self) -> Interval | None:
        """The cycles between which nine of ten kernels of its kind lie; None for a machine of SimPy processes, since
        the engine's errors say how far those lie. See `gpusim.results.interval`."""
        self._needs_time("interval")
        return None if self.record.machine else interval_of(self.counts, self.kind)

    @cached_property
    def advice(self) -> list[Finding]:
        """Causes that cost the launch time, with remedies, the costliest first. See `gpusim.results.advice`."""
        self._needs_time("advice")
        return find(self.counts)

    @cached_property
    def energy(self) -> LaunchEnergy:
        """Energy of the board for the launch, by unit and instruction. See `gpusim.results.energy`."""
        self._needs_time("energy")
        return LaunchEnergy(self.counts, 1e-6 * self.time_us)

    @property
    def energy_j(self) -> float:
        """Joules that the board takes for the launch."""
        return self.energy.energy_j

    @property
    def power_w(self) -> float:
        """Watts that it takes in the mean. More than `energy.limit_w` cannot last: `Result.energy.sustained` says what
        the clock falls to."""
        return self.energy.power_w

    @property
    def rate(self) -> float:
        """Warp instructions simulated per second of host time, compilation of the simulator excluded."""
        return ratio(self.counts.instructions, self.record.host_seconds)

    def _needs_time(self, what: str) -> None:
        if not self.record.timed:
            raise ModeError(f"a {self.record.mode} run has no {what}")

    @property
    def matrix_rate(self) -> float:
        """Operations of matrix instructions, a multiply-add as two, simulated per second of host time."""
        return ratio(matrix_operations(self.counts), self.record.host_seconds)

    @property
    def simulation(self) -> Simulation:
        """Time, threads and speed of the simulation on the host."""
        record = self.record
        return Simulation(record.host_seconds, record.host_threads, record.compile_seconds, self.rate)

    def __repr__(self) -> str:
        done = f"{self.cycles:,} cycles, {self.time_us:.2f} us" if self.record.timed else "functional"
        return f"<Result of {self.kernel}: {done}>"
