"""`python -m validate energy`: what an H100's board took for the recorded programs, beside the prediction."""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from validate.compared import Compared, show
from validate.energy.kernels import recording
from validate.points import ProgramPoint, select

QUICK = (
    *("bank_conflict/1@262144", "black_scholes/fast@524288", "reduction/shuffle@1048576"),
    "softmax/three_passes@2048",
)

TIE = 0.02
"""Two variants whose joules differ by less are alike: a board says so much from one pass to the next."""


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


def predict(point: str, gpu: str = "h100", threads: int | None = None) -> Compared:
    """Simulate a program and what repeating it takes: microjoules of a launch. Its point is the program's name, and the
    microseconds of a launch, measured and simulated."""
    from validate.energy.simulated import repeated

    chosen = ProgramPoint.parse(point)
    found = repeated(chosen, gpu, threads)
    steady = found.energy.sustained(found.period_us)
    us, energy_j = measured(gpu)[point]
    times = us, steady.time_us
    return Compared(group=chosen.split, case=f"{point}, {us:.2f} us, here {times[1]:.2f}", point=(point, *times),
                    measured=1e6 * energy_j, simulated=1e6 * steady.energy_j)  # fmt: skip


def ranks(rows: Sequence[Compared]) -> Iterator[tuple[str, str, bool]]:
    """Every two variants of a ladder that differ on the GPU, and whether that which takes less does so here."""
    for one, other in itertools.combinations(rows, 2):
        names = one.point[0], other.point[0]
        differ = abs(one.measured / other.measured - 1) > TIE
        if differ and names[0].partition("/")[0] == names[1].partition("/")[0]:
            yield *names, (one.measured < other.measured) == (one.simulated < other.simulated)


def command(options: argparse.Namespace) -> int:
    """Print every program, and the mean and the worst error."""
    if options.fit:
        from validate.energy.fit import table

        for line in table(jobs=options.jobs):
            print(line, flush=True)
        return 0
    chosen = QUICK if options.quick else map(str, select(options.only, "large"))
    points = [each for each in chosen if each in measured() and options.split in (None, ProgramPoint.parse(each).split)]
    compared = list(ranks(show(_rows(points, options.jobs))))
    for one, other, agree in compared:
        if not agree:
            print(f"other order: {one} to {other}")
    print(f"order of two variants of a ladder: {sum(row[2] for row in compared)} of {len(compared)} as measured")
    return 0


def _rows(points: Iterable[str], jobs: int) -> Iterator[Compared]:
    if jobs == 1:
        yield from map(predict, points)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(predict, threads=1), points)
