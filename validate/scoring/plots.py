"""Pictures of a comparison: sorted errors, stall reasons, errors of counters.

Colours are Okabe and Ito's, which people with any colour vision tell apart; the two splits differ in shape as well.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from validate.replay import Comparison
from validate.score import Row
from validate.scoring import counters, stalls
from validate.scoring.statistics import percentile
from validate.scoring.text import done, splits

STYLE: Mapping[str, dict[str, Any]] = {
    "train": {"color": "#0072B2", "marker": "o"},
    "judge": {"color": "#D55E00", "marker": "^"},
}
MEASURED, PREDICTED = "#000000", "#56B4E9"
GREY = "#666666"
BAND = 0.20
LEAST_ERROR = 1e-3
"""Errors of counters are drawn on a logarithmic axis; smaller ones, zero among them, stand at its left end."""

# The same bytes for the same rows: pictures are kept in the repository. Text stays text.
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "gpusim",
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def write(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write every picture into a folder as SVG, made if need be; returns the files. Raises as `image`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in FIGURES.items():
        path = folder / f"{name}.svg"
        path.write_bytes(image(draw, rows))
        written.append(path)
    return written


def image(draw: Callable[[Sequence[Row]], Figure], rows: Sequence[Row]) -> bytes:
    """One picture as the content of an SVG file. Raises ValueError if no point was compared."""
    if not done(rows):
        raise ValueError("no point was compared, so there is nothing to draw")
    buffer = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        figure = draw(rows)
        figure.savefig(buffer, format="svg", dpi=110, metadata={"Date": None})
    return buffer.getvalue()


def sorted_errors(rows: Sequence[Row]) -> Figure:
    """Errors of the cycles in order: absolute (which share of points is closer than that) and signed."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, part in _parts(rows).items():
        style = {"color": STYLE[name]["color"], "marker": STYLE[name]["marker"], "markersize": 3.5, "linewidth": 1}
        share = [100 * (place + 1) / len(part) for place in range(len(part))]
        absolute = sorted(100 * abs(row.error) for row in part)
        label = f"{name}: median {statistics.median(absolute):.1f} %, p90 {percentile(absolute, 0.9):.1f} %"
        left.plot(share, absolute, label=label, **style)
        right.plot(share, sorted(100 * row.error for row in part), label=name, **style)
    left.axhline(100 * BAND, color=GREY, linewidth=1, linestyle="--")
    for sign in (-1, 0, 1):
        right.axhline(100 * sign * BAND, color=GREY, linewidth=1, linestyle="--" if sign else "-")
    left.set_title("absolute error of the cycles, sorted", fontsize=10)
    left.set_ylabel("|predicted - measured| / measured, %")
    left.set_ylim(bottom=0)
    right.set_title("signed error of the cycles, sorted", fontsize=10)
    right.set_ylabel("(predicted - measured) / measured, %")
    for axes in (left, right):
        axes.set_xlabel("share of the points, %")
        axes.set_xlim(0, 101)
        axes.grid(alpha=0.25, linewidth=0.5)
        axes.legend(loc="upper left")
    return figure


def stall_reasons(rows: Sequence[Row]) -> Figure:
    """Mean share of each stall reason in the warps' time, measured and predicted, for each split."""
    parts = _parts(rows)
    found = {name: {reason.name: reason for reason in stalls.by_reason(part)} for name, part in parts.items()}
    order = [reason.name for reason in stalls.by_reason(done(rows)) if max(reason.measured, reason.predicted) >= 0.05]
    figure = Figure(figsize=(9.0, 0.34 * len(order) + 1.6), layout="constrained")
    all_axes = figure.subplots(1, len(parts), sharex=True, sharey=True, squeeze=False)[0]
    places = range(len(order))
    for axes, (name, part) in zip(all_axes, parts.items(), strict=True):
        mine = [found[name].get(reason) for reason in order]
        for offset, label, color, values in (
            (-0.2, "measured", MEASURED, [each.measured if each else 0.0 for each in mine]),
            (0.2, "predicted", PREDICTED, [each.predicted if each else 0.0 for each in mine]),
        ):
            axes.barh([place + offset for place in places], values, height=0.38, color=color, label=label)
        good, of = stalls.right(part)
        axes.set_title(f"{name}: three greatest within 5 pp at {good} of {of}", fontsize=10)
        axes.set_xlabel("mean share of the warps' cycles, %")
        axes.grid(axis="x", alpha=0.25, linewidth=0.5)
        axes.legend(loc="lower right")
    all_axes[0].set_yticks(list(places), order)
    all_axes[0].invert_yaxis()
    return figure


def counter_errors(rows: Sequence[Row]) -> Figure:
    """Absolute errors of the counters that have targets: every point, the median and the 90th percentile."""
    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    axes = figure.subplots()
    parts = _parts(rows)
    labels = []
    unnamed = set(parts)  # splits that the legend does not have yet
    for place, group in enumerate(counters.GROUPS):
        labels.append(group.title)
        for lane, (name, part) in enumerate(parts.items()):
            off = [max(abs(each), LEAST_ERROR) for _, each in counters.errors(group, part)]
            if off:
                _strip(axes, place - 0.18 + 0.36 * lane, off, name, legend=name in unnamed)
                unnamed.discard(name)
    targets = counters.GROUPS[0]
    for share, style, text in ((targets.median, ":", "target median"), (targets.p90, "--", "target p90")):
        axes.axvline(share, color=GREY, linewidth=1, linestyle=style, label=f"{text}, {share:.0%}")
    axes.set_xscale("log")
    axes.set_xlim(LEAST_ERROR * 0.8, None)
    axes.xaxis.set_major_formatter(FuncFormatter(_percent))
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("|predicted - measured| / measured (at least 1,024 sectors or 32 KiB), %; 0.1 stands for less too")
    axes.set_title("Counters of caches and memory, each point a program at one size", fontsize=10)
    axes.grid(axis="x", alpha=0.25, linewidth=0.5)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _strip(axes: Axes, height: float, values: Sequence[float], name: str, *, legend: bool) -> None:
    """Points on a line, spread a little by their rank so that equal ones show, with median and 90th percentile."""
    style = STYLE[name]
    spread = [height + 0.1 * ((7 * place) % 11 - 5) / 5 for place in range(len(values))]
    axes.scatter(
        sorted(values), spread, s=12, alpha=0.45, linewidths=0, label=f"{name}, a point" if legend else None, **style
    )
    marks = ((statistics.median(values), 3.0, "median"), (percentile(values, 0.9), 1.5, "p90"))
    for at, width, text in marks:
        label = f"{name}, {text}" if legend else "_"  # no entry in the legend
        axes.vlines(at, height - 0.16, height + 0.16, color=style["color"], linewidth=width, label=label)


def _percent(share: float, _: Any) -> str:
    return f"{100 * share:g}"


def _parts(rows: Sequence[Row]) -> dict[str, list[Comparison]]:
    """Points that were compared, by split."""
    found = {name: done(part) for name, part in splits(rows).items() if name in STYLE}
    return {name: part for name, part in found.items() if part}


FIGURES: Mapping[str, Callable[[Sequence[Row]], Figure]] = {
    "errors": sorted_errors,
    "stalls": stall_reasons,
    "counters": counter_errors,
}
"""Every picture by the name of its file."""
