"""Softmax of the rows of a matrix, `y = exp(x - max(x)) / sum(exp(x - max(x)))`: a ladder that reads a row less often.

1. `three_passes`: a block per row goes over it for the maximum, for the sum, and to write: three reads, two
   reductions over the block.
2. `online`: maximum and sum in one pass; whenever a greater value turns up, the sum so far is scaled down. Two reads
   and one reduction, for more exponentials. After M. Milakov and N. Gimelshein, "Online normalizer calculation for
   softmax" (2018).
3. `warp_per_row`: a warp per row keeps the row's 1,024 values in registers, 32 in each lane: one read, no barrier,
   no shared memory.

In the report, follow global load requests (three to two to one), barrier stalls, and the registers per thread that
the last step pays with. DRAM traffic is the same in all three: a row is 4 KiB, and the later passes find it in L1, so
the pass that `online` saves is a cheap one here, and its exponentials are not: compare executed instructions. It pays
where a row does not fit into a cache, or is never stored, as in `attention/fused`.

Tolerance: the error of `exp` is at most two units in the last place, 2**-22 (CUDA programming guide, mathematical
functions), and a difference of two inputs in [-4, 4) is rounded by at most 2**-22, which `exp` turns into a relative
error: 8 * 2**-24 for each exponential. A sum of positive numbers adds 2**-24 for each of the 40 additions that an
element passes through at most. A value is scaled down at most 12 times (four elements, eight exchanges), an
exponential and a product each, 9 * 2**-24. Together with the last exponential and the division that is below
256 * 2**-24.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step
from programs.warp import BLOCK, FULL, WARPS, block_max, block_sum, warp_max, warp_sum

COLUMNS = 1024
ITEMS = COLUMNS // BLOCK
"""Elements per thread with a block per row."""
PER_LANE = COLUMNS // 32
"""Elements per lane with a warp per row."""
ROWS = 2
"""Rows, and warps, of a block with a warp per row."""
RTOL = 256 * 2.0**-24


def three_passes(x, y):
    s_max = cuda.shared.array(WARPS, np.float32)
    s_sum = cuda.shared.array(WARPS, np.float32)
    row = cuda.blockIdx.x
    t = np.uint32(cuda.threadIdx.x)
    greatest = x[row, t]
    for i in range(1, ITEMS):
        greatest = max(greatest, x[row, t + np.uint32(i * BLOCK)])
    greatest = block_max(greatest, s_max)
    total = np.float32(0)
    for i in range(ITEMS):
        total += math.exp(x[row, t + np.uint32(i * BLOCK)] - greatest)
    scale = np.float32(1) / block_sum(total, s_sum)
    for i in range(ITEMS):
        k = t + np.uint32(i * BLOCK)
        y[row, k] = math.exp(x[row, k] - greatest) * scale


@cuda.jit(device=True)
def _merge(greatest, total, other, other_total):
    """Maximum and sum of two parts that each have their own; the sums are relative to the maxima."""
    both = max(greatest, other)
    return both, total * math.exp(greatest - both) + other_total * math.exp(other - both)


@cuda.jit(device=True)
def _exchange(greatest, total, k):
    other = cuda.shfl_xor_sync(FULL, greatest, k)
    other_total = cuda.shfl_xor_sync(FULL, total, k)
    return _merge(greatest, total, other, other_total)


def online(x, y):
    s_max = cuda.shared.array(WARPS, np.float32)
    s_sum = cuda.shared.array(WARPS, np.float32)
    row = cuda.blockIdx.x
    t = np.uint32(cuda.threadIdx.x)
    greatest = x[row, t]
    total = np.float32(1)
    for i in range(1, ITEMS):
        greatest, total = _merge(greatest, total, x[row, t + np.uint32(i * BLOCK)], np.float32(1))
    for k in (16, 8, 4, 2, 1):
        greatest, total = _exchange(greatest, total, k)
    if t & np.uint32(31) == 0:
        s_max[t >> np.uint32(5)] = greatest
        s_sum[t >> np.uint32(5)] = total
    cuda.syncthreads()
    greatest = s_max[t & np.uint32(WARPS - 1)]
    total = s_sum[t & np.uint32(WARPS - 1)]
    for k in (4, 2, 1):
        greatest, total = _exchange(greatest, total, k)
    scale = np.float32(1) / total
    for i in range(ITEMS):
        k = t + np.uint32(i * BLOCK)
        y[row, k] = math.exp(x[row, k] - greatest) * scale


def warp_per_row(x, y):
    kept = cuda.local.array(PER_LANE, np.float32)
    i = np.uint32(cuda.grid(1))
    row = i >> np.uint32(5)
    lane = i & np.uint32(31)
    greatest = x[row, lane]
    for j in range(PER_LANE):
        kept[j] = x[row, lane + np.uint32(32 * j)]
        greatest = max(greatest, kept[j])
    greatest = warp_max(greatest)
    total = np.float32(0)
    for j in range(PER_LANE):
        kept[j] = math.exp(kept[j] - greatest)
        total += kept[j]
    scale = np.float32(1) / warp_sum(total)
    for j in range(PER_LANE):
        y[row, lane + np.uint32(32 * j)] = kept[j] * scale


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x = launch.args[0].astype(np.float64)
    power = np.exp(x - x.max(axis=1, keepdims=True))
    return ((power / power.sum(axis=1, keepdims=True)).astype(np.float32),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, rows: int, block: int) -> Launch:
    x = rng.random((n, COLUMNS), np.float32) * np.float32(8) - np.float32(4)
    return Launch(kernel, n // rows, block, (x, np.full((n, COLUMNS), np.nan, np.float32)))


VARIANTS = ladder(
    Size("rows", (256, 2048), default=512, test=ROWS, multiple=ROWS, maximum=1 << 18),
    step(three_passes, "Maximum, sum and output take a pass each: every row is read three times.", 1, BLOCK),
    step(online, "Scaling the sum whenever the maximum grows makes one pass of two.", 1, BLOCK),
    step(warp_per_row, "A row kept in a warp's registers is read once and needs no barrier.", ROWS, 32 * ROWS),
    rtol=RTOL,
)
