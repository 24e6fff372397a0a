"""What the text and the page of a difference show, as tables of texts: the same rows, of which a terminal shows the
first ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gpusim.difference.pairs import Change, LineChange, Pairs, cells, signed, spelled, times
from gpusim.results.table import number
from gpusim.units import joule_text

Row = Sequence[str]


@dataclass(frozen=True)
class Table:
    """head: titles of the columns behind the first one, which names the rows. alike: rows that hardly differ, which the
    terminal leaves out. most: rows that it shows. about: a sentence for the page."""

    title: str
    head: Row
    rows: Sequence[Row]
    alike: Sequence[Row] = ()
    most: int = 8
    about: str = ""


def head(difference: Pairs) -> list[Row]:
    """The numbers of the launch: A, B, their ratio and difference."""
    return [
        [quantity.head, *cells(change, partial(number, unit=quantity.unit))]
        for quantity, change in difference.numbers.values()
        if (change.a, change.b) != (None, None)
    ]


def tables(difference: Pairs) -> Iterator[Table]:
    """All tables that have rows, in the order in which they are shown."""
    for title, changes in difference.described:
        yield Table(title, ("A", "B"), [(each.name, spelled(each.a), spelled(each.b)) for each in changes], most=12)
    for section, differing, alike in difference.sections:
        yield Table(section, ("A", "B", "B / A"), [*map(_metric, differing)], [*map(_metric, alike)], 5)
    stalls = [Change("all together", difference.a.latency, difference.b.latency), *difference.stalls]
    title, about = "Stall reasons, cycles per instruction", "Warp cycles per issued instruction."
    rows = [(each.name, f"{each.a:.2f}", f"{each.b:.2f}", signed(each.difference, 2)) for each in stalls]
    yield Table(title, ("A", "B", "B - A"), rows, most=7, about=about)
    if difference.energy_parts:
        parts = [(each.name, *cells(each, joule_text)) for each in difference.energy_parts]
        yield Table("Energy by unit", ("A", "B", "B / A", "B - A"), parts, most=4)
    if difference.findings:
        about = "Shares of the launch that each cause takes, and the cycles that B saves."
        heads = "A", "B", "cycles saved", ""
        yield Table(
            "Advice: share of the launch", heads, [each.cells for each in difference.findings], most=10, about=about
        )
    if difference.changed_lines:
        heads = "A", "B", "B / A", "conflicts"
        yield Table("Source lines, warp cycles", heads, [_line(each) for each in difference.changed_lines])


def _metric(change: Change) -> Row:
    return change.name, spelled(change.a), spelled(change.b), times(change)


def _line(change: LineChange) -> Row:
    numbers = " -> ".join("-" if line is None else str(line.line) for line in (change.a, change.b))
    cycles, conflicts = change.cycles, change.of("conflicts")
    both = f"{conflicts.a:,} -> {conflicts.b:,}" if conflicts.a or conflicts.b else ""
    return f"{numbers}  {change.text.strip()}", f"{cycles.a:,}", f"{cycles.b:,}", times(cycles), both
