"""One row of a straight run (`engine.straight`) for all lanes of a warp, without time: what a function for rows of one
shape is made of."""

from typing import Any

import numpy as np

from gpusim.engine.rows.common import FULL_MASK
from gpusim.engine.rows.convert import exec_convert
from gpusim.engine.rows.cross import exec_cross
from gpusim.engine.rows.double import exec_double
from gpusim.engine.rows.float import exec_float
from gpusim.engine.rows.half import exec_half
from gpusim.engine.rows.int import exec_int
from gpusim.engine.rows.predicate import exec_pred
from gpusim.engine.rows.tensor import exec_tensor
from gpusim.engine.sm.lsu import plain_access
from gpusim.engine.sm.run_warp import counted_lanes
from gpusim.engine.state import L, P, compiled
from isa import microops as M


@compiled
def first_register(st, w):
    """Element of a warp's first register."""
    return 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])


@compiled
def lanes_of(st, sm, w, i):
    """Lanes that execute a row, which is counted here if it has a guard: the others are with their run."""
    if st.code[i, M.COL_GUARD] == 7 and st.code[i, M.COL_GUARD_NEG] == 0:
        return np.uint32(FULL_MASK)
    return counted_lanes(st, sm, w, i, np.uint32(FULL_MASK))


def _row_of(execute: Any) -> Any:
    """Compiled code for a row of an executor: gets the state, the SM, the warp and the row's number."""

    @compiled
    def arithmetic(st, sm, w, i):
        execute(st.code, i, st.regs, first_register(st, w), st.preds, 16 * w, lanes_of(st, sm, w, i))
        return True

    return arithmetic


@compiled
def memory_row(st, sm, w, i):
    """A load or store; its time counts the warp's instructions. Returns whether the run goes on."""
    time = st.warp[w, L.WARP_SINCE] + i - st.warp[w, L.WARP_PC]
    return plain_access(st, sm, w, i, first_register(st, w), np.int64(lanes_of(st, sm, w, i)), time)


ROW_OF = {
    **{M.CLS_INT: _row_of(exec_int), M.CLS_FLOAT: _row_of(exec_float), M.CLS_DOUBLE: _row_of(exec_double)},
    **{M.CLS_PRED: _row_of(exec_pred), M.CLS_CROSS: _row_of(exec_cross), M.CLS_HALF: _row_of(exec_half)},
    **{M.CLS_CONVERT: _row_of(exec_convert), M.CLS_TENSOR: _row_of(exec_tensor), M.CLS_MEMORY: memory_row},
}
"""By class: compiled code for a row, which gets the state, the SM, the warp and the row's number. Returns whether the
run goes on."""
