"""The Mandelbrot set: each thread iterates z = z**2 + c for one pixel until z escapes.

How long a pixel takes depends on its value. A warp covers a patch of 16 x 2 pixels and runs until the last of
them has escaped: in the report, look at threads per instruction, good inside and far outside the set and poor
along its edge, and at SMs that finish early because their blocks were cheap. There is no memory traffic to
speak of, so this is the program that shows instruction latency and issue slots.

Iteration counts must match bit for bit, and near the edge one rounding decides. So the kernel writes each
fused multiply-add out with `cuda.fma`, which leaves the compiler nothing to contract, and the reference
rounds likewise.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.rounding import fma32
from programs.variant import Kernel, Size, ceil_div, ladder, step

TILE = 16
MAX_ITERATIONS = 256


def mandelbrot(out, x0, y0, step, limit):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        cr = cuda.fma(np.float32(col), step, x0)
        ci = cuda.fma(np.float32(row), step, y0)
        zr = np.float32(0)
        zi = np.float32(0)
        n = np.int32(0)
        while n < limit and cuda.fma(zr, zr, zi * zi) <= np.float32(4):
            real = cuda.fma(zr, zr, cuda.fma(-zi, zi, cr))
            zi = cuda.fma(np.float32(2) * zr, zi, ci)
            zr = real
            n = np.int32(n + 1)
        out[row, col] = n


def make(kernel: Kernel, n: int, rng: np.random.Generator) -> Launch:
    out = np.full((n, n), -1, np.int32)
    # The square [-2, 1] x [-1.5, 1.5], moved by less than a pixel: another seed gives other values, the same
    # picture.
    pixel = 3.0 / n
    shift_x, shift_y = rng.random(2) * pixel
    corner = (np.float32(-2.0 + shift_x), np.float32(-1.5 + shift_y))
    tiles = ceil_div(n, TILE)
    args = (out, *corner, np.float32(pixel), np.int32(MAX_ITERATIONS))
    return Launch(kernel, (tiles, tiles), (TILE, TILE), args)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    out, x0, y0, pixel, limit = launch.args
    rows, cols = np.indices(out.shape, np.float32)
    cr = fma32(cols, pixel, x0).ravel()
    ci = fma32(rows, pixel, y0).ravel()
    counts = np.zeros(out.size, np.int32)
    # Only the pixels that have not escaped are carried on; `live` says which they are.
    live = np.arange(out.size)
    zr = np.zeros(out.size, np.float32)
    zi = np.zeros(out.size, np.float32)
    for _ in range(limit):
        inside = fma32(zr, zr, zi * zi) <= 4
        live, zr, zi, cr, ci = live[inside], zr[inside], zi[inside], cr[inside], ci[inside]
        counts[live] += 1
        zr, zi = fma32(zr, zr, fma32(-zi, zi, cr)), fma32(2 * zr, zi, ci)
    return (counts.reshape(out.shape),)


VARIANTS = ladder(
    Size("n (image side)", (64, 256), default=128, test=20, maximum=1 << 13),
    step(mandelbrot, "Loops whose length depends on the data keep a warp busy until its slowest lane is done."),
    outputs=(0,),
)
