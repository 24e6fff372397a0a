"""Monte Carlo: what share of random points in a square lies within the quarter circle, pi / 4.

`stored` reads its random numbers from memory, 4 bytes per point: its warps wait for DRAM. `generated` makes them
in registers (xorshift: three shifts, three exclusive ors), reads one word per thread, and is as fast as the integer
units. Both add the hits of a block by register exchange. In the report, compare DRAM bytes and executed
instructions, and the pipe that is busiest.

A word gives two coordinates of 15 bits, so squares and their sums are integers below 2**31: bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step
from programs.warp import BLOCK, WARPS, block_sum

POINTS = 32
"""Points per thread."""
MASK = np.uint32(0x7FFF)
RADIUS2 = np.uint32(1 << 30)


def stored(words, hits):
    s = cuda.shared.array(WARPS, np.int32)
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    count = np.int32(0)
    for _ in range(POINTS):
        word = words[i]
        x = word & MASK
        y = word >> np.uint32(17)
        if np.uint32(x * x + y * y) < RADIUS2:
            count = np.int32(count + 1)
        i += step
    count = block_sum(count, s)
    if cuda.threadIdx.x == 0:
        hits[cuda.blockIdx.x] = count


def generated(words, hits):
    s = cuda.shared.array(WARPS, np.int32)
    word = words[cuda.grid(1)]
    count = np.int32(0)
    for _ in range(POINTS):
        word = np.uint32(word ^ np.uint32(word << np.uint32(13)))
        word = np.uint32(word ^ (word >> np.uint32(17)))
        word = np.uint32(word ^ np.uint32(word << np.uint32(5)))
        x = word & MASK
        y = word >> np.uint32(17)
        if np.uint32(x * x + y * y) < RADIUS2:
            count = np.int32(count + 1)
    count = block_sum(count, s)
    if cuda.threadIdx.x == 0:
        hits[cuda.blockIdx.x] = count


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    words, hits = launch.args
    drawn = words.reshape(-1, hits.size, BLOCK).copy()
    count = np.zeros(hits.size, np.int32)
    for k in range(POINTS):
        if launch.kernel is generated:
            drawn ^= drawn << np.uint32(13)
            drawn ^= drawn >> np.uint32(17)
            drawn ^= drawn << np.uint32(5)
        word = drawn[k if launch.kernel is stored else 0]
        x, y = word & MASK, word >> np.uint32(17)
        count += (x * x + y * y < RADIUS2).sum(1, dtype=np.int32)
    return (count,)


def make(kernel: Callable[..., None], points: int, rng: np.random.Generator) -> Launch:
    n = points if kernel is stored else points // POINTS
    words = rng.integers(1, 1 << 32, n, np.uint32)
    blocks = points // (POINTS * BLOCK)
    return Launch(kernel, blocks, BLOCK, (words, np.full(blocks, -1, np.int32)))


VARIANTS = ladder(
    Size("points", (1 << 20, 1 << 23), default=1 << 20, test=POINTS * BLOCK, multiple=POINTS * BLOCK),
    step(stored, "Random numbers from memory cost four bytes of DRAM traffic each."),
    step(generated, "Random numbers made in registers cost six instructions each."),
)
