"""How many bits change where values go: looked at in some warps, for the energy that a launch takes.

A circuit takes energy where its wires change. Of a warp in eight, by the number of its block and its own, each result
is compared with what the register held before, and with that of the lane sixteen further. So the counts depend neither
on time nor on the machine. Of an instruction without a result its first operand, or what it stores, is looked at.
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.state import L, compiled
from gpusim.engine.state.bits import popc
from isa import microops as M

_LANE = 13  # lane 0 often has a part of its own
_FURTHER = 16


@compiled
def is_looked_at(st, sm, w):
    """Whether a warp is one in eight; those of block 0 all are."""
    block = st.block[sm, st.warp[w, L.W_BLOCK], L.B_NUMBER]
    mixed = (block * 2654435761 + st.warp[w, L.W_INDEX] * 40503 + 1) & 0xFFFFFFFF
    return block == 0 or ((mixed * 2246822519) >> 20) & 7 == 0


@compiled
def looked_row(code, i, wb):
    """Offset of the row that is looked at, -1 if there is none."""
    kind = code[i, M.COL_CLASS]
    if code[i, M.COL_DST_COUNT] > 0:
        # A strong load has no value yet when it is issued.
        late = kind == M.CLS_MEMORY and code[i, M.COL_AUX0] != M.SPACE_SHARED
        late &= code[i, M.COL_OP] == M.OP_ATOM or code[i, M.COL_AUX3] & M.MEM_STRONG != 0
        return np.int64(-1) if late else row_offset(code[i, M.COL_DST], wb)
    if kind == M.CLS_MEMORY and (code[i, M.COL_OP] == M.OP_STORE or code[i, M.COL_OP] == M.OP_RED):
        return row_offset(code[i, M.COL_B], wb)
    if kind == M.CLS_INT or kind == M.CLS_FLOAT or kind == M.CLS_DOUBLE or kind == M.CLS_HALF or kind == M.CLS_CROSS:
        return row_offset(code[i, M.COL_A], wb)
    return np.int64(-1)


@compiled
def looked_lane(mask):
    """The lane that is looked at: the lowest one that runs, unless lane 13 does."""
    if (mask >> _LANE) & 1:
        return np.int64(_LANE)
    return np.int64(popc((mask & -mask) - np.uint32(1)))


@compiled
def look(st, i, w, row, lane, mask, counts, old):
    """Counts what an instruction has changed. old: what the lane held before."""
    new = st.regs[row + lane]
    counts[L.N_LOOKED] += 1
    counts[L.N_TOGGLED] += popc(np.uint32(old ^ new))
    other = lane ^ _FURTHER
    if (mask >> other) & 1:
        counts[L.N_SPREAD] += popc(np.uint32(new ^ st.regs[row + other]))
