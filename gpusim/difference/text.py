"""The difference as plain text of at most 100 columns, for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from functools import partial

from gpusim.difference.pairs import Change, Pairs, cells, signed, spelled, times
from gpusim.results.sentences import WIDTH, cut
from gpusim.results.table import number
from gpusim.units import aligned

_METRICS, _STALLS, _FINDINGS, _LINES, _KEYS = 5, 6, 10, 8, 12


def render(difference: Pairs, why: Sequence[str]) -> str:
    """The text with its sentences, without a line break at its end."""
    parts = (_launch, _metrics, _stalls, _findings, _lines)
    lines = [*_head(difference), *_why(why), *(line for part in parts for line in part(difference))]
    return "\n".join(line.rstrip() for line in lines)


def _head(difference: Pairs) -> Iterator[str]:
    for name, run in (("A", difference.a), ("B", difference.b)):
        yield cut(f"{name}   {run.heading}")
    yield ""
    for quantity, change in difference.numbers.values():
        if (change.a, change.b) != (None, None):
            yield _columns(quantity.head, *cells(change, partial(number, unit=quantity.unit)))


def _columns(label: str, *cells: str) -> str:
    return cut(f"{label:<48}" + "".join(f"{each:>13}" for each in cells))


def _why(why: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "Why"
    for text in why:
        lines = textwrap.wrap(text, WIDTH - 4, break_on_hyphens=False)
        yield from (f"  {'-' if k == 0 else ' '} {line}" for k, line in enumerate(lines))


def _launch(difference: Pairs) -> Iterator[str]:
    for title, rows in difference.described:
        yield ""
        yield f"{title:<48}{'A':>25}{'B':>25}"
        for each in rows[:_KEYS]:
            yield cut(aligned((f"  {each.name}", -48), (_end(spelled(each.a)), 25), (_end(spelled(each.b)), 25)))
        yield from _more(rows, _KEYS)


def _end(text: str) -> str:
    """The end of a long value, which tells names of one family apart."""
    return text if len(text) <= 24 else "..." + text[-21:]


def _more(rows: Sequence[object], shown: int) -> Iterator[str]:
    if len(rows) > shown:
        yield f"  and {len(rows) - shown} more (--json)"


def _metrics(difference: Pairs) -> Iterator[str]:
    yield ""
    yield _columns("Metrics that differ", "A", "B", "B / A")
    for section, differing, alike in difference.sections:
        yield f"  {section}" + (f" ({len(alike)} of {len(alike) + len(differing)} alike)" if alike else "")
        for each in differing[:_METRICS]:
            yield _metric(each)
        if len(differing) > _METRICS:
            yield f"    and {len(differing) - _METRICS} more (--json)"


def _metric(change: Change) -> str:
    cells = "".join(f"{each:>13}" for each in (spelled(change.a), spelled(change.b), times(change)))
    name = f"    {change.name}"
    # Nsight Compute's names are long, and they are what is looked up: rather the columns give way.
    return f"{name}{cells.lstrip().rjust(WIDTH - 1 - len(name))}" if len(name) > WIDTH - 40 else f"{name:<60}{cells}"


def _stalls(difference: Pairs) -> Iterator[str]:
    yield ""
    yield _columns("Stall reasons, cycles per instruction", "A", "B", "B - A")
    both = [Change("all together", difference.a.latency, difference.b.latency), *difference.stalls[:_STALLS]]
    for each in both:
        yield _columns(f"  {each.name}", f"{each.a:.2f}", f"{each.b:.2f}", signed(each.difference, 2))
    yield from _more(difference.stalls, _STALLS)


def _findings(difference: Pairs) -> Iterator[str]:
    if not difference.findings:
        return
    yield ""
    yield _columns("Advice: share of the launch", "A", "B", "cycles saved", "")
    for each in difference.findings[:_FINDINGS]:
        name, *numbers, state = each.cells
        yield _columns(f"  {name}", *numbers, "" if state == "same" else state)
    yield from _more(difference.findings, _FINDINGS)


def _lines(difference: Pairs) -> Iterator[str]:
    rows = difference.changed_lines
    if not rows:
        return
    yield ""
    yield f"{'Source lines':<16}{'A cycles':>14}{'B cycles':>14}{'conflicts':>18}  line"
    for each in rows[:_LINES]:
        conflicts = each.of("conflicts")
        shown = f"{conflicts.a:,} -> {conflicts.b:,}" if conflicts.a or conflicts.b else ""
        a, b = ("-" if line is None else f"{line.cycles:,}" for line in (each.a, each.b))
        numbers = " -> ".join("-" if line is None else str(line.line) for line in (each.a, each.b))
        yield cut(f"{aligned((f'  {numbers}', -16), (a, 14), (b, 14), (shown, 18))}  {each.text}")
    yield from _more(rows, _LINES)
