"""Access patterns: the same words moved, in an order that global memory likes or does not.

A request of a warp is served in sectors of 32 bytes. `contiguous`, `offset` and `strided` are one kernel that copies
`dst[i] = src[i * stride + start]`: 4 sectors per load request, 5 if the warp begins one word off (seven warps of eight
find the fifth in L1, so DRAM reads no more for it), 32 if there are eight words from lane to lane, each sector fetched
for one word of it. `structures` adds four of the eight fields of each record (array of structures: a request takes 32
sectors, which L1 keeps for the other three fields); `fields` has each field in a row of its own (structure of arrays:
four sectors, and the fields not asked for stay in memory). `gather` reads words in random order, `scatter_add` adds to
random words with integer atomics, eight for each.

In the report, follow sectors per request, and DRAM bytes against the bytes that the program needs.

Copies, and sums of integers: bit-exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ceil_div, ladder, step

BLOCK = 256
FIELDS = 8
"""Words per record, and per bin of `scatter_add`."""


def copy(src, dst, stride, start):
    i = cuda.grid(1)
    if i < dst.size:
        dst[i] = src[i * stride + start]


def structures(records, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = records[i, 0] + records[i, 1] + records[i, 2] + records[i, 3]


def fields(records, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = records[0, i] + records[1, i] + records[2, i] + records[3, i]


def gather(src, index, dst):
    i = cuda.grid(1)
    if i < dst.size:
        dst[i] = src[index[i]]


def scatter_add(values, index, sums):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(sums, index[i], values[i])


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator, stride: int = 1, start: int = 0) -> Launch:
    def words(*shape: int) -> np.ndarray:
        # Below 2**24, so that sums of eight stay far from the sign.
        return rng.integers(1, 1 << 24, shape, np.int32)

    out = np.full(n, -1, np.int32)
    args: tuple
    if kernel is copy:
        args = words(n * stride + start), out, np.int32(stride), np.int32(start)
    elif kernel is gather:
        args = words(n), rng.integers(0, n, n, np.int32), out
    elif kernel is scatter_add:
        # Sums are added to what is there, so they start at zero; each is added to eight times, or nearly.
        bins = ceil_div(n, FIELDS)
        index = rng.permutation(n).astype(np.int32) % np.int32(bins)
        args = words(n), index, np.zeros(bins, np.int32)
    else:
        args = words(n, FIELDS) if kernel is structures else words(FIELDS, n), out
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, args)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    first, second, *rest = launch.args
    if launch.kernel is copy:
        stride, start = rest
        return (first[start :: int(stride)][: second.size].copy(),)
    if launch.kernel is gather:
        return (first[second],)
    if launch.kernel is scatter_add:
        # Doubles hold sums of integers exactly up to 2**53.
        return (np.bincount(second, weights=first, minlength=rest[0].size).astype(np.int32),)
    records = first if launch.kernel is structures else first.T
    return (records[:, :4].sum(1, dtype=np.int32),)


_INDEXED = {"outputs": (2,)}
VARIANTS = ladder(
    Size("elements", (1 << 17, 1 << 21), default=1 << 18, test=600, maximum=1 << 24),
    step(copy, "Neighbouring words: four sectors to a request.", 1, 0, name="contiguous"),
    step(copy, "Starting one word off asks L1 for a fifth sector.", 1, 1, name="offset"),
    step(copy, "Every eighth word: a sector fetched for each word.", 8, 0, name="strided"),
    step(structures, "An array of structures fetches the fields nobody asked for."),
    step(fields, "A structure of arrays reads the fields it needs, contiguously."),
    step(gather, "Words in random order: a sector, and a miss, for each.", **_INDEXED),
    step(scatter_add, "Atomics on random words: L2 adds, a sector for each.", **_INDEXED),
)
