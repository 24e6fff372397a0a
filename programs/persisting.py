"""Persistence in L2: a table that is read again and again while data streams past it.

Each of four rounds reads the whole table, and then twice as much data that nobody reads again. Together they are more
than L2 holds, and what was used longest ago leaves first: when a round begins the table is gone, and `normal` reads it
from DRAM each time, though it would fit. The others say by a policy of their loads (`createpolicy`) what L2 is to do.
With evict_last a line persists, but only as many as the ways of L2 hold that are set aside for that, three of sixteen
unless the host says otherwise. `too_much` wants that for the whole table, whose lines push each other out in turn,
`kept` for a quarter of it. With evict_first, for the stream in `passing`, lines leave before any others.

    gpusim run persisting/normal --gpu tiny

In the report, compare the bytes read from DRAM and L2's hit rate: a quarter of all reads could hit. The usual size is
for the machine `tiny`, whose L2 has 1 MiB; an H200 shows the same at `--size 24576`.

Sums of integers, so bit-exact in any order. Without baselines: `validate/persisting` measures what policies do.
"""

from __future__ import annotations

import numpy as np

from gpusim.launch import CudaSource, Launch
from programs.variant import Kernel, Size, ladder, step

BLOCK, ROUNDS, TIMES = 256, 4, 2


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    table, stream, out, _ = launch.args
    once, past = (each.reshape(-1, out.size, 4).sum((0, 2), np.uint32) for each in (table, stream))
    return (np.uint32(ROUNDS) * once + past,)


def make(kernel: Kernel, kib: int, rng: np.random.Generator) -> Launch:
    words, blocks = kib * 256, kib // 32
    table, stream = (rng.integers(1, 256, words * times, np.uint32) for times in (1, TIMES * ROUNDS))
    return Launch(kernel, blocks, BLOCK, (table, stream, np.zeros(blocks * BLOCK, np.uint32), np.uint32(words)))


NORMAL, TOO_MUCH, KEPT, PASSING = (
    CudaSource(__name__, "cuda/persisting.cu", name) for name in ("normal", "too_much", "kept", "passing")
)
VARIANTS = ladder(
    Size("KiB of the table", (512, 24576), default=512, test=32, multiple=32, maximum=1 << 16),
    step(NORMAL, "A table and a stream do not fit L2 together: when the table is read again, it has left."),
    step(TOO_MUCH, "All of the table is to persist, more than L2 has set aside: it pushes itself out."),
    step(KEPT, "A quarter of the table is to persist, and does."),
    step(PASSING, "The stream leaves L2 before anything else, and the table stays."),
    outputs=(2,),
    recorded=False,
)
