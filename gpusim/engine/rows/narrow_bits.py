"""F2FP on rows: float32 and halves to and from packed halves, 8-bit floats and TF32.

The 8-bit formats are those of "FP8 Formats for Deep Learning" (arXiv 2209.05433): E4M3 has no infinities and one NaN
per sign, E5M2 is the upper byte of a half.
"""

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import row_offset, source
from gpusim.engine.rows.half_bits import HALF_NAN, from_half, limited, to_half, to_half_down
from gpusim.engine.state.jit import compiled
from isa import microops as m

NARROW_NAN = 0x7F
TF32_NAN = 0x7FFFE000


@compiled
def to_narrow(value, form, modes):
    """8-bit floats nearest to an f32 row, ties to even; NaN is 0x7f.

    Beyond the range they are the largest finite one with .SATFINITE, else an infinity, or NaN in E4M3, which has none.
    """
    drop = 20 if form == m.NARROW_E4M3 else 21  # bits of mantissa that are lost
    bias = 7 if form == m.NARROW_E4M3 else 15
    largest = (0x7F if form == m.NARROW_E4M3 else 0x7C) - (1 if modes & m.FLAG_SATFINITE else 0)
    rounded = V.min_u(nearest_size(value, drop, bias), V.splat(largest))
    rounded = rounded | (V.shr(V.as_u32(value), V.splat(24)) & V.splat(0x80))
    return V.select(V.unordered_f32(value, value), V.splat(NARROW_NAN), rounded)


@compiled
def nearest_size(value, drop, bias):
    """Bits, without sign, of narrow numbers nearest to an f32 row, of which `drop` bits of mantissa are lost."""
    size = V.as_u32(value) & V.splat(0x7FFFFFFF)
    odd = V.shr(size, V.splat(drop)) & V.splat(1)
    normal = V.shr(size + V.splat((1 << (drop - 1)) - 1) + odd, V.splat(drop)) - V.splat((127 - bias) << (23 - drop))
    # Adding a power of two whose last place is the smallest denormal rounds to a multiple of that.
    unit = V.splat_f32(2.0 ** (drop + 1 - bias))
    small = V.as_u32(V.as_f32(size) + unit) - V.as_u32(unit)
    return V.select(V.less_f32(V.as_f32(size), V.splat_f32(2.0 ** (1 - bias))), small, normal)


@compiled
def from_narrow(byte, form):
    """Halves with the value of 8-bit floats; a NaN becomes 0x7fff."""
    size = byte & V.splat(0x7F)
    if form == m.NARROW_E5M2:
        result = size << V.splat(8)
        nan = V.less_u(V.splat(0x7C), size)
    else:
        # A half's exponent counts from 15 instead of 7; a denormal number is size / 8 * 2**-6.
        normal = (size << V.splat(7)) + V.splat(8 << 10)
        denormal = V.f32_to_half(V.as_f32(V.splat(0x3F800000) + (size << V.splat(20))) - V.splat_f32(1.0))
        denormal = denormal - V.select(V.equal(size, V.splat(0)), V.splat(0), V.splat(6 << 10))
        result = V.select(V.less_u(size, V.splat(8)), denormal, normal)
        nan = V.equal(size, V.splat(0x7F))
    result = result | ((byte & V.splat(0x80)) << V.splat(8))
    return V.select(nan, V.splat(HALF_NAN), result)


@compiled
def packed_half(value, form, modes, rounding):
    """One half of F2FP's result."""
    value = limited(value, modes)
    half = to_half_down(value, form) if rounding == m.ROUND_ZERO else to_half(value, form)
    if modes & m.FLAG_SATFINITE:  # an infinity becomes the largest finite number
        infinite = V.equal(half & V.splat(0x7FFF), V.splat(0x7F80 if form == m.HALF_BF16 else 0x7C00))
        half = V.select(infinite, half - V.splat(1), half)
    return half


@compiled
def to_tf32(value, modes, rounding):
    """Float32 with its last 13 bits zero."""
    value = limited(value, modes)
    bits = V.as_u32(value)
    if rounding == m.ROUND_NEAREST:
        bits = bits + V.splat(0xFFF) + (V.shr(bits, V.splat(13)) & V.splat(1))
    bits = bits & V.splat(0xFFFFE000)
    return V.select(V.unordered_f32(value, value), V.splat(TF32_NAN), bits)


@compiled
def pack_floats(code, i, regs, wb):
    """F2FP: the result row."""
    modes, rounding, form = code[i, m.COL_AUX0], code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    way, of = code[i, m.COL_AUX3], code[i, m.COL_AUX4]
    above = V.load(regs, row_offset(code[i, m.COL_C], wb)) << V.splat(16)
    if way == m.UNPACK_WIDEN or way == m.UNPACK_NARROW:
        word = V.shr(V.load(regs, row_offset(code[i, m.COL_B], wb)), V.splat(16 * code[i, m.COL_AUX5]))
        if way == m.UNPACK_WIDEN:
            low_half = from_half(from_narrow(word & V.splat(0xFF), of), m.HALF_F16, m.MOD_NONE)
            high_half = from_half(from_narrow(V.shr(word, V.splat(8)) & V.splat(0xFF), of), m.HALF_F16, m.MOD_NONE)
            return to_half(limited(low_half, modes), form) | (to_half(limited(high_half, modes), form) << V.splat(16))
        low_value = limited(from_half(word, of, m.MOD_NONE), modes)
        high_value = limited(from_half(V.shr(word, V.splat(16)), of, m.MOD_NONE), modes)
        return above | to_narrow(low_value, form, modes) | (to_narrow(high_value, form, modes) << V.splat(8))
    b = V.as_f32(source(code, i, m.COL_B, regs, wb))
    if way == m.PACK_WORD:
        return to_tf32(b, modes, rounding)
    if way == m.PACK_ONE:
        return packed_half(b, form, modes, rounding) | above
    a = V.as_f32(source(code, i, m.COL_A, regs, wb))
    if form == m.NARROW_E4M3 or form == m.NARROW_E5M2:
        upper = to_narrow(limited(a, modes), form, modes) << V.splat(8)
        return above | upper | to_narrow(limited(b, modes), form, modes)
    return packed_half(b, form, modes, rounding) | (packed_half(a, form, modes, rounding) << V.splat(16))
