"""Matrix transpose, a ladder of three: coalescing, then bank conflicts.

`naive` reads rows and writes columns: in the report, compare four sectors per load request with 32 per store
request, seven eighths of every stored sector wasted. `tiled` goes through a tile in shared memory, so both
sides of global memory are contiguous; but a column of a 32-word wide tile lies in a single bank, and the
shared-memory loads take 32 wavefronts each. `padded` makes the tile one word wider, which moves each row on
by one bank: one wavefront.

Each block of 32 x 8 threads handles a tile of 32 x 32, four rows per thread. Results are copies, so
bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

TILE = 32
ROWS = 8
PITCH = TILE + 1
"""Words per row of the padded tile: coprime with the 32 banks, so a column touches each bank once."""


def naive(src, dst):
    n = src.shape[0]
    x = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    y = cuda.blockIdx.y * TILE + cuda.threadIdx.y
    for k in range(0, TILE, ROWS):
        if x < n and y + k < n:
            dst[x, y + k] = src[y + k, x]


def tiled(src, dst):
    tile = cuda.shared.array((TILE, TILE), np.float32)
    n = src.shape[0]
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x = cuda.blockIdx.x * TILE + tx
    y = cuda.blockIdx.y * TILE + ty
    for k in range(0, TILE, ROWS):
        if x < n and y + k < n:
            tile[ty + k, tx] = src[y + k, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + tx
    y = cuda.blockIdx.x * TILE + ty
    for k in range(0, TILE, ROWS):
        if x < n and y + k < n:
            dst[y + k, x] = tile[tx, ty + k]


def padded(src, dst):
    tile = cuda.shared.array((TILE, PITCH), np.float32)
    n = src.shape[0]
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x = cuda.blockIdx.x * TILE + tx
    y = cuda.blockIdx.y * TILE + ty
    for k in range(0, TILE, ROWS):
        if x < n and y + k < n:
            tile[ty + k, tx] = src[y + k, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + tx
    y = cuda.blockIdx.x * TILE + ty
    for k in range(0, TILE, ROWS):
        if x < n and y + k < n:
            dst[y + k, x] = tile[tx, ty + k]


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    return (np.ascontiguousarray(launch.args[0].T),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    src = rng.random((n, n), np.float32)
    dst = np.full((n, n), np.nan, np.float32)
    tiles = ceil_div(n, TILE)
    return Launch(kernel, (tiles, tiles), (TILE, ROWS), (src, dst))


VARIANTS = ladder(
    Size("n (matrix side)", (256, 1024), default=256, test=40, maximum=1 << 14),
    step(naive, "Writing columns spreads each warp's store over 32 sectors, an eighth of each used."),
    step(tiled, "A tile in shared memory makes both sides contiguous; its columns conflict in one bank."),
    step(padded, "One padding word per row of the tile removes every bank conflict."),
)
