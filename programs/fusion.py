"""Operator fusion: `sin(x)**2 + cos(x)**2` as five kernels, as a library of operators runs it, and as one.

Unfused, `sine` and `cosine` read x and write one array each, `square` runs over both, and `add` puts them together:
eleven times the array goes to or from memory, six read and five written. `fused` reads it once and writes it once; its
arithmetic is that of all five, and still far from what an SM could do in the time that the memory takes.

In the report, compare traffic and duration of `fused` with those of `sine`, `cosine`, twice `square` and `add`, launch
overheads among them. What a kernel writes stays in L2 while it fits, so it is L2 traffic first and DRAM traffic later.
The functions are the fast ones (MUFU), so that memory is the limit everywhere.

Tolerance: for arguments in [-pi, pi] the absolute error of the fast sine is at most 2**-21.41 and of the fast cosine
2**-21.19 (CUDA programming guide, intrinsic functions), so below 2**-21 with the rounding of the result. Squares of
numbers up to one double that; a sum of both, with its roundings, stays below 2**-18. A square and a sum alone round
once, 2**-24 relative, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

BLOCK = 256


def sine(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cuda.libdevice.fast_sinf(x[i])


def cosine(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cuda.libdevice.fast_cosf(x[i])


def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def fused(x, out):
    i = cuda.grid(1)
    if i < out.size:
        s = cuda.libdevice.fast_sinf(x[i])
        c = cuda.libdevice.fast_cosf(x[i])
        out[i] = s * s + c * c


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, inputs: int = 1) -> Launch:
    arrays = [rng.random(n, np.float32) * np.float32(6) - np.float32(3) for _ in range(inputs)]
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (*arrays, np.full(n, np.nan, np.float32)))


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    inputs = (each.astype(np.float64) for each in launch.args[:-1])
    return (_EXPECTED[launch.kernel](*inputs).astype(np.float32),)


_EXPECTED: dict[Callable[..., None], Callable[..., np.ndarray]] = {
    sine: np.sin,
    cosine: np.cos,
    square: np.square,
    add: np.add,
    fused: lambda x: np.sin(x) ** 2 + np.cos(x) ** 2,
}
VARIANTS = ladder(
    Size("elements", (1 << 18, 1 << 22), default=1 << 18, test=300),
    step(sine, "Unfused: the sine reads an array and writes another.", atol=2.0**-21),
    step(cosine, "Unfused: the cosine reads the same array again.", atol=2.0**-21),
    step(square, "Unfused: one product per element, and eight bytes for it."),
    step(add, "Unfused: the sum reads both squares back from memory.", 2, outputs=(2,)),
    step(fused, "All five operators in one kernel move two words per element instead of eleven.", atol=2.0**-18),
    rtol=2.0**-24,
)
