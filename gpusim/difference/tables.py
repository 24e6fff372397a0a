"""A difference as tables of texts, which the terminal and the page show, and as plain text for the terminal, which has
the first rows of each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gpusim.difference.pairs import ORDER, Change, LineChange, Pairs, cells, signed, spelled, times
from gpusim.results.sentences import WIDTH
from gpusim.results.table import number
from gpusim.units import cut, joule_text

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
    for title, changes in (("Launch", difference.launch), ("Configuration", difference.configuration)):
        if changes:
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


# --- plain text of at most 100 columns --------------------------------------------------------------------------------


_LABEL, _CELL, _LEAST, _LONGEST = 48, 13, 9, 24


def render(difference: Pairs, why: Sequence[str]) -> str:
    """The text with its sentences, without a line break at its end."""
    lines = [cut(f"{name}   {run.heading}") for name, run in (("A", difference.a), ("B", difference.b))]
    lines += ["", *map(_row, head(difference)), "", "Why"]
    for text in why:
        lines += textwrap.wrap(text, WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)
    metrics = False
    for table in tables(difference):
        inner = table.title in ORDER  # a section of the metrics
        if inner and not metrics:
            lines += ["", _row(("Metrics that differ", *table.head))]
        metrics = metrics or inner
        if inner:
            count = len(table.rows) + len(table.alike)
            lines.append(f"  {table.title}" + (f" ({len(table.alike)} of {count} alike)" if table.alike else ""))
        else:
            lines += ["", _row((table.title, *table.head))]
        lines += _rows(table, "    " if inner else "  ")
    return "\n".join(line.rstrip() for line in lines)


def _rows(table: Table, indent: str = "  ") -> Iterator[str]:
    yield from (_row((indent + name, *cells)) for name, *cells in table.rows[: table.most])
    if len(table.rows) > table.most:
        yield f"{indent}and {len(table.rows) - table.most} more (--json)"


def _row(row: Row) -> str:
    """The name of a row and its cells, which stand closer behind the long name of a metric, since that is looked up. Of
    a long value its end is shown, which tells names of one family apart."""
    name, *cells = row
    name = name if " " not in name.strip() else cut(name, _LABEL - 1)
    full = _LABEL + _CELL * len(cells)
    width = max(min(_CELL, (full - len(name)) // len(cells)), _LEAST) - 1
    ends = (each if len(each) <= _LONGEST else f"...{each[3 - _LONGEST :]}" for each in cells)
    block = "".join(f" {each:>{width}}" for each in ends)
    return cut(name + block.rjust(full - len(name)))
