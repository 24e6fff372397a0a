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
from programs.variant import Variant, check_size

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


def _variant(resident: int) -> Variant:
    def make(size: int, seed: int) -> Launch:
        blocks = check_size(size, "blocks", maximum=1 << 16)
        after = np.random.default_rng(seed).permutation(LINES).astype(np.int32)
        follow = (after[:, None] * LINE + np.arange(LINE, dtype=np.int32)).ravel()
        out = np.full(blocks * BLOCK, -1, np.int32)
        return Launch(occupancy, blocks, BLOCK, (follow, out), shared_bytes=SHARED[resident])

    return Variant(
        name=f"occupancy/{resident}",
        kernel=occupancy,
        teaches=f"Room for {resident} blocks of four warps on each SM, as shared memory allows.",
        make=make,
        reference=reference,
        outputs=(1,),
        sizes=(528, 4224),
        default_size=2112,
        test_size=1,
        size_name="blocks",
    )


VARIANTS = tuple(_variant(resident) for resident in SHARED)
