"""90 % of the roof

Each thread adds up a part of an array, which is limited by memory: no program can be faster than its bytes. This one
has few threads on their way, each waiting for one load at a time. Keep DRAM busy for 90 % of the time that the bytes
take at its peak. There may be as many sums as you like.
"""

import numpy as np
from numba import cuda, int32


@cuda.jit
def add_up(x, sums):
    total = int32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    sums[cuda.grid(1)] = total


x = np.arange(1 << 20, dtype=np.int32) % 1000
sums = np.zeros(256, np.int32)
grid, block, args = sums.size // 64, 64, (x, sums)


def check():
    assert sums.sum(dtype=np.int64) == x.sum(dtype=np.int64), "the sums do not add up"
