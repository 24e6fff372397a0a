"""The kernels of a model's layer at the shapes that training gives them, for `gpusim.parallel.Layer`.

No ladder: `matmul_hopper` is where the techniques are taught. What is new here are shapes: the
three products of a layer with `rows` inputs of `inner` numbers and weights of `columns` x `inner` sum over different
sides of the same matrices, so that a factor may lie with the summed side along its rows or across them. Tensor cores
take both ways from shared memory (PTX ISA 8.5, 9.7.15, "matrix descriptor", leading and stride dimension offsets).
"""

from __future__ import annotations

from math import ceil

import numpy as np

from gpusim.launch import CudaSource, Launch, TensorMap

TILE = 128, 256
"""Rows and columns of the outputs that a block of a product makes at a time, one block on an SM."""
STAGE_BYTES = (TILE[0] + TILE[1]) * 64 * 2
SHARED_BYTES = 1024 + 4 * STAGE_BYTES + 2 * 16384
FORWARD, WEIGHTS, INPUT = (0, 0), (1, 1), (0, 1)
"""Products by name: (True if the summed side lies across the rows of the left factor, the same of the right one)."""


def product(
    m: int, n: int, k: int, across: tuple[int, int] = FORWARD, blocks: int = 132, *, tiles: int | None = None,
    depth: int | None = None, rng: np.random.Generator | None = None,
) -> Launch:  # fmt: skip
    """m x n outputs in bf16, each a sum of k products: of [m, k] and [n, k], or where `across` says so [k, m], [k, n].

    blocks: at most, each of which takes tile after tile. tiles, depth: compute only the first so many tiles (an even
    number: two blocks work together), sums of only so many products. rng: random numbers instead of zeros. All of m, n,
    k are multiples of eight.
    """
    clusters = ceil(m / (2 * TILE[0])) * ceil(n / TILE[1])
    if tiles is not None:
        clusters = min(clusters, tiles // 2)
    options = tuple(f"-D{name}={value}" for name, value in zip(("LEFT", "RIGHT"), across, strict=True))
    kernel = CudaSource(__name__, "cuda/layer_product.cu", "layer_product", "sm_90a", options)
    maps = []
    for side, there, box in ((m, across[0], TILE[0]), (n, across[1], TILE[1] // 2)):
        shape = (k, side) if there else (side, k)
        data = np.zeros(shape, np.uint16)
        if rng is not None:
            data[:] = (rng.random(shape, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        maps.append(TensorMap(data, (64, 64) if there else (box, 64), "128B", "bfloat16"))
    maps.append(TensorMap(np.zeros((m, n), np.uint16), (64, 64), "128B", "bfloat16"))
    sizes = (np.uint32(each) for each in (m, n, min(k, depth or k), clusters))
    return Launch(kernel, min(2 * clusters, blocks // 2 * 2), 384, (*maps, *sizes), SHARED_BYTES)
