"""Collatz: how many steps of n -> n / 2 or 3n + 1 lead each number to one.

A loop whose length depends on data, with a branch inside that depends on data too. `consecutive` gives each warp
neighbouring numbers, whose lengths have nothing to do with each other: the warp runs as long as its slowest
lane. `sorted` hands out the same numbers in the order of their lengths, so the lanes of a warp finish
together: in the report, compare executed instructions and threads per instruction. Both are the same machine
code and do the same work.

Integers, so bit-exact: no number that starts below 2**17 grows to 2**34, and the kernel counts in 64 bits.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCK = 128


def collatz(numbers, steps):
    i = cuda.grid(1)
    if i < numbers.size:
        n = np.uint64(numbers[i])
        count = np.int32(0)
        while n > np.uint64(1):
            if n & np.uint64(1):
                n = np.uint64(3) * n + np.uint64(1)
            else:
                n >>= np.uint64(1)
            count = np.int32(count + 1)
        steps[i] = count


def lengths(numbers: np.ndarray) -> np.ndarray:
    """Steps of each number, int32."""
    n = numbers.astype(np.uint64)
    count = np.zeros(n.size, np.int32)
    live = np.arange(n.size)
    while live.size:
        n, live = n[n > 1], live[n > 1]
        n = np.where(n & np.uint64(1), np.uint64(3) * n + np.uint64(1), n >> np.uint64(1))
        count[live] += 1
    return count


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    return (lengths(launch.args[0]),)


def make(kernel: Kernel, n: int, rng: np.random.Generator, in_order: bool) -> Launch:
    first = rng.integers(1, 1 << 16)
    numbers = np.arange(first, first + n, dtype=np.int32)
    if in_order:
        numbers = numbers[np.argsort(lengths(numbers), kind="stable")]
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (numbers, np.full(n, -1, np.int32)))


VARIANTS = ladder(
    Size("numbers", (1000, 1 << 15), default=4096, test=150, maximum=1 << 16),
    step(collatz, "Lanes whose loops differ in length wait for the slowest of their warp.", False, name="consecutive"),
    step(collatz, "Numbers of like length in one warp finish together.", True, name="sorted"),
)
