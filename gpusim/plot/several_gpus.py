"""Several GPUs over time: streams of a training step, links and blocks of a collective."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpusim.collectives.result import CollectiveResult, Step
from gpusim.parallel.schedule import Schedule, StepEvent
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREEN, GREY, ORANGE, PALE, WORK_COLOURS
from gpusim.plot.words import cut
from gpusim.units import scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP_COLOURS = {"sends its own": ORANGE, "receives and sends on": BLUE, "receives": GREEN}
"""Colour of each kind of step of a collective."""
_MOST_ROWS = 48
_LETTER = 0.0075
"""Width of a small letter, of the width of the axes."""
_MOST = 0.9
"""Share of the rectangles of a kind that must have room for their names."""


@style.styled
def training_timeline(
    schedule: Schedule, start: float = 0.0, end: float | None = None, links: int = 1, ax: Axes | None = None
) -> Axes:
    """Streams of every simulated GPU over time, with one colour for each kind of work.

    start, end: microseconds, by default the whole step. links: so many of the links that carry most get a row too,
    where a bar's height is the share of the link's bandwidth. Names, of layers or of a pipeline's micro-batches,
    stand in the rectangles of a kind if there is room; what follows at once under the same name is one rectangle.

    `ax.collections` has one collection of rectangles for each kind (`get_label()`), whose widths are those of
    `schedule.timeline` in the window, and one for links.

    Raises ValueError for a window in which nothing happens.

    >>> from gpusim import plot
    >>> from gpusim.parallel import Layer, pipeline
    >>> ax = plot.training_timeline(pipeline([Layer("a", 100.0, 200.0)] * 4, 4, 4))
    >>> [each.get_label() for each in ax.collections]
    ['forward', 'backward']
    """
    end = schedule.time_us if end is None else end
    shown = [event for event in _joined(schedule.timeline) if event.end_us > start and event.start_us < end]
    if not shown or end <= start:
        raise ValueError(f"nothing happens between {start:,.1f} and {end:,.1f} us")
    # The compute stream of a GPU first, then its others by name.
    found = {(event.gpu, event.stream) for event in schedule.timeline}
    streams = sorted(found, key=lambda key: (key[0], key[1] != "compute", key[1]))
    busiest = sorted(schedule.link_bytes, key=lambda name: (-schedule.link_bytes[name], name))[: max(links, 0)]
    labels = [f"gpu{gpu} {stream}" for gpu, stream in streams] + [cut(name, 34) for name in busiest]
    ax = style.new_axes(ax, min(1.9 + 0.3 * max(len(labels), 3), 9.0))
    for kind, colour in WORK_COLOURS.items():
        mine = [event for event in shown if event.kind == kind]
        if mine:
            left = np.array([max(event.start_us, start) for event in mine])
            right = np.array([min(event.end_us, end) for event in mine])
            at = np.array([streams.index((event.gpu, event.stream)) for event in mine])
            gap = min(0.002 * (end - start), float((right - left).min()) / 4)
            style.rectangles(ax, left, right - gap, at - 0.38, at + 0.38, colour, kind)
            _names(ax, mine, left, right, at, colour, end - start)
    for k, name in enumerate(busiest, len(streams)):
        ax.axhspan(k - 0.4, k + 0.4, color=PALE, linewidth=0, zorder=1)
        spans = [(a, b, share) for a, b, share in schedule.link_timeline(name) if b > start and a < end]
        if spans:
            a, b, share = np.array(spans).T
            low = k + 0.4 - 0.8 * np.minimum(share, 1.0)
            style.rectangles(ax, np.maximum(a, start), np.minimum(b, end), low, k + 0.4, GREY, name, smooth=True)
    style.rows(ax, labels, start, end)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    title = f"{schedule.kind} on {schedule.gpus} GPUs of {schedule.node}: {schedule.time_us:,.0f} us"
    which = "all of them" if len(schedule.simulated) == schedule.gpus else "one of them, the others do the same"
    exposed = f"{schedule.exposed_communication_us:,.0f} us"
    return style.finish(
        ax,
        f"{title}, {exposed} of communication exposed",
        f"Timeline of a training step, {title}; {which}. Compute {schedule.utilisation:.0%} of the time, bubble "
        f"{schedule.bubble:.0%}, communication {schedule.communication_us:,.0f} us, of which {exposed} with nothing to "
        "compute.",
        x="microseconds", columns=7, legend=[each for each in ax.collections if each.get_label() in WORK_COLOURS],
    )  # fmt: skip


def _joined(events: Iterable[StepEvent]) -> list[StepEvent]:
    """Events of a stream that follow each other at once under one name, such as the layers of a stage, as one."""
    found: list[StepEvent] = []
    last: dict[tuple[int, str], int] = {}
    for event in events:
        key = event.gpu, event.stream
        before = found[last[key]] if key in last else None
        alike = before is not None and (before.name, before.kind) == (event.name, event.kind)
        if before is not None and alike and event.start_us - before.end_us < 1e-6:
            found[last[key]] = replace(before, end_us=event.end_us)
        else:
            last[key] = len(found)
            found.append(event)
    return found


def _names(
    ax: Axes, events: list[StepEvent], left: np.ndarray, right: np.ndarray, at: np.ndarray, colour: str, width: float
) -> None:
    room = (right - left) / width - _LETTER * np.array([len(event.name) + 1 for event in events])
    if np.mean(room > 0) < _MOST:
        return
    for event, a, b, y, fits in zip(events, left, right, at, room > 0, strict=True):
        if fits:
            middle, ink = (a + b) / 2, style.text_on(colour)
            ax.text(middle, y, event.name, ha="center", va="center", fontsize=7, color=ink, clip_on=True)


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
    begin = result.launch_us + result.start_us
    ax = style.new_axes(ax, min(1.9 + 0.34 * max(len(ranks), 3), 9.0))
    for kind, colour in STEP_COLOURS.items():
        mine = [step for step in steps if _kind(step) == kind]
        if mine:
            left = begin + np.array([step.start_us for step in mine])
            right = begin + np.array([step.end_us for step in mine])
            at = np.array([ranks.index(step.rank) for step in mine])
            gap = np.minimum(0.0016 * result.time_us, (right - left) / 4)
            style.rectangles(ax, left, right - gap, at - 0.38, at + 0.38, colour, kind)
    style.rows(ax, [f"gpu{rank}" for rank in ranks], 0, result.time_us)
    ax.axvline(begin, color="black", linewidth=0.8, linestyle=":")
    last = max(step.end_us for step in steps)
    busy = sum(step.end_us - step.start_us for step in steps) / (last * len(ranks))
    what = f"{result.name} of {scaled(result.nbytes, 0)}B on {result.ranks} GPUs"
    title = f"channel {channel} of {result.channels} of {what}, {result.algorithm} with {result.protocol}"
    return style.finish(
        ax,
        f"{title[0].upper()}{title[1:]}: {result.time_us:,.1f} us",
        f"Steps of {title}: {len(steps):,} steps of at most {max(step.bytes for step in steps):,} bytes in "
        f"{result.time_us:,.1f} us, of which {begin:.1f} us before the blocks have started; from then on they work "
        f"{busy:.0%} of the time.",
        x="microseconds since the call; dotted: the blocks have started", legend=list(ax.collections),
    )  # fmt: skip


def _kind(step: Step) -> str:
    if step.receives:
        return "receives and sends on" if step.sends else "receives"
    return "sends its own"


@style.styled
def link_utilisation(result: CollectiveResult, ax: Axes | None = None) -> Axes:
    """A row for each direction of a link that carries data, the darker the fuller, from when the blocks start.

    result: of `gpusim.collective(..., trace=True)`. `ax.images[0]` holds the shares of bandwidth, 0 to 1, in the order
    of the labels: the links as the node names them. Of many, the busiest are shown.

    Raises ValueError for a result without a trace.

    >>> import gpusim
    >>> ax = gpusim.plot.link_utilisation(gpusim.collective("all_reduce", 1 << 20, 2, trace=True))
    >>> len(ax.get_yticklabels())
    4
    """
    use = result.utilisation
    if use is None or not use.size:
        raise ValueError("the collective was not traced: gpusim.collective(..., trace=True)")
    rows = sorted(k for k in np.argsort(-use.sum(axis=1), kind="stable")[:_MOST_ROWS].tolist() if use[k].any())
    shares = np.clip(use[rows], 0.0, 1.0)
    begin = result.launch_us + result.start_us
    end = begin + result.bin_us * shares.shape[1]
    ax = style.new_axes(ax, min(1.8 + 0.26 * max(len(rows), 4), 9.0))
    drawn = ax.imshow(
        shares, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0, vmax=1,
        extent=(begin, end, len(rows) - 0.5, -0.5),
    )  # fmt: skip
    style.rows(ax, [cut(result.link_names[k], 34) for k in rows], begin, end)
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.01, format=lambda value, _: f"{100 * value:.0f} %")
    bar.set_label("of the link's bandwidth")
    bar.outline.set_visible(False)
    what = f"{result.name} of {scaled(result.nbytes, 0)}B on {result.ranks} GPUs of {result.node}"
    means = shares.mean(axis=1)
    return style.finish(
        ax,
        f"{what}: links {100 * means.mean():.0f} % full while data moves",
        f"Links over time, {what}, {result.algorithm} with {result.protocol}: {len(rows)} links carry data, "
        f"{100 * means.min():.0f} to {100 * means.max():.0f} % full between {begin:,.0f} and {end:,.0f} us; the "
        f"fullest is {result.link_names[rows[int(np.argmax(means))]]}.",
        x="microseconds since the call",
    )  # fmt: skip
