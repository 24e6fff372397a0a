"""Indexed loads from constant banks: LDC with an address from a register."""

import numpy as np

from gpusim.engine import layout as L
from gpusim.engine.exec_common import row_offset
from gpusim.engine.flight import release_at
from gpusim.engine.jit import compiled
from gpusim.engine.space import check_window, fail, load_rows
from isa import microops as M

#: Cycles for each address, of each sub-partition.
CONSTANT_TURN = 8


@compiled
def take_constant_port(st, q, time, addresses):
    """Cycle at which the sub-partition takes up a constant load of so many addresses."""
    part = st.part[q]
    start = max(time, part[L.Q_CONSTANT_FREE])
    part[L.Q_CONSTANT_FREE] = start + CONSTANT_TURN * addresses
    for k in range(L.Q_CONSTANT, L.Q_CONSTANT + L.CONSTANTS_WAITING):
        part[k] = part[k + 1]
    part[L.Q_CONSTANT + L.CONSTANTS_WAITING] = start
    return start


@compiled
def constant_access(st, sm, q, w, i, wb, mask, time):
    """LDC with an address from a register: a gather from a constant bank.

    Each sub-partition takes an address after the other (H200: 2.1 cycles each for the SM, with 1, 4 or 32 different
    ones a warp; one warp alone 8 cycles each, and 11 more until the value is there).
    """
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    bank = st.code[i, M.COL_AUX4]
    if bank < 0 or bank >= st.bank8.shape[0]:
        fail(st, sm, L.E_UNSUPPORTED, i, w, 0, bank, size)
        return
    if not check_window(st, sm, i, w, mask, size, 0, np.int64(st.bank8.shape[1]), L.E_CONSTANT_BOUNDS):
        return
    dst = row_offset(st.code[i, M.COL_DST], wb)
    signed = st.code[i, M.COL_AUX1] & M.MEM_SIGNED
    load_rows(st.bank32[bank], st.bank8[bank], st.address[sm], 0, 1, st.regs, dst, mask, size, signed)
    degree = np.int64(0)
    left = np.int64(mask)
    for lane in range(32):  # one pass for each distinct address
        if (left >> lane) & 1:
            degree += 1
            for other in range(lane, 32):
                if st.address[sm, other] == st.address[sm, lane]:
                    left &= ~(np.int64(1) << other)
    start = take_constant_port(st, q, time + 2, degree)
    end = start + CONSTANT_TURN * degree
    release_at(st, w, st.code[i, M.COL_RBAR], start + st.par[L.P_CONST_RELEASE], L.R_SHORT)
    release_at(st, w, st.code[i, M.COL_WBAR], end - CONSTANT_TURN + st.par[L.P_CONST_LATENCY], L.R_SHORT)
