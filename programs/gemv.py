"""Matrix-vector product `y = a @ x` of a square matrix, a ladder of three: who reads a row.

Each element of the matrix is used once, so all that matters is how it is read. `row_per_thread` gives every thread a
row: at each step the lanes of a warp read 32 rows, 32 sectors for 128 bytes. The L1 cache keeps the rest of each
sector for the next steps, but nothing helps against the number of threads: 4,096 rows are 128 warps for 528
schedulers. `row_per_warp` has the lanes read neighbours and add up by shuffles: four sectors per request, 32 times
as many threads. `vectorised` loads 16 bytes at a time, a quarter of the requests.

In the report, compare sectors per request, the share of the DRAM bandwidth, and achieved occupancy. `x` is read again
for every row and comes from the caches.

Tolerance: the inputs are positive, so a sum of n products in any order is within n * 2**-24 of the exact one,
relative (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1); n = 4096 sets the bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs import ptx
from programs.variant import Size, ladder, step
from programs.warp import warp_sum

BLOCK = 64
WARP = 32
RTOL = 4096 * 2.0**-24

# The matrix is passed flat, since `ptx.load4` takes one-dimensional arrays. Indices are unsigned, which spares the
# test for a negative one that Python's indexing would need.


def row_per_thread(a, x, y):
    n = np.uint32(x.size)
    row = np.uint32(cuda.grid(1))
    total = np.float32(0)
    k = np.uint32(0)
    while k < n:
        total += a[row * n + k] * x[k]
        k += np.uint32(1)
    y[row] = total


def row_per_warp(a, x, y):
    n = np.uint32(x.size)
    i = np.uint32(cuda.grid(1))
    row = i >> np.uint32(5)
    lane = i & np.uint32(31)
    total = np.float32(0)
    k = lane
    while k < n:
        total += a[row * n + k] * x[k]
        k += np.uint32(WARP)
    total = warp_sum(total)
    if lane == 0:
        y[row] = total


def vectorised(a, x, y):
    n = np.uint32(x.size)
    i = np.uint32(cuda.grid(1))
    row = i >> np.uint32(5)
    lane = i & np.uint32(31)
    total = np.float32(0)
    k = np.uint32(4) * lane
    while k < n:
        left = ptx.load4(a, row * n + k)
        right = ptx.load4(x, k)
        for j in range(4):
            total += left[j] * right[j]
        k += np.uint32(4 * WARP)
    total = warp_sum(total)
    if lane == 0:
        y[row] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    a, x, _ = launch.args
    # Blocks of rows, so that no copy of the matrix in double precision is needed.
    rows = [part.astype(np.float64) @ x.astype(np.float64) for part in np.split(a.reshape(-1, x.size), 8)]
    return (np.concatenate(rows).astype(np.float32),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, threads: int) -> Launch:
    """`threads`: threads per row."""
    a = rng.random(n * n, np.float32)
    x = rng.random(n, np.float32)
    return Launch(kernel, n * threads // BLOCK, BLOCK, (a, x, np.full(n, np.nan, np.float32)))


VARIANTS = ladder(
    Size("n (matrix side)", (512, 4096), default=1024, test=BLOCK, multiple=BLOCK, maximum=1 << 14),
    step(row_per_thread, "A row per thread spreads each load over 32 lines and leaves few threads.", 1),
    step(row_per_warp, "Lanes that share a row read neighbours; shuffles add up what they found.", WARP),
    step(vectorised, "Sixteen bytes per lane and load take a quarter of the requests.", WARP),
    outputs=(2,),
    rtol=RTOL,
)
