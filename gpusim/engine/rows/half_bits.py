"""Half precision (IEEE binary16) and bfloat16 on rows: a half is the low 16 bits of a u32 row."""

from gpusim.engine.rows.float_bits import round_to_f32, step
from gpusim.engine.rows.lanes import (
    as_f32,
    as_u32,
    equal,
    equal_f64,
    f32_to_half,
    half_to_f32,
    less_f32,
    less_f64,
    select,
    shr,
    splat,
    splat_f32,
    splat_f64,
    to_f64,
    unordered_f32,
)
from gpusim.engine.state.jit import compiled
from isa import microops as m

HALF_NAN = 0x7FFF  # the canonical NaN of both formats (PTX manual, fma.f16 and fma.bf16)


@compiled
def from_half(bits, form, modifier):
    """An f32 row from the low halves of `bits`, with MOD_FNEG and MOD_FABS applied."""
    if modifier & m.MOD_FABS:
        bits = bits & splat(0x7FFF)
    if modifier & m.MOD_FNEG:
        bits = bits ^ splat(0x8000)
    if form == m.HALF_BF16:
        return as_f32(bits << splat(16))
    return half_to_f32(bits & splat(0xFFFF))


@compiled
def flushed_half_bits(bits, form):
    """Halves with denormal numbers replaced by zeros of the same sign."""
    exponent = splat(0x7F80 if form == m.HALF_BF16 else 0x7C00)
    return select(equal(bits & exponent, splat(0)), bits & splat(0x8000), bits)


@compiled
def to_half(value, form):
    """Halves nearest to an f32 row, ties to even."""
    if form == m.HALF_BF16:
        bits = as_u32(value)
        rounded = shr(bits + splat(0x7FFF) + (shr(bits, splat(16)) & splat(1)), splat(16))
    else:
        rounded = f32_to_half(value)
    return select(unordered_f32(value, value), splat(HALF_NAN), rounded)


@compiled
def odd_f32(upper, lower):
    """The exact sum of two f64 rows, cut to f32 with the last bit set if anything was lost.

    Rounding such a value once more, to a format with at least two bits less, gives what rounding the exact value
    gives (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    bits = round_to_f32(upper, lower, m.ROUND_ZERO)
    back = to_f64(as_f32(bits))
    exact = equal_f64(back, upper) & equal_f64(lower, splat_f64(0.0))
    special = equal(bits & splat(0x7F800000), splat(0x7F800000))
    return as_f32(select(exact | special, bits, bits | splat(1)))


@compiled
def limited(value, modes):
    """FLAG_RELU and FLAG_SAT on an f32 row before it becomes a half; a NaN stays (RELU) or becomes 0 (SAT)."""
    zero = splat_f32(0.0)
    if modes & m.FLAG_RELU:
        value = select(less_f32(zero, value) | unordered_f32(value, value), value, zero)
    if modes & m.FLAG_SAT:
        one = splat_f32(1.0)
        value = select(less_f32(zero, value), select(less_f32(one, value), one, value), zero)
    return value


@compiled
def to_half_down(value, form):
    """Halves cut toward zero: one step back where the nearest half is the larger."""
    nearest = to_half(value, form)
    size = as_f32(as_u32(value) & splat(0x7FFFFFFF))
    too_large = less_f32(size, from_half(nearest, form, m.MOD_FABS))
    return select(too_large, nearest - splat(1), nearest)


@compiled
def to_half_directed(upper, lower, form, rounding):
    """Halves next to the exact sum of two f64 rows, in any rounding direction; a NaN becomes 0x7fff."""
    nearest = to_half(odd_f32(upper, lower), form)
    if rounding == m.ROUND_NEAREST:
        return nearest
    back = to_f64(from_half(nearest, form, m.MOD_NONE))
    zero = splat_f64(0.0)
    same = equal_f64(back, upper)
    up = less_f64(back, upper) | (same & less_f64(zero, lower))
    down = less_f64(upper, back) | (same & less_f64(lower, zero))
    # The sign of a half is not that of the row: shifted up, the bits step as float32 do.
    return shr(step(nearest << splat(16), up, down, rounding, 1 << 16), splat(16))
