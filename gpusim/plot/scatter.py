"""Comparisons: predictions with measurements, and machines of different kinds at the same matrix product."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, LINE_COLOURS, MARKERS, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMED, _BAND = 5, 0.2


@style.styled
def predicted_against_measured(points: Iterable[tuple[str, float, float]], ax: Axes | None = None) -> Axes:
    """Points (name, measured, predicted), both in cycles and positive, on logarithmic axes.

    On the diagonal a prediction is right; the dashed lines are a fifth above and below. Points outside are triangles,
    and the five that are furthest off have their names. `ax.collections` are the points inside and those outside,
    (measured, predicted) each.

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
        label = f"±{100 * _BAND:.0f} %" if sign > 0 else "_"
        ax.plot(ends, [(1 + sign * _BAND) * end for end in ends], color=GREY, linewidth=1, linestyle="--", label=label)
    for inside, marker, colour in ((True, "o", BLUE), (False, "^", VERMILLION)):
        part = [row for row in rows if (abs(error[row[0]]) <= _BAND) == inside]
        label = f"{len(part)} {'within' if inside else 'further off than'} {100 * _BAND:.0f} %"
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
        f"Predicted against measured cycles of {len(rows)} points: {found}, the furthest off {worst} with "
        f"{100 * error[worst]:+.0f} %.",
        x="measured, cycles", y="predicted, cycles", grid="both",
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


@style.styled
def latency_and_throughput(rows: Iterable[Mapping[str, Any]]) -> Figure:
    """Time (left) and rate (right) of square matrix products against their side, a line for each machine.

    rows: mappings with 'machine', 'n' (the side) and 'time_us', one for each pair of the first two. Raises ValueError
    for no rows, or a time that is not above zero.

    >>> from gpusim import plot
    >>> rows = [{"machine": "A", "n": n, "time_us": 1 + n**3 / 1e6} for n in (64, 256)]
    >>> plot.latency_and_throughput(rows).axes[0].lines[0].get_ydata().round(1).tolist()
    [1.3, 17.8]
    """
    found = sorted(rows, key=lambda row: row["n"])
    if not found or min(row["time_us"] for row in found) <= 0:
        raise ValueError("rows of machines, sides and times above zero are what is drawn")
    names = list(dict.fromkeys(str(row["machine"]) for row in found))
    sides = sorted({row["n"] for row in found})
    figure = style.new_figure(5.0)
    times, rates = figure.subplots(1, 2)
    words = []
    for k, name in enumerate(names):
        mine = [row for row in found if row["machine"] == name]
        at = [row["n"] for row in mine]
        look = {"color": LINE_COLOURS[k % len(LINE_COLOURS)], "marker": MARKERS[k % len(MARKERS)], "label": name}
        tops = [2 * row["n"] ** 3 / row["time_us"] / 1e6 for row in mine]
        times.plot(at, [row["time_us"] for row in mine], linewidth=1.8, markersize=5, **look)
        rates.plot(at, tops, linewidth=1.8, markersize=5, **look)
        first, last = mine[0], mine[-1]
        words.append(
            f"{name} from {first['time_us']:.3g} µs at {first['n']:,} to {last['time_us']:.3g} µs at {last['n']:,}, "
            f"{tops[-1]:.3g} TOP/s"
        )
    for axes, label in ((times, "time of one product, µs"), (rates, "rate, 10¹² operations/s")):
        axes.set(xscale="log", yscale="log", xlabel="side of the matrices", ylabel=label)
        axes.set_xticks(sides, [f"{side:,}" for side in sides])
        axes.minorticks_off()
        style.guide(axes, "both")
    style.legend_below(times, times.lines, 5)
    return style.finish_figure(
        figure,
        "The same matrix product on machines of three kinds: latency, and throughput",
        f"Time and rate of square matrix products by side: {'; '.join(words)}.",
    )
