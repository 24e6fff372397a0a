"""Read-modify-write operations: on shared memory at issue, on global memory at L2 in time order between windows."""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import row_offset, set_predicate
from gpusim.engine.rows.float_bits import canonical, flushed
from gpusim.engine.rows.half import combine_halves
from gpusim.engine.sm.cluster import BYTE_MASK, SM_SHIFT
from gpusim.engine.sm.space import move_rows, store_rows
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit
from isa import microops as M


@compiled
def words_of(kind):
    """32-bit words of an atomic's type."""
    if kind in (M.TYPE_U64, M.TYPE_S64, M.TYPE_F64, M.TYPE_F32X2, M.TYPE_F16X4, M.TYPE_BF16X4):
        return 2
    return 4 if kind in (M.TYPE_U128, M.TYPE_F32X4, M.TYPE_F16X8, M.TYPE_BF16X8) else 1


@compiled
def swaps(st, i):
    """True if an instruction is a compare-and-swap."""
    op = st.code[i, M.COL_OP]
    return (op == M.OP_ATOM or op == M.OP_RED) and st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_CAS


@compiled
def combine32(op, kind, old, value):
    """New 32-bit word for every operation that needs no second operand."""
    if op == M.ATOMIC_EXCH:
        return value
    if kind == M.TYPE_F32 or kind == M.TYPE_F32_FTZ or kind == M.TYPE_F32X2 or kind == M.TYPE_F32X4:
        a, b = V.splat(old), V.splat(value)  # the sum is the only operation besides exchanges
        if kind == M.TYPE_F32:
            return V.get_u32(canonical(V.as_f32(a) + V.as_f32(b)), 0)
        return V.get_u32(flushed(canonical(V.as_f32(flushed(a)) + V.as_f32(flushed(b)))), 0)
    if kind == M.TYPE_F16X2 or kind == M.TYPE_F16X4 or kind == M.TYPE_F16X8:
        return combine_halves(op, M.HALF_F16, old, value)
    if kind == M.TYPE_BF16X2 or kind == M.TYPE_BF16X4 or kind == M.TYPE_BF16X8:
        return combine_halves(op, M.HALF_BF16, old, value)
    if op == M.ATOMIC_POPC_INC:
        return np.uint32(old + np.uint32(1))
    if op == M.ATOMIC_INC:
        return np.uint32(0) if old >= value else np.uint32(old + np.uint32(1))
    if op == M.ATOMIC_DEC:
        return value if (old == 0 or old > value) else np.uint32(old - np.uint32(1))
    if kind == M.TYPE_S32:
        wide = combine64(op, M.TYPE_S64, np.uint64(np.int64(np.int32(old))), np.uint64(np.int64(np.int32(value))))
    else:
        wide = combine64(op, M.TYPE_U64, np.uint64(old), np.uint64(value))
    return np.uint32(wide & np.uint64(0xFFFFFFFF))


@compiled
def combine64(op, kind, old, value):
    """Return the new value of a 64-bit atomic, as combine32 does of a 32-bit one."""
    if op == M.ATOMIC_EXCH:
        return value
    if kind == M.TYPE_F64:
        total = np.uint64(old).view(np.float64) + np.uint64(value).view(np.float64)
        return np.float64(total).view(np.uint64)
    if op == M.ATOMIC_ADD:
        return np.uint64(old + value)
    if op == M.ATOMIC_MIN or op == M.ATOMIC_MAX:
        less = np.int64(old) < np.int64(value) if kind == M.TYPE_S64 else old < value
        return old if less == (op == M.ATOMIC_MIN) else value
    if op == M.ATOMIC_AND:
        return old & value
    if op == M.ATOMIC_OR:
        return old | value
    return old ^ value


@compiled
def combine_pair(words, at, op, kind, low, high):
    """combine64 on the two words from words[at] on."""
    old = np.uint64(words[at]) | (np.uint64(words[at + 1]) << np.uint64(32))
    new = combine64(op, kind, old, np.uint64(low) | (np.uint64(high) << np.uint64(32)))
    words[at] = np.uint32(new & np.uint64(0xFFFFFFFF))
    words[at + 1] = np.uint32(new >> np.uint64(32))


@compiled
def modify(words, at, op, kind, values, lane):
    """One lane's atomic on words[at...]; values[0:4] operand, values[4:8] swap value. True if memory was written."""
    count = words_of(kind)
    if op == M.ATOMIC_CAS or op == M.ATOMIC_CAST_SPIN:
        for k in range(count):
            if words[at + k] != values[k, lane]:
                return False
        for k in range(count):
            words[at + k] = values[4 + k, lane]
        return True
    if count == 1 or kind >= M.FIRST_VECTOR_TYPE:  # each word on its own
        for k in range(count):
            words[at + k] = combine32(op, kind, words[at + k], values[k, lane])
    elif count == 2:
        combine_pair(words, at, op, kind, values[0, lane], values[1, lane])
    else:
        for k in range(count):
            words[at + k] = values[k, lane]
    return True


@compiled
def copy_operands(st, i, wb, kind, values):
    """An atomic's operand and swap rows into values[8, 32]."""
    count = words_of(kind)
    source = row_offset(st.code[i, M.COL_B], wb)
    swap = row_offset(st.code[i, M.COL_AUX5], wb)
    op = st.code[i, M.COL_AUX4] >> 8
    for k in range(count):
        V.store_words(values[k], 0, V.load(st.regs, source + 32 * k))
        if op == M.ATOMIC_CAS or op == M.ATOMIC_CAST_SPIN:
            V.store_words(values[4 + k], 0, V.load(st.regs, swap + 32 * k))


@compiled_on_demand()
def execute_atomic(st, words, base, address, values, i, w, mask, tried):
    """All lanes of an atomic, lowest first; old values go to the destination rows.

    CAST.SPIN gives 1 for success instead of the old value, or sets a predicate, and only the lanes in `tried` can
    succeed.
    """
    operation = st.code[i, M.COL_AUX4]
    op = operation >> 8
    kind = operation & 255
    count = words_of(kind)
    wb = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
    dst = row_offset(st.code[i, M.COL_DST], wb)
    returns = st.code[i, M.COL_OP] == M.OP_ATOM and st.code[i, M.COL_DST_COUNT] > 0
    success = np.uint32(0)
    for lane in range(32):
        if (mask >> lane) & 1:
            at = (address[lane] - base) >> 2
            if returns:
                for k in range(count):
                    st.regs[dst + 32 * k + lane] = words[at + k]
            before = words[at]
            written = (tried >> lane) & 1 != 0 and modify(words, at, op, kind, values, lane)
            if written and st.par[P.WATCHED] != 0 and (count > 1 or words[at] != before):
                st.sm[w // (st.par[P.SUB_PARTITIONS] * st.par[P.WARP_SLOTS]), L.SM_CHANGED] += 1
            if written:
                success |= np.uint32(1) << np.uint32(lane)
            if returns and op == M.ATOMIC_CAST_SPIN:
                st.regs[dst + lane] = np.uint32(1 if written else 0)
                for k in range(1, count):
                    st.regs[dst + 32 * k + lane] = np.uint32(0)
    if op == M.ATOMIC_CAST_SPIN:
        set_predicate(st.preds, 16 * w, st.code[i, M.COL_PD0], success, mask)


@compiled
def take_effect(st, sm, entry, words, bytes_, base, mask):
    """A deferred access, for the lanes in `mask`."""
    i = st.deferred[sm, entry, L.DEFERRED_PC]
    w = st.deferred[sm, entry, L.DEFERRED_WARP]
    address = st.deferred_address[sm, entry]
    values = st.deferred_values[sm, entry]
    op = st.code[i, M.COL_OP]
    size = st.code[i, M.COL_AUX1] & 255
    wb = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
    if op == M.OP_LOAD:
        move_rows(st, i, wb, words, bytes_, address, base, 1, mask, size)
    elif op == M.OP_STORE:
        store_rows(words, bytes_, address, base, 1, values.reshape(values.size), 0, mask, size)
    else:
        execute_atomic(st, words, base, address, values, i, w, mask, mask)


@compiled
def take_effect_remotely(st, sm, entry):
    """A deferred access to shared memory of other SMs, one SM after the other."""
    address = st.deferred_address[sm, entry]
    left = st.deferred[sm, entry, L.DEFERRED_MASK]
    while left != 0:
        there = address[lowest_bit(left)] >> SM_SHIFT
        row = V.load64(address, 0)
        group = np.int64(V.equal64(row >> V.splat64(SM_SHIFT), V.splat64(there))) & left
        V.store64(address, 0, V.select(group, row & V.splat64(BYTE_MASK), row))
        take_effect(st, sm, entry, st.shared32[there], st.shared8[there], np.int64(0), group)
        left &= ~group
