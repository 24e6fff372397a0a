"""The page that lists the launches of a program, with links to the page of each."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.report_html import asset

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass
class IndexRow:
    """Launches that follow each other and are alike. name: of the kernel for the table, full_name: the whole.
    numbers: of the first and the last. page: file beside the index, None for none. note: what else there is to say, an
    error for one."""

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
    page: str | None = None
    note: str = ""

    @property
    def calls(self) -> int:
        """How many launches the row stands for."""
        return self.last - self.first + 1


def render_index(title: str, facts: dict[str, str], rows: Sequence[IndexRow], notes: Sequence[str] = ()) -> str:
    """The page. facts: what stands at its head, by name; notes: sentences above the table."""
    text = html.escape
    head = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts.items())
    columns = ("launch", "kernel", "grid", "block", "shared memory", "cycles", "time in µs", "limited by")
    lines = "".join(f"<tr>{''.join(_cells(row))}</tr>\n" for row in rows)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{text(title)} &ndash; gpusim</title>
<style>
{asset("style.css")}
</style>
</head>
<body>
<header><p class="brand">gpusim report · simulated, not measured</p>
<h1>{text(title)}</h1>
<dl class="facts">{head}</dl></header>
<main><section id="launches" aria-labelledby="launches-title">
<h2 id="launches-title">Launches</h2>
{"".join(f'<p class="about">{text(note)}</p>' for note in notes)}
<div class="wide" tabindex="0" role="group" aria-label="Launches"><table id="index">
<thead><tr>{"".join(f'<th scope="col">{name}</th>' for name in columns)}</tr></thead>
<tbody>
{lines}</tbody></table></div>
</section></main>
</body>
</html>
"""


def _cells(row: IndexRow) -> list[str]:
    numbers = f"{row.first:,}" if row.calls == 1 else f"{row.first:,}&ndash;{row.last:,}"
    name = f"<code>{html.escape(row.name)}</code>"
    if row.page is not None:
        name = f'<a href="{html.escape(row.page)}">{name}</a>'
    note = f"<small> {html.escape(row.note)}</small>" if row.note else ""
    timed = row.cycles > 0
    values = [row.grid, row.block, f"{row.shared_bytes:,} B", f"{row.cycles:,}" if timed else "-"]
    values += [f"{row.time_us:,.2f}" if timed else "-", row.limiter]
    cells = [f'<th scope="row">{numbers}</th>', f'<td title="{html.escape(row.full_name)}">{name}{note}</td>']
    return cells + [f"<td>{html.escape(value)}</td>" for value in values]
