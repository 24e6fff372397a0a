"""What a search found: machines by two objectives, and the front of those that none beats in both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, INK, LIGHT, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpusim.explore.search import Candidate, Found


@style.styled
def pareto(found: Found, ax: Axes | None = None, *, x: str | None = None, y: str | None = None) -> Axes:
    """The machines of `gpusim.explore.search` by two columns of its table.

    x, y: columns; by default the second and the first objective, or the area where there is one objective. Blue: on
    the front, joined where the picture shows both objectives; grey: beaten by another; orange: against a constraint.
    `ax.collections` are these three in the order grey, orange, blue.

    Raises ValueError for a column that does not exist, or where nothing was evaluated.

    >>> from gpusim import plot
    >>> from gpusim.explore import Space, search
    >>> space = Space("vector_add", "tiny", {"size": 1024, "sm.count": [1, 2, 4]})
    >>> ax = plot.pareto(search(space, ["time_us", "area_mm2"], trials=5))
    >>> len(ax.collections)
    3
    """
    names = [goal.name for goal in found.goals]
    y = y or names[0]
    x = x or (names[1] if len(names) > 1 else "area_mm2")
    ran = (each for each in reversed(found.candidates) if each.error is None and not each.pruned)
    rows = list({tuple(each.machine.items()): each for each in ran}.values())  # a machine may be proposed again
    known = rows[0].values.keys() if rows else ()
    if not rows:
        raise ValueError("no machine was evaluated, so there is nothing to draw")
    for name in (x, y):
        if name not in known:
            raise ValueError(f"no column {name!r}: there are {', '.join(known)}")
    front = found.front()
    ax = style.new_axes(ax, 5.4)

    def goals_of(candidate: Candidate) -> tuple[float, ...]:
        return tuple(candidate.values[goal.name] for goal in found.goals)

    best_of = {goals_of(each) for each in front}
    beaten = [each for each in rows if each.feasible and goals_of(each) not in best_of]
    kinds = (
        (beaten, LIGHT, "o", 26, "beaten by another"),
        ([each for each in rows if not each.feasible], VERMILLION, "x", 30, "against a constraint"),
        (front, BLUE, "o", 46, "on the front"),
    )
    for chosen, colour, marker, size, label in kinds:
        at = ([each.values[x] for each in chosen], [each.values[y] for each in chosen])
        edge, width = (None, 1.5) if marker == "x" else (INK, 0.5)
        text = f"{len(chosen)} {label}"
        ax.scatter(*at, s=size, c=colour, marker=marker, label=text, zorder=3, edgecolors=edge, linewidths=width)
    if {x, y} == set(names[:2]) and len(names) == 2:
        line = sorted((each.values[x], each.values[y]) for each in front)
        ax.plot(*zip(*line, strict=True), color=BLUE, linewidth=1.2, zorder=2, drawstyle="steps-post")
    for limit in found.limits:
        if limit.name in (x, y):
            draw = ax.axvline if limit.name == x else ax.axhline
            draw(limit.bound, color=VERMILLION, linewidth=1, linestyle="--", zorder=1)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    best = front[0] if front else None
    ax.set_title(f"{len(rows)} machines, {len(front)} on the front")
    ax.grid(alpha=0.3, linewidth=0.5, color=GREY)
    style.legend_below(ax, [each for each in ax.collections if not str(each.get_label()).startswith("0 ")], 3)
    told = "" if best is None else f" Least {y}: {best.values[y]:.4g} at {x} {best.values[x]:.4g}."
    style.describe(ax, f"{y} against {x} of {len(rows)} machines, {len(front)} of them on the Pareto front.{told}")
    return ax
