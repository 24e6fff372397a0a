"""The energies of events, from the microbenchmarks alone: least squares of relative errors, none below zero."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from gpusim.results.energy import EVENTS
from validate.energy.kernels import recording
from validate.energy.simulated import of_round, rows_of

STATIC_W = 120.0
"""What the model takes for a board whose warps sleep: 117 to 126 W on five while cool, 148 W on one at 56 degrees."""
_SLEEPS = ("stay 132 SMs", "rest")
_ALWAYS = (
    *("launch", "warp", "issue", "vote", "constant", "access", "shared_wavefront", "l1_tag", "l2_request", "dram_row"),
)
"""Events whose energy no operand changes."""
_ROUNDS = 20_000


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


def table(gpu: str = "h100", jobs: int = 1) -> Iterator[str]:
    """Lines of `[energy]` in a configuration, and the error."""
    found, error = fit(gpu, jobs)
    for event, (still, random) in found.items():
        yield f"{event}_pj = [{still:.3g}, {random:.3g}]"
    yield f"microbenchmarks: {error:.1%} off in the mean"
