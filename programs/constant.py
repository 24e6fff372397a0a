"""Constant memory: one word for all lanes is a broadcast, different words are served one after the other.

Each thread adds up table entries, each time the next one from a start of its own. All variants are the same machine
code: with `broadcast` the lanes of a warp start at one place, so each constant load (LDC) asks for one word; with
`ways4` at four places, and with `ways32` at 32. The constant cache gives a warp one word at a time: in the report,
executed instructions stay the same while cycles grow with the number of words (an H200 takes 10,026, 22,202 and
137,394 for 262,144 threads). A table that lanes index differently belongs in shared or global memory.

Integers, so bit-exact.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Size, ceil_div, ladder, step

BLOCK = 128
ENTRIES = 512
ROUNDS = 32
TABLE = np.random.default_rng(20).integers(1, 1 << 20, ENTRIES, np.int32)
"""Part of the program, not of its inputs: constant memory is filled when the kernel is loaded."""


def constant(start, out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    if i < out.size:
        at = start[i]
        total = np.int32(0)
        for _ in range(ROUNDS):
            total = np.int32(total + table[at & (ENTRIES - 1)])
            at = np.int32(at + 1)
        out[i] = total


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    start, out = launch.args
    total = np.zeros(out.size, np.int32)
    for k in range(ROUNDS):
        total += TABLE[(start + k) % ENTRIES]
    return (total,)


def make(kernel: Kernel, n: int, rng: np.random.Generator, ways: int) -> Launch:
    # One random place per warp; its lanes start `ways` different entries from there, 16 apart.
    place = rng.integers(0, ENTRIES, ceil_div(n, 32), np.int32)
    lane = np.arange(n, dtype=np.int32) % ways
    start = np.repeat(place, 32)[:n] + lane * np.int32(16)
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, (start, np.full(n, -1, np.int32)))


VARIANTS = ladder(
    Size("threads", (1 << 15, 1 << 18), default=1 << 15, test=150, maximum=1 << 22),
    step(constant, "A constant that all lanes ask for is one word of the constant cache.", 1, name="broadcast"),
    step(constant, "Four different constants take four turns.", 4, name="ways4"),
    step(constant, "A different constant for each lane: the constant cache serves them one by one.", 32, name="ways32"),
)
