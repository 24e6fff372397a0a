"""Matrix product in half precision on Hopper, a ladder of six: who copies, who multiplies, and who waits for whom.

As in `matmul_tensor`, `a` is stored by rows and `b` by columns, and sums are single precision; the result is rounded to
halves. In all steps a block computes 128 x 128 outputs and keeps several stages of 64 columns of its inputs in shared
memory, so what differs is how a stage is filled, multiplied and freed.

1. `multistage` (Numba): `cp.async` copies two stages ahead, 16 bytes a lane; every thread computes addresses, and
   swizzles them so that `ldmatrix` finds eight rows in different banks. Fragments go through registers to `mma.sync`.
2. `tma`: one thread asks for a whole stage by a tensor map; an mbarrier says when its bytes have come.
3. `wgmma`: four warps multiply 64 x 128 x 16 in one instruction that reads shared memory itself and runs on while the
   warps go on. One group of warps does everything.
4. `specialised`: one group copies and gives its registers to two that multiply; mbarriers in both directions are all
   that they exchange. Sums leave by TMA too.
5. `persistent`: a block per SM takes tile after tile, so that the next inputs come while outputs leave.
6. `cluster`: two blocks on neighbouring SMs copy half of what both need to both.

In the report, follow executed instructions (from step 1 to 3 they fall to a fifth), the tensor pipe's share, and
where warps wait: for `long_scoreboard`, at barriers, in the end for the tensor cores alone.

From the second step on the kernels are CUDA C++, in `cuda/matmul_*.cu`: Numba has neither tensor maps as arguments nor
64 registers in one instruction.

Tolerance: products of halves are exact in single precision and positive. A tensor core cuts products and addend at
least 24 bits below the largest (see `matmul_tensor`), 18 errors of at most 2**-23 of the sum in each of n / 16
instructions, n = 2048; and two numbers that near to each other may round to neighbouring halves, 2**-10 apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from gpusim.launch import CudaSource, Launch, TensorMap
from programs import matmul_tensor, ptx
from programs.variant import Kernel, Size, ladder, step

TILE = 128
"""Rows and columns of the outputs of a block."""
DEPTH = 64
"""Halves of a row in a stage: 128 bytes, as far as a swizzle reaches."""
WORDS = DEPTH // 2
STAGES = 3
STAGE = 2 * TILE * WORDS
"""Words of a stage: rows of `a`, then rows of `b`."""
STAGE_BYTES = 4 * STAGE
SMS = 132
"""SMs of an H200: the blocks of a grid that stays."""
RTOL = 2.0**-10 + 2048 // 16 * 18 * 2.0**-23


@cuda.jit(device=True)
def _start_fill(tiles, to, source, at, pitch, t):
    """Start to copy 128 rows of 32 words; piece p of four words of row r goes to piece p ^ (r & 7)."""
    row = t >> np.uint32(3)
    piece = t & np.uint32(7)
    place = to + row * np.uint32(WORDS) + np.uint32(4) * (piece ^ (row & np.uint32(7)))
    for i in range(4):
        ptx.copy_async(tiles, place + np.uint32(32 * WORDS * i), source,
                       at + (row + np.uint32(32 * i)) * pitch + np.uint32(4) * piece)  # fmt: skip


@cuda.jit(device=True)
def _add_product(total, at, left, b0, b1):
    c0, c1, c2, c3 = total[at], total[at + 1], total[at + 2], total[at + 3]
    result = ptx.mma_half(left[0], left[1], left[2], left[3], b0, b1, c0, c1, c2, c3)
    for i in range(4):
        total[at + i] = result[i]


@cuda.jit(device=True)
def _add_row(total, first, tiles, at, near, far):
    """Four products of one fragment of `a`: 16 x 32 sums."""
    left = ptx.load_matrices(tiles, at)
    _add_product(total, first, left, near[0], near[1])
    _add_product(total, first + 4, left, near[2], near[3])
    _add_product(total, first + 8, left, far[0], far[1])
    _add_product(total, first + 12, left, far[2], far[3])


def multistage(a, b, c, n):
    tiles = cuda.shared.array(0, np.uint32)
    total = cuda.local.array(64, np.float32)
    for i in range(64):
        total[i] = np.float32(0)
    t = np.uint32(cuda.threadIdx.x)
    lane = t & np.uint32(31)
    # Eight warps, two by four, of 64 x 32 outputs.
    warp_row = (t >> np.uint32(7)) << np.uint32(6)
    warp_col = t & np.uint32(96)
    seven = lane & np.uint32(7)
    left_row = (warp_row + (lane & np.uint32(15))) * np.uint32(WORDS)
    left_piece = lane >> np.uint32(4)
    right = warp_col + seven + ((lane >> np.uint32(4)) << np.uint32(3))
    right_row = np.uint32(TILE * WORDS) + right * np.uint32(WORDS)
    right_piece = (lane >> np.uint32(3)) & np.uint32(1)
    pitch = n >> np.uint32(1)
    row = np.uint32(cuda.blockIdx.y * TILE)
    col = np.uint32(cuda.blockIdx.x * TILE)
    steps = n // np.uint32(DEPTH)
    for stage in range(STAGES - 1):
        if np.uint32(stage) < steps:
            to, first = np.uint32(stage * STAGE), np.uint32(stage * WORDS)
            _start_fill(tiles, to, a, row * pitch + first, pitch, t)
            _start_fill(tiles, to + np.uint32(TILE * WORDS), b, col * pitch + first, pitch, t)
        ptx.commit_copies()
    now = np.uint32(0)
    free = np.uint32((STAGES - 1) * STAGE)
    k = np.uint32(0)
    while k < steps:
        ptx.await_older_copies()
        # This stage is complete, and nobody reads the one before it any more.
        cuda.syncthreads()
        ahead = k + np.uint32(STAGES - 1)
        if ahead < steps:
            _start_fill(tiles, free, a, row * pitch + ahead * np.uint32(WORDS), pitch, t)
            _start_fill(tiles, free + np.uint32(TILE * WORDS), b, col * pitch + ahead * np.uint32(WORDS), pitch, t)
        # An empty group in the end, so that "all but one" always means this stage.
        ptx.commit_copies()
        for part in range(4):
            x = now + left_row + np.uint32(4) * ((np.uint32(2 * part) + left_piece) ^ seven)
            y = now + right_row + np.uint32(4) * ((np.uint32(2 * part) + right_piece) ^ seven)
            near = ptx.load_matrices(tiles, y)
            far = ptx.load_matrices(tiles, y + np.uint32(16 * WORDS))
            _add_row(total, 0, tiles, x, near, far)
            _add_row(total, 16, tiles, x + np.uint32(16 * WORDS), near, far)
            _add_row(total, 32, tiles, x + np.uint32(32 * WORDS), near, far)
            _add_row(total, 48, tiles, x + np.uint32(48 * WORDS), near, far)
        free = now
        now = now + np.uint32(STAGE) if now < np.uint32((STAGES - 1) * STAGE) else np.uint32(0)
        k += np.uint32(1)
    row += warp_row + (lane >> np.uint32(2))
    at = row * n + col + warp_col + np.uint32(2) * (lane & np.uint32(3))
    for i in range(4):
        for j in range(4):
            place = at + np.uint32(16 * i) * n + np.uint32(8 * j)
            first = 16 * i + 4 * j
            ptx.store_half2(c, place, total[first], total[first + 1])
            ptx.store_half2(c, place + np.uint32(8) * n, total[first + 2], total[first + 3])


def _source(name: str) -> CudaSource:
    return CudaSource(__name__, f"cuda/matmul_{name}.cu", name, "sm_90a")


def make(kernel: Kernel, n: int, rng: np.random.Generator, threads: int, shared_bytes: int, blocks: int = 0) -> Launch:
    """blocks: as many as there are, for tiles one after the other; 0 for a block per tile."""
    a, b = (rng.random((n, n), np.float32).astype(np.float16) for _ in "ab")
    c = np.full((n, n), np.nan, np.float16)
    across = n // TILE
    grid = min(blocks, across * across) if blocks else (across, across)
    args: tuple[Any, ...] = (a.ravel().view(np.uint32), b.ravel().view(np.uint32), c.ravel())
    if isinstance(kernel, CudaSource):
        whole, half = (TILE, DEPTH), (TILE // 2, DEPTH)
        stored = c if threads < 384 else TensorMap(c, half, "128B")
        # Blocks of a cluster copy half of what both need of `b`.
        args = (TensorMap(a, whole, "128B"), TensorMap(b, half if kernel is CLUSTER else whole, "128B"), stored)
    return Launch(kernel, grid, threads, (*args, np.uint32(n)), shared_bytes)


CLUSTER = _source("cluster")
_RING = 1024
"""Bytes that are lost where a swizzle's pattern begins at a multiple of 1,024."""
_OUTPUTS = 2 * TILE * TILE
_ALL = _RING + 4 * STAGE_BYTES + _OUTPUTS

VARIANTS = ladder(
    Size("n (matrix side)", (512, 2048), default=512, test=2 * TILE, multiple=2 * TILE, maximum=1 << 13),
    step(multistage, "Copies run two stages ahead, past the registers; swizzled rows need no padding.",
         256, STAGES * STAGE_BYTES),
    step(_source("tma"), "One thread copies a whole stage by a tensor map; an mbarrier counts its bytes.",
         256, _RING + STAGES * STAGE_BYTES),
    step(_source("wgmma"), "Four warps multiply out of shared memory in one instruction and go on meanwhile.",
         128, _RING + 4 * STAGE_BYTES),
    step(_source("specialised"), "One warp group copies and two multiply, with nothing between them but mbarriers.",
         384, _ALL, polls=True),
    step(_source("persistent"), "A block per SM takes tile after tile: inputs of the next come while outputs leave.",
         384, _ALL, SMS, polls=True),
    step(CLUSTER, "Two blocks of a cluster each copy half of what both need to both.",
         384, _ALL, SMS, polls=True),
    reference=matmul_tensor.reference,
    outputs=(2,),
    rtol=RTOL,
)  # fmt: skip
