"""Packed half-precision executor (class CLS_HALF): two IEEE halves or two bfloat16 in every lane.

Each half is computed in float32 and rounded once: the sum or product of two halves is exact in double, and is cut to
an odd float32 before the last rounding, so that no double rounding occurs. NaN results are 0x7fff.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import destination, predicate, row_offset, set_predicate, source
from gpusim.engine.rows.float import compare_f32, minimum_maximum, with_signs_of
from gpusim.engine.rows.float_bits import canonical, combined, saturated, sum_error, zeroed
from gpusim.engine.rows.half_bits import flushed_half_bits, from_half, limited, odd_f32, to_half
from gpusim.engine.state.jit import compiled, compiled_on_demand
from isa import microops as m

_OUTSIDE = 0x7FF7


@compiled
def half_word(code, i, slot, upper, regs, wb):
    """Row whose low 16 bits are the half that `half_operand` means."""
    choice = (code[i, m.COL_AUX2] >> (2 * slot)) & 3
    row = V.load(regs, row_offset(code[i, m.COL_A + 2 * slot], wb))
    return V.shr(row, V.splat(16)) if choice == 2 or (choice == 0 and upper) else row


@compiled
def out_of_bounds(code, i, upper, regs, wb):
    """Lanes in which a factor is the NaN that marks what lies outside a tensor (found on an H200, both formats)."""
    sizes = V.splat(0x7FFF)
    a = half_word(code, i, 0, upper, regs, wb) & sizes
    b = half_word(code, i, 1, upper, regs, wb) & sizes
    return V.equal(a, V.splat(_OUTSIDE)) | V.equal(b, V.splat(_OUTSIDE))


@compiled
def half_operand(code, i, slot, upper, regs, wb):
    """Float32 row of the half that takes part in the result's upper or lower half; slot 0..2 is A, B, C."""
    bits, form = half_word(code, i, slot, upper, regs, wb), code[i, m.COL_AUX1]
    if code[i, m.COL_AUX0] & m.FLAG_FTZ:
        bits = flushed_half_bits(bits, form)
    return from_half(bits, form, code[i, m.COL_MOD_A + 2 * slot])


@compiled
def half_fma(a, b, c):
    """a * b + c cut to an odd float32."""
    product = V.to_f64(a) * V.to_f64(b)
    addend = V.to_f64(c)
    total = product + addend
    return odd_f32(total, sum_error(product, addend, total))


@compiled
def combine_halves(op, form, old, value):
    """Both halves of a word under an atomic: sum, minimum or maximum; a number wins against NaN, -0 is below +0."""
    shift = V.lane_numbers() << V.splat(4)
    a = from_half(V.shr(V.splat(old), shift), form, m.MOD_NONE)
    b = from_half(V.shr(V.splat(value), shift), form, m.MOD_NONE)
    if op == m.ATOMIC_ADD:
        d = half_fma(a, V.splat_f32(1.0), b)
    else:
        smaller = np.uint32(0xFFFFFFFF if op == m.ATOMIC_MIN else 0)
        d = V.as_f32(minimum_maximum(V.as_u32(a), V.as_u32(b), smaller, 0))
    bits = to_half(d, form)
    return np.uint32(V.get_u32(bits, 0) | V.get_u32(bits, 1) << np.uint32(16))


@compiled
def half_result(code, i, upper, regs, wb, smaller):
    """Float32 row of one half of the result, not yet rounded to a half."""
    op = code[i, m.COL_OP]
    a = half_operand(code, i, 0, upper, regs, wb)
    b = half_operand(code, i, 1, upper, regs, wb)
    if code[i, m.COL_AUX0] & m.FLAG_FMZ:
        x, y = zeroed(V.as_u32(a), V.as_u32(b))
        a, b = V.as_f32(x), V.as_f32(y)
    if op == m.OP_HMUL2:
        return odd_f32(V.to_f64(a) * V.to_f64(b), V.splat_f64(0.0))
    if op == m.OP_HMNMX2:
        d = minimum_maximum(V.as_u32(a), V.as_u32(b), smaller, code[i, m.COL_AUX0] & ~m.FLAG_FTZ)
        if code[i, m.COL_AUX0] & m.FLAG_XORSIGN:
            x = from_half(half_word(code, i, 0, upper, regs, wb), code[i, m.COL_AUX1], m.MOD_NONE)
            y = from_half(half_word(code, i, 1, upper, regs, wb), code[i, m.COL_AUX1], m.MOD_NONE)
            d = with_signs_of(d, V.as_u32(x), V.as_u32(y))
        return V.as_f32(d)
    if op == m.OP_HADD2:
        return half_fma(a, V.splat_f32(1.0), b)
    return half_fma(a, b, half_operand(code, i, 2, upper, regs, wb))


@compiled
def rounded_half(code, i, value):
    """Limits of RELU and SAT, rounding, and flushing of the result."""
    modes, form = code[i, m.COL_AUX0], code[i, m.COL_AUX1]
    bits = to_half(limited(value, modes), form)
    return flushed_half_bits(bits, form) if modes & m.FLAG_FTZ else bits


@compiled
def half_compare(code, i, upper, regs, wb, other):
    """Mask of one half's comparison, combined with the source predicate."""
    a = V.as_u32(half_operand(code, i, 0, upper, regs, wb))
    b = V.as_u32(half_operand(code, i, 1, upper, regs, wb))
    return combined(compare_f32(a, b, code[i, m.COL_AUX3], 0), other, code[i, m.COL_AUX4])


@compiled_on_demand()
def exec_half(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_HALF) for the lanes of `mask`; isa.microops has a row for each."""
    op = code[i, m.COL_OP]
    p = predicate(code, i, m.COL_PS0, preds, pb)
    if op == m.OP_HSETP2 or op == m.OP_HSET2:
        lower = half_compare(code, i, False, regs, wb, p)
        upper = half_compare(code, i, True, regs, wb, p)
        if op == m.OP_HSETP2:
            set_predicate(preds, pb, code[i, m.COL_PD1], upper, mask)
            set_predicate(preds, pb, code[i, m.COL_PD0], lower, mask)
            return
        one = 0x3F80 if code[i, m.COL_AUX1] == m.HALF_BF16 else 0x3C00
        truth = V.splat(0xFFFF if code[i, m.COL_AUX5] == 0 else one)  # 1.0 with .BF, else all ones
        d = V.select(lower, truth, V.splat(0)) | (V.select(upper, truth, V.splat(0)) << V.splat(16))
    elif op == m.OP_HADD2_F32:
        a = half_operand(code, i, 0, False, regs, wb)
        d = canonical(a + half_operand(code, i, 1, False, regs, wb))
        d = saturated(d) if code[i, m.COL_AUX0] & m.FLAG_SAT else d
    elif op == m.OP_FHADD:
        d = canonical(V.as_f32(source(code, i, m.COL_A, regs, wb)) + half_operand(code, i, 1, False, regs, wb))
    elif op == m.OP_FHFMA:
        a = half_operand(code, i, 0, False, regs, wb)
        b = half_operand(code, i, 1, False, regs, wb)
        d = canonical(V.fma(a, b, V.as_f32(source(code, i, m.COL_C, regs, wb))))
    else:
        lower = rounded_half(code, i, half_result(code, i, False, regs, wb, p))
        upper = rounded_half(code, i, half_result(code, i, True, regs, wb, p))
        if code[i, m.COL_AUX0] & m.FLAG_OOB:
            lower = V.select(out_of_bounds(code, i, False, regs, wb), V.splat(0), lower)
            upper = V.select(out_of_bounds(code, i, True, regs, wb), V.splat(0), upper)
        d = lower | (upper << V.splat(16))
    V.store(regs, destination(code, i, wb), d, mask)
