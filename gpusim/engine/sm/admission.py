"""Admission of instructions to their units: the cycle of it, and the stall reason of the warp until then."""

import numpy as np

from gpusim.engine.sm.stages import differs_by_lane, take_turn, waiting_before
from gpusim.engine.state import L, P, compiled
from isa import microops as M

#: Room that one memory instruction may need in the SM's queues.
ROOM = 128
BULK_ROOM = L.BULK_LINES + ROOM


@compiled
def no_room(st, sm, room):
    """True if the SM cannot take another memory instruction before replies come or the window ends."""
    s = st.sm[sm]
    return (
        # A generic access may need two tokens, for lanes in shared and in global memory, a copy one for its group too.
        s[L.SM_TOKENS] + 3 > st.token.shape[1]
        or s[L.SM_IN_FLIGHT] + room > st.event.shape[1]
        or s[L.SM_DEFERRED] + 2 > st.deferred.shape[1]
        or st.requests[sm] + room > st.request.shape[1]
    )


@compiled
def too_many_loads(st, sm):
    """True if the SM waits for as many sectors as it may."""
    return st.sm[sm, L.SM_OUTSTANDING] >= st.par[P.MAX_OUTSTANDING]


@compiled
def memory_room(st, smsp, w, store, time):
    """Cycle from which the memory queue has room for what warp w is at; if that is not yet so, it waits for its turn.

    Stores, of which the queue holds fewer, wait without one: they would keep others out that have room.
    """
    depth = max(st.par[P.QUEUE_DEPTH] - (0 if store else waiting_before(st, smsp, w)), 1)
    free = np.int64(L.NEVER)
    if smsp[L.SMSP_KEPT] < depth:  # else what came after them may have left
        free = smsp[L.SMSP_LEAVES + (smsp[L.SMSP_ENTERED] - depth) % L.QUEUE_MOST]
    if store:
        depth = st.par[P.STORE_QUEUE_DEPTH]
        number = smsp[L.SMSP_STORE + (smsp[L.SMSP_STORES] - depth) % L.QUEUE_MOST]
        if smsp[L.SMSP_STORES] >= depth and smsp[L.SMSP_ENTERED] - number <= L.QUEUE_MOST:
            free = max(free, smsp[L.SMSP_LEAVES + number % L.QUEUE_MOST])
        return free
    take_turn(st, smsp, w, free <= time)
    return free


@compiled
def queue_free(st, smsp, w, i, time):
    """Cycle from which the queue that instruction i of the LSU or the ADU waits in has room for it."""
    op, cls = st.code[i, M.COL_OP], st.code[i, M.COL_CLASS]
    if cls == M.CLS_MEMORY:
        return smsp[L.SMSP_ADDRESS] if op == M.OP_LDC else memory_room(st, smsp, w, op == M.OP_STORE, time)
    if st.code[i, M.COL_UNIT] == M.UNIT_LSU or (cls == M.CLS_SPECIAL and differs_by_lane(st.code, i)):
        return memory_room(st, smsp, w, False, time)
    waits = cls in (M.CLS_SPECIAL, M.CLS_CROSS) or st.code[i, M.COL_CONST] >= 0
    return smsp[L.SMSP_ADDRESS] if waits else np.int64(0)


@compiled
def admit_memory(st, sm, q, w, i, free, time):
    """Return the same as `admit`, for an instruction of the LSU or the ADU whose unit is free from `free` on."""
    smsp = st.smsp[q]
    free = max(free, queue_free(st, smsp, w, i, time))
    op = st.code[i, M.COL_OP]
    if st.code[i, M.COL_CLASS] != M.CLS_MEMORY:
        closes = st.code[i, M.COL_CLASS] == M.CLS_CONTROL and (op == M.OP_LDGDEPBAR or op == M.OP_BULK_COMMIT)
        if closes and free <= time and no_room(st, sm, ROOM):
            return L.NEVER, L.STALL_MIO  # a group without copies needs a token as well
        return free, L.STALL_MIO
    beyond = op != M.OP_LDC and st.code[i, M.COL_AUX0] != M.SPACE_SHARED
    # A queue that shared memory fills is the one of all of them.
    reason = L.STALL_LG if beyond and smsp[L.SMSP_BEYOND] != 0 else L.STALL_MIO
    if free > time:
        return free, reason
    if op == M.OP_LDGSTS and st.sm[sm, L.SM_COPY_FREE] == 0 and st.sm[sm, L.SM_COPIES_NEW] == st.copy_lanes.shape[1]:
        return L.NEVER, L.STALL_LG
    loads = op == M.OP_LDGSTS or (beyond and op != M.OP_STORE and op != M.OP_RED)
    bulk = op == M.OP_BULK_COPY
    full = no_room(st, sm, BULK_ROOM if bulk else ROOM)
    if bulk and st.sm[sm, L.SM_BULK_FREE] == 0:  # some rows are left for the copies that other SMs send
        full |= st.sm[sm, L.SM_BULKS_NEW] >= st.bulk.shape[1] - ROOM
    if full or (loads and too_many_loads(st, sm)):
        # An H200 issues a load all the same: the warp waits for what it reads.
        return L.NEVER, L.STALL_LONG if beyond else L.STALL_MIO
    smsp[L.SMSP_BEYOND] = 1 if beyond else 0
    return free, reason


@compiled
def has_fma_halves(st):
    """True if the FMA pipe consists of a light half, which does single precision alone, and a heavy one for all.

    An H200 counts the instructions of each: multiplications of integers go to the heavy half, single precision to the
    light one unless that is still busy with an instruction of the cycle before, half precision to both. Of two
    instructions of integers or halves in successive cycles the second waits for a cycle (math_pipe_throttle).
    """
    return st.par[P.UNIT_INTERVAL + M.UNIT_FMA] < st.par[P.UNIT_INTERVAL + M.UNIT_FMAHEAVY]


@compiled
def in_both_halves(st, i, unit):
    """True for packed halves, but for those that go through the tensor cores (HFMA2.MMA)."""
    return unit == M.UNIT_HALF and st.code[i, M.COL_TENSOR] == 0 and has_fma_halves(st)


@compiled
def admit(st, sm, q, w, i, time):
    """(Cycle from which the unit of instruction i takes it, what its warp waits for until then).

    The cycle is NEVER if it depends on replies from beyond the SM.
    """
    unit = st.code[i, M.COL_UNIT]
    free = st.smsp[q, L.SMSP_UNIT_FREE + unit]
    if unit == M.UNIT_LSU or unit == M.UNIT_ADU:
        return admit_memory(st, sm, q, w, i, free, time)
    if unit == M.UNIT_XU:
        return free - st.par[P.XU_AHEAD], L.STALL_MIO
    if unit == M.UNIT_FMA and has_fma_halves(st):
        free = min(free, st.smsp[q, L.SMSP_UNIT_FREE + M.UNIT_FMAHEAVY])
    elif in_both_halves(st, i, unit):
        free = max(st.smsp[q, L.SMSP_UNIT_FREE + M.UNIT_FMA], st.smsp[q, L.SMSP_UNIT_FREE + M.UNIT_FMAHEAVY])
    return free, L.STALL_MATH
