"""`python -m validate intervals`: the points that say how sure a prediction is (`gpusim.results.interval`)."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpusim.config import load_config
from gpusim.explore.journal import JournalError, whole_lines
from gpusim.results import interval
from gpusim.results.interval import Judged, distance, span, span_of
from validate import score
from validate.collection.compare import point_of
from validate.points import ProgramPoint
from validate.replay import Comparison

EXIT_OK, EXIT_USAGE = 0, 2
_HEAD = """\
# Every point that judges the model: GPU, cycles measured and predicted, kind of kernel | point. Written by
# python -m validate intervals JOURNAL...
"""


def run(options: argparse.Namespace) -> int:
    """The status of the command."""
    try:
        if options.journals:
            points = [each for path in options.journals for each in judges(*rows_of(path))]
            interval.FILE.write_text(text_of(points), "utf-8")
            interval.judged.cache_clear()
        print(table(interval.judged()))
        if options.described:
            print(described(options.described, options.gpu))
    except (OSError, JournalError) as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_OK


def rows_of(path: Path) -> tuple[str, list[score.Row]]:
    """Configuration and rows of a journal. Raises OSError, JournalError."""
    header, *lines = whole_lines(path.read_bytes(), path)[0]
    return header["of"], [score.row_of(each, _point) for each in lines]


def _point(name: str) -> ProgramPoint:
    """A point of either kind: that of a public program has its kernel behind a colon."""
    return point_of(name) if ":" in name else ProgramPoint.parse(name)


def judges(gpu: str, rows: Iterable[score.Row]) -> list[Judged]:
    """Those of the rows that judge the model."""
    return [
        Judged(gpu, row.kind, row.cycles.measured, row.cycles.predicted, str(row.point))
        for row in rows
        if isinstance(row, Comparison) and row.point.split == "judge"
    ]


def text_of(points: Iterable[Judged]) -> str:
    """The stored file."""
    lines = (f"{p.gpu} {p.measured:.10g} {p.predicted:.10g} {p.kind} | {p.point}" for p in points)
    return _HEAD + "".join(f"{line}\n" for line in sorted(lines))


def covered(points: Sequence[Judged]) -> list[bool]:
    """Whether each point lies in the interval that the points of all other programs give."""
    found = []
    for point in points:
        low, high, _ = span_of(point.kind, [each for each in points if each.program != point.program])
        found.append(low <= point.ratio <= high)
    return found


def table(points: Sequence[Judged]) -> str:
    """A line for each kind: how many judge, their interval, how many of them lie in that of the other programs."""
    inside = covered(points)
    lines = [f"{'kind of kernel':34s} {'judge':>5s} {'from':>7s} {'to':>7s} {'covered':>8s}"]
    for kind in (*sorted({each.kind for each in points}), "all"):
        mine = [good for each, good in zip(points, inside, strict=True) if kind in (each.kind, "all")]
        low, high, _ = span_of(kind, points)
        lines.append(
            f"{kind:34s} {len(mine):5d} {math.expm1(low):+7.1%} {math.expm1(high):+7.1%} {sum(mine) / len(mine):8.0%}"
        )
    return "\n".join(lines)


def described(journal: Path, gpu: str) -> str:
    """How much wider the measured cycles spread about the predictions of a machine that was only described than about
    those of the measured one. Raises OSError, JournalError."""
    of, rows = rows_of(journal)
    name, *overrides = of.split()
    away = distance(load_config(name, overrides))
    ratios = {each.point: each.ratio for each in judges(gpu, rows)}
    known = [each.ratio for each in interval.judged() if each.gpu == gpu and each.point in ratios]
    wide, usual = (high - low for low, high in map(_needed, (ratios.values(), known)))
    return (
        f"{of}: distance {away:.2f}; interval {wide:.3f} wide in logarithms, {usual:.3f} of the measured machine, "
        f"{wide / usual - 1:+.0%}"
    )


def _needed(ratios: Iterable[float]) -> tuple[float, float]:
    found = span(ratios)
    if found is None:
        raise JournalError("too few points judge the same GPU")
    return found
