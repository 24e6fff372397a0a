"""Operands for the corpus: reproducible, half of them values at which instructions behave specially."""

from __future__ import annotations

import zlib

import numpy as np

THREADS = 64
BYTES = 64  # of operands, and of results, of one thread
_SIZES = {"h": 2, "r": 4, "l": 8, "f": 4, "d": 8, "q": 16, "p": 4}
_HALVES = (
    0, 1, 2, 7, 15, 16, 31, 0x7F, 0x80, 0xFF, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x3800, 0x3E00, 0x4500, 0x5640, 0x7BFF,
    0x7C00, 0x7C01, 0x7E00, 0x7FFF, 0x8000, 0x8001, 0x83FF, 0xC248, 0xFBFF, 0xFC00, 0xFE00, 0xFFFF, 0x3F80, 0xBF80,
    0x4000, 0x4048, 0x42FF, 0x4300, 0x7F7F, 0x7F80, 0x7FC0, 0xFF80, 0x0080, 0x007F, 0xC2FE,
)  # fmt: skip
_WORDS = (
    0, 1, 2, 3, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
    0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFF80, 0xFFFF8000, 0x01020304, 0xFF7F80FE,
)  # fmt: skip
_SINGLES = (
    0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000, 0x3F000000, 0x3FC00000,
    0x40200000, 0xC0200000, 0x3EFFFFFF, 0x4B000000, 0x4AFFFFFF, 0x437F8000, 0x42FF0000, 0xC3008000, 0x46FFFF00,
    0x477FE000, 0x477FF000, 0x43E00000, 0x43E80000, 0x47600000, 0x47800000, 0x387FC000, 0x33000000, 0x33800000,
    0x3C800000, 0x3B000000, 0x3A800001, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0x4F7FFFFF, 0x4F800000, 0x5F000000,
    0x5F800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FFFFFFF, 0x7F800001, 0xFFC12345,
)  # fmt: skip
_DOUBLES = (
    0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 2.225073858507201e-308, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5,
    0.49999999999999994, 255.5, 127.5, 65504.0, 65520.0, 65519.99, 6e-8, 2.0**-25, 2.0**-24, 2147483647.5,
    -2147483648.5, 4294967295.5, 9.223372036854775e18, 1.8446744073709552e19, 3.4028234663852886e38,
    3.4028235677973366e38, 1e-45, 7e-46, 1.7976931348623157e308, -1.7976931348623157e308, np.inf, -np.inf,
    np.nan, 3.141592653589793, 1e100, 1e-100,
)  # fmt: skip


def _values(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` operands of a class as bytes [count, size]."""
    size = _SIZES[kind]
    plain = rng.integers(0, 256, (count, size), np.uint8)
    if kind == "p":
        return np.repeat(rng.integers(0, 2, (count, 1), np.uint8), 4, axis=1)
    if kind == "q":
        return plain
    if kind == "h":
        special = rng.choice(np.array(_HALVES, np.uint16), count)
    elif kind == "r":
        special = rng.choice(np.array(_WORDS, np.uint32), count)
    elif kind == "f":
        plain = (rng.standard_normal(count) * 2.0 ** rng.integers(-12, 13, count)).astype(np.float32)
        special = rng.choice(np.array(_SINGLES, np.uint32), count)
    elif kind == "d":
        plain = rng.standard_normal(count) * 2.0 ** rng.integers(-40, 41, count)
        special = rng.choice(np.array(_DOUBLES), count)
    else:
        special = rng.choice(np.array(_WORDS, np.uint64), count) << rng.choice(
            np.array([0, 0, 31, 32], np.uint64), count
        )
        special = np.where(rng.random(count) < 0.3, ~special, special)
    as_bytes = [np.ascontiguousarray(each).view(np.uint8).reshape(count, size) for each in (plain, special)]
    return np.where(rng.random((count, 1)) < 0.5, *as_bytes)


def operands(classes: str, seed: int = 0) -> np.ndarray:
    """What the threads read: uint8 [THREADS, BYTES]; operands by `operand_classes`, values of the first class after."""
    rng = np.random.default_rng(zlib.crc32(classes.encode()) + seed)
    fill = classes[0] if classes and classes[0] not in "qp" else "r"
    memory = _values(fill, THREADS * BYTES // _SIZES[fill], rng).reshape(THREADS, BYTES)
    at = 0
    for kind in classes:
        size = _SIZES[kind]
        at = -(-at // size) * size
        memory[:, at : at + size] = _values(kind, THREADS, rng)
        at += size
    return memory
