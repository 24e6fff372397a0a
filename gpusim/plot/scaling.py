"""Scaling curves: time against one axis of a sweep, a line for each program, with the ideal and the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from gpusim.plot import style
from gpusim.plot.colours import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from gpusim.plot.table import Rows, check_columns, check_single, label, missing, records, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
_MARKERS = "os^DvPX"
_BOUNDS = {"time_us": "bound_us", "cycles": "bound_cycles"}


@style.styled
def scaling_curves(
    rows: Rows, x: str, value: str = "time_us", ax: Axes | None = None, *, by: str = "program"
) -> Axes:
    """Time against one axis of a sweep on logarithmic axes, a line for each value of `by`.

    rows: a DataFrame of `gpusim sweep`, or mappings with its columns; one row for each pair of x and `by`.
    value: 'time_us' or 'cycles', whose bound is then a dotted line of the same colour where rows have one; or another
    column. The thin dashed line through a curve's first point falls as 1/x: where a curve leaves it, more of x is no
    longer what the program needs. `ax.lines` with labels that do not begin with '_' are the curves.

    Raises ValueError for no rows, a column that is not there, several rows for a point, or what is not above zero.

    >>> from gpusim import plot
    >>> rows = [{"program": "copy", "sm.count": n, "time_us": max(64 / n, 8)} for n in (2, 4, 8, 16)]
    >>> plot.scaling_curves(rows, "sm.count").lines[0].get_ydata().tolist()
    [32.0, 16.0, 8.0, 8.0]
    """
    found = [row for row in records(rows) if not missing(row.get(value)) and not missing(row.get(x))]
    check_columns(found, x, value)
    check_single(found, x, by)
    for row in found:
        if not (row[x] > 0 and row[value] > 0):
            raise ValueError(f"{x} = {row[x]}, {value} = {row[value]}: a logarithmic axis needs values above zero")
    names = list(dict.fromkeys(str(row.get(by, value)) for row in found))
    ax = style.new_axes(ax, 5.2)
    bound = _BOUNDS.get(value, "")
    words = []
    for k, name in enumerate(names):
        mine = sorted((row for row in found if str(row.get(by, value)) == name), key=lambda row: row[x])
        colour, marker = _LINES[k % len(_LINES)], _MARKERS[k % len(_MARKERS)]
        at, times = [row[x] for row in mine], [row[value] for row in mine]
        ax.plot(at, times, color=colour, marker=marker, markersize=6, linewidth=1.8, label=name, zorder=4)
        least = [row for row in mine if not missing(row.get(bound))]
        if least:
            ax.plot(
                [row[x] for row in least], [row[bound] for row in least], color=colour, linestyle=":", linewidth=1.8,
                label=f"_bound of {name}", zorder=3,
            )  # fmt: skip
        ideal = [times[0] * at[0] / each for each in at]
        ax.plot(at, ideal, color=GREY, linestyle="--", linewidth=0.8, label=f"_ideal of {name}", zorder=2)
        words.append(f"{name} from {short(times[0])} to {short(times[-1])}, {times[0] / times[-1]:.2f} times faster")
    ax.set(xscale="log", yscale="log")
    _ticks(ax, sorted({row[x] for row in found}))
    lowest = min(min(row[value], row.get(bound) or row[value]) for row in found)
    ax.set_ylim(0.8 * lowest, 1.25 * max(row[value] for row in found))
    ax.set_xlabel(label(x))
    ax.set_ylabel(label(value))
    ends = [short(end(row[x] for row in found)) for end in (min, max)]
    ax.set_title(f"{label(value).partition(',')[0]} against {x}, {ends[0]} to {ends[1]}")
    ax.grid(which="major", alpha=0.3, linewidth=0.5, color=GREY)
    handles: list[Any] = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    handles += [_sample("--", 0.8, "ideal, as 1/x")]
    if any(str(line.get_label()).startswith("_bound") for line in ax.lines):
        handles.append(_sample(":", 1.8, "bound: no run takes less"))
    style.legend_below(ax, handles, 4)
    style.describe(
        ax,
        f"{label(value)} against {x} from {ends[0]} to {ends[1]}: {'; '.join(words)}.",
    )
    return ax


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
