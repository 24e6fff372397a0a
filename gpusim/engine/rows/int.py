"""Integer executor: moves, additions with carries, multiplications, shifts, logic, bytes (class CLS_INT).

One short function per meaning, then the dispatcher `exec_int`. Where the meaning of a corner is not in NVIDIA's PTX
manual (carry out of a sum with a negated operand, funnel shifts by the width or more), it follows the constant
folder of Mesa's NAK compiler, which is tested against hardware.
"""

from gpusim.engine.rows import common, simd
from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.float_bits import NO_LANES
from gpusim.engine.state.jit import compiled
from isa import microops as m


@compiled
def addend(code, i, column, regs, wb):
    """A source of a carry chain in 64 bits: -x is ~x + 1 without wrapping, so that x - 0 carries (no borrow)."""
    row = V.load(regs, common.row_offset(code[i, column], wb))
    modifier = code[i, column + 1]
    if modifier == m.MOD_INEG:
        return V.zero_extend(row ^ V.splat(0xFFFFFFFF)) + V.splat64(1)
    return V.zero_extend(common.modified(row, modifier))


@compiled
def lea_sum(code, i, regs, wb):
    """B and the shifted operand of LEA, which may be negated or inverted, in 64 bits: the low word of a << n, or the
    high word of (c:a) << n, or of sign extended a << n."""
    a, amount, form = common.source(code, i, m.COL_A, regs, wb), V.splat(code[i, m.COL_AUX0]), code[i, m.COL_AUX2]
    above = common.source(code, i, m.COL_C, regs, wb) if form == 1 else V.sar(a, V.splat(31))
    wide, negation = V.shl64(V.join(a, above), amount), code[i, m.COL_AUX1]
    shifted = V.low(wide) if form == 0 else V.high(wide)
    term = V.zero_extend(shifted if negation == 0 else shifted ^ V.splat(0xFFFFFFFF))
    return term + V.splat64(1 if negation == 1 else 0) + addend(code, i, m.COL_B, regs, wb)


@compiled
def spread(table, k):
    """A row of all ones if bit k of the table is set, else of zeros."""
    return V.splat(-((table >> k) & 1))


@compiled
def either(choice, if_one, if_zero):
    """Bit by bit: `if_one` where `choice` has a one, else `if_zero`."""
    return if_zero ^ (choice & (if_one ^ if_zero))


@compiled
def takes_first(a, b, shift, smaller, signed, packed):
    """Lanes in which VIMNMX takes A, or if `packed` its half from bit `shift` on; A where they are equal."""
    if packed != 0:
        a, b = V.shr(a, V.splat(shift)) << V.splat(16), V.shr(b, V.splat(shift)) << V.splat(16)
    a_less = V.less_s(a, b) if signed != 0 else V.less_u(a, b)
    b_less = V.less_s(b, a) if signed != 0 else V.less_u(b, a)
    return ~((smaller & b_less) | (~smaller & a_less))


@compiled
def chosen_mnmx(a, b, smaller, signed, relu, packed):
    """MNMX_CHOICE: the extreme, and the lanes in which A, or its lower and its upper half, are it."""
    first = takes_first(a, b, 0, smaller, signed, packed)
    second = takes_first(a, b, 16, smaller, signed, packed)
    d = (V.select(first, a, b) & V.splat(0xFFFF)) | (V.select(second, a, b) & V.splat(0xFFFF0000))
    if relu != 0:
        d = simd.mnmx_packed(d, V.splat(0), 16, 0, 1) if packed != 0 else V.max_s(d, V.splat(0))
        first &= takes_first(a, V.splat(0), 0, NO_LANES, 1, packed)
        second &= takes_first(a, V.splat(0), 16, NO_LANES, 1, packed)
    return d, first, second


@compiled
def store_pair(regs, offset, value, mask):
    V.store(regs, offset, V.low(value), mask)
    V.store(regs, offset + 32, V.high(value), mask)


@compiled
def add_pairs(code, i, regs, wb, preds, pb, mask):
    """A 64-bit addition with carries; as in `addend`, -x is ~x + 1 without wrapping."""
    signs = code[i, m.COL_AUX0]
    a = common.source_pair(code, i, m.COL_A, regs, wb)
    b = common.source_pair(code, i, m.COL_B, regs, wb)
    a = a ^ V.splat64(0xFFFFFFFFFFFFFFFF) if signs & 5 else a
    b = b ^ V.splat64(0xFFFFFFFFFFFFFFFF) if signs & 10 else b
    ones = V.mask_bits(common.predicate(code, i, m.COL_PS0, preds, pb)) + V.splat((signs & 1) + ((signs >> 1) & 1))
    partial = a + b
    total = partial + V.zero_extend(ones)
    carry = V.less_u64(partial, a) | V.less_u64(total, partial)
    common.set_predicate(preds, pb, code[i, m.COL_PD0], carry, mask)
    store_pair(regs, common.destination(code, i, wb), total, mask)


@compiled
def multiply_add(code, i, regs, wb, preds, pb, mask):
    """A product with a 64-bit addend or a carry; IMAD_CARRY's product and addition have 32 bits."""
    op = code[i, m.COL_OP]
    a = common.source(code, i, m.COL_A, regs, wb)
    b = common.source(code, i, m.COL_B, regs, wb)
    carry_in = V.mask_bits(common.predicate(code, i, m.COL_PS0, preds, pb))
    if op == m.OP_IMAD_CARRY:
        total = V.zero_extend(a * b) + addend(code, i, m.COL_C, regs, wb) + V.zero_extend(carry_in)
        carry_out = ~V.equal(V.high(total), V.splat(0))
    else:
        signed = op == m.OP_IMAD_WIDE_S or op == m.OP_IMAD_HI_S
        product = V.sign_extend(a) * V.sign_extend(b) if signed else V.zero_extend(a) * V.zero_extend(b)
        c = common.source_pair(code, i, m.COL_C, regs, wb)
        partial = product + (V.splat64(0) - c if code[i, m.COL_AUX0] & 2 else c)
        total = partial + V.zero_extend(carry_in)
        carry_out = V.less_u64(partial, product) | V.less_u64(total, partial)
    common.set_predicate(preds, pb, code[i, m.COL_PD0], carry_out, mask)
    if op == m.OP_IMAD_WIDE_U or op == m.OP_IMAD_WIDE_S:
        store_pair(regs, common.destination(code, i, wb), total, mask)
    else:
        V.store(regs, common.destination(code, i, wb), V.low(total) if op == m.OP_IMAD_CARRY else V.high(total), mask)


@compiled
def exec_int_wide(code, i, regs, wb, preds, pb, mask):
    """Integer micro-operations with a 64-bit source or destination, or with carries."""
    op = code[i, m.COL_OP]
    offset = common.destination(code, i, wb)
    if op == m.OP_MOV_WIDE:
        store_pair(regs, offset, common.source_pair(code, i, m.COL_A, regs, wb), mask)
    elif op == m.OP_ADD3_WIDE:
        total = common.source_pair(code, i, m.COL_A, regs, wb) + common.source_pair(code, i, m.COL_B, regs, wb)
        store_pair(regs, offset, total + common.source_pair(code, i, m.COL_C, regs, wb), mask)
    elif op == m.OP_SEL_WIDE:
        chosen = common.predicate(code, i, m.COL_PS0, preds, pb)
        a = common.source_pair(code, i, m.COL_A, regs, wb)
        store_pair(regs, offset, V.select(chosen, a, common.source_pair(code, i, m.COL_B, regs, wb)), mask)
    elif op == m.OP_MNMX_WIDE_U or op == m.OP_MNMX_WIDE_S:
        a = common.source_pair(code, i, m.COL_A, regs, wb)
        b = common.source_pair(code, i, m.COL_B, regs, wb)
        less = V.less_u64(a, b) if op == m.OP_MNMX_WIDE_U else V.less_s64(a, b)
        smaller = common.predicate(code, i, m.COL_PS0, preds, pb)
        store_pair(regs, offset, V.select(~(less ^ smaller), a, b), mask)
    elif op == m.OP_ADD2_WIDE:
        add_pairs(code, i, regs, wb, preds, pb, mask)
    elif op == m.OP_IADD3_CARRY:
        ones = V.mask_bits(common.predicate(code, i, m.COL_PS0, preds, pb))
        ones = ones + V.mask_bits(common.predicate(code, i, m.COL_PS1, preds, pb))
        total = addend(code, i, m.COL_A, regs, wb) + addend(code, i, m.COL_B, regs, wb) + V.zero_extend(ones)
        total = total + addend(code, i, m.COL_C, regs, wb)
        carry = V.high(total)
        common.set_predicate(preds, pb, code[i, m.COL_PD1], V.less_u(V.splat(1), carry), mask)
        common.set_predicate(preds, pb, code[i, m.COL_PD0], ~V.equal(carry, V.splat(0)), mask)
        V.store(regs, offset, V.low(total), mask)
    elif op == m.OP_LEA_CARRY:
        carry_in = V.mask_bits(common.predicate(code, i, m.COL_PS0, preds, pb))
        total = lea_sum(code, i, regs, wb) + V.zero_extend(carry_in)
        common.set_predicate(preds, pb, code[i, m.COL_PD0], ~V.equal(V.high(total), V.splat(0)), mask)
        V.store(regs, offset, V.low(total), mask)
    else:
        multiply_add(code, i, regs, wb, preds, pb, mask)


@compiled
def exec_int_rare(code, i, regs, wb, preds, pb, mask):
    """Integer micro-operations that seldom occur, kept apart so that the common dispatcher stays small."""
    op = code[i, m.COL_OP]
    a = common.source(code, i, m.COL_A, regs, wb)
    b = common.source(code, i, m.COL_B, regs, wb)
    c = common.source(code, i, m.COL_C, regs, wb)
    aux0, aux1, aux2 = code[i, m.COL_AUX0], code[i, m.COL_AUX1], code[i, m.COL_AUX2]
    smaller = common.predicate(code, i, m.COL_PS0, preds, pb)
    d = a
    if op == m.OP_BMSK:
        if aux0 != 0:
            a, b = a & V.splat(31), b & V.splat(31)
        d = V.shl(V.shl(V.splat(1), b) - V.splat(1), a)  # b ones from bit a up
    elif op == m.OP_SGXT_S or op == m.OP_SGXT_U:
        # The low b bits, extended by zeros or by their sign; 32 and more bits leave the value as it is.
        spare = V.splat(32) - V.min_u(b & V.splat(31) if aux0 != 0 else b, V.splat(32))
        d = V.sar(V.shl(a, spare), spare) if op == m.OP_SGXT_S else V.shr(V.shl(a, spare), spare)
    elif op == m.OP_PRMT:
        d = simd.permute_bytes(a, b, c, aux0)
    elif op == m.OP_ADDMNMX_U:
        d = V.select(smaller, V.min_u(a + b, c), V.max_u(a + b, c))
    elif op == m.OP_ADDMNMX_S:
        d = V.select(smaller, V.min_s(a + b, c), V.max_s(a + b, c))
        d = V.max_s(d, V.splat(0)) if aux1 != 0 else d
    elif op == m.OP_MNMX3_U:
        d = V.select(smaller, V.min_u(V.min_u(a, b), c), V.max_u(V.max_u(a, b), c))
    elif op == m.OP_MNMX3_S:
        d = V.select(smaller, V.min_s(V.min_s(a, b), c), V.max_s(V.max_s(a, b), c))
        d = V.max_s(d, V.splat(0)) if aux1 != 0 else d
    elif op == m.OP_IDP_4A:
        d = simd.dot_packed(a, b, 8, aux0) + c
    elif op == m.OP_IDP_2A:
        first = 2 if aux1 != 0 else 0  # of b's bytes, two of which meet a's half words
        d = c + simd.part(a, 0, 16, aux0 & 1) * simd.part(b, first, 8, aux0 & 2)
        d = d + simd.part(a, 1, 16, aux0 & 1) * simd.part(b, first + 1, 8, aux0 & 2)
    elif op == m.OP_I2I_SAT:
        d = simd.saturate(a, aux0, aux1)
    elif op == m.OP_I2IP:
        if aux2 != 0:
            a, b = simd.saturate(a, aux0, aux1), simd.saturate(b, aux0, aux1)
        d = simd.pack(a, b, V.shr(c, V.splat(code[i, m.COL_AUX3])), aux0)
    elif op == m.OP_VABSDIFF:
        a_less = V.less_s(a, b) if aux0 != 0 else V.less_u(a, b)
        d = V.select(a_less, b - a, a - b) + c
        common.set_predicate(preds, pb, code[i, m.COL_PD0], V.less_u(d, c), mask)
    elif op == m.OP_VABSDIFF4:
        common.set_predicate(preds, pb, code[i, m.COL_PD0], 0, mask)
        d = simd.byte_differences(a, b, c, aux0, aux1)
    elif op == m.OP_ADD_16X2:
        d = simd.add_packed(a, b, 16, aux0)
    elif op == m.OP_MNMX_16X2:
        if aux2 != 0:
            a, b = simd.add_packed(a, b, 16, 0), c
        d = simd.mnmx_packed(a, b, 16, smaller, aux0)
        d = simd.mnmx_packed(d, V.splat(0), 16, 0, 1) if aux1 != 0 else d
    elif op == m.OP_MNMX3_16X2:
        d = simd.mnmx_packed(simd.mnmx_packed(a, b, 16, smaller, aux0), c, 16, smaller, aux0)
        d = simd.mnmx_packed(d, V.splat(0), 16, 0, 1) if aux1 != 0 else d
    elif op == m.OP_ADD_8X4:
        d = simd.add_packed(a, b, 8, aux0)
    elif op == m.OP_MNMX_8X4:
        d = simd.mnmx_packed(a, b, 8, smaller, aux0)
    elif op == m.OP_ADD_SAT:
        # a - b is the complement of ~a + b, and so are the limits; -b would not be right of the least integer.
        flipped = V.splat(0xFFFFFFFF if aux0 != 0 else 0)
        a = a ^ flipped
        d = a + b  # which overflowed if both addends have the sign that it has not
        overflowed = V.less_s((a ^ d) & (b ^ d), V.splat(0))
        d = V.select(overflowed, V.sar(d, V.splat(31)) ^ V.splat(0x80000000), d) ^ flipped
    elif op == m.OP_MNMX_CHOICE:
        d, first, second = chosen_mnmx(a, b, smaller, aux0, aux1, aux2)
        common.set_predicate(preds, pb, code[i, m.COL_PD1], second, mask)
        common.set_predicate(preds, pb, code[i, m.COL_PD0], first, mask)
    elif op == m.OP_MOV_LANES:
        chosen = V.shr(V.splat(aux0), V.lane_numbers() & V.splat(3)) & V.splat(1)
        d = V.select(V.equal(chosen, V.splat(1)), a, V.load(regs, common.destination(code, i, wb)))
    V.store(regs, common.destination(code, i, wb), d, mask)


@compiled
def exec_int(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_INT) for the lanes of `mask`; isa.microops has a row for each."""
    op = code[i, m.COL_OP]
    if op >= m.FIRST_RARE_INT:
        exec_int_rare(code, i, regs, wb, preds, pb, mask)
        return
    if op >= m.FIRST_WIDE_INT:
        exec_int_wide(code, i, regs, wb, preds, pb, mask)
        return
    a = common.source(code, i, m.COL_A, regs, wb)
    b = common.source(code, i, m.COL_B, regs, wb)
    c = common.source(code, i, m.COL_C, regs, wb)
    d = a
    if op == m.OP_IADD3:
        d = a + b + c
    elif op == m.OP_IMAD:
        d = a * b + c
    elif op == m.OP_IADD3_X:
        d = a + b + c + V.mask_bits(common.predicate(code, i, m.COL_PS0, preds, pb))
        d = d + V.mask_bits(common.predicate(code, i, m.COL_PS1, preds, pb))
    elif op == m.OP_IMAD_X:
        d = a * b + c + V.mask_bits(common.predicate(code, i, m.COL_PS0, preds, pb))
    elif op == m.OP_LEA:
        d = (a << V.splat(code[i, m.COL_AUX0])) + b
    elif op == m.OP_SEL:
        d = V.select(common.predicate(code, i, m.COL_PS0, preds, pb), a, b)
    elif op == m.OP_AND:
        d = a & b
    elif op == m.OP_OR:
        d = a | b
    elif op == m.OP_XOR:
        d = a ^ b
    elif op == m.OP_LOP3 or op == m.OP_LOP3_PRED:
        table = code[i, m.COL_AUX0]  # bit 4a + 2b + c of it, for each bit of the sources
        b0 = either(b, either(c, spread(table, 3), spread(table, 2)), either(c, spread(table, 1), spread(table, 0)))
        b1 = either(b, either(c, spread(table, 7), spread(table, 6)), either(c, spread(table, 5), spread(table, 4)))
        d = either(a, b1, b0)
        if op == m.OP_LOP3_PRED:
            nonzero = ~V.equal(d, V.splat(0))
            other = common.predicate(code, i, m.COL_PS0, preds, pb)
            result = nonzero & other if code[i, m.COL_AUX1] != 0 else nonzero | other
            common.set_predicate(preds, pb, code[i, m.COL_PD0], result, mask)
    elif op == m.OP_SHL:
        d = V.shl(a, b)
    elif op == m.OP_SHR_U:
        d = V.shr(a, b)
    elif op == m.OP_SHR_S:
        d = V.sar(a, b)
    elif op == m.OP_SHF_L or op == m.OP_SHF_R_U or op == m.OP_SHF_R_S:
        bits = code[i, m.COL_AUX1]  # 32 or 64, by which .W takes the count modulo; else it is limited to them
        count = b & V.splat(bits - 1) if code[i, m.COL_AUX2] != 0 else V.min_u(b, V.splat(bits))
        value = V.join(a, c)
        if op == m.OP_SHF_L:
            value = V.shl64(value, count)
        elif op == m.OP_SHF_R_U:
            value = V.shr64(value, count)
        else:
            value = V.sar64(value, count)
        d = V.high(value) if code[i, m.COL_AUX0] != 0 else V.low(value)
    elif op == m.OP_MNMX_U:
        d = V.select(common.predicate(code, i, m.COL_PS0, preds, pb), V.min_u(a, b), V.max_u(a, b))
    elif op == m.OP_MNMX_S:
        d = V.select(common.predicate(code, i, m.COL_PS0, preds, pb), V.min_s(a, b), V.max_s(a, b))
    elif op == m.OP_IABS:
        d = V.select(V.less_s(a, V.splat(0)), V.splat(0) - a, a)
    V.store(regs, common.destination(code, i, wb), d, mask)
