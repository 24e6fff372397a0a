"""What a sweep found, in a few lines: the best and the worst machine for each program, and what failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.explore.evaluate import BOUNDS, RESULTS
from gpusim.explore.point import Point

Row = Mapping[str, Any]
_NOT_A_CHOICE = {"key", "program", "seconds", "error", *RESULTS, *BOUNDS}


@dataclass(frozen=True)
class Extremes:
    """The points of one program with the same parameters: how many succeeded, the fastest and the slowest."""

    program: str
    points: int
    best: Row
    worst: Row


def extremes(points: Sequence[Point], rows: Sequence[Row], by: str = "time_us") -> list[Extremes]:
    """One for each program and parameters that has a value in the column `by`, in the order of the points."""
    kinds: dict[Any, list[Row]] = {}
    for point, row in zip(points, rows, strict=True):
        if row[by] is not None:
            kinds.setdefault((point.program, point.parameters), []).append(row)
    found = []
    for (program, _), members in kinds.items():
        order = sorted(members, key=lambda row: row[by])
        found.append(Extremes(program, len(members), order[0], order[-1]))
    return found


def choices(points: Sequence[Point]) -> list[str]:
    """Names of what is not the same in all points, but for the program."""
    seen: dict[str, set[Any]] = {}
    for point in points:
        for name, value in point.columns().items():
            if name not in _NOT_A_CHOICE:
                seen.setdefault(name, set()).add(value)
    counts = {name: sum(name in point.columns() for point in points) for name in seen}
    return [name for name, values in seen.items() if len(values) > 1 or counts[name] < len(points)]


def failures(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows with an error, by the text of the first such one, the most frequent first. Numbers tell no errors apart."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        if row["error"] is not None:
            kinds.setdefault(re.sub(r"\d[\d,.]*", "#", row["error"]), []).append(row)
    return {members[0]["error"]: members for members in sorted(kinds.values(), key=len, reverse=True)}
