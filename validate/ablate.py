"""What each mechanism of the model is worth: the comparison with and without it, on the same points."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from validate import score
from validate.mechanisms import Mechanism
from validate.points import Point
from validate.pool import Task
from validate.replay import Comparison
from validate.scoring import counters, stalls
from validate.scoring.statistics import percentile

MOST_AFFECTED = 2


@dataclass(frozen=True)
class Effect:
    """The errors of the cycles without a mechanism, over the points that both comparisons have.

    mean, p90: of the absolute errors; bias: mean of the signed ones; better, worse: points whose absolute error is so
    by a percentage point or more. affected: the points whose predicted cycles changed most, with
    the change as a share. failed: points that could not be simulated without it. counters: mean absolute error of each
    group of counters, None where nobody counted anything; stalls: share of points with right stall reasons.
    """

    name: str
    meaning: str
    points: int
    mean: float
    p90: float
    bias: float
    better: int
    worse: int
    affected: tuple[tuple[Point, float], ...]
    failed: int
    counters: tuple[float | None, ...]
    stalls: float | None


def tasks(
    points: Sequence[Point],
    mechanisms: Sequence[Mechanism],
    gpu: str = "h200",
    baseline_of: str = "h200",
    overrides: Sequence[str] = (),
) -> list[Task]:
    """Every point with the whole model, then without each mechanism."""
    base = tuple(overrides)
    changes = [base, *(base + mechanism.overrides for mechanism in mechanisms)]
    return [Task(point, gpu, baseline_of, change) for change in changes for point in points]


def effects(
    mechanisms: Sequence[Mechanism], rows: Mapping[tuple[str, ...], Sequence[score.Row]], overrides: Sequence[str] = ()
) -> list[Effect]:
    """The whole model first, then each mechanism. rows: by the overrides that they were simulated with.

    Raises ValueError where no point could be compared.
    """
    base = tuple(overrides)
    whole = {row.point: row for row in rows[base] if isinstance(row, Comparison)}
    found = [_effect(Mechanism("(whole model)", "", ()), whole, rows[base])]
    return found + [_effect(mechanism, whole, rows[base + mechanism.overrides]) for mechanism in mechanisms]


def _effect(mechanism: Mechanism, whole: Mapping[Point, Comparison], rows: Sequence[score.Row]) -> Effect:
    pairs = [(whole[row.point], row) for row in rows if isinstance(row, Comparison) and row.point in whole]
    if not pairs:
        raise ValueError(f"no point could be compared without {mechanism.name}")
    absolute = [abs(row.error) for _, row in pairs]
    changes = [(row.point, row.cycles.predicted / before.cycles.predicted - 1) for before, row in pairs]
    gains = [abs(before.error) - abs(row.error) for before, row in pairs]
    right, of = stalls.right([row for _, row in pairs])
    affected = sorted((each for each in changes if each[1]), key=lambda each: -abs(each[1]))
    return Effect(
        name=mechanism.name,
        meaning=mechanism.meaning,
        points=len(pairs),
        mean=statistics.fmean(absolute),
        p90=percentile(absolute, 0.9),
        bias=statistics.fmean(row.error for _, row in pairs),
        better=sum(gain >= 0.01 for gain in gains),
        worse=sum(gain <= -0.01 for gain in gains),
        affected=tuple(affected[:MOST_AFFECTED]),
        failed=len(rows) - len(pairs),
        counters=tuple(_mean_error(group, [row for _, row in pairs]) for group in counters.GROUPS),
        stalls=right / of if of else None,
    )


def _mean_error(group: counters.Group, rows: Sequence[Comparison]) -> float | None:
    found = [abs(off) for _, off in counters.errors(group, rows)]
    return statistics.fmean(found) if found else None


def text(found: Sequence[Effect]) -> str:
    """Three tables with a line for each effect: errors of the cycles, those first without which the error is greatest;
    mean errors of counters; and what each of them means."""
    whole, rest = found[0], sorted(found[1:], key=lambda each: -each.mean)
    lines = [
        f"{whole.points} points",
        f"{'without':20s} {'mean':>6s} {'more':>7s} {'p90':>6s} {'bias':>6s} {'worse':>5s} {'better':>6s}  "
        "most affected",
    ]
    for each in (whole, *rest):
        affected = ", ".join(f"{point} {change:+.0%}" for point, change in each.affected)
        failed = f" ({each.failed} FAILED)" if each.failed else ""
        lines.append(
            f"{each.name:20s} {each.mean:6.1%} {100 * (each.mean - whole.mean):+5.1f}pp {each.p90:6.1%} "
            f"{each.bias:+6.1%} {each.worse:5d} {each.better:6d}  {affected}{failed}".rstrip()
        )
    return "\n".join([*lines, "", *_counter_lines([whole, *rest]), "", *_meanings(found[1:])])


def _counter_lines(found: Sequence[Effect]) -> list[str]:
    """The other side of each effect: counters and stall reasons."""
    titles = [group.title for group in counters.GROUPS]
    lines = [f"{'without':20s} " + " ".join(f"{title:>14s}" for title in titles) + f" {'stalls right':>14s}"]
    for each in found:
        cells = ["-" if value is None else f"{value:.1%}" for value in (*each.counters, each.stalls)]
        lines.append(f"{each.name:20s} " + " ".join(f"{cell:>14s}" for cell in cells))
    return lines


def _meanings(found: Sequence[Effect]) -> list[str]:
    return [f"{each.name:20s} {each.meaning}" for each in found]
