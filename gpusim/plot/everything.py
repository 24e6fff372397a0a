"""Every picture that a result has something for, written into a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gpusim.plot.accesses import bank_wavefronts, coalescing
from gpusim.plot.lane_map import lane_activity
from gpusim.plot.launches import occupancy_calculator, stall_breakdown
from gpusim.plot.roofs import roofline
from gpusim.plot.style import save
from gpusim.plot.timelines import scheduler_timeline, sm_residency
from gpusim.plot.tree import divergence_tree
from gpusim.result import Result
from gpusim.tracing.trace import Trace

OF_RESULT: Mapping[str, Callable[[Result], Any]] = {
    "roofline": roofline,
    "stalls": stall_breakdown,
    "occupancy": occupancy_calculator,
}
"""Pictures of a result, by the name of their file."""
OF_TRACE: Mapping[str, Callable[[Trace], Any]] = {
    "lanes": lane_activity,
    "divergence": divergence_tree,
    "banks": bank_wavefronts,
    "coalescing": coalescing,
    "schedulers": scheduler_timeline,
    "residency": sm_residency,
}
"""Pictures of its trace."""


def write_all(result: Result, folder: str | Path, kind: str = "png") -> list[Path]:
    """Write every picture of a result and its trace, if it has one; returns the files.

    folder: made if need be; kind: 'png', 'svg' or 'pdf'. A picture with nothing to show, such as banks where shared
    memory is not used, is left out.
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
