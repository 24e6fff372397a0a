"""Exact single-precision arithmetic for references, where NumPy alone would round differently from a GPU."""

from __future__ import annotations

import numpy as np


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c on float32 arrays with a single rounding, as the FFMA instruction computes it.

    The product of two float32 is exact in float64. The sum is not: rounding it to float64 and again to
    float32 would round twice. So the sum is rounded to odd (if inexact, towards the neighbour whose last bit
    is 1), after which the rounding to float32 is right, since float64 carries more than two bits beyond it
    (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers
    57(4), 2008). Holds for finite values whose result is not subnormal.
    """
    product = np.asarray(a, np.float32).astype(np.float64) * np.asarray(b, np.float32).astype(np.float64)
    addend = np.asarray(c, np.float32).astype(np.float64)
    total = product + addend
    # Knuth's two-sum: `error` is exactly what the addition lost.
    part = total - product
    error = (product - (total - part)) + (addend - part)
    even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even, odd, total).astype(np.float32)
