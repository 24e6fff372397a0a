"""The stages that a memory instruction passes in its SM: each is a server with a cycle from which it is free."""

import numpy as np

from gpusim.engine.state import L, P, compiled
from isa import microops as M


@compiled
def enter_queue(st, q, time, slots):
    """Cycle at which the sub-partition hands the instruction to the SM's memory stages; `slots` it occupies there."""
    smsp = st.smsp[q]
    start = max(time + st.par[P.ENTRY], smsp[L.SMSP_LSU_FREE])
    smsp[L.SMSP_LSU_FREE] = start + slots * st.par[P.LSU_INTERVAL]
    if smsp[L.SMSP_PLACE_KEPT] == 0:
        keep_place(smsp)
    else:
        smsp[L.SMSP_PLACE] = smsp[L.SMSP_PLACE_KEPT] - 1
        smsp[L.SMSP_PLACE_KEPT] = 0
    smsp[L.SMSP_LEAVES + smsp[L.SMSP_PLACE]] = start
    return start


@compiled
def keep_place(smsp):
    """A further instruction is in the queue, for a time that is not known yet. Returns its place there."""
    place = smsp[L.SMSP_ENTERED] % L.QUEUE_MOST
    smsp[L.SMSP_LEAVES + place] = L.NEVER
    smsp[L.SMSP_ENTERED] += 1
    smsp[L.SMSP_PLACE] = place
    return place


@compiled
def waiting_before(st, smsp, w):
    """Warps of the sub-partition that have waited for room in its memory queue longer than warp w.

    H200: of 64 warps with loads of 32 turns none falls behind, though old ones get every cycle of other pipes.
    """
    if smsp[L.SMSP_WAITING] == 0:
        return np.int64(0)
    own = st.warp[w, L.WARP_TURN]
    count = np.int64(0)
    parts = st.par[P.SUB_PARTITIONS]
    all_ = parts * st.par[P.WARP_SLOTS]
    for other in range(w - w % all_ + w % parts, w - w % all_ + all_, parts):
        turn = st.warp[other, L.WARP_TURN]
        count += 1 if turn != 0 and (own == 0 or turn < own) else 0
    return count


@compiled
def take_turn(st, smsp, w, room):
    """Warp w waits for room in the memory queue from now on, or does no longer."""
    waits = st.warp[w, L.WARP_TURN] != 0
    if waits == room:
        if not room:
            smsp[L.SMSP_TURNS] += 1
        st.warp[w, L.WARP_TURN] = 0 if room else smsp[L.SMSP_TURNS]
        smsp[L.SMSP_WAITING] += -1 if room else 1


@compiled
def note_store(smsp):
    """Notes that the last entry is a store, of which the queue holds fewer."""
    smsp[L.SMSP_STORE + smsp[L.SMSP_STORES] % L.QUEUE_MOST] = smsp[L.SMSP_ENTERED] - 1
    smsp[L.SMSP_STORES] += 1


@compiled
def leave_queue(smsp, time):
    """The instruction that was handed over last leaves the queue at `time`, if nothing keeps it longer."""
    k = L.SMSP_LEAVES + smsp[L.SMSP_PLACE]
    smsp[k] = max(smsp[k], time)


@compiled
def take_data_stage(st, sm, q, w, start, wavefronts, more=0):
    """First cycle in which the SM's data stage works at an instruction of warp w that needs `wavefronts` of its turns,
    and `more` that do not keep the warp's next one waiting. q: sub-partition whose queue it leaves then, or -1."""
    data = take_data_turns(st, sm, w, start, wavefronts + more, 2 * wavefronts)
    if q >= 0:
        leave_queue(st.smsp[q], data + 2 * wavefronts)
    return data


@compiled
def take_data_turns(st, sm, w, start, wavefronts, own):
    """The same, whatever its queue does. own: cycles for which the warp's next one waits. A warp gets every other turn,
    others use what it leaves. H200: loads of 32 turns of one warp take 64 cycles each, four independent ones 4 * 64;
    those of seven warps of a sub-partition, or of 4 to 32 with 16 loads each, 32.
    """
    s = st.sm[sm]
    start = max(start, s[L.SM_DATA_FREE])
    s[L.SM_DATA_FREE] = start + wavefronts
    start = max(start, st.warp[w, L.WARP_DATA])
    st.warp[w, L.WARP_DATA] = start + own
    return start


@compiled
def differs_by_lane(code, i):
    """True if a read of a special register goes through the memory queue: each lane has a value of its own."""
    which = code[i, M.COL_AUX0]
    of_thread = which <= M.SR_TID_Z or which == M.SR_TID or which == M.SR_LANEID
    return code[i, M.COL_UNIFORM] == 0 and (of_thread or M.SR_EQMASK <= which <= M.SR_GEMASK)


@compiled
def take_port(st, sm, port, start):
    """Cycle at which the SM takes up a constant load or a register that is alike in all lanes (`port`
    SM_CONSTANT_FREE), or one that differs by lane (SM_SPECIAL_FREE), one warp after the other.

    H200: queue_ldc, queue_s2r_tid, queue_s2r_block and queue_s2ur agree. Numbers of threads have a port of their own:
    32 warps take 3.3 cycles for one and a constant, 2.8 for one and the block's number, 4.8 for that and a constant.
    """
    start = max(start, st.sm[sm, port])
    st.sm[sm, port] = start + st.par[P.ADDRESS_INTERVAL]
    return start


@compiled
def wait_for_constant(st, sm, there):
    """A constant load that has been taken up waits for its line until `there`: of those that do the SM holds some only,
    and takes none up while it does.

    H200, clocks behind the first instruction of all warps: of 64 that an SM gets first and that begin with a load of
    one line, 40 issue it, 12 of which wait in front of the port; the others do some 280 cycles later, together.
    """
    s = st.sm[sm]
    s[L.SM_CONST_WAITS] = s[L.SM_CONST_WAITS] + 1 if s[L.SM_CONST_THERE] == there else 1
    s[L.SM_CONST_THERE] = there
    if s[L.SM_CONST_WAITS] == L.CONSTANTS_WAITING:
        s[L.SM_CONSTANT_FREE] = max(s[L.SM_CONSTANT_FREE], there)


@compiled
def take_address_port(st, sm, q, port, time):
    """Cycle at which a constant load or a read of a uniform special register, issued at `time`, is taken up."""
    smsp = st.smsp[q]
    start = take_port(st, sm, port, max(time + st.par[P.ENTRY], smsp[L.SMSP_ADDRESS_FREE]))
    enter_address_queue(smsp, start, 1)
    return start


@compiled
def enter_address_queue(smsp, start, busy):
    """Note what waited in a short queue of the sub-partition until `start` and then keeps it `busy` cycles."""
    smsp[L.SMSP_ADDRESS_FREE] = start + busy
    for k in range(L.SMSP_ADDRESS, L.SMSP_ADDRESS + L.ADDRESSES_WAITING):
        smsp[k] = smsp[k + 1]
    smsp[L.SMSP_ADDRESS + L.ADDRESSES_WAITING] = start
