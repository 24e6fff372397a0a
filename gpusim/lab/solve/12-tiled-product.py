"""A tiled product

Each thread of this matrix product reads a whole row and a whole column from global memory. Neighbours read the same
ones: load tiles of both matrices into shared memory together, and read global memory an eighth as often, or less.
"""

import numpy as np
from numba import cuda, float32

N = 64


@cuda.jit
def product(a, b, c):
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(N):
        total += a[row, k] * b[k, column]
    c[row, column] = total


a = (np.arange(N * N) % 7).astype(np.float32).reshape(N, N)
b = (np.arange(N * N) % 5).astype(np.float32).reshape(N, N)
c = np.zeros((N, N), np.float32)
grid, block, args = (4, 4), (16, 16), (a, b, c)


def check():
    assert (c == a @ b).all(), "not the product"
