"""Hierarchical roofline: the arithmetic rate of launches under the roofs of memory and of the pipes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import INK, LEVEL_COLOURS, LINE_COLOURS, MARKERS
from gpusim.result import Result
from gpusim.units import byte_text, rate_text, scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = {"L1": "o", "L2": "s", "DRAM": "^"}
_SIZES = {"L1": 14, "L2": 10, "DRAM": 7}  # equal intensities stay visible, one inside the other
_NAMES = {"L1": "L1", "L2": "L2", "DRAM": "HBM"}
_LEVELS = {"DRAM": "device memory", "L2": "L2", "L1": "L1"}


@style.styled
def roofline(result: Result, ax: Axes | None = None) -> Axes:
    """One launch in the roofline model, with a roof for each level of memory.

    The horizontal axis is arithmetic intensity, operations per byte moved at a level; the vertical one the rate of
    operations. The launch has one height and a point for each level that moved bytes; each point's own roof is the
    slanted line of its colour. Numbers are those of `result.roofline`: points are the first lines of the axes.

    Raises ValueError for a launch without floating-point operations, which has no place in the picture.
    """
    _check(result)
    found = result.roofline
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
        _beside_roof(ax, most, peak, f"{kind} {scaled(peak)}FLOP/s")
    lowest = min(rate, least * min(peaks.values())) / 2
    ax.set(xscale="log", yscale="log", xlim=(least, most), ylim=(lowest, highest * 2.5))
    for level in levels:
        at = found.intensity(level)
        roof = min(at * peaks[level], highest)
        ax.plot([at, at], [rate, roof], color=LEVEL_COLOURS[level], linewidth=1, linestyle=":", label="_", zorder=1)
    who = f"{result.kernel} on {result.record.config.gpu.name}: {scaled(rate)}FLOP/s"
    share = f"{100 * found.share_of_roof:.1f} % of the {_NAMES[found.roof]} roof"
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


def _check(result: Result) -> None:
    if not result.roofline.operations:
        raise ValueError(f"{result.kernel} does no floating-point operations, so it has no place under a roofline")


def _beside_roof(ax: Axes, most: float, peak: float, text: str) -> None:
    ax.annotate(text, (most, peak), (-4, 4), textcoords="offset points", ha="right", va="bottom", fontsize=9)


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


@style.styled
def rooflines(results: Iterable[Result], ax: Axes | None = None, *, level: str = "DRAM") -> Axes:
    """Runs on several GPUs in the roofline model: for each GPU a roof of one level of memory and of arithmetic.

    results: of programs that do floating-point operations; runs on the GPU of one name share its roof and colour.
    level: 'DRAM', 'L2' or 'L1', whose bytes the horizontal axis counts. The arithmetic roof is that of the kind of
    operations that the runs do most. Points are lines with a label that names program and GPU; numbers are those of
    `result.roofline`. A run that moved nothing at the level stands at the right end.

    Raises ValueError for no results, one without floating-point operations, or an unknown level.
    """
    runs = list(results)
    if not runs:
        raise ValueError("no results to draw")
    if level not in _LEVELS:
        raise ValueError(f"no level {level!r} of memory; there are {', '.join(_LEVELS)}")
    for run in runs:
        _check(run)
    first = {run.record.config.gpu.name: run.roofline for run in reversed(runs)}
    gpus = list(dict.fromkeys(run.record.config.gpu.name for run in runs))
    kernels = list(dict.fromkeys(run.kernel for run in runs))
    kinds = [run.roofline.kind or "FP32" for run in runs]
    kind = max(dict.fromkeys(kinds), key=kinds.count)
    ridges = [each.peak_operations_per_s[kind] / each.peak_bytes_per_s[level] for each in first.values()]
    moved = [run.roofline.intensity(level) for run in runs if run.roofline.bytes[level]]
    least, most = min([0.1, *(each / 6 for each in (*moved, *ridges))]), 6 * max([*moved, *ridges])
    ax = style.new_axes(ax, 5.6)
    nested = {gpu: k / max(len(gpus) - 1, 1) for k, gpu in enumerate(gpus)}  # one inside the other where they meet
    colours = {gpu: LINE_COLOURS[k % len(LINE_COLOURS)] for k, gpu in enumerate(gpus)}
    words = []
    for run in runs:
        found, gpu = run.roofline, run.record.config.gpu.name
        at = found.intensity(level) if found.bytes[level] else most
        rate = found.operations_per_s
        share = rate / min(at * found.peak_bytes_per_s[level], found.peak_operations_per_s[kind])
        text = f"{run.kernel} on {gpu}: {scaled(rate)}FLOP/s, {100 * share:.1f} % of its roof"
        marker = MARKERS[(kernels.index(run.kernel) if len(kernels) > 1 else gpus.index(gpu)) % len(MARKERS)]
        (point,) = ax.plot([at], [rate], marker, markersize=14 - 6 * nested[gpu], label=text)
        point.set(color=colours[gpu], markeredgecolor=INK, zorder=4)
        words.append(f"{text} at {at:.3g} FLOP per byte")
    for gpu in gpus:
        peak, bytes_per_s = first[gpu].peak_operations_per_s[kind], first[gpu].peak_bytes_per_s[level]
        corners = [least, peak / bytes_per_s, most], [least * bytes_per_s, peak, peak]
        width = 5 - 3.4 * nested[gpu]
        ax.plot(*corners, color=colours[gpu], linewidth=width, label=f"_{gpu} roof", zorder=2)
        rates = f"{scaled(peak)}FLOP/s {kind}, {rate_text(bytes_per_s)}"
        _beside_roof(ax, most, peak, f"{gpu}: {rates}")
    heights = [run.roofline.operations_per_s for run in runs]
    low = min([*heights, *(least * each.peak_bytes_per_s[level] for each in first.values())]) / 2
    high = max(each.peak_operations_per_s[kind] for each in first.values()) * 2.5
    ax.set(xscale="log", yscale="log", xlim=(least, most), ylim=(low, high))
    return style.finish(
        ax,
        f"{', '.join(kernels[:3])} under the roofs of {style.plural(len(gpus), 'GPU')}",
        f"Rooflines by {_LEVELS[level]}: {'; '.join(words)}.",
        x=f"arithmetic intensity, FLOP per byte moved at {_LEVELS[level]}", y="arithmetic rate, FLOP/s", grid="both",
        legend=style.named(ax.lines), columns=1,
    )  # fmt: skip
