"""Operands that a tracer on a GPU sees beside the lanes' addresses: the registers that say what is done to a barrier,
and the memory that a bulk copy touches. Only for logs that ask for it (`state.log.AS_TRACER`)."""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.state import L, P, compiled
from gpusim.engine.state.log import new_lanes
from isa import microops as M

#: Fields of a bulk copy's first row of addresses: its mbarrier, the set of blocks that it goes to (0: only its own),
#: its bytes, and the ranges of global memory that it touches, which follow, sixteen in a row: address, bytes.
BULK_BARRIER, BULK_BLOCKS, BULK_BYTES, BULK_RANGES = range(4)
RANGES = 16


@compiled
def log_operands(st, sm, w, i):
    """Two rows of lanes: the register that names the barrier of BAR or SYNCS, or its address, and the other operand."""
    code = st.code
    op = code[i, M.COL_OP]
    told = op == M.OP_BAR and (code[i, M.COL_AUX1] < 0 or code[i, M.COL_AUX2] < 0)
    if not told and op != M.OP_SYNCS:
        return
    row = st.log[sm, st.sm[sm, L.SM_LOG_ROW] - 1]
    row[L.EVENT_VALUES] = new_lanes(st, sm, 2)
    first, second = st.log_lanes[sm, row[L.EVENT_VALUES]], st.log_lanes[sm, row[L.EVENT_VALUES] + 1]
    wb = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
    uniform = op == M.OP_SYNCS and code[i, M.COL_A] == -1 and code[i, M.COL_AUX3] & M.MEM_UNIFORM_BASE
    a = row_offset(code[i, M.COL_C] if uniform else code[i, M.COL_A], wb)
    b = row_offset(code[i, M.COL_B], wb)
    wide = op == M.OP_SYNCS and code[i, M.COL_AUX4] == M.SYNCS_EXCHANGE
    for lane in range(32):
        first[lane] = st.regs[a + lane]
        second[lane] = st.regs[b + lane]
        if wide:
            second[lane] |= np.int64(st.regs[b + 32 + lane]) << 32


@compiled
def log_bulk(st, sm, i, k):
    """A bulk copy, kept in row k of State.bulk, is about to ask for what it touches."""
    kind = st.code[i, M.COL_AUX4] & M.BULK_KIND
    row = st.log[sm, st.sm[sm, L.SM_LOG_ROW] - 1]
    row[L.EVENT_ACCESS] = new_lanes(st, sm, 1)
    first = st.log_lanes[sm, row[L.EVENT_ACCESS]]
    arrives = kind == M.BULK_LOAD or kind == M.BULK_SHARED or kind == M.BULK_SHARED_REDUCE
    first[BULK_BARRIER] = k[L.BULK_BARRIER] if arrives else 0
    first[BULK_BLOCKS] = k[L.BULK_BLOCKS] if st.code[i, M.COL_AUX4] & M.BULK_MULTICAST else 0
    first[BULK_BYTES] = k[L.BULK_BYTES]
    # A prefetch may touch any number of ranges, and a copy from block to block touches none.
    first[BULK_RANGES] = 0 if kind <= M.BULK_REDUCE else -1


@compiled
def log_range(st, sm, address, size):
    """It asks for bytes that lie together in global memory."""
    k = st.log[sm, st.sm[sm, L.SM_LOG_ROW] - 1, L.EVENT_ACCESS]
    n = st.log_lanes[sm, k, BULK_RANGES]
    if n < 0 or size == 0:
        return
    st.log_lanes[sm, k, BULK_RANGES] = n + 1
    if n % RANGES == 0:
        new_lanes(st, sm, 1)
    row = st.log_lanes[sm, k + 1 + n // RANGES]
    row[2 * (n % RANGES)] = address
    row[2 * (n % RANGES) + 1] = size
