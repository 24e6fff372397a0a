"""The scores as one HTML page: no script, no network, readable on a phone and in the dark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpusim.report_html.plain import Markup, PagePart, bar, join, render_plain, table
from gpusim.results.colours import stall_dye
from validate import score
from validate.replay import Comparison, Failure
from validate.scoring import counters, stalls, text

_SIDE, _EDGE = 360, 46  # of the picture, and of its margin
_NEAR = 0.1
"""Errors within the band of the picture."""


def render_page(rows: Sequence[score.Row], gpu: str) -> str:
    """The page. gpu: the configuration that was compared."""
    found = score.summary(rows)
    done = text.done(rows)
    facts = {"Configuration": gpu, "Points": f"{len(done)} of {len(rows)} compared"}
    if done:
        facts |= {
            "Mean error of cycles": f"{found['mean_absolute_error']:.1%}",
            "Median": f"{found['median_absolute_error']:.1%}",
            "All exact counters equal": f"at {found['exact_points']} points",
        }
    parts = [part for make in (_cycles, _counters, _stalls, _points) for part in make(rows)]
    return render_plain("How far the model is from the hardware", "validate score", facts, parts)


def _cycles(rows: Sequence[score.Row]) -> Iterator[PagePart]:
    lines = []
    for name, part in text.splits(rows).items():
        found = score.summary(part)
        shares = ("mean_absolute_error", "median_absolute_error", "p90_absolute_error", "worst_absolute_error")
        numbers = ["-" if found[each] is None else f"{found[each]:.1%}" for each in shares]
        bias = "-" if found["bias"] is None else f"{found['bias']:+.1%}"
        compared = f"{round(found['covered'] * found['points'])} of {found['points']}"
        lines.append((name, compared, *numbers, bias, found["worst_point"] or "-"))
    head = ("points", "compared", "mean", "median", "p90", "worst", "bias", "worst at")
    yield PagePart(
        "cycles", "Cycles",
        ("Errors of the predicted cycles, relative to the measured ones; a positive bias is predicted too slow.",),
        join([table("Cycles", head, lines), _scatter(text.done(rows))]),
    )  # fmt: skip


def _scatter(rows: Sequence[Comparison]) -> Markup:
    """Predicted over measured cycles, both logarithmic, with a band of a tenth around the diagonal."""
    found = [(row, row.cycles.measured, row.cycles.predicted) for row in rows]
    pairs = [each for each in found if min(each[1:]) > 0]
    if not pairs:
        return Markup("")
    logs = [math.log10(value) for _, *both in pairs for value in both]
    low, high = math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1)
    scale = (_SIDE - 2 * _EDGE) / (high - low)

    def x(value: float) -> float:
        return _EDGE + (math.log10(value) - low) * scale

    def y(value: float) -> float:
        return _SIDE - x(value)

    first, last = 10.0**low, 10.0**high
    up, down = 1 + _NEAR, 1 / (1 + _NEAR)
    corners = ((first, first * down), (first, first * up), (last, last * up), (last, last * down))
    band = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners)
    ticks = "".join(
        f'<line class="grid" x1="{x(v):.1f}" x2="{x(v):.1f}" y1="{_EDGE}" y2="{_SIDE - _EDGE}"/>'
        f'<line class="grid" x1="{_EDGE}" x2="{_SIDE - _EDGE}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text x="{x(v):.1f}" y="{_SIDE - _EDGE + 15}" text-anchor="middle">10^{k}</text>'
        f'<text x="{_EDGE - 5}" y="{y(v) + 4:.1f}" text-anchor="end">10^{k}</text>'
        for k in range(low, high + 1)
        for v in (10.0**k,)
    )
    dots = "".join(
        f'<circle class="point" cx="{x(a):.1f}" cy="{y(b):.1f}" r="4"><title>{join([str(row.point)])}: measured '
        f"{a:,.0f}, predicted {b:,.0f} ({row.error:+.1%})</title></circle>"
        for row, a, b in pairs
    )
    words = f"Predicted over measured cycles of {len(pairs)} points; in the band they are within {_NEAR:.0%}"
    middle = _SIDE / 2
    return Markup(
        f'<figure class="scatter"><figcaption>{words}</figcaption><svg viewBox="0 0 {_SIDE} {_SIDE}" role="img" '
        f'aria-label="{words}">{ticks}<polygon class="band" points="{band}"/>'
        f'<line class="roof" x1="{x(first):.1f}" y1="{y(first):.1f}" x2="{x(last):.1f}" y2="{y(last):.1f}"/>{dots}'
        f'<text x="{middle}" y="{_SIDE - 8}" text-anchor="middle">measured cycles</text>'
        f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">predicted cycles</text>'
        "</svg></figure>"
    )


def _counters(rows: Sequence[score.Row]) -> Iterator[PagePart]:
    lines = []
    for group in counters.GROUPS:
        for name, part in text.splits(rows).items():
            found = counters.score(group, text.done(part))
            if found is not None:
                shares = (f"{each:.1%}" for each in (found.median, found.p90, found.worst, found.bias))
                met = "met" if found.meets(group) else "not met"
                target = f"{group.median:.0%}, {group.p90:.0%}: {met}"
                lines.append((f"{group.title}, {name}", str(found.points), *shares, target, found.worst_point))
    if lines:
        head = ("counter", "scored", "median", "p90", "worst", "bias", "targets", "worst at")
        about = ("Counters that depend on timing, with the targets for median and 90th percentile.",)
        yield PagePart("counters", "Counters", about, table("Counters", head, lines))


def _stalls(rows: Sequence[score.Row]) -> Iterator[PagePart]:
    reasons = stalls.by_reason(text.done(rows))
    if not reasons:
        return
    good, of = stalls.right(text.done(rows))
    about = (
        f"Mean shares of the warps' time. The {stalls.REASONS_THAT_COUNT} greatest are within "
        f"{stalls.WITHIN_POINTS:.0f} percentage points at {good} of {of} points.",
    )
    bars = join(
        bar(name, share / 100, f"{side} {share:.1f} %", stall_dye(each.name))
        for each in reasons
        for name, side, share in (
            (each.name.replace("_", " "), "measured", each.measured),
            ("", "predicted", each.predicted),
        )
    )
    yield PagePart("stalls", "Stall reasons", about, Markup(f'<div class="bars">{bars}</div>'))


def _points(rows: Sequence[score.Row]) -> Iterator[PagePart]:
    lines = []
    for row in rows:
        if isinstance(row, Failure):
            lines.append((str(row.point), "", "", "", "", row.reason))
            continue
        exact = f"{len(row.exact) - len(row.differing)} of {len(row.exact)}"
        pairs = row.differing.items()
        wrong = [f"{name}: {score.number(each.measured)} → {score.number(each.predicted)}" for name, each in pairs]
        wrong += [f"wrong output: {row.mismatch}"] if row.mismatch else []
        measured, predicted = (f"{value:,.0f}" for value in (row.cycles.measured, row.cycles.predicted))
        lines.append((str(row.point), measured, predicted, f"{row.error:+.1%}", exact, "; ".join(wrong)))
    head = ("point", "measured", "predicted", "error", "exact counters", "wrong")
    yield PagePart("points", "Points", (), table("Points", head, lines))
