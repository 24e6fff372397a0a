"""Barriers of a block (BAR): arrival counts, reductions over the block, and who goes on when.

A barrier waits for as many threads as it names, or for all of the block. Threads that have exited cannot arrive: by
default that is an error, because a barrier in code that not all threads reach is one; with P.STRICT_BARRIER = 0 they
count as arrived, as on the hardware.

Behind BAR.SYNC.DEFER_BLOCKING a warp goes on, barrier open or not, until an instruction that waits for it: a memory
access, any other of variable latency but VOTE, a branch, a fence, NOP. On an H200 arithmetic, tensor products and
votes do not wait (`ahead_*`). So lanes of a warp that are all there are not parted from it at a barrier.
"""

import numpy as np

from gpusim.engine.rows.common import predicate, row_offset
from gpusim.engine.sm import shadow_clocks as sc
from gpusim.engine.sm.convergence import block_at_barrier, release_from_barrier
from gpusim.engine.sm.lane_states import resume
from gpusim.engine.sm.readiness import all_warps, block, charge, wake
from gpusim.engine.sm.shadow import barrier_is_sound
from gpusim.engine.sm.space import fail
from gpusim.engine.state import L, P, compiled, popc
from isa import microops as M


@compiled
def release(st, sm, w0, barrier, time, current_w):
    """Opens `barrier` of the block of warp w0: its waiting warps may issue from the cycle the unit reaches them."""
    par = st.par
    slot = st.warp[w0, L.WARP_BLOCK]
    b = st.block[sm, slot]
    b[L.BLOCK_RESULT + barrier] = b[L.BLOCK_REDUCED + barrier]
    b[L.BLOCK_ARRIVED + barrier] = 0
    b[L.BLOCK_REDUCED + barrier] = -1
    for w in all_warps(st, sm):
        if st.warp[w, L.WARP_BLOCK] != slot or st.warp[w, L.WARP_STATE] == L.FREE:
            continue
        if par[P.CHECKS] & sc.CHECK_RACE:
            sc.pass_barrier(st, sm, w, barrier)
        release_from_barrier(st.split, w, barrier)
        if st.warp[w, L.WARP_DEFERRED] == barrier + 1:
            st.warp[w, L.WARP_DEFERRED] = 0
            st.warp[w, L.WARP_OPENS] = time
            if w != current_w and st.warp[w, L.WARP_STATE] == L.WAIT_BARRIER:
                wake(st, sm, w, time)
        elif w != current_w and st.warp[w, L.WARP_ACTIVE] == 0 and resume(st.warp, st.split, w, 0):
            wake(st, sm, w, time)
    if par[P.CHECKS] & sc.CHECK_RACE:
        st.warp_clock[sm, slot, sc.shared_row(st, barrier)] = 0


@compiled
def check_complete(st, sm, w, pc, barrier, time, current_w):
    """Opens the barrier if everybody it waits for has arrived. The data stage empties before it goes on with others."""
    par, s, b = st.par, st.sm[sm], st.block[sm, st.warp[w, L.WARP_BLOCK]]
    arrived, expected = b[L.BLOCK_ARRIVED + barrier], b[L.BLOCK_EXPECTED + barrier]
    if arrived == 0:
        return
    if expected == 0:
        expected = b[L.BLOCK_ALIVE]
        if arrived >= expected and b[L.BLOCK_ALIVE] < par[P.THREADS] and par[P.STRICT_BARRIER] != 0:
            fail(st, sm, L.ERROR_BARRIER_EXITED, pc, w, 0, barrier, par[P.THREADS] - b[L.BLOCK_ALIVE])
            return
    if arrived >= expected:
        s[L.SM_DATA_FREE] = max(time - par[P.BAR_BASE], s[L.SM_DATA_FREE], s[L.SM_WRITTEN]) + par[P.BAR_DATA]
        release(st, sm, w, barrier, time, current_w)


@compiled
def barrier(st, sm, q, slot, w, i, wb, mask, time):
    """BAR for the lanes in `mask`. False if no lane of the warp can run now."""
    par, code = st.par, st.code
    kind, number = code[i, M.COL_AUX0], np.int64(code[i, M.COL_AUX1])
    if number < 0:
        number = np.int64(st.regs[row_offset(code[i, M.COL_A], wb)]) & 15
    threads = np.int64(code[i, M.COL_AUX2])
    if threads < 0:
        threads = np.int64(st.regs[row_offset(code[i, M.COL_B], wb)])
    b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    if par[P.CHECKS] & sc.CHECK_SYNC and not barrier_is_sound(st, sm, i, w, mask, number, threads):
        return True
    if par[P.CHECKS] & sc.CHECK_RACE:
        sc.publish(st, sm, w, sc.arriving(st, w, np.int64(mask)), sc.shared_row(st, number))
    b[L.BLOCK_EXPECTED + number] = threads
    start = max(time, st.sm[sm, L.SM_ADU_FREE])
    st.sm[sm, L.SM_ADU_FREE] = start + par[P.BAR_INTERVAL]
    opens = start + par[P.BAR_INTERVAL] + par[P.BAR_BASE]
    if kind == M.BAR_RED_POPC or kind == M.BAR_RED_AND or kind == M.BAR_RED_OR:
        value = predicate(code, i, M.COL_PS0, st.preds, 16 * w) & np.uint32(mask)
        so_far = b[L.BLOCK_REDUCED + number]
        if kind == M.BAR_RED_POPC:
            b[L.BLOCK_REDUCED + number] = max(so_far, 0) + popc(value)
        elif kind == M.BAR_RED_AND:
            b[L.BLOCK_REDUCED + number] = (so_far != 0) & (value == np.uint32(mask))
        else:
            b[L.BLOCK_REDUCED + number] = (so_far == 1) | (value != 0)
    b[L.BLOCK_ARRIVED + number] += popc(mask)
    if kind == M.BAR_ARRIVE:
        st.warp[w, L.WARP_PC] = i + 1
        check_complete(st, sm, w, i, number, opens, w)
        return True
    st.warp[w, L.WARP_BARRIER] = number
    together = mask == st.warp[w, L.WARP_ALIVE]
    if together and code[i, M.COL_AUX3] != 0 and par[P.MODE] & L.BOOKS != 0:
        st.warp[w, L.WARP_PC] = i + 1
        st.warp[w, L.WARP_OPENS] = L.NEVER
        st.warp[w, L.WARP_DEFERRED] = number + 1
        check_complete(st, sm, w, i, number, opens, w)
        return True
    runs = block_at_barrier(st.warp, st.split, w, number)
    if not runs:
        block(st, w, q, slot, L.WAIT_BARRIER, L.STALL_BARRIER)
    check_complete(st, sm, w, i, number, opens, w)
    if runs:
        return True
    if resume(st.warp, st.split, w, 0):  # this arrival opened the barrier
        st.warp[w, L.WARP_STATE] = L.RUNNING
        charge(st, sm, w, L.STALL_BARRIER, opens)
        return True
    return False
