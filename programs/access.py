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


def _words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    # Below 2**24, so that sums of eight stay far from the sign.
    return rng.integers(1, 1 << 24, shape, np.int32)


def _poison(n: int) -> np.ndarray:
    return np.full(n, -1, np.int32)


def _make_copy(stride: int, start: int) -> Callable[[int, np.random.Generator], tuple]:
    def make(n: int, rng: np.random.Generator) -> tuple:
        return _words(rng, n * stride + start), _poison(n), np.int32(stride), np.int32(start)

    return make


def _make_structures(n: int, rng: np.random.Generator) -> tuple:
    return _words(rng, n, FIELDS), _poison(n)


def _make_fields(n: int, rng: np.random.Generator) -> tuple:
    return _words(rng, FIELDS, n), _poison(n)


def _make_gather(n: int, rng: np.random.Generator) -> tuple:
    return _words(rng, n), rng.integers(0, n, n, np.int32), _poison(n)


def _make_scatter(n: int, rng: np.random.Generator) -> tuple:
    # Sums are added to what is there, so they start at zero; each is added to eight times, or nearly.
    index = rng.permutation(n).astype(np.int32) % np.int32(ceil_div(n, FIELDS))
    return _words(rng, n), index, np.zeros(ceil_div(n, FIELDS), np.int32)


def _copied(launch: Launch) -> tuple[np.ndarray, ...]:
    src, dst, stride, start = launch.args
    return (src[start :: int(stride)][: dst.size].copy(),)


def _added_structures(launch: Launch) -> tuple[np.ndarray, ...]:
    return (launch.args[0][:, :4].sum(1, dtype=np.int32),)


def _added_fields(launch: Launch) -> tuple[np.ndarray, ...]:
    return (launch.args[0][:4].sum(0, dtype=np.int32),)


def _gathered(launch: Launch) -> tuple[np.ndarray, ...]:
    src, index, _ = launch.args
    return (src[index],)


def _scattered(launch: Launch) -> tuple[np.ndarray, ...]:
    values, index, sums = launch.args
    # Doubles hold sums of integers exactly up to 2**53.
    return (np.bincount(index, weights=values, minlength=sums.size).astype(np.int32),)


def make(
    kernel: Callable[..., None],
    n: int,
    rng: np.random.Generator,
    arguments: Callable[[int, np.random.Generator], tuple],
) -> Launch:
    return Launch(kernel, ceil_div(n, BLOCK), BLOCK, arguments(n, rng))


VARIANTS = ladder(
    Size("elements", (1 << 17, 1 << 21), default=1 << 18, test=600, maximum=1 << 24),
    make,
    _copied,
    step(copy, "Neighbouring words: four sectors to a request.", _make_copy(1, 0), name="contiguous"),
    step(copy, "Starting one word off asks L1 for a fifth sector.", _make_copy(1, 1), name="offset"),
    step(copy, "Every eighth word: a sector fetched for each word.", _make_copy(8, 0), name="strided"),
    step(
        structures,
        "An array of structures fetches the fields nobody asked for.",
        _make_structures,
        reference=_added_structures,
    ),
    step(
        fields,
        "A structure of arrays reads the fields it needs, contiguously.",
        _make_fields,
        reference=_added_fields,
    ),
    step(
        gather,
        "Words in random order: a sector, and a miss, for each.",
        _make_gather,
        reference=_gathered,
        outputs=(2,),
    ),
    step(
        scatter_add,
        "Atomics on random words: L2 adds, a sector for each.",
        _make_scatter,
        reference=_scattered,
        outputs=(2,),
    ),
)
