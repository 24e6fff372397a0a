"""What a run tells: cycles, metrics, stall reasons, costs per source line and per instruction."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpusim.errors import ModeError
from gpusim.launch.occupancy import Occupancy
from gpusim.results.advice import Finding, find
from gpusim.results.costs import InstructionCosts, SourceLine, StallReason, costs_of
from gpusim.results.counts import Counts, ratio
from gpusim.results.energy import LaunchEnergy
from gpusim.results.interval import Interval, interval_of, kind_of
from gpusim.results.limiter import Limiter, find_limiter
from gpusim.results.metrics import MetricValues
from gpusim.results.record import Bound, LaunchRecord, Sampling, Simulation
from gpusim.results.roofline import Roofline, make_roofline, matrix_operations
from gpusim.tracing.trace import Trace


class Analysis:
    """What follows from the record of one launch. Everything is computed when first asked for.

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
        """The same in microseconds, at the configuration's SM clock."""
        return self.record.config.time_us(self.cycles)

    @cached_property
    def metrics(self) -> MetricValues:
        """Metrics by Nsight Compute's names, see `gpusim.results.metrics.METRICS`. An unknown name raises a KeyError
        that names the nearest one."""
        return MetricValues(self.counts)

    @cached_property
    def stall_reasons(self) -> dict[str, StallReason]:
        """What warps spent their time on, by Nsight Compute's stall reasons, the costliest first. 'selected' is the
        issue itself."""
        self._needs_time("stall reasons")
        stalls = self.counts.stalls
        total = sum(stalls.values())
        order = sorted(stalls, key=lambda reason: -stalls[reason])
        return {
            reason: StallReason(
                stalls[reason], ratio(stalls[reason], total), ratio(stalls[reason], self.counts.issued)
            )
            for reason in order
        }

    @cached_property
    def instructions(self) -> list[InstructionCosts]:
        """Costs of every SASS instruction, in address order."""
        return [
            InstructionCosts(
                **costs_of(self.record.counters[index : index + 1], self.record.config.gpu.warp_size),
                address=each.address,
                text=each.text,
                file=each.file,
                line=each.line,
                energy_j=self._joules([index]),
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
                    **costs_of(self.record.counters[members], self.record.config.gpu.warp_size),
                    file=file,
                    line=number,
                    text=(program.source_line(first) or "").strip(),
                    addresses=tuple(program.instructions[index].address for index in members),
                    energy_j=self._joules(members),
                )
            )
        return sorted(lines, key=lambda row: (-row.cycles, -row.instructions, row.file or "", row.line or 0))

    def _joules(self, rows: list[int]) -> float | None:
        return float(self.energy.instruction_j[rows].sum()) if self.record.timed else None

    @property
    def trace(self) -> Trace | None:
        """What happened when, if `trace=` asked for it."""
        return self.record.trace

    @property
    def sampling(self) -> Sampling | None:
        """What a sampled run did, and how far its cycles may be off; None of other runs."""
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
        """What limits the launch, with the numbers that say so."""
        self._needs_time("limiter")
        return find_limiter(self.counts)

    @cached_property
    def kind(self) -> str:
        """The kind of kernel it is among those that judge the model. See `gpusim.results.interval`."""
        self._needs_time("kind")
        return kind_of(self.counts)

    @cached_property
    def interval(self) -> Interval:
        """The cycles between which nine of ten kernels of its kind lie. See `gpusim.results.interval`."""
        self._needs_time("interval")
        return interval_of(self.counts, self.kind)

    @cached_property
    def advice(self) -> list[Finding]:
        """What costs the launch its time and what to try, the dearest first. See `gpusim.results.advice`."""
        self._needs_time("advice")
        return find(self.counts)

    @cached_property
    def energy(self) -> LaunchEnergy:
        """What the board takes for the launch, by unit and instruction. See `gpusim.results.energy`."""
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
        """What the simulator took."""
        record = self.record
        return Simulation(record.host_seconds, record.host_threads, record.compile_seconds, self.rate)

    def __repr__(self) -> str:
        done = f"{self.cycles:,} cycles, {self.time_us:.2f} us" if self.record.timed else "functional"
        return f"<Result of {self.kernel}: {done}>"
