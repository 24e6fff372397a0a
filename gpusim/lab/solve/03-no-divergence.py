"""No divergent branch

Half of the elements get a square root, half a sine, and neighbours differ: so every warp goes both ways, one after the
other. It does not matter which thread does which element. Let all lanes of a warp go the same way.
"""

import math

import numpy as np
from numba import cuda


@cuda.jit
def both(x, out):
    i = cuda.grid(1)
    if i % 2 == 0:
        out[i] = math.sqrt(x[i])
    else:
        out[i] = math.sin(x[i])


x = np.linspace(0.5, 3, 1 << 15, dtype=np.float32)
out = np.zeros_like(x)
grid, block, args = x.size // 256, 256, (x, out)


def check():
    wanted = np.where(np.arange(x.size) % 2 == 0, np.sqrt(x), np.sin(x))
    assert np.allclose(out, wanted, rtol=1e-5, atol=1e-6), "wrong values"
