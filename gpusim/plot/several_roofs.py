"""Rooflines of several GPUs on one page: where a program lies under the roofs of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import BLACK, BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION
from gpusim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
_MARKERS = "os^DvPX"
_LEVELS = {"DRAM": "device memory", "L2": "L2", "L1": "L1"}


@style.styled
def rooflines(results: Iterable[Result], ax: Axes | None = None, *, level: str = "DRAM") -> Axes:
    """Runs on several GPUs in the roofline model: for each GPU a roof of one level of memory and of arithmetic.

    results: of programs that do floating-point operations; runs on the GPU of one name share its roof and colour.
    level: 'DRAM', 'L2' or 'L1', whose bytes the horizontal axis counts. The arithmetic roof is that of the kind of
    operations that the runs do most. Points are lines with a label that names program and GPU; numbers are those of
    `result.roofline`. A run that moved nothing at the level stands at the right end.

    Raises ValueError for no results, one without floating-point operations, or an unknown level.

    >>> from gpusim import plot, simulate
    >>> from programs.registry import get
    >>> launch = get("matmul/tiled").make(32, 0)
    >>> run = lambda gpu: simulate(launch.kernel, launch.grid, launch.block, launch.args, gpu)
    >>> runs = [run("h200"), run("tiny")]
    >>> ax = plot.rooflines(runs)
    >>> [float(line.get_ydata()[0]) for line in ax.lines[:2]] == [each.roofline.operations_per_s for each in runs]
    True
    """
    runs = list(results)
    if not runs:
        raise ValueError("no results to draw")
    if level not in _LEVELS:
        raise ValueError(f"no level {level!r} of memory; there are {', '.join(_LEVELS)}")
    for run in runs:
        if not run.roofline.operations:
            raise ValueError(f"{run.kernel} does no floating-point operations, so it has no place under a roofline")
    gpus = list(dict.fromkeys(run.record.config.gpu.name for run in runs))
    kernels = list(dict.fromkeys(run.kernel for run in runs))
    kinds = [run.roofline.kind or "FP32" for run in runs]
    kind = max(dict.fromkeys(kinds), key=kinds.count)
    first = {gpu: next(run for run in runs if run.record.config.gpu.name == gpu).roofline for gpu in gpus}
    ridges = [each.peak_operations_per_s[kind] / each.peak_bytes_per_s[level] for each in first.values()]
    moved = [run.roofline.intensity(level) for run in runs if run.roofline.bytes[level]]
    least, most = min([0.1, *(each / 6 for each in (*moved, *ridges))]), 6 * max([*moved, *ridges])
    ax = style.new_axes(ax, 5.6)
    words = []
    for run in runs:
        found, gpu = run.roofline, run.record.config.gpu.name
        at = found.intensity(level) if found.bytes[level] else most
        rate = found.operations_per_s
        share = rate / min(at * found.peak_bytes_per_s[level], found.peak_operations_per_s[kind])
        text = f"{run.kernel} on {gpu}: {style.scaled(rate, 'FLOP/s')}, {100 * share:.1f} % of its roof"
        # One inside the other where they meet.
        size = 14 - 6 * gpus.index(gpu) / max(len(gpus) - 1, 1)
        marker = _MARKERS[(kernels if len(kernels) > 1 else gpus).index(run.kernel if len(kernels) > 1 else gpu) % 7]
        (point,) = ax.plot([at], [rate], marker, markersize=size, label=text)
        point.set(color=_COLOURS[gpus.index(gpu) % len(_COLOURS)], markeredgecolor=INK, zorder=4)
        words.append(f"{text} at {at:.3g} FLOP per byte")
    for gpu, found in first.items():
        peak, bytes_per_s = found.peak_operations_per_s[kind], found.peak_bytes_per_s[level]
        colour = _COLOURS[gpus.index(gpu) % len(_COLOURS)]
        corners = [least, peak / bytes_per_s, most], [least * bytes_per_s, peak, peak]
        width = 5 - 3.4 * gpus.index(gpu) / max(len(gpus) - 1, 1)
        ax.plot(*corners, color=colour, linewidth=width, label=f"_{gpu} roof", zorder=2)
        text = f"{gpu}: {style.scaled(peak, 'FLOP/s')} {kind}, {style.scaled(bytes_per_s, 'B/s')}"
        ax.annotate(
            text, (most, peak), (-4, 4), textcoords="offset points", ha="right", va="bottom", fontsize=9, color=INK
        )
    rates = [run.roofline.operations_per_s for run in runs]
    low = min([*rates, *(least * each.peak_bytes_per_s[level] for each in first.values())]) / 2
    high = max(each.peak_operations_per_s[kind] for each in first.values()) * 2.5
    ax.set(xscale="log", yscale="log", xlim=(least, most), ylim=(low, high))
    ax.set_xlabel(f"arithmetic intensity, FLOP per byte moved at {_LEVELS[level]}")
    ax.set_ylabel("arithmetic rate, FLOP/s")
    ax.set_title(f"{', '.join(kernels[:3])} under the roofs of {len(gpus)} GPU{'s' if len(gpus) > 1 else ''}")
    ax.grid(which="major", alpha=0.3, linewidth=0.5, color=GREY)
    style.legend_below(ax, [line for line in ax.lines if not str(line.get_label()).startswith("_")], 1)
    style.describe(ax, f"Rooflines by {_LEVELS[level]}: {'; '.join(words)}.")
    return ax
