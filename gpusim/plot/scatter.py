"""Predicted against measured: how far a simulator is from the machine, point by point."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 5


@style.styled
def predicted_against_measured(
    points: Iterable[tuple[str, float, float]], ax: Axes | None = None, *, unit: str = "cycles", band: float = 0.2
) -> Axes:
    """Points (name, measured, predicted), both in `unit` and positive, on logarithmic axes.

    On the diagonal a prediction is right; the dashed lines are `band` (a share) above and below. Points outside are
    triangles, and the five that are furthest off have their names. `ax.collections` are the points inside and those
    outside the band, (measured, predicted) each.

    Raises ValueError for no points, or one that is not positive.

    >>> from gpusim import plot
    >>> ax = plot.predicted_against_measured([("copy", 5200, 5000), ("chase", 900, 1200)])
    >>> [len(each.get_offsets()) for each in ax.collections]
    [1, 1]
    """
    rows = list(points)
    if not rows:
        raise ValueError("no points to draw")
    wrong = [name for name, measured, predicted in rows if not (measured > 0 and predicted > 0)]
    if wrong:
        raise ValueError(f"{wrong[0]}: a logarithmic axis needs values above zero")
    error = {name: predicted / measured - 1 for name, measured, predicted in rows}
    values = [value for _, *both in rows for value in both]
    ends = (0.7 * min(values), 1.4 * max(values))
    ax = style.new_axes(ax, 6.4)
    ax.plot(ends, ends, color=GREY, linewidth=1, label="equal")
    for sign in (-1, 1):
        label = f"±{100 * band:.0f} %" if sign > 0 else "_"
        ax.plot(ends, [(1 + sign * band) * end for end in ends], color=GREY, linewidth=1, linestyle="--", label=label)
    for inside, marker, colour in ((True, "o", BLUE), (False, "^", VERMILLION)):
        part = [row for row in rows if (abs(error[row[0]]) <= band) == inside]
        label = f"{len(part)} {'within' if inside else 'further off than'} {100 * band:.0f} %"
        where = ([row[1] for row in part], [row[2] for row in part])
        ax.scatter(*where, s=26, alpha=0.75, linewidths=0, color=colour, marker=marker, label=label, zorder=3)
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    _name_worst(ax, rows, error)
    errors = [abs(each) for each in error.values()]
    mean, median = statistics.fmean(errors), statistics.median(errors)
    found = f"absolute error {100 * median:.1f} % in the median, {100 * mean:.1f} % in the mean"
    ax.legend(loc="upper left")
    worst = max(error, key=lambda name: abs(error[name]))
    return style.finish(
        ax,
        f"{len(rows)} points: {found}",
        f"Predicted against measured {unit} of {len(rows)} points: {found}, the furthest off {worst} with "
        f"{100 * error[worst]:+.0f} %.",
        x=f"measured, {unit}", y=f"predicted, {unit}", grid="both",
    )  # fmt: skip


def _name_worst(ax: Axes, rows: list[tuple[str, float, float]], error: dict[str, float]) -> None:
    """Numbers at the worst points, and their names in the corner below the diagonal, where no points are."""
    worst = sorted(rows, key=lambda row: -abs(error[row[0]]))[:_NAMED]
    names = ["furthest off:"]
    for number, (name, measured, predicted) in enumerate(worst, 1):
        side = -8 if predicted > measured else 8
        at = (measured, predicted)
        ax.annotate(str(number), at, (side, 0), textcoords="offset points", ha="center", va="center", fontsize=9)
        names.append(f"{number}  {name}  {100 * error[name]:+.0f} %")
    ax.text(0.98, 0.03, "\n".join(names), transform=ax.transAxes, ha="right", va="bottom", fontsize=9, linespacing=1.4)
