"""Every picture that a result has something for, written into a folder, around the part of a trace to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.plot.accesses import bank_wavefronts, coalescing
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


def first_divergence(trace: Trace) -> tuple[int, int] | None:
    """(warp, place among its issues) of the first instruction that lanes of a traced warp issue which have parted from
    others; None if there is none."""
    found: list[tuple[int, int, int]] = []
    for warp in np.unique(trace.issues["warp"]).tolist():
        rows = trace.of_warp(warp)
        if (rows["active"] == rows["active"][0]).all():
            continue
        parted = [group.rows[0] for group in trace.reconvergence(warp) if group.parent >= 0]
        found += [(int(rows["cycle"][row]), warp, row) for row in parted]
    return min(found)[1:] if found else None


def _where_lanes_part(draw: Callable[..., Any], issues: int, trace: Trace) -> Any:
    """A picture of so many issues of one warp: around the first divergence, or else its first ones."""
    warp, place = first_divergence(trace) or (first_warp(trace), 0)
    return draw(trace, warp, first=max(place - _BEFORE, 0), count=issues)


OF_RESULT: Mapping[str, Callable[[Result], Any]] = {
    "roofline": roofline, "stalls": stall_breakdown, "energy": energy_breakdown, "occupancy": occupancy_calculator,
}  # fmt: skip
"""Pictures of a result, by the name of their file."""
OF_TRACE: Mapping[str, Callable[[Trace], Any]] = {
    "lanes": partial(_where_lanes_part, lane_activity, MOST_LABELS // 2),
    "divergence": partial(_where_lanes_part, divergence_tree, MOST_ISSUES),
    "banks": bank_wavefronts, "coalescing": coalescing, "schedulers": scheduler_timeline, "residency": sm_residency,
}  # fmt: skip
"""Pictures of its trace."""


def write_all(result: Result, folder: str | Path, kind: str = "png") -> list[Path]:
    """Write every picture of a result and its trace, if it has one; returns the files.

    folder: made if need be; kind: 'png', 'svg' or 'pdf'. Pictures of lanes begin where lanes first part, if any do. A
    picture with nothing to show, such as banks where shared memory is not used, is left out.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {name: partial(draw, result) for name, draw in OF_RESULT.items()}
    if result.trace is not None:
        wanted |= {name: partial(draw, result.trace) for name, draw in OF_TRACE.items()}
    written = []
    for name, draw in wanted.items():
        try:
            drawn = draw()
        except ValueError:  # nothing to show, in the words of the figure
            continue
        written.append(save(drawn, folder / f"{name}.{kind}"))
    return written
