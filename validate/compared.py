"""What every comparison of times has: an error, what follows from it, and how a known gap is told."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A base of rows with a recorded and a simulated time, in microseconds. limit: how large the error may be. gap: why
    it may be larger, if that is known. calibrated: whether the model has a value from it, so that it does not judge."""

    recorded_us: float
    simulated_us: float
    limit: float = 0.1
    gap: str | None = None
    calibrated: bool = False

    @property
    def error(self) -> float:
        """Signed, of the simulated time: 0.1 means a tenth too slow."""
        return self.simulated_us / self.recorded_us - 1


def outside(rows: Iterable[Compared]) -> tuple[bool, list[str]]:
    """Whether a row that judges is outside its limit and not known to be, and a line for each that is outside."""
    found = [row for row in rows if abs(row.error) > row.limit and not row.calibrated]
    known = (f"known: {row.gap}" if row.gap else "NOT KNOWN" for row in found)
    lines = [f"outside: {row}, {row.error:+.1%}; {how}" for row, how in zip(found, known, strict=True)]
    return any(row.gap is None for row in found), lines


def sizes(rows: Iterable[Compared]) -> tuple[float, float, float]:
    """Mean, median and greatest of the errors, without their signs."""
    errors = [abs(row.error) for row in rows]
    return statistics.mean(errors), statistics.median(errors), max(errors)
