"""Divergence tree: how the lanes of a warp part and meet again, over the instructions that it issues."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from gpusim.plot.words import cut, first_warp, lanes_in, ranges, source, until
from gpusim.tracing.reconvergence import LaneGroup
from gpusim.tracing.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DEPTHS = (BLUE, ORANGE, SKY, GREEN, PURPLE, YELLOW, VERMILLION)
"""Of groups by how often they have parted, if none has more often; else they take the steps of a colour map."""


@style.styled
def divergence_tree(
    trace: Trace, warp: int | None = None, ax: Axes | None = None, *, first: int = 0, count: int | None = None
) -> Axes:
    """Groups of lanes that run together, over the instructions that a warp issues.

    warp: its number in `trace.warps`, None for the first; first, count: which of its issues are in view, by place; None
    for all that follow. A bar is a group of lanes that issues instructions (its
    height is the lanes, its length the instructions), coloured by how often they have parted; a dotted line is a group
    that waits; a black stroke is where lanes meet again. Lanes are sorted so that groups lie together. Since a warp
    issues for one group at a time, what stands side by side is paid for one after the other.

    `ax.patches` are the bars: the sum of their areas is the warp's share of `smsp__thread_inst_executed.sum`, the
    length of all its share of `smsp__inst_executed.sum`.

    Raises ValueError if no such issue of the warp was traced.
    """
    warp = first_warp(trace) if warp is None else warp
    rows, groups = trace.of_warp(warp), trace.reconvergence(warp)
    shown = rows[first : None if count is None else first + count]
    if not groups or not len(shown):
        raise ValueError(f"no issues of warp {warp} from {first} on were recorded")
    ax = style.new_axes(ax, 5.6)
    order = _order(groups)
    place = {lane: k for k, lane in enumerate(order)}
    met = {group.met_row for group in groups if group.met_row >= 0}
    colours = _colours(max(_depth(groups, group) for group in groups))
    for group in groups:
        _draw_group(ax, group, colours[_depth(groups, group)], rows, place, len(shown) / 200)
    view = first, first + len(shown)
    named = _meetings(ax, trace, rows, groups, place, view)
    signatures = _signatures(groups, order)
    for low, high in signatures:
        _draw_waiting(ax, rows, order, low, high)
    middles = [(low + high) / 2 for low, high in signatures]
    ax.set_yticks(middles, [ranges(sorted(order[low:high])) for low, high in signatures], fontsize=8)
    ax.set(xlim=view, ylim=(32, 0))
    ax.tick_params(axis="y", length=0)
    threads = sum(int(mask).bit_count() for mask in shown["active"])
    parted = sum(group.parent >= 0 and view[0] <= group.rows[0] < view[1] for group in groups)
    meetings = sum(view[0] <= row < view[1] for row in met)
    counts = (
        f"{style.plural(parted, 'group')} part, {style.plural(meetings, 'meeting')}, "
        f"{threads / len(shown):.1f} of 32 lanes active"
    )
    if len(shown) < len(rows):
        counts = f"issues {view[0]:,} to {view[1] - 1:,} of {len(rows):,}, {counts}"
    who = f"{cut(trace.program.name, 40)}, {trace.warp_label(warp)}"
    return style.finish(
        ax,
        f"{who}: {counts}{until(trace)}",
        f"Divergence tree of {trace.program.name}, {trace.warp_label(warp)}, over {len(shown):,} issued instructions: "
        f"{counts} on average{until(trace)}. {_first_parting(trace, groups)}",
        x="instructions issued for the warp, in order", y="lanes", columns=6, title_pad=26 if named else 8,
        legend=_legend(colours, bool(met)),
    )  # fmt: skip


def _colours(deepest: int) -> list[str]:
    """The colour of each depth, up to the deepest: no two alike."""
    from matplotlib import colormaps, colors

    if deepest < len(_DEPTHS):
        return list(_DEPTHS[: deepest + 1])
    return [colors.to_hex(colormaps["viridis"](0.12 + 0.88 * depth / deepest)) for depth in range(deepest + 1)]


def _legend(colours: list[str], meet: bool) -> list[Any]:
    """At most seven depths, evenly over all there are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    deepest = len(colours) - 1
    names = ["the whole warp", "parted once", *(f"parted {depth} times" for depth in range(2, deepest + 1))]
    named = np.unique(np.linspace(0, deepest, min(len(colours), len(_DEPTHS))).round().astype(int)).tolist()
    shown: list[Any] = [Patch(color=colours[depth], label=names[depth]) for depth in named]
    if deepest:
        shown.append(Line2D([], [], color=GREY, linewidth=1.2, linestyle=":", label="waiting"))
    if meet:
        shown.append(Line2D([], [], color=INK, linewidth=2.2, label="lanes meet again"))
    return shown


def _order(groups: tuple[LaneGroup, ...]) -> list[int]:
    """Lanes so that those of a group are neighbours, the group that runs first on top."""
    return sorted(range(32), key=lambda lane: [group.lanes >> lane & 1 == 0 for group in groups])


def _signatures(groups: tuple[LaneGroup, ...], order: list[int]) -> list[tuple[int, int]]:
    """(first place, place after the last) of lanes that are in the same groups."""
    found = []
    start = 0
    member = {lane: [group.lanes >> lane & 1 for group in groups] for lane in order}
    for k in range(1, 33):
        if k == 32 or member[order[k]] != member[order[start]]:
            found.append((start, k))
            start = k
    return found


def _depth(groups: tuple[LaneGroup, ...], group: LaneGroup) -> int:
    depth = 0
    while group.parent >= 0:
        group = groups[group.parent]
        depth += 1
    return depth


def _draw_group(
    ax: Axes, group: LaneGroup, colour: str, rows: np.ndarray, place: dict[int, int], narrow: float
) -> None:
    from matplotlib.patches import Rectangle

    runs = _runs(group.rows, rows["active"])
    for start, end, mask in runs:
        for low, high in _spans(sorted(place[lane] for lane in lanes_in(mask))):
            edge = 0.4 if end - start > narrow else 0.0  # a white edge would hide a narrow bar
            box = Rectangle((start, low), end - start, high - low, facecolor=colour, edgecolor="white", linewidth=edge)
            ax.add_patch(box)


def _draw_waiting(ax: Axes, rows: np.ndarray, order: list[int], low: int, high: int) -> None:
    """A dotted line wherever some lanes that run later do not run."""
    lane = order[low]
    runs = np.flatnonzero((rows["active"] >> np.uint32(lane)) & np.uint32(1))
    for before, after in pairwise(runs.tolist()):
        if after > before + 1:
            ax.hlines((low + high) / 2, before + 1, after, color=GREY, linewidth=0.9, linestyle=":", zorder=0.5)


def _runs(members: tuple[int, ...], active: np.ndarray) -> list[tuple[int, int, int]]:
    """(first row, row after the last, lanes) of neighbouring rows with the same lanes."""
    found: list[tuple[int, int, int]] = []
    for row in members:
        mask = int(active[row])
        if found and found[-1][1] == row and found[-1][2] == mask:
            found[-1] = (found[-1][0], row + 1, mask)
        else:
            found.append((row, row + 1, mask))
    return found


def _spans(places: list[int]) -> list[tuple[int, int]]:
    """Neighbouring numbers as (first, one after the last)."""
    found: list[tuple[int, int]] = []
    for each in places:
        if found and found[-1][1] == each:
            found[-1] = (found[-1][0], each + 1)
        else:
            found.append((each, each + 1))
    return found


def _meetings(
    ax: Axes,
    trace: Trace,
    rows: np.ndarray,
    groups: tuple[LaneGroup, ...],
    place: dict[int, int],
    view: tuple[int, int],
) -> bool:
    """A black stroke where lanes meet, over those that issue together then; source lines above, if there is room.
    Returns whether there are any."""
    at = sorted({group.met_row for group in groups if view[0] <= group.met_row < view[1]} - {-1})
    span = view[1] - view[0]
    for row in at:
        for low, high in _spans(sorted(place[lane] for lane in lanes_in(int(rows["active"][row])))):
            ax.vlines(row, low, high, color=INK, linewidth=2.2, zorder=3)
    last, named = view[0] - span, False
    for row in at:
        number = trace.instructions[rows["pc"][row]].line
        if number is not None and row - last >= span / 12:
            text = f"meet at\nline {number}"
            ax.annotate(text, (row, 0), (0, 3), textcoords="offset points", ha="center", fontsize=7.5)
            last, named = row, True
    return named


def _first_parting(trace: Trace, groups: tuple[LaneGroup, ...]) -> str:
    parted = next((group for group in groups if group.parted_pc >= 0), None)
    if parted is None:
        return "The lanes never part."
    return f"Lanes part first after line {source(trace, parted.parted_pc)}."
