"""The difference as one HTML page: no script, no network, readable on a phone and in the dark."""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.difference.pairs import Pairs, times
from gpusim.difference.tables import Row, Table, tables
from gpusim.report_html.plain import Markup, PagePart, folded, join, render_plain, table
from gpusim.results.quantities import QUANTITIES
from gpusim.results.table import spelled


def render_page(difference: Pairs, why: Sequence[str]) -> str:
    """The page with its sentences."""
    sides = {"A": difference.a, "B": difference.b}
    numbers = difference.numbers.values()
    facts = {
        side: ", ".join(
            spelled(value, row.unit, "µ")
            for row, change in numbers
            if (value := getattr(change, side.lower())) is not None
        )
        for side in sides
    } | {f"{row.label}, B of A": times(each) for row, each in numbers if None not in (each.a, each.b)}
    head = join(Markup(f'<p class="kernel">{side}: {join([run.heading])}</p>') for side, run in sides.items())
    items = Markup(f"<ul>{join(Markup(f'<li>{join([text])}</li>') for text in why)}</ul>")
    parts = [PagePart("why", "Why", (), items), *map(_part, tables(difference))]
    titles = " and ".join(run.title for run in sides.values())
    return render_plain(titles, "gpusim diff · A and B side by side", facts, parts, head)


def _part(shown: Table) -> PagePart:
    def made(rows: Sequence[Row]) -> Markup:
        return table(shown.title, ("", *shown.head), [(_named(name), *cells) for name, *cells in rows])

    body = made(shown.rows) if shown.rows else Markup("")
    if shown.alike:
        count = len(shown.alike)
        body = join([body, folded(f"{count} of {count + len(shown.rows)} alike", made(shown.alike))])
    name = shown.title.partition(",")[0].partition(":")[0].lower().replace(" ", "-")
    return PagePart(name, shown.title, [shown.about] if shown.about else [], body)


def _named(name: str) -> str:
    """The name of a row; that of a metric with its meaning."""
    meaning = QUANTITIES[name].meaning if name in QUANTITIES else ""
    return Markup(f'<span title="{join([meaning])}">{join([name])}</span>') if meaning else name
