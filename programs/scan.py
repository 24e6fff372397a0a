"""Inclusive prefix sums of 512 words per block, a ladder of four: less work, then no conflicts, then no barriers.

1. `hillis_steele`: in step d every word adds the one d to its left. Nine steps, two barriers each, and
   n log n additions for a result that needs n.
2. `blelloch`: a tree of sums upwards and one of prefixes downwards, 2n additions. Its strided words collide
   in the banks of shared memory, up to 32 to a bank, which costs more than the additions saved.
3. `padded`: one unused word after every 32 puts the words of a tree level into different banks;
   the additions for that lengthen the code, eighteen unrolled levels of it, and the fetch of instructions.
4. `shuffle`: a scan by register exchange in each warp, then over the sums of the warps, and one barrier.

In the report, compare executed instructions, shared-memory wavefronts against their ideal number, and barrier
and no-instruction stalls: fewer wavefronts are less time only where the data pipe was the limit. After
G. Blelloch, "Prefix sums and their applications" (1990), and M. Harris, S. Sengupta, J. Owens, "Parallel
Prefix Sum (Scan) with CUDA" (GPU Gems 3, 2007).

Integers, added modulo 2**32, so bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

CHUNK = 512
"""Words that a block scans, each block its own."""
BANKS = 32
PADDED = CHUNK + CHUNK // BANKS
FULL = 0xFFFFFFFF
"""Every lane of the warp takes part."""


def hillis_steele(x, y):
    s = cuda.shared.array(CHUNK, np.int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i]
    cuda.syncthreads()
    for k in range(9):
        left = np.int32(0)
        if t >= 1 << k:
            left = s[t - (1 << k)]
        # Every word must be read before any is replaced.
        cuda.syncthreads()
        s[t] += left
        cuda.syncthreads()
    y[i] = s[t]


def blelloch(x, y):
    s = cuda.shared.array(CHUNK, np.int32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * CHUNK + t
    a = x[first]
    b = x[first + 256]
    s[t] = a
    s[t + 256] = b
    for k in range(9):
        cuda.syncthreads()
        if t < 256 >> k:
            right = ((2 * t + 2) << k) - 1
            s[right] += s[right - (1 << k)]
    cuda.syncthreads()
    if t == 0:
        s[CHUNK - 1] = 0
    for k in range(8, -1, -1):
        cuda.syncthreads()
        if t < 256 >> k:
            right = ((2 * t + 2) << k) - 1
            left = right - (1 << k)
            total = s[left]
            s[left] = s[right]
            s[right] += total
    cuda.syncthreads()
    # The tree leaves sums of what lies before each word; adding the word itself makes them inclusive.
    y[first] = s[t] + a
    y[first + 256] = s[t + 256] + b


def padded(x, y):
    s = cuda.shared.array(PADDED, np.int32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * CHUNK + t
    a = x[first]
    b = x[first + 256]
    near = t + (t >> 5)
    far = near + 256 + 8
    s[near] = a
    s[far] = b
    for k in range(9):
        cuda.syncthreads()
        if t < 256 >> k:
            right = ((2 * t + 2) << k) - 1
            left = right - (1 << k)
            s[right + (right >> 5)] += s[left + (left >> 5)]
    cuda.syncthreads()
    if t == 0:
        s[PADDED - 2] = 0  # word 511 lies behind 15 unused ones
    for k in range(8, -1, -1):
        cuda.syncthreads()
        if t < 256 >> k:
            right = ((2 * t + 2) << k) - 1
            left = right - (1 << k)
            right += right >> 5
            left += left >> 5
            total = s[left]
            s[left] = s[right]
            s[right] += total
    cuda.syncthreads()
    y[first] = s[near] + a
    y[first + 256] = s[far] + b


def shuffle(x, y):
    s = cuda.shared.array(16, np.int32)
    t = cuda.threadIdx.x
    lane = t & 31
    i = cuda.grid(1)
    total = x[i]
    for k in range(5):
        left = cuda.shfl_up_sync(FULL, total, 1 << k)
        if lane >= 1 << k:
            total += left
    if lane == 31:
        s[t >> 5] = total
    cuda.syncthreads()
    # Every warp scans all the sums, in registers, rather than wait at another barrier for one that does.
    sums = s[lane & 15]
    for k in range(4):
        left = cuda.shfl_up_sync(FULL, sums, 1 << k)
        if lane >= 1 << k:
            sums += left
    before = cuda.shfl_sync(FULL, sums, ((t >> 5) - 1) & 15)
    if t >= 32:
        total += before
    y[i] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x = launch.args[0].reshape(-1, CHUNK)
    return (np.cumsum(x, axis=1, dtype=np.int32).ravel(),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, threads: int) -> Launch:
    x = rng.integers(1, 1000, n, np.int32)
    # All sums are positive.
    return Launch(kernel, n // CHUNK, threads, (x, np.full(n, -1, np.int32)))


VARIANTS = ladder(
    Size("elements", (20 * CHUNK, 1 << 19), default=1 << 16, test=CHUNK, multiple=CHUNK),
    step(hillis_steele, "Adding the word d to the left for every d is simple and does n log n additions.", CHUNK),
    step(blelloch, "A tree up and a tree down do 2n additions; their strides collide in the banks.", CHUNK // 2),
    step(padded, "One unused word after every 32 takes the conflicts out of the tree.", CHUNK // 2),
    step(shuffle, "Warps that scan in registers need shared memory for one sum each, and one barrier.", CHUNK),
)
