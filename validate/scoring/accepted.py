"""The score that was accepted last, point by point: what the tests hold the model to.

`accepted_GPU.txt` is written by `python -m validate score FILE --gpu GPU --accept` from a comparison of all points.
Prediction has no chance in it, so a replayed point differs from the file only if the model or the kernel has changed:
the tolerances below are for changes that are worth their price elsewhere, not for noise. Whoever closes a known gap
renews the file, so that it stays closed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from validate.points import ProgramPoint
from validate.replay import Comparison
from validate.scoring import counters, stalls

FOLDER = Path(__file__).parent

MEAN_TOLERANCE = 0.002
"""By how much the mean absolute error of the cycles of all replayed points may be greater."""
COUNTER_TOLERANCE = 0.01
"""By how much the mean absolute error of a group of counters may be greater."""
STALL_TOLERANCE = 0.02
"""By how much the share of points with right stall reasons may be smaller."""

_TITLES = ("point", "measured", "predicted", "stalls", *(group.title.replace(" ", "-") for group in counters.GROUPS))


class AcceptedError(ValueError):
    """The file of accepted scores cannot be read."""


@dataclass(frozen=True)
class Entry:
    """A point as accepted. measured, predicted: cycles. stalls: greatest difference among the reasons that count,
    percentage points; counters: signed error of each group, a share; None where there is nothing to score."""

    point: ProgramPoint
    measured: float
    predicted: float
    stalls: float | None
    counters: tuple[float | None, ...]

    @classmethod
    def of(cls, row: Comparison) -> Entry:
        """The entry that a comparison makes."""
        return cls(
            point=row.point,
            measured=row.cycles.measured,
            predicted=row.cycles.predicted,
            stalls=stalls.worst_difference(row),
            counters=tuple(group.error(row) for group in counters.GROUPS),
        )

    @property
    def error(self) -> float:
        """Signed error of the cycles."""
        return self.predicted / self.measured - 1


def path_of(gpu: str = "h200") -> Path:
    """The file of a GPU."""
    return FOLDER / f"accepted_{gpu}.txt"


def load(path: Path | None = None) -> dict[ProgramPoint, Entry]:
    """The accepted entries, the H200's by default. Raises AcceptedError."""
    path = path or path_of()
    found: dict[ProgramPoint, Entry] = {}
    try:
        for line in path.read_text("utf-8").splitlines():
            if line and not line.startswith("#"):
                name, *cells = line.split()
                measured, predicted, worst, *errors = (None if cell == "-" else float(cell) for cell in cells)
                if measured is None or predicted is None or len(errors) != len(counters.GROUPS):
                    raise ValueError(f"not an entry: {line}")
                point = ProgramPoint.parse(name)
                found[point] = Entry(point, measured, predicted, worst, tuple(errors))
    except (OSError, ValueError) as error:
        raise AcceptedError(f"{path}: {error}") from None
    return found


def text_of(entries: Iterable[Entry], because: str = "") -> str:
    """The file's content; `because`: why a worse score than before was accepted."""
    lines = [
        "# What the tests hold the model to (tests/validate/test_replay.py); written by",
        "# python -m validate score FILE --accept",
        "# Cycles; greatest difference among the three main stall reasons, percentage points; errors of counters.",
    ]
    lines += [f"# worse than before, because {because}"] if because else []
    lines.append("# " + " ".join(_TITLES))
    for each in entries:
        errors = " ".join("-" if error is None else f"{error:.4f}" for error in each.counters)
        worst = "-" if each.stalls is None else f"{each.stalls:.2f}"
        lines.append(f"{each.point} {each.measured:.10g} {each.predicted:.10g} {worst} {errors}")
    return "\n".join(lines) + "\n"


def worse_score(now: Sequence[Entry], then: Mapping[ProgramPoint, Entry]) -> list[str]:
    """Sentences on what is worse over all these points together than it was accepted for the same points."""
    before = [then[entry.point] for entry in now if entry.point in then]
    if not before:
        return ["no point has been accepted"]
    cycles = "cycles", MEAN_TOLERANCE, lambda entries: _mean(abs(entry.error) for entry in entries)
    groups = (
        (group.title, COUNTER_TOLERANCE, partial(_mean_counter, place=k)) for k, group in enumerate(counters.GROUPS)
    )
    stalled = "points with other stall reasons", STALL_TOLERANCE, _wrong_stalls
    worse = []
    for title, tolerance, score in (cycles, *groups, stalled):
        if (new := score(now)) > (old := score(before)) + tolerance:
            worse.append(f"{title}: {new:.2%} over {len(before)} points, accepted {old:.2%}")
    return worse


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean([*values] or [0.0])


def _mean_counter(entries: Sequence[Entry], place: int) -> float:
    errors = (entry.counters[place] for entry in entries)
    # A count that is off by more than all of it weighs no more: one tiny denominator would outweigh the rest.
    return _mean(min(abs(error), 1.0) for error in errors if error is not None)


def _wrong_stalls(entries: Sequence[Entry]) -> float:
    return 1 - _mean(entry.stalls <= stalls.WITHIN_POINTS for entry in entries if entry.stalls is not None)
