"""Stall breakdown: what the warps of a launch spend their time on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import GREY, STALL_COLOURS
from gpusim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@style.styled
def stall_breakdown(results: Result | Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """Warp cycles per issued instruction, by stall reason in Nsight Compute's words.

    Of one result, a bar for each reason, the costliest first; `ax.patches` are the bars. Of several (by the names that
    are to stand beside them), a stacked bar for each: their lengths are the warp cycles per issued instruction, so a
    shorter bar is a launch whose warps wait less for each instruction, whatever the number of instructions.

    Numbers are `result.stall_reasons[...].cycles_per_instruction`, which are ncu's
    `smsp__average_warps_issue_stalled_*_per_issue_active.ratio`.

    >>> from gpusim import plot, simulate
    >>> from programs.registry import get
    >>> launch = get("reduction/shuffle").make(1000, 0)
    >>> result = simulate(launch.kernel, launch.grid, launch.block, launch.args)
    >>> ax = plot.stall_breakdown(result)
    >>> longest = next(iter(result.stall_reasons.values()))
    >>> float(ax.patches[0].get_width()) == longest.cycles_per_instruction
    True
    """
    return _several(results, ax) if isinstance(results, Mapping) else _one(results, ax)


def _one(result: Result, ax: Axes | None) -> Axes:
    reasons = {name: each for name, each in result.stall_reasons.items() if each.cycles}
    ax = style.new_axes(ax, 1.4 + 0.3 * len(reasons))
    widths = [each.cycles_per_instruction for each in reasons.values()]
    places = range(len(reasons))
    ax.barh(places, widths, height=0.75, color=[STALL_COLOURS[name] for name in reasons])
    for place, each in enumerate(reasons.values()):
        text = f"{each.cycles_per_instruction:.2f}  ({100 * each.share:.1f} %)"
        _beside(ax, each.cycles_per_instruction, place, text)
    ax.set_yticks(places, [_label(name) for name in reasons])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.18 * max(widths, default=1))
    total = sum(widths)
    ax.set_title(f"{result.kernel}: {total:.1f} warp cycles per issued instruction")
    _finish(ax)
    top = list(reasons.items())[:3]
    words = ", ".join(f"{name} {100 * each.share:.1f} %" for name, each in top)
    style.describe(
        ax,
        f"Stall breakdown of {result.kernel}: {total:.1f} warp cycles per issued instruction, most of all {words}.",
    )
    return ax


def _several(results: Mapping[str, Result], ax: Axes | None) -> Axes:
    ax = style.new_axes(ax, 2.2 + 0.36 * len(results))
    cost = {
        name: {reason: each.cycles_per_instruction for reason, each in result.stall_reasons.items()}
        for name, result in results.items()
    }
    totals = {name: sum(parts.values()) for name, parts in cost.items()}
    places = range(len(results))
    left = [0.0] * len(results)
    for reason, colour in STALL_COLOURS.items():
        widths = [parts[reason] for parts in cost.values()]
        # A reason that is nowhere a fiftieth of a bar has no entry in the legend, yet it is drawn.
        seen = any(width > 0.02 * total for width, total in zip(widths, totals.values(), strict=True))
        label = reason if seen else f"_{reason}"
        ax.barh(places, widths, 0.75, left, color=colour, edgecolor="white", linewidth=0.5, label=label)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, total in enumerate(totals.values()):
        _beside(ax, total, place, f"{total:.1f}")
    ax.set_yticks(places, list(results))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.08 * max(totals.values(), default=1))
    ax.set_title("Warp cycles per issued instruction, by stall reason")
    _finish(ax)
    style.legend_below(ax, ax.get_legend_handles_labels()[0], 4)
    words = "; ".join(
        f"{name} {total:.1f}, most of all {max(cost[name], key=lambda reason: cost[name][reason])}"
        for name, total in totals.items()
    )
    style.describe(ax, f"Warp cycles per issued instruction by stall reason: {words}.")
    return ax


def _beside(ax: Axes, end: float, place: int, text: str) -> None:
    """Write at the end of a bar."""
    ax.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center", fontsize=9)


def _label(reason: str) -> str:
    return "selected (issue)" if reason == "selected" else reason


def _finish(ax: Axes) -> None:
    ax.set_xlabel("warp cycles per issued instruction")
    ax.grid(axis="x", alpha=0.3, linewidth=0.5, color=GREY)
    ax.tick_params(axis="y", length=0)
