"""The log of launches: their predicted times, grouped by kernel and configuration, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig
from gpusim.driver.outputs.counterparts import counterpart_of
from gpusim.launch import Launch
from gpusim.results import SCHEMA_VERSION
from gpusim.units import joule_text
from isa.demangle import full_name, short_name

if TYPE_CHECKING:
    from rich.table import Table

    from gpusim.result import Result
    from isa import Program

WIDTH = 100
NAME_WIDTH = 48
_WORDS = ("kernel", "limited by", "collective", "busiest link", "GPU")


@dataclass
class Launches:
    """Launches of one kernel with the same grid, block and dynamic shared memory, within ranges of one name. Nothing of
    a launch but these numbers is kept.

    first, last: numbers of the first and the last of them among all launches of the program, from 1.
    cycles, energy_j: sums over the calls that ended, in SM clock cycles and joules; `limiter` is what limits the one
    that took longest. low_cycles, high_cycles: sums of what nine in ten launches of their kinds lie between and, of
    a stand-in's kernels, the library's own by those that were measured (`stands_for`); 0 where that is not known.
    failed: calls that an error ended. findings: in which checks found something. repeated: with an earlier one's time.
    """

    kernel: str
    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    first: int
    last: int = 0
    calls: int = 0
    cycles: int = 0
    least_cycles: int = 0
    most_cycles: int = 0
    energy_j: float = 0.0
    instructions: int = 0
    limiter: str | None = None
    failed: int = 0
    findings: int = 0
    repeated: int = 0
    nvtx_range: str = ""
    low_cycles: float = 0.0
    high_cycles: float = 0.0
    stands_for: str | None = None


class LaunchLog:
    """All launches of a driver, by kernel and configuration. number: of the last launch that ran or is to run. gpus:
    the `GpuLog` of several. timed: whether launches know of cycles; if not, they and joules are zero everywhere."""

    def __init__(self, config: GPUConfig, timed: bool = True):
        self.config, self.timed = config, timed
        self.groups: dict[Any, Launches] = {}
        self.number, self.host_seconds = 0, 0.0
        self.gpus: Any = None

    def add(self, symbol: str, result: Result, number: int = 0, nvtx_range: str = "") -> None:
        """Note a launch. number: the next one's, if none is given. nvtx_range: as of `LaunchCall`."""
        record = result.record
        group = self._next(symbol, record.program, record.launch, number, nvtx_range)
        group.least_cycles = min(group.least_cycles, record.cycles) if group.calls else record.cycles
        if self.timed and (group.limiter is None or record.cycles > group.most_cycles):
            group.limiter, group.most_cycles = result.limiter.kind, record.cycles
        if self.timed:
            group.energy_j += result.energy_j
            self._widen(group, result)
        group.calls += 1
        group.repeated += record.mode == "once"
        group.cycles += record.cycles
        group.instructions += int(record.sm_issued.sum())
        self.host_seconds += record.host_seconds

    @staticmethod
    def _widen(group: Launches, result: Result) -> None:
        span = result.interval
        if span is None:
            return
        low, high = float(span.low), float(span.high)
        if (found := counterpart_of(group.symbol)) is not None:
            group.stands_for = str(found)
            low, high = found.span(result.record.cycles, low, high)
        group.low_cycles, group.high_cycles = group.low_cycles + low, group.high_cycles + high

    def add_failure(self, symbol: str, program: Program, launch: Launch, number: int = 0, nvtx_range: str = "") -> None:
        """Note a launch that ended with an error."""
        self._next(symbol, program, launch, number, nvtx_range).failed += 1

    def add_finding(self, symbol: str, program: Program, launch: Launch, nvtx_range: str = "") -> int:
        """Note that a check found something in the launch that runs now; in how many like it, this one included."""
        group = self._group(symbol, program, launch, nvtx_range)
        group.findings += 1
        return group.findings

    def _next(self, symbol: str, program: Program, launch: Launch, number: int, nvtx_range: str) -> Launches:
        group = self._group(symbol, program, launch, nvtx_range)
        number = number or self.number + 1
        self.number = max(self.number, number)
        group.first, group.last = min(group.first, number), max(group.last, number)
        return group

    def _group(self, symbol: str, program: Program, launch: Launch, nvtx_range: str) -> Launches:
        key = (symbol, program.sha256, launch.grid, launch.block, launch.shared_bytes, nvtx_range)
        if key not in self.groups:
            what = program.name, symbol, launch.grid, launch.block, launch.shared_bytes
            self.groups[key] = Launches(*what, first=self.number + 1, nvtx_range=nvtx_range)
        return self.groups[key]

    @property
    def calls(self) -> int:
        """Launches that ended well."""
        return sum(group.calls for group in self.groups.values())

    @property
    def wrong(self) -> int:
        """Launches that failed, or in which checks found something."""
        return sum(group.failed + group.findings for group in self.groups.values())

    @property
    def cycles(self) -> int:
        """Simulated cycles of all of them."""
        return sum(group.cycles for group in self.groups.values())

    @property
    def energy_j(self) -> float:
        """Joules of all of them, without what the GPU takes between them."""
        return sum(group.energy_j for group in self.groups.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "gpu": self.config.gpu.name,
            "launches": [
                asdict(each)
                | {"grid": list(each.grid), "block": list(each.block), "name": full_name(each.symbol)}
                | {"time_us": self.config.time_us(each.cycles)}
                | ({} if self.timed else {"energy_j": None})
                for each in sorted(self.groups.values(), key=lambda each: each.first)
            ],
            "total": {
                "calls": self.calls, "cycles": self.cycles, "time_us": self.config.time_us(self.cycles),
                "energy_j": self.energy_j if self.timed else None,
                "low_us": self._span_us()[0], "high_us": self._span_us()[1],
            },
            "host_seconds": self.host_seconds,
        } | (self.gpus.to_dict() if self.gpus is not None else {"gpus": [], "collectives": []})  # fmt: skip

    def _span_us(self) -> tuple[float, float]:
        """Microseconds between which all of them lie, if each is as far off as nine in ten of its kind are."""
        groups = self.groups.values()
        low, high = sum(each.low_cycles for each in groups), sum(each.high_cycles for each in groups)
        return self.config.time_us(low), self.config.time_us(high)

    def render(self, limit: int | None = 40) -> str:
        """The table as text, at most `limit` groups, those that took longest; without a line break at its end."""
        import io

        from rich.console import Console

        stream = io.StringIO()
        console = Console(file=stream, width=WIDTH, highlight=False, color_system=None)
        clock = self.config.gpu.clock_mhz
        console.print(f"Launches on a simulated {self.config.gpu.name}, {self.config.gpu.arch}, at {clock:,} MHz")
        if not self.groups:
            console.print("no kernel was launched")
        else:
            console.print(self._table(limit))
            low, high = self._span_us()
            if high:
                console.print(f"{low:,.2f} to {high:,.2f} us, if each is as far off as nine in ten of its kind are")
        for part in self.gpus.tables(self.timed) if self.gpus is not None else ():
            console.print(part)
        if self.groups:
            for each in sorted({group.stands_for for group in self.groups.values() if group.stands_for}):
                console.print(each)
        return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())

    def _table(self, limit: int | None) -> Table:
        timed = ("cycles per call", "time in us", "energy", "limited by")
        found = table("kernel", "grid", "block", "calls", *(timed if self.timed else ("instructions per call",)))
        in_ranges = any(group.nvtx_range for group in self.groups.values())
        if in_ranges:
            found.add_column("NVTX range", overflow="fold")
        shown = sorted(self.groups.values(), key=lambda group: (-group.cycles, -group.instructions, group.first))
        kept = shown[:limit]
        for each in kept:
            calls = f"{each.calls:,}" + (f" + {each.failed:,} failed" if each.failed else "")
            calls += f", {each.findings:,} with findings" if each.findings else ""
            calls += f", {each.calls - each.repeated:,} timed" if each.repeated else ""
            row = [short_name(each.symbol, NAME_WIDTH), dim3(each.grid), dim3(each.block), calls]
            row.append(f"{(each.cycles if self.timed else each.instructions) / each.calls:,.0f}" if each.calls else "-")
            if self.timed:
                row += [f"{self.config.time_us(each.cycles):,.2f}", joule_text(each.energy_j), each.limiter or "error"]
            found.add_row(*row, *([each.nvtx_range or "-"] if in_ranges else ()))
        if len(shown) > len(kept):
            found.add_row(f"and {len(shown) - len(kept):,} more")
        found.add_section()
        sums = [f"{self.config.time_us(self.cycles):,.2f}", joule_text(self.energy_j)] if self.timed else []
        found.add_row("all", "", "", f"{self.calls:,}", "", *sums)
        return found


def table(*columns: str) -> Table:
    """A table with these columns, of which those of words begin at their left."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        made.add_column(name, justify="left" if name in _WORDS else "right", overflow="fold")
    return made


def dim3(size: tuple[int, int, int]) -> str:
    """(8, 1, 1) as '8', (8, 4, 1) as '8x4'."""
    last = max((k for k in range(3) if size[k] > 1), default=0)
    return "x".join(str(extent) for extent in size[: last + 1])
