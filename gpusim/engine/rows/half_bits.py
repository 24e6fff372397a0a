"""Half precision (IEEE binary16) and bfloat16 on rows: a half is the low 16 bits of a u32 row."""

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.float_bits import misses, round_to_f32, step
from gpusim.engine.state.jit import compiled
from isa import microops as m

HALF_NAN = 0x7FFF  # the canonical NaN of both formats (PTX manual, fma.f16 and fma.bf16)


@compiled
def from_half(bits, form, modifier):
    """An f32 row from the low halves of `bits`, with MOD_FNEG and MOD_FABS applied."""
    if modifier & m.MOD_FABS:
        bits = bits & V.splat(0x7FFF)
    if modifier & m.MOD_FNEG:
        bits = bits ^ V.splat(0x8000)
    if form == m.HALF_BF16:
        return V.as_f32(bits << V.splat(16))
    return V.half_to_f32(bits & V.splat(0xFFFF))


@compiled
def flushed_half_bits(bits, form):
    """Halves with denormal numbers replaced by zeros of the same sign."""
    exponent = V.splat(0x7F80 if form == m.HALF_BF16 else 0x7C00)
    return V.select(V.equal(bits & exponent, V.splat(0)), bits & V.splat(0x8000), bits)


@compiled
def to_half(value, form):
    """Halves nearest to an f32 row, ties to even."""
    if form == m.HALF_BF16:
        bits = V.as_u32(value)
        rounded = V.shr(bits + V.splat(0x7FFF) + (V.shr(bits, V.splat(16)) & V.splat(1)), V.splat(16))
    else:
        rounded = V.f32_to_half(value)
    return V.select(V.unordered_f32(value, value), V.splat(HALF_NAN), rounded)


@compiled
def odd_f32(upper, lower):
    """The exact sum of two f64 rows, cut to f32 with the last bit set if anything was lost.

    Rounding such a value once more, to a format with at least two bits less, gives what rounding the exact value
    gives (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    bits = round_to_f32(upper, lower, m.ROUND_ZERO)
    back = V.to_f64(V.as_f32(bits))
    exact = V.equal_f64(back, upper) & V.equal_f64(lower, V.splat_f64(0.0))
    special = V.equal(bits & V.splat(0x7F800000), V.splat(0x7F800000))
    return V.as_f32(V.select(exact | special, bits, bits | V.splat(1)))


@compiled
def limited(value, modes):
    """FLAG_RELU and FLAG_SAT on an f32 row before it becomes a half; a NaN stays (RELU) or becomes 0 (SAT)."""
    zero = V.splat_f32(0.0)
    if modes & m.FLAG_RELU:
        value = V.select(V.less_f32(zero, value) | V.unordered_f32(value, value), value, zero)
    if modes & m.FLAG_SAT:
        one = V.splat_f32(1.0)
        value = V.select(V.less_f32(zero, value), V.select(V.less_f32(one, value), one, value), zero)
    return value


@compiled
def to_half_down(value, form):
    """Halves cut toward zero: one step back where the nearest half is the larger."""
    nearest = to_half(value, form)
    size = V.as_f32(V.as_u32(value) & V.splat(0x7FFFFFFF))
    too_large = V.less_f32(size, from_half(nearest, form, m.MOD_FABS))
    return V.select(too_large, nearest - V.splat(1), nearest)


@compiled
def to_half_directed(upper, lower, form, rounding):
    """Halves next to the exact sum of two f64 rows, in any rounding direction; a NaN becomes 0x7fff."""
    nearest = to_half(odd_f32(upper, lower), form)
    if rounding == m.ROUND_NEAREST:
        return nearest
    up, down = misses(V.to_f64(from_half(nearest, form, m.MOD_NONE)), upper, lower)
    negative = V.less_u(V.splat(0x7FFF), nearest)
    return step(nearest, negative, up, down, rounding, V.splat(1))
