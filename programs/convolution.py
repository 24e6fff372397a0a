"""Convolution of an image of 4 channels with 16 filters of 3 x 3, a ladder of three: where the inputs come from.

Every output is a sum of 36 products. The image has a border of one pixel, so no access needs a check.

1. `direct`: a thread per output loads both factors of each product; neighbours in the image ask for the same pixels,
   and the L1 cache serves them.
2. `tiled`: a block brings 32 x 8 pixels of every channel into shared memory, with a halo of one pixel around them,
   340 for 256, and each thread computes four filters for its pixel. For a single filter, a tile would not pay: the
   cache does what it does, and needs no barrier.
3. `implicit_gemm`: seen as a matrix product, of the filters (16 x 36) with a matrix that holds for each output the 36
   pixels it needs. That matrix is never stored (it would be nine times the image): a block gathers its part for one
   channel in shared memory, nine rows of 64 pixels, and each thread computes four filters for four pixels.

In the report, follow global load requests, L1 hit rate, and loads per multiply-add; in `tiled`, look at the line that
fills the tile: for the halo it runs again with few lanes.

Tolerance: the inputs are positive, so a sum of 36 products in any order is within 36 * 2**-24 of the exact one,
relative (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs import ptx
from programs.variant import Size, ladder, step

CHANNELS = 4
FILTERS = 16
SIDE = 3
"""Pixels of a filter in each direction."""
TAPS = SIDE * SIDE
PRODUCTS = CHANNELS * TAPS
WIDTH = 32
HEIGHT = 8
"""Pixels of a block in `direct` and `tiled`: a warp is a row of them."""
HALO_WIDTH = WIDTH + SIDE - 1
HALO_HEIGHT = HEIGHT + SIDE - 1
QUAD = 4
"""Filters of a thread in `tiled` and `implicit_gemm`."""
QUAD_WEIGHTS = QUAD * PRODUCTS
STRIP_WIDTH = 16
STRIP = 4
"""Rows of 16 pixels of a block in `implicit_gemm`."""
PIXELS = STRIP_WIDTH * STRIP
GEMM_BLOCK = 64
RTOL = PRODUCTS * 2.0**-24

# Indices are unsigned, which spares the test for a negative one that Python's indexing would need.


def direct(image, weights, out):
    col = np.uint32(cuda.blockIdx.x * WIDTH + cuda.threadIdx.x)
    row = np.uint32(cuda.blockIdx.y * HEIGHT + cuda.threadIdx.y)
    f = np.uint32(cuda.blockIdx.z)
    total = np.float32(0)
    c = np.uint32(0)
    while c < np.uint32(CHANNELS):
        for y in range(SIDE):
            for x in range(SIDE):
                weight = weights[f, c * np.uint32(TAPS) + np.uint32(SIDE * y + x)]
                total += image[c, row + np.uint32(y), col + np.uint32(x)] * weight
        c += np.uint32(1)
    out[f, row, col] = total


@cuda.jit(device=True)
def _filter_row(tile, filters, c, y, x, at, total):
    """Add the products of three neighbouring pixels for four filters."""
    for i in range(SIDE):
        pixel = tile[c, y, x + np.uint32(i)]
        weight = ptx.load4(filters, at + np.uint32(QUAD * i))
        for j in range(QUAD):
            total[j] += pixel * weight[j]


def tiled(image, weights, out):
    tile = cuda.shared.array((CHANNELS, HALO_HEIGHT, HALO_WIDTH), np.float32)
    filters = cuda.shared.array(QUAD_WEIGHTS, np.float32)
    total = cuda.local.array(QUAD, np.float32)
    for i in range(QUAD):
        total[i] = np.float32(0)
    tx = np.uint32(cuda.threadIdx.x)
    ty = np.uint32(cuda.threadIdx.y)
    left = np.uint32(cuda.blockIdx.x * WIDTH)
    top = np.uint32(cuda.blockIdx.y * HEIGHT)
    f = np.uint32(cuda.blockIdx.z * QUAD)
    i = np.uint32(WIDTH) * ty + tx
    while i < np.uint32(QUAD_WEIGHTS):
        # Four filters' weights side by side, so that one load brings them all.
        filters[i] = weights[f + (i & np.uint32(QUAD - 1)), i >> np.uint32(2)]
        i += np.uint32(WIDTH * HEIGHT)
    y = ty
    while y < np.uint32(HALO_HEIGHT):
        x = tx
        while x < np.uint32(HALO_WIDTH):
            for c in range(CHANNELS):
                tile[c, y, x] = image[c, top + y, left + x]
            x += np.uint32(WIDTH)
        y += np.uint32(HEIGHT)
    cuda.syncthreads()
    c = np.uint32(0)
    while c < np.uint32(CHANNELS):
        at = c * np.uint32(QUAD * TAPS)
        _filter_row(tile, filters, c, ty, tx, at, total)
        _filter_row(tile, filters, c, ty + np.uint32(1), tx, at + np.uint32(QUAD * SIDE), total)
        _filter_row(tile, filters, c, ty + np.uint32(2), tx, at + np.uint32(2 * QUAD * SIDE), total)
        c += np.uint32(1)
    for i in range(QUAD):
        out[f + np.uint32(i), top + ty, left + tx] = total[i]


@cuda.jit(device=True)
def _tap(pixels, filters, tap, tx, ty, total):
    """Add the products of one of the nine taps, for four filters and four pixels 16 apart."""
    for i in range(QUAD):
        weight = filters[tap, ty + np.uint32(i)]
        for j in range(4):
            total[4 * i + j] += weight * pixels[tap, tx + np.uint32(16 * j)]


def implicit_gemm(image, weights, out):
    pixels = cuda.shared.array((TAPS, PIXELS), np.float32)
    filters = cuda.shared.array((TAPS, FILTERS), np.float32)
    total = cuda.local.array(16, np.float32)
    for i in range(16):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    tx = t & np.uint32(15)
    ty = np.uint32(QUAD) * (t >> np.uint32(4))
    top = np.uint32(cuda.blockIdx.y * STRIP)
    # This thread gathers pixel t of the block for all taps.
    row = top + (t >> np.uint32(4))
    col = np.uint32(cuda.blockIdx.x * STRIP_WIDTH) + tx
    c = np.uint32(0)
    while c < np.uint32(CHANNELS):
        for y in range(SIDE):
            for x in range(SIDE):
                pixels[SIDE * y + x, t] = image[c, row + np.uint32(y), col + np.uint32(x)]
        i = t
        while i < np.uint32(TAPS * FILTERS):
            tap = i >> np.uint32(4)
            filters[tap, i & np.uint32(15)] = weights[i & np.uint32(15), c * np.uint32(TAPS) + tap]
            i += np.uint32(GEMM_BLOCK)
        cuda.syncthreads()
        _tap(pixels, filters, 0, tx, ty, total)
        _tap(pixels, filters, 1, tx, ty, total)
        _tap(pixels, filters, 2, tx, ty, total)
        _tap(pixels, filters, 3, tx, ty, total)
        _tap(pixels, filters, 4, tx, ty, total)
        _tap(pixels, filters, 5, tx, ty, total)
        _tap(pixels, filters, 6, tx, ty, total)
        _tap(pixels, filters, 7, tx, ty, total)
        _tap(pixels, filters, 8, tx, ty, total)
        cuda.syncthreads()
        c += np.uint32(1)
    for i in range(QUAD):
        for j in range(4):
            out[ty + np.uint32(i), top + np.uint32(j), col] = total[4 * i + j]


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    image, weights, out = launch.args
    n = out.shape[1]
    taps = weights.reshape(FILTERS, CHANNELS, SIDE, SIDE).astype(np.float64)
    total = np.zeros(out.shape)
    for y in range(SIDE):
        for x in range(SIDE):
            part = image[:, y : y + n, x : x + n].astype(np.float64)
            total += np.tensordot(taps[:, :, y, x], part, 1)
    return (total.astype(np.float32),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    image = rng.random((CHANNELS, n + SIDE - 1, n + SIDE - 1), np.float32)
    weights = rng.random((FILTERS, PRODUCTS), np.float32)
    args = (image, weights, np.full((FILTERS, n, n), np.nan, np.float32))
    if kernel is implicit_gemm:
        return Launch(kernel, (n // STRIP_WIDTH, n // STRIP), GEMM_BLOCK, args)
    filters = FILTERS if kernel is direct else FILTERS // QUAD
    return Launch(kernel, (n // WIDTH, n // HEIGHT, filters), (WIDTH, HEIGHT), args)


VARIANTS = ladder(
    Size("n (image side)", (64, 224), default=96, test=WIDTH, multiple=WIDTH, maximum=1 << 12),
    step(direct, "A thread per output loads both factors of every product from the L1 cache."),
    step(tiled, "A tile with its halo in shared memory serves nine taps; the halo's loads are ragged."),
    step(implicit_gemm, "As a matrix product whose second factor is never stored, it keeps sums in registers."),
    outputs=(2,),
    rtol=RTOL,
)
