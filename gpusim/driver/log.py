"""What ran: launches with their predicted times, grouped by kernel and configuration, as a table and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig
from gpusim.launch import Launch

if TYPE_CHECKING:
    from rich.table import Table

    from gpusim.result import Result
    from isa import Program

WIDTH = 100
_MOST_RESULTS = 256
"""Groups whose slowest launch is kept with all that it counted, megabytes for a large kernel."""


@dataclass
class Launches:
    """Launches of one kernel with the same grid, block and dynamic shared memory.

    cycles: sum over the calls that ended, in SM clock cycles; `slowest` is the one of them that took longest, as long
    as the log keeps it, and `limiter` what limited that one, if it does no more. failed: calls that a kernel's error
    ended.
    """

    kernel: str
    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    calls: int = 0
    cycles: int = 0
    least_cycles: int = 0
    most_cycles: int = 0
    instructions: int = 0
    slowest: Result | None = None
    limiter: str | None = None
    failed: int = 0

    @property
    def limited_by(self) -> str | None:
        """What limited the slowest call; None if all failed."""
        return self.slowest.limiter.kind if self.slowest else self.limiter


class LaunchLog:
    """All launches of a driver in the order of their first call. attempts: calls of launch functions, refused ones
    included. timed: whether launches know of cycles; if not, they are zero everywhere."""

    def __init__(self, config: GPUConfig, timed: bool = True):
        self.config, self.timed = config, timed
        self.groups: dict[Any, Launches] = {}
        self.attempts = 0
        self.host_seconds = 0.0
        self._with_results: dict[int, Launches] = {}

    def add(self, symbol: str, result: Result) -> None:
        """Note a launch."""
        record = result.record
        group = self._group(symbol, record.program, record.launch)
        group.least_cycles = min(group.least_cycles, record.cycles) if group.calls else record.cycles
        if self.timed and (not group.calls or record.cycles > group.most_cycles):
            group.slowest, group.most_cycles = result, record.cycles
            self._with_results[id(group)] = group
            if len(self._with_results) > _MOST_RESULTS:
                first = self._with_results.pop(next(iter(self._with_results)))
                first.limiter, first.slowest = first.limited_by, None
        group.calls += 1
        group.cycles += record.cycles
        group.instructions += int(record.sm_issued.sum())
        self.host_seconds += record.host_seconds

    def add_failure(self, symbol: str, program: Program, launch: Launch) -> None:
        """Note a launch that ended with an error."""
        self._group(symbol, program, launch).failed += 1

    def _group(self, symbol: str, program: Program, launch: Launch) -> Launches:
        key = (symbol, program.sha256, launch.grid, launch.block, launch.shared_bytes)
        if key not in self.groups:
            self.groups[key] = Launches(program.name, symbol, launch.grid, launch.block, launch.shared_bytes)
        return self.groups[key]

    @property
    def calls(self) -> int:
        """Launches that ended well."""
        return sum(group.calls for group in self.groups.values())

    @property
    def cycles(self) -> int:
        """Simulated cycles of all of them."""
        return sum(group.cycles for group in self.groups.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "gpu": self.config.gpu.name,
            "launches": [
                {
                    "kernel": each.kernel,
                    "symbol": each.symbol,
                    "grid": list(each.grid),
                    "block": list(each.block),
                    "shared_bytes": each.shared_bytes,
                    "calls": each.calls,
                    "failed": each.failed,
                    "cycles": each.cycles,
                    "least_cycles": each.least_cycles,
                    "most_cycles": each.most_cycles,
                    "time_us": self.config.time_us(each.cycles),
                    "instructions": each.instructions,
                    "limiter": each.limited_by,
                }
                for each in self.groups.values()
            ],
            "total": {"calls": self.calls, "cycles": self.cycles, "time_us": self.config.time_us(self.cycles)},
            "host_seconds": self.host_seconds,
        }

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
        return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())

    def _table(self, limit: int | None) -> Table:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE, pad_edge=False)
        results = ("cycles per call", "time in us", "limited by") if self.timed else ("instructions per call",)
        for name in ("kernel", "grid", "block", "calls", *results):
            table.add_column(name, justify="left" if name in ("kernel", "limited by") else "right", overflow="fold")
        shown = sorted(self.groups.values(), key=lambda group: (-group.cycles, -group.instructions))
        kept = shown[:limit]
        for each in kept:
            calls = f"{each.calls:,}" + (f" + {each.failed:,} failed" if each.failed else "")
            total = each.cycles if self.timed else each.instructions
            row = [each.kernel, _dim3(each.grid), _dim3(each.block), calls]
            row.append(f"{total / each.calls:,.0f}" if each.calls else "-")
            if self.timed:
                row.append(f"{self.config.time_us(each.cycles):,.2f}")
                row.append(each.limited_by or "error")
            table.add_row(*row)
        if len(shown) > len(kept):
            table.add_row(f"and {len(shown) - len(kept):,} more")
        table.add_section()
        time = f"{self.config.time_us(self.cycles):,.2f}" if self.timed else ""
        table.add_row("all", "", "", f"{self.calls:,}", "", time)
        return table


def _dim3(size: tuple[int, int, int]) -> str:
    """(8, 1, 1) as '8', (8, 4, 1) as '8x4'."""
    last = max((k for k in range(3) if size[k] > 1), default=0)
    return "x".join(str(extent) for extent in size[: last + 1])
