"""Floating-point building blocks on rows: canonical NaNs, flushing, saturation and rounding toward a direction.

Directed rounding is exact. The value is first represented without error as a sum of two doubles, `upper + lower` with
`upper` the nearest double (TwoSum: Knuth, "The Art of Computer Programming" vol. 2, 4.2.2); rounded to nearest; and
moved by one unit in the last place if that went to the wrong side.
"""

import numpy as np

from gpusim.engine.rows.lanes import (
    as_f32,
    as_u32,
    ceil32,
    ceil64,
    equal,
    equal_f64,
    floor32,
    floor64,
    less_f32,
    less_f64,
    less_s,
    nearest32,
    nearest64,
    select,
    splat,
    splat_f32,
    splat_f64,
    to_f32,
    to_f64,
    truncate32,
    truncate64,
    unordered_f32,
)
from gpusim.engine.state.jit import compiled
from isa import microops as m

CANONICAL_NAN = (
    0x7FFFFFFF  # CUDA C++ Programming Guide: what every single-precision operation returns for NaN
)
SIGN = 0x80000000
NO_LANES = np.uint32(0)  # typed, because a plain 0 would make the masks signed and then floating point


@compiled
def canonical(value):
    """Bits of an f32 row with every NaN made canonical."""
    return select(unordered_f32(value, value), splat(CANONICAL_NAN), as_u32(value))


@compiled
def flushed(bits):
    """Bits of an f32 row with denormal numbers replaced by zeros of the same sign."""
    denormal = equal(bits & splat(0x7F800000), splat(0))
    return select(denormal, bits & splat(SIGN), bits)


@compiled
def zeroed(a, b):
    """.FMZ: two rows of f32 bits, both +0 where one is zero, so that zero times anything (a NaN too) is zero."""
    zero = equal(a & splat(~SIGN), splat(0)) | equal(b & splat(~SIGN), splat(0))
    return select(zero, splat(0), a), select(zero, splat(0), b)


@compiled
def saturated(bits):
    """Bits of an f32 row limited to [0, 1]; NaN and -0 become +0 (PTX manual, .sat)."""
    value = as_f32(bits)
    positive = less_f32(splat_f32(0.0), value)
    return select(positive, select(less_f32(splat_f32(1.0), value), splat(0x3F800000), bits), splat(0))


@compiled
def sum_error(x, y, total):
    """What x + y lost when it was rounded to `total`; f64 rows, or numbers."""
    y_part = total - x
    x_part = total - y_part
    return (x - x_part) + (y - y_part)


@compiled
def step(bits, up, down, rounding, unit=1):
    """Correct a result rounded to nearest: the exact value is above it in lanes `up`, below it in lanes `down`.

    Adding one to the bits of a float moves it away from zero by one unit in the last place; `unit` is that one.
    """
    negative = less_s(bits, splat(0))
    if rounding == m.ROUND_UP:
        away, toward = up & ~negative, up & negative
    elif rounding == m.ROUND_DOWN:
        away, toward = down & negative, down & ~negative
    else:
        away, toward = NO_LANES, (down & ~negative) | (up & negative)
    return select(toward, bits - splat(unit), select(away, bits + splat(unit), bits))


@compiled
def round_to_f32(upper, lower, rounding):
    """Bits of the f32 nearest to, or next in a direction from, the exact sum of two f64 rows."""
    nearest = to_f32(upper)
    bits = canonical(nearest)
    if rounding == m.ROUND_NEAREST:
        return bits
    back = to_f64(nearest)
    zero = splat_f64(0.0)
    same = equal_f64(back, upper)
    up = less_f64(back, upper) | (same & less_f64(zero, lower))
    down = less_f64(upper, back) | (same & less_f64(lower, zero))
    return step(bits, up, down, rounding)


@compiled
def negative_zero_sum(bits, total, x_bits, y_bits):
    """Rounding down, an exact zero `total` (an f64 row) is -0 unless both addends are +0 (IEEE 754-2019, 6.3)."""
    zero = equal_f64(total, splat_f64(0.0))
    signed = less_s(x_bits | y_bits, splat(0))
    return select(zero & signed, splat(SIGN), bits)


@compiled
def integral32(value, rounding):
    """An f32 row rounded to integers in f32."""
    if rounding == m.ROUND_DOWN:
        return floor32(value)
    if rounding == m.ROUND_UP:
        return ceil32(value)
    if rounding == m.ROUND_ZERO:
        return truncate32(value)
    return nearest32(value)


@compiled
def integral64(value, rounding):
    """An f64 row rounded to integers in f64."""
    if rounding == m.ROUND_DOWN:
        return floor64(value)
    if rounding == m.ROUND_UP:
        return ceil64(value)
    if rounding == m.ROUND_ZERO:
        return truncate64(value)
    return nearest64(value)


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
