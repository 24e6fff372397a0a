"""Products of narrow floating-point numbers in a warp's registers: QMMA and OMMA (PTX: mma.sync of 8, 6 and 4 bits).

Fragments are those of `rows.tensor`: 6 and 4 bits lie in bytes, unless 4 are packed. Sums are those of `product`, as
MMA-Sim (arXiv 2511.10909) found on a GPU of compute capability 12.0; older ones, which multiply in two steps and keep
fewer places, are taken to do the same (assumed).
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, destination, gather, row_offset
from gpusim.engine.rows.tensor_lanes import scratch
from gpusim.engine.rows.tensor_sum import addend
from gpusim.engine.state.jit import compiled, compiled_on_demand
from gpusim.tensor_memory import operand as O
from gpusim.tensor_memory import product as X
from isa import microops as M

_COLUMNS = 8
_results = scratch(32 * _COLUMNS)


@compiled
def row_words(regs, first, t, step):
    """Of each of sixteen rows, twice, the word that number t of its four lanes has; `step` words further for rows from
    number 8 on."""
    row = V.lane_numbers() & V.splat(15)
    place = ((row & V.splat(7)) << V.splat(2)) + V.splat(t) + V.shr(row, V.splat(3)) * V.splat(step)
    return gather(regs, first, place)


@compiled
def stage_rows(code, i, regs, wb, place, selector):
    """A and its scales into scratch. Returns whether any of it is infinite or no number."""
    scales, form, depth = code[i, M.COL_AUX1] >> 8, O.E4M3 + (code[i, M.COL_AUX1] & 15), code[i, M.COL_AUX0] & 255
    packed, sparse = scales & M.SCALES_PACKED != 0, scales & M.SCALES_SPARSE != 0
    a, pairs, special = row_offset(code[i, M.COL_A], wb), 2 if packed else 1, np.uint32(0)
    per = 8 if packed else 4  # elements of a word
    word = row_words(regs, row_offset(code[i, M.COL_AUX3], wb), 2 * (selector >> 2 & 1), 1)
    word = V.shr(word, V.splat(8 * (selector & 3)))
    factor, more = X.scaled_by(place, 0, word, scales & ~M.SCALES_SPARSE, 1.0)
    special |= V.unordered_f64(factor, factor)
    if sparse:
        X.clear(place, 0, depth)
    for k in range(depth >> sparse):
        word = row_words(regs, a + 64 * (k // (4 * per)), k // per % 4, 32)
        value, exponent, wrong = O.decoded(O.cell_bits(word, k, form, packed), form)
        value, exponent, special = value * factor, exponent + more, special | wrong
        if sparse:
            number = k // pairs
            choice = row_words(regs, row_offset(code[i, M.COL_AUX5], wb), number // 16 * 2, 1)
            choice = V.shr(choice, V.splat(2 * (number % 16)))
            X.put_chosen(place, 4 * pairs * (number // 2) + k % pairs, 4, pairs, choice, value, exponent)
        else:
            X.put(place, k * X.ROW, value, exponent)
    return special != np.uint32(0)


@compiled
def stage_column(regs, b, place, depth, n, form, packed):
    """Column n of B into scratch. Returns as `stage_rows`."""
    per = 8 if packed else 4
    for k in range(depth):
        word = regs[b + 32 * (k // (4 * per)) + 4 * n + k // per % 4]
        place[X.RAW + k] = V.get_u32(O.cell_bits(V.splat(word), k, form, packed), 0)
    return X.put_column(place, depth, form) != 0


@compiled_on_demand()
def narrow_product(code, i, regs, wb, mask):
    """Executes OP_QMMA for a warp."""
    place, results, depth = X.room(), _results(), code[i, M.COL_AUX0] & 255
    scales, form, result = code[i, M.COL_AUX1] >> 8, O.E4M3 + (code[i, M.COL_AUX1] >> 4 & 15), code[i, M.COL_AUX2] & 255
    selector = np.int64(regs[row_offset(code[i, M.COL_AUX2] >> 8, wb)])
    b, c, d = row_offset(code[i, M.COL_B], wb), row_offset(code[i, M.COL_C], wb), destination(code, i, wb)
    of_b, step = row_offset(code[i, M.COL_AUX4], wb) + (selector >> 5 & 3), 2 * result
    special, packed = stage_rows(code, i, regs, wb, place, selector), scales & M.SCALES_PACKED != 0
    for n in range(_COLUMNS):
        wrong = stage_column(regs, b, place, depth, n, form, packed)
        if result == 32:
            c_word = row_words(regs, c + 32 * (n & 1), n >> 1, step)
        else:
            c_word = V.shr(row_words(regs, c, n >> 1, step), V.splat(16 * (n & 1)))
        value, top = addend(c_word, 0, result)
        word = V.shr(V.splat(regs[of_b + 4 * n]), V.splat(8 * (selector >> 3 & 3)))
        sums = X.rounded_sums(
            place, depth, 0, value, top - V.splat(X.ORIGIN), word, scales & ~M.SCALES_SPARSE, result, special or wrong
        )
        V.store(results, 32 * n, sums, FULL_MASK)
    lane = V.lane_numbers()
    order = ((lane & V.splat(3)) << V.splat(6)) + V.shr(lane, V.splat(2))
    for half in range(2):
        even, odd = gather(results, 8 * half, order), gather(results, 8 * half + 32, order)
        if result == 32:
            V.store(regs, d + 64 * half, even, mask)
            V.store(regs, d + 64 * half + 32, odd, mask)
        else:
            V.store(regs, d + 32 * half, even | (odd << V.splat(16)), mask)
