"""Which points are worth a simulation, by their analytical bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpusim.explore.evaluate import machine
from gpusim.explore.point import Pairs, Point

Row = dict[str, Any]


def screened(
    points: Mapping[str, Point], known: Mapping[str, Row], bounds: Iterable[Row], factor: float
) -> tuple[list[Point], list[Row]]:
    """The points to simulate, and the rows that are final as they are: too slow by their bound, or failed.

    known: rows that are finished already; they count for the best. A point without a bound is simulated.
    """
    new = list(bounds)
    times = {row["key"]: _time_us(points[row["key"]], row) for row in (*known.values(), *new)}
    best: dict[tuple[str, Pairs], float] = {}
    for key, time_us in times.items():
        if time_us is not None:
            kind = points[key].program, points[key].parameters
            best[kind] = min(best.get(kind, time_us), time_us)
    chosen, rest = [], []
    for row in new:
        point, time_us = points[row["key"]], times[row["key"]]
        if row["error"] is not None:
            rest.append(row)
        elif time_us is None or time_us <= factor * best[point.program, point.parameters]:
            chosen.append(point)
        else:
            rest.append(row)
    order = {key: index for index, key in enumerate(points)}
    return sorted(chosen, key=lambda point: order[point.key]), rest


def _time_us(point: Point, row: Row) -> float | None:
    """What a bound means in time: clocks may differ between points."""
    cycles = row["bound_cycles"]
    return None if cycles is None else machine(point).time_us(cycles)
