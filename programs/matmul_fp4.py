"""Matrix product of 4-bit floats on Blackwell: a number has one of 15 values, and so a few share a scale.

`low_precision` has halves and bytes, whose range is their own. E2M1 has a sign, two bits of exponent and one of
fraction: 0, 0.5, 1, 1.5, 2, 3, 4 and 6. The tensor core multiplies numbers and the scales of their group:

1. `mxfp4` (OCP Microscaling Formats v1.0): 32 numbers along K share a power of two, UE8M0.
2. `nvfp4`: 16 share a scale with three bits of fraction, UE4M3. Twice as many follow the data nearer.

Scales go from global to shared memory to tensor memory (`tcgen05.cp`), where `tcgen05.mma` looks for those of rows in
lanes; they are stored in the tiles of 512 bytes that one such copy takes (`cuda/fp4.cuh`). Sums are single precision.

In the report, compare shared memory's and DRAM's bytes with those of `matmul_blackwell`: a quarter for the numbers, an
eighth or sixteenth of these for the scales. No GPU has run these: results are held to NumPy.

Everything is exact. A product of numbers and scales is a multiple of 2**-10 (`nvfp4`: 0.5 and 1/16, squared), and less
than 144 in magnitude; signs are random, so that 40 standard deviations of a sum are less than 2**14: any order of
addition has all 24 bits that it takes.
"""

from __future__ import annotations

import numpy as np

from gpusim.launch import CudaSource, Launch, TensorMap
from programs.variant import Kernel, Size, ladder, step

TILE, NUMBERS = 128, 256
"""Rows and columns of the outputs of a block; numbers of a row in a stage."""
VALUES = np.outer([1, -1], [0, 0.5, 1, 1.5, 2, 3, 4, 6]).ravel()
SHARED_BYTES = 1024 + 4 * (TILE * NUMBERS + 2 * TILE * 16)


def _tiled(scales: np.ndarray) -> np.ndarray:
    """Scales of rows in tiles of 128 x 4, tile after tile along K."""
    rows, columns = scales.shape
    parts = scales.reshape(rows // 128, 4, 32, columns // 4, 4)
    return np.ascontiguousarray(parts.transpose(0, 3, 2, 1, 4)).ravel()


def _rows(scales: np.ndarray, n: int) -> np.ndarray:
    """What `_tiled` was given, for n rows."""
    return scales.reshape(n // 128, -1, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(n, -1)


def make(kernel: Kernel, n: int, rng: np.random.Generator, share: int) -> Launch:
    """share: numbers that have a scale together."""
    a, b = (rng.integers(0, 256, (n, n // 2), np.uint8) for _ in "ab")
    low, high = (126, 128) if share == 32 else (0x30, 0x40)  # 0.5 to less than 2
    scales = [_tiled(rng.integers(low, high, (n, n // share), np.uint8)) for _ in "ab"]
    c = np.full((n, n), np.nan, np.float32)
    maps = [TensorMap(each, (TILE, NUMBERS // 2), "128B") for each in (a, b)]
    args = (*maps, *scales, TensorMap(c, (32, 32), "128B"), np.uint32(n))
    return Launch(kernel, (n // TILE, n // TILE), 128, args, SHARED_BYTES)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    n, factors = int(launch.args[5]), []
    for numbers, tiles in zip(launch.args[:2], launch.args[2:4], strict=True):
        bits = np.asarray(numbers)
        values = VALUES[np.stack([bits & 15, bits >> 4], axis=-1)].reshape(n, n)
        codes = _rows(tiles, n).astype(np.int64)
        share = n // codes.shape[1]
        # UE4M3 has seven as bias of its exponent; all scales are normal numbers.
        scales = np.ldexp(1.0, codes - 127) if share == 32 else np.ldexp(8 + codes % 8, codes // 8 - 10)
        factors.append(values * np.repeat(scales, share, axis=1))
    return ((factors[0] @ factors[1].T).astype(np.float32),)


MXFP4, NVFP4 = (CudaSource(__name__, f"cuda/{name}.cu", name, "sm_100a") for name in ("mxfp4", "nvfp4"))

VARIANTS = ladder(
    Size("n (matrix side)", (256, 2048), default=512, test=256, multiple=256, maximum=1 << 11),
    step(MXFP4, "Two numbers in a byte, and a power of two for 32 of them.", 32),
    step(NVFP4, "A finer scale, for 16 numbers, follows the data nearer.", 16),
    outputs=(4,),
    polls=True,
    recorded=False,
    image=False,
    gpu="b200",
)
