"""Hierarchical roofline: the arithmetic rate of a launch under the roofs of L1, L2, device memory and the pipes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import GREY, INK, LEVEL_COLOURS
from gpusim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = {"L1": "o", "L2": "s", "DRAM": "^"}
_SIZES = {"L1": 14, "L2": 10, "DRAM": 7}  # equal intensities stay visible, one inside the other


@style.styled
def roofline(result: Result, ax: Axes | None = None) -> Axes:
    """One launch in the roofline model, with a roof for each level of memory.

    The horizontal axis is arithmetic intensity, operations per byte moved at a level; the vertical one the rate of
    operations. The launch has one height and a point for each level that moved bytes; each point's own roof is the
    slanted line of its colour. Numbers are those of `result.roofline`: points are the first lines of the axes.

    Raises ValueError for a launch without floating-point operations, which has no place in the picture.

    >>> from gpusim import plot, simulate
    >>> from programs.registry import get
    >>> launch = get("matmul/tiled").make(32, 0)
    >>> result = simulate(launch.kernel, launch.grid, launch.block, launch.args)
    >>> ax = plot.roofline(result)
    >>> float(ax.lines[0].get_xdata()[0]) == result.roofline.intensity("L1")
    True
    """
    found = result.roofline
    if not found.operations:
        raise ValueError(f"{result.kernel} does no floating-point operations, so it has no place under a roofline")
    levels = [level for level in _MARKERS if found.bytes[level]]
    rate, kinds = found.operations_per_s, list(found.operations)
    ceilings = {kind: found.peak_operations_per_s[kind] for kind in kinds}
    highest = max(ceilings.values())
    ax = style.new_axes(ax, 5.4)
    for level in levels:
        at = found.intensity(level)
        text = f"{_name(level)}: {at:.3g} FLOP/B, {style.scaled(found.bytes[level], 'B')} moved"
        (point,) = ax.plot([at], [rate], _MARKERS[level], markersize=_SIZES[level], label=text, zorder=4)
        point.set(color=LEVEL_COLOURS[level], markeredgecolor=INK)
    least, most = _range(result, levels)
    for level in _MARKERS:
        peak = found.peak_bytes_per_s[level]
        ridge = highest / peak
        colour, ends = LEVEL_COLOURS[level], [least * peak, highest]
        ax.plot([least, ridge], ends, color=colour, linewidth=2, label=f"_{level} roof", zorder=2)
    for kind, peak in ceilings.items():
        start = peak / max(found.peak_bytes_per_s.values())
        ax.plot([start, most], [peak, peak], color=INK, linewidth=2, label=f"_{kind} roof", zorder=2)
        text = f"{kind} {style.scaled(peak, 'FLOP/s')}"
        ax.annotate(text, (most, peak), (-4, 4), textcoords="offset points", ha="right", va="bottom", fontsize=9)
    lowest = min(rate, least * min(found.peak_bytes_per_s.values())) / 2
    ax.set(xscale="log", yscale="log", xlim=(least, most), ylim=(lowest, highest * 2.5))
    for level in levels:
        at = found.intensity(level)
        roof = min(at * found.peak_bytes_per_s[level], highest)
        ax.plot([at, at], [rate, roof], color=LEVEL_COLOURS[level], linewidth=1, linestyle=":", label="_", zorder=1)
    ax.set_xlabel("arithmetic intensity, FLOP per byte moved at a level")
    ax.set_ylabel("arithmetic rate, FLOP/s")
    ax.set_title(
        f"{result.kernel} on {result.record.config.gpu.name}: {style.scaled(rate, 'FLOP/s')}, "
        f"{100 * found.share_of_roof:.1f} % of the {_name(found.roof)} roof"
    )
    ax.grid(which="major", alpha=0.3, linewidth=0.5, color=GREY)
    style.legend_below(ax, [line for line in ax.lines if not str(line.get_label()).startswith("_")], 3)
    _label_slopes(ax, least, found.peak_bytes_per_s)
    style.describe(ax, _words(result, levels))
    return ax


def _name(level: str) -> str:
    return "HBM" if level == "DRAM" else level


def _range(result: Result, levels: list[str]) -> tuple[float, float]:
    """Ends of the horizontal axis, around every point and every ridge."""
    found = result.roofline
    highest = max(found.peak_operations_per_s[kind] for kind in found.operations)
    places = [found.intensity(level) for level in levels]
    places += [highest / peak for peak in found.peak_bytes_per_s.values()]
    return min(min(places) / 6, 0.1), max(places) * 6


def _label_slopes(ax: Axes, least: float, peaks: dict[str, float]) -> None:
    """Write along the slanted roofs, near their left ends. Their angle on paper is known once the layout is."""
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    slowest = min(peaks, key=lambda level: peaks[level])
    for level, peak in peaks.items():
        at = least * 1.2
        below = level == slowest
        ends = ax.transData.transform([(at, at * peak), (2 * at, 2 * at * peak)])
        angle = math.degrees(math.atan2(*(ends[1] - ends[0])[::-1]))
        text = f"{_name(level)} {style.scaled(peak, 'B/s')}"
        ax.annotate(
            text, (at, at * peak), (0, -4 if below else 3), textcoords="offset points", rotation=angle,
            rotation_mode="anchor", va="top" if below else "bottom", fontsize=9, color=LEVEL_COLOURS[level],
        )  # fmt: skip


def _words(result: Result, levels: list[str]) -> str:
    found = result.roofline
    points = ", ".join(f"{found.intensity(level):.3g} at {_name(level)}" for level in levels)
    return (
        f"Roofline of {result.kernel} on {result.record.config.gpu.name}: "
        f"{style.scaled(found.operations_per_s, 'FLOP/s')} with FLOP per byte of {points or 'no memory traffic'}; "
        f"{100 * found.share_of_roof:.1f} % of the {_name(found.roof)} roof, which is the lowest."
    )
