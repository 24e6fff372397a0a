"""What every comparison of times has: an error, what follows from it, and how a known gap is told."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any


class Compared:
    """A base of rows with a recorded and a simulated time, in microseconds. gap: why it may be outside, if that is
    known."""

    recorded_us: float
    simulated_us: float

    @property
    def error(self) -> float:
        """Signed, of the simulated time: 0.1 means a tenth too slow."""
        return self.simulated_us / self.recorded_us - 1

    @property
    def gap(self) -> str | None:
        return None

    @property
    def judgement(self) -> dict[str, Any]:
        """What follows from the numbers, for JSON."""
        return {"error": self.error}


def known(gap: str | None) -> str:
    """How a row outside its limit is told."""
    return f"known: {gap}" if gap else "NOT KNOWN"


def sizes(rows: Iterable[Compared]) -> tuple[float, float, float]:
    """Mean, median and greatest of the errors, without their signs."""
    errors = [abs(row.error) for row in rows]
    return statistics.mean(errors), statistics.median(errors), max(errors)
