"""Histogram of 256 bins, a ladder of two: every count an atomic at L2, or in shared memory first.

`global_atomics` sends each count to L2, where the atomic units add them up; 256 bins are only 1 KiB, so all
SMs queue for the same few L2 slices. `shared_atomics` gives each block a private histogram in shared memory
and merges it at the end with one global atomic per bin and block. In the report, compare atomic requests at
L2, and look at what atomics on shared memory cost when lanes of a warp hit the same bin.

Integer counts, so bit-exact in whatever order the atomics take effect.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

BINS = 256
BLOCK = BINS
"""One thread per bin clears and merges the private histogram."""
ITEMS = 16
"""Elements per thread: the more, the fewer private histograms there are to merge."""


def global_atomics(values, bins):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < values.size:
        cuda.atomic.add(bins, values[i], 1)
        i += step


def shared_atomics(values, bins):
    private = cuda.shared.array(BINS, np.int32)
    t = cuda.threadIdx.x
    private[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < values.size:
        cuda.atomic.add(private, values[i], 1)
        i += step
    cuda.syncthreads()
    cuda.atomic.add(bins, t, private[t])


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    values, bins, *_ = launch.args
    return (bins + np.bincount(values, minlength=bins.size).astype(bins.dtype),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    values = rng.integers(0, BINS, n, np.int32)
    # Counts are added to what is there, so the bins start at zero and no poison is possible.
    bins = np.zeros(BINS, np.int32)
    return Launch(kernel, ceil_div(n, BLOCK * ITEMS), BLOCK, (values, bins))


VARIANTS = ladder(
    Size("elements", (10_000, 1 << 18), default=1 << 16, test=5000),
    step(global_atomics, "Atomics of all SMs on a few addresses queue at the L2 slices that own them."),
    step(shared_atomics, "A private histogram per block in shared memory takes the traffic off L2."),
)
