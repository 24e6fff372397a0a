"""What the blocks of a collective do, slice by slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.collectives.result import CollectiveResult, Step
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREEN, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP_COLOURS = {"sends its own": ORANGE, "receives and sends on": BLUE, "receives": GREEN}
"""Colour of each kind of step."""


@style.styled
def collective_steps(result: CollectiveResult, channel: int = 0, ax: Axes | None = None) -> Axes:
    """The steps of one channel: a row for each rank's block, a rectangle from when a slice could be worked on until it
    was handed on. White is waiting: for slices to come, or for room where they go.

    result: of `gpusim.collective(..., trace=True)`. `ax.collections` has a collection for each kind of step
    (`get_label()`), with a rectangle for each of the channel's `result.steps`.

    Raises ValueError for a result without a trace, and for a channel that it does not have.

    >>> import gpusim
    >>> ax = gpusim.plot.collective_steps(gpusim.collective("all_gather", 1 << 22, 4, trace=True))
    >>> [each.get_label() for each in ax.collections]
    ['sends its own', 'receives and sends on', 'receives']
    """
    if not result.steps:
        raise ValueError("the collective was not traced: gpusim.collective(..., trace=True)")
    steps = [step for step in result.steps if step.channel == channel]
    if not steps:
        known = sorted({step.channel for step in result.steps})
        raise ValueError(f"there is no channel {channel}; there are {known[0]} to {known[-1]}")
    ranks = sorted({step.rank for step in steps})
    row = {rank: k for k, rank in enumerate(ranks)}
    begin = result.launch_us + result.start_us
    ax = style.new_axes(ax, min(1.9 + 0.34 * max(len(ranks), 3), 9.0))
    last = max(step.end_us for step in steps)
    for kind, colour in STEP_COLOURS.items():
        mine = [step for step in steps if _kind(step) == kind]
        if mine:
            left = begin + np.array([step.start_us for step in mine])
            right = begin + np.array([step.end_us for step in mine])
            at = np.array([row[step.rank] for step in mine])
            gap = np.minimum(0.0016 * result.time_us, (right - left) / 4)
            style.rectangles(ax, left, right - gap, at - 0.38, at + 0.38, colour, kind)
    ax.set(xlim=(0, result.time_us), ylim=(len(ranks) - 0.5, -0.5))
    ax.axvline(begin, color="black", linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(ranks)), [f"gpu{rank}" for rank in ranks], fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("microseconds since the call; dotted: the blocks have started")
    busy = sum(step.end_us - step.start_us for step in steps) / (last * len(ranks))
    what = f"{result.name} of {style.scaled(result.nbytes, 'B', 0)} on {result.ranks} GPUs"
    title = f"channel {channel} of {result.channels} of {what}, {result.algorithm} with {result.protocol}"
    ax.set_title(f"{title[0].upper()}{title[1:]}: {result.time_us:,.1f} us")
    style.legend_below(ax, list(ax.collections), 3)
    style.describe(
        ax,
        f"Steps of {title}: {len(steps):,} steps of at most {max(step.bytes for step in steps):,} bytes in "
        f"{result.time_us:,.1f} us, of which {begin:.1f} us before the blocks have started; from then on they work "
        f"{busy:.0%} of the time.",
    )
    return ax


def _kind(step: Step) -> str:
    if step.receives:
        return "receives and sends on" if step.sends else "receives"
    return "sends its own"
