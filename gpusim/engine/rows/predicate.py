"""Predicate executor (class CLS_PRED): comparisons, predicate logic, predicates to and from registers."""

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import destination, predicate, set_predicate, source, source_pair
from gpusim.engine.rows.float import compare_f32
from gpusim.engine.rows.float_bits import NO_LANES, combined, compare_masks
from gpusim.engine.state.jit import compiled
from isa import microops as m

_PREDICATES = 7


@compiled
def predicate_table(p, q, r, table):
    """PLOP3: bit (4p + 2q + r) of the table, for every lane."""
    result = NO_LANES
    for k in range(8):
        if (table >> k) & 1:
            result |= (p if k & 4 else ~p) & (q if k & 2 else ~q) & (r if k & 1 else ~r)
    return result


@compiled
def sign_or(value, from_register, code, i, column, regs, wb):
    """A source of PLOP3: a predicate, or the sign of a register."""
    return V.less_s(source(code, i, column, regs, wb), V.splat(0)) if from_register != 0 else value


@compiled
def exec_pred(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_PRED) for the lanes of `mask`; isa.microops has a row for each."""
    op = code[i, m.COL_OP]
    aux0, aux1 = code[i, m.COL_AUX0], code[i, m.COL_AUX1]
    p = predicate(code, i, m.COL_PS0, preds, pb)
    if op == m.OP_PLOP3:
        q = predicate(code, i, m.COL_PS1, preds, pb)
        r = predicate(code, i, m.COL_PS2, preds, pb)
        signs = code[i, m.COL_AUX2]
        p = sign_or(p, signs & 1, code, i, m.COL_A, regs, wb)
        q = sign_or(q, signs & 2, code, i, m.COL_B, regs, wb)
        r = sign_or(r, signs & 4, code, i, m.COL_C, regs, wb)
        set_predicate(preds, pb, code[i, m.COL_PD1], predicate_table(p, q, r, aux1), mask)
        set_predicate(preds, pb, code[i, m.COL_PD0], predicate_table(p, q, r, aux0), mask)
        return
    a = source(code, i, m.COL_A, regs, wb)
    b = source(code, i, m.COL_B, regs, wb)
    first = pb + (8 if aux1 != 0 else 0)
    if op == m.OP_P2R:
        chosen = b & V.splat(0xFF)  # there is no predicate behind the top bit: it becomes zero
        bits = V.splat(0)
        for k in range(_PREDICATES):
            bits = bits | (V.mask_bits(preds[first + k]) << V.splat(k))
        shift = V.splat(8 * aux0)
        d = (a & ((chosen << shift) ^ V.splat(0xFFFFFFFF))) | ((bits & chosen) << shift)
        V.store(regs, destination(code, i, wb), d, mask)
        return
    if op == m.OP_R2P:
        bits = V.shr(a, V.splat(8 * aux0))
        for k in range(_PREDICATES):
            chosen = ~V.equal(b & V.splat(1 << k), V.splat(0)) & mask
            value = ~V.equal(bits & V.splat(1 << k), V.splat(0))
            preds[first + k] = (preds[first + k] & ~chosen) | (value & chosen)
        return
    if op == m.OP_FCHK:
        # Lanes in which a / b may leave the range where Newton's iteration is exact. The exponent fields alone decide;
        # the limits were read off an H200 over all 65,536 pairs of exponents.
        ea = V.shr(a, V.splat(23)) & V.splat(255)
        eb = V.shr(b, V.splat(23)) & V.splat(255)
        slow = V.less_u(V.splat(254 - 25), ea - V.splat(25)) | V.less_u(V.splat(251 - 2), eb - V.splat(2))
        slow |= V.less_s(V.splat(126), ea - eb) | V.less_s(ea - eb, V.splat(-124))
        set_predicate(preds, pb, code[i, m.COL_PD0], slow, mask)
        return
    if op == m.OP_FSETP:
        holds = compare_f32(a, b, aux0, aux1)
    elif op == m.OP_ISETP_WIDE:
        wide_a = source_pair(code, i, m.COL_A, regs, wb)
        wide_b = source_pair(code, i, m.COL_B, regs, wb)
        below = V.less_u64(wide_a, wide_b) if aux1 != 0 else V.less_s64(wide_a, wide_b)
        holds = compare_masks(below, V.equal64(wide_a, wide_b), NO_LANES, aux0)
    else:
        less = V.less_u(a, b) if aux1 != 0 else V.less_s(a, b)
        equals = V.equal(a, b)
        holds = compare_masks(less, equals, NO_LANES, aux0)
        if code[i, m.COL_AUX3] != 0:
            # The words below decide where the high words are equal.
            below = predicate(code, i, m.COL_PS1, preds, pb)
            holds = (equals & below) | (~equals & holds)
    set_predicate(preds, pb, code[i, m.COL_PD1], combined(~holds, p, code[i, m.COL_AUX2]), mask)
    set_predicate(preds, pb, code[i, m.COL_PD0], combined(holds, p, code[i, m.COL_AUX2]), mask)
