"""Explorations: time against one axis as curves, a search's front, and the change of a time by each parameter.

Rows of a sweep are a pandas DataFrame, or any sequence of mappings with the same names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from gpusim.errors import did_you_mean
from gpusim.explore.point import PARAMETERS
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, INK, LIGHT, LINE_COLOURS, MARKERS, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpusim.explore.search import Found
    from gpusim.explore.sensitivity import KeyEffect, Sensitivity

Rows = Any
"""A `pandas.DataFrame`, or an iterable of {column: value}."""
_UNITS = {"_cycles": "SM clock cycles", "bytes": "bytes", "_gb_s": "GB/s", "_mhz": "MHz"}
"""By the endings of a configuration's keys."""


@style.styled
def scaling_curves(rows: Rows, x: str, ax: Axes | None = None) -> Axes:
    """Time against one axis of a sweep on logarithmic axes, a line for each program, its bound dotted in its colour.

    rows: a DataFrame of `gpusim sweep`, or mappings with its columns; one row for each pair of x and program. The thin
    dashed line through a curve's first point falls as 1/x: where a curve leaves it, more of x is no longer what the
    program needs. `ax.lines` with labels that do not begin with '_' are the curves.

    Raises ValueError for no rows, a column that is not there, several rows for a point, or an x that is not above zero.

    >>> from gpusim import plot
    >>> rows = [{"program": "copy", "sm.count": n, "time_us": max(64 / n, 8)} for n in (2, 4, 8, 16)]
    >>> plot.scaling_curves(rows, "sm.count").lines[0].get_ydata().tolist()
    [32.0, 16.0, 8.0, 8.0]
    """
    found = records(rows)
    there = sorted({name for row in found for name in row})
    if x not in there:
        raise ValueError(f"no column {x!r}; there are {', '.join(there)}{did_you_mean(x, there)}")
    found = [row for row in found if not (_missing(row.get("time_us")) or _missing(row.get(x)))]
    if not found:
        raise ValueError(f"no row has a time and a value of {x}")
    _check_single(found, x, "program")
    if (least_x := min(row[x] for row in found)) <= 0:
        raise ValueError(f"{x} = {least_x}: a logarithmic axis needs values above zero")
    names = list(dict.fromkeys(row["program"] for row in found))
    ax = style.new_axes(ax, 5.2)
    words = []
    for k, name in enumerate(names):
        mine = sorted((row for row in found if row["program"] == name), key=lambda row: row[x])
        colour, marker = LINE_COLOURS[k % len(LINE_COLOURS)], MARKERS[k % len(MARKERS)]
        at, times = [row[x] for row in mine], [row["time_us"] for row in mine]
        ax.plot(at, times, color=colour, marker=marker, markersize=6, linewidth=1.8, label=name, zorder=4)
        least = [(row[x], row["bound_us"]) for row in mine if "bound_us" in row]
        if least:
            (line,) = ax.plot(*zip(*least, strict=True), color=colour, linestyle=":", linewidth=1.8, zorder=3)
            line.set_label(f"_bound of {name}")
        ideal = [times[0] * at[0] / each for each in at]
        ax.plot(at, ideal, color=GREY, linestyle="--", linewidth=0.8, label=f"_ideal of {name}", zorder=2)
        words.append(f"{name} from {short(times[0])} to {short(times[-1])}, {times[0] / times[-1]:.2f} times faster")
    ax.set(xscale="log", yscale="log")
    _ticks(ax, sorted({row[x] for row in found}))
    lowest = min(row.get("bound_us", row["time_us"]) for row in found)
    ax.set_ylim(0.8 * lowest, 1.25 * max(row["time_us"] for row in found))
    ends = " to ".join(short(end(row[x] for row in found)) for end in (min, max))
    handles: list[Any] = [*style.named(ax.lines), _sample("--", 0.8, "ideal, as 1/x")]
    if any(str(line.get_label()).startswith("_bound") for line in ax.lines):
        handles.append(_sample(":", 1.8, "bound: no run takes less"))
    return style.finish(
        ax,
        f"time against {x}, {ends}",
        f"time, µs against {x} from {ends}: {'; '.join(words)}.",
        x=label(x), y="time, µs", grid="both", legend=handles, columns=4,
    )  # fmt: skip


def _sample(linestyle: Literal["--", ":"], width: float, text: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=GREY, linestyle=linestyle, linewidth=width, label=text)


def _ticks(ax: Axes, values: list[Any]) -> None:
    """The values that were tried as ticks, as many as there is room for; 1, 2 and 5 of each decade up the side."""
    from matplotlib.ticker import LogLocator, NullLocator

    shown = values[:: max(-(-len(values) // 12), 1)]
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(shown, [short(each) for each in shown])
    ax.yaxis.set_major_locator(LogLocator(10, (1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda value, _: short(value))
    ax.yaxis.set_minor_locator(NullLocator())


def records(rows: Rows) -> list[dict[str, Any]]:
    """The rows that have no error, as dictionaries, with `bound_us` where there is a bound. Raises ValueError if none
    is left."""
    listed: Iterable[Mapping[str, Any]] = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    found = [dict(row) for row in listed if not isinstance(row.get("error"), str)]
    if not found:
        raise ValueError("no rows to draw: none, or all with an error")
    for row in found:
        if not _missing(row.get("bound_cycles")) and row.get("cycles") and row.get("time_us"):
            row.setdefault("bound_us", row["bound_cycles"] * row["time_us"] / row["cycles"])
    return found


def _missing(value: Any) -> bool:
    """True if a table has nothing there: None or not a number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _check_single(rows: Sequence[Mapping[str, Any]], *axes: str) -> None:
    """Raise ValueError if two rows agree in `axes`, naming a column that tells them apart."""
    seen: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        place = tuple(row.get(axis) for axis in axes)
        other = seen.setdefault(place, row)
        if other is not row:
            names = [each for each in row if "." in each or each in ("program", "gpu", *PARAMETERS)]
            where = ", ".join(f"{axis} = {value}" for axis, value in zip(axes, place, strict=True))
            by = next((each for each in names if each not in axes and row[each] != other.get(each)), "key")
            raise ValueError(f"two rows for {where}: choose rows by {by} first")


def label(name: str) -> str:
    """A key with its unit."""
    return next((f"{name}, {unit}" for ending, unit in _UNITS.items() if name.endswith(ending)), name)


def short(value: Any) -> str:
    """A value for a tick: three digits, powers of two in binary units."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    for factor, unit in ((1 << 30, " Gi"), (1 << 20, " Mi"), (1 << 10, " Ki")):
        if value >= 8 * factor and value % factor == 0:
            return f"{value // factor:,.0f}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@style.styled
def pareto(found: Found, ax: Axes | None = None) -> Axes:
    """The machines of `gpusim.explore.search` by its first two objectives, or by the only one and the area.

    Blue: on the front of these two, joined; grey: beaten by another; orange: against a constraint. `ax.collections` are
    these three in the order grey, orange, blue. Raises ValueError where nothing was evaluated.
    """
    from gpusim.explore.goals import Goal

    goals = (*found.goals, Goal("area_mm2"))[:2]
    y, x = (goal.name for goal in goals)
    rows = [each for each in found.candidates if each.error is None and not each.pruned]
    if not rows:
        raise ValueError("no machine was evaluated, so there is nothing to draw")
    at = {each.number: (each.values[x], each.values[y]) for each in rows}
    words = ["Most" if goal.larger else "Least" for goal in goals[::-1]]
    # Of two machines that lie on one point of a front both are on it.
    places = [at[each.number] for each in replace(found, goals=goals).front()]
    feasible = [each for each in rows if each.feasible]
    front = sorted((n for n in feasible if at[n.number] in places), key=lambda each: places.index(at[each.number]))
    ax = style.new_axes(ax, 5.4)
    kinds = (
        ([each for each in feasible if at[each.number] not in places], LIGHT, "o", 26, "beaten by another"),
        ([each for each in rows if not each.feasible], VERMILLION, "x", 30, "against a constraint"),
        (front, BLUE, "o", 46, "on the front"),
    )
    for chosen, colour, marker, size, label in kinds:
        points = ([at[each.number][0] for each in chosen], [at[each.number][1] for each in chosen])
        edge, width = (None, 1.5) if marker == "x" else (INK, 0.5)
        text = f"{len(chosen)} {label}"
        ax.scatter(*points, s=size, c=colour, marker=marker, label=text, zorder=3, edgecolors=edge, linewidths=width)
    if places:
        style_of = "steps-post" if set(words) == {"Least"} else "default"
        ax.plot(*zip(*sorted(places), strict=True), color=BLUE, linewidth=1.2, zorder=2, drawstyle=style_of)
    for limit in found.limits:
        if limit.name in (x, y):
            draw = ax.axvline if limit.name == x else ax.axhline
            draw(limit.bound, color=VERMILLION, linewidth=1, linestyle="--", zorder=1)
    told = f" {words[1]} {y}: {places[0][1]:.4g} at {x} {places[0][0]:.4g}." if places else ""
    count = len(front)
    return style.finish(
        ax,
        f"{len(rows)} machines, {count} on the front",
        f"{y} against {x} of {len(rows)} machines, {count} of them on the Pareto front.{told}",
        x=x, y=y, grid="both", legend=[each for each in ax.collections if not str(each.get_label()).startswith("0 ")],
    )  # fmt: skip


@style.styled
def tornado(found: Sensitivity, ax: Axes | None = None, *, most: int = 15) -> Axes:
    """The keys of `gpusim.explore.one_at_a_time` that move the time most, the strongest on top.

    A bar goes from the program's time at the worse value of a key to that at the better one; the values stand at its
    ends. Keys that do not move the time by 0.1 % are left out. `ax.containers` are the bars of the better values and
    those of the worse ones.

    Raises ValueError where nothing moves the time.
    """
    rows: list[tuple[KeyEffect, float, float]] = [(effect, *_ends(effect, found.time_us)) for effect in found.effects]
    rows = [row for row in rows if max(abs(row[1] - found.time_us), abs(row[2] - found.time_us)) > 1e-3 * found.time_us]
    rows.sort(key=lambda row: -abs(row[1] - row[2]))
    if not rows:
        raise ValueError("no key moves the time, so there is nothing to draw")
    rows = rows[:most]
    ax = style.new_axes(ax, 1.4 + 0.32 * len(rows))
    places = range(len(rows))
    changes = [[100 * (time / found.time_us - 1) for time in row[1:]] for row in rows]
    for column, colour, label in ((1, VERMILLION, "worse value"), (0, BLUE, "better value")):
        ax.barh(places, [each[column] for each in changes], height=0.7, color=colour, label=label)
    ax.set_yticks(list(places), [row[0].key for row in rows])
    ax.invert_yaxis()
    ax.axvline(0, color=GREY, linewidth=1)
    reach = [each for pair in changes for each in pair]
    room = 0.22 * (max(reach) - min(reach))
    ax.set_xlim(min(*reach, 0) - room, max(*reach, 0) + room)
    for place, (row, (better, worse)) in enumerate(zip(rows, changes, strict=True)):
        _label(ax, place, row[0], better, worse)
    told = ", ".join(f"{row[0].key} {change[0]:+.0f} %" for row, change in zip(rows[:4], changes, strict=False))
    return style.finish(
        ax,
        f"Sensitivity of {found.program} on {found.gpu}",
        f"Tornado chart of {found.program} on {found.gpu}, {found.time_us:.4g} us: {len(rows)} parameters move the "
        f"time; at their better values {told}.",
        x=f"change of the time, % of {found.time_us:.4g} us", grid="x", columns=2,
        legend=ax.containers[::-1],  # type: ignore[arg-type]
    )  # fmt: skip


def _ends(effect: KeyEffect, time_us: float) -> tuple[float, float]:
    """Time at the better and at the worse value; that of the machine itself where a side was not tried."""
    low, high = (time_us if each is None else each for each in (effect.low_us, effect.high_us))
    return (high, low) if effect.better == "larger" else (low, high)


def _label(ax: Axes, place: int, effect: KeyEffect, better: float, worse: float) -> None:
    """The values tried, at the ends of a bar."""
    values = (effect.high, effect.low) if effect.better == "larger" else (effect.low, effect.high)
    ends = [(better, values[0]), (worse, values[1])]
    if better * worse > 0:  # both on one side: only the outer one has room
        ends = [max(ends, key=lambda end: abs(end[0]))]
    for change, value in ends:
        if value is not None and change:
            beside, side = (-4, "right") if change < 0 else (4, "left")
            look: dict[str, Any] = {"ha": side, "va": "center", "fontsize": 9, "textcoords": "offset points"}
            ax.annotate(f"{value:,.6g}", (change, place), (beside, 0), **look)
