"""Integer and bit matrix products of fragments: exact sums that wrap around or saturate."""

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import gather
from gpusim.engine.rows.simd import dot_packed, part
from gpusim.engine.rows.tensor_sum import a_lanes, b_lanes
from gpusim.engine.state.jit import compiled

_MOST = 0x7FFFFFFF
_LEAST = 0xFFFFFFFF80000000


@compiled
def added(c_word, products, saturate):
    """C + products, which themselves fit 32 bits."""
    if not saturate:
        return c_word + products
    total = V.sign_extend(c_word) + V.sign_extend(products)
    total = V.select(V.less_s64(V.splat64(_MOST), total), V.splat64(_MOST), total)
    return V.low(V.select(V.less_s64(total, V.splat64(_LEAST)), V.splat64(_LEAST), total))


@compiled
def integer_sum(a_rows, a, step, b_rows, b, odd, words, kind, c_word, saturate):
    """C plus the products of a row of A (words `step` elements apart) and one of the lane's two columns of B. kind: bit
    0 A signed, bit 1 B signed, bits 4.. bits of an element (1: AND, 2: XOR of bits)."""
    total = V.splat(0)
    for word in range(words):
        for t in range(4):
            a_word = gather(a_rows, a + step * word, a_lanes(t))
            b_word = gather(b_rows, b + 32 * word, b_lanes(t, odd))
            if kind >> 4 <= 2:
                total = total + V.count_ones(a_word & b_word if kind >> 4 == 1 else a_word ^ b_word)
            else:
                total = total + dot_packed(a_word, b_word, kind >> 4, kind)
    return added(c_word, total, saturate)


# many parameters: two fragments with their places, an addend and where the metadata lies
@compiled
def sparse_integer_sum(a_rows, a, b_rows, b, odd, words, kind, c_word, saturate, meta_rows, lower, selector):
    """C plus products as in integer_sum, of bytes of which two in four are kept: `group_numbers` reads the metadata."""
    total = V.splat(0)
    for word in range(words):
        chosen = group_numbers(meta_rows, a_rows, lower, 2 * word if words > 1 else 2 * selector)
        for j in range(16):
            a_word = gather(a_rows, a + 64 * word, a_lanes(j >> 2))
            b_word = gather(b_rows, b + 64 * word + 32 * (j >> 3), b_lanes((j >> 1) & 3, odd))
            number = V.shr(chosen, V.splat(2 * j)) & V.splat(3)
            b_byte = V.shr(b_word, number << V.splat(3))
            total = total + part(a_word, j & 3, 8, kind & 1) * part(b_byte, 0, 8, kind & 2)
    return added(c_word, total, saturate)


@compiled
def group_numbers(rows, regs, lower, lane):
    """Metadata of this lane's row of A: a whole word of one of the four lanes that share the row."""
    return gather(regs, rows, (V.lane_numbers() & V.splat(28)) + V.splat(lane + lower))
