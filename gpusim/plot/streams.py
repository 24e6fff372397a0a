"""Streams of a device over time: kernels, copies, calls of the host, page faults, and the links that carry most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.node.managed import FAULTS
from gpusim.node.timeline import StreamTimeline, row_name, rows_of
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREEN, GREY, ORANGE, PALE, PURPLE, SKY, VERMILLION
from gpusim.plot.words import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPAN_COLOURS = {
    "kernel": BLUE, "copy": ORANGE, "prefetch": PURPLE, "host": GREEN, "fault": VERMILLION, "host's fault": SKY,
}  # fmt: skip
"""Colour of each kind of span."""


@style.styled
def streams_timeline(
    timeline: StreamTimeline, start: float = 0.0, end: float | None = None, links: int = 2, ax: Axes | None = None
) -> Axes:
    """A row for each stream, with a rectangle for each kernel, copy, prefetch and call of the host, one for what page
    faults of managed memory move, and one for each of the `links` links that carry most, where a bar's height is the
    share of its capacity.

    timeline: of `Device.timeline()`. start, end: microseconds, by default all of it. `ax.collections` has one
    collection of rectangles for each kind of span (`get_label()`), and one for each link.

    Raises ValueError for a window in which nothing happens.

    >>> import gpusim, numpy as np
    >>> with gpusim.Device("tiny") as device:
    ...     x, stream = device.device_array(1 << 16, np.float32), device.stream()
    ...     x.copy_to_device(device.pinned_array(1 << 16, np.float32), stream)
    ...     device.synchronize()
    ...     ax = gpusim.plot.streams_timeline(device.timeline())
    >>> [each.get_label() for each in ax.collections][0]
    'copy'
    """
    end = max((span.end for span in timeline.spans), default=0.0) if end is None else end
    shown = [span for span in timeline.spans if span.end > start and span.start < end]
    if not shown or end <= start:
        raise ValueError(f"nothing happens between {start:,.1f} and {end:,.1f} us")
    rows = rows_of(shown)
    carried = {name: _carried(steps, start, end) for name, steps in timeline.links.items()}
    busiest = sorted((name for name in carried if carried[name] > 0), key=lambda name: (-carried[name], name))[:links]
    several = len({gpu for gpu, _ in rows}) > 1
    labels = [f"{row[0]} {row_name(row)}" if several else row_name(row) for row in rows]
    count = style.plural(sum(number != FAULTS for _, number in rows), "stream")
    ax = style.new_axes(ax, min(1.9 + 0.3 * max(len(rows) + len(busiest), 3), 9.0))
    for kind, colour in SPAN_COLOURS.items():
        mine = [span for span in shown if span.kind == kind]
        if mine:
            left = np.array([max(span.start, start) for span in mine])
            right = np.array([min(span.end, end) for span in mine])
            at = np.array([rows.index((span.gpu, span.stream)) for span in mine])
            gap = np.minimum(0.002 * (end - start), (right - left) / 4)
            style.rectangles(ax, left, right - gap, at - 0.38, at + 0.38, colour, kind)
    for k, name in enumerate(busiest, len(rows)):
        ax.axhspan(k - 0.4, k + 0.4, color=PALE, linewidth=0, zorder=1)
        times, shares = np.array(timeline.links[name]).T
        ends = np.clip(np.append(times[1:], end), start, end)
        low = k + 0.4 - 0.8 * np.minimum(shares, 1.0)
        style.rectangles(ax, np.clip(times, start, end), ends, low, k + 0.4, GREY, name, smooth=True)
    style.rows(ax, [*labels, *(cut(name, 34) for name in busiest)], start, end)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    busy = {kind: sum(span.end - span.start for span in shown if span.kind == kind) for kind in SPAN_COLOURS}
    told = {kind: f"{kind} {time:,.0f} us" for kind, time in busy.items() if time}
    words = ", ".join(told.values())
    return style.finish(
        ax,
        f"{count}, {end - start:,.0f} us: {', '.join(told[kind] for kind in told if 'fault' not in kind)} in all",
        f"Timeline of {count} over {end - start:,.0f} us: {words}; "
        f"{style.plural(len(shown), 'piece')} of work.",
        x="microseconds", columns=6, legend=[each for each in ax.collections if each.get_label() in SPAN_COLOURS],
    )  # fmt: skip


def _carried(steps: tuple[tuple[float, float], ...], start: float, end: float) -> float:
    """Microseconds for which a link was full, in a window."""
    times, shares = np.array(steps).T
    return float((np.diff(np.clip(np.append(times, end), start, end)) * shares).sum())
