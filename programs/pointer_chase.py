"""Pointer chase: each load gives the address of the next, so nothing hides the latency of memory.

One warp follows a random cycle over lines of 128 bytes, each lane its own word of the line. Only the working set
differs: 16 KiB are read in the first 128 steps and stay in L1, while in 64 MiB every step is the first to touch
its line and goes to DRAM. `l2` needs its 1 MiB near before the chase begins: a block of 1024 threads reads all of
it once, which leaves the last fifth in L1 and everything in L2. In the report of the large size, divide cycles by
steps for the latency (for `l2`, the difference of both sizes by the difference of steps), and look at the hit rates
and at the long-scoreboard stall, which is nearly all the time there is.

Results are indices, so bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

WARP = 32
READERS = 1024
"""Threads that bring the working set to L2."""
LINE = 32
"""Words in a line of 128 bytes."""


def pointer_chase(follow, out, steps):
    i = cuda.grid(1)
    at = np.int32(i & (follow.size - 1))
    k = np.int32(0)
    while k < steps:
        at = follow[at]
        k = np.int32(k + 1)
    out[i] = at


def read_first(follow, out, steps):
    i = cuda.grid(1)
    found = np.int32(0)
    k = i
    while k < follow.size:
        # Eight loads under way at once: bringing the lines must not take longer than the chase.
        for j in range(8):
            found = max(found, follow[k + j * READERS])
        k += 8 * READERS
    # Follows from all loads, so none is left out; never true, since indices are smaller.
    if found == follow.size:
        out[0] = found
    cuda.syncthreads()
    if i < WARP:
        at = np.int32(i)
        k = 0
        while k < steps:
            at = follow[at]
            k += 1
        out[i] = at


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    follow, out, steps = launch.args
    at = np.arange(out.size, dtype=np.int32) & (follow.size - 1)
    for _ in range(steps):
        at = follow[at]
    return (at,)


def make(kernel: Callable[..., None], steps: int, rng: np.random.Generator, lines: int) -> Launch:
    order = rng.permutation(lines).astype(np.int32)
    after = np.empty(lines, np.int32)
    after[order] = np.roll(order, -1)
    follow = (after[:, None] * LINE + np.arange(LINE, dtype=np.int32)).ravel()
    threads = WARP if kernel is pointer_chase else READERS
    return Launch(kernel, 1, threads, (follow, np.full(WARP, -1, np.int32), np.int32(steps)))


VARIANTS = ladder(
    Size("steps", (32, 1024), default=256, test=16, maximum=1 << 12),
    step(pointer_chase, "A working set of 16 KiB: after the first round every step hits L1.", 1 << 7, name="l1"),
    step(read_first, "A working set of 1 MiB, read before: most steps miss L1 and hit L2.", 1 << 13, name="l2"),
    step(pointer_chase, "A working set of 64 MiB: every step misses all caches, to DRAM.", 1 << 19, name="dram"),
)
