"""Scores of a comparison, its table, and its rows in a journal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from validate.points import ProgramPoint
from validate.replay import Comparison, Failure

Row = Comparison | Failure
_FORMS: dict[type, TypeAdapter[Any]] = {each: TypeAdapter(each) for each in (Comparison, Failure)}
"""How rows of each kind are written and read."""

HEAD = (
    f"{'point':36s} {'warp inst':>10s} {'exact':>7s} {'measured':>9s} {'spread':>7s} {'predicted':>10s} {'error':>8s} "
    f"{'warm':>9s} {'predicted':>10s} {'error':>8s}"
)
TIMED_HEAD = f"{HEAD} {'s':>6s}"


def line(row: Row, *, timed: bool = False) -> str:
    """One point as a line of the table under `HEAD`, or under `TIMED_HEAD` with the seconds that its simulation took,
    and a line for everything about it that is wrong."""
    if isinstance(row, Failure):
        return f"{row.point!s:36s} FAILED {row.reason}"
    exact = f"{len(row.exact) - len(row.differing)}/{len(row.exact)}"
    text = (
        f"{row.point!s:36s} {row.instructions:10d} {exact:>7s} {row.cycles.measured:9.0f} "
        f"{row.spread.relative:7.1%} {row.cycles.predicted:10.0f} {row.error:+8.1%} "
    )
    warm = row.warm
    text += f"{warm.cycles.measured:9.0f} {warm.cycles.predicted:10.0f} {warm.error:+8.1%}" if warm else f"{'':29s}"
    text += f" {row.seconds:6.1f}" if timed else ""
    for name, pair in row.differing.items():
        text += f"\n    {name}: measured {number(pair.measured)}, predicted {number(pair.predicted)}"
    if row.mismatch:
        text += f"\n    wrong output: {row.mismatch}"
    return text


@dataclass(frozen=True)
class Errors:
    """Errors of some points, relative to what was measured: mean, median, 90th percentile and greatest of the absolute
    ones, and the mean of the signed ones (`bias`: positive is predicted too high)."""

    points: int
    mean: float
    median: float
    p90: float
    worst: float
    worst_point: str
    bias: float

    @classmethod
    def of(cls, found: Sequence[tuple[ProgramPoint, float]]) -> Errors | None:
        """Those of the signed errors of points; None without any."""
        if not found:
            return None
        absolute = [abs(error) for _, error in found]
        worst = max(absolute)
        return cls(
            points=len(found),
            mean=statistics.fmean(absolute),
            median=statistics.median(absolute),
            p90=p90(absolute),
            worst=worst,
            worst_point=str(found[absolute.index(worst)][0]),
            bias=statistics.fmean(error for _, error in found),
        )


def p90(values: Sequence[float]) -> float:
    """The smallest of the values that nine of ten do not exceed."""
    return float(np.quantile(values, 0.9, method="inverted_cdf"))


def log_correlation(measured: Sequence[float], predicted: Sequence[float]) -> float | None:
    """Pearson's correlation of the logarithms; None where there is none (fewer than two different values)."""
    pairs = [(math.log(a), math.log(b)) for a, b in zip(measured, predicted, strict=True) if a > 0 and b > 0]
    try:
        return statistics.correlation([a for a, _ in pairs], [b for _, b in pairs])
    except statistics.StatisticsError:
        return None


def complete(found: Mapping[ProgramPoint, Row], points: Sequence[ProgramPoint]) -> list[Row]:
    """The row of each point; one that was not compared is a failure, so that nothing goes unnoticed."""
    return [found.get(point) or Failure(point, "not compared") for point in points]


def ok(rows: Sequence[Row]) -> bool:
    """Return whether every point could be compared and everything that must be equal is."""
    return bool(rows) and all(isinstance(row, Comparison) and row.ok for row in rows)


def number(value: float) -> str:
    """Counts in full, other numbers to the second decimal, as ncu prints them."""
    return str(int(value)) if float(value).is_integer() else f"{value:.2f}"


def plain(row: Row) -> dict[str, Any]:
    """A row as plain values, as a journal keeps it."""
    names = dict.fromkeys(("key", "point"), str(row.point))
    return _FORMS[type(row)].dump_python(row, exclude={"point"}) | names  # type: ignore[no-any-return]


def row_of(document: Mapping[str, Any], point_of: Callable[[str], ProgramPoint] = ProgramPoint.parse) -> Row:
    """The row that `plain` made these values of; point_of: the point by its name. Raises KeyError, TypeError or
    ValueError if it did not."""
    form = _FORMS[Failure if "reason" in document else Comparison]
    return form.validate_python({**document, "point": point_of(document["point"])})  # type: ignore[no-any-return]
