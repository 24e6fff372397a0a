"""Every picture that a result has something for, written into a folder, around the part of a trace to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpusim.plot.accesses import bank_wavefronts, coalescing, worst_global, worst_shared
from gpusim.plot.lanes import MOST_LABELS, divergence_tree, lane_activity
from gpusim.plot.launches import energy_breakdown, occupancy_calculator, roofline, stall_breakdown
from gpusim.plot.style import first_warp, save
from gpusim.plot.timelines import scheduler_timeline, sm_residency
from gpusim.result import Result
from gpusim.tracing.perfetto import Trace

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


OF_RESULT: Mapping[str, Callable[[Result], Any]] = {
    "roofline": roofline,
    "stalls": stall_breakdown,
    "energy": energy_breakdown,
    "occupancy": occupancy_calculator,
}
"""Pictures of a result, by the name of their file."""
Cycles = tuple[int, int] | None
OF_TRACE: Mapping[str, Callable[[Trace, Cycles], Any]] = {
    "lanes": lambda trace, cycles: _lanes(trace, interesting(trace, cycles)),
    "divergence": lambda trace, cycles: _tree(trace, interesting(trace, cycles)),
    "banks": lambda trace, cycles: bank_wavefronts(trace, worst_shared(trace, cycles)),
    "coalescing": lambda trace, cycles: coalescing(trace, worst_global(trace, cycles)),
    "schedulers": lambda trace, cycles: _schedulers(trace, cycles),
    "residency": lambda trace, _: sm_residency(trace),
}
"""Pictures of its trace, in a window of cycles."""


def write_all(result: Result, folder: str | Path, kind: str = "png", cycles: Cycles = None) -> list[Path]:
    """Write every picture of a result and its trace, if it has one; returns the files.

    folder: made if need be; kind: 'png', 'svg' or 'pdf'. Pictures of lanes begin where lanes first part, if any do;
    cycles: a window of the launch, from the first to before the last, in which they and those of accesses and warps
    look then. A picture with nothing to show, such as banks where shared memory is not used, is left out.

    Raises ValueError for a window in which nothing was recorded.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {name: partial(draw, result) for name, draw in OF_RESULT.items()}
    if result.trace is not None:
        if cycles is not None:
            interesting(result.trace, cycles)  # refuses a window without issues, which would leave out all
        wanted |= {name: partial(draw, result.trace, cycles) for name, draw in OF_TRACE.items()}
    written = []
    for name, draw in wanted.items():
        try:
            drawn = draw()
        except ValueError:  # nothing to show, in the words of the figure
            continue
        written.append(save(drawn, folder / f"{name}.{kind}"))
    return written


def _lanes(trace: Trace, part: View) -> Any:
    return lane_activity(trace, part.warp, part.first, min(part.issues, MOST_LABELS // 2))


def _tree(trace: Trace, part: View) -> Any:
    return divergence_tree(trace, part.warp, first=part.first, count=part.issues)


def _schedulers(trace: Trace, cycles: Cycles) -> Any:
    if cycles is None:
        return scheduler_timeline(trace)
    return scheduler_timeline(trace, start=cycles[0], cycles=cycles[1] - cycles[0])
