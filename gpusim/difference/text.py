"""The difference as plain text of at most 100 columns, for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gpusim.difference.pairs import ORDER, Pairs
from gpusim.difference.tables import Row, Table, head, tables
from gpusim.results.sentences import WIDTH, cut

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
        lines += _section(table) if inner else ["", _row((table.title, *table.head)), *_rows(table)]
    return "\n".join(line.rstrip() for line in lines)


def _section(table: Table) -> Iterator[str]:
    count = len(table.rows) + len(table.alike)
    yield f"  {table.title}" + (f" ({len(table.alike)} of {count} alike)" if table.alike else "")
    yield from _rows(table, "    ")


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
