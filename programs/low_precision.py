"""Narrow numbers, two pairs: the same computation in 32 bits, and packed into as few as will do.

`axpy_single` computes `z = alpha * x + y` in single precision. `axpy_half` does so for two halves at a time: one
instruction (HFMA2) is two multiply-adds, one load of 32 bits is two elements, so half the bytes, half the
instructions, and half the time where memory is the limit. The sum keeps 11 bits of what it was.

`dot_bytes` multiplies signed bytes one by one: each is loaded alone, 32 bytes to a request, and extended to a word.
`dot_dp4a` takes four at a time, in one load and one instruction (IDP.4A) that adds four products to a 32-bit sum: no
precision is lost, since the sum is wide.

In the report, compare executed instructions, bytes per request and DRAM traffic within each pair; arithmetic
intensity doubles from single to half, since the bytes halve. Tensor cores do the same for matrices, see
`matmul_tensor`.

Everything is exact to the bit: single precision by `cuda.fma`, which rounds once; half precision because a product of
two halves and its sum with a third are exact in double precision here (numbers in [2**-13, 4), 50 bits), so the
reference rounds once too; bytes because integers are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs import ptx
from programs.rounding import fma32
from programs.variant import Size, ceil_div, ladder, step
from programs.warp import warp_sum

BLOCK = 256
ITEMS = 16
"""Elements per thread of the dot products."""
CHUNK = BLOCK * ITEMS
ALPHA = 1.5


def axpy_single(alpha, x, y, z):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = cuda.fma(alpha, x[i], y[i])


def axpy_half(alpha, x, y, z):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = ptx.fma_half2(alpha, x[i], y[i])


def dot_bytes(x, y, partial):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    total = np.int32(0)
    k = i
    while k < x.size:
        total = np.int32(total + np.int32(x[k]) * np.int32(y[k]))
        k += step
    total = warp_sum(total)
    if cuda.laneid == 0:
        partial[i >> 5] = total


def dot_dp4a(x, y, partial):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    total = np.int32(0)
    k = i
    while k < x.size:
        total = ptx.dp4a(x[k], y[k], total)
        k += step
    total = warp_sum(total)
    if cuda.laneid == 0:
        partial[i >> 5] = total


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, dtype: type) -> Launch:
    if kernel is axpy_single:
        x, y = (rng.random(n, dtype) for _ in "xy")
        return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (dtype(ALPHA), x, y, np.full_like(x, np.nan)))
    if kernel is axpy_half:
        alpha = np.full(2, ALPHA, dtype).view(np.uint32)[0]
        # Multiples of 2**-12, so that no half is subnormal.
        x, y = ((rng.integers(1, 4097, n) / 4096).astype(dtype).view(np.uint32) for _ in "xy")
        return Launch(kernel, ceil_div(x.size, BLOCK), BLOCK, (alpha, x, y, np.full_like(x, 0xFFFFFFFF)))
    x, y = (rng.integers(-128, 128, n, np.int8).view(dtype) for _ in "xy")
    partial = np.full(n // ITEMS // 32, np.iinfo(np.int32).min, np.int32)
    return Launch(kernel, n // CHUNK, BLOCK, (x, y, partial))


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    if launch.kernel is axpy_single:
        return (fma32(*launch.args[:3]),)
    if launch.kernel is axpy_half:
        x, y = (each.view(np.float16).astype(np.float64) for each in launch.args[1:3])
        return ((ALPHA * x + y).astype(np.float16).view(np.uint32),)
    x, y, partial = launch.args
    threads = launch.blocks * BLOCK
    # Thread t takes elements (bytes or words) t, t + threads, and so on.
    products = x.view(np.int8).astype(np.int32) * y.view(np.int8)
    per_thread = products.reshape(-1, threads, x.itemsize).sum((0, 2), np.int32)
    return (per_thread.reshape(partial.size, 32).sum(1, np.int32),)


_AXPY = {"outputs": (3,), "test_size": 600, "multiple": 2}
VARIANTS = ladder(
    Size("elements", (1 << 18, 1 << 22), default=1 << 18, test=CHUNK, multiple=CHUNK),
    step(axpy_single, "Single precision: a word and a lane per element.", np.float32, **_AXPY),
    step(axpy_half, "Two halves in a word halve the bytes and the instructions.", np.float16, **_AXPY),
    step(dot_bytes, "Bytes one by one waste each load's width.", np.int8),
    step(dot_dp4a, "Four products of bytes per instruction.", np.uint32),
    outputs=(2,),
)
