"""Conversion executor (class CLS_CONVERT): F2I, I2F, F2F, FRND, bit counts, and MUFU by way of `exec_mufu`."""

import numpy as np

from gpusim.engine.rows import float_bits as F
from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import destination, row_offset, set_predicate, source, source_pair
from gpusim.engine.rows.double import with_nan_of
from gpusim.engine.rows.half_bits import flushed_half_bits, from_half, to_half, to_half_directed, to_half_down
from gpusim.engine.rows.int import store_pair
from gpusim.engine.rows.mufu import mufu
from gpusim.engine.rows.narrow_bits import pack_floats
from gpusim.engine.rows.simd import part
from gpusim.engine.state.jit import compiled, compiled_on_demand, declared
from isa import microops as m


@compiled
def clamped_integer(value, bits, is_signed, modes):
    """64-bit integers from an f64 row of whole numbers, limited to the type.

    Of a NaN they are, as measured on an H200 for all types, zero for .NTZ, else the top bit.
    """
    nan = V.unordered_f64(value, value)
    limit = 2.0 ** (bits - 1) if is_signed != 0 else 2.0**bits
    too_large = ~V.less_f64(value, V.splat_f64(limit))
    too_small = V.less_f64(value, V.splat_f64(-limit if is_signed != 0 else 0.0))
    number = V.select(too_large | too_small, V.splat_f64(0.0), value)
    inside = V.f64_to_s64(number) if is_signed != 0 else V.f64_to_u64(number)
    top = V.splat64(np.int64(1) << (bits - 1))
    least = V.splat64(0) - top if is_signed != 0 else V.splat64(0)
    largest = top - V.splat64(1) if is_signed != 0 else top + (top - V.splat64(1))
    limited = V.select(too_large, largest, V.select(too_small, least, inside))
    return V.select(nan, V.splat64(0) if modes & m.FLAG_NTZ else top, limited)


@compiled
def half_source(code, i, regs, wb):
    """A 16-bit source as an f32 row: the half of A that AUX5 names, of the format that the flags name."""
    form = m.HALF_BF16 if code[i, m.COL_AUX0] & m.FLAG_BF16 else m.HALF_F16
    word = V.shr(V.load(regs, row_offset(code[i, m.COL_A], wb)), V.splat(16 * code[i, m.COL_AUX5]))
    half = word & V.splat(0xFFFF)
    if code[i, m.COL_AUX0] & m.FLAG_FTZ:
        half = flushed_half_bits(half, form)
    return from_half(half, form, code[i, m.COL_MOD_A])


@compiled
def half_form(modes):
    """Format of a 16-bit result."""
    return m.HALF_BF16 if modes & m.FLAG_TO_BF16 else m.HALF_F16


@compiled
def float_source(code, i, regs, wb, bits):
    """A source of `bits` bits as an f64 row; .FTZ flushes denormals of that width."""
    if bits == 64:
        wide = source_pair(code, i, m.COL_A, regs, wb)
        denormal = V.equal(V.high(wide) & V.splat(0x7FF00000), V.splat(0))
        flushes = denormal if code[i, m.COL_AUX0] & m.FLAG_FTZ else F.NO_LANES
        return V.as_f64(V.select(flushes, wide & V.splat64(1 << 63), wide))
    a = source(code, i, m.COL_A, regs, wb)
    if bits == 16:
        return V.to_f64(half_source(code, i, regs, wb))
    return V.to_f64(V.as_f32(F.flushed(a) if code[i, m.COL_AUX0] & m.FLAG_FTZ else a))


@compiled
def float_to_integer(code, i, regs, wb, mask):
    bits, is_signed = code[i, m.COL_AUX2], code[i, m.COL_AUX3]
    value = F.integral(float_source(code, i, regs, wb, code[i, m.COL_AUX4]), code[i, m.COL_AUX1])
    result = clamped_integer(value, bits, is_signed, code[i, m.COL_AUX0])
    offset = destination(code, i, wb)
    if bits == 64:
        store_pair(regs, offset, result, mask)
    else:
        V.store(regs, offset, V.low(result), mask)


@compiled
def integer_source(code, i, regs, wb):
    """The source of I2F as a 64-bit row, extended by its sign if it has one."""
    bits, is_signed = code[i, m.COL_AUX4], code[i, m.COL_AUX3]
    if bits == 64:
        return source_pair(code, i, m.COL_A, regs, wb)
    a = source(code, i, m.COL_A, regs, wb)
    if bits < 32:
        a = part(V.shr(a, V.splat(8 * code[i, m.COL_AUX5])), 0, bits, is_signed)
    return V.join(a, V.sar(a, V.splat(31))) if is_signed != 0 else V.zero_extend(a)


@compiled
def integer_to_float(code, i, regs, wb, mask):
    rounding, bits, is_signed = code[i, m.COL_AUX1], code[i, m.COL_AUX2], code[i, m.COL_AUX3]
    value = integer_source(code, i, regs, wb)
    offset = destination(code, i, wb)
    # In two parts that are exact: the high word times 2**32, and the low word.
    high = V.join(V.splat(0), V.high(value))
    upper = V.s64_to_f64(high) if is_signed != 0 else V.u64_to_f64(high)
    lower = V.u64_to_f64(V.zero_extend(V.low(value)))
    total = upper + lower
    lost = F.sum_error(upper, lower, total)
    if bits == 64:
        exact, zero = V.as_u64(total), V.splat_f64(0.0)
        if rounding != m.ROUND_NEAREST:  # no result is denormal or infinite, so the bits step as one integer
            up, down = V.less_f64(zero, lost), V.less_f64(lost, zero)
            exact = F.step(exact, V.less_f64(total, zero), up, down, rounding, V.splat64(1))
        store_pair(regs, offset, exact, mask)
    elif bits == 16:
        form = half_form(code[i, m.COL_AUX0])
        V.store(regs, offset, to_half_directed(total, lost, form, rounding), mask)
    elif rounding == m.ROUND_NEAREST:
        nearest = V.s64_to_f32(value) if is_signed != 0 else V.u64_to_f32(value)
        V.store(regs, offset, F.canonical(nearest), mask)
    else:
        V.store(regs, offset, F.round_to_f32(total, lost, rounding), mask)


@compiled
def float_to_float(code, i, regs, wb, mask):
    """F2F. A NaN keeps sign and payload on the way to a float64; from a float64 it keeps what of both has room, and
    comes out quiet. Other results have the one NaN of their format (all measured on an H200)."""
    modes, rounding, bits = code[i, m.COL_AUX0], code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    value = float_source(code, i, regs, wb, code[i, m.COL_AUX4])
    offset = destination(code, i, wb)
    if bits == 64:
        store_pair(regs, offset, V.as_u64(value), mask)
        return
    of_nan = V.to_f32(value)
    keeps_nan = V.unordered_f64(value, value) if code[i, m.COL_AUX4] == 64 else F.NO_LANES
    if bits == 16:
        form = half_form(modes)
        half_nan = V.shr(V.as_u32(of_nan), V.splat(16)) if modes & m.FLAG_TO_BF16 else V.f32_to_half(of_nan)
        result = V.select(keeps_nan, half_nan, to_half_directed(value, V.splat_f64(0.0), form, rounding))
        if modes & m.FLAG_FTZ:
            result = flushed_half_bits(result, form)
    else:
        result = V.select(keeps_nan, V.as_u32(of_nan), F.round_to_f32(value, V.splat_f64(0.0), rounding))
        if modes & m.FLAG_FTZ:
            result = F.flushed(result)
    V.store(regs, offset, result, mask)


@compiled
def round_integral(code, i, regs, wb, mask):
    modes, rounding, bits = code[i, m.COL_AUX0], code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    offset = destination(code, i, wb)
    if bits == 64:
        whole = V.as_u64(F.integral(float_source(code, i, regs, wb, bits), rounding))
        store_pair(regs, offset, with_nan_of(code, i, m.COL_A, regs, wb, whole), mask)
        return
    if bits == 16:
        whole = F.integral(half_source(code, i, regs, wb), rounding)
        V.store(regs, offset, to_half(whole, half_form(modes)), mask)
        return
    a = source(code, i, m.COL_A, regs, wb)
    a = F.flushed(a) if modes & m.FLAG_FTZ else a
    V.store(regs, offset, F.canonical(F.integral(V.as_f32(a), rounding)), mask)


@compiled
def pack_as_integers(code, i, regs, wb):
    """F2IP: two float32 as integers of a byte each, over C."""
    modes, rounding, bits = code[i, m.COL_AUX0], code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    packed = V.shl(V.load(regs, row_offset(code[i, m.COL_C], wb)), V.splat(2 * bits))
    for k in range(2):
        row = source(code, i, m.COL_B if k == 0 else m.COL_A, regs, wb)
        value = F.integral(V.to_f64(V.as_f32(F.flushed(row) if modes & m.FLAG_FTZ else row)), rounding)
        whole = V.low(clamped_integer(value, bits, code[i, m.COL_AUX3], modes)) & V.splat((1 << bits) - 1)
        packed = packed | (whole << V.splat(bits * k))
    return packed


@declared("gpusim.tensor_memory.conversions")
def narrow_conversion(code, i, regs, wb, mask):
    """Executes F2FP of 6 and 4 bits."""


@compiled_on_demand()
def exec_convert(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_CONVERT) for the lanes of `mask`; isa.microops has a row for each."""
    op = code[i, m.COL_OP]
    a = source(code, i, m.COL_A, regs, wb)
    if op == m.OP_F2I:
        float_to_integer(code, i, regs, wb, mask)
        return
    if op == m.OP_I2F:
        integer_to_float(code, i, regs, wb, mask)
        return
    if op == m.OP_F2F:
        float_to_float(code, i, regs, wb, mask)
        return
    if op == m.OP_FRND:
        round_integral(code, i, regs, wb, mask)
        return
    if op == m.OP_F2IP:
        d = pack_as_integers(code, i, regs, wb)
    elif op == m.OP_F2FP_NARROW:
        narrow_conversion(code, i, regs, wb, mask)
        return
    elif op == m.OP_F2FP:
        d = pack_floats(code, i, regs, wb)
    elif op == m.OP_POPC:
        d = V.count_ones(a)
    elif op == m.OP_FLO_U or op == m.OP_FLO_S:
        a = a ^ V.sar(a, V.splat(31)) if op == m.OP_FLO_S else a
        some, zeros = ~V.equal(a, V.splat(0)), V.leading_zeros(a)
        set_predicate(preds, pb, code[i, m.COL_PD0], some, mask)
        place = zeros if code[i, m.COL_AUX0] != 0 else V.splat(31) - zeros  # of the leading one; .SH: from the top
        d = V.select(some, place, V.splat(0xFFFFFFFF))
    elif op == m.OP_BREV:
        d = V.reverse_bits(a)
    elif code[i, m.COL_AUX1] != 0:
        # Of a half the float32 function's value, cut toward zero (measured on an H200 for all 65,536 halves).
        form = half_form(code[i, m.COL_AUX0])
        value = V.as_f32(mufu(op, V.as_u32(half_source(code, i, regs, wb))))
        d = to_half_down(value, form)
        if form == m.HALF_F16:
            d = V.select(V.less_f32(value, V.splat_f32(65536.0)), d, to_half(value, form))
    else:
        d = mufu(op, a)
    V.store(regs, destination(code, i, wb), d, mask)
