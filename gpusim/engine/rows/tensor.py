"""Tensor-core executor (class CLS_TENSOR): matrix products of fragments that are spread over a warp, and MOVM.

Lane 4g + t holds row g of A, column g of B, and columns 2t, 2t + 1 of row g of C and D (and row g + 8 where M is 16);
along K every register holds the elements that fit in 32 bits, the four t one after the other (PTX manual, mma
fragments). How sums are rounded is told in `tensor_sum`.
"""

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, destination, gather, row_offset
from gpusim.engine.rows.double import canonical64, kept_nan
from gpusim.engine.rows.int import store_pair
from gpusim.engine.rows.tensor_integer import integer_sum, sparse_integer_sum
from gpusim.engine.rows.tensor_lanes import load_columns, spread_columns, spread_rows
from gpusim.engine.rows.tensor_sum import fused_sum, metadata
from gpusim.engine.rows.tensor_tile import (
    DOUBLE_B,
    DOUBLE_RESULTS,
    RESULTS,
    finite_words,
    four_rows,
    integer_sums,
    put_rows,
    room,
    take,
    tile_products,
)
from gpusim.engine.state.jit import compiled, compiled_on_demand, declared
from isa import microops as m


@compiled
def float_element(code, i, regs, wb, half, odd):
    """Result words of one row half (0: g, 1: g + 8) and one of the lane's two columns."""
    kind, result_bits = code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    depth = code[i, m.COL_AUX0] & 255
    sparse = code[i, m.COL_AUX3]
    a = row_offset(code[i, m.COL_A], wb) + 32 * half
    b = row_offset(code[i, m.COL_B], wb)
    c = row_offset(code[i, m.COL_C], wb)
    c_word = V.load(regs, c + 32 * (2 * half + odd if result_bits == 32 else half))
    words = depth // 4 if kind == m.TENSOR_TF32 else depth // 8
    kinds, chosen = kind | kind << 8, V.splat(0)
    if sparse != 0:
        chosen = metadata(regs, row_offset(code[i, m.COL_AUX5], wb), sparse - 1, half, words == 2)
        words //= 2
    return fused_sum(regs, a, regs, b, odd, words, kinds, c_word, odd, result_bits, 1.0, sparse, chosen, chosen)


@compiled_on_demand()
def any_floats(code, i, regs, wb, place):
    """RESULTS of a product that is sparse or that `tensor_tile` leaves alone."""
    for k in range(4):
        V.store(place, RESULTS + 32 * k, float_element(code, i, regs, wb, k >> 1, k & 1), FULL_MASK)


@compiled
def load_addends(regs, c, result_bits):
    """C for the four elements of a lane; of 16 bits the two of a row half share a word, which stands for both."""
    c0, c1 = V.load(regs, c), V.load(regs, c + 32)
    if result_bits == 16:
        return c0, c0, c1, c1
    return c0, c1, V.load(regs, c + 64), V.load(regs, c + 96)


@compiled
def store_results(regs, d, place, result_bits, mask):
    """RESULTS of the four elements of a lane into D, laid out as C is."""
    s00, s01, s10, s11 = four_rows(place, RESULTS)
    if result_bits == 16:
        V.store(regs, d, s00 | (s01 << V.splat(16)), mask)
        V.store(regs, d + 32, s10 | (s11 << V.splat(16)), mask)
    else:
        put_rows(regs, d, s00, s01, s10, s11, mask)


@compiled
def hmma(code, i, regs, wb, mask):
    kind, result_bits = code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    depth = code[i, m.COL_AUX0] & 255
    c0, c1, c2, c3 = load_addends(regs, row_offset(code[i, m.COL_C], wb), result_bits)
    words = depth // 4 if kind == m.TENSOR_TF32 else depth // 8
    place = room()
    a, b = row_offset(code[i, m.COL_A], wb), row_offset(code[i, m.COL_B], wb)
    right = code[i, m.COL_AUX3] == 0 and finite_words(c0, c1, c2, c3, result_bits)
    right = right and take(place, regs, a, words, 2, kind, 0) and take(place, regs, b, words, 1, kind, 0)
    if not right or not tile_products(place, words, kind, c0, c1, c2, c3, result_bits, 0):
        any_floats(code, i, regs, wb, place)
    store_results(regs, destination(code, i, wb), place, result_bits, mask)


@compiled
def integer_element(code, i, regs, wb, tall, half, odd):
    """Results of one row half and one of each lane's two columns, for integers and bits."""
    kind, saturate, sparse = code[i, m.COL_AUX1], code[i, m.COL_AUX2] != 0, code[i, m.COL_AUX3]
    a = row_offset(code[i, m.COL_A], wb) + 32 * half
    b = row_offset(code[i, m.COL_B], wb)
    c_word = V.load(regs, row_offset(code[i, m.COL_C], wb) + 32 * (2 * half + odd))
    words = code[i, m.COL_AUX4]
    if sparse == 0:
        return integer_sum(regs, a, 64 if tall else 32, regs, b, odd, words, kind, c_word, saturate)
    meta = row_offset(code[i, m.COL_AUX5], wb)
    return sparse_integer_sum(regs, a, regs, b, odd, words, kind, c_word, saturate, meta, half, sparse - 1)


@compiled_on_demand()
def any_integers(code, i, regs, wb, place, tall):
    """RESULTS of a product that is sparse, of 8 rows, or not of bytes."""
    for k in range(4 if tall else 2):
        V.store(place, RESULTS + 32 * k, integer_element(code, i, regs, wb, tall, k >> 1, k & 1), FULL_MASK)


@compiled
def imma(code, i, regs, wb, mask):
    tall, kind, words = code[i, m.COL_AUX0] >> 16 == 16, code[i, m.COL_AUX1], code[i, m.COL_AUX4]
    place = room()
    if tall and kind >> 4 == 8 and code[i, m.COL_AUX3] == 0:  # of bytes
        take(place, regs, row_offset(code[i, m.COL_A], wb), words, 2, m.TENSOR_INTEGER, kind & 1)
        take(place, regs, row_offset(code[i, m.COL_B], wb), words, 1, m.TENSOR_INTEGER, kind & 2)
        c0, c1, c2, c3 = load_addends(regs, row_offset(code[i, m.COL_C], wb), 32)
        integer_sums(place, 16 * words, c0, c1, c2, c3, code[i, m.COL_AUX2] != 0)
    else:
        any_integers(code, i, regs, wb, place, tall)
    d = destination(code, i, wb)
    for k in range(4 if tall else 2):
        V.store(regs, d + 32 * k, V.load(place, RESULTS + 32 * k), mask)


@compiled
def wide_row(low_words, high_words):
    return V.as_f64(V.join(low_words, high_words))


@compiled
def double_element(place, first, steps, total, odd):
    """Bits of one chain of fused multiply-adds in the order of K, as on an H200, which hands NaNs on as DFMA does; of A
    from step `first` on."""
    for step in range(steps):
        row = wide_row(V.load(place, 64 * (first + step)), V.load(place, 64 * (first + step) + 32))
        at = DOUBLE_B + 64 * (step >> 2) + 8 * (step & 3) + 4 * odd
        column = wide_row(load_columns(place, at), load_columns(place, at + 32))
        bits = kept_nan(row, canonical64(V.fma(row, column, total)))
        total = V.as_f64(kept_nan(column, kept_nan(total, bits)))
    return V.as_u64(total)


@compiled
def dmma(code, i, regs, wb, mask):
    halves = 2 if code[i, m.COL_AUX0] >> 16 == 16 else 1
    depth = code[i, m.COL_AUX0] & 255
    a, b = row_offset(code[i, m.COL_A], wb), row_offset(code[i, m.COL_B], wb)
    c, d = row_offset(code[i, m.COL_C], wb), destination(code, i, wb)
    place = room()
    for piece in range(depth >> 2):
        for word in range(2):  # the lower and the upper of the doubles
            spread_columns(place, DOUBLE_B + 64 * piece + 32 * word, V.load(regs, b + 64 * piece + 32 * word))
            for half in range(halves):
                row = V.load(regs, a + 64 * (halves * piece + half) + 32 * word)
                spread_rows(place, 64 * (half * depth + 4 * piece) + 32 * word, row)
    for k in range(2 * halves):
        total = wide_row(V.load(regs, c + 64 * k), V.load(regs, c + 64 * k + 32))
        bits = double_element(place, (k >> 1) * depth, depth, total, k & 1)
        store_pair(place, DOUBLE_RESULTS + 64 * k, bits, FULL_MASK)
    for k in range(4 * halves):
        V.store(regs, d + 32 * k, V.load(place, DOUBLE_RESULTS + 32 * k), mask)


@compiled
def transposed(regs, offset):
    """MOVM.MT88: element (g, 2t) and (g, 2t + 1) of the transposed 8x8 matrix of halves."""
    lane = V.lane_numbers()
    row, t = V.shr(lane, V.splat(2)), lane & V.splat(3)
    holder = (t << V.splat(3)) + V.shr(row, V.splat(1))
    first = gather(regs, offset, holder)
    second = gather(regs, offset, holder + V.splat(4))
    in_lower = V.equal(row & V.splat(1), V.splat(0))
    low_half = V.select(in_lower, first, V.shr(first, V.splat(16))) & V.splat(0xFFFF)
    return low_half | (V.select(in_lower, second, V.shr(second, V.splat(16))) << V.splat(16))


@declared("gpusim.tensor_memory.registers")
def narrow_product(code, i, regs, wb, mask):
    """Executes QMMA."""


@compiled_on_demand()
def exec_tensor(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_TENSOR) for the lanes of `mask`; isa.microops has a row for each."""
    op = code[i, m.COL_OP]
    if op == m.OP_HMMA:
        hmma(code, i, regs, wb, mask)
    elif op == m.OP_IMMA:
        imma(code, i, regs, wb, mask)
    elif op == m.OP_QMMA:
        narrow_product(code, i, regs, wb, mask)
    elif op == m.OP_DMMA:
        dmma(code, i, regs, wb, mask)
    else:
        V.store(regs, destination(code, i, wb), transposed(regs, row_offset(code[i, m.COL_A], wb)), mask)
