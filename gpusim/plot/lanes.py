"""Lanes of a warp: those that run each instruction it issues, and how they part and meet again."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import DEPTH_COLOURS, GREY, INK, LIGHT, PALE, PIPE_COLOURS
from gpusim.plot.style import first_warp, lanes_in, ranges, source, until
from gpusim.results.limiter import PIPES
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import LaneGroup
from gpusim.units import counted, cut
from isa import microops as M

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

UNITS = tuple(PIPES)
"""Execution pipe of each colour: cell value minus 2."""
MOST_LABELS = 100
OFF, GUARDED = 0, 1
"""Values of cells: the lane is not active; it is, but its guard predicate does not hold."""


@style.styled
def lane_activity(
    trace: Trace, warp: int | None = None, first: int = 0, count: int = 48, ax: Axes | None = None
) -> Axes:
    """Lanes of a warp over the instructions that it issues, from top to bottom.

    warp: its number in `trace.warps`, None for the first; first, count: which of its issues, by place. A cell has the
    colour of the execution pipe if its lane runs the instruction, is grey if the lane is active but its guard predicate
    does not hold, and empty if the lane is elsewhere: on the other side of a branch, or ended.

    `ax.collections[0].get_array()` has a row for each issue: 0 inactive, 1 guarded off, 2 and more for `UNITS`. Of a
    whole launch, cells above 0 are `smsp__thread_inst_executed.sum`, those above 1 the same with `_pred_on`.

    Raises ValueError if the warp was not traced or has no such issues.
    """
    warp = first_warp(trace) if warp is None else warp
    rows = trace.of_warp(warp)[first : first + count]
    if not len(rows):
        raise ValueError(f"no issues of warp {warp} from {first} on were recorded")
    cells = _cells(trace, rows)
    ax = style.new_axes(ax, 1.7 + 0.145 * min(max(len(rows), 8), MOST_LABELS))
    shown = _draw(ax, cells)
    _label(ax, trace, rows, first)
    total = len(trace.of_warp(warp))
    active, on = int((cells > OFF).sum()), int((cells > GUARDED).sum())
    span = f"issues {first:,} to {first + len(rows) - 1:,} of {total:,}"
    mean = active / len(rows)
    who = f"{cut(trace.program.name, 40)}, {trace.warp_label(warp)}"
    return style.finish(
        ax,
        f"{who}: {span}, {mean:.1f} of 32 lanes active{until(trace)}",
        f"Lane activity of {trace.program.name}, {trace.warp_label(warp)}, {span}: {mean:.1f} of 32 lanes are active "
        f"on average and {on / len(rows):.1f} execute; {int((cells == OFF).any(axis=1).sum())} of {len(rows)} "
        "instructions run with lanes switched off.",
        x="lane", y="instruction, in order of issue", legend=shown, columns=6,
    )  # fmt: skip


def _cells(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """int64 [issues, 32]: values as `lane_activity` says."""
    units = trace.code[rows["pc"], M.COL_UNIT]
    colour = np.array([2 + UNITS.index(unit) if unit in UNITS else 2 for unit in units.tolist()], np.int64)
    lane = np.arange(32)
    active = (rows["active"].astype(np.int64)[:, None] >> lane) & 1
    executed = (rows["executed"].astype(np.int64)[:, None] >> lane) & 1
    return np.where(executed == 1, colour[:, None], active * GUARDED)


def _draw(ax: Axes, cells: np.ndarray) -> list[Artist]:
    """The cells; returns what the legend shows."""
    colours = [PALE, LIGHT, *(PIPE_COLOURS[unit] for unit in UNITS)]
    names = {k: f"{PIPES[unit]} pipe" for k, unit in enumerate(UNITS, 2)}
    names |= {GUARDED: "guard does not hold", OFF: "not active"}
    return style.cells(ax, cells, colours, names, np.arange(33) - 0.5, np.arange(len(cells) + 1) - 0.5)


def _label(ax: Axes, trace: Trace, rows: np.ndarray, first: int) -> None:
    ax.set_xticks(range(0, 32, 4))
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    every = -(-len(rows) // MOST_LABELS)
    places = range(0, len(rows), every)
    ax.set_yticks(places, [f"{trace.instructions[rows['pc'][k]].opcode}  {first + k}" for k in places], fontsize=7)
    before: object = None
    begun: list[int] = []  # rows beside which a line's text stands
    for k, pc in enumerate(rows["pc"].tolist()):
        instruction = trace.instructions[pc]
        line = (instruction.file, instruction.line)
        if line != before and (not begun or k >= begun[-1] + every):
            text = source(trace, pc, 58) if instruction.line is not None else ""
            ax.annotate(
                text, (1, k), (8, 0), xycoords=ax.get_yaxis_transform(), textcoords="offset points",
                va="center", fontsize=7.5, family="DejaVu Sans Mono", annotation_clip=False,
            )  # fmt: skip
            begun.append(k)
        before = line
    beside = ax.get_yaxis_transform()
    ax.hlines(np.array(begun) - 0.5, 1.002, 1.015, color=LIGHT, transform=beside, clip_on=False, linewidth=0.8)


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
    depths: list[int] = []
    for group in groups:  # behind their parents
        depths.append(depths[group.parent] + 1 if group.parent >= 0 else 0)
    colours = _colours(max(depths))
    for group, depth in zip(groups, depths, strict=True):
        _draw_group(ax, group, colours[depth], rows, place, len(shown) / 200)
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
        f"{counted(parted, 'group')} part, {counted(meetings, 'meeting')}, "
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

    if deepest < len(DEPTH_COLOURS):
        return list(DEPTH_COLOURS[: deepest + 1])
    return [colors.to_hex(colormaps["viridis"](0.12 + 0.88 * depth / deepest)) for depth in range(deepest + 1)]


def _legend(colours: list[str], meet: bool) -> list[Any]:
    """At most seven depths, evenly over all there are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    deepest = len(colours) - 1
    names = ["the whole warp", "parted once", *(f"parted {depth} times" for depth in range(2, deepest + 1))]
    named = np.unique(np.linspace(0, deepest, min(len(colours), len(DEPTH_COLOURS))).round().astype(int)).tolist()
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
    alike = [len(list(lanes)) for _, lanes in groupby(order, lambda lane: [each.lanes >> lane & 1 for each in groups])]
    return list(pairwise((0, *np.cumsum(alike).tolist())))


def _draw_group(
    ax: Axes, group: LaneGroup, colour: str, rows: np.ndarray, place: dict[int, int], narrow: float
) -> None:
    from matplotlib.patches import Rectangle

    for start, end, mask in _runs(group.rows, rows["active"]):
        for low, high in _spans(sorted(place[lane] for lane in lanes_in(mask))):
            edge = 0.4 if end - start > narrow else 0.0  # a white edge would hide a narrow bar
            box = Rectangle((start, low), end - start, high - low, facecolor=colour, edgecolor="white", linewidth=edge)
            ax.add_patch(box)


def _draw_waiting(ax: Axes, rows: np.ndarray, order: list[int], low: int, high: int) -> None:
    """A dotted line wherever some lanes that run later do not run."""
    runs = np.flatnonzero((rows["active"] >> np.uint32(order[low])) & np.uint32(1))
    for before, after in pairwise(runs.tolist()):
        if after > before + 1:
            ax.hlines((low + high) / 2, before + 1, after, color=GREY, linewidth=0.9, linestyle=":", zorder=0.5)


def _runs(members: list[int], active: np.ndarray) -> list[tuple[int, int, int]]:
    """(first row, row after the last, lanes) of neighbouring rows with the same lanes."""
    rows = np.array(members)
    new = np.flatnonzero((np.diff(rows) != 1) | (np.diff(active[rows].astype(np.int64)) != 0)) + 1
    return [(int(each[0]), int(each[-1]) + 1, int(active[each[0]])) for each in np.split(rows, new)]


def _spans(places: list[int]) -> list[tuple[int, int]]:
    """Neighbouring numbers as (first, one after the last)."""
    parts = np.split(np.array(places), np.flatnonzero(np.diff(places) != 1) + 1)
    return [(int(each[0]), int(each[-1]) + 1) for each in parts]


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
