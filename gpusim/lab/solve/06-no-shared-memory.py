"""A sum without shared memory

The lanes of a warp can read each other's registers: cuda.shfl_down_sync(0xFFFFFFFF, value, by) gives the value of the
lane `by` places on. Add up 32 values of a warp so, without shared memory and without a barrier.
"""

import numpy as np
from numba import cuda, int32


@cuda.jit
def add_up(x, sums):
    part = cuda.shared.array(32, int32)
    lane = cuda.threadIdx.x
    part[lane] = x[cuda.grid(1)]
    cuda.syncwarp()
    step = 16
    while step > 0:
        if lane < step:
            part[lane] += part[lane + step]
        cuda.syncwarp()
        step //= 2
    if lane == 0:
        sums[cuda.blockIdx.x] = part[0]


x = np.arange(1 << 13, dtype=np.int32)
sums = np.zeros(x.size // 32, np.int32)
grid, block, args = sums.size, 32, (x, sums)


def check():
    assert (sums == x.reshape(-1, 32).sum(1)).all(), "wrong sums"
