"""The difference of two runs with its views: sentences, text, JSON, and an HTML page without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpusim.difference.pairs import Change, Pairs, times
from gpusim.difference.side import Run, as_run
from gpusim.difference.tables import Row, Table, render, tables
from gpusim.difference.why import sentences
from gpusim.report_html.plain import Markup, PagePart, folded, join, render_plain, table
from gpusim.result import Result
from gpusim.results import SCHEMA_VERSION
from gpusim.results.quantities import QUANTITIES
from gpusim.results.table import spelled
from isa.folders import replacing


@dataclass(frozen=True)
class Difference(Pairs):
    """Two runs, what differs between them, and why."""

    @cached_property
    def why(self) -> list[str]:
        """Sentences that say what changed and why, each with its numbers."""
        return sentences(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON. `a` and `b` are what `Run` holds of each side."""
        return {
            "schema_version": SCHEMA_VERSION,
            "a": _run(self.a),
            "b": _run(self.b),
            **{name: _plain(change) for name, (_, change) in self.numbers.items()},
            "energy_parts": [_plain(each) | {"difference": each.difference} for each in self.energy_parts],
            "why": self.why,
            "launch": [_plain(each) for each in self.launch],
            "configuration": [_plain(each) for each in self.configuration],
            "metrics": [_plain(each) for each in self.metrics],
            "stalls": [_plain(each) | {"difference": each.difference} for each in self.stalls],
            "findings": [asdict(each) | {"state": each.state} for each in self.findings],
            "lines": [asdict(each) for each in self.lines],
        }

    def report_html(self, path: str | Path) -> Path:
        """Write the difference as one HTML page and return its path. Raises OSError if that cannot be done."""
        with replacing(path) as part:
            part.write_text(render_page(self, self.why), "utf-8")
        return Path(path)

    def __str__(self) -> str:
        return render(self, self.why)


def compare_results(
    a: Result | Mapping[str, Any] | Run,
    b: Result | Mapping[str, Any] | Run,
    title_a: str | None = None,
    title_b: str | None = None,
) -> Difference:
    """Say what differs between two runs, and why.

    a, b: results, or what `Result.to_dict` gave of them, from a file for one. title_a, title_b: what was run, by
    default the program's or the kernel's name. `print` shows the difference.

    Raises NotAResult for a mapping that is no result.
    """
    return Difference(as_run(a, title_a), as_run(b, title_b))


def _run(run: Run) -> dict[str, Any]:
    found = asdict(run)
    return found.pop("numbers") | found


def _plain(change: Change) -> dict[str, Any]:
    return {name: value for name, value in asdict(change).items() if value != ""} | {"ratio": change.ratio}


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
