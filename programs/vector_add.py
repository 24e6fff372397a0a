"""Vector addition: one thread per element, `c[i] = a[i] + b[i]`.

The "hello world" of GPUs. Each element costs one addition and twelve bytes of traffic, so no amount of
arithmetic speed helps: in the report, look at DRAM throughput near its limit while the FP32 pipe idles, at
four sectors per request (32 lanes x 4 bytes in 32-byte sectors, perfectly coalesced), and at long-scoreboard
stalls, the time that warps wait for their loads. The small size is no multiple of the block, so the bounds
check really turns threads away.

The result is bit-exact: an addition rounds once, on a GPU as in NumPy.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCK = 256


def vector_add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


def make(kernel: Kernel, n: int, rng: np.random.Generator) -> Launch:
    a, b = (rng.random(n, np.float32) for _ in "ab")
    c = np.full(n, np.nan, np.float32)
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (a, b, c))


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    a, b, _ = launch.args
    return (a + b,)


VARIANTS = ladder(
    Size("elements", (10_000, 1 << 20), default=1 << 16, test=600),
    step(vector_add, "A kernel that only moves data runs at the speed of memory, however fast the arithmetic is."),
    outputs=(2,),
)
