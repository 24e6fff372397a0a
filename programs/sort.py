"""Sorting networks and one step of a radix sort: comparisons that data cannot make slower.

`bitonic_step` is one step of a bitonic sort over all of global memory: each thread compares two elements
`n / 4` apart and swaps them if they are in the wrong order. All accesses are contiguous; a whole sort takes
log2(n) * (log2(n) + 1) / 2 such launches, each reading and writing everything. `odd_even` sorts 512 elements
per block in shared memory with neighbours only: 512 rounds with a barrier each. `bitonic` sorts the same in
45 rounds, and its stride changes from round to round: look at bank conflicts. `radix_count` is the first third
of a radix sort's pass: how often each of 16 digits occurs in each block, counted with ballots instead of
atomics. In the report, follow barrier stalls and executed instructions.

Results are permutations of integers and counts, so bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

BLOCK = 256
CHUNK = 2 * BLOCK
WARPS = BLOCK // 32
DIGITS = 16
FULL = 0xFFFFFFFF
"""Every lane of the warp takes part."""


def bitonic_step(x, y):
    # Pairs lie a quarter of the array apart; the first half is sorted upwards, the second downwards.
    i = cuda.grid(1)
    distance = np.int32(x.size >> 2)
    t = np.int32(i)
    low = t
    if t >= distance:
        low = t + distance
    a = x[low]
    b = x[low + distance]
    if t < distance:
        y[low] = min(a, b)
        y[low + distance] = max(a, b)
    else:
        y[low] = max(a, b)
        y[low + distance] = min(a, b)


def odd_even(x, y):
    s = cuda.shared.array(CHUNK, np.int32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * CHUNK + t
    s[t] = x[first]
    s[t + BLOCK] = x[first + BLOCK]
    r = 0
    while r < CHUNK:
        cuda.syncthreads()
        left = 2 * t + (r & 1)
        if left + 1 < CHUNK:
            a = s[left]
            b = s[left + 1]
            s[left] = min(a, b)
            s[left + 1] = max(a, b)
        r += 1
    cuda.syncthreads()
    y[first] = s[t]
    y[first + BLOCK] = s[t + BLOCK]


def bitonic(x, y):
    s = cuda.shared.array(CHUNK, np.int32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * CHUNK + t
    s[t] = x[first]
    s[t + BLOCK] = x[first + BLOCK]
    length = 2
    while length <= CHUNK:
        distance = length >> 1
        while distance > 0:
            cuda.syncthreads()
            left = 2 * t - (t & (distance - 1))
            a = s[left]
            b = s[left + distance]
            small = min(a, b)
            large = max(a, b)
            # Runs of `length` words are sorted upwards and downwards in turn, so that two make a bitonic one.
            if left & length:
                s[left] = large
                s[left + distance] = small
            else:
                s[left] = small
                s[left + distance] = large
            distance >>= 1
        length <<= 1
    cuda.syncthreads()
    y[first] = s[t]
    y[first + BLOCK] = s[t + BLOCK]


def radix_count(x, y):
    counts = cuda.shared.array((WARPS, DIGITS), np.int32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * CHUNK + t
    near = x[i] & (DIGITS - 1)
    far = x[i + BLOCK] & (DIGITS - 1)
    lane = t & 31
    mine = np.int32(0)
    for digit in range(DIGITS):
        lanes = cuda.ballot_sync(FULL, near == digit)
        more = cuda.ballot_sync(FULL, far == digit)
        if lane == digit:
            mine = np.int32(cuda.popc(lanes) + cuda.popc(more))
    if lane < DIGITS:
        counts[t >> 5, lane] = mine
    cuda.syncthreads()
    if t < DIGITS:
        total = np.int32(0)
        for warp in range(WARPS):
            total += counts[warp, t]
        y[cuda.blockIdx.x * DIGITS + t] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x = launch.args[0]
    if launch.kernel is bitonic_step:
        a, b, c, d = x.reshape(4, -1)
        return (np.concatenate([np.minimum(a, b), np.maximum(a, b), np.maximum(c, d), np.minimum(c, d)]),)
    if launch.kernel is radix_count:
        digits = x.reshape(-1, CHUNK, 1) % DIGITS
        return ((digits == np.arange(DIGITS)).sum(axis=1, dtype=np.int32).ravel(),)
    return (np.sort(x.reshape(-1, CHUNK), axis=1).ravel(),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    x, out = rng.integers(0, 1 << 30, n, np.int32), n // CHUNK * DIGITS if kernel is radix_count else n
    return Launch(kernel, n // CHUNK, BLOCK, (x, np.full(out, -1, np.int32)))


_STEP, _COUNT = {"sizes": (20 * CHUNK, 1 << 20)}, {"sizes": (20 * CHUNK, 1 << 19)}
_ODD_EVEN = {"sizes": (4 * CHUNK, 128 * CHUNK), "default_size": 4 * CHUNK}
VARIANTS = ladder(
    Size("elements", (20 * CHUNK, 1 << 17), default=20 * CHUNK, test=CHUNK, multiple=CHUNK),
    step(bitonic_step, "One step of a sort over global memory reads and writes all of it.", **_STEP),
    step(radix_count, "Ballots count the digits of a radix sort without atomics.", **_COUNT),
    step(odd_even, "Exchanging neighbours only takes as many rounds as there are elements.", **_ODD_EVEN),
    step(bitonic, "A bitonic network sorts 512 elements of shared memory in 45 rounds."),
)
