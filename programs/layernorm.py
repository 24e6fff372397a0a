"""Layer normalisation of the rows of a matrix, `y = (x - mean) / sqrt(variance + eps) * gamma + beta`: a ladder.

1. `two_passes`: a block per row sums up the row for its mean, then the squared deviations from it, then writes: three
   reads, two reductions over the block.
2. `welford`: mean and squared deviations in one pass. The naive way, from the sum and the sum of squares, subtracts
   two nearly equal numbers; B. P. Welford's update (Technometrics 4, 1962) does not, and T. Chan, G. Golub and
   R. LeVeque's merge ("Updating formulae and a pairwise algorithm for computing sample variances", 1979) carries it
   across lanes and warps. Two reads, one reduction.
3. `registers`: a warp keeps a row of 1,024 values in registers, so the two passes of the first step cost no second
   read, and no barrier. It also stores nothing before everything is computed: where `gamma[k]` is loaded after
   `y[k - 1]` is stored, the compiler, which cannot know that the arrays do not overlap, makes each load wait for the
   store before it, and with 32 elements per lane that costs more than everything else. There is an eighth as many
   warps as in the other two to hide latency, so it takes many rows until the reads that it saves pay.

In the report, follow global load requests, barrier stalls and registers per thread, as in `softmax`. `gamma` and
`beta` are the same for all rows and come from the caches after the first.

Tolerance: inputs lie in [0.5, 1.5), so the variance is about 1/12 and a deviation is scaled by 3.5 and by gamma,
below 1.5. The mean of positive numbers is off by at most 48 * 2**-24 for the 40 additions that an element passes
through at most, which moves every result by 48 * 2**-24 * 3.5 * 1.5, below 256 * 2**-24. The squared deviations are
positive too, each off by that shift (which cancels in the sum to first order) and three roundings; with their sum,
square root, quotient and products that is below 64 * 2**-24 of a result, relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step
from programs.warp import BLOCK, FULL, WARPS, block_sum, warp_sum

COLUMNS = 1024
ITEMS = COLUMNS // BLOCK
"""Elements per thread with a block per row."""
PER_LANE = COLUMNS // 32
"""Elements per lane with a warp per row."""
ROWS = 2
"""Rows, and warps, of a block with a warp per row."""
EPSILON = np.float32(1e-5)
SHARE = np.float32(1 / COLUMNS)
RTOL = 64 * 2.0**-24
ATOL = 256 * 2.0**-24


def two_passes(x, gamma, beta, y):
    s_sum = cuda.shared.array(WARPS, np.float32)
    s_squares = cuda.shared.array(WARPS, np.float32)
    row = cuda.blockIdx.x
    t = np.uint32(cuda.threadIdx.x)
    total = np.float32(0)
    for i in range(ITEMS):
        total += x[row, t + np.uint32(i * BLOCK)]
    mean = block_sum(total, s_sum) * SHARE
    squares = np.float32(0)
    for i in range(ITEMS):
        deviation = x[row, t + np.uint32(i * BLOCK)] - mean
        squares += deviation * deviation
    scale = np.float32(1) / math.sqrt(block_sum(squares, s_squares) * SHARE + EPSILON)
    for i in range(ITEMS):
        k = t + np.uint32(i * BLOCK)
        y[row, k] = (x[row, k] - mean) * scale * gamma[k] + beta[k]


@cuda.jit(device=True)
def _merge(mean, squares, half, k):
    """Mean and squared deviations of two lanes' parts together. half: half the number of elements in each."""
    other = cuda.shfl_xor_sync(FULL, mean, k)
    squares += cuda.shfl_xor_sync(FULL, squares, k)
    difference = other - mean
    return (mean + other) * np.float32(0.5), squares + difference * difference * np.float32(half)


def welford(x, gamma, beta, y):
    s_mean = cuda.shared.array(WARPS, np.float32)
    s_squares = cuda.shared.array(WARPS, np.float32)
    row = cuda.blockIdx.x
    t = np.uint32(cuda.threadIdx.x)
    mean = np.float32(0)
    squares = np.float32(0)
    for i in range(ITEMS):
        value = x[row, t + np.uint32(i * BLOCK)]
        deviation = value - mean
        mean += deviation * (np.float32(1) / np.float32(i + 1))
        squares += deviation * (value - mean)
    # Lanes 1, 2, 4, 8, 16 apart, each time with twice as many elements on both sides.
    half = ITEMS // 2
    for k in (1, 2, 4, 8, 16):
        mean, squares = _merge(mean, squares, half, k)
        half *= 2
    if t & np.uint32(31) == 0:
        s_mean[t >> np.uint32(5)] = mean
        s_squares[t >> np.uint32(5)] = squares
    cuda.syncthreads()
    mean = s_mean[t & np.uint32(WARPS - 1)]
    squares = s_squares[t & np.uint32(WARPS - 1)]
    for k in (1, 2, 4):
        mean, squares = _merge(mean, squares, half, k)
        half *= 2
    scale = np.float32(1) / math.sqrt(squares * SHARE + EPSILON)
    for i in range(ITEMS):
        k = t + np.uint32(i * BLOCK)
        y[row, k] = (x[row, k] - mean) * scale * gamma[k] + beta[k]


def registers(x, gamma, beta, y):
    kept = cuda.local.array(PER_LANE, np.float32)
    i = np.uint32(cuda.grid(1))
    row = i >> np.uint32(5)
    lane = i & np.uint32(31)
    total = np.float32(0)
    for j in range(PER_LANE):
        kept[j] = x[row, lane + np.uint32(32 * j)]
        total += kept[j]
    mean = warp_sum(total) * SHARE
    squares = np.float32(0)
    for j in range(PER_LANE):
        kept[j] -= mean
        squares += kept[j] * kept[j]
    scale = np.float32(1) / math.sqrt(warp_sum(squares) * SHARE + EPSILON)
    for j in range(PER_LANE):
        k = lane + np.uint32(32 * j)
        kept[j] = kept[j] * scale * gamma[k] + beta[k]
    for j in range(PER_LANE):
        y[row, lane + np.uint32(32 * j)] = kept[j]


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x, gamma, beta, _ = (each.astype(np.float64) for each in launch.args)
    deviation = x - x.mean(axis=1, keepdims=True)
    variance = (deviation * deviation).mean(axis=1, keepdims=True)
    return ((deviation / np.sqrt(variance + float(EPSILON)) * gamma + beta).astype(np.float32),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, rows: int, block: int) -> Launch:
    x = rng.random((n, COLUMNS), np.float32) + np.float32(0.5)
    gamma = rng.random(COLUMNS, np.float32) + np.float32(0.5)
    beta = rng.random(COLUMNS, np.float32)
    return Launch(kernel, n // rows, block, (x, gamma, beta, np.full((n, COLUMNS), np.nan, np.float32)))


VARIANTS = ladder(
    Size("rows", (256, 2048), default=512, test=ROWS, multiple=ROWS, maximum=1 << 18),
    step(two_passes, "Mean first, then deviations from it: stable, but each row is read three times.", 1, BLOCK),
    step(welford, "Welford's update finds mean and variance in one pass and stays accurate.", 1, BLOCK),
    step(registers, "With the row in registers, a second pass over it costs no read.", ROWS, 32 * ROWS),
    outputs=(3,),
    rtol=RTOL,
    atol=ATOL,
)
