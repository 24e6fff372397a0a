"""Neighbours read neighbours

Each thread copies one element of a matrix. As it stands, threads go down the columns: the lanes of a warp read words of
32 rows, and a load touches 32 sectors. Give the lanes of a warp neighbouring words: four sectors for each load.
"""

import numpy as np
from numba import cuda

ROWS, COLUMNS = 512, 256


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    row, column = i % ROWS, i // ROWS
    out[row, column] = x[row, column]


x = np.arange(ROWS * COLUMNS, dtype=np.int32).reshape(ROWS, COLUMNS)
out = np.zeros_like(x)
grid, block, args = x.size // 256, 256, (x, out)


def check():
    assert (out == x).all(), "not a copy"
