"""A matrix turned round

Reading rows and writing columns, one of the two is always spread over 32 sectors. Take a tile through shared memory, so
that both loads and stores touch four sectors, and see to it that the tile has no bank conflicts.
"""

import numpy as np
from numba import cuda


@cuda.jit
def transpose(x, out):
    column, row = cuda.grid(2)
    out[column, row] = x[row, column]


x = np.arange(256 * 256, dtype=np.int32).reshape(256, 256)
out = np.zeros_like(x)
grid, block, args = (8, 8), (32, 32), (x, out)


def check():
    assert (out == x.T).all(), "not turned round"
