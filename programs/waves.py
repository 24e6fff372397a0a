"""Wave quantization: a grid runs as long as the SM that has the most to do.

Blocks that keep an SM's arithmetic busy take as long as there are blocks on one SM, one after the other. An H200 has
132 SMs: the small size of `one` gives each SM one block; the large size, one block more, takes twice as long, since one
SM has two. `two` goes from 264 blocks, which takes no longer than 133, to 265, half as long again. In the report,
compare cycles and the imbalance of SMs: with 133 blocks, half of the time 131 SMs have nothing to do. Matrix products
show the same at sizes just above a multiple of tiles times SMs.

Each thread adds to eight independent numbers their population counts, an instruction (POPC) that runs at a quarter of
the rate of an addition, so eight warps are enough to keep its pipe busy. Integers, so bit-exact.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ladder, step

BLOCK = 256
ROUNDS = 128
MANY = 8
"""Independent numbers per thread."""


def waves(x, out):
    i = cuda.grid(1)
    number = cuda.local.array(MANY, np.uint32)
    for j in range(MANY):
        number[j] = np.uint32(x[i] + np.uint32(j))
    k = 0
    while k < ROUNDS:
        for j in range(MANY):
            number[j] = np.uint32(number[j] + np.uint32(cuda.popc(number[j])))
        k += 1
    total = np.uint32(0)
    for j in range(MANY):
        total = np.uint32(total ^ number[j])
    out[i] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x = launch.args[0]
    number = x[:, None] + np.arange(MANY, dtype=np.uint32)
    for _ in range(ROUNDS):
        number += np.bitwise_count(number)
    return (np.bitwise_xor.reduce(number, axis=1),)


def make(kernel: Kernel, blocks: int, rng: np.random.Generator) -> Launch:
    # Far enough below 2**32 never to reach the poison.
    x = rng.integers(1, 1 << 30, blocks * BLOCK, np.uint32)
    return Launch(kernel, blocks, BLOCK, (x, np.full(blocks * BLOCK, 0xFFFFFFFF, np.uint32)))


_ONE = "A block for each of 132 SMs, and one more: twice as long."
VARIANTS = ladder(
    Size("blocks", (264, 265), default=264, test=1, maximum=1 << 16),
    step(waves, "Two blocks for each of 132 SMs, and one more: half as long again.", name="two"),
    step(waves, _ONE, name="one", sizes=(132, 133), default_size=132),
)
