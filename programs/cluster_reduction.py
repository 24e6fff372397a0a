"""Sum over distributed shared memory: eight blocks of a cluster, on eight SMs, bring their sums together in one.

`reduction` leaves a number for each block, which a second kernel has to add up. Blocks of a cluster run at the same
time and can write to each other's shared memory, so that a cluster of eight leaves one. What that costs is a barrier
of the cluster and a store to another SM.

In the report, look at where warps wait (`barrier` includes the cluster's) and how few bytes are written.

Tolerance: elements lie in [0, 1), so sums are of positive numbers: a thread adds 8, the trees of warp, block and
cluster have 5, 3 and 3 levels, and the reference is rounded once: 20 * 2**-24 (N. Higham, "Accuracy and Stability of
Numerical Algorithms", 2002, section 4.2).
"""

from __future__ import annotations

import numpy as np

from gpusim.launch import CudaSource, Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCKS = 8
"""Blocks of a cluster."""
BLOCK = 256
ELEMENTS = BLOCKS * BLOCK * 8
"""Elements of a cluster: eight per thread."""
RTOL = 20 * 2.0**-24


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x, sums, _ = launch.args
    cluster = np.arange(x.size) // ELEMENTS
    return (np.bincount(cluster, weights=x, minlength=sums.size).astype(np.float32),)


def make(kernel: Kernel, n: int, rng: np.random.Generator) -> Launch:
    clusters = ceil_div(n, ELEMENTS)
    args = (rng.random(n, np.float32), np.full(clusters, np.nan, np.float32), np.uint32(n))
    return Launch(kernel, BLOCKS * clusters, BLOCK, args)


VARIANTS = ladder(
    Size("elements", (1 << 15, 1 << 22), default=1 << 18, test=20_000),
    step(CudaSource(__name__, "cuda/cluster_reduction.cu"), "A cluster's blocks leave one number, by way of one SM."),
    rtol=RTOL,
)
