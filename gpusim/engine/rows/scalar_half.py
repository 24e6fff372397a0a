"""Half precision on single values, for atomics: IEEE binary16 and bfloat16 as bits of an integer."""

import numpy as np

from gpusim.engine.state.jit import compiled
from isa import microops as M

HALF_NAN = 0x7FFF


@compiled
def half_value(bits, form):
    """The float64 with the value of a half; infinities and NaN included."""
    bits = np.int64(bits) & 0xFFFF
    mantissa_bits = 7 if form == M.HALF_BF16 else 10
    bias = 127 if form == M.HALF_BF16 else 15
    mantissa = bits & ((1 << mantissa_bits) - 1)
    exponent = (bits & 0x7FFF) >> mantissa_bits
    if exponent == 2 * bias + 1:
        size = np.float64(np.nan) if mantissa != 0 else np.float64(np.inf)
    elif exponent == 0:
        size = np.float64(mantissa) * 2.0 ** (1 - bias - mantissa_bits)
    else:
        size = np.float64(mantissa + (1 << mantissa_bits)) * 2.0 ** (exponent - bias - mantissa_bits)
    return -size if bits & 0x8000 else size


@compiled
def half_bits(value, form):
    """Bits of the half nearest to a float64, ties to even; NaN is 0x7fff."""
    value = np.float64(value)
    if np.isnan(value):
        return np.int64(HALF_NAN)
    mantissa_bits = 7 if form == M.HALF_BF16 else 10
    bias = 127 if form == M.HALF_BF16 else 15
    word = value.view(np.int64)
    sign = np.int64(0x8000) if word < 0 else np.int64(0)
    infinity = np.int64(0x7F80) if form == M.HALF_BF16 else np.int64(0x7C00)
    size = abs(value)
    if size < 2.0 ** (1 - bias):
        return sign | np.int64(np.rint(size * 2.0 ** (bias - 1 + mantissa_bits)))
    shift = 52 - mantissa_bits
    word &= 0x7FFFFFFFFFFFFFFF
    word = (word + (np.int64(1) << (shift - 1)) - 1 + ((word >> shift) & 1)) >> shift
    return sign | min(word - (np.int64(1023 - bias) << mantissa_bits), infinity)


@compiled
def combine_half(op, form, old, value):
    """New bits of one half: sum, minimum or maximum; a number wins against NaN, -0 is below +0."""
    a = half_value(old, form)
    b = half_value(value, form)
    if op == M.ATOMIC_ADD:
        return half_bits(a + b, form)
    if np.isnan(a) and np.isnan(b):
        return np.int64(HALF_NAN)
    old_first = a < b or (a == b and np.int64(old) & 0x8000 != 0)
    keeps = np.isnan(b) or (not np.isnan(a) and old_first == (op == M.ATOMIC_MIN))
    return (np.int64(old) if keeps else np.int64(value)) & 0xFFFF


@compiled
def combine_halves(op, form, old, value):
    """Combine both halves of a 32-bit word by combine_half."""
    old = np.int64(old)
    value = np.int64(value)
    lower = combine_half(op, form, old, value)
    return np.uint32(lower | (combine_half(op, form, old >> 16, value >> 16) << 16))
