"""Every element

A thread for each element, and not one too many. This launch doubles only the beginning of the array. Launch enough
blocks for all of it, and keep the threads that are too many from writing past its end.
"""

import numpy as np
from numba import cuda


@cuda.jit
def double(x, out):
    i = cuda.threadIdx.x
    out[i] = 2 * x[i]


x = np.arange(10_000, dtype=np.float32)
out = np.zeros_like(x)
grid, block, args = 1, 256, (x, out)


def check():
    assert (out == 2 * x).all(), f"{np.count_nonzero(out != 2 * x):,} elements are wrong"
