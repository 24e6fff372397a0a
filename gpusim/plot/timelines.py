"""What happened when: the warps of one scheduler in each cycle, and the blocks of a launch on all SMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.engine.state.layout import STALLS
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, STALL_COLOURS
from gpusim.plot.words import cut
from gpusim.tracing.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WAVES = (BLUE, ORANGE, SKY, GREEN, PURPLE)


@style.styled
def scheduler_timeline(
    trace: Trace, sm: int | None = None, scheduler: int = 0, start: int | None = None, cycles: int | None = 400,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Warps of one warp scheduler over time: an issue is green, everything else has the colour of its stall reason.

    sm: an SM that was traced, None for the first; scheduler: its sub-partition; start, cycles: the window in SM clock
    cycles from the launch on, by default 400 from the start of the first warp; cycles=None draws to the end. A row is a
    warp slot, its label the warp that has it first. A column with one green cell is a cycle in which the scheduler
    issues, a column without one is lost.

    `ax.collections` has one collection of rectangles for each reason (`get_label()`): their areas are warp cycles. Over
    a whole launch of which all SMs were traced they add up to `result.stall_reasons`.

    Raises ValueError if the SM was not traced, or its scheduler had no warp; and for a window after the end of a trace
    that is not complete.
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
    shares = _draw_stalls(ax, boxes)
    issued = len(boxes["selected"])
    style.rows(ax, [_first_warp(trace, mine, int(slot), len(slots)) for slot in slots], begin, end)
    ax.ticklabel_format(axis="x", useOffset=False, style="plain")
    total = max(sum(shares.values()), 1)
    longest = sorted(shares.items(), key=lambda item: -item[1])[:4]
    words = ", ".join(f"{reason} {100 * share / total:.0f} %" for reason, share in longest)
    return style.finish(
        ax,
        f"{cut(trace.program.name, 40)}, SM {sm}, scheduler {scheduler}: issues in {issued:,} of {end - begin:,} "
        f"cycles ({100 * issued / max(end - begin, 1):.0f} %)",
        f"Timeline of scheduler {scheduler} of SM {sm} running {trace.program.name}, cycles {begin:,} to {end:,}: it "
        f"issues in {issued:,} cycles; the time of its {len(slots)} warp slots is {words}.",
        x="SM clock cycles since the launch", y="warp slot", legend=list(ax.collections), columns=5,
    )  # fmt: skip


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


def _draw_stalls(ax: Axes, boxes: dict[str, np.ndarray]) -> dict[str, float]:
    """Rectangles of every reason that occurs; returns warp cycles by reason."""
    shares = {}
    for reason, rows in boxes.items():
        if not len(rows):
            continue
        start, end, row = rows.T
        half, above = (0.5, 3) if reason == "selected" else (0.36, 2)
        style.rectangles(ax, start, end, row - half, row + half, STALL_COLOURS[reason], reason, zorder=above)
        shares[reason] = float((end - start).sum())
    return shares


def _first_warp(trace: Trace, mine: np.ndarray, slot: int, slots: int) -> str:
    """Label of a slot; without the warp where rows are narrow."""
    if slots > 24:
        return str(slot)
    each = mine[mine["slot"] == slot]
    warp = int(each["warp"][np.argmin(each["start"])])
    return f"{slot}: {trace.warp_label(warp)}"


@style.styled
def sm_residency(trace: Trace) -> Figure:
    """Every block of a launch on its SM over time, and above it how many there are at once.

    An SM's rows are the places that its blocks take, a block the first that is free; the n-th block of a place belongs
    to wave n. From the dashed line on, an SM has run out of blocks while others still work: the tail.

    `figure.axes[0].lines[0]` is the number of resident blocks, `figure.axes[1].collections` the blocks by colour, one
    rectangle each: `launch__grid_size` in all.

    Raises ValueError for a trace without blocks.
    """
    blocks = np.sort(trace.blocks, order=["sm", "start", "block"])
    if not len(blocks):
        raise ValueError("the trace has no blocks")
    sms = trace.config.sm.count
    place, turn = _places(blocks)
    places = int(place.max()) + 1
    figure = style.new_figure(6.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1, 4])
    _count(upper, blocks)
    waves = _draw_blocks(lower, blocks, place, turn)
    end, begin = int(blocks["end"].max()), int(blocks["start"].min())
    tail = _tail_start(blocks, sms)
    for ax in (upper, lower):
        ax.axvline(tail, color=INK, linewidth=1.2, linestyle="--")
        ax.set_xlim(0, trace.cycles)
    upper.annotate("tail", (tail, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points", va="top")
    lower.set(ylim=(sms - 0.5, -0.5))
    lower.set_xlabel("SM clock cycles since the launch")
    lower.set_ylabel("SM")
    if waves > 1:
        style.legend_below(lower, list(lower.collections), 5)
    share = 100 * (end - tail) / max(end - begin, 1)
    used = len(np.unique(blocks["sm"]))
    counts = f"{len(blocks):,} blocks on {used} of {sms} SMs, {places} at once on one; tail {share:.0f} % of the time"
    return style.finish_figure(
        figure,
        f"{cut(trace.program.name, 30)}: {counts}",
        f"SM residency of {trace.program.name}: {counts}, from cycle {tail:,} to {end:,}; the first block starts at "
        f"cycle {begin:,}.",
    )


def _places(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place of each block on its SM, the first that is free, and how many had it before. Sorted by SM and start."""
    place = np.zeros(len(blocks), np.int64)
    turn = np.zeros(len(blocks), np.int64)
    free: list[int] = []  # end of the last block of each place
    used: list[int] = []
    sm = -1
    for k, (on, start, end) in enumerate(
        zip(blocks["sm"].tolist(), blocks["start"].tolist(), blocks["end"].tolist(), strict=True)
    ):
        if on != sm:
            sm, free, used = on, [], []
        at = next((n for n, until in enumerate(free) if until <= start), len(free))
        if at == len(free):
            free.append(0)
            used.append(0)
        place[k], turn[k] = at, used[at]
        free[at] = end
        used[at] += 1
    return place, turn


def _tail_start(blocks: np.ndarray, sms: int) -> int:
    """Cycle from which an SM has no block any more; the first start if one never has any."""
    last = [int(blocks["end"][blocks["sm"] == sm].max()) for sm in np.unique(blocks["sm"])]
    return int(blocks["start"].min()) if len(last) < sms else min(last)


def _count(ax: Axes, blocks: np.ndarray) -> None:
    """Resident blocks of the whole GPU over time."""
    times = np.concatenate([blocks["start"], blocks["end"]])
    change = np.concatenate([np.ones(len(blocks), np.int64), -np.ones(len(blocks), np.int64)])
    at, index = np.unique(times, return_inverse=True)
    count = np.cumsum(np.bincount(index, weights=change))
    ax.plot(at, count, color=INK, linewidth=1.2, drawstyle="steps-post")
    ax.fill_between(at, count, step="post", color=GREY, alpha=0.25, linewidth=0)
    ax.set_ylabel("blocks")
    ax.set_ylim(0, 1.1 * count.max())
    ax.tick_params(labelbottom=False)


def _draw_blocks(ax: Axes, blocks: np.ndarray, place: np.ndarray, turn: np.ndarray) -> int:
    """The blocks, a collection for each colour; returns the number of waves."""
    waves = int(turn.max()) + 1
    on, first = np.unique(blocks["sm"], return_inverse=True)
    room = np.maximum.reduceat(place, np.searchsorted(blocks["sm"], on))[first] + 1  # places of the block's SM
    low = blocks["sm"] - 0.5 + place / room
    for colour in range(min(waves, len(_WAVES))):
        mine = turn % len(_WAVES) == colour
        more = f", {colour + 1 + len(_WAVES)}, …" if waves > colour + len(_WAVES) else ""
        start, end, at, high = blocks["start"][mine], blocks["end"][mine], low[mine], (low + 1 / room)[mine]
        label = f"wave {colour + 1}{more}"
        style.rectangles(ax, start, end, at, high, _WAVES[colour], label, smooth=True)
    return waves
