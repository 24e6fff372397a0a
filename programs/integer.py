"""Integer arithmetic: which operations are one instruction, and which only look like one.

`mix` runs rounds of a hash (multiply, shift, exclusive or; the finalizer of A. Appleby's MurmurHash3): a product of
32 bits is one multiply-add (IMAD), on another pipe than shifts and logic (SHF, LOP3). `count_bits` adds up population
counts of a xorshift generator; POPC runs at a quarter of the rate of an addition, in the pipe of the special
functions. `modulo` takes remainders by a number the compiler does not know: there is no such instruction, and each
becomes a reciprocal in floating point and its correction, some twenty instructions. In the report, compare
executed instructions per round, and which pipe is busiest.

Bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

BLOCK = 128
ROUNDS = 16
FIRST = np.uint32(0x85EBCA6B)
SECOND = np.uint32(0xC2B2AE35)


def mix(x, y, divisor):
    i = cuda.grid(1)
    if i < y.size:
        h = x[i]
        for _ in range(ROUNDS):
            h = np.uint32(h ^ (h >> np.uint32(16)))
            h = np.uint32(h * FIRST)
            h = np.uint32(h ^ (h >> np.uint32(13)))
            h = np.uint32(h * SECOND)
            h = np.uint32(h ^ (h >> np.uint32(16)))
        y[i] = h


def count_bits(x, y, divisor):
    i = cuda.grid(1)
    if i < y.size:
        h = x[i]
        total = np.uint32(0)
        for _ in range(ROUNDS):
            h = np.uint32(h ^ np.uint32(h << np.uint32(13)))
            h = np.uint32(h ^ (h >> np.uint32(17)))
            h = np.uint32(h ^ np.uint32(h << np.uint32(5)))
            total = np.uint32(total + np.uint32(cuda.popc(h)))
        y[i] = total


def modulo(x, y, divisor):
    i = cuda.grid(1)
    if i < y.size:
        h = x[i]
        total = np.uint32(0)
        for k in range(ROUNDS):
            total = np.uint32(total + np.uint32(h % np.uint32(divisor + np.uint32(k))))
        y[i] = total


def _mixed(launch: Launch) -> tuple[np.ndarray, ...]:
    h = launch.args[0].copy()
    for _ in range(ROUNDS):
        for shift, factor in ((16, FIRST), (13, SECOND)):
            h ^= h >> np.uint32(shift)
            h *= factor
        h ^= h >> np.uint32(16)
    return (h,)


def _counted(launch: Launch) -> tuple[np.ndarray, ...]:
    h = launch.args[0].copy()
    total = np.zeros_like(h)
    for _ in range(ROUNDS):
        h ^= h << np.uint32(13)
        h ^= h >> np.uint32(17)
        h ^= h << np.uint32(5)
        total += np.bitwise_count(h)
    return (total,)


def _remainders(launch: Launch) -> tuple[np.ndarray, ...]:
    x, _, divisor = launch.args
    total = np.zeros_like(x)
    for k in range(ROUNDS):
        total += x % np.uint32(divisor + k)
    return (total,)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    x = rng.integers(1, 1 << 32, n, np.uint32)
    # All bits set is no sum of remainders or bits; a hash may be, once in 2**32.
    poison = np.full(n, 0xFFFFFFFF, np.uint32)
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (x, poison, np.uint32(1000)))


VARIANTS = ladder(
    Size("elements", (1 << 16, 1 << 19), default=1 << 16, test=150),
    step(mix, "A hash keeps two pipes busy: multiply-adds, and shifts with logic."),
    step(count_bits, "Population counts run at a quarter of the rate of additions.", reference=_counted),
    step(modulo, "A remainder is no instruction: some twenty stand for it.", reference=_remainders),
    reference=_mixed,
)
