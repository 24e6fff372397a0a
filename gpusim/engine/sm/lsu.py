"""The load/store unit of an SM: from a memory instruction at issue to values, wavefronts, L1 lookups and requests.

Values move at issue, except what the whole device can see in an order that matters (atomics, reductions, strong
accesses): those wait for their turn at L2, see `atomics.apply_deferred`. Time is a chain of servers: the
sub-partition's queue, the tag stage (a few lines a cycle), the data stage (one wavefront a cycle, shared by L1 and
shared memory) and, for misses, whatever lies beyond the SM.
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm import queued, space
from gpusim.engine.sm.access import access
from gpusim.engine.sm.atomics import copy_operands, execute_atomic, take_effect_remotely, words_of
from gpusim.engine.sm.cluster import find_remote, names_other_block
from gpusim.engine.sm.coalescer import coalesce, shared_turns, shared_wavefronts, spin_winners
from gpusim.engine.sm.constant_load import constant_access
from gpusim.engine.sm.flight import KEEP_REQUESTS, note_lines, release_at
from gpusim.engine.sm.generic import atomic_predicate, query_space
from gpusim.engine.sm.lines import atomic_lines, defer, line_filter, write_lines
from gpusim.engine.sm.shadow import CHECK_INIT, CHECK_RACE, watch_global, watch_local, watch_shared
from gpusim.engine.sm.stages import enter_queue, note_store, take_data_stage
from gpusim.engine.state import layout as L
from gpusim.engine.state import parts
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled, compiled_on_demand
from gpusim.engine.state.log import log_local
from gpusim.engine.state.memory import KIND_ATOMIC, KIND_READ, KIND_SM, KIND_WRITE
from isa import microops as M


@compiled
def shared_cost(st, sm, i, mask, size):
    """What a shared-memory instruction costs: see `coalescer.shared_wavefronts`."""
    op = st.code[i, M.COL_OP]
    atomic = st.code[i, M.COL_AUX4] >> 8
    address = st.address[sm]
    touched = st.touched[sm]
    banks = st.par[L.P_BANKS]
    shift = st.par[L.P_BANK_SHIFT]
    if op == M.OP_LOAD or op == M.OP_STORE or atomic == M.ATOMIC_POPC_INC:
        return shared_wavefronts(address, touched, mask, size, banks, shift, op == M.OP_LOAD)
    if atomic == M.ATOMIC_CAST_SPIN:
        _, wavefronts, ideal = spin_winners(address, touched, mask, size, banks, shift)
        return wavefronts, ideal, wavefronts, 0
    return shared_turns(address, touched, mask, size, banks, shift, 2 if atomic == M.ATOMIC_CAS else 1)


@compiled
def shared_access(st, sm, q, w, i, wb, mask, time):
    """Load, store or atomic on shared memory."""
    par = st.par
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    op = st.code[i, M.COL_OP]
    address = st.address[sm]
    # ptxas reads a whole vector of which a kernel needs a part, so a load has to begin inside, the rest to end there.
    end = par[L.P_SHARED_BYTES] + (size - 1 if op == M.OP_LOAD else 0)
    if not space.check_window(st, sm, i, w, mask, size, par[L.P_SHARED_FIRST], end, L.E_SHARED_BOUNDS):
        return
    if par[L.P_CHECKS] & (CHECK_INIT | CHECK_RACE) and not watch_shared(st, sm, i, w, wb, mask, size):
        return
    wavefronts, ideal, data_wavefronts, conflicts = shared_cost(st, sm, i, mask, size)
    base = -np.int64(st.warp[w, L.W_BLOCK]) * par[L.P_SHARED_STRIDE]
    if op == M.OP_LOAD:
        dst = row_offset(st.code[i, M.COL_DST], wb)
        signed = st.code[i, M.COL_AUX1] & M.MEM_SIGNED
        space.load_rows(st.shared32[sm], st.shared8[sm], address, base, 1, st.regs, dst, mask, size, signed)
    elif op == M.OP_STORE:
        src = row_offset(st.code[i, M.COL_B], wb)
        space.store_rows(st.shared32[sm], st.shared8[sm], address, base, 1, st.regs, src, mask, size)
    else:
        values = st.deferred_values[sm, st.sm[sm, L.S_DEFERRED]]
        copy_operands(st, i, wb, st.code[i, M.COL_AUX4] & 255, values)
        tried = np.int64(mask)
        if st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_CAST_SPIN:
            tried, _, _ = spin_winners(
                address, st.touched[sm], mask, size, par[L.P_BANKS], par[L.P_BANK_SHIFT]
            )
        execute_atomic(st, st.shared32[sm], base, address, values, i, w, mask, tried)
    counts = st.counters[st.sm[sm, L.S_CHUNK], i]
    counts[L.N_SHARED_WAVEFRONTS] += wavefronts
    counts[L.N_SHARED_IDEAL] += ideal
    counts[L.N_SHARED_DATA] += data_wavefronts
    counts[L.N_SHARED_CONFLICTS] += conflicts
    counts[L.N_SHARED_REQUESTS] += 1
    if par[L.P_UNTIMED] != 0:
        return

    rbar = st.code[i, M.COL_RBAR]
    wbar = st.code[i, M.COL_WBAR]
    start = enter_queue(st, q, time, data_wavefronts)
    if op == M.OP_STORE:
        note_store(st.smsp[q])
    release = par[L.P_SHARED_LOAD_RELEASE]
    if op != M.OP_LOAD:
        release = par[L.P_SHARED_STORE_RELEASE] + (max(size >> 2, 1) - 1) * par[L.P_REGISTER_RELEASE]
    turn = par[L.P_SHARED_WAVEFRONT] if op == M.OP_LOAD or op == M.OP_STORE else par[L.P_SHARED_ATOMIC_INTERVAL]
    data = take_data_stage(st, sm, q, start, data_wavefronts * turn)
    release_at(st, w, rbar, data + release, L.R_SHORT)
    # A sub-partition has a turn every other cycle; what has waited in front of the data stage had its first ones.
    there = max(start + conflicts * par[L.P_SHARED_WAY_LATENCY], data + conflicts * turn)
    there += par[L.P_LSU_INTERVAL] * (ideal - 1) - par[L.P_ENTRY]
    if op == M.OP_LOAD:
        release_at(st, w, wbar, there + par[L.P_SHARED_LATENCY], L.R_SHORT)
    elif op != M.OP_STORE:
        release_at(st, w, wbar, there + par[L.P_SHARED_ATOMIC_LATENCY], L.R_SHORT)


@compiled
def global_access(st, sm, q, w, i, wb, mask, time):
    """Load, store, atomic or reduction on global memory."""
    par = st.par
    op = st.code[i, M.COL_OP]
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if op == M.OP_ATOM or op == M.OP_RED:
        size = np.int64(4 * words_of(st.code[i, M.COL_AUX4] & 255))
    if not space.check_global(st, sm, i, w, mask, size):
        return
    if par[L.P_CHECKS] & CHECK_INIT and st.unknown.size > 1 and not watch_global(st, sm, i, w, mask, size):
        return
    touched = st.touched[sm]
    lines, sectors = coalesce(st.address[sm], touched, mask, size)
    counts = st.counters[st.sm[sm, L.S_CHUNK], i]
    counts[L.N_REQUESTS] += 1
    counts[L.N_SECTORS] += sectors
    counts[L.N_TAGS] += lines
    counts[L.N_SECTORS_IDEAL] += min(sectors, (popc(mask) * size + 31) // 32)

    seen = st.sm[sm, L.S_DEFERRED_LINES] | st.sm[sm, L.S_QUEUED_LINES]  # atomics that have not taken effect
    strong = st.code[i, M.COL_AUX3] & M.MEM_STRONG != 0 and par[L.P_UNTIMED] == 0
    in_order = strong or seen & line_filter(touched, lines) != 0
    base = par[L.P_MEMORY_BASE]
    if op == M.OP_LOAD:
        path = queued.PATH_READ_STRONG if in_order else queued.PATH_READ
        if not in_order:
            dst = row_offset(st.code[i, M.COL_DST], wb)
            signed = st.code[i, M.COL_AUX1] & M.MEM_SIGNED
            space.load_rows(st.memory32, st.memory8, st.address[sm], base, 1, st.regs, dst, mask, size, signed)
    elif op == M.OP_STORE:
        path = queued.PATH_WRITE_STRONG if in_order else queued.PATH_WRITE
        if not in_order:
            src = row_offset(st.code[i, M.COL_B], wb)
            space.store_rows(st.memory32, st.memory8, st.address[sm], base, 1, st.regs, src, mask, size)
    elif op == M.OP_RED or (st.code[i, M.COL_DST_COUNT] == 0 and st.code[i, M.COL_WBAR] == 7):
        path = queued.PATH_REDUCTION
    else:
        path = queued.PATH_ATOMIC
    if par[L.P_UNTIMED] != 0:
        if par[L.P_UNTIMED] == KEEP_REQUESTS:
            kind = KIND_READ if op == M.OP_LOAD else KIND_WRITE if op == M.OP_STORE else KIND_ATOMIC
            note_lines(st, sm, access(q, w, i, wb, mask, size, time), lines, np.int64(kind))
        if path >= queued.PATH_REDUCTION:
            values = st.deferred_values[sm, 0]
            copy_operands(st, i, wb, st.code[i, M.COL_AUX4] & 255, values)
            execute_atomic(st, st.memory32, base, st.address[sm], values, i, w, mask, np.int64(mask))
        return
    queued.send_lines(st, sm, access(q, w, i, wb, mask, size, time), lines, np.int64(path))


@compiled_on_demand()
def remote_access(st, sm, q, w, i, wb, mask, time):
    """Load, store or atomic on the shared memory of other blocks of the cluster: a request from SM to SM."""
    op = st.code[i, M.COL_OP]
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if op == M.OP_ATOM or op == M.OP_RED:
        size = np.int64(4 * words_of(st.code[i, M.COL_AUX4] & 255))
    if not find_remote(st, sm, i, w, mask, size):
        return
    a = access(q, w, i, wb, mask, size, time)
    entry = defer(st, sm, a, np.int64(-1))
    st.deferred[sm, entry, L.X_REMOTE] = 1
    if st.par[L.P_UNTIMED] != 0:
        take_effect_remotely(st, sm, entry)
        st.sm[sm, L.S_DEFERRED] = 0
        return
    st.touched[sm, 0, 0] = 0
    st.touched[sm, 0, 1] = 1
    waits = st.code[i, M.COL_DST_COUNT] > 0 or st.code[i, M.COL_WBAR] != 7
    if op == M.OP_LOAD or (op == M.OP_ATOM and waits):
        atomic_lines(st, sm, a, np.int64(1), np.int64(KIND_SM), entry)
    else:
        write_lines(st, sm, a, np.int64(1), np.int64(KIND_SM), entry)


@compiled
def local_access(st, sm, q, w, i, wb, mask, time):
    """Load or store of thread-private memory, through L1 like global memory."""
    par = st.par
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if not space.check_window(st, sm, i, w, mask, size, 0, par[L.P_LOCAL_BYTES], L.E_LOCAL_BOUNDS):
        return
    start = space.local_addresses(st, sm, w, mask, size)
    address = st.address[sm]
    for lane in range(32):
        if (mask >> lane) & 1:
            address[lane] += start
    if par[L.P_CHECKS] & CHECK_INIT and not watch_local(st, sm, i, w, mask, size):
        return
    words = st.local32
    bytes_ = st.local8
    if st.code[i, M.COL_OP] == M.OP_LOAD:
        dst = row_offset(st.code[i, M.COL_DST], wb)
        signed = st.code[i, M.COL_AUX1] & M.MEM_SIGNED
        space.load_rows(words, bytes_, address, 0, 32, st.regs, dst, mask, size, signed)
    else:
        space.store_rows(words, bytes_, address, 0, 32, st.regs, row_offset(st.code[i, M.COL_B], wb), mask, size)
    if par[L.P_UNTIMED] != 0:
        return
    touched = st.touched[sm]
    count = np.int64(0)
    for _word in range(max(size >> 2, 1)):
        n, _ = coalesce(address, touched[count:], mask, 4)
        for lane in range(32):
            if (mask >> lane) & 1:
                address[lane] += 4 * 32
        count += n
        if count > 31:
            break
    for n in range(count):
        touched[n, 0] += par[L.P_LOCAL_LINE]
    if st.sm[sm, L.S_LOG_ROW] != 0:
        log_local(st, sm, count)
    if st.code[i, M.COL_OP] == M.OP_LOAD:
        queued.send_lines(st, sm, access(q, w, i, wb, mask, 0, time), count, np.int64(queued.PATH_READ))
    else:
        queued.send_lines(st, sm, access(q, w, i, wb, mask, size, time), count, np.int64(queued.PATH_WRITE))


@compiled
def memory_access(st, sm, q, w, i, wb, mask, time):
    """Executes one memory instruction for the lanes in `mask` and books its time."""
    if mask == 0:
        return
    parts.mark(st, sm, parts.VALUES)
    par = st.par
    op = st.code[i, M.COL_OP]
    space.lane_addresses(st, sm, i, wb, mask)
    where = st.code[i, M.COL_AUX0]
    if op == M.OP_LDC:
        constant_access(st, sm, q, w, i, wb, mask, time)
        return
    if op == M.OP_QSPC:
        query_space(st, sm, w, i, mask, time)
        return
    left = mask
    while left != 0:  # once, but for a generic access whose lanes mean different spaces
        lanes = left
        if st.code[i, M.COL_AUX0] == M.SPACE_GENERIC:
            where, lanes = space.window_of(st, sm, left)
        left &= ~lanes
        if op == M.OP_ATOM and not atomic_predicate(st, sm, w, i, lanes, where, time):
            continue
        if where == M.SPACE_SHARED and par[L.P_CLUSTER_BLOCKS] > 0 and names_other_block(st, sm, w, lanes):
            remote_access(st, sm, q, w, i, wb, lanes, time)
        elif where == M.SPACE_SHARED:
            shared_access(st, sm, q, w, i, wb, lanes, time)
        elif where == M.SPACE_LOCAL:
            local_access(st, sm, q, w, i, wb, lanes, time)
        else:
            global_access(st, sm, q, w, i, wb, lanes, time)
