"""Matrix product `c = a @ b` of square matrices, a ladder of two: values from cache, or from a shared tile.

`naive` loads two values for each multiply-add; neighbouring threads ask for the same ones, so the L1 cache
serves nearly all of them, and the load pipe, not the arithmetic, is the limit. `tiled` fetches each value
once per 16 x 16 tile and reuses it 16 times from shared memory: in the report, compare L1 requests and L2
sectors, and look at the barrier stalls that tiling adds. In both, a warp covers two rows of 16 columns: a
broadcast and a contiguous access.

Tolerance: the inputs are positive, so a sum of n products in any order is within n * 2**-24 of the exact one,
relative (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1); n = 512 sets the
bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

TILE = 16
RTOL = 512 * 2.0**-24


# `while` rather than `range` over a bound known at run time only: the state of Numba's range object costs
# some 30 instructions per round, four times the work itself (nvdisasm, sm_90). Constant ranges are unrolled
# and cost nothing.


def naive(a, b, c):
    n = a.shape[1]
    col, row = cuda.grid(2)
    total = np.float32(0)
    k = 0
    while k < n:
        total += a[row, k] * b[k, col]
        k += 1
    c[row, col] = total


def tiled(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), np.float32)
    b_tile = cuda.shared.array((TILE, TILE), np.float32)
    n = a.shape[1]
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = np.float32(0)
    first = 0
    while first < n:
        a_tile[ty, tx] = a[row, first + tx]
        b_tile[ty, tx] = b[first + ty, col]
        cuda.syncthreads()
        for k in range(TILE):
            total += a_tile[ty, k] * b_tile[k, tx]
        # The next tile must not overwrite this one while a slower warp still reads it.
        cuda.syncthreads()
        first += TILE
    c[row, col] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    a, b, c, *sides = launch.args  # `matmul_register` has flat matrices, and their side
    left, right = (each.reshape(2 * sides or each.shape).astype(np.float64) for each in (a, b))
    return ((left @ right).astype(np.float32).reshape(c.shape),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    # Whole tiles only: a bounds check in the inner loop would hide what the ladder shows.
    a, b = (rng.random((n, n), np.float32) for _ in "ab")
    c = np.full((n, n), np.nan, np.float32)
    return Launch(kernel, (n // TILE, n // TILE), (TILE, TILE), (a, b, c))


VARIANTS = ladder(
    Size("n (matrix side)", (64, 256), default=128, test=32, multiple=TILE, maximum=1 << 13),
    step(naive, "Two loads per multiply-add make the load pipe the limit, however well caches work."),
    step(tiled, "A tile in shared memory loads each value once and uses it 16 times."),
    outputs=(2,),
    rtol=RTOL,
)
