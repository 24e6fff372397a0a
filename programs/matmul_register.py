"""Matrix product on the arithmetic pipes, a ladder that goes on where `matmul` ends: outputs in registers.

`matmul/tiled` loads two words of shared memory for each multiply-add. A thread that computes a square of outputs
uses each word several times; what is left is taken away step by step:

1. `strided`: 4 x 4 outputs per thread, 16 columns and rows apart: eight words for 16 multiply-adds. Those of `a` lie
   side by side for four steps, so the compiler loads them four at a time; those of `b` come one by one.
2. `vectorised`: 4 x 4 neighbouring outputs, so four values are one load of 16 bytes: two loads for 16 multiply-adds.
   The tile of `a` is kept transposed for that, and writing it so makes its stores collide.
3. `swizzled`: each group of four rows of that tile is turned by eight words, so the stores touch all banks once.
4. `double_buffered`: the next tile is on its way to registers while this one is multiplied, and goes to the other of
   two buffers, which takes one barrier per tile instead of two.
5. `eight_by_eight`: four loads for 64 multiply-adds, and a quarter of the traffic between shared memory and L2.

In the report, follow shared-memory wavefronts, the excess among them, the FMA pipe and the stalls on the long
scoreboard. The last step is the best code and yet no winner at these sizes: 512 x 512 outputs are 16 blocks of
128 x 128, and 116 SMs have nothing to do, while 64 x 64 fills half of them. Look at multiply-adds per cycle of a busy
SM instead, and see the same kernel win once the matrix is large (quantization of tiles).

Tolerance: the inputs are positive, so a sum of n products in any order is within n * 2**-24 of the exact one,
relative (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1); n = 512 sets the bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs import matmul, ptx
from programs.variant import Size, ladder, step

BLOCK = 256
"""Threads per block, in 16 rows of 16."""
TILE = 64
DEPTH = 16
"""Rows of `b` and columns of `a` in a tile."""
WORDS = TILE * DEPTH
"""In each of the two tiles: four per thread."""
BUFFERS = 2 * WORDS
BIG_TILE = 128
BIG_DEPTH = 8
BIG_WORDS = BIG_TILE * BIG_DEPTH
BIG_BUFFERS = 2 * BIG_WORDS
RTOL = 512 * 2.0**-24

# Matrices are passed flat, since `ptx.load4` takes one-dimensional arrays. Indices are unsigned, which spares the
# test for a negative one that Python's indexing would need.


# Steps are written out four at a time: NVVM leaves a `range` loop with so large a body as it is, and its counter then
# costs as much as the work.
@cuda.jit(device=True)
def _strided_step(a_tile, b_tile, k, tx, ty, total):
    for i in range(4):
        left = a_tile[(ty + np.uint32(16 * i)) * np.uint32(DEPTH) + k]
        for j in range(4):
            total[4 * i + j] += left * b_tile[k * np.uint32(TILE) + np.uint32(16 * j) + tx]


def strided(a, b, c, n):
    a_tile = cuda.shared.array(WORDS, np.float32)
    b_tile = cuda.shared.array(WORDS, np.float32)
    total = cuda.local.array(16, np.float32)
    t = np.uint32(cuda.threadIdx.x)
    tx = t & np.uint32(15)
    ty = t >> np.uint32(4)
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    for i in range(16):
        total[i] = np.float32(0)
    first = np.uint32(0)
    while first < n:
        for i in range(4):
            a_tile[t + np.uint32(256 * i)] = a[(row + ty + np.uint32(16 * i)) * n + first + tx]
            k = (t >> np.uint32(6)) + np.uint32(4 * i)
            b_tile[t + np.uint32(256 * i)] = b[(first + k) * n + col + (t & np.uint32(63))]
        cuda.syncthreads()
        k = np.uint32(0)
        while k < np.uint32(DEPTH):
            _strided_step(a_tile, b_tile, k, tx, ty, total)
            _strided_step(a_tile, b_tile, k + np.uint32(1), tx, ty, total)
            _strided_step(a_tile, b_tile, k + np.uint32(2), tx, ty, total)
            _strided_step(a_tile, b_tile, k + np.uint32(3), tx, ty, total)
            k += np.uint32(4)
        # The next tile must not overwrite this one while a slower warp still reads it.
        cuda.syncthreads()
        first += np.uint32(DEPTH)
    for i in range(4):
        for j in range(4):
            place = (row + ty + np.uint32(16 * i)) * n + col + tx + np.uint32(16 * j)
            c[place] = total[4 * i + j]


@cuda.jit(device=True)
def _store_transposed(tile, to, pitch, four):
    """Put four neighbours in a row of `a` into four rows of its transposed tile, in one column."""
    for i in range(4):
        tile[to + np.uint32(pitch * i)] = four[i]


@cuda.jit(device=True)
def _step(a_tile, b_tile, a_at, b_at, total):
    """Add the products of four rows and four columns to 16 sums."""
    left = ptx.load4(a_tile, a_at)
    right = ptx.load4(b_tile, b_at)
    for i in range(4):
        for j in range(4):
            total[4 * i + j] += left[i] * right[j]


@cuda.jit(device=True)
def _four_steps(a_tile, b_tile, a_at, b_at, total):
    _step(a_tile, b_tile, a_at, b_at, total)
    _step(a_tile, b_tile, a_at + np.uint32(TILE), b_at + np.uint32(TILE), total)
    _step(a_tile, b_tile, a_at + np.uint32(2 * TILE), b_at + np.uint32(2 * TILE), total)
    _step(a_tile, b_tile, a_at + np.uint32(3 * TILE), b_at + np.uint32(3 * TILE), total)


@cuda.jit(device=True)
def _store_tile(c, place, n, total):
    for i in range(4):
        at = place + np.uint32(i) * n
        ptx.store4(c, at, total[4 * i], total[4 * i + 1], total[4 * i + 2], total[4 * i + 3])


def vectorised(a, b, c, n):
    a_tile = cuda.shared.array(WORDS, np.float32)
    b_tile = cuda.shared.array(WORDS, np.float32)
    total = cuda.local.array(16, np.float32)
    t = np.uint32(cuda.threadIdx.x)
    tx = np.uint32(4) * (t & np.uint32(15))
    ty = np.uint32(4) * (t >> np.uint32(4))
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    # What this thread brings in: four words of row `a_row` of a's tile, the quad-th four, and four of b's.
    quad = t & np.uint32(3)
    a_row = t >> np.uint32(2)
    a_at = (row + a_row) * n + np.uint32(4) * quad
    b_at = (t >> np.uint32(4)) * n + col + tx
    a_to = quad * np.uint32(4 * TILE) + a_row
    for i in range(16):
        total[i] = np.float32(0)
    first = np.uint32(0)
    while first < n:
        _store_transposed(a_tile, a_to, TILE, ptx.load4(a, a_at + first))
        four = ptx.load4(b, b_at + first * n)
        ptx.store4(b_tile, np.uint32(4) * t, four[0], four[1], four[2], four[3])
        cuda.syncthreads()
        at = np.uint32(0)
        while at < np.uint32(WORDS):
            _four_steps(a_tile, b_tile, at + ty, at + tx, total)
            at += np.uint32(4 * TILE)
        cuda.syncthreads()
        first += np.uint32(DEPTH)
    _store_tile(c, (row + ty) * n + col + tx, n, total)


@cuda.jit(device=True)
def _turned(column, k):
    """Place of a column of a's transposed tile in row k: each four rows are turned by another eight words."""
    return (column + np.uint32(2) * (k & np.uint32(DEPTH - 4))) & np.uint32(TILE - 1)


@cuda.jit(device=True)
def _multiply_tile(a_tile, b_tile, now, tx, ty, total):
    """Multiply the tiles that begin at word `now` of the two buffers."""
    k = np.uint32(0)
    while k < np.uint32(DEPTH):
        at = now + k * np.uint32(TILE)
        _four_steps(a_tile, b_tile, at + _turned(ty, k), at + tx, total)
        k += np.uint32(4)


def swizzled(a, b, c, n):
    a_tile = cuda.shared.array(WORDS, np.float32)
    b_tile = cuda.shared.array(WORDS, np.float32)
    total = cuda.local.array(16, np.float32)
    t = np.uint32(cuda.threadIdx.x)
    tx = np.uint32(4) * (t & np.uint32(15))
    ty = np.uint32(4) * (t >> np.uint32(4))
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    quad = t & np.uint32(3)
    a_row = t >> np.uint32(2)
    a_at = (row + a_row) * n + np.uint32(4) * quad
    b_at = (t >> np.uint32(4)) * n + col + tx
    a_to = quad * np.uint32(4 * TILE) + _turned(a_row, np.uint32(4) * quad)
    for i in range(16):
        total[i] = np.float32(0)
    first = np.uint32(0)
    while first < n:
        _store_transposed(a_tile, a_to, TILE, ptx.load4(a, a_at + first))
        four = ptx.load4(b, b_at + first * n)
        ptx.store4(b_tile, np.uint32(4) * t, four[0], four[1], four[2], four[3])
        cuda.syncthreads()
        _multiply_tile(a_tile, b_tile, np.uint32(0), tx, ty, total)
        cuda.syncthreads()
        first += np.uint32(DEPTH)
    _store_tile(c, (row + ty) * n + col + tx, n, total)


def double_buffered(a, b, c, n):
    a_tile = cuda.shared.array(BUFFERS, np.float32)
    b_tile = cuda.shared.array(BUFFERS, np.float32)
    total = cuda.local.array(16, np.float32)
    t = np.uint32(cuda.threadIdx.x)
    tx = np.uint32(4) * (t & np.uint32(15))
    ty = np.uint32(4) * (t >> np.uint32(4))
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    quad = t & np.uint32(3)
    a_row = t >> np.uint32(2)
    a_at = (row + a_row) * n + np.uint32(4) * quad
    b_at = (t >> np.uint32(4)) * n + col + tx
    a_to = quad * np.uint32(4 * TILE) + _turned(a_row, np.uint32(4) * quad)
    b_to = np.uint32(4) * t
    for i in range(16):
        total[i] = np.float32(0)
    _store_transposed(a_tile, a_to, TILE, ptx.load4(a, a_at))
    four = ptx.load4(b, b_at)
    ptx.store4(b_tile, b_to, four[0], four[1], four[2], four[3])
    cuda.syncthreads()
    now = np.uint32(0)
    first = np.uint32(DEPTH)
    while first < n:
        # These two loads have the whole multiplication to arrive in.
        a_four = ptx.load4(a, a_at + first)
        four = ptx.load4(b, b_at + first * n)
        _multiply_tile(a_tile, b_tile, now, tx, ty, total)
        now ^= np.uint32(WORDS)
        _store_transposed(a_tile, now + a_to, TILE, a_four)
        ptx.store4(b_tile, now + b_to, four[0], four[1], four[2], four[3])
        # One barrier does for both: the tile is complete, and nobody reads the one that is written next.
        cuda.syncthreads()
        first += np.uint32(DEPTH)
    _multiply_tile(a_tile, b_tile, now, tx, ty, total)
    _store_tile(c, (row + ty) * n + col + tx, n, total)


@cuda.jit(device=True)
def _big_turned(column, k):
    return (column + np.uint32(4) * (k & np.uint32(BIG_DEPTH - 4))) & np.uint32(BIG_TILE - 1)


@cuda.jit(device=True)
def _quarter(left, right, total, at):
    for i in range(4):
        for j in range(4):
            total[at + 4 * i + j] += left[i] * right[j]


@cuda.jit(device=True)
def _big_step(a_tile, b_tile, upper, lower, b_at, total):
    """Eight rows and eight columns: 64 products from four loads."""
    above = ptx.load4(a_tile, upper)
    below = ptx.load4(a_tile, lower)
    left = ptx.load4(b_tile, b_at)
    right = ptx.load4(b_tile, b_at + np.uint32(BIG_TILE // 2))
    _quarter(above, left, total, 0)
    _quarter(above, right, total, 16)
    _quarter(below, left, total, 32)
    _quarter(below, right, total, 48)


@cuda.jit(device=True)
def _multiply_big_tile(a_tile, b_tile, now, tx, ty, total):
    k = np.uint32(0)
    while k < np.uint32(BIG_DEPTH):
        at = now + k * np.uint32(BIG_TILE)
        upper = at + _big_turned(ty, k)
        lower = at + _big_turned(ty + np.uint32(BIG_TILE // 2), k)
        _big_step(a_tile, b_tile, upper, lower, at + tx, total)
        at += np.uint32(BIG_TILE)
        _big_step(a_tile, b_tile, upper + np.uint32(BIG_TILE), lower + np.uint32(BIG_TILE), at + tx, total)
        k += np.uint32(2)


@cuda.jit(device=True)
def _store_quarter(c, place, n, total, first):
    for i in range(4):
        at = place + np.uint32(i) * n
        k = first + 4 * i
        ptx.store4(c, at, total[k], total[k + 1], total[k + 2], total[k + 3])


def eight_by_eight(a, b, c, n):
    a_tile = cuda.shared.array(BIG_BUFFERS, np.float32)
    b_tile = cuda.shared.array(BIG_BUFFERS, np.float32)
    total = cuda.local.array(64, np.float32)
    t = np.uint32(cuda.threadIdx.x)
    # Two groups of four rows and of four columns, half a tile apart: eight neighbours would be two loads whose
    # addresses lie 32 bytes apart from lane to lane, and collide.
    tx = np.uint32(4) * (t & np.uint32(15))
    ty = np.uint32(4) * (t >> np.uint32(4))
    row = np.uint32(cuda.blockIdx.y * BIG_TILE)
    col = np.uint32(cuda.blockIdx.x * BIG_TILE)
    quad = t & np.uint32(1)
    a_row = t >> np.uint32(1)
    a_at = (row + a_row) * n + np.uint32(4) * quad
    b_at = (t >> np.uint32(5)) * n + col + np.uint32(4) * (t & np.uint32(31))
    a_to = quad * np.uint32(4 * BIG_TILE) + _big_turned(a_row, np.uint32(4) * quad)
    b_to = np.uint32(4) * t
    for i in range(64):
        total[i] = np.float32(0)
    _store_transposed(a_tile, a_to, BIG_TILE, ptx.load4(a, a_at))
    four = ptx.load4(b, b_at)
    ptx.store4(b_tile, b_to, four[0], four[1], four[2], four[3])
    cuda.syncthreads()
    now = np.uint32(0)
    first = np.uint32(BIG_DEPTH)
    while first < n:
        a_four = ptx.load4(a, a_at + first)
        four = ptx.load4(b, b_at + first * n)
        _multiply_big_tile(a_tile, b_tile, now, tx, ty, total)
        now ^= np.uint32(BIG_WORDS)
        _store_transposed(a_tile, now + a_to, BIG_TILE, a_four)
        ptx.store4(b_tile, now + b_to, four[0], four[1], four[2], four[3])
        cuda.syncthreads()
        first += np.uint32(BIG_DEPTH)
    _multiply_big_tile(a_tile, b_tile, now, tx, ty, total)
    place = (row + ty) * n + col + tx
    half = np.uint32(BIG_TILE // 2)
    _store_quarter(c, place, n, total, 0)
    _store_quarter(c, place + half, n, total, 16)
    _store_quarter(c, place + half * n, n, total, 32)
    _store_quarter(c, place + half * n + half, n, total, 48)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    tile = BIG_TILE if kernel is eight_by_eight else TILE
    a, b = (rng.random(n * n, np.float32) for _ in "ab")
    args = (a, b, np.full(n * n, np.nan, np.float32), np.uint32(n))
    return Launch(kernel, (n // tile, n // tile), BLOCK, args)


_BIG = {"multiple": BIG_TILE, "test_size": BIG_TILE}
VARIANTS = ladder(
    Size("n (matrix side)", (128, 512), default=256, test=TILE, multiple=TILE, maximum=1 << 13),
    step(strided, "Sixteen sums per thread in registers use each word of a tile four times."),
    step(vectorised, "One load of 16 bytes feeds four rows; writing a tile transposed makes banks collide."),
    step(swizzled, "Turning the rows of a tile lets transposed stores touch every bank once."),
    step(double_buffered, "The next tile arrives while this one is multiplied, with one barrier per tile."),
    step(eight_by_eight, "Sixty-four sums per thread take the fewest loads, and leave small grids idle.", **_BIG),
    reference=matmul.reference,
    outputs=(2,),
    rtol=RTOL,
)
