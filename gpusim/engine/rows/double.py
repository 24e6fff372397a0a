"""Double-precision executor (class CLS_DOUBLE). Operands are register pairs, the low word first.

NaN results, as measured on an H200: a NaN operand comes out quiet, with its own payload and the sign it has in the
register; of several, B's wins, then C's, then A's. An invalid operation on numbers gives 0xfff8000000000000.
"""

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import destination, predicate, row_offset, set_predicate, source_pair
from gpusim.engine.rows.float_bits import combined, compare_masks
from gpusim.engine.rows.int import store_pair
from gpusim.engine.rows.softfloat import fma_directed
from gpusim.engine.state.jit import compiled, compiled_on_demand
from isa import microops as m

CANONICAL_NAN = 0xFFF8000000000000
QUIET = 0x0008000000000000


@compiled
def canonical64(value):
    """Bits of an f64 row with every NaN made canonical."""
    return V.select(V.unordered_f64(value, value), V.splat64(CANONICAL_NAN), V.as_u64(value))


@compiled
def directed(a, b, c, rounding):
    """a * b + c lane by lane with a rounding direction; seldom used (slow paths of division and square root)."""
    x, y, z = V.as_f64(a), V.as_f64(b), V.as_f64(c)
    result = z
    for lane in range(V.LANES):
        value = fma_directed(V.get_f64(x, lane), V.get_f64(y, lane), V.get_f64(z, lane), rounding)
        result = V.put_f64(result, lane, value)
    return V.as_u64(result)


@compiled
def with_nan_of(code, i, column, regs, wb, result):
    """`result`, replaced by the operand of `column` where that is a NaN; modifiers do not touch a NaN."""
    offset = row_offset(code[i, column], wb)
    bits = V.join(V.load(regs, offset), V.load(regs, offset + 32))
    return kept_nan(V.as_f64(bits), result)


@compiled
def kept_nan(source, bits):
    """`bits`, or where a source is NaN that NaN, made quiet."""
    return V.select(V.unordered_f64(source, source), V.as_u64(source) | V.splat64(QUIET), bits)


@compiled
def propagated(code, i, regs, wb, result):
    """Bits of a result row with its NaN lanes as the hardware has them."""
    value = V.as_f64(result)
    if V.unordered_f64(value, value) == 0:
        return result
    result = canonical64(value)
    result = with_nan_of(code, i, m.COL_A, regs, wb, result)
    op = code[i, m.COL_OP]
    if op == m.OP_DFMA or op == m.OP_DFMA_MODE:
        result = with_nan_of(code, i, m.COL_C, regs, wb, result)
    return with_nan_of(code, i, m.COL_B, regs, wb, result)


@compiled_on_demand()
def exec_double(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_DOUBLE) for the lanes of `mask`; isa.microops has a row for each."""
    op = code[i, m.COL_OP]
    a = source_pair(code, i, m.COL_A, regs, wb)
    b = source_pair(code, i, m.COL_B, regs, wb)
    if op == m.OP_DSETP:
        p = predicate(code, i, m.COL_PS0, preds, pb)
        x, y = V.as_f64(a), V.as_f64(b)
        relation = code[i, m.COL_AUX0]
        if relation >= m.COMPARE_MIN:
            # Lanes in which a is chosen. A number wins against a NaN, -0 is below +0, equals choose a as the minimum
            # and b as the maximum (measured on an H200).
            takes_a = V.less_f64(x, y) | (V.equal_f64(x, y) & ~V.less_s64(b, a))
            takes_a = ~takes_a if relation == m.COMPARE_MAX else takes_a
            holds = (takes_a | V.unordered_f64(y, y)) & ~V.unordered_f64(x, x)
            second = V.unordered_f64(x, x) & V.unordered_f64(y, y)
        else:
            holds = compare_masks(V.less_f64(x, y), V.equal_f64(x, y), V.unordered_f64(x, y), relation)
            second = combined(~holds, p, code[i, m.COL_AUX2])
        set_predicate(preds, pb, code[i, m.COL_PD1], second, mask)
        set_predicate(preds, pb, code[i, m.COL_PD0], combined(holds, p, code[i, m.COL_AUX2]), mask)
        return
    c = source_pair(code, i, m.COL_C, regs, wb)
    if op == m.OP_DADD:
        d = V.as_u64(V.as_f64(a) + V.as_f64(b))
    elif op == m.OP_DMUL:
        d = V.as_u64(V.as_f64(a) * V.as_f64(b))
    elif op == m.OP_DFMA:
        d = V.as_u64(V.fma(V.as_f64(a), V.as_f64(b), V.as_f64(c)))
    elif op == m.OP_DADD_MODE:
        d = directed(a, V.splat64(0x3FF0000000000000), b, code[i, m.COL_AUX1])
    elif op == m.OP_DMUL_MODE:
        # A zero with the product's sign changes nothing. Of a zero product -0 as the addend keeps the sign in every
        # rounding but downward, where +0 does.
        d = directed(a, b, (a ^ b) & V.splat64(0x8000000000000000), code[i, m.COL_AUX1])
    else:
        d = directed(a, b, c, code[i, m.COL_AUX1])
    store_pair(regs, destination(code, i, wb), propagated(code, i, regs, wb, d), mask)
