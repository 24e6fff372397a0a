"""Questions that a whole warp answers at once: who agrees, and who holds the same.

`partition` moves the words below a limit to the front of each warp's 32, the others behind, in order: a ballot
tells every lane who has which, and counting the bits below its own is its place. No shared memory, no
barrier, no divergence. `match` counts keys: lanes with equal keys find each other (MATCH.ANY), and one of them does
one atomic for all. `one_by_one` does an atomic for every lane. In the report, compare executed instructions and
atomic requests and sectors; keys are few, so that atomics meet.

Integers, so bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

BLOCK = 256
KEYS = 8
LIMIT = 1 << 29
FULL = 0xFFFFFFFF
"""Every lane of the warp takes part."""


def partition(x, y):
    i = cuda.grid(1)
    lane = np.uint32(i & 31)
    value = x[i]
    small = np.uint32(cuda.ballot_sync(FULL, value < LIMIT))
    below = np.uint32(np.uint32(np.uint32(1) << lane) - np.uint32(1))
    if value < LIMIT:
        place = np.int32(cuda.popc(np.uint32(small & below)))
    else:
        place = np.int32(cuda.popc(small) + cuda.popc(np.uint32(~small & below)))
    y[i - np.int32(lane) + place] = value


def one_by_one(x, count):
    cuda.atomic.add(count, x[cuda.grid(1)] & (KEYS - 1), 1)


def match(x, count):
    i = cuda.grid(1)
    lane = np.uint32(i & 31)
    key = np.int32(x[i] & (KEYS - 1))
    same = np.uint32(cuda.match_any_sync(FULL, key))
    below = np.uint32(np.uint32(np.uint32(1) << lane) - np.uint32(1))
    if same & below == np.uint32(0):
        cuda.atomic.add(count, key, np.int32(cuda.popc(same)))


def _partitioned(launch: Launch) -> tuple[np.ndarray, ...]:
    x = launch.args[0].reshape(-1, 32)
    order = np.argsort(x >= LIMIT, axis=1, kind="stable")
    return (np.take_along_axis(x, order, axis=1).ravel(),)


def _counted(launch: Launch) -> tuple[np.ndarray, ...]:
    return (np.bincount(launch.args[0] % KEYS, minlength=KEYS).astype(np.int32),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    x = rng.integers(0, 1 << 30, n, np.int32)
    # Counts are added to what is there, so they start at zero.
    out = np.full(n, -1, np.int32) if kernel is partition else np.zeros(KEYS, np.int32)
    return Launch(kernel, n // BLOCK, BLOCK, (x, out))


VARIANTS = ladder(
    Size("elements", (1 << 14, 1 << 19), default=1 << 16, test=BLOCK, multiple=BLOCK),
    step(partition, "A ballot and a count of bits give every lane its place.", reference=_partitioned),
    step(one_by_one, "An atomic for every lane, on few addresses."),
    step(match, "Lanes with equal keys find each other and do one atomic together."),
    reference=_counted,
)
