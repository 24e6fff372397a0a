"""Heat that spreads over a plate"""

import numpy as np
from numba import cuda, float32

SIZE = 128


@cuda.jit
def spread(before, after):
    x, y = cuda.grid(2)
    if 0 < x < SIZE - 1 and 0 < y < SIZE - 1:
        around = before[y - 1, x] + before[y + 1, x] + before[y, x - 1] + before[y, x + 1]
        after[y, x] = before[y, x] + float32(0.2) * (around - 4 * before[y, x])


before = np.zeros((SIZE, SIZE), np.float32)
before[SIZE // 2, SIZE // 2] = 100
after = before.copy()
grid, block, args = (SIZE // 32, SIZE // 8), (32, 8), (before, after)


def check():
    assert abs(after.sum() - 100) < 1e-3, "heat is lost"
