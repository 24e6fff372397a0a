"""Local memory: an array of each thread's own, indexed by data, cannot live in registers.

Each thread counts the 16 digits of its words. `local_array` keeps the counts in an array of the thread. Registers
have no index, so the compiler puts it into local memory, which is global memory laid out so that the same element
of all lanes is contiguous: lanes that count different digits spread over as many lines, and every count is a load
through L1 and a store to L2. `shared_array` keeps them in shared memory, a column per thread: any digits of 32 lanes
lie in 32 banks. `registers` packs the sixteen counts into four words by shifts: no memory, more instructions. In the
report, compare the line that counts, L2's sectors (eight times the others'), and shared-memory wavefronts.

Integers, so bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

BLOCK = 128
ITEMS = 32
"""Words per thread."""
DIGITS = 16


def local_array(words, out):
    count = cuda.local.array(DIGITS, np.int32)
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    for digit in range(DIGITS):
        count[digit] = 0
    k = i
    while k < words.size:
        count[words[k] & (DIGITS - 1)] += 1
        k += step
    # Digits weighted by their counts squared: a result that a wrong count changes.
    total = np.int32(0)
    for digit in range(DIGITS):
        total = np.int32(total + (digit + 1) * count[digit] * count[digit])
    out[i] = total


def shared_array(words, out):
    count = cuda.shared.array((DIGITS, BLOCK), np.int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    for digit in range(DIGITS):
        count[digit, t] = 0
    k = i
    while k < words.size:
        count[words[k] & (DIGITS - 1), t] += 1
        k += step
    total = np.int32(0)
    for digit in range(DIGITS):
        total = np.int32(total + (digit + 1) * count[digit, t] * count[digit, t])
    out[i] = total


def registers(words, out):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    # Four counts of eight bits to a word; ITEMS fit.
    a = np.uint32(0)
    b = np.uint32(0)
    c = np.uint32(0)
    d = np.uint32(0)
    k = i
    while k < words.size:
        digit = np.uint32(words[k] & (DIGITS - 1))
        one = np.uint32(np.uint32(1) << np.uint32((digit & np.uint32(3)) << np.uint32(3)))
        part = np.uint32(digit >> np.uint32(2))
        a = np.uint32(a + (one if part == np.uint32(0) else np.uint32(0)))
        b = np.uint32(b + (one if part == np.uint32(1) else np.uint32(0)))
        c = np.uint32(c + (one if part == np.uint32(2) else np.uint32(0)))
        d = np.uint32(d + (one if part == np.uint32(3) else np.uint32(0)))
        k += step
    total = np.int32(0)
    for digit in range(4):
        shift = np.uint32(8 * digit)
        first = np.int32((a >> shift) & np.uint32(255))
        second = np.int32((b >> shift) & np.uint32(255))
        third = np.int32((c >> shift) & np.uint32(255))
        fourth = np.int32((d >> shift) & np.uint32(255))
        total = np.int32(total + (digit + 1) * first * first + (digit + 5) * second * second)
        total = np.int32(total + (digit + 9) * third * third + (digit + 13) * fourth * fourth)
    out[i] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    words, out = launch.args
    digits = words.reshape(ITEMS, out.size) & (DIGITS - 1)
    total = np.zeros(out.size, np.int32)
    for digit in range(DIGITS):
        count = (digits == digit).sum(0, dtype=np.int32)
        total += (digit + 1) * count * count
    return (total,)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    words = rng.integers(0, 1 << 30, n, np.int32)
    threads = n // ITEMS
    return Launch(kernel, threads // BLOCK, BLOCK, (words, np.full(threads, -1, np.int32)))


VARIANTS = ladder(
    Size("elements", (1 << 18, 1 << 21), default=1 << 18, test=BLOCK * ITEMS, multiple=BLOCK * ITEMS),
    step(local_array, "A thread's array with a computed index lies in local memory, behind L1."),
    step(shared_array, "The same array as a column of shared memory has no bank conflicts."),
    step(registers, "Counts packed into registers by shifts need no memory at all."),
)
