"""Tensor-core executor (class CLS_TENSOR): matrix products of fragments that are spread over a warp, and MOVM.

Lane 4g + t holds row g of A, column g of B, and columns 2t, 2t + 1 of row g of C and D (and row g + 8 where M is 16);
along K every register holds the elements that fit in 32 bits, the four t one after the other (PTX manual, mma
fragments). Sums are formed in double precision and rounded once; the hardware, whose order and truncation of partial
sums are not documented, may differ by a few units in the last place. Integer sums are exact.
"""

from gpusim.engine.exec_common import destination, row_offset
from gpusim.engine.exec_double import canonical64
from gpusim.engine.exec_int import store_pair
from gpusim.engine.exec_simd import part
from gpusim.engine.float_bits import canonical
from gpusim.engine.half_bits import from_half, to_half
from gpusim.engine.jit import compiled
from gpusim.engine.lanes import (
    as_f32,
    as_f64,
    equal,
    fma64,
    gather,
    join,
    lane_numbers,
    load,
    select,
    shr,
    splat,
    store,
    to_f32,
    to_f64,
)
from isa import microops as m


@compiled
def a_lanes(t):
    """Lane that holds the elements number t of this lane's row of A."""
    return (lane_numbers() & splat(28)) + splat(t)


@compiled
def b_lanes(t, odd):
    """Lane that holds the elements number t of column 2t' or 2t' + 1 of B, for this lane's t'."""
    return ((lane_numbers() & splat(3)) << splat(3)) + splat(4 * odd + t)


@compiled
def element(word, kind, upper):
    """An element of a fragment word as f64: one of two halves, or a tf32, whose lower 13 bits do not count."""
    if kind == m.TENSOR_TF32:
        return to_f64(as_f32(word & splat(0xFFFFE000)))
    form = m.HALF_BF16 if kind == m.TENSOR_BF16 else m.HALF_F16
    return to_f64(from_half(shr(word, splat(16)) if upper else word, form, 0))


@compiled
def float_dot(a, b, kind, total):
    """total + the products of the elements of two fragment words."""
    total = fma64(element(a, kind, False), element(b, kind, False), total)
    if kind != m.TENSOR_TF32:
        total = fma64(element(a, kind, True), element(b, kind, True), total)
    return total


@compiled
def half_of_word(regs, offset, upper):
    word = load(regs, offset)
    return to_f64(from_half(shr(word, splat(16)) if upper else word, m.HALF_F16, 0))


@compiled
def hmma(code, i, regs, wb, mask):
    kind, result_bits = code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    depth = code[i, m.COL_AUX0] & 255
    a = row_offset(code[i, m.COL_A], wb)
    b = row_offset(code[i, m.COL_B], wb)
    c = row_offset(code[i, m.COL_C], wb)
    if result_bits == 32:
        s00, s01 = to_f64(as_f32(load(regs, c))), to_f64(as_f32(load(regs, c + 32)))
        s10, s11 = to_f64(as_f32(load(regs, c + 64))), to_f64(as_f32(load(regs, c + 96)))
    else:
        s00, s01 = half_of_word(regs, c, False), half_of_word(regs, c, True)
        s10, s11 = half_of_word(regs, c + 32, False), half_of_word(regs, c + 32, True)
    words = depth // 4 if kind == m.TENSOR_TF32 else depth // 8
    for word in range(words):
        for t in range(4):
            upper_rows = gather(regs, a + 64 * word, a_lanes(t))
            lower_rows = gather(regs, a + 64 * word + 32, a_lanes(t))
            even = gather(regs, b + 32 * word, b_lanes(t, 0))
            odd = gather(regs, b + 32 * word, b_lanes(t, 1))
            s00 = float_dot(upper_rows, even, kind, s00)
            s01 = float_dot(upper_rows, odd, kind, s01)
            s10 = float_dot(lower_rows, even, kind, s10)
            s11 = float_dot(lower_rows, odd, kind, s11)
    d = destination(code, i, wb)
    if result_bits == 32:
        store(regs, d, canonical(to_f32(s00)), mask)
        store(regs, d + 32, canonical(to_f32(s01)), mask)
        store(regs, d + 64, canonical(to_f32(s10)), mask)
        store(regs, d + 96, canonical(to_f32(s11)), mask)
    else:
        store(regs, d, half_pair(s00, s01), mask)
        store(regs, d + 32, half_pair(s10, s11), mask)


@compiled
def half_pair(low_sum, high_sum):
    return to_half(to_f32(low_sum), m.HALF_F16) | (to_half(to_f32(high_sum), m.HALF_F16) << splat(16))


@compiled
def integer_dot(a, b, signs, total):
    """total + the products of four bytes."""
    for k in range(4):
        total = total + part(a, k, 8, signs & 1) * part(b, k, 8, signs & 2)
    return total


@compiled
def imma(code, i, regs, wb, mask):
    signs, shape = code[i, m.COL_AUX1], code[i, m.COL_AUX0]
    tall = shape >> 16 == 16
    a = row_offset(code[i, m.COL_A], wb)
    b = row_offset(code[i, m.COL_B], wb)
    c = row_offset(code[i, m.COL_C], wb)
    s00, s01 = load(regs, c), load(regs, c + 32)
    s10, s11 = splat(0), splat(0)
    if tall:
        s10, s11 = load(regs, c + 64), load(regs, c + 96)
    for word in range((shape & 255) // 16):
        for t in range(4):
            even = gather(regs, b + 32 * word, b_lanes(t, 0))
            odd = gather(regs, b + 32 * word, b_lanes(t, 1))
            upper_rows = gather(regs, a + (64 if tall else 32) * word, a_lanes(t))
            s00 = integer_dot(upper_rows, even, signs, s00)
            s01 = integer_dot(upper_rows, odd, signs, s01)
            if tall:
                lower_rows = gather(regs, a + 64 * word + 32, a_lanes(t))
                s10 = integer_dot(lower_rows, even, signs, s10)
                s11 = integer_dot(lower_rows, odd, signs, s11)
    d = destination(code, i, wb)
    store(regs, d, s00, mask)
    store(regs, d + 32, s01, mask)
    if tall:
        store(regs, d + 64, s10, mask)
        store(regs, d + 96, s11, mask)


@compiled
def gather_f64(regs, offset, lanes):
    return as_f64(join(gather(regs, offset, lanes), gather(regs, offset + 32, lanes)))


@compiled
def dmma(code, i, regs, wb, mask):
    """8x8x4 in doubles: one chain of fused multiply-adds in the order of K."""
    a = row_offset(code[i, m.COL_A], wb)
    b = row_offset(code[i, m.COL_B], wb)
    c = row_offset(code[i, m.COL_C], wb)
    even = as_f64(join(load(regs, c), load(regs, c + 32)))
    odd = as_f64(join(load(regs, c + 64), load(regs, c + 96)))
    for t in range(4):
        rows = gather_f64(regs, a, a_lanes(t))
        even = fma64(rows, gather_f64(regs, b, b_lanes(t, 0)), even)
        odd = fma64(rows, gather_f64(regs, b, b_lanes(t, 1)), odd)
    d = destination(code, i, wb)
    store_pair(regs, d, canonical64(even), mask)
    store_pair(regs, d + 64, canonical64(odd), mask)


@compiled
def transposed(regs, offset):
    """MOVM.MT88: element (g, 2t) and (g, 2t + 1) of the transposed 8x8 matrix of halves."""
    lane = lane_numbers()
    row, t = shr(lane, splat(2)), lane & splat(3)
    holder = (t << splat(3)) + shr(row, splat(1))
    first = gather(regs, offset, holder)
    second = gather(regs, offset, holder + splat(4))
    in_lower = equal(row & splat(1), splat(0))
    low_half = select(in_lower, first, shr(first, splat(16))) & splat(0xFFFF)
    return low_half | (select(in_lower, second, shr(second, splat(16))) << splat(16))


@compiled
def exec_tensor(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_TENSOR) for the lanes of `mask`; see isa.microops for every meaning."""
    op = code[i, m.COL_OP]
    if op == m.OP_HMMA:
        hmma(code, i, regs, wb, mask)
    elif op == m.OP_IMMA:
        imma(code, i, regs, wb, mask)
    elif op == m.OP_DMMA:
        dmma(code, i, regs, wb, mask)
    else:
        store(regs, destination(code, i, wb), transposed(regs, row_offset(code[i, m.COL_A], wb)), mask)
