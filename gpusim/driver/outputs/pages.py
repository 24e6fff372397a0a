"""A page for each launch of a program, and one that lists them: `--report DIR`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim.config import GPUConfig
from gpusim.driver.codes import say
from gpusim.driver.outputs.log import dim3
from gpusim.driver.work.launches import LaunchCall, Observer
from gpusim.errors import KernelError, SimulationError
from gpusim.report_html import write
from gpusim.report_html.index import IndexRow, put_above, render_index
from gpusim.tracing.recording import TraceOptions
from gpusim.units import counted, joule_text
from isa.demangle import short_name
from isa.folders import put_file

if TYPE_CHECKING:
    from gpusim.driver.outputs.gpus import GpuLog
    from gpusim.result import Result

MOST_ROWS = 5_000


class PageWriter(Observer):
    """Writes pages as launches end, and the index at the end. Launches of one kernel with the same grid, block, shared
    memory and cycles share a page; no more pages are written than `limit`. Where a page cannot be written, this is said
    once, and no other is.

    chooses: whether a launch has a page, by its number and symbol. sections: of each page, none for all. mode: of the
    launches. gpus: what several did, for the index. Raises OSError if the folder cannot be made.
    """

    def __init__(
        self, folder: Path, config: GPUConfig, chooses: Callable[[int, str], bool], sections: Sequence[str],
        limit: int, mode: str, gpus: GpuLog | None = None,
    ):  # fmt: skip
        self.folder, self.config = folder, config
        self._chooses, self._sections, self._limit = chooses, sections, limit
        self._traced = mode in ("detailed", "once") and (not sections or "stepper" in sections)
        self._rows: list[IndexRow] = []
        self._pages: dict[tuple[object, ...], IndexRow] = {}
        self._written = self._launches = self._without = self._cycles = 0
        self._energy_j = 0.0
        self._note = ""
        self._failed, self._gpus = False, gpus if mode in ("detailed", "once") else None
        folder.mkdir(parents=True, exist_ok=True)

    def asked(self, call: LaunchCall) -> None:
        if self._traced and not self._full and self._chooses(call.number, call.symbol):
            call.want_trace(TraceOptions())

    def launching(self, call: LaunchCall, cycle: int) -> None:
        self._note = ""

    def found(self, call: LaunchCall, error: KernelError) -> None:
        self._note = error.reason

    def failed(self, call: LaunchCall, error: SimulationError, cycle: int) -> None:
        if self._chooses(call.number, call.symbol) and isinstance(error, KernelError):
            self._add(self._row(call, 0, "error", error.reason))

    def launched(self, call: LaunchCall, result: Result, cycle: int) -> None:
        if not self._chooses(call.number, call.symbol):
            return
        launch = call.launch
        key = call.symbol, call.program.sha256, launch.grid, launch.block, launch.shared_bytes, result.cycles
        like = self._pages.get(key)
        if like is None:
            like = self._row(call, result.cycles, result.limiter.kind, "", result.energy_j)
            if self._full:
                self._without += 1
            else:
                like.page = self._write(call, result)
                self._pages[key] = like
        row = self._row(call, result.cycles, like.limiter, self._note, like.energy_j)
        row.page = like.page
        self._add(row)

    @property
    def _full(self) -> bool:
        return self._failed or self._written >= self._limit

    def _row(self, call: LaunchCall, cycles: int, limiter: str, note: str = "", joules: float = 0.0) -> IndexRow:
        launch = call.launch
        return IndexRow(
            call.number, call.number, short_name(call.symbol), call.name, dim3(launch.grid), dim3(launch.block),
            launch.shared_bytes, cycles, self.config.time_us(cycles), limiter, joules, note=note,
        )  # fmt: skip

    def _add(self, row: IndexRow) -> None:
        """Add a row, or the launch to the last one if it is alike."""
        self._launches += 1
        self._cycles += row.cycles
        self._energy_j += row.energy_j
        last = self._rows[-1] if self._rows else None
        if last is not None and last.last == row.first - 1 and replace(row, first=last.first, last=last.last) == last:
            last.last = row.last
        elif len(self._rows) < MOST_ROWS:
            self._rows.append(row)

    def _write(self, call: LaunchCall, result: Result) -> str | None:
        """The name of a launch's page, None if it cannot be written."""
        name = f"launch-{call.number}.html"
        title = f"Launch {call.number:,}: {short_name(call.symbol)}"
        more = {"kernel": call.name, "sections": self._sections, "index": "index.html"}
        if not self._try(lambda: write(result, self.folder / name, title, **more)):
            return None
        self._written += 1
        return name

    def _try(self, do: Callable[[], object]) -> bool:
        try:
            do()
        except OSError as error:
            self._failed = True
            say(f"--report {self.folder}: {error.strerror}; no more pages are written")
        return not self._failed

    def close(self) -> None:
        listed = sum(row.calls for row in self._rows)
        notes = []
        if self._without:
            notes.append(
                f"{counted(self._without, 'launch')} without a page: the limit of {self._limit:,} pages was reached "
                "(--report-limit; --kernel and --launch choose launches)"
            )
        if listed < self._launches:
            notes.append(f"{self._launches - listed:,} more launches are not listed")
        facts = {
            "GPU": f"{self.config.gpu.name}, {self.config.gpu.arch}, {self.config.gpu.clock_mhz:,} MHz",
            "Launches": f"{self._launches:,}", "Pages": f"{self._written:,}",
            "Time": f"{self.config.time_us(self._cycles):,.2f} µs", "Energy": joule_text(self._energy_j, "µ"),
        }  # fmt: skip

        def put_index() -> None:
            parts = self._gpus.page() if self._gpus is not None else []
            page = render_index("Launches of a program", facts, self._rows, notes, parts)
            put_file(self.folder / "index.html", page.encode())

        if not self._failed:
            self._try(lambda: put_above(self.folder, self._rows))
        if not self._failed and self._try(put_index):
            said = "; ".join([f"{counted(self._written, 'page')} of {counted(self._launches, 'launch')}", *notes])
            say(f"{self.folder / 'index.html'}: {said}")
