"""Hierarchical roofline: the arithmetic rate of a launch under the roofs of memory and of the pipes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import INK, LEVEL_COLOURS
from gpusim.result import Result
from gpusim.units import byte_text, rate_text, scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = {"L1": "o", "L2": "s", "DRAM": "^"}
_SIZES = {"L1": 14, "L2": 10, "DRAM": 7}  # equal intensities stay visible, one inside the other
_NAMES = {"L1": "L1", "L2": "L2", "DRAM": "HBM"}


@style.styled
def roofline(result: Result, ax: Axes | None = None) -> Axes:
    """One launch in the roofline model, with a roof for each level of memory.

    The horizontal axis is arithmetic intensity, operations per byte moved at a level; the vertical one the rate of
    operations. The launch has one height and a point for each level that moved bytes; each point's own roof is the
    slanted line of its colour. Numbers are those of `result.roofline`: points are the first lines of the axes.

    Raises ValueError for a launch without floating-point operations, which has no place in the picture.
    """
    found = result.roofline
    if not found.operations:
        raise ValueError(f"{result.kernel} does no floating-point operations, so it has no place under a roofline")
    levels = [level for level in _MARKERS if found.bytes[level]]
    rate, peaks = found.operations_per_s, found.peak_bytes_per_s
    ceilings = {kind: found.peak_operations_per_s[kind] for kind in found.operations}
    highest = max(ceilings.values())
    ax = style.new_axes(ax, 5.4)
    for level in levels:
        at = found.intensity(level)
        text = f"{_NAMES[level]}: {at:.3g} FLOP/B, {byte_text(found.bytes[level])} moved"
        (point,) = ax.plot([at], [rate], _MARKERS[level], markersize=_SIZES[level], label=text, zorder=4)
        point.set(color=LEVEL_COLOURS[level], markeredgecolor=INK)
    # Ends of the horizontal axis, around every point and every ridge.
    places = [*(found.intensity(level) for level in levels), *(highest / peak for peak in peaks.values())]
    least, most = min(min(places) / 6, 0.1), max(places) * 6
    for level in _MARKERS:
        peak = peaks[level]
        ends = [least, highest / peak], [least * peak, highest]
        ax.plot(*ends, color=LEVEL_COLOURS[level], linewidth=2, label=f"_{level} roof", zorder=2)
    for kind, peak in ceilings.items():
        start = peak / max(peaks.values())
        ax.plot([start, most], [peak, peak], color=INK, linewidth=2, label=f"_{kind} roof", zorder=2)
        text = f"{kind} {scaled(peak)}FLOP/s"
        ax.annotate(text, (most, peak), (-4, 4), textcoords="offset points", ha="right", va="bottom", fontsize=9)
    lowest = min(rate, least * min(peaks.values())) / 2
    ax.set(xscale="log", yscale="log", xlim=(least, most), ylim=(lowest, highest * 2.5))
    for level in levels:
        at = found.intensity(level)
        roof = min(at * peaks[level], highest)
        ax.plot([at, at], [rate, roof], color=LEVEL_COLOURS[level], linewidth=1, linestyle=":", label="_", zorder=1)
    who = f"{result.kernel} on {result.record.config.gpu.name}: {scaled(rate)}FLOP/s"
    roof_name = _NAMES.get(found.roof, found.roof)
    share = f"{100 * found.share_of_roof:.1f} % of the {roof_name} roof"
    points = ", ".join(f"{found.intensity(level):.3g} at {_NAMES[level]}" for level in levels)
    style.finish(
        ax,
        f"{who}, {share}",
        f"Roofline of {who} with FLOP per byte of {points or 'no memory traffic'}; {share}, which is the lowest.",
        x="arithmetic intensity, FLOP per byte moved at a level", y="arithmetic rate, FLOP/s", grid="both",
        legend=style.named(ax.lines),
    )  # fmt: skip
    _label_slopes(ax, least, peaks)
    return ax


def _label_slopes(ax: Axes, least: float, peaks: dict[str, float]) -> None:
    """Write along the slanted roofs, near their left ends. Their angle on paper is known once the layout is."""
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    slowest = min(peaks, key=lambda level: peaks[level])
    for level, peak in peaks.items():
        at = least * 1.2
        below = level == slowest
        ends = ax.transData.transform([(at, at * peak), (2 * at, 2 * at * peak)])
        angle = math.degrees(math.atan2(*(ends[1] - ends[0])[::-1]))
        text = f"{_NAMES[level]} {rate_text(peak)}"
        ax.annotate(
            text, (at, at * peak), (0, -4 if below else 3), textcoords="offset points", rotation=angle,
            rotation_mode="anchor", va="top" if below else "bottom", fontsize=9, color=LEVEL_COLOURS[level],
        )  # fmt: skip
