"""FlashAttention's forward pass as Hopper wants it: softmax(q @ k.T / 8) @ v for eight heads, with and without a mask.

`attention` shows why the matrix of scores should not be stored, in single precision and for any GPU. Here tensor cores
multiply halves, TMA brings tiles of 128 keys and values, and what is left is the softmax: a score costs 128
multiplications and one exponential, and an SM does 2,048 of the former in a cycle and 16 of the latter, so neither is
little beside the other. That is why two groups of warps take turns. `full` and `causal` (a query sees the keys up to
its own place) are one kernel, `cuda/flash_attention.cuh`, with the online softmax of `attention/fused`. (J. Shah,
G. Bikshandi, Y. Zhang, V. Thakkar, P. Ramani and T. Dao, "FlashAttention-3", 2024, goes on from here: it orders the
turns by barriers, and has products of one tile under way during the softmax of another.)

In the report, compare how busy the tensor pipe and the unit of exponentials (`xu`) are, and how `causal` executes
little more than half of the instructions, but takes more than half of the time: its blocks differ in length.

Tolerance: values lie in [0, 1), so errors of weights do not cancel. A weight is rounded to a half, 2**-11 relative, or
2**-25 absolute where it is small, of at most 1,024 keys, whose weights sum to one at least; the result may round to the
neighbouring half, 2**-10. A score is a sum of 64 products with magnitudes of 70 together at most, which a tensor core
cuts as in `matmul_tensor`: 4 x 18 x 2**-23 of that, an eighth of which is the weight's relative error.
"""

from __future__ import annotations

import numpy as np

from gpusim.launch import CudaSource, Launch, TensorMap
from programs.variant import Kernel, Size, ladder, step

HEADS = 8
DIM = 64
"""Elements of a query, a key and a value."""
TILE = 128
"""Queries of a block, and keys of a tile."""
SHARED_BYTES = 1024 + 5 * TILE * DIM * 2
"""A tile of queries and two of keys and values, from a multiple of 1,024 on."""
RTOL = 2.0**-10 + 2.0**-11 + 2 * 70 / 8 * 4 * 18 * 2.0**-23
ATOL = 1024 * 2.0**-25


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    q, k, v = (np.asarray(each).reshape(HEADS, -1, DIM).astype(np.float64) for each in launch.args[:3])
    scores = q @ k.transpose(0, 2, 1) / 8
    if launch.kernel is CAUSAL:
        scores[:, ~np.tri(scores.shape[1], dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    out = weights @ v / weights.sum(axis=2, keepdims=True)
    return (out.astype(np.float16).reshape(-1, DIM),)


def make(kernel: Kernel, n: int, rng: np.random.Generator, heads: int = HEADS) -> Launch:
    q, k = (rng.standard_normal((heads * n, DIM), np.float32).astype(np.float16) for _ in "qk")
    v = rng.random((heads * n, DIM), np.float32).astype(np.float16)
    out = np.full_like(v, np.nan)
    maps = [TensorMap(each, (TILE, DIM), "128B") for each in (q, k, v)]
    args = (*maps, TensorMap(out, (TILE // 2, DIM), "128B"), np.uint32(n))
    return Launch(kernel, (n // TILE, heads), 384, args, SHARED_BYTES)


FULL, CAUSAL = (CudaSource(__name__, f"cuda/flash_attention_{name}.cu", name, "sm_90a") for name in ("full", "causal"))

VARIANTS = ladder(
    Size("n (sequence length)", (256, 1024), default=256, test=256, multiple=TILE, maximum=1 << 12),
    step(FULL, "Scores stay in registers, from one product on the tensor cores to the next."),
    step(CAUSAL, "A mask spares half of the tiles, and makes blocks of different length."),
    outputs=(3,),
    polls=True,
    rtol=RTOL,
    atol=ATOL,
)
