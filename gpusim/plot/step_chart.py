"""Timeline of a training step: what each stream of each GPU does when, and how full links are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpusim.parallel.schedule import Schedule, StepEvent
from gpusim.plot import style
from gpusim.plot.colours import GREY, PALE, WORK_COLOURS
from gpusim.plot.words import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    streams = _streams(schedule)
    busiest = sorted(schedule.link_bytes, key=lambda name: (-schedule.link_bytes[name], name))[: max(links, 0)]
    count = len(streams) + len(busiest)
    ax = style.new_axes(ax, min(1.9 + 0.3 * max(count, 3), 9.0))
    row = {key: k for k, key in enumerate(streams)}
    for kind, colour in WORK_COLOURS.items():
        mine = [event for event in shown if event.kind == kind]
        if mine:
            left = np.array([max(event.start_us, start) for event in mine])
            right = np.array([min(event.end_us, end) for event in mine])
            at = np.array([row[event.gpu, event.stream] for event in mine])
            gap = min(0.002 * (end - start), float((right - left).min()) / 4)
            style.rectangles(ax, left, right - gap, at - 0.38, at + 0.38, colour, kind)
            _names(ax, mine, left, right, at, colour, end - start)
    _links(ax, schedule, busiest, len(streams), start, end)
    ax.set(xlim=(start, end), ylim=(count - 0.5, -0.5))
    labels = [f"gpu{gpu} {stream}" for gpu, stream in streams] + [cut(name, 34) for name in busiest]
    ax.set_yticks(range(count), labels, fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("microseconds")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    style.legend_below(ax, [each for each in ax.collections if each.get_label() in WORK_COLOURS], 7)
    title = f"{schedule.kind} on {schedule.gpus} GPUs of {schedule.node}: {schedule.time_us:,.0f} us"
    ax.set_title(f"{title}, {schedule.exposed_communication_us:,.0f} us of communication exposed")
    which = "all of them" if len(schedule.simulated) == schedule.gpus else "one of them, the others do the same"
    style.describe(
        ax,
        f"Timeline of a training step, {title}; {which}. Compute {schedule.utilisation:.0%} of the time, bubble "
        f"{schedule.bubble:.0%}, communication {schedule.communication_us:,.0f} us, of which "
        f"{schedule.exposed_communication_us:,.0f} us with nothing to compute.",
    )
    return ax


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


def _streams(schedule: Schedule) -> list[tuple[int, str]]:
    """GPUs and streams in the order of rows: the compute stream first, then the others by name."""
    found = {(event.gpu, event.stream) for event in schedule.timeline}
    return sorted(found, key=lambda key: (key[0], key[1] != "compute", key[1]))


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


def _links(ax: Axes, schedule: Schedule, names: list[str], first: int, start: float, end: float) -> None:
    for k, name in enumerate(names, first):
        ax.axhspan(k - 0.4, k + 0.4, color=PALE, linewidth=0, zorder=1)
        spans = [(a, b, share) for a, b, share in schedule.link_timeline(name) if b > start and a < end]
        if spans:
            a, b, share = np.array(spans).T
            low = k + 0.4 - 0.8 * np.minimum(share, 1.0)
            a, b = np.maximum(a, start), np.minimum(b, end)
            style.rectangles(ax, a, b, low, k + 0.4, GREY, name, smooth=True)
