"""Matrix product on the tensor cores, a ladder of four: how to feed a unit that is 16 times as fast.

The inputs are half precision, the sums single: an instruction `mma.sync` takes a fragment of 16 x 16 halves and one
of 16 x 8, spread over the registers of a warp, and adds 2,048 products to 16 x 8 sums. So 1,024 x 1,024 x 1,024 are
half a million HMMA where `matmul_register` executes 33 million FFMA, and the question is only where the fragments
come from. `a` is stored by rows, `b` by columns (as weights usually are), so that the two halves of a register are
neighbours in memory.

1. `direct`: each warp loads its fragments from global memory, 32 bits at a time, 12 loads for four HMMA. A request
   touches eight rows and uses half of each sector.
2. `staged`: four warps share tiles of 64 x 32 halves in shared memory and compute 32 x 32 outputs each. Rows lie 16
   words apart, so the fragment of eight rows collides four-fold.
3. `ldmatrix`: one instruction loads four 8 x 8 matrices into the right lanes, and four words of padding per row put
   the eight rows of a matrix on different banks. The stores that fill the tile, 16 bytes a lane, collide a little.
4. `asynchronous`: `cp.async` copies the next tile past the registers while this one is multiplied; no such stores.

In the report, follow executed instructions, sectors per request, excess shared-memory wavefronts, and the stalls on
the long scoreboard. The tensor pipe stays far from busy even at the end: that takes larger tiles, more stages and
the warp-group instructions of Hopper.

Tolerance: products of halves are exact in single precision and positive. A tensor core aligns the 16 products and
the addend of an instruction to the largest, cuts each to 24 bits or more, and rounds the sum once, at worst by cutting:
18 errors of at most 2**-23 of the sum, in n / 16 instructions; n = 1024 sets the bound. (M. Fasi, N. Higham,
M. Mikaitis and S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330, 2021.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs import ptx
from programs.variant import Size, ladder, step

BLOCK = 128
"""Threads per block: four warps."""
TILE = 64
"""Rows and columns of the outputs of a block."""
NARROW = 32
"""Columns of a block's outputs in `direct`."""
DEPTH = 16
"""Words, pairs of halves, of a row in a tile."""
PITCH = DEPTH + 4
"""Words from row to row of a padded tile: still a multiple of 16 bytes, and 0, 20, 8, 28 ... modulo 32."""
WORDS = TILE * DEPTH
PADDED_WORDS = TILE * PITCH
BUFFERS = 2 * PADDED_WORDS
STEP = 8
"""Words of a row that one instruction takes."""
RTOL = 1024 // 16 * 18 * 2.0**-23

# Halves come in pairs, as `uint32`, in flat arrays. Indices are unsigned, which spares the test for a negative one.


@cuda.jit(device=True)
def _add_product(total, at, left, b0, b1):
    """Add a product of two fragments to four of the lane's sums."""
    c0, c1, c2, c3 = total[at], total[at + 1], total[at + 2], total[at + 3]
    result = ptx.mma_half(left[0], left[1], left[2], left[3], b0, b1, c0, c1, c2, c3)
    for i in range(4):
        total[at + i] = result[i]


@cuda.jit(device=True)
def _store_fragment(c, place, n, total, at):
    c[place] = total[at]
    c[place + np.uint32(1)] = total[at + 1]
    c[place + np.uint32(8) * n] = total[at + 2]
    c[place + np.uint32(8) * n + np.uint32(1)] = total[at + 3]


@cuda.jit(device=True)
def _add_column(total, first, left, b, at):
    """Eight columns of the result, with the fragment of `b` that begins at a word."""
    _add_product(total, first, left, b[at], b[at + np.uint32(4)])


def direct(a, b, c, n):
    total = cuda.local.array(16, np.float32)
    for i in range(16):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    group = (t & np.uint32(31)) >> np.uint32(2)
    quad = t & np.uint32(3)
    pitch = n >> np.uint32(1)
    row = np.uint32(cuda.blockIdx.y * TILE) + np.uint32(16) * (t >> np.uint32(5)) + group
    col = np.uint32(cuda.blockIdx.x * NARROW)
    upper = row * pitch + quad
    lower = upper + np.uint32(8) * pitch
    right = (col + group) * pitch + quad
    k = np.uint32(0)
    while k < pitch:
        left = (a[upper + k], a[lower + k], a[upper + k + np.uint32(4)], a[lower + k + np.uint32(4)])
        _add_column(total, 0, left, b, right + k)
        _add_column(total, 4, left, b, right + np.uint32(8) * pitch + k)
        _add_column(total, 8, left, b, right + np.uint32(16) * pitch + k)
        _add_column(total, 12, left, b, right + np.uint32(24) * pitch + k)
        k += np.uint32(STEP)
    for j in range(4):
        _store_fragment(c, row * n + col + np.uint32(8 * j) + np.uint32(2) * quad, n, total, 4 * j)


@cuda.jit(device=True)
def _fill(tile, tile_pitch, source, at, pitch, t):
    """Copy 64 rows of 16 words to a tile, eight words per thread. at: where the tile begins in `source`."""
    row = t >> np.uint32(2)
    word = np.uint32(4) * (t & np.uint32(3))
    for i in range(2):
        four = ptx.load4(source, at + (row + np.uint32(32 * i)) * pitch + word)
        to = (row + np.uint32(32 * i)) * np.uint32(tile_pitch) + word
        ptx.store4(tile, to, four[0], four[1], four[2], four[3])


@cuda.jit(device=True)
def _store_warp(c, row, col, n, total):
    """Store the warp's 32 x 32 sums; row, col: of the first one that the lane holds."""
    for i in range(2):
        for j in range(4):
            place = (row + np.uint32(16 * i)) * n + col + np.uint32(8 * j)
            _store_fragment(c, place, n, total, 16 * i + 4 * j)


@cuda.jit(device=True)
def _multiply_rows(a_tile, b_tile, x, z, total, first):
    """Sixteen rows by 32 columns, 16 halves deep, with fragments word by word."""
    y = x + np.uint32(8 * DEPTH)
    left = (a_tile[x], a_tile[y], a_tile[x + np.uint32(4)], a_tile[y + np.uint32(4)])
    for j in range(4):
        at = z + np.uint32(8 * j * DEPTH)
        _add_product(total, first + 4 * j, left, b_tile[at], b_tile[at + np.uint32(4)])


def staged(a, b, c, n):
    a_tile = cuda.shared.array(WORDS, np.uint32)
    b_tile = cuda.shared.array(WORDS, np.uint32)
    total = cuda.local.array(32, np.float32)
    for i in range(32):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    group = (t & np.uint32(31)) >> np.uint32(2)
    quad = t & np.uint32(3)
    # The four warps lie two by two on the block's outputs.
    warp_row = (t >> np.uint32(6)) << np.uint32(5)
    warp_col = t & np.uint32(32)
    pitch = n >> np.uint32(1)
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    first = np.uint32(0)
    while first < pitch:
        _fill(a_tile, DEPTH, a, row * pitch + first, pitch, t)
        _fill(b_tile, DEPTH, b, col * pitch + first, pitch, t)
        cuda.syncthreads()
        x = (warp_row + group) * np.uint32(DEPTH) + quad
        z = (warp_col + group) * np.uint32(DEPTH) + quad
        _multiply_rows(a_tile, b_tile, x, z, total, 0)
        _multiply_rows(a_tile, b_tile, x + np.uint32(16 * DEPTH), z, total, 16)
        _multiply_rows(a_tile, b_tile, x + np.uint32(STEP), z + np.uint32(STEP), total, 0)
        _multiply_rows(a_tile, b_tile, x + np.uint32(16 * DEPTH + STEP), z + np.uint32(STEP), total, 16)
        # The next tile must not overwrite this one while a slower warp still reads it.
        cuda.syncthreads()
        first += np.uint32(DEPTH)
    _store_warp(c, row + warp_row + group, col + warp_col + np.uint32(2) * quad, n, total)


@cuda.jit(device=True)
def _multiply_step(a_tile, b_tile, left_at, right_at, total):
    """Sixteen halves deep: four loads of four matrices, eight instructions on the tensor core."""
    upper = ptx.load_matrices(a_tile, left_at)
    lower = ptx.load_matrices(a_tile, left_at + np.uint32(16 * PITCH))
    near = ptx.load_matrices(b_tile, right_at)
    far = ptx.load_matrices(b_tile, right_at + np.uint32(16 * PITCH))
    _add_product(total, 0, upper, near[0], near[1])
    _add_product(total, 4, upper, near[2], near[3])
    _add_product(total, 8, upper, far[0], far[1])
    _add_product(total, 12, upper, far[2], far[3])
    _add_product(total, 16, lower, near[0], near[1])
    _add_product(total, 20, lower, near[2], near[3])
    _add_product(total, 24, lower, far[0], far[1])
    _add_product(total, 28, lower, far[2], far[3])


@cuda.jit(device=True)
def _left_row(lane):
    """Word at which the row of `a` begins that the lane names to ldmatrix: rows 0 to 15, then their second half."""
    return (lane & np.uint32(15)) * np.uint32(PITCH) + np.uint32(4) * (lane >> np.uint32(4))


@cuda.jit(device=True)
def _right_row(lane):
    """Word at which the lane's column of `b` begins for ldmatrix: both halves of columns 0 to 7, then of 8 to 15."""
    column = (lane & np.uint32(7)) + ((lane >> np.uint32(4)) << np.uint32(3))
    return column * np.uint32(PITCH) + (np.uint32(4) & (lane >> np.uint32(1)))


def ldmatrix(a, b, c, n):
    a_tile = cuda.shared.array(PADDED_WORDS, np.uint32)
    b_tile = cuda.shared.array(PADDED_WORDS, np.uint32)
    total = cuda.local.array(32, np.float32)
    for i in range(32):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    lane = t & np.uint32(31)
    warp_row = (t >> np.uint32(6)) << np.uint32(5)
    warp_col = t & np.uint32(32)
    left_at = warp_row * np.uint32(PITCH) + _left_row(lane)
    right_at = warp_col * np.uint32(PITCH) + _right_row(lane)
    pitch = n >> np.uint32(1)
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    first = np.uint32(0)
    while first < pitch:
        _fill(a_tile, PITCH, a, row * pitch + first, pitch, t)
        _fill(b_tile, PITCH, b, col * pitch + first, pitch, t)
        cuda.syncthreads()
        _multiply_step(a_tile, b_tile, left_at, right_at, total)
        _multiply_step(a_tile, b_tile, left_at + np.uint32(STEP), right_at + np.uint32(STEP), total)
        cuda.syncthreads()
        first += np.uint32(DEPTH)
    row += warp_row + (lane >> np.uint32(2))
    col += warp_col + np.uint32(2) * (lane & np.uint32(3))
    _store_warp(c, row, col, n, total)


@cuda.jit(device=True)
def _start_fill(tile, to, source, at, pitch, t):
    """Start to copy 64 rows of 16 words to a tile, asynchronously and past the registers; otherwise like `_fill`."""
    row = t >> np.uint32(2)
    word = np.uint32(4) * (t & np.uint32(3))
    for i in range(2):
        place = to + (row + np.uint32(32 * i)) * np.uint32(PITCH) + word
        ptx.copy_async(tile, place, source, at + (row + np.uint32(32 * i)) * pitch + word)


def asynchronous(a, b, c, n):
    a_tile = cuda.shared.array(BUFFERS, np.uint32)
    b_tile = cuda.shared.array(BUFFERS, np.uint32)
    total = cuda.local.array(32, np.float32)
    for i in range(32):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    lane = t & np.uint32(31)
    warp_row = (t >> np.uint32(6)) << np.uint32(5)
    warp_col = t & np.uint32(32)
    left_at = warp_row * np.uint32(PITCH) + _left_row(lane)
    right_at = warp_col * np.uint32(PITCH) + _right_row(lane)
    pitch = n >> np.uint32(1)
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    _start_fill(a_tile, np.uint32(0), a, row * pitch, pitch, t)
    _start_fill(b_tile, np.uint32(0), b, col * pitch, pitch, t)
    ptx.commit_copies()
    now = np.uint32(0)
    first = np.uint32(DEPTH)
    while first <= pitch:
        ptx.await_copies()
        # One barrier does for both: this tile is complete, and nobody reads the other any more.
        cuda.syncthreads()
        other = np.uint32(PADDED_WORDS) - now
        if first < pitch:
            _start_fill(a_tile, other, a, row * pitch + first, pitch, t)
            _start_fill(b_tile, other, b, col * pitch + first, pitch, t)
            ptx.commit_copies()
        x = now + left_at
        y = now + right_at
        _multiply_step(a_tile, b_tile, x, y, total)
        _multiply_step(a_tile, b_tile, x + np.uint32(STEP), y + np.uint32(STEP), total)
        now = other
        first += np.uint32(DEPTH)
    row += warp_row + (lane >> np.uint32(2))
    col += warp_col + np.uint32(2) * (lane & np.uint32(3))
    _store_warp(c, row, col, n, total)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    a, b, c, n = map(np.asarray, launch.args)
    left, right = (each.view(np.float16).reshape(n, n).astype(np.float64) for each in (a, b))
    return ((left @ right.T).astype(c.dtype).reshape(c.shape),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, width: int) -> Launch:
    a, b = (rng.random(n * n, np.float32).astype(np.float16).view(np.uint32) for _ in "ab")
    c = np.full(n * n, np.nan, np.float32)
    return Launch(kernel, (n // width, n // TILE), BLOCK, (a, b, c, np.uint32(n)))


VARIANTS = ladder(
    Size("n (matrix side)", (256, 1024), default=256, test=TILE, multiple=TILE, maximum=1 << 13),
    step(direct, "Tensor cores compute faster than fragments can be loaded from global memory.", NARROW),
    step(staged, "Warps share tiles in shared memory; fragments of unpadded rows collide in its banks.", TILE),
    step(ldmatrix, "One instruction loads four padded 8 x 8 matrices into the lanes that need them.", TILE),
    step(asynchronous, "Copies past the registers bring the next tile while this one is multiplied.", TILE),
    outputs=(2,),
    rtol=RTOL,
)
