"""Stencils: every point of a grid becomes a weighted sum of itself and its neighbours.

`global_2d` reads the five points straight from global memory: neighbouring threads ask for the same words, so
the L1 cache serves four of five loads. `tiled_2d` loads each word once per block into a shared tile with a
border of one, and pays with a barrier and with the branches of the border. `global_3d` has seven points: the
neighbours above and below lie whole planes apart and share no line with the others, so more of the reuse is
left to L2. In the report, compare L1 hit rates, requests and sectors per request (rows to the left and right
are not aligned: five sectors instead of four), and executed instructions.

The border of the grid is copied. Each weighted sum is written as `cuda.fma`, which rounds once, and the reference
rounds likewise: bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.rounding import fma32
from programs.variant import Size, ceil_div, ladder, step

WIDTH = 32
HEIGHT = 8
ROWS = HEIGHT + 2
COLUMNS = WIDTH + 2
"""The tile of a block: its points and a border of one."""
CENTRE = np.float32(0.5)
SIDE = np.float32(0.1)


def global_2d(src, dst):
    n = src.shape[0]
    x, y = cuda.grid(2)
    if x < n and y < n:
        value = src[y, x]
        if x > 0 and x < n - 1 and y > 0 and y < n - 1:
            total = (src[y - 1, x] + src[y + 1, x]) + (src[y, x - 1] + src[y, x + 1])
            value = cuda.fma(SIDE, total, CENTRE * value)
        dst[y, x] = value


def tiled_2d(src, dst):
    tile = cuda.shared.array((ROWS, COLUMNS), np.float32)
    n = src.shape[0]
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x, y = cuda.grid(2)
    inside = x < n and y < n
    if inside:
        tile[ty + 1, tx + 1] = src[y, x]
        if ty == 0 and y > 0:
            tile[0, tx + 1] = src[y - 1, x]
        if ty == HEIGHT - 1 and y < n - 1:
            tile[HEIGHT + 1, tx + 1] = src[y + 1, x]
        if tx == 0 and x > 0:
            tile[ty + 1, 0] = src[y, x - 1]
        if tx == WIDTH - 1 and x < n - 1:
            tile[ty + 1, WIDTH + 1] = src[y, x + 1]
    cuda.syncthreads()
    if inside:
        value = tile[ty + 1, tx + 1]
        if x > 0 and x < n - 1 and y > 0 and y < n - 1:
            total = (tile[ty, tx + 1] + tile[ty + 2, tx + 1]) + (tile[ty + 1, tx] + tile[ty + 1, tx + 2])
            value = cuda.fma(SIDE, total, CENTRE * value)
        dst[y, x] = value


def global_3d(src, dst):
    n = src.shape[0]
    x, y, z = cuda.grid(3)
    if x < n and y < n:
        value = src[z, y, x]
        if x > 0 and x < n - 1 and y > 0 and y < n - 1 and z > 0 and z < n - 1:
            total = (src[z, y - 1, x] + src[z, y + 1, x]) + (src[z, y, x - 1] + src[z, y, x + 1])
            total += src[z - 1, y, x] + src[z + 1, y, x]
            value = cuda.fma(SIDE, total, CENTRE * value)
        dst[z, y, x] = value


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    src = launch.args[0]
    out, inner = src.copy(), (slice(1, -1),) * src.ndim
    # Sums of the two neighbours along an axis, in the order in which the kernels add them up.
    pairs = ((np.roll(src, 1, axis) + np.roll(src, -1, axis))[inner] for axis in (-2, -1, 0)[: src.ndim])
    total = sum(pairs, next(pairs))
    out[inner] = fma32(np.broadcast_to(SIDE, total.shape), total, CENTRE * src[inner])
    return (out,)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, dims: int = 2) -> Launch:
    src = rng.random((n,) * dims, np.float32)
    grid = (ceil_div(n, WIDTH), ceil_div(n, HEIGHT), n)[:dims]
    return Launch(kernel, grid, (WIDTH, HEIGHT), (src, np.full_like(src, np.nan)))


_VOLUME = {"sizes": (32, 100), "default_size": 50, "test_size": 5, "maximum": 1 << 9}
VARIANTS = ladder(
    Size("n (grid side)", (200, 1000), default=500, test=35, maximum=1 << 13),
    step(global_2d, "Five loads per point, four of them served by L1."),
    step(tiled_2d, "A shared tile loads each point once, and pays for its border with branches."),
    step(global_3d, "In three dimensions, neighbours lie planes apart and reuse moves to L2.", 3, **_VOLUME),
)
