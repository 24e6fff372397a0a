"""Sums and maxima over the lanes of a warp and the threads of a block, for kernels to call.

Every lane gets the result: with exchanges over lane numbers that differ in one bit, all lanes add the same pairs in
the same order, so all hold the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

FULL = 0xFFFFFFFF
"""Every lane of the warp takes part."""
WARPS = 8
"""Warps of the blocks that `block_sum` and `block_max` serve."""
BLOCK = 32 * WARPS


@cuda.jit(device=True)
def warp_sum(value):
    """Sum over the 32 lanes."""
    for k in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(FULL, value, k)
    return value


@cuda.jit(device=True)
def warp_max(value):
    """Greatest value of the 32 lanes."""
    for k in (16, 8, 4, 2, 1):
        value = max(value, cuda.shfl_xor_sync(FULL, value, k))
    return value


@cuda.jit(device=True)
def _share(value, s):
    """Hand each warp's value to all: lane i gets that of warp i % WARPS. `s`: shared, one element per warp."""
    t = np.uint32(cuda.threadIdx.x)
    if t & np.uint32(31) == 0:
        s[t >> np.uint32(5)] = value
    cuda.syncthreads()
    return s[t & np.uint32(WARPS - 1)]


@cuda.jit(device=True)
def block_sum(value, s):
    """Sum over a block of BLOCK threads in one dimension; `s` must not be in use by slower threads."""
    value = _share(warp_sum(value), s)
    for k in (4, 2, 1):
        value += cuda.shfl_xor_sync(FULL, value, k)
    return value


@cuda.jit(device=True)
def block_max(value, s):
    """Greatest value in a block of BLOCK threads in one dimension; `s` as for `block_sum`."""
    value = _share(warp_max(value), s)
    for k in (4, 2, 1):
        value = max(value, cuda.shfl_xor_sync(FULL, value, k))
    return value
