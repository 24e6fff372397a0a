"""What recorded instructions are given: 64 lanes of eight words, R12..R15 and R4..R7, for each family of operands.

About half of the values are the ones at which arithmetic has its corners: both zeros, denormals, infinities, quiet and
signalling NaN with payloads, powers of two and their neighbours, shift counts beyond the width.
"""

from __future__ import annotations

import numpy as np

LANES = 64
FAMILIES = ("word", "double", "half", "uniform", "memory")
_WORDS = (
    0, 1, 2, 3, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF,
    0xFFFFFFFE, 0x3F800000, 0xBF800000, 0x00800000, 0x007FFFFF, 0x80800000, 0x807FFFFF, 0x7F800000, 0xFF800000,
    0x7FC00000, 0x7F800001, 0xFFC12345, 0xFF81ABCD, 0x7F7FFFFF, 0xFF7FFFFF, 0x4B000000, 0x4B000001, 0x4EFFFFFF,
    0x4F000000, 0xCF000000, 0x4F800000, 0x5F000000, 0xDF000000, 0x5F800000, 0x3F000000, 0x3EFFFFFF, 0x3FC00000,
    0xBFC00000, 0x42FF0000, 0x437F8000, 0x477FE000, 0x477FF000, 0x33800000, 0x38800000, 0x387FC000, 0x3F7FFFFF,
    0x42FE0000, 0xC2FC0000, 0xC3160000, 0x40490FDB, 0x47C35000, 31, 32, 33, 63, 64, 65, 0x100,
)  # fmt: skip
_DOUBLES = (
    0, 1 << 63, 1, 1 << 63 | 1, 0x3FF0000000000000, 0xBFF0000000000000, 0x000FFFFFFFFFFFFF, 0x0010000000000000,
    0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
    0x7FF0000000000001, 0xFFF8DEAD00000001, 0xFFF4000012345678, 0x3CA0000000000000, 0x1FF0000000000000,
    0x5FF0000000000000, 0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000000000, 0xC1E0000000200000,
    0x41EFFFFFFFE00000, 0x43E0000000000000, 0xC3E0000000000000, 0x43F0000000000000, 0x3FE0000000000000,
    0x3FDFFFFFFFFFFFFF, 0x3FF8000000000000, 0xC004000000000000, 0x405FE00000000000, 0x406FF00000000000,
    0x40DFFFE000000000, 0x40EFFFF000000000, 0x36A0000000000000, 0x369FFFFFFFFFFFFF, 0x380FFFFFE0000000,
    0x47EFFFFFE0000000, 0x47EFFFFFF0000000, 0x3810000000000000, 0x40EFFC0000000000, 0x7FFFFFFFFFFFFFFF,
)  # fmt: skip
_HALVES = (
    0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x83FF, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
    0x7E00, 0x7D01, 0xFE12, 0x7FFF, 0x3800, 0x3E00, 0xC100, 0x4200, 0x57F8, 0x5BFC, 0x77FF, 0x3F80, 0xBF80, 0x7F80,
    0xFF80, 0x7F7F, 0x7FC0, 0x7F81, 0x0080, 0x007F, 0x4300, 0x42FE, 0x4F00, 0x6400, 0x1400,
)  # fmt: skip


def operands(family: str) -> np.ndarray:
    """uint32 [LANES, 8]: R12..R15, R4..R7 of each lane; the same on every machine."""
    rng = np.random.default_rng(FAMILIES.index(family))
    if family == "double":
        values = _doubles(rng)
    elif family == "half":
        values = _halves(rng)
    else:
        values = _words(rng)
    if family == "memory":
        values[1::2, 4:6] = values[1::2, 0:2]  # a compare-and-swap succeeds in every second lane
        values[2::4, 5] ^= 1
    return values


def _mixed(rng: np.random.Generator, shape: tuple[int, ...], special: tuple[int, ...], top: int) -> np.ndarray:
    drawn = rng.integers(0, top, shape, np.uint64, endpoint=True)
    picked = rng.choice(np.array(special, np.uint64), shape)
    return np.where(rng.random(shape) < 0.55, picked, drawn)


def _words(rng: np.random.Generator) -> np.ndarray:
    values = _mixed(rng, (LANES, 8), _WORDS, 0xFFFFFFFF).astype(np.uint32)
    # Sums that cancel and round: b close to a, c close to the negated product.
    near = values[:, 0] ^ rng.integers(0, 64, LANES).astype(np.uint32) ^ np.uint32(1 << 31)
    values[8:24, 2] = near[8:24]
    x, y = (values[:, k].view(np.float32) for k in (0, 2))
    with np.errstate(all="ignore"):
        product = -(x * y)
    values[24:40, 4] = product.view(np.uint32)[24:40] ^ rng.integers(0, 4, 16).astype(np.uint32)
    values[40:56, 2] = rng.integers(0, 70, 16)
    values[48:64, 0] = (rng.normal(0, 40, 16).astype(np.float32)).view(np.uint32)
    return values


def _doubles(rng: np.random.Generator) -> np.ndarray:
    values = _mixed(rng, (LANES, 4), _DOUBLES, (1 << 64) - 1)
    values[8:24, 1] = values[8:24, 0] ^ rng.integers(0, 64, 16).astype(np.uint64) ^ np.uint64(1 << 63)
    x, y = (values[:, k].copy().view(np.float64) for k in (0, 1))
    with np.errstate(all="ignore"):
        product = -(x * y)
    values[24:40, 2] = product.view(np.uint64)[24:40] ^ rng.integers(0, 4, 16).astype(np.uint64)
    values[48:64, 1] = (rng.normal(0, 40000, 16)).view(np.uint64)
    pairs = np.ascontiguousarray(values).view(np.uint32).reshape(LANES, 8)
    pairs[:, 5] ^= rng.integers(0, 128, LANES).astype(np.uint32)  # the low bits are the predicates too
    return pairs


def _halves(rng: np.random.Generator) -> np.ndarray:
    halves = _mixed(rng, (LANES, 16), _HALVES, 0xFFFF).astype(np.uint16)
    halves[8:24, 4] = halves[8:24, 0] ^ 0x8000 ^ rng.integers(0, 4, 16).astype(np.uint16)
    return np.ascontiguousarray(halves).view(np.uint32).reshape(LANES, 8)
