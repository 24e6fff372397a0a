"""Operands of the recorded matrix products, made by integer arithmetic alone so that they are the same everywhere."""

import numpy as np

FLOATS = {
    "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2),
}  # fmt: skip
BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
    "b1": 1, "s32": 32,
}  # fmt: skip
MODES = ("near", "wide", "any", "spread")
WARPS = {"near": 16, "wide": 16, "any": 8, "spread": 16}
"""Warps that were run for each mode; an operand array holds all of them."""


def mixed(seed: int, count: int) -> np.ndarray:
    """`count` 64-bit words of SplitMix64 (Steele, Lea and Flood, 2014) from a position that `seed` names."""
    with np.errstate(over="ignore"):
        position = np.arange(count, dtype=np.uint64) + np.uint64((seed << 24) & 0xFFFFFFFFFFFF)
        z = position * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def elements(seed: int, count: int, kind: str, mode: str) -> np.ndarray:
    """Bit patterns of `count` elements as uint64.

    mode: exponents of 'near' floats lie within 1 of zero, of 'spread' ones within 6, of 'wide' ones almost anywhere;
    'any' takes every pattern, NaN and infinity among them.
    """
    r = mixed(seed, count)
    bits = BITS[kind]
    if kind not in FLOATS or mode == "any":
        value = r >> np.uint64(64 - bits)
        if kind == "s32" and mode == "near":
            value = (value & np.uint64(0xFFFFF)) - np.uint64(0x80000) & np.uint64(0xFFFFFFFF)
        return value
    exponent_bits, fraction_bits = FLOATS[kind]
    bias, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    half = {"near": 1, "spread": 6, "wide": min(bias - 1, 20)}[mode]
    low, high = (0, top - 1) if mode == "wide" and exponent_bits <= 5 else (bias - half, bias + half)
    low, high = max(low, 0), min(high, top - 1)
    exponent = (r >> np.uint64(40)) % np.uint64(high - low + 1) + np.uint64(low)
    fraction = mixed(seed + 7919, count) & np.uint64((1 << fraction_bits) - 1)
    sign = (r >> np.uint64(63)) << np.uint64(bits - 1)
    return sign | (exponent << np.uint64(fraction_bits)) | fraction


def packed(seed: int, words: int, kind: str, mode: str) -> np.ndarray:
    """`words` 32-bit words full of elements."""
    bits = BITS[kind]
    if bits == 64:
        return elements(seed, words // 2, kind, mode).view(np.uint32)
    per = 32 // bits
    values = elements(seed, words * per, kind, mode).reshape(words, per)
    shifts = np.arange(per, dtype=np.uint64) * np.uint64(bits)
    return np.bitwise_or.reduce(values << shifts, axis=1).astype(np.uint32)


def metadata(seed: int, words: int, kind: str) -> np.ndarray:
    """Selectors of a structured sparse A: each nibble names two of four positions in ascending order."""
    choices = np.array([4, 14] if kind == "tf32" else [4, 8, 12, 9, 13, 14], np.uint64)
    nibbles = choices[(mixed(seed, words * 8) >> np.uint64(33)) % np.uint64(len(choices))].reshape(words, 8)
    shifts = np.arange(8, dtype=np.uint64) * np.uint64(4)
    return np.bitwise_or.reduce(nibbles << shifts, axis=1).astype(np.uint32)
