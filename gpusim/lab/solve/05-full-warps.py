"""Full warps

A sum in shared memory. In each round every second, fourth, eighth thread adds: the warps stay busy with fewer and fewer
lanes. Let the first threads of the block do the adding instead, so that whole warps have nothing left to do.
"""

import numpy as np
from numba import cuda, int32

BLOCK = 256


@cuda.jit
def add_up(x, sums):
    part = cuda.shared.array(BLOCK, int32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < BLOCK:
        if t % (2 * step) == 0:
            part[t] += part[t + step]
        step *= 2
        cuda.syncthreads()
    if t == 0:
        sums[cuda.blockIdx.x] = part[0]


x = np.arange(1 << 15, dtype=np.int32)
sums = np.zeros(x.size // BLOCK, np.int32)
grid, block, args = sums.size, BLOCK, (x, sums)


def check():
    assert (sums == x.reshape(-1, BLOCK).sum(1)).all(), "wrong sums"
