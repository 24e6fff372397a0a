"""Shared-memory bank conflicts: a warp loads words 1, 2, 4, 8, 16 or 32 apart.

Shared memory has 32 banks of four-byte words; word w lies in bank w % 32, and one wavefront serves one word
of each bank. Lanes that are `stride` words apart (a power of two) meet in 32 / stride banks, `stride` lanes
in each, so a load takes `stride` wavefronts. All variants are the same machine code and execute the same
instructions: in the report, look at wavefronts per request, at the time growing with it as soon as the data
pipe is full, and at the short-scoreboard and MIO-throttle stalls.

Every thread adds up 32 words that lie next to each other; all in int32, so bit-exact.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCK = 256
WORDS = 1024
"""Words in shared memory: 32 lanes x the largest stride, so that no two lanes of a warp share a word."""
ROUNDS = 32


def bank_conflict(data, out, stride):
    words = cuda.shared.array(WORDS, np.int32)
    t = cuda.threadIdx.x
    for k in range(0, WORDS, BLOCK):
        words[k + t] = data[k + t]
    cuda.syncthreads()
    first = t * stride
    total = np.int32(0)
    for r in range(ROUNDS):
        total = np.int32(total + words[(first + r) & (WORDS - 1)])
    i = cuda.grid(1)
    if i < out.size:
        out[i] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    data, out, stride = launch.args
    first = np.arange(out.size) % BLOCK * int(stride)
    words = (first[:, None] + np.arange(ROUNDS)) % WORDS
    return (data[words].sum(axis=1, dtype=np.int32),)


def make(kernel: Kernel, n: int, rng: np.random.Generator, stride: int) -> Launch:
    data = rng.integers(-(1 << 20), 1 << 20, WORDS, np.int32)
    # Beyond any sum of ROUNDS words, so that an unwritten element is seen.
    out = np.full(n, np.iinfo(np.int32).min, np.int32)
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (data, out, np.int32(stride)))


def _teaches(stride: int) -> str:
    degree = "no conflict" if stride == 1 else f"{stride} lanes meet in one bank and take {stride} wavefronts"
    return f"Shared-memory loads with stride {stride}: {degree}."


VARIANTS = ladder(
    Size("threads", (10_000, 1 << 18), default=1 << 15, test=300),
    *(step(bank_conflict, _teaches(stride), stride, name=str(stride)) for stride in (1, 2, 4, 8, 16, 32)),
)
