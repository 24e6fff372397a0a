"""Add two arrays"""

import numpy as np
from numba import cuda


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


a = np.arange(50_000, dtype=np.float32)
b = np.ones_like(a)
out = np.zeros_like(a)

# What is launched: grid and block, and the arguments.
grid, block, args = 196, 256, (a, b, out)


# Called when the kernel is done.
def check():
    assert (out == a + b).all(), "wrong sums"
    print("the first three sums:", out[:3])
