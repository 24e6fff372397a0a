"""Where in a trace to look: a window of cycles, and the first place in it where the lanes of a warp part."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.plot.words import first_warp
from gpusim.tracing.trace import Trace

_BEFORE = 8
"""Issues that are shown before the first one of lanes that have parted."""
MOST_ISSUES = 400
"""Issues of a warp that one picture tells apart."""


class View(NamedTuple):
    """Issues of a warp: from `first` on, by place among its own, so many `issues`."""

    warp: int
    first: int
    issues: int


def first_divergence(trace: Trace, start: int = 0, end: int | None = None) -> tuple[int, int] | None:
    """(warp, place among its issues) of the first instruction between two cycles that lanes of a traced warp issue
    which have parted from others; None if there is none."""
    found: list[tuple[int, int, int]] = []
    for warp in np.unique(trace.issues["warp"]).tolist():
        rows = trace.of_warp(warp)
        if (rows["active"] == rows["active"][0]).all():
            continue
        parted = [group.rows[0] for group in trace.reconvergence(warp) if group.parent >= 0]
        cycles = [(int(rows["cycle"][row]), warp, row) for row in parted]
        found += [each for each in cycles if start <= each[0] and (end is None or each[0] < end)]
    return min(found)[1:] if found else None


def interesting(trace: Trace, cycles: tuple[int, int] | None = None) -> View:
    """The issues of one warp to look at: around the first divergence, or else its first ones in the window.

    cycles: a window, from the first to before the last; None for the whole trace. Raises ValueError if no issue in it
    was recorded.
    """
    start, end = cycles if cycles is not None else (0, trace.until + 1)
    there = trace.issues[(trace.issues["cycle"] >= start) & (trace.issues["cycle"] < end)]
    if not len(there):
        raise ValueError(f"no issue in cycles {start:,} to {end:,} was recorded; the trace ends at {trace.until:,}")
    parted = first_divergence(trace, start, end)
    warp = parted[0] if parted else first_warp(trace) if cycles is None else int(there["warp"][0])
    low, high = np.searchsorted(trace.of_warp(warp)["cycle"], (start, end)).tolist()
    if parted and (cycles is None or high - low > MOST_ISSUES):
        low = max(low, parted[1] - _BEFORE)
    return View(warp, low, min(high - low, MOST_ISSUES))
