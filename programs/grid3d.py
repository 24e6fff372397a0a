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
from programs.variant import Variant, ceil_div, check_size


def grid3d(src, dst):
    x, y, z = cuda.grid(3)
    if z < src.shape[0] and y < src.shape[1] and x < src.shape[2]:
        dst[z, y, x] = src[z, y, x] + np.int32((x << 18) + (y << 9) + z)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    src = launch.args[0]
    z, y, x = np.indices(src.shape, np.int32)
    return (src + (x << 18) + (y << 9) + z,)


def _variant(name: str, block: tuple[int, int, int], flat: bool, teaches: str) -> Variant:
    """`flat`: one plane of n x n points instead of a volume, in a grid of two dimensions."""

    def make(size: int, seed: int) -> Launch:
        n = check_size(size, "n (side)", maximum=512)
        shape = (1 if flat else n, n, n)
        src = np.random.default_rng(seed).integers(0, 1 << 18, shape, np.int32)
        grid = tuple(ceil_div(length, part) for length, part in zip(shape[::-1], block, strict=True))
        return Launch(grid3d, grid, block, (src, np.full(shape, -1, np.int32)))

    return Variant(
        name=f"grid3d/{name}",
        kernel=grid3d,
        teaches=teaches,
        make=make,
        reference=reference,
        outputs=(1,),
        sizes=(100, 500) if flat else (32, 96),
        default_size=100 if flat else 64,
        test_size=10 if flat else 6,
        size_name="n (side)",
    )


VARIANTS = (
    _variant(
        "textbook", (5, 3, 1), True, "Blocks of 5 x 3 threads leave half of each warp without a thread."
    ),
    _variant("odd", (7, 5, 3), False, "Blocks of 7 x 5 x 3 threads: warps span rows, the last is cut short."),
    _variant("rows", (32, 4, 1), False, "Blocks as wide as a warp: each warp is a row of contiguous words."),
)
