"""Single-precision executor (class CLS_FLOAT): add, multiply, fused multiply-add, minimum, comparison to a register.

Results are bit exact; every NaN result is 0x7fffffff. With .FTZ denormal sources count as zeros of the same sign, and
a result that is denormal after rounding becomes one.
"""

from gpusim.engine.rows import float_bits as F
from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import destination, modified, predicate, row_offset, source
from gpusim.engine.state.jit import compiled
from isa import microops as m


@compiled
def exact_product(a, b, scale):
    """a * b * 2**scale of two f32 rows, exact in f64 (48 significant bits)."""
    product = V.to_f64(V.as_f32(a)) * V.to_f64(V.as_f32(b))
    return product * V.splat_f64(2.0**scale) if scale != 0 else product


@compiled
def add_rounded(product, c, sign_of_product, rounding):
    """Bits of product + c, rounded once; `c` are f32 bits, `product` is an exact f64 row."""
    addend = V.to_f64(V.as_f32(c))
    total = product + addend
    bits = F.round_to_f32(total, F.sum_error(product, addend, total), rounding)
    if rounding != m.ROUND_DOWN:
        return bits
    # Then an exact zero is -0 unless both addends are +0 (IEEE 754-2019, 6.3).
    zero, signed = V.equal_f64(total, V.splat_f64(0.0)), V.less_s(sign_of_product | c, V.splat(0))
    return V.select(zero & signed, V.splat(F.SIGN), bits)


@compiled
def float_mode(code, i, regs, wb, word):
    """The result of FADD, FMUL, FFMA with flushing, saturation, scaling or a rounding direction; a word of that of
    FADD2, FMUL2, FFMA2, whose operands are pairs of float32, or one for both."""
    op = code[i, m.COL_OP]
    bits_of_mode, rounding, scale = code[i, m.COL_AUX0], code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    single = code[i, m.COL_AUX3] if word > 0 else 0
    a = modified(V.load(regs, row_offset(code[i, m.COL_A], wb) + (0 if single & 1 else word)), code[i, m.COL_MOD_A])
    b = modified(V.load(regs, row_offset(code[i, m.COL_B], wb) + (0 if single & 2 else word)), code[i, m.COL_MOD_B])
    c = modified(V.load(regs, row_offset(code[i, m.COL_C], wb) + (0 if single & 4 else word)), code[i, m.COL_MOD_C])
    if bits_of_mode & m.FLAG_FTZ:
        a, b, c = F.flushed(a), F.flushed(b), F.flushed(c)
    if bits_of_mode & m.FLAG_FMZ:
        a, b = F.zeroed(a, b)
    if op == m.OP_FADD_MODE or op == m.OP_FADD2:
        if rounding == m.ROUND_NEAREST:
            d = F.canonical(V.as_f32(a) + V.as_f32(b))
        else:
            d = add_rounded(V.to_f64(V.as_f32(a)), b, a, rounding)
    elif op == m.OP_FMUL_MODE or op == m.OP_FMUL2:
        d = F.round_to_f32(exact_product(a, b, scale), V.splat_f64(0.0), rounding)
    elif rounding == m.ROUND_NEAREST:
        d = F.canonical(V.fma(V.as_f32(a), V.as_f32(b), V.as_f32(c)))
    else:
        d = add_rounded(exact_product(a, b, 0), c, a ^ b, rounding)
    if bits_of_mode & m.FLAG_FTZ:
        d = F.flushed(d)
    if bits_of_mode & m.FLAG_SAT:
        d = F.saturated(d)
    return d


@compiled
def ordered_key(bits):
    """Signed integers in the order of the floats, -0 below +0."""
    return bits ^ (V.sar(bits, V.splat(31)) & V.splat(0x7FFFFFFF))


@compiled
def minimum_maximum(a, b, smaller, modes):
    """FMNMX: minimum in the lanes of `smaller`, maximum in the others; -0 is below +0.

    One NaN loses against a number, two give the canonical NaN; with FLAG_NAN one is enough.
    """
    if modes & m.FLAG_FTZ:
        a, b = F.flushed(a), F.flushed(b)
    a_less = V.less_s(ordered_key(a), ordered_key(b))
    d = V.select(~(a_less ^ smaller), a, b)
    a_nan = V.unordered_f32(V.as_f32(a), V.as_f32(a))
    b_nan = V.unordered_f32(V.as_f32(b), V.as_f32(b))
    d = V.select(a_nan, b, V.select(b_nan, a, d))
    nan = a_nan | b_nan if modes & m.FLAG_NAN else a_nan & b_nan
    return V.select(nan, V.splat(F.CANONICAL_NAN), d)


@compiled
def with_signs_of(d, a, b):
    """.XORSIGN: a number gets the product of the signs that the operands have in their registers."""
    return V.select(V.unordered_f32(V.as_f32(d), V.as_f32(d)), d, (d & V.splat(~F.SIGN)) | ((a ^ b) & V.splat(F.SIGN)))


@compiled
def compare_f32(a, b, relation, modes):
    """Mask of a comparison of two rows of f32 bits."""
    if modes & m.FLAG_FTZ:
        a, b = F.flushed(a), F.flushed(b)
    x, y = V.as_f32(a), V.as_f32(b)
    return F.compare_masks(V.less_f32(x, y), V.equal_f32(x, y), V.unordered_f32(x, y), relation)


@compiled
def exec_float(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_FLOAT) for the lanes of `mask`; isa.microops has a row for each."""
    op = code[i, m.COL_OP]
    if op >= m.OP_FADD2:
        low, high = float_mode(code, i, regs, wb, 0), float_mode(code, i, regs, wb, 32)
        V.store(regs, destination(code, i, wb), low, mask)
        V.store(regs, destination(code, i, wb) + 32, high, mask)
        return
    if op == m.OP_FADD_MODE or op == m.OP_FMUL_MODE or op == m.OP_FFMA_MODE:
        V.store(regs, destination(code, i, wb), float_mode(code, i, regs, wb, 0), mask)
        return
    a = source(code, i, m.COL_A, regs, wb)
    b = source(code, i, m.COL_B, regs, wb)
    c = source(code, i, m.COL_C, regs, wb)
    d = a
    if op == m.OP_FFMA:
        d = F.canonical(V.fma(V.as_f32(a), V.as_f32(b), V.as_f32(c)))
    elif op == m.OP_FADD:
        d = F.canonical(V.as_f32(a) + V.as_f32(b))
    elif op == m.OP_FMUL:
        d = F.canonical(V.as_f32(a) * V.as_f32(b))
    elif op == m.OP_FFMA_FTZ:
        d = F.flushed(F.canonical(V.fma(V.as_f32(F.flushed(a)), V.as_f32(F.flushed(b)), V.as_f32(F.flushed(c)))))
    elif op == m.OP_FADD_FTZ:
        d = F.flushed(F.canonical(V.as_f32(F.flushed(a)) + V.as_f32(F.flushed(b))))
    elif op == m.OP_FMUL_FTZ:
        d = F.flushed(F.canonical(V.as_f32(F.flushed(a)) * V.as_f32(F.flushed(b))))
    elif op == m.OP_FMNMX:
        d = minimum_maximum(a, b, predicate(code, i, m.COL_PS0, preds, pb), code[i, m.COL_AUX0])
        if code[i, m.COL_AUX0] & m.FLAG_XORSIGN:
            a = V.load(regs, row_offset(code[i, m.COL_A], wb))
            d = with_signs_of(d, a, V.load(regs, row_offset(code[i, m.COL_B], wb)))
    elif op == m.OP_FMNMX3:
        smaller, modes = predicate(code, i, m.COL_PS0, preds, pb), code[i, m.COL_AUX0]
        d = minimum_maximum(minimum_maximum(a, b, smaller, modes), c, smaller, modes)
    elif op == m.OP_FSEL_FTZ:
        d = F.flushed(V.select(predicate(code, i, m.COL_PS0, preds, pb), a, b))
    elif op == m.OP_FSET:
        other = predicate(code, i, m.COL_PS0, preds, pb)
        holds = compare_f32(a, b, code[i, m.COL_AUX0], code[i, m.COL_AUX1])
        truth = V.splat(0x3F800000 if code[i, m.COL_AUX3] != 0 else 0xFFFFFFFF)
        d = V.select(F.combined(holds, other, code[i, m.COL_AUX2]), truth, V.splat(0))
    V.store(regs, destination(code, i, wb), d, mask)
