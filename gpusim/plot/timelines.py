"""Rows of bars over time: warps of a scheduler, blocks of a launch, streams of a device or of a step, steps of a
collective, and links as full as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpusim.collectives.result import CollectiveResult, Step
from gpusim.engine.state.layout import STALLS
from gpusim.node.managed import FAULTS
from gpusim.node.timeline import StreamTimeline, row_name, rows_of
from gpusim.parallel.schedule import Schedule
from gpusim.plot import style
from gpusim.plot.colours import GREY, INK, PALE, SPAN_COLOURS, STALL_COLOURS, STEP_COLOURS, WAVE_COLOURS, WORK_COLOURS
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import counts_over_time
from gpusim.units import counted, cut, scaled

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_ROWS = 48
_LETTER = 0.0075
"""Width of a small letter, of the width of the axes."""
_MOST = 0.9
"""Share of the rectangles of a kind that must have room for their names."""


class _Bar(NamedTuple):
    """A rectangle of a row; times in the unit of the axis."""

    row: int
    kind: str
    start: float
    end: float
    name: str = ""


def _timeline(
    ax: Axes | None, labels: Sequence[str], bars: Sequence[_Bar], colours: Mapping[str, str], start: float, end: float,
    gap: float = 0.002, inches: float = 0.3,
) -> tuple[Axes, list[Artist]]:  # fmt: skip
    """Axes with a row for each label, and a collection of rectangles for each kind of bar that occurs: these are what a
    legend shows. Bars that touch are kept apart by `gap`, a share of the window, or a quarter of a short one."""
    ax = style.new_axes(ax, min(1.9 + inches * max(len(labels), 3), 9.0))
    for kind, colour in colours.items():
        mine = [bar for bar in bars if bar.kind == kind]
        if mine:
            at = np.array([bar.row for bar in mine])
            left = np.array([max(bar.start, start) for bar in mine])
            right = np.array([min(bar.end, end) for bar in mine])
            apart = np.minimum(gap * (end - start), (right - left) / 4)
            style.rectangles(ax, left, right - apart, at - 0.38, at + 0.38, colour, kind)
            room = (right - left) / (end - start) - _LETTER * np.array([len(bar.name) + 1 for bar in mine])
            for bar, middle, fits in zip(mine, (left + right) / 2, room > 0, strict=True):
                if bar.name and fits and np.mean(room > 0) >= _MOST:
                    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "clip_on": True}
                    ax.text(middle, bar.row, bar.name, color=style.text_on(colour), **look)
    kinds: list[Artist] = list(ax.collections)
    style.rows(ax, labels, start, end)
    return ax, kinds


def _with_links(
    ax: Axes | None, labels: Sequence[str], bars: Sequence[_Bar], colours: Mapping[str, str], start: float, end: float,
    links: Mapping[str, Any],
) -> tuple[Axes, list[Artist]]:  # fmt: skip
    """The same of microseconds, and below it a row for each link: bars as high as the share of its bandwidth that is
    used. links: by name [intervals, 3] of start, end and share."""
    ax, kinds = _timeline(ax, [*labels, *(cut(name, 34) for name in links)], bars, colours, start, end)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for row, (name, intervals) in enumerate(links.items(), len(labels)):
        ax.axhspan(row - 0.4, row + 0.4, color=PALE, linewidth=0, zorder=1)
        left, right, share = np.array(intervals, np.float64).reshape(-1, 3).T
        low = row + 0.4 - 0.8 * np.minimum(share, 1.0)
        style.rectangles(ax, left, right, low, row + 0.4, GREY, name, smooth=True)
    return ax, kinds


def _check_window(shown: Sequence[Any], start: float, end: float) -> None:
    """Raise ValueError for a window without anything in it."""
    if not shown or end <= start:
        raise ValueError(f"nothing happens between {start:,.1f} and {end:,.1f} us")


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
    begin = int(mine["start"].min()) if start is None else start
    end = int(mine["end"].max()) if cycles is None else begin + cycles
    end = end if trace.complete else min(end, trace.until)
    if end <= begin:
        raise ValueError(f"the trace ends at cycle {trace.until:,}, before cycle {begin:,}")
    slots = np.unique(mine["slot"])
    ax = style.new_axes(ax, min(2.1 + 0.24 * max(len(slots), 4), 8.5))
    spans = trace.spans(mine["warp"])
    own = mine[np.searchsorted(mine["warp"], spans["warp"])]
    shares = _draw_stalls(ax, spans, np.searchsorted(slots, own["slot"]), begin, end)
    issued = shares.get("selected", 0)
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


def _draw_stalls(ax: Axes, spans: np.ndarray, row: np.ndarray, begin: int, end: int) -> dict[str, int]:
    """Rectangles of every reason that occurs in a window; returns warp cycles by reason."""
    left, right = np.maximum(spans["start"], begin), np.minimum(spans["end"], end)
    shares = {}
    for k, reason in enumerate(STALLS):
        mine = (spans["reason"] == k) & (left < right)
        if mine.any():
            half, above = (0.5, 3) if reason == "selected" else (0.36, 2)
            low, high = row[mine] - half, row[mine] + half
            style.rectangles(ax, left[mine], right[mine], low, high, STALL_COLOURS[reason], reason, zorder=above)
            shares[reason] = int((right - left)[mine].sum())
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
    blocks, place, turn = trace.places()
    if not len(blocks):
        raise ValueError("the trace has no blocks")
    sms = trace.config.sm.count
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


def _tail_start(blocks: np.ndarray, sms: int) -> int:
    """Cycle from which an SM has no block any more; the first start if one never has any."""
    last = [int(blocks["end"][blocks["sm"] == sm].max()) for sm in np.unique(blocks["sm"])]
    return int(blocks["start"].min()) if len(last) < sms else min(last)


def _count(ax: Axes, blocks: np.ndarray) -> None:
    """Resident blocks of the whole GPU over time."""
    at, count = counts_over_time(blocks)
    ax.plot(at, count, color=INK, linewidth=1.2, drawstyle="steps-post")
    ax.fill_between(at, count, step="post", color=GREY, alpha=0.25, linewidth=0)
    ax.set_ylabel("blocks")
    ax.set_ylim(0, 1.1 * count.max())
    ax.tick_params(labelbottom=False)


def _draw_blocks(ax: Axes, blocks: np.ndarray, place: np.ndarray, turn: np.ndarray) -> int:
    """The blocks, a collection for each colour; returns the number of waves."""
    waves = int(turn.max()) + 1
    most = np.zeros(int(blocks["sm"].max()) + 1, np.int64)
    np.maximum.at(most, blocks["sm"], place + 1)
    room = most[blocks["sm"]]  # places of the block's SM
    low = blocks["sm"] - 0.5 + place / room
    for colour in range(min(waves, len(WAVE_COLOURS))):
        mine = turn % len(WAVE_COLOURS) == colour
        more = f", {colour + 1 + len(WAVE_COLOURS)}, …" if waves > colour + len(WAVE_COLOURS) else ""
        start, end, at, high = blocks["start"][mine], blocks["end"][mine], low[mine], (low + 1 / room)[mine]
        label = f"wave {colour + 1}{more}"
        style.rectangles(ax, start, end, at, high, WAVE_COLOURS[colour], label, smooth=True)
    return waves


@style.styled
def streams_timeline(
    timeline: StreamTimeline, start: float = 0.0, end: float | None = None, links: int = 2, ax: Axes | None = None
) -> Axes:
    """A row for each stream, with a rectangle for each kernel, copy, prefetch and call of the host, one for what page
    faults of managed memory move, and one for each of the `links` links that carry most, where a bar's height is the
    share of its capacity.

    timeline: of `Device.timeline()`. start, end: microseconds, by default all of it. `ax.collections` has one
    collection of rectangles for each kind of span (`get_label()`), and one for each link.

    Raises ValueError for a window in which nothing happens.

    >>> import gpusim, numpy as np
    >>> with gpusim.Device("tiny") as device:
    ...     x, stream = device.device_array(1 << 16, np.float32), device.stream()
    ...     x.copy_to_device(device.pinned_array(1 << 16, np.float32), stream)
    ...     device.synchronize()
    ...     ax = gpusim.plot.streams_timeline(device.timeline())
    >>> [each.get_label() for each in ax.collections][0]
    'copy'
    """
    end = max((span.end for span in timeline.spans), default=0.0) if end is None else end
    shown = [span for span in timeline.spans if span.end > start and span.start < end]
    _check_window(shown, start, end)
    rows = rows_of(shown)
    several = len({gpu for gpu, _ in rows}) > 1
    labels = [f"{row[0]} {row_name(row)}" if several else row_name(row) for row in rows]
    used = {name: _intervals(steps, start, end) for name, steps in timeline.links.items()}
    carried = {name: float(((each[:, 1] - each[:, 0]) * each[:, 2]).sum()) for name, each in used.items()}
    busiest = sorted((name for name in carried if carried[name] > 0), key=lambda name: (-carried[name], name))[:links]
    bars = [_Bar(rows.index((span.gpu, span.stream)), span.kind, span.start, span.end) for span in shown]
    ax, kinds = _with_links(ax, labels, bars, SPAN_COLOURS, start, end, {name: used[name] for name in busiest})
    count = counted(sum(number != FAULTS for _, number in rows), "stream")
    busy = {kind: sum(span.end - span.start for span in shown if span.kind == kind) for kind in SPAN_COLOURS}
    told = {kind: f"{kind} {time:,.0f} us" for kind, time in busy.items() if time}
    words = ", ".join(told.values())
    return style.finish(
        ax,
        f"{count}, {end - start:,.0f} us: {', '.join(told[kind] for kind in told if 'fault' not in kind)} in all",
        f"Timeline of {count} over {end - start:,.0f} us: {words}; "
        f"{counted(len(shown), 'piece')} of work.",
        x="microseconds", columns=6, legend=kinds,
    )  # fmt: skip


def _intervals(steps: tuple[tuple[float, float], ...], start: float, end: float) -> np.ndarray:
    """float64 [changes, 3]: start, end and share of a link's use, clipped to a window."""
    times, shares = np.array(steps).T
    ends = np.append(times[1:], end)
    return np.column_stack([np.clip(times, start, end), np.clip(ends, start, end), shares])


@style.styled
def training_timeline(schedule: Schedule, links: int = 1, ax: Axes | None = None) -> Axes:
    """Streams of every simulated GPU over time, with one colour for each kind of work.

    links: so many of the links that carry most get a row too, where a bar's height is the share of the link's
    bandwidth. Names, of layers or of a pipeline's micro-batches, stand in the rectangles of a kind if there is room;
    what follows at once under the same name is one rectangle.

    `ax.collections` has one collection of rectangles for each kind (`get_label()`), whose widths are those of
    `schedule.timeline`, and one for links.

    Raises ValueError for a step without work.

    >>> from gpusim import plot
    >>> from gpusim.parallel import Layer, pipeline
    >>> ax = plot.training_timeline(pipeline([Layer("a", 100.0, 200.0)] * 4, 4, 4))
    >>> [each.get_label() for each in ax.collections]
    ['forward', 'backward']
    """
    # The compute stream of a GPU first, then its others by name.
    found = {(event.gpu, event.stream) for event in schedule.timeline}
    streams = sorted(found, key=lambda key: (key[0], key[1] != "compute", key[1]))
    events = [
        _Bar(streams.index((event.gpu, event.stream)), event.kind, event.start_us, event.end_us, event.name)
        for event in schedule.timeline
    ]
    _check_window(events, 0.0, schedule.time_us)
    busiest = sorted(schedule.link_bytes, key=lambda name: (-schedule.link_bytes[name], name))[: max(links, 0)]
    labels = [f"gpu{gpu} {stream}" for gpu, stream in streams]
    use = {name: schedule.link_timeline(name) for name in busiest}
    ax, kinds = _with_links(ax, labels, _joined(events), WORK_COLOURS, 0.0, schedule.time_us, use)
    title = f"{schedule.kind} on {schedule.gpus} GPUs of {schedule.node}: {schedule.time_us:,.0f} us"
    which = "all of them" if len(schedule.simulated) == schedule.gpus else "one of them, the others do the same"
    exposed = f"{schedule.exposed_communication_us:,.0f} us"
    return style.finish(
        ax,
        f"{title}, {exposed} of communication exposed",
        f"Timeline of a training step, {title}; {which}. Compute {schedule.utilisation:.0%} of the time, bubble "
        f"{schedule.bubble:.0%}, communication {schedule.communication_us:,.0f} us, of which {exposed} with nothing to "
        "compute.",
        x="microseconds", columns=7, legend=kinds,
    )  # fmt: skip


def _joined(bars: Iterable[_Bar]) -> list[_Bar]:
    """Bars of a row that follow each other at once under one name, such as the layers of a stage, as one."""
    found: list[_Bar] = []
    last: dict[int, int] = {}
    for bar in bars:
        before = found[last[bar.row]] if bar.row in last else None
        if before and (before.name, before.kind) == (bar.name, bar.kind) and bar.start - before.end < 1e-6:
            found[last[bar.row]] = before._replace(end=bar.end)
        else:
            last[bar.row] = len(found)
            found.append(bar)
    return found


@style.styled
def collective_steps(result: CollectiveResult, channel: int = 0, ax: Axes | None = None) -> Axes:
    """The steps of one channel: a row for each rank's block, a rectangle from when a slice could be worked on until it
    was handed on. White is waiting: for slices to come, or for room where they go.

    result: of `gpusim.collective(..., trace=True)`. `ax.collections` has a collection for each kind of step
    (`get_label()`), with a rectangle for each of the channel's `result.steps`.

    Raises ValueError for a result without a trace, and for a channel that it does not have.

    >>> import gpusim
    >>> ax = gpusim.plot.collective_steps(gpusim.collective("all_gather", 1 << 22, 4, trace=True))
    >>> [each.get_label() for each in ax.collections]
    ['sends its own', 'receives and sends on', 'receives']
    """
    if not result.steps:
        raise ValueError("the collective was not traced: gpusim.collective(..., trace=True)")
    steps = [step for step in result.steps if step.channel == channel]
    if not steps:
        known = sorted({step.channel for step in result.steps})
        raise ValueError(f"there is no channel {channel}; there are {known[0]} to {known[-1]}")
    ranks = sorted({step.rank for step in steps})
    begin = result.launch_us + result.start_us
    bars = [_Bar(ranks.index(step.rank), _kind(step), begin + step.start_us, begin + step.end_us) for step in steps]
    labels = [f"gpu{rank}" for rank in ranks]
    ax, kinds = _timeline(ax, labels, bars, STEP_COLOURS, 0, result.time_us, 0.0016, 0.34)
    ax.axvline(begin, color="black", linewidth=0.8, linestyle=":")
    last = max(step.end_us for step in steps)
    busy = sum(step.end_us - step.start_us for step in steps) / (last * len(ranks))
    what = f"{result.name} of {scaled(result.nbytes, 0)}B on {result.ranks} GPUs"
    title = f"channel {channel} of {result.channels} of {what}, {result.algorithm} with {result.protocol}"
    return style.finish(
        ax,
        f"{title[0].upper()}{title[1:]}: {result.time_us:,.1f} us",
        f"Steps of {title}: {len(steps):,} steps of at most {max(step.bytes for step in steps):,} bytes in "
        f"{result.time_us:,.1f} us, of which {begin:.1f} us before the blocks have started; from then on they work "
        f"{busy:.0%} of the time.",
        x="microseconds since the call; dotted: the blocks have started", legend=kinds,
    )  # fmt: skip


def _kind(step: Step) -> str:
    if step.receives:
        return "receives and sends on" if step.sends else "receives"
    return "sends its own"


@style.styled
def link_utilisation(result: CollectiveResult, ax: Axes | None = None) -> Axes:
    """A row for each direction of a link that carries data, the darker the fuller, from when the blocks start.

    result: of `gpusim.collective(..., trace=True)`. `ax.images[0]` holds the shares of bandwidth, 0 to 1, in the order
    of the labels: the links as the node names them. Of many, the busiest are shown.

    Raises ValueError for a result without a trace.

    >>> import gpusim
    >>> ax = gpusim.plot.link_utilisation(gpusim.collective("all_reduce", 1 << 20, 2, trace=True))
    >>> len(ax.get_yticklabels())
    4
    """
    use = result.utilisation
    if use is None or not use.size:
        raise ValueError("the collective was not traced: gpusim.collective(..., trace=True)")
    rows = sorted(k for k in np.argsort(-use.sum(axis=1), kind="stable")[:_MOST_ROWS].tolist() if use[k].any())
    shares = np.clip(use[rows], 0.0, 1.0)
    begin = result.launch_us + result.start_us
    end = begin + result.bin_us * shares.shape[1]
    ax = style.new_axes(ax, min(1.8 + 0.26 * max(len(rows), 4), 9.0))
    drawn = ax.imshow(
        shares, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0, vmax=1,
        extent=(begin, end, len(rows) - 0.5, -0.5),
    )  # fmt: skip
    style.rows(ax, [cut(result.link_names[k], 34) for k in rows], begin, end)
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.01, format=lambda value, _: f"{100 * value:.0f} %")
    bar.set_label("of the link's bandwidth")
    bar.outline.set_visible(False)
    what = f"{result.name} of {scaled(result.nbytes, 0)}B on {result.ranks} GPUs of {result.node}"
    means = shares.mean(axis=1)
    return style.finish(
        ax,
        f"{what}: links {100 * means.mean():.0f} % full while data moves",
        f"Links over time, {what}, {result.algorithm} with {result.protocol}: {len(rows)} links carry data, "
        f"{100 * means.min():.0f} to {100 * means.max():.0f} % full between {begin:,.0f} and {end:,.0f} us; the "
        f"fullest is {result.link_names[rows[int(np.argmax(means))]]}.",
        x="microseconds since the call",
    )  # fmt: skip
