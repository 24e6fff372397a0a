"""Matrix product in half precision on Blackwell, a ladder of three that goes on from `matmul_hopper`: sums leave the
registers.

Inputs, outputs and stages of 64 columns are those of `matmul_hopper`, so what differs is where sums lie and who starts
products. Machine code is that of sm_100a, kernels are CUDA C++ in `cuda/blackwell_*.cu`, from the PTX ISA's word alone.

1. `tensor_memory`: sums lie in tensor memory, 128 lanes of 512 columns beside the tensor core. One thread fills stages
   and starts products of 128 x 128 x 16 (`tcgen05.mma`); an mbarrier hears when they are done (`tcgen05.commit`), and
   then each warp loads the rows of its lanes (`tcgen05.ld`).
2. `persistent`: a block per SM takes tile after tile of 128 x 256. One warp copies, one multiplies, four convert and
   store; the sums of two tiles fill tensor memory, so products of the next run while those of this one leave.
3. `pair`: two blocks on neighbouring SMs compute 256 x 256 in products that the first of them starts. Each reads half
   of `b` out of the other's shared memory, so that a stage is a third smaller, and there are more of them.

In the report, compare registers per thread and executed instructions with those of `matmul_hopper`: what held sums is
gone, and half of what is executed are the epilogue's conversions. No GPU has run these: results are held to NumPy, and
times are as good as those of tensor memory are (`docs/known_gaps.md`).

Tolerance: as in `matmul_hopper`. A product cuts 25 places below the largest addend, one more than Hopper's.
"""

from __future__ import annotations

import numpy as np

from gpusim.launch import CudaSource, Launch, TensorMap
from programs import matmul_tensor
from programs.matmul_hopper import DEPTH, RTOL, TILE
from programs.variant import Kernel, Size, ladder, step

WIDTH = 256
"""Columns of the outputs of a block that stays."""
SMS = 148
"""SMs of a B200."""
SHARED_BYTES = 1024 + 4 * 2 * TILE * DEPTH * 2
_STAY = 1024 + 4 * (TILE + WIDTH) * DEPTH * 2 + 8 * 32 * 64 * 2


def make(kernel: Kernel, n: int, rng: np.random.Generator, blocks: int, threads: int, shared_bytes: int) -> Launch:
    """blocks: that compute a tile together; 0 for a grid of a block per tile of 128 x 128."""
    a, b = (rng.random((n, n), np.float32).astype(np.float16) for _ in "ab")
    c = np.full((n, n), np.nan, np.float16)
    rows = WIDTH // blocks if blocks else TILE
    maps = TensorMap(a, (TILE, DEPTH), "128B"), TensorMap(b, (rows, DEPTH), "128B"), TensorMap(c, (32, DEPTH), "128B")
    tiles = n // TILE * n // WIDTH
    grid = min(SMS, tiles) if blocks else (n // TILE, n // TILE)
    return Launch(kernel, grid, threads, (*maps, np.uint32(n)), shared_bytes)


NAMES = ("tensor_memory", "persistent", "pair")
ONE, STAYS, PAIR = (CudaSource(__name__, f"cuda/blackwell_{name}.cu", name, "sm_100a") for name in NAMES)

VARIANTS = ladder(
    Size("n (matrix side)", (512, 2048), default=512, test=256, multiple=256, maximum=1 << 13),
    step(ONE, "One thread starts all products, and their sums lie beside the tensor core.", 0, 128, SHARED_BYTES),
    step(STAYS, "Tensor memory holds two tiles: products of the next run while sums of one leave.", 1, 192, _STAY),
    step(PAIR, "Two SMs multiply as one, and each reads half of a matrix out of the other.", 2, 192, _STAY),
    reference=matmul_tensor.reference,
    outputs=(2,),
    rtol=RTOL,
    polls=True,
    recorded=False,
    image=False,
    gpu="b200",
)
