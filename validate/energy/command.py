"""`python -m validate energy`: what an H100's board took for the recorded programs, beside the prediction."""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from validate.energy.kernels import recording
from validate.points import ProgramPoint, select

QUICK = (
    *("bank_conflict/1@262144", "black_scholes/fast@524288", "reduction/shuffle@1048576"),
    "softmax/three_passes@2048",
)

TIE = 0.02
"""Two variants whose joules differ by less are alike: a board says so much from one pass to the next."""


class EnergyRow(NamedTuple):
    """One program, launched again and again: microseconds and joules of a launch, measured and predicted."""

    point: str
    split: str
    measured_us: float
    measured_j: float
    predicted_us: float
    predicted_j: float

    @property
    def error(self) -> float:
        """Signed, of the predicted joules."""
        return self.predicted_j / self.measured_j - 1


def measured(gpu: str = "h100") -> dict[str, tuple[float, float]]:
    """Microseconds and joules of a launch of each program, the median of all passes."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in recording(gpu)["programs"]:
        found.setdefault(row["name"], []).append(row)
    return {
        name: tuple(statistics.median(each) for each in ([row["us"] for row in rows], [joules(row) for row in rows]))
        for name, rows in found.items()
    }


def joules(row: dict[str, Any]) -> float:
    """Of a launch."""
    return 1e-6 * row["us"] * row["watts"]


def predict(point: str, gpu: str = "h100", threads: int | None = None) -> EnergyRow:
    """Simulate a program, and what repeating it takes."""
    from validate.energy.simulated import repeated

    chosen = ProgramPoint.parse(point)
    found = repeated(chosen, gpu, threads)
    steady = found.energy.sustained(found.period_us)
    return EnergyRow(point, chosen.split, *measured(gpu)[point], steady.time_us, steady.energy_j)


def ranks(rows: Sequence[EnergyRow]) -> Iterator[tuple[EnergyRow, EnergyRow, bool]]:
    """Every two variants of a ladder that differ on the GPU, and whether that which takes less does so here."""
    for one, other in itertools.combinations(rows, 2):
        differ = abs(one.measured_j / other.measured_j - 1) > TIE
        if differ and one.point.partition("/")[0] == other.point.partition("/")[0]:
            agree = (one.measured_j < other.measured_j) == (one.predicted_j < other.predicted_j)
            yield one, other, agree


def command(options: argparse.Namespace) -> int:
    """Print every program, and the mean and the worst error."""
    if options.fit:
        from validate.energy.fit import table

        for line in table(jobs=options.jobs):
            print(line, flush=True)
        return 0
    chosen = QUICK if options.quick else map(str, select(options.only, "large"))
    points = [each for each in chosen if each in measured() and options.split in (None, ProgramPoint.parse(each).split)]
    print(f"{'program':<40}{'split':<7}{'us':>9}{'here':>9}{'uJ':>11}{'here':>11}{'error':>8}")
    rows = []
    for row in _rows(points, options.jobs):
        rows.append(row)
        here = f"{row.predicted_us:>9.2f}{1e6 * row.measured_j:>11.1f}{1e6 * row.predicted_j:>11.1f}"
        print(f"{row.point:<40}{row.split:<7}{row.measured_us:>9.2f}{here}{row.error:>+8.1%}", flush=True)
    print()
    for split in ("train", "judge"):
        of = [row.error for row in rows if row.split == split]
        if of:
            mean, worst = statistics.mean(map(abs, of)), max(of, key=abs)
            signed = statistics.mean(of)
            print(f"{split:<6}{len(of):>4} programs, mean {mean:.1%}, worst {worst:+.1%}, signed {signed:+.1%}")
    compared = list(ranks(rows))
    for one, other, agree in compared:
        if not agree:
            ratios = one.measured_j / other.measured_j - 1, one.predicted_j / other.predicted_j - 1
            print(f"other order: {one.point} to {other.point} {ratios[0]:+.1%}, here {ratios[1]:+.1%}")
    print(f"order of two variants of a ladder: {sum(row[2] for row in compared)} of {len(compared)} as measured")
    return 0


def _rows(points: Iterable[str], jobs: int) -> Iterator[EnergyRow]:
    if jobs == 1:
        yield from map(predict, points)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(predict, threads=1), points)
