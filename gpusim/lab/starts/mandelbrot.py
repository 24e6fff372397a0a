"""A picture whose pixels take more or less time"""

import numpy as np
from numba import cuda

SIZE, ROUNDS = 128, 64


@cuda.jit
def mandelbrot(out):
    x, y = cuda.grid(2)
    real = 3 * x / SIZE - 2.2
    imaginary = 3 * y / SIZE - 1.5
    a = b = 0.0
    n = 0
    while n < ROUNDS and a * a + b * b < 4:
        a, b = a * a - b * b + real, 2 * a * b + imaginary
        n += 1
    out[y, x] = n


out = np.zeros((SIZE, SIZE), np.int32)
grid, block, args = (SIZE // 16, SIZE // 16), (16, 16), (out,)


def check():
    for row in out[:: SIZE // 24]:
        print("".join(" .:-=+*#%@"[min(n * 9 // ROUNDS, 9)] for n in row[:: SIZE // 60]))
