"""Atomic additions to one word, to a few, and to many, in shared memory and in L2.

All variants of a memory are the same machine code: each thread adds its number eight times, to the words
`(i + k) % words`. Lanes that add to the same word must take turns; lanes that add to different words of a line do
not. So `shared_same` is 32 turns per instruction, `shared_few` (4 words) eight, `shared_many` one. In L2 it is the
same with all SMs of the GPU in one queue: they meet at one slice for `global_same`, lane by lane, and for
`global_few` (32 words, one line) with whole requests, while `global_many` (16,384 words) spreads over
all slices. In the report, compare cycles with the same number of executed instructions, shared-memory wavefronts, and
the atomic requests and sectors at L2.

Integers, so bit-exact in whatever order the atomics take effect.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

BLOCK = 256
REPEAT = 8
WORDS = 1024
"""Words of shared memory; the variants use the first ones."""


def shared_atomics(x, sums, words):
    s = cuda.shared.array(WORDS, np.int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    for k in range(0, WORDS, BLOCK):
        s[t + k] = 0
    cuda.syncthreads()
    value = x[i]
    for k in range(REPEAT):
        cuda.atomic.add(s, (t + k) & (words - 1), value)
    cuda.syncthreads()
    # One word per thread leaves, with all that its column holds.
    total = s[t]
    for k in range(BLOCK, WORDS, BLOCK):
        total += s[t + k]
    sums[i] = total


def global_atomics(x, sums, words):
    i = cuda.grid(1)
    value = x[i]
    for k in range(REPEAT):
        cuda.atomic.add(sums, (i + k) & (words - 1), value)


def _sums(x: np.ndarray, words: int, length: int) -> np.ndarray:
    """Sums by word in each row of `x`, `length` of them per row."""
    rows, threads = x.shape
    place = np.arange(threads)
    first = length * np.arange(rows)[:, None]
    total = np.zeros(rows * length)
    for k in range(REPEAT):
        # Doubles hold sums of integers exactly up to 2**53.
        total += np.bincount((first + (place + k) % words).ravel(), weights=x.ravel(), minlength=total.size)
    return total.astype(np.int32).reshape(rows, length)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, words: int) -> Launch:
    x = rng.integers(1, 200, n, np.int32)
    # Sums in L2 are added to what is there, so they start at zero; no more words than threads.
    used = min(words, 1 << (n.bit_length() - 1))
    sums = np.full(n, -1, np.int32) if kernel is shared_atomics else np.zeros(used, np.int32)
    return Launch(kernel, n // BLOCK, BLOCK, (x, sums, np.int32(used)))


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    x, sums, words = launch.args
    if launch.kernel is global_atomics:
        return (_sums(x[None], int(words), sums.size)[0],)
    columns = _sums(x.reshape(-1, BLOCK), int(words), WORDS).reshape(-1, WORDS // BLOCK, BLOCK)
    return (columns.sum(1, dtype=np.int32).ravel(),)


SHARED = {"sizes": (1 << 13, 1 << 18)}
VARIANTS = ladder(
    Size("threads", (1 << 12, 1 << 15), default=1 << 14, test=BLOCK, multiple=BLOCK, maximum=1 << 20),
    step(global_atomics, "All SMs add to one word, at one slice of L2.", 1, name="global_same"),
    step(global_atomics, "Thirty-two words of one line: still one slice of L2.", 32, name="global_few"),
    step(global_atomics, "Many words: the slices of L2 share the work.", 1 << 14, name="global_many"),
    step(shared_atomics, "The lanes of a warp take turns at one word.", 1, name="shared_same", **SHARED),
    step(shared_atomics, "Eight lanes take turns at each of four words.", 4, name="shared_few", **SHARED),
    step(shared_atomics, "A word for each lane: all add at once.", 256, name="shared_many", **SHARED),
)
