"""Double precision: twice the bytes, and half the multiply-adds per cycle or far less.

`daxpy` is `z = alpha * x + y` on doubles: 24 bytes per element, so DRAM is the limit and double precision costs twice
the time of single. `series` adds up 64 terms of a geometric series per element by Horner's rule, where arithmetic
is the limit: a GPU for computing centres has half as many double-precision units (DFMA) as single-precision ones, one
for graphics a thirty-second or less. `series_single` is the same in single precision. In the report, compare the
pipe that is busiest, the time per multiply-add, and what the configuration of another GPU makes of it.

Tolerance: `daxpy` on positive numbers: one or two roundings on either side, 4 * 2**-53 relative. In `series` each of
the 64 steps rounds once or twice on either side; earlier errors are multiplied with x < 1 / 2 at every step and the
sums are at least 1, so their total is below 2 * 4 * 2**-53, and with 2**-24 in place of 2**-53 for `series_single`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

BLOCK = 256
TERMS = 64


def daxpy(alpha, x, y, z):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = alpha * x[i] + y[i]


def series(x, z):
    i = cuda.grid(1)
    if i < z.size:
        value = x[i]
        total = np.float64(1)
        for _ in range(TERMS):
            total = total * value + np.float64(1)
        z[i] = total


def series_single(x, z):
    i = cuda.grid(1)
    if i < z.size:
        value = x[i]
        total = np.float32(1)
        for _ in range(TERMS):
            total = total * value + np.float32(1)
        z[i] = total


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, dtype: type) -> Launch:
    x = dtype(0.5) * rng.random(n, dtype)
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (x, np.full(n, np.nan, dtype)))


def _make_daxpy(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    args = (np.float64(1.5), rng.random(n), rng.random(n), np.full(n, np.nan))
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, args)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x = launch.args[0].astype(np.float64)
    total = np.ones_like(x)
    for _ in range(TERMS):
        total = total * x + 1
    return (total.astype(launch.args[1].dtype),)


def _reference_daxpy(launch: Launch) -> tuple[np.ndarray, ...]:
    alpha, x, y, _ = launch.args
    return (alpha * x + y,)


_DAXPY = {"make": _make_daxpy, "reference": _reference_daxpy, "outputs": (3,), "rtol": 4 * 2.0**-53}
VARIANTS = ladder(
    Size("elements", (1 << 17, 1 << 20), default=1 << 17, test=300, maximum=1 << 26),
    step(daxpy, "Where memory is the limit, a double costs double.", **_DAXPY),
    step(series_single, "Sixty-four multiply-adds per element in single precision.", np.float32, rtol=8 * 2.0**-24),
    step(series, "The same in double precision, as fast as the GPU has units for it.", np.float64),
    rtol=8 * 2.0**-53,
)
