"""Every picture that a result has something for, written into a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gpusim.plot.accesses import bank_wavefronts, coalescing, worst_global, worst_shared
from gpusim.plot.lane_map import MOST_LABELS, lane_activity
from gpusim.plot.launches import energy_breakdown, occupancy_calculator, stall_breakdown
from gpusim.plot.roofs import roofline
from gpusim.plot.style import save
from gpusim.plot.timelines import scheduler_timeline, sm_residency
from gpusim.plot.tree import divergence_tree
from gpusim.plot.windows import View, interesting
from gpusim.result import Result
from gpusim.tracing.trace import Trace

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
