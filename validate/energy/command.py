"""`python -m validate energy`: what an H100's board took for the recorded programs, beside the prediction; and the
energies of events, from the microbenchmarks alone: least squares of relative errors, none below zero."""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from gpusim.results.energy import EVENTS
from validate.compared import Compared, show
from validate.energy.kernels import of_round, recording, repeated, rows_of
from validate.points import ProgramPoint, select

TIE = 0.02
"""Two variants whose joules differ by less are alike: a board says so much from one pass to the next."""
_SLEEPS = ("stay 132 SMs", "rest")
_ALWAYS = (
    *("launch", "warp", "issue", "vote", "constant", "access", "shared_wavefront", "l1_tag", "l2_request", "dram_row"),
)
"""Events whose energy no operand changes."""
_ROUNDS = 20_000


def measured(gpu: str = "h100") -> dict[str, tuple[float, float]]:
    """Microseconds and joules of a launch of each program, the median of all passes."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in recording(gpu)["programs"]:
        found.setdefault(row["name"], []).append(row)
    times = {name: statistics.median(row["us"] for row in rows) for name, rows in found.items()}
    joules = {name: statistics.median(1e-6 * row["us"] * row["watts"] for row in rows) for name, rows in found.items()}
    return {name: (times[name], joules[name]) for name in found}


def predict(point: str, gpu: str = "h100", threads: int | None = None) -> Compared:
    """Simulate a program and what repeating it takes: microjoules of a launch. Its point is the program's name, and the
    microseconds of a launch, measured and simulated."""
    chosen = ProgramPoint.parse(point)
    period_us, energy = repeated(chosen, gpu, threads)
    steady = energy.sustained(period_us)
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
        found, error = fit(jobs=options.jobs)
        for event, (still, random) in found.items():
            print(f"{event}_pj = [{still:.3g}, {random:.3g}]")
        print(f"microbenchmarks: {error:.1%} off in the mean")
        return 0
    chosen = map(str, select(options.only, "large"))
    points = [each for each in chosen if each in measured() and options.split in (None, ProgramPoint.parse(each).split)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = pool.map(partial(predict, threads=1 if options.jobs > 1 else None), points)
        compared = list(ranks(show(rows)))
    for one, other, agree in compared:
        if not agree:
            print(f"other order: {one} to {other}")
    print(f"order of two variants of a ladder: {sum(row[2] for row in compared)} of {len(compared)} as measured")
    return 0


def least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x of least |a x - b| that has nothing below zero, one coordinate after the other."""
    products, right = a.T @ a, a.T @ b
    x = np.zeros(a.shape[1])
    used = [k for k in range(len(x)) if products[k, k] > 0]
    for _ in range(_ROUNDS):
        before = x.copy()
        for k in used:
            x[k] = max(0.0, x[k] + (right[k] - products[k] @ x) / products[k, k])
        if np.abs(x - before).max() <= 1e-9 * x.max():
            break
    return x


def static_watts(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of each board, when it came: while warps sleep, or between launches where none were asked to."""
    found: dict[str, float] = {}
    for name in _SLEEPS:
        for row in rows:
            if row["name"] == name:
                found.setdefault(row["board"], row["watts"])
    return found


def fit(gpu: str = "h100", jobs: int = 1) -> tuple[dict[str, tuple[float, float]], float]:
    """pJ of each event, still and random, and the mean error of the microbenchmarks. Takes ten minutes of a core."""
    events, watts, dynamic = [], [], []
    static = static_watts(recording(gpu)["micro"])
    chosen = [each for each in rows_of(recording(gpu)["micro"]) if each[0].entry not in ("stay", "barrier")]
    with ProcessPoolExecutor(jobs) as pool:
        rounds = list(pool.map(partial(of_round, gpu=gpu, threads=1), [experiment for experiment, _ in chosen]))
    for (_, rows), round_ in zip(chosen, rounds, strict=True):
        for row in rows:
            events.append(round_ * row["rounds"] / (1e-6 * row["us"]))
            watts.append(row["watts"])
            dynamic.append(row["watts"] - static[row["board"]])
    a, b, all_watts = 1e-12 * np.array(events), np.array(dynamic), np.array(watts)
    a[:, [len(EVENTS) + EVENTS.index(each) for each in _ALWAYS]] = 0
    x = least_squares(a / all_watts[:, None], b / all_watts)
    error = float(np.abs((a @ x - b) / all_watts).mean())
    pairs = zip(x[: len(EVENTS)].tolist(), x[len(EVENTS) :].tolist(), strict=True)
    return dict(zip(EVENTS, pairs, strict=True)), error
