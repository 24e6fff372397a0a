"""Scheduler timeline: what every warp of a sub-partition does in each cycle, issues and stalls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.engine.state.layout import STALLS
from gpusim.plot import style
from gpusim.plot.colours import STALL_COLOURS
from gpusim.plot.words import cut
from gpusim.tracing.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@style.styled
def scheduler_timeline(
    trace: Trace,
    sm: int | None = None,
    scheduler: int = 0,
    start: int | None = None,
    cycles: int | None = 400,
    ax: Axes | None = None,
) -> Axes:
    """Warps of one warp scheduler over time: an issue is green, everything else has the colour of its stall reason.

    sm: an SM that was traced, None for the first; scheduler: its sub-partition; start, cycles: the window in SM clock
    cycles from the launch on, by default 400 from the start of the first warp; cycles=None draws to the end. A row is a
    warp slot, its label the warp that has it first. A column with one green cell is a cycle in which the scheduler
    issues, a column without one is lost.

    `ax.collections` has one collection of rectangles for each reason (`get_label()`): their areas are warp cycles. Over
    a whole launch of which all SMs were traced they add up to `result.stall_reasons`.

    Raises ValueError if the SM was not traced, or its scheduler had no warp; and for a window after the end of a trace
    that is not complete.

    >>> from gpusim import plot, simulate
    >>> from programs.registry import get
    >>> launch = get("matmul/tiled").make(32, 0)
    >>> result = simulate(launch.kernel, launch.grid, launch.block, launch.args, trace=True)
    >>> ax = plot.scheduler_timeline(result.trace)
    >>> ax.collections[0].get_label()
    'selected'
    """
    warps = trace.warps
    sms = tuple(trace.options.sms)
    sm = sms[0] if sm is None and sms else sm
    mine = warps[(warps["sm"] == sm) & (warps["scheduler"] == scheduler) & np.isin(warps["sm"], sms)]
    if not len(mine):
        raise ValueError(f"no warp of scheduler {scheduler} of SM {sm} was traced")
    issues = trace.issues[np.isin(trace.issues["warp"], mine["warp"])]
    begin = int(mine["start"].min()) if start is None else start
    end = int(mine["end"].max()) if cycles is None else begin + cycles
    end = end if trace.complete else min(end, trace.until)
    if end <= begin:
        raise ValueError(f"the trace ends at cycle {trace.until:,}, before cycle {begin:,}")
    slots = np.unique(mine["slot"])
    row = {int(slot): k for k, slot in enumerate(slots)}
    slot_of = {int(each["warp"]): row[int(each["slot"])] for each in mine}
    ax = style.new_axes(ax, min(2.1 + 0.24 * max(len(slots), 4), 8.5))
    boxes = _boxes(trace, issues, mine, slot_of, begin, end)
    shares = _draw(ax, boxes)
    issued = len(boxes["selected"])
    ax.set(xlim=(begin, end), ylim=(len(slots) - 0.5, -0.5))
    ax.set_yticks(range(len(slots)), [_first_warp(trace, mine, int(slot), len(slots)) for slot in slots], fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("SM clock cycles since the launch")
    ax.set_ylabel("warp slot")
    ax.ticklabel_format(axis="x", useOffset=False, style="plain")
    ax.set_title(
        f"{cut(trace.program.name, 40)}, SM {sm}, scheduler {scheduler}: issues in {issued:,} of {end - begin:,} "
        f"cycles ({100 * issued / max(end - begin, 1):.0f} %)"
    )
    total = max(sum(shares.values()), 1)
    longest = sorted(shares.items(), key=lambda item: -item[1])[:4]
    words = ", ".join(f"{reason} {100 * share / total:.0f} %" for reason, share in longest)
    style.describe(
        ax,
        f"Timeline of scheduler {scheduler} of SM {sm} running {trace.program.name}, cycles {begin:,} to {end:,}: it "
        f"issues in {issued:,} cycles; the time of its {len(slots)} warp slots is {words}.",
    )
    return ax


def _boxes(
    trace: Trace, issues: np.ndarray, mine: np.ndarray, slot_of: dict[int, int], begin: int, end: int
) -> dict[str, np.ndarray]:
    """float64 [rectangles, 3] of each stall reason: start, end, row; clipped to the window."""
    stalls = trace.stalls[np.isin(trace.stalls["warp"], mine["warp"])]
    found: dict[str, list[tuple[int, int, int]]] = {reason: [] for reason in STALLS}
    found["selected"] = [
        (cycle, cycle + 1, slot_of[warp])
        for cycle, warp in zip(issues["cycle"].tolist(), issues["warp"].tolist(), strict=True)
        if begin <= cycle < end
    ]
    for each in stalls[(stalls["start"] < end) & (stalls["end"] > begin)]:
        reason = STALLS[each["reason"]]
        row = slot_of[int(each["warp"])]
        found[reason].append((max(int(each["start"]), begin), min(int(each["end"]), end), row))
    return {reason: np.array(boxes, np.float64).reshape(-1, 3) for reason, boxes in found.items()}


def _draw(ax: Axes, boxes: dict[str, np.ndarray]) -> dict[str, float]:
    """Rectangles of every reason that occurs; returns warp cycles by reason."""
    shares = {}
    for reason, rows in boxes.items():
        if not len(rows):
            continue
        start, end, row = rows.T
        half, above = (0.5, 3) if reason == "selected" else (0.36, 2)
        style.rectangles(ax, start, end, row - half, row + half, STALL_COLOURS[reason], reason, zorder=above)
        shares[reason] = float((end - start).sum())
    style.legend_below(ax, list(ax.collections), 5)
    return shares


def _first_warp(trace: Trace, mine: np.ndarray, slot: int, slots: int) -> str:
    """Label of a slot; without the warp where rows are narrow."""
    if slots > 24:
        return str(slot)
    each = mine[mine["slot"] == slot]
    warp = int(each["warp"][np.argmin(each["start"])])
    return f"{slot}: {trace.warp_label(warp)}"
