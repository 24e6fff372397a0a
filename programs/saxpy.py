"""SAXPY: `y[i] = alpha * x[i] + y[i]` in place, the BLAS level-1 routine.

The compiler contracts the multiplication and the addition into one fused multiply-add (FFMA): in the listing,
count one arithmetic instruction for two floating-point operations. Everything else costs the same as in
`vector_add`, and so does the time: at two operations per twelve bytes the kernel is far to the left on the
roofline. Note the uniform datapath: `alpha` is the same for every thread and is loaded once per warp, from
the constant bank into a uniform register (ULDC).

Inputs are positive, so nothing cancels, and contracted or not the results agree within one unit in the last
place (2**-23 relative); the reference rounds once, like FFMA.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.rounding import fma32
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCK = 256


def saxpy(alpha, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = alpha * x[i] + y[i]


def make(kernel: Kernel, n: int, rng: np.random.Generator) -> Launch:
    x = rng.random(n, np.float32)
    # y lies in [1, 2) and alpha is 2, so every element changes by what a missing write would not.
    y = rng.random(n, np.float32) + np.float32(1)
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (np.float32(2), x, y))


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    alpha, x, y = launch.args
    return (fma32(alpha, x, y),)


VARIANTS = ladder(
    Size("elements", (10_000, 1 << 20), default=1 << 16, test=600),
    step(saxpy, "A fused multiply-add halves the arithmetic, which gains nothing where memory is the limit."),
    outputs=(2,),
    rtol=2.0**-23,
)
