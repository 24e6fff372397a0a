"""A measured number beside the simulated one: the row of small comparisons, their table and their summary."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A measured number and the simulated one, in microseconds unless the comparison says otherwise.

    group: line of the summary in which it counts. case: name within the group. point: what it is of, as values.
    limit: greatest error that passes. gap: why the error may be greater, if that is known. calibrated: the model has a
    value from it, so that it does not judge. spread: of the measured numbers, the largest over the smallest less one.
    scale: what the error is relative to, by default the measured number.
    """

    group: str
    case: str
    measured: float
    simulated: float
    point: tuple[Any, ...] = ()
    limit: float = 0.1
    gap: str | None = None
    calibrated: bool = False
    spread: float | None = None
    scale: float | None = None

    @property
    def error(self) -> float:
        """Signed, of the simulated number: 0.1 means a tenth too much."""
        return (self.simulated - self.measured) / (self.scale or self.measured)

    @property
    def within(self) -> bool:
        """True if the absolute error is at most the limit."""
        return abs(self.error) <= self.limit

    @property
    def verdict(self) -> str:
        """'off' beyond the limit without a known reason, 'closed gap' within it despite one, otherwise ''."""
        if self.within or self.calibrated:
            return "closed gap" if self.gap else ""
        return "" if self.gap else "off"


HEAD = f"{'group':<34} {'case':<66} {'measured':>12} {'simulated':>12} {'error':>8} {'spread':>7}"


def line(row: Compared) -> str:
    """A row of the table under `HEAD`."""
    spread = "" if row.spread is None else f"{row.spread:7.1%}"
    note = "calibrates" if row.calibrated else row.verdict or ("" if row.within else "known gap")
    numbers = f"{_short(row.measured):>12} {_short(row.simulated):>12}"
    return f"{row.group:<34} {row.case:<66} {numbers} {row.error:>+8.1%} {spread:>7} {note}".rstrip()


def _short(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def summary(rows: Iterable[Compared]) -> str:
    """A line for each group of the rows that judge: points, those within their limit, mean error with its sign (bias)
    and without, median, and the worst and where it is."""
    judging: dict[str, list[Compared]] = {}
    for row in rows:
        if not row.calibrated:
            judging.setdefault(row.group, []).append(row)
    lines = [f"{'judged':<34} {'points':>6} {'within':>6} {'bias':>7} {'mean':>7} {'median':>7} {'worst':>7}  worst at"]
    for group, found in judging.items():
        errors = [row.error for row in found]
        sizes, worst = [abs(error) for error in errors], max(found, key=lambda row: abs(row.error))
        lines.append(
            f"{group:<34} {len(found):>6} {sum(row.within for row in found):>6} {statistics.mean(errors):>+7.1%} "
            f"{statistics.mean(sizes):>7.1%} {statistics.median(sizes):>7.1%} {worst.error:>+7.1%}  {worst.case}"
        )
    return "\n".join(lines)


def outside(rows: Iterable[Compared]) -> tuple[bool, list[str]]:
    """Return True if a row that judges is off without a known reason, and a line for each that exceeds its limit."""
    found = [row for row in rows if not row.within and not row.calibrated]
    known = (f"known: {row.gap}" if row.gap else "NOT KNOWN" for row in found)
    lines = [f"outside: {row.case}, {row.error:+.1%}; {how}" for row, how in zip(found, known, strict=True)]
    return any(row.gap is None for row in found), lines


def show(
    rows: Iterable[Any], head: str = HEAD, line: Callable[[Any], str] = line, report: Callable[[Any], str] = summary
) -> list[Any]:
    """Print the table as its rows come, then the summary; returns the rows."""
    print(head, flush=True)
    kept = []
    for row in rows:
        print(line(row), flush=True)
        kept.append(row)
    print(f"\n{report(kept)}")
    return kept
