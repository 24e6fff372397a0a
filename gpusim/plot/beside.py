"""Machines of different kinds at the same matrix product: how long one takes, and how much of it a second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpusim.plot import style
from gpusim.plot.colours import GREY, LINE_COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@style.styled
def latency_and_throughput(rows: Iterable[Mapping[str, Any]]) -> Figure:
    """Time (left) and rate (right) of square matrix products against their side, a line for each machine.

    rows: mappings with 'machine', 'n' (the side) and 'time_us', one for each pair of the first two. Above the left axes
    stands who is fastest at each side. Raises ValueError for no rows, or a time that is not above zero.

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
    above = {"transform": times.get_xaxis_transform(), "clip_on": False, "label": "_"}
    for side in sides:
        best = min((row for row in found if row["n"] == side), key=lambda row: row["time_us"])
        line = times.lines[names.index(str(best["machine"]))]
        times.plot([side], [1.04], line.get_marker(), color=line.get_color(), **above)
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "center"}
    times.annotate("fastest:", (0, 1.04), (-6, 0), color=GREY, **place)
    style.legend_below(times, times.lines[: len(names)], 5)
    return style.finish_figure(
        figure,
        "The same matrix product on machines of three kinds: latency, and throughput",
        f"Time and rate of square matrix products by side: {'; '.join(words)}.",
    )
