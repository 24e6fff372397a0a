"""Lane activity: which lanes of a warp run each instruction that it issues, with the source line beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import LIGHT, PALE, UNIT_COLOURS
from gpusim.plot.words import cut, first_warp, source, until
from gpusim.results.limiter import PIPES
from gpusim.tracing.trace import Trace
from isa import microops as M

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

UNITS = tuple(PIPES)
"""Execution pipe of each colour: cell value minus 2."""
MOST_LABELS = 100
OFF, GUARDED = 0, 1
"""Values of cells: the lane is not active; it is, but its guard predicate does not hold."""


@style.styled
def lane_activity(
    trace: Trace, warp: int | None = None, first: int = 0, count: int = 48, ax: Axes | None = None
) -> Axes:
    """Lanes of a warp over the instructions that it issues, from top to bottom.

    warp: its number in `trace.warps`, None for the first; first, count: which of its issues, by place. A cell has the
    colour of the execution pipe if its lane runs the instruction, is grey if the lane is active but its guard predicate
    does not hold, and empty if the lane is elsewhere: on the other side of a branch, or ended.

    `ax.images[0].get_array()` has a row for each issue: 0 inactive, 1 guarded off, 2 and more for `UNITS`. Of a whole
    launch, cells above 0 are `smsp__thread_inst_executed.sum`, those above 1 the same with `_pred_on`.

    Raises ValueError if the warp was not traced or has no such issues.
    """
    warp = first_warp(trace) if warp is None else warp
    rows = trace.of_warp(warp)[first : first + count]
    if not len(rows):
        raise ValueError(f"no issues of warp {warp} from {first} on were recorded")
    cells = _cells(trace, rows)
    ax = style.new_axes(ax, 1.7 + 0.145 * min(max(len(rows), 8), MOST_LABELS))
    shown = _draw(ax, cells)
    _label(ax, trace, rows, first)
    total = len(trace.of_warp(warp))
    active, on = int((cells > OFF).sum()), int((cells > GUARDED).sum())
    span = f"issues {first:,} to {first + len(rows) - 1:,} of {total:,}"
    mean = active / len(rows)
    who = f"{cut(trace.program.name, 40)}, {trace.warp_label(warp)}"
    return style.finish(
        ax,
        f"{who}: {span}, {mean:.1f} of 32 lanes active{until(trace)}",
        f"Lane activity of {trace.program.name}, {trace.warp_label(warp)}, {span}: {mean:.1f} of 32 lanes are active "
        f"on average and {on / len(rows):.1f} execute; {int((cells == OFF).any(axis=1).sum())} of {len(rows)} "
        "instructions run with lanes switched off.",
        x="lane", y="instruction, in order of issue", legend=shown, columns=6,
    )  # fmt: skip


def _cells(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """int64 [issues, 32]: values as `lane_activity` says."""
    units = trace.code[rows["pc"], M.COL_UNIT]
    colour = np.array([2 + UNITS.index(unit) if unit in UNITS else 2 for unit in units.tolist()], np.int64)
    lane = np.arange(32)
    active = (rows["active"].astype(np.int64)[:, None] >> lane) & 1
    executed = (rows["executed"].astype(np.int64)[:, None] >> lane) & 1
    return np.where(executed == 1, colour[:, None], active * GUARDED)


def _draw(ax: Axes, cells: np.ndarray) -> list[Artist]:
    """The cells; returns what the legend shows."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours = [PALE, LIGHT, *(UNIT_COLOURS[unit] for unit in UNITS)]
    ax.imshow(
        cells, cmap=ListedColormap(colours), vmin=0, vmax=len(colours) - 1, aspect="auto", interpolation="nearest"
    )
    ax.set_xticks(np.arange(-0.5, 32), minor=True)
    ax.set_yticks(np.arange(-0.5, len(cells)), minor=True)
    ax.grid(which="minor", color="white", linewidth=1.0 if len(cells) <= MOST_LABELS else 0.2)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)
    used = [unit for k, unit in enumerate(UNITS, 2) if (cells == k).any()]
    shown: list[Artist] = [Patch(color=UNIT_COLOURS[unit], label=f"{PIPES[unit]} pipe") for unit in used]
    if (cells == GUARDED).any():
        shown.append(Patch(color=LIGHT, label="guard does not hold"))
    if (cells == OFF).any():
        shown.append(Patch(color=PALE, label="not active"))
    return shown


def _label(ax: Axes, trace: Trace, rows: np.ndarray, first: int) -> None:
    ax.set_xticks(range(0, 32, 4))
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    every = -(-len(rows) // MOST_LABELS)
    places = range(0, len(rows), every)
    ax.set_yticks(places, [f"{trace.instructions[rows['pc'][k]].opcode}  {first + k}" for k in places], fontsize=7)
    before: object = None
    free = 0  # the first row that another line's text leaves free
    for k, pc in enumerate(rows["pc"].tolist()):
        instruction = trace.instructions[pc]
        line = (instruction.file, instruction.line)
        if line != before and k >= free:
            free = k + every
            text = source(trace, pc, 58) if instruction.line is not None else ""
            ax.annotate(
                text, (1, k), (8, 0), xycoords=ax.get_yaxis_transform(), textcoords="offset points",
                va="center", fontsize=7.5, family="DejaVu Sans Mono", annotation_clip=False,
            )  # fmt: skip
            beside = ax.get_yaxis_transform()
            ax.plot([1.002, 1.015], [k - 0.5] * 2, color=LIGHT, transform=beside, clip_on=False, linewidth=0.8)
        before = line
