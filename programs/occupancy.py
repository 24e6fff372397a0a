"""Occupancy: more warps on an SM hide more latency.

Every warp follows chains of words through 8 MiB, one load after the other, each lane in its own chain but all lanes of
a warp in one line of 128 bytes. A warp that waits for L2 leaves its scheduler to the others, if there are any: shared
memory decides how many. All variants are the same machine code, which uses none; the launch asks for as much as
leaves room for `4`, `8` or `16` blocks of four warps on an SM. In the report, compare theoretical and achieved
occupancy, the limit that shared memory sets, and cycles: they fall with the number of resident blocks, until the
throughput of L2 is the limit. A grid of few blocks leaves SMs unoccupied whatever the limit.

Results are indices, so bit-exact.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Kernel, Rung, Size, ladder, step

BLOCK = 128
LINE = 32
"""Words in a line of 128 bytes."""
LINES = 1 << 16
STEPS = 16
SHARED = {4: 48 << 10, 8: 27 << 10, 16: 0}
"""Bytes to ask for by resident blocks: an SM has 228 KiB, and keeps 1 KiB of it per block."""


def occupancy(follow, out):
    i = cuda.grid(1)
    at = np.int32(i & (LINES * LINE - 1))
    k = np.int32(0)
    while k < STEPS:
        at = follow[at]
        k = np.int32(k + 1)
    out[i] = at


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    follow, out = launch.args
    at = np.arange(out.size, dtype=np.int32) & (LINES * LINE - 1)
    for _ in range(STEPS):
        at = follow[at]
    return (at,)


def make(kernel: Kernel, blocks: int, rng: np.random.Generator, resident: int) -> Launch:
    after = rng.permutation(LINES).astype(np.int32)
    follow = (after[:, None] * LINE + np.arange(LINE, dtype=np.int32)).ravel()
    out = np.full(blocks * BLOCK, -1, np.int32)
    return Launch(kernel, blocks, BLOCK, (follow, out), shared_bytes=SHARED[resident])


def _step(resident: int) -> Rung:
    teaches = f"Room for {resident} blocks of four warps on each SM, as shared memory allows."
    return step(occupancy, teaches, resident, name=str(resident))


VARIANTS = ladder(Size("blocks", (528, 4224), default=2112, test=1, maximum=1 << 16), *map(_step, SHARED))
