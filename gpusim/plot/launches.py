"""Pictures of a launch: its roofs, and by stall reason, by joules and by resident warps what limits it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig
from gpusim.launch.occupancy import occupancy
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, INK, LEVEL_COLOURS, STALL_COLOURS, VERMILLION
from gpusim.report_html.sections import curves
from gpusim.result import Result
from gpusim.units import byte_text, joule_text, rate_text, scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KIB = 1024
_BESIDE: dict[str, Any] = {"padding": 4, "fontsize": 9}
"""Look of a text at the end of a bar."""
_JOULES = {"J": 1.0, "mJ": 1e-3, "µJ": 1e-6, "nJ": 1e-9, "pJ": 1e-12}


@style.styled
def stall_breakdown(results: Result | Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Warp cycles per issued instruction, by stall reason in Nsight Compute's words.

    Of one result, a bar for each reason, the costliest first; `ax.patches` are the bars. Of several (by the names that
    are to stand beside them), a stacked bar for each: their lengths are the warp cycles per issued instruction, so a
    shorter bar is a launch whose warps wait less for each instruction, whatever the number of instructions.

    Numbers are `result.stall_reasons[...].cycles_per_instruction`, which are ncu's
    `smsp__average_warps_issue_stalled_*_per_issue_active.ratio`.
    """
    return _several(results, ax) if isinstance(results, Mapping) else _one(results, ax)


def _one(result: Result, ax: Axes | None) -> Axes:
    reasons = {name: each for name, each in result.stall_reasons.items() if each.cycles}
    parts = {name: each.cycles_per_instruction for name, each in reasons.items()}
    ax, words = _shares(ax, parts, [STALL_COLOURS[name] for name in reasons], "{:.2f}".format, 1.18)
    ax.set_yticklabels(["selected (issue)" if name == "selected" else name for name in reasons])
    what = f"{result.kernel}: {sum(parts.values()):.1f} warp cycles per issued instruction"
    told = f"Stall breakdown of {what}, most of all {words}."
    return style.finish(ax, what, told, x="warp cycles per issued instruction", grid="x")


def _shares(
    ax: Axes | None, parts: Mapping[str, float], colours: Sequence[str], spell: Callable[[float], str], room: float,
    unit: float = 1.0,
) -> tuple[Axes, str]:  # fmt: skip
    """A bar for each part of a whole, in a unit, with its number and its share beside it, up to `room` times the first;
    and the shares of the first three in words."""
    ax = style.new_axes(ax, 1.4 + 0.3 * len(parts))
    whole = sum(parts.values())
    bars = ax.barh(range(len(parts)), [each / unit for each in parts.values()], height=0.75, color=colours)
    ax.bar_label(bars, [f"{spell(each)}  ({100 * each / whole:.1f} %)" for each in parts.values()], **_BESIDE)
    _bars(ax, list(parts))
    ax.set_xlim(0, room * max(parts.values(), default=1) / unit)
    return ax, ", ".join(f"{name} {100 * each / whole:.1f} %" for name, each in list(parts.items())[:3])


def _several(results: Mapping[str, Result], ax: Axes | None) -> Axes:
    ax = style.new_axes(ax, 2.2 + 0.36 * len(results))
    cost = {
        name: {reason: each.cycles_per_instruction for reason, each in result.stall_reasons.items()}
        for name, result in results.items()
    }
    totals = {name: sum(parts.values()) for name, parts in cost.items()}
    left = [0.0] * len(results)
    for reason, colour in STALL_COLOURS.items():
        widths = [parts[reason] for parts in cost.values()]
        # A reason that is nowhere a fiftieth of a bar has no entry in the legend, yet it is drawn.
        seen = any(width > 0.02 * total for width, total in zip(widths, totals.values(), strict=True))
        label = reason if seen else f"_{reason}"
        look: dict[str, Any] = {"color": colour, "edgecolor": "white", "linewidth": 0.5, "label": label}
        bars = ax.barh(range(len(results)), widths, 0.75, left, **look)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    ax.bar_label(bars, [f"{total:.1f}" for total in totals.values()], **_BESIDE)
    _bars(ax, list(results))
    ax.set_xlim(0, 1.08 * max(totals.values(), default=1))
    words = "; ".join(
        f"{name} {total:.1f}, most of all {max(cost[name], key=lambda reason: cost[name][reason])}"
        for name, total in totals.items()
    )
    title = "Warp cycles per issued instruction, by stall reason"
    told = f"{title.replace(',', '')}: {words}."
    handles = ax.get_legend_handles_labels()[0]
    return style.finish(ax, title, told, x="warp cycles per issued instruction", grid="x", legend=handles, columns=4)


@style.styled
def energy_breakdown(result: Result, ax: Axes | None = None) -> Axes:
    """Joules of a launch by unit, the largest first, each with its share.

    `ax.patches` are the bars; their lengths, in the unit of the axis, add up to `result.energy_j`. Static power, what
    the board takes whatever runs, is grey: it goes with the time. Raises ModeError for a functional run.
    """
    energy = result.energy
    parts = {name: joules for name, joules in sorted(energy.parts.items(), key=lambda each: -each[1]) if joules}
    unit = joule_text(max(parts.values(), default=1.0), "µ").split()[1]
    colours = [GREY if name == "static" else BLUE for name in parts]
    ax, words = _shares(ax, parts, colours, lambda joules: joule_text(joules, "µ"), 1.22, _JOULES[unit])
    what = f"{result.kernel}: {joule_text(energy.energy_j, 'µ')} at {energy.power_w:,.0f} W"
    return style.finish(ax, what, f"Energy of {what}, most of all {words}.", x=f"energy, {unit}", grid="x")


def _bars(ax: Axes, names: Sequence[str]) -> None:
    """The names of bars, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)


@style.styled
def occupancy_calculator(
    of: Result | GPUConfig,
    threads_per_block: int | None = None,
    registers_per_thread: int | None = None,
    shared_bytes: int | None = None,
) -> Figure:
    """Warps that an SM holds, over threads per block, registers per thread and shared memory per block.

    of: a result, whose launch gives all numbers that are not given here; or a configuration, for 256 threads, 32
    registers and no shared memory unless said otherwise. In each of the three panels one of the numbers varies and the
    other two stay; the dot is the launch itself (`axes.lines[1]`; the curve is `axes.lines[0]`).

    Raises LaunchError if not even one block fits.

    >>> from gpusim import load_config, plot
    >>> figure = plot.occupancy_calculator(load_config("h200"), 256, 64)
    >>> [float(ax.lines[1].get_ydata()[0]) for ax in figure.axes]
    [32.0, 32.0, 32.0]
    """
    if isinstance(of, Result):
        config, program, launch = of.record.config, of.record.program, of.record.launch
        defaults = (launch.threads_per_block, program.registers, program.static_shared_bytes + launch.shared_bytes)
    else:
        config, defaults = of, (256, 32, 0)
    asked = (threads_per_block, registers_per_thread, shared_bytes)
    threads, registers, shared = (
        given if given is not None else default for given, default in zip(asked, defaults, strict=True)
    )
    here, sm = occupancy(config, threads, registers, 0, shared), config.sm
    figure = style.new_figure(3.9)
    panels = figure.subplots(1, 3, sharey=True)
    by_registers, by_threads, by_shared = curves(config, threads, registers, shared)
    for ax, curve in zip(panels, (by_threads, by_registers, by_shared), strict=True):
        _panel(ax, here.warps_per_sm, *curve)
    panels[0].set_ylabel("resident warps per SM")
    panels[0].set_ylim(0, sm.max_warps * 1.06)
    panels[0].set_yticks(range(0, sm.max_warps + 1, max(sm.max_warps // 8, 1)))
    what = f"{threads:,} threads, {registers} registers, {shared / _KIB:g} KiB"
    share = f"{here.warps_per_sm} of {sm.max_warps} warps ({100 * here.theoretical:.0f} %)"
    found = f"{share}, limited by {', '.join(here.limiters)}"
    told = f"Occupancy calculator of {config.gpu.name} for {what} per block: an SM holds {found}."
    return style.finish_figure(figure, f"{config.gpu.name}, {what}: {found}", told)


def _panel(ax: Axes, warps: int, title: str, unit: str, at: int, most: int, changes: list[int]) -> None:
    scale = _KIB if unit == "B" else 1
    x = [each / scale for each in (*changes[::2], most)]
    ax.plot(x, [*changes[1::2], changes[-1]], color=BLUE, linewidth=1.8, drawstyle="steps-post")
    (dot,) = ax.plot([at / scale], [warps], "o", markersize=9)
    dot.set(markerfacecolor="none", markeredgecolor=VERMILLION, markeredgewidth=2.2)
    ax.axvline(at / scale, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_xlabel(f"{title[0].lower()}{title[1:]}{', KiB' if unit == 'B' else ''}")
    style.guide(ax, "both")


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
