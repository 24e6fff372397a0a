"""Load of the L2 slices and memory channels: whether the addresses of a launch spread evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import GREY, LEVEL_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@style.styled
def memory_load(slices: Sequence[int] | Any, channels: Sequence[int] | Any, title: str = "") -> Figure:
    """What each slice of L2 and each channel of device memory has to do in a launch.

    slices: sectors that each L2 slice looked up, `result.slices`; channels: bytes that each channel of memory read and
    wrote, `result.channels`. The dashed line is the mean. The busiest one sets the pace, so max/mean is what an uneven
    spread costs. `figure.axes[0].patches` are the slices, `figure.axes[1].patches` the channels.

    >>> from gpusim import plot
    >>> figure = plot.memory_load([4, 4, 8, 4], [128, 128, 256, 128])
    >>> [int(bar.get_height()) for bar in figure.axes[0].patches]
    [4, 4, 8, 4]
    """
    figure = style.new_figure(5.0)
    upper, lower = figure.subplots(2, 1)
    words = [
        _bars(upper, slices, LEVEL_COLOURS["L2"], "L2 slice", "sectors looked up", 1, "sectors"),
        _bars(lower, channels, LEVEL_COLOURS["DRAM"], "memory channel", "KiB read and written", 1024, "KiB"),
    ]
    if title:
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    of = f" of {title}" if title else ""
    style.describe(figure, f"Load{of}: {'; '.join(words)}.")
    return figure


def _bars(ax: Axes, values: Any, colour: str, what: str, label: str, divisor: int, unit: str) -> str:
    """One panel; returns what it says."""
    amounts = np.asarray(values, np.int64) / divisor
    mean, most = float(amounts.mean()), float(amounts.max())
    ax.bar(range(len(amounts)), amounts, width=0.85, color=colour, linewidth=0)
    ax.axhline(mean, color=GREY, linewidth=1, linestyle="--")
    uneven = most / mean if mean else 1.0
    text = (
        f"{len(amounts)} {what}{'s' if len(amounts) != 1 else ''}: {_number(amounts.sum())} {unit}, "
        f"{_number(mean)} in the mean, {_number(most)} at most, max/mean {uneven:.2f}"
    )
    ax.set_title(text, fontsize=10)
    ax.set_xlabel(what)
    ax.set_ylabel(label)
    ax.set_xlim(-0.7, len(amounts) - 0.3)
    ax.set_ylim(0, 1.12 * most if most else 1)
    ax.grid(axis="y", alpha=0.3, linewidth=0.5, color=GREY)
    return text


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
