"""Histogram of 4,096 bins over distributed shared memory: four blocks of a cluster share one private histogram.

`histogram/shared_atomics` merges a private histogram per block, which must fit a block's shared memory and costs one
global atomic per bin and block. Here each block of a cluster owns a quarter of the bins, 4 KiB, and counts a value
where it belongs, three times of four in another SM's shared memory (`mapa`, `red.shared::cluster`). So there are a
quarter as many bins to merge, and room for four times as many bins.

In the report, compare global atomics with the number of elements, and see where warps wait for the cluster's barrier.

Integer counts, so bit-exact in whatever order the atomics take effect.
"""

from __future__ import annotations

import numpy as np

from gpusim.launch import CudaSource, Launch
from programs.histogram import reference
from programs.variant import Kernel, Size, ceil_div, ladder, step

BINS = 4096
BLOCKS = 4
"""Blocks of a cluster."""
BLOCK = 256
ITEMS = 64
"""Elements per thread: the more, the fewer histograms there are to merge."""


def make(kernel: Kernel, n: int, rng: np.random.Generator) -> Launch:
    values = rng.integers(0, BINS, n, np.uint32)
    # Counts are added to what is there, so the bins start at zero and no poison is possible.
    bins = np.zeros(BINS, np.uint32)
    return Launch(kernel, BLOCKS * ceil_div(n, BLOCKS * BLOCK * ITEMS), BLOCK, (values, bins, np.uint32(n)))


VARIANTS = ladder(
    Size("elements", (1 << 16, 1 << 22), default=1 << 18, test=100_000),
    step(CudaSource(__name__, "cuda/cluster_histogram.cu"), "Four blocks count in each other's shared memory."),
    reference=reference,
)
