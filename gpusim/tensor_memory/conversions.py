"""F2FP to and from floats of 6 and 4 bits and powers of two (UE8M0), which GPUs have since compute capability 10.0.

Beyond the range, and of NaN, the largest number comes, as these formats have nothing else (PTX ISA, cvt, .satfinite).
UE8M0 is an exponent of float32 as it stands there: signs do not count, 255 is NaN, and the least number, which stands
for zero too, 2**-127 (as cuda_fp8.hpp computes it).
"""

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import destination, row_offset, source
from gpusim.engine.rows.half_bits import HALF_NAN, from_half, limited, to_half
from gpusim.engine.rows.narrow_bits import nearest_size
from gpusim.engine.state.jit import compiled, compiled_on_demand
from gpusim.tensor_memory.operand import EXPONENTS, FRACTIONS, decoded
from isa import microops as m

_MOST = 0xFF


@compiled
def to_power(value, modes, rounding):
    """UE8M0 of a row of f32, cut or rounded up."""
    size = V.as_u32(value) & V.splat(0x7FFFFFFF)
    power = V.shr(size, V.splat(23))
    if rounding == m.ROUND_UP:
        exact = V.equal(size & V.splat(0x7FFFFF), V.splat(0)) | V.less_u(size, V.splat(0x400001))
        finite = V.less_u(power, V.splat(_MOST))
        power = V.select(finite & ~exact, power + V.splat(1), power)
    if modes & m.FLAG_SATFINITE:
        power = V.min_u(power, V.splat(_MOST - 1))
    return V.select(V.unordered_f32(value, value), V.splat(_MOST), power)


@compiled
def encoded(value, form, modes, rounding):
    """Bits of the narrow numbers nearest to a row of f32."""
    if form == m.NARROW_E8:
        return to_power(value, modes, rounding)
    value = limited(value, modes)
    fractions, bits = FRACTIONS[form], EXPONENTS[form] + FRACTIONS[form]
    most = V.splat((1 << bits) - 1)
    size = nearest_size(value, 23 - fractions, (1 << (EXPONENTS[form] - 1)) - 1)
    sign = V.shr(V.as_u32(value), V.splat(31)) << V.splat(bits)
    return V.select(V.unordered_f32(value, value), most, V.min_u(size, most) | sign)


@compiled
def widened(bits, form, modes):
    """A half with the value of a narrow number, or (UE8M0) a bfloat16."""
    if form == m.NARROW_E8:
        half = V.select(V.equal(bits, V.splat(0)), V.splat(0x40), bits << V.splat(7))
        return V.select(V.equal(bits, V.splat(_MOST)), V.splat(HALF_NAN), half)
    value, _, _ = decoded(bits, form)
    return to_half(limited(V.to_f32(value), modes), m.HALF_F16)


@compiled_on_demand()
def narrow_conversion(code, i, regs, wb, mask):
    """Executes OP_F2FP_NARROW for the lanes of `mask`."""
    modes, rounding, form = code[i, m.COL_AUX0], code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    way, of, which = code[i, m.COL_AUX3], code[i, m.COL_AUX4], code[i, m.COL_AUX5]
    d = destination(code, i, wb)
    if way == m.UNPACK_WIDEN:
        size = 4 if of == m.NARROW_E2M1 else 8
        pair = V.shr(V.load(regs, row_offset(code[i, m.COL_B], wb)), V.splat(2 * size * which))
        bits = V.splat((1 << size) - 1)
        high = widened(V.shr(pair, V.splat(size)) & bits, of, modes)
        V.store(regs, d, widened(pair & bits, of, modes) | (high << V.splat(16)), mask)
        return
    if way == m.UNPACK_NARROW:
        pair = V.load(regs, row_offset(code[i, m.COL_B], wb))
        a, b = from_half(V.shr(pair, V.splat(16)), of, m.MOD_NONE), from_half(pair, of, m.MOD_NONE)
    else:
        a, b = V.as_f32(source(code, i, m.COL_A, regs, wb)), V.as_f32(source(code, i, m.COL_B, regs, wb))
    size = 4 if form == m.NARROW_E2M1 else 8
    above = V.load(regs, row_offset(code[i, m.COL_C], wb)) << V.splat(2 * size)
    result = encoded(b, form, modes, rounding) | (encoded(a, form, modes, rounding) << V.splat(size))
    V.store(regs, d, above | result, mask)
