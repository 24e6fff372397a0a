"""The table of a program's launches: a page of its own with links to the page of each, and above each of those."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.report_html import MARK
from gpusim.report_html.plain import Markup, PagePart, render_plain, table
from gpusim.units import counted, joule_text
from isa.folders import replacing

_AROUND = 10  # rows before and after a page's own that stand above it
_OPEN = 8  # rows of a table that is open at first
_HEAD = (
    "launch", "kernel", "grid", "block", "shared memory", "cycles", "time in µs", "of all time", "energy", "limited by",
)  # fmt: skip


@dataclass
class IndexRow:
    """Launches that follow each other and are alike. name: of the kernel for the table, full_name: the whole.
    first, last: their numbers. cycles, time_us: of each; energy_j: of the first of the page. page: file beside the
    index, None for none. note: what else there is to say, an error for one."""

    first: int
    last: int
    name: str
    full_name: str
    grid: str
    block: str
    shared_bytes: int
    cycles: int
    time_us: float
    limiter: str
    energy_j: float = 0.0
    page: str | None = None
    note: str = ""

    @property
    def calls(self) -> int:
        """Number of launches that the row stands for."""
        return self.last - self.first + 1


def render_index(
    title: str, facts: dict[str, str], rows: Sequence[IndexRow], notes: Sequence[str] = (),
    parts: Sequence[PagePart] = (),
) -> str:  # fmt: skip
    """The page. facts: what stands at its head, by name; notes: sentences above the table; parts: what follows it."""
    part = PagePart("launches", "Launches", notes, _table(rows, _time(rows)))
    return render_plain(title, "gpusim report · simulated, not measured", facts, [part, *parts])


def put_above(folder: Path, rows: Sequence[IndexRow]) -> None:
    """Put the table above each of the pages in a folder, with links to the pages before and after; of a long table the
    rows around the page's own. Raises OSError if that cannot be done."""
    pages = list(dict.fromkeys(row.page for row in rows if row.page is not None))
    launches, total = sum(row.calls for row in rows), _time(rows)
    for number, page in enumerate(pages):
        own = [k for k, row in enumerate(rows) if row.page == page]
        shown = rows[max(own[0] - _AROUND, 0) : own[0] + _AROUND + 1]
        ways = (("page before", number - 1), ("page after", number + 1))
        links = "".join(f'<a href="{pages[k]}">{text}</a> ' for text, k in ways if 0 <= k < len(pages))
        left = len(rows) - len(shown)
        more = f'<p>{left:,} more rows in the <a href="index.html">table of all launches</a></p>' if left else ""
        share = sum(_share(rows[k], total) for k in own)
        what = f"{sum(rows[k].calls for k in own):,} of {counted(launches, 'launch')}, {100 * share:.1f} % of all time"
        above = (
            f'<aside class="above" aria-label="Launches"><p>{links}</p><details{" open" * (len(rows) <= _OPEN)}>'
            f"<summary>This page: {what}. Table of launches</summary>"
            f"{_table(shown, total, page)}{more}</details></aside>"
        )
        path = folder / page
        with replacing(path) as part:
            part.write_text(path.read_text("utf-8").replace(MARK, above, 1), "utf-8")


def _share(row: IndexRow, total: float) -> float:
    """Share of the time of all launches."""
    return row.calls * row.time_us / total if total else 0.0


def _time(rows: Sequence[IndexRow]) -> float:
    return sum(row.calls * row.time_us for row in rows)


def _table(rows: Sequence[IndexRow], total: float, here: str | None = None) -> Markup:
    """here: the page that the table stands above. total: time of all launches, in µs."""
    return table("Launches", _HEAD, (_cells(row, total, here) for row in rows), "stacked launches")


def _cells(row: IndexRow, total: float, here: str | None) -> list[str]:
    own = here is not None and row.page == here
    numbers = f"{row.first:,}" if row.calls == 1 else f"{row.first:,}\N{EN DASH}{row.last:,}"
    name = f'<code title="{html.escape(row.full_name)}">{html.escape(row.name)}</code>'
    if row.page is not None and not own:
        name = f'<a href="{html.escape(row.page)}">{name}</a>'
    note = f"<small> {html.escape(row.note)}</small>" if row.note else ""
    share = 100 * _share(row, total)
    times = ["-"] * 4
    if row.cycles > 0:
        part = Markup(f'<span class="share" style="--part:{share:.1f}%">{share:.1f} %</span>')
        times = [f"{row.cycles:,}", f"{row.time_us:,.2f}", part, joule_text(row.energy_j, "µ")]
    first = Markup(f'<span aria-current="page">{numbers}</span>') if own else numbers
    return [first, Markup(f"{name}{note}"), row.grid, row.block, f"{row.shared_bytes:,} B", *times, row.limiter]
