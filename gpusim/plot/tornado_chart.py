"""Sensitivity: a bar for each parameter of a machine, as long as it moves a program's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpusim.explore.sensitivity import KeyEffect, Sensitivity


@style.styled
def tornado(found: Sensitivity, ax: Axes | None = None, *, most: int = 15) -> Axes:
    """The keys of `gpusim.explore.one_at_a_time` that move the time most, the strongest on top.

    A bar goes from the program's time at the worse value of a key to that at the better one; the values stand at its
    ends. Keys that do not move the time by 0.1 % are left out. `ax.containers` are the bars of the better values and
    those of the worse ones.

    Raises ValueError where nothing moves the time, or for what `morris` found.

    >>> from gpusim import plot
    >>> from gpusim.explore import Point, one_at_a_time
    >>> point = Point("vector_add", "tiny", (), (("size", 1024),))
    >>> ax = plot.tornado(one_at_a_time(point, ["sm.max_blocks", "dram.latency_cycles"]))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['dram.latency_cycles']
    """
    if found.screenings:
        raise ValueError("a tornado is drawn of one_at_a_time; plot.morris draws a screening")
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
        change = [each[column] for each in changes]
        ax.barh(places, change, height=0.7, color=colour, label=label)
    ax.set_yticks(list(places), [row[0].key for row in rows])
    ax.invert_yaxis()
    ax.axvline(0, color=GREY, linewidth=1)
    reach = [each for pair in changes for each in pair]
    room = 0.22 * (max(reach) - min(reach))
    ax.set_xlim(min(*reach, 0) - room, max(*reach, 0) + room)
    for place, (row, (better, worse)) in enumerate(zip(rows, changes, strict=True)):
        _label(ax, place, row[0], better, worse)
    ax.set_xlabel(f"change of the time, % of {found.time_us:.4g} us")
    ax.set_title(f"Sensitivity of {found.program} on {found.gpu}")
    ax.grid(axis="x", alpha=0.3, linewidth=0.5, color=GREY)
    style.legend_below(ax, ax.containers[::-1], 2)  # type: ignore[arg-type]
    told = ", ".join(f"{row[0].key} {change[0]:+.0f} %" for row, change in zip(rows[:4], changes, strict=False))
    style.describe(
        ax,
        f"Tornado chart of {found.program} on {found.gpu}, {found.time_us:.4g} us: {len(rows)} parameters move the "
        f"time; at their better values {told}.",
    )
    return ax


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
