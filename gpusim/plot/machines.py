"""Machines that do not exist: the front of a search, and how far each parameter moves a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpusim.errors import did_you_mean
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, INK, LIGHT, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpusim.explore.search import Candidate, Found
    from gpusim.explore.sensitivity import KeyEffect, Sensitivity


@style.styled
def pareto(found: Found, ax: Axes | None = None, *, x: str | None = None, y: str | None = None) -> Axes:
    """The machines of `gpusim.explore.search` by two columns of its table.

    x, y: columns with numbers, of a machine's values or of its axes; by default the second and the first objective, or
    the area where there is one objective. Blue: on the front of these two, joined; grey: beaten by another; orange:
    against a constraint. Where one of the two is no objective, time, energy or price, of which it is known which way is
    better, blue is the front of the search. `ax.collections` are these three in the order grey, orange, blue.

    Raises ValueError for a column that does not exist, or where nothing was evaluated.
    """
    names = [goal.name for goal in found.goals]
    y = y or names[0]
    x = x or (names[1] if len(names) > 1 else "area_mm2")
    rows = [each for each in found.candidates if each.error is None and not each.pruned]
    if not rows:
        raise ValueError("no machine was evaluated, so there is nothing to draw")
    for name in (x, y):
        check_column(name, {**rows[0].machine, **rows[0].values})
    at = {each.number: (_column(each, x), _column(each, y)) for each in rows}
    front, losses = _front(found, rows, x, y)
    # Of two machines that lie on one point of a front both are on it.
    places = list(dict.fromkeys(at[each.number] for each in front))
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
    if losses and places:
        style_of = "steps-post" if set(losses) == {"Least"} else "default"
        ax.plot(*zip(*sorted(places), strict=True), color=BLUE, linewidth=1.2, zorder=2, drawstyle=style_of)
    for limit in found.limits:
        if limit.name in (x, y):
            draw = ax.axvline if limit.name == x else ax.axhline
            draw(limit.bound, color=VERMILLION, linewidth=1, linestyle="--", zorder=1)
    told = f" {losses[1]} {y}: {places[0][1]:.4g} at {x} {places[0][0]:.4g}." if losses and places else ""
    count = len(front)
    return style.finish(
        ax,
        f"{len(rows)} machines, {count} on the front",
        f"{y} against {x} of {len(rows)} machines, {count} of them on the Pareto front.{told}",
        x=x, y=y, grid="both", legend=[each for each in ax.collections if not str(each.get_label()).startswith("0 ")],
    )  # fmt: skip


def _front(found: Found, rows: Sequence[Candidate], x: str, y: str) -> tuple[list[Candidate], tuple[str, str] | None]:
    """The front of two columns, by the second, and whether the least or most of each is best; the search's own front
    and None where of one of them it is not known."""
    from gpusim.explore.goals import COLUMNS, Goal, dominates

    better = {name: Goal(name) for name in COLUMNS} | {goal.name: goal for goal in found.goals}
    if x not in better or y not in better:
        return found.front(), None
    losses = {e.number: [better[n].loss(_column(e, n)) for n in (y, x)] for e in rows if e.feasible}
    front = [e for e in rows if e.feasible and not any(dominates(o, losses[e.number]) for o in losses.values())]
    words = ["Most" if better[name].larger else "Least" for name in (x, y)]
    return sorted(front, key=lambda each: losses[each.number]), (words[0], words[1])


def check_column(name: str, there: Mapping[str, Any]) -> None:
    """Raise ValueError, naming the columns there are, for one that is not there or has no numbers. there: a row."""
    names = [each for each, value in there.items() if isinstance(value, int | float) and not isinstance(value, bool)]
    if name not in names:
        raise ValueError(f"no column {name!r} to draw; there are {', '.join(names)}{did_you_mean(name, names)}")


def _column(candidate: Candidate, name: str) -> float:
    return candidate.values[name] if name in candidate.values else candidate.machine[name]


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
    ends = sorted(((better, values[0]), (worse, values[1])), key=lambda end: end[0])
    if ends[0][0] > 0 or ends[1][0] < 0:  # both on one side: only the outer one has room
        ends = [max(ends, key=lambda end: abs(end[0]))]
    for change, value in ends:
        left = change < 0 or (change == 0 and ends[-1][0] > 0 and len(ends) > 1 and change == ends[0][0])
        if value is not None and change:
            ax.annotate(
                f"{value:,.6g}", (change, place), (-4 if left else 4, 0), textcoords="offset points",
                ha="right" if left else "left", va="center", fontsize=9,
            )  # fmt: skip
