"""The energies of events, from the microbenchmarks alone: least squares of relative errors, none below zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusim.results.energy_events import EVENTS
from validate.energy.data import recording
from validate.energy.simulated import of_round, rows_of

STATIC_W = 120.0
"""What boards take while warps sleep, 117 to 126 W on four of them while cool; up to 138 W once warm."""
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


def fit(gpu: str = "h100") -> tuple[dict[str, tuple[float, float]], float]:
    """pJ of each event, still and random, and the mean error of the microbenchmarks. Takes ten minutes."""
    events, watts, weights = [], [], []
    for experiment, rows in rows_of(recording(gpu)["micro"]):
        found = [row["watts"] for row in rows]
        round_ = of_round(experiment, gpu)
        events += [round_ * row["rounds"] / (1e-6 * row["us"]) for row in rows]
        watts += found
        weights += [(3 if experiment.entry in ("stay", "barrier") else 1) / each for each in found]
    a, b, weight = 1e-12 * np.array(events), np.array(watts) - STATIC_W, np.array(weights)
    a[:, [len(EVENTS) + EVENTS.index(each) for each in _ALWAYS]] = 0
    x = least_squares(a * weight[:, None], b * weight)
    error = float(np.abs((a @ x - b) / np.array(watts)).mean())
    pairs = zip(x[: len(EVENTS)].tolist(), x[len(EVENTS) :].tolist(), strict=True)
    return dict(zip(EVENTS, pairs, strict=True)), error


def table(gpu: str = "h100") -> Iterator[str]:
    """Lines of `[energy]` in a configuration, and the error."""
    found, error = fit(gpu)
    for event, (still, random) in found.items():
        yield f"{event}_pj = [{still:.3g}, {random:.3g}]"
    yield f"microbenchmarks: {error:.1%} off in the mean"
