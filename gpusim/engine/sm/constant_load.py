"""Indexed loads from constant banks: LDC with an address from a register."""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.flight import release_at
from gpusim.engine.sm.readiness import CONSTANT_BITS, CONSTANT_SECOND, constant_line, keep_constant
from gpusim.engine.sm.space import check_window, fail, load_rows, same_address
from gpusim.engine.sm.stages import enter_address_queue
from gpusim.engine.state import L, P, compiled, lowest_bit
from isa import microops as M


@compiled
def table_ready(st, sm, bank, address, now):
    """Cycle from which a word of a module's constants can be read that is wanted at `now`.

    Several lines are fetched at once from L2 or memory, one of them to where loads read (H200: constant_first).
    """
    line = constant_line(st, bank << 16 | address)
    there = st.constant[sm, line]
    if there >= 0:
        return there >> CONSTANT_BITS
    fetched = np.int64(0 if there == CONSTANT_SECOND else -1)
    first = line - line % st.par[P.CONST_FETCH]
    for other in range(first, first + (st.par[P.CONST_FETCH] if fetched < 0 else 0)):
        at = st.constant[sm, other]
        fetched = max(fetched, 0 if at == CONSTANT_SECOND else at >> CONSTANT_BITS)
    keep_constant(st, sm, line)
    there = max(now, fetched) + st.par[P.CONST_MISS if fetched >= 0 else P.CONST_FAR]
    st.constant[sm, line] = there << CONSTANT_BITS
    return there


@compiled
def constant_access(st, sm, q, w, i, wb, mask, time):
    """LDC with an address from a register: a gather from a constant bank.

    Each sub-partition takes an address after the other (H200: 2.1 cycles each for the SM, with 1, 4 or 32 different
    ones a warp; one warp alone 8 cycles each, and 11 more until the value is there).
    """
    bank = st.code[i, M.COL_AUX4]
    if not load_constants(st, sm, w, i, wb, mask, bank) or st.par[P.MODE] & L.BOOKS == 0:
        return
    start = max(time + st.par[P.ENTRY], st.smsp[q, L.SMSP_ADDRESS_FREE])
    there = start
    degree = np.int64(0)
    left = np.int64(mask)
    while left != 0:  # one pass for each distinct address
        address = st.address[sm, lowest_bit(left)]
        left &= ~same_address(st, sm, left)
        degree += 1
        if bank != 0:
            there = max(there, table_ready(st, sm, bank, address, start))
    missed = 1 if there > start else 0
    st.counters[st.sm[sm, L.SM_CHUNK], i, L.COUNT_TURNS] += degree - 1 + missed
    enter_address_queue(st.smsp[q], start, st.par[P.CONST_ADDRESS] * degree)
    end = there + st.par[P.CONST_ADDRESS] * (degree - 1)
    release_at(st, w, st.code[i, M.COL_RBAR], end + st.par[P.CONST_RELEASE], L.STALL_SHORT)
    release_at(st, w, st.code[i, M.COL_WBAR], end + st.par[P.CONST_LATENCY], L.STALL_SHORT)


@compiled
def load_constants(st, sm, w, i, wb, mask, bank):
    """The values. False after an error."""
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if bank < 0 or bank >= st.bank8.shape[0]:
        fail(st, sm, L.ERROR_UNSUPPORTED, i, w, 0, bank, size)
        return False
    if not check_window(st, sm, i, w, mask, size, 0, np.int64(st.bank8.shape[1]), L.ERROR_CONSTANT_BOUNDS):
        return False
    dst = row_offset(st.code[i, M.COL_DST], wb)
    signed = st.code[i, M.COL_AUX1] & M.MEM_SIGNED
    load_rows(st.bank32[bank], st.bank8[bank], st.address[sm], 0, 1, st.regs, dst, mask, size, signed)
    return True
