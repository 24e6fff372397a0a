"""Blocks and grids of two and three dimensions, in shapes that suit warps and in shapes that do not.

Threads of a block are numbered with x fastest, then y, then z, and each 32 in a row are a warp, whatever the
shape. `rows` uses blocks of 32 x 4 threads: each warp is a row, its words are contiguous. `odd` uses 7 x 5 x 3 = 105
threads: four warps, of which the last has 9 threads, and a warp spans four or five rows. `textbook` has blocks of 5 x 3
threads in a grid of two dimensions, 15 threads in a warp of 32, less than half. In the report, compare threads per
instruction, sectors per request, and executed instructions for the same volume.

Every point of the volume gets its value plus a number made of its own coordinates, so that no permutation of the
axes goes unnoticed. Integers, so bit-exact.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step


def grid3d(src, dst):
    x, y, z = cuda.grid(3)
    if z < src.shape[0] and y < src.shape[1] and x < src.shape[2]:
        dst[z, y, x] = src[z, y, x] + np.int32((x << 18) + (y << 9) + z)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    src = launch.args[0]
    z, y, x = np.indices(src.shape, np.int32)
    return (src + (x << 18) + (y << 9) + z,)


def make(kernel: Kernel, n: int, rng: np.random.Generator, block: tuple[int, int, int], planes: int = 0) -> Launch:
    shape = (planes or n, n, n)
    src = rng.integers(0, 1 << 18, shape, np.int32)
    grid = tuple(ceil_div(length, part) for length, part in zip(shape[::-1], block, strict=True))
    return Launch(kernel, grid, block, (src, np.full(shape, -1, np.int32)))


_TEXTBOOK = "Blocks of 5 x 3 threads leave half of each warp without a thread."
_PLANE = {"sizes": (100, 500), "default_size": 100, "test_size": 10}
VARIANTS = ladder(
    Size("n (side)", (32, 96), default=64, test=6, maximum=512),
    step(grid3d, _TEXTBOOK, (5, 3, 1), 1, name="textbook", **_PLANE),
    step(grid3d, "Blocks of 7 x 5 x 3 threads: warps span rows, the last is cut short.", (7, 5, 3), name="odd"),
    step(grid3d, "Blocks as wide as a warp: each warp is a row of contiguous words.", (32, 4, 1), name="rows"),
)
