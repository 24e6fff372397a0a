"""One wavefront a load

A block turns a tile of 32 x 32 round: it writes rows and reads columns. All words of a column lie in one bank, and a
load takes 32 wavefronts. Change one number, so that it takes one.
"""

import numpy as np
from numba import cuda, int32


@cuda.jit
def turn(x, out):
    tile = cuda.shared.array((32, 32), int32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, column] = x[cuda.blockIdx.x, row, column]
    cuda.syncthreads()
    out[cuda.blockIdx.x, row, column] = tile[column, row]


x = np.arange(16 * 32 * 32, dtype=np.int32).reshape(16, 32, 32)
out = np.zeros_like(x)
grid, block, args = 16, (32, 32), (x, out)


def check():
    assert (out == x.transpose(0, 2, 1)).all(), "not turned round"
