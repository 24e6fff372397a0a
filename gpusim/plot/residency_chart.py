"""SM residency: which block is on which SM when, in waves, and the tail at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY
from gpusim.plot.words import cut
from gpusim.tracing.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WAVES = (BLUE, ORANGE, SKY, GREEN, PURPLE)


@style.styled
def sm_residency(trace: Trace) -> Figure:
    """Every block of a launch on its SM over time, and above it how many there are at once.

    An SM's rows are the places that its blocks take, a block the first that is free; the n-th block of a place belongs
    to wave n. From the dashed line on, an SM has run out of blocks while others still work: the tail.

    `figure.axes[0].lines[0]` is the number of resident blocks, `figure.axes[1].collections` the blocks by colour, one
    rectangle each: `launch__grid_size` in all.

    Raises ValueError for a trace without blocks.

    >>> from gpusim import plot, simulate
    >>> from programs.registry import get
    >>> launch = get("vector_add").make(1 << 16, 0)
    >>> result = simulate(launch.kernel, launch.grid, launch.block, launch.args, trace=True)
    >>> figure = plot.sm_residency(result.trace)
    >>> sum(len(each.get_paths()) for each in figure.axes[1].collections) == result.metrics["launch__grid_size"]
    True
    """
    blocks = np.sort(trace.blocks, order=["sm", "start", "block"])
    if not len(blocks):
        raise ValueError("the trace has no blocks")
    sms = trace.config.sm.count
    place, turn = _places(blocks)
    places = int(place.max()) + 1
    figure = style.new_figure(6.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1, 4])
    _count(upper, blocks)
    waves = _draw(lower, blocks, place, turn)
    end, begin = int(blocks["end"].max()), int(blocks["start"].min())
    tail = _tail_start(blocks, sms)
    for ax in (upper, lower):
        ax.axvline(tail, color=INK, linewidth=1.2, linestyle="--")
        ax.set_xlim(0, trace.cycles)
    upper.annotate("tail", (tail, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points", va="top")
    lower.set(ylim=(sms - 0.5, -0.5))
    lower.set_xlabel("SM clock cycles since the launch")
    lower.set_ylabel("SM")
    share = 100 * (end - tail) / max(end - begin, 1)
    used = len(np.unique(blocks["sm"]))
    counts = f"{len(blocks):,} blocks on {used} of {sms} SMs, {places} at once on one; tail {share:.0f} % of the time"
    figure.suptitle(f"{cut(trace.program.name, 30)}: {counts}", fontsize=11, x=0.01, ha="left")
    if waves > 1:
        style.legend_below(lower, list(lower.collections), 5)
    style.describe(
        figure,
        f"SM residency of {trace.program.name}: {counts}, from cycle {tail:,} to {end:,}; the first block starts at "
        f"cycle {begin:,}.",
    )
    return figure


def _places(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place of each block on its SM, the first that is free, and how many had it before. Sorted by SM and start."""
    place = np.zeros(len(blocks), np.int64)
    turn = np.zeros(len(blocks), np.int64)
    free: list[int] = []  # end of the last block of each place
    used: list[int] = []
    sm = -1
    for k, (on, start, end) in enumerate(
        zip(blocks["sm"].tolist(), blocks["start"].tolist(), blocks["end"].tolist(), strict=True)
    ):
        if on != sm:
            sm, free, used = on, [], []
        at = next((n for n, until in enumerate(free) if until <= start), len(free))
        if at == len(free):
            free.append(0)
            used.append(0)
        place[k], turn[k] = at, used[at]
        free[at] = end
        used[at] += 1
    return place, turn


def _tail_start(blocks: np.ndarray, sms: int) -> int:
    """Cycle from which an SM has no block any more; the first start if one never has any."""
    last = [int(blocks["end"][blocks["sm"] == sm].max()) for sm in np.unique(blocks["sm"])]
    return int(blocks["start"].min()) if len(last) < sms else min(last)


def _count(ax: Axes, blocks: np.ndarray) -> None:
    """Resident blocks of the whole GPU over time."""
    times = np.concatenate([blocks["start"], blocks["end"]])
    change = np.concatenate([np.ones(len(blocks), np.int64), -np.ones(len(blocks), np.int64)])
    at, index = np.unique(times, return_inverse=True)
    count = np.cumsum(np.bincount(index, weights=change))
    ax.plot(at, count, color=INK, linewidth=1.2, drawstyle="steps-post")
    ax.fill_between(at, count, step="post", color=GREY, alpha=0.25, linewidth=0)
    ax.set_ylabel("blocks")
    ax.set_ylim(0, 1.1 * count.max())
    ax.tick_params(labelbottom=False)


def _draw(ax: Axes, blocks: np.ndarray, place: np.ndarray, turn: np.ndarray) -> int:
    """The blocks, a collection for each colour; returns the number of waves."""
    waves = int(turn.max()) + 1
    on, first = np.unique(blocks["sm"], return_inverse=True)
    room = np.maximum.reduceat(place, np.searchsorted(blocks["sm"], on))[first] + 1  # places of the block's SM
    low = blocks["sm"] - 0.5 + place / room
    for colour in range(min(waves, len(_WAVES))):
        mine = turn % len(_WAVES) == colour
        more = f", {colour + 1 + len(_WAVES)}, …" if waves > colour + len(_WAVES) else ""
        start, end, at, high = blocks["start"][mine], blocks["end"][mine], low[mine], (low + 1 / room)[mine]
        label = f"wave {colour + 1}{more}"
        style.rectangles(ax, start, end, at, high, _WAVES[colour], label, smooth=True)
    return waves
