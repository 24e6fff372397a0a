"""Floating-point building blocks on rows: canonical NaNs, flushing, saturation and rounding toward a direction.

Directed rounding is exact. The value is first represented without error as a sum of two doubles, `upper + lower` with
`upper` the nearest double (TwoSum: Knuth, "The Art of Computer Programming" vol. 2, 4.2.2); rounded to nearest; and
moved by one unit in the last place if that went to the wrong side.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.state.jit import compiled
from isa import microops as m

CANONICAL_NAN = 0x7FFFFFFF  # CUDA C++ Programming Guide: what every single-precision operation returns for NaN
SIGN = 0x80000000
NO_LANES = np.uint32(0)  # typed, because a plain 0 would make the masks signed and then floating point


@compiled
def canonical(value):
    """Bits of an f32 row with every NaN made canonical."""
    return V.select(V.unordered_f32(value, value), V.splat(CANONICAL_NAN), V.as_u32(value))


@compiled
def flushed(bits):
    """Bits of an f32 row with denormal numbers replaced by zeros of the same sign."""
    denormal = V.equal(bits & V.splat(0x7F800000), V.splat(0))
    return V.select(denormal, bits & V.splat(SIGN), bits)


@compiled
def zeroed(a, b):
    """.FMZ: two rows of f32 bits, both +0 where one is zero, so that zero times anything (a NaN too) is zero."""
    zero = V.equal(a & V.splat(~SIGN), V.splat(0)) | V.equal(b & V.splat(~SIGN), V.splat(0))
    return V.select(zero, V.splat(0), a), V.select(zero, V.splat(0), b)


@compiled
def saturated(bits):
    """Bits of an f32 row limited to [0, 1]; NaN and -0 become +0 (PTX manual, .sat)."""
    value = V.as_f32(bits)
    positive = V.less_f32(V.splat_f32(0.0), value)
    return V.select(positive, V.select(V.less_f32(V.splat_f32(1.0), value), V.splat(0x3F800000), bits), V.splat(0))


@compiled
def sum_error(x, y, total):
    """The part of x + y that was lost when it was rounded to `total`; f64 rows, or numbers."""
    y_part = total - x
    x_part = total - y_part
    return (x - x_part) + (y - y_part)


@compiled
def step(bits, negative, up, down, rounding, unit):
    """Correct a result rounded to nearest: the exact value is above it in lanes `up`, below it in lanes `down`.

    Adding one to the bits of a float moves it away from zero by one unit in the last place; `unit` is a row of that.
    """
    if rounding == m.ROUND_UP:
        away, toward = up & ~negative, up & negative
    elif rounding == m.ROUND_DOWN:
        away, toward = down & negative, down & ~negative
    else:
        away, toward = NO_LANES, (down & ~negative) | (up & negative)
    return V.select(toward, bits - unit, V.select(away, bits + unit, bits))


@compiled
def misses(rounded, upper, lower):
    """Lanes in which the exact sum of two f64 rows is above, and below, an f64 row that it was rounded to."""
    zero = V.splat_f64(0.0)
    same = V.equal_f64(rounded, upper)
    up = V.less_f64(rounded, upper) | (same & V.less_f64(zero, lower))
    return up, V.less_f64(upper, rounded) | (same & V.less_f64(lower, zero))


@compiled
def round_to_f32(upper, lower, rounding):
    """Bits of the f32 nearest to, or next in a direction from, the exact sum of two f64 rows."""
    nearest = V.to_f32(upper)
    bits = canonical(nearest)
    if rounding == m.ROUND_NEAREST:
        return bits
    up, down = misses(V.to_f64(nearest), upper, lower)
    return step(bits, V.less_s(bits, V.splat(0)), up, down, rounding, V.splat(1))


@compiled
def integral(value, rounding):
    """A row of f32 or f64 rounded to integers."""
    if rounding == m.ROUND_DOWN:
        return V.floor(value)
    if rounding == m.ROUND_UP:
        return V.ceil(value)
    if rounding == m.ROUND_ZERO:
        return V.truncate(value)
    return V.nearest(value)


@compiled
def compare_masks(less, equals, unordered, relation):
    """Lanes in which one of the relations of the COMPARE_* bits holds."""
    result = NO_LANES
    if relation & m.COMPARE_LT:
        result |= less
    if relation & m.COMPARE_EQ:
        result |= equals
    if relation & m.COMPARE_GT:
        result |= ~(less | equals | unordered)
    if relation & m.COMPARE_UNORDERED:
        result |= unordered
    return result


@compiled
def combined(first, second, operation):
    """AND, OR or XOR of two masks."""
    if operation == m.BOOL_AND:
        return first & second
    if operation == m.BOOL_OR:
        return first | second
    return first ^ second
