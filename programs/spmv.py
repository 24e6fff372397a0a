"""Sparse matrix-vector product `y = a @ x` with `a` in compressed rows (CSR), a ladder of two: who works on a row.

Row lengths follow a power law, as in graphs of the web: most rows have a few elements, a few have hundreds.
`csr_scalar` gives each thread a row: a warp runs until the longest of its 32 rows is done, and its lanes read 32
places far apart. `csr_vector` gives each warp a row: values and columns are read side by side, a long row keeps 32
lanes busy, and a row of five elements leaves 27 of them idle. After N. Bell and M. Garland, "Implementing sparse
matrix-vector multiplication on throughput-oriented processors" (SC 2009).

In the report, compare threads per instruction, sectors per request, and how evenly SMs are loaded; neither wins
everywhere, and which does depends on the lengths. The elements of `x` are gathered from anywhere: a sector each.

Tolerance: the inputs are positive, so a sum of k products in any order is within k * 2**-24 of the exact one,
relative (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1); LONGEST sets the bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step
from programs.warp import warp_sum

BLOCK = 128
WARP = 32
LONGEST = 256
"""Most elements in a row."""
SHAPE = 1.2
"""Exponent of the Pareto distribution of row lengths: a mean of some 20, with a heavy tail."""
SCALE = 5
RTOL = LONGEST * 2.0**-24


def csr_scalar(start, column, value, x, y):
    row = cuda.grid(1)
    if row < y.size:
        total = np.float32(0)
        k = start[row]
        end = start[row + 1]
        while k < end:
            total += value[k] * x[column[k]]
            k += np.int32(1)
        y[row] = total


def csr_vector(start, column, value, x, y):
    row = cuda.grid(1) >> 5
    # The last block may have warps without a row; all lanes of a warp agree.
    if row < y.size:
        total = np.float32(0)
        k = np.int32(start[row] + cuda.laneid)
        end = start[row + 1]
        while k < end:
            total += value[k] * x[column[k]]
            k += np.int32(WARP)
        total = warp_sum(total)
        if cuda.laneid == 0:
            y[row] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    start, column, value, x, _ = launch.args
    products = value.astype(np.float64) * x[column]
    return (np.add.reduceat(products, start[:-1]).astype(np.float32),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, threads: int) -> Launch:
    """`threads`: threads per row."""
    # No row is empty: `reduceat` of the reference needs that, and a poisoned y notices every row.
    length = np.minimum(1 + (SCALE * rng.pareto(SHAPE, n)).astype(np.int32), min(LONGEST, n))
    start = np.concatenate(([0], np.cumsum(length))).astype(np.int32)
    column = rng.integers(0, n, start[-1], np.int32)
    value = rng.random(start[-1], np.float32) + np.float32(0.5)
    x = rng.random(n, np.float32) + np.float32(0.5)
    args = (start, column, value, x, np.full(n, np.nan, np.float32))
    return Launch(kernel, ceil_div(n * threads, BLOCK), BLOCK, args)


VARIANTS = ladder(
    Size("rows", (2048, 1 << 15), default=1 << 13, test=21, maximum=1 << 20),
    step(csr_scalar, "A thread per row: each warp waits for its longest row and reads far apart.", 1),
    step(csr_vector, "A warp per row reads side by side; short rows leave most lanes idle.", WARP),
    outputs=(4,),
    rtol=RTOL,
)
