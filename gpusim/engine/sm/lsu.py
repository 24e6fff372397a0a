"""The load/store unit of an SM: from a memory instruction at issue to values, wavefronts, L1 lookups and requests.

An access takes three steps: what it costs, from its addresses; its values, which move; its time, which is booked if the
run has any (`layout.BOOKS`).

Values move at issue, except what the whole device can see in an order that matters (atomics, reductions, strong
accesses): those wait for their turn at L2, see `deferred.apply_deferred`. Time is a chain of servers: the
sub-partition's queue, the tag stage (a few lines a cycle), the data stage (one wavefront a cycle, shared by L1 and
shared memory) and, for misses, whatever lies beyond the SM.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, row_offset
from gpusim.engine.sm import queued, space
from gpusim.engine.sm.atomics import copy_operands, execute_atomic, take_effect_remotely, words_of
from gpusim.engine.sm.cluster import find_remote, own_lanes, remote_lines
from gpusim.engine.sm.coalescer import coalesce, shared_turns, shared_wavefronts, spin_winners
from gpusim.engine.sm.constant_load import constant_access
from gpusim.engine.sm.flight import note_lines, release_at
from gpusim.engine.sm.l1 import note_words
from gpusim.engine.sm.lines import defer, line_filter
from gpusim.engine.sm.readiness import place_of
from gpusim.engine.sm.shadow import watch_global, watch_local, watch_shared
from gpusim.engine.sm.shadow_clocks import CHECK_INIT, CHECK_RACE
from gpusim.engine.sm.space import access
from gpusim.engine.sm.special import atomic_predicate, query_space
from gpusim.engine.sm.stages import enter_queue, note_store, take_data_stage
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit, popc
from gpusim.engine.state.log import log_local
from gpusim.engine.state.memory import KIND_ATOMIC, KIND_READ, KIND_WRITE
from isa import microops as M


@compiled
def access_size(st, i):
    """Bytes that each lane accesses."""
    if st.code[i, M.COL_OP] == M.OP_ATOM or st.code[i, M.COL_OP] == M.OP_RED:
        return np.int64(4 * words_of(st.code[i, M.COL_AUX4] & 255))
    return np.int64(st.code[i, M.COL_AUX1] & 255)


@compiled
def pattern_place(st, first, size):
    """What tells how aligned the address of an access's first lane is: in which banks it begins changes no cost."""
    return 1 + (first & (max(1 << st.par[P.BANK_SHIFT], size) - 1))


@compiled
def pattern_holds(st, sm, i, mask, size, end):
    """Return whether the lanes of a load or store of shared memory lie as those of the last one did, and before `end`:
    then it costs the same, and is aligned."""
    known, first = st.pattern[st.sm[sm, L.SM_CHUNK], i], st.address[sm, lowest_bit(mask)]
    if known[L.PATTERN_FIRST] != pattern_place(st, first, size) or known[L.PATTERN_MASK] != np.uint32(mask):
        return False
    lowest, highest = np.int64(np.int32(known[L.PATTERN_LOWEST])), np.int64(np.int32(known[L.PATTERN_HIGHEST]))
    if first + lowest < st.par[P.SHARED_FIRST] or first + highest > end - size:
        return False
    differs = ~V.equal(space.apart(st.address[sm], first), V.load(known, L.PATTERN_APART))
    return differs & np.uint32(mask) == 0


@compiled
def keep_pattern(st, sm, i, mask, size):
    """Keeps how the lanes of a load or store of shared memory lie, and what it costs."""
    known, address = st.pattern[st.sm[sm, L.SM_CHUNK], i], st.address[sm]
    first, merges = address[lowest_bit(mask)], st.code[i, M.COL_OP] == M.OP_LOAD
    merges &= st.code[i, M.COL_AUX0] != M.SPACE_GENERIC
    banks, shift = st.par[P.BANKS], st.par[P.BANK_SHIFT]
    cost = shared_wavefronts(address, st.touched[sm], mask, size, banks, shift, merges)
    known[L.PATTERN_FIRST], known[L.PATTERN_MASK] = pattern_place(st, first, size), mask
    for k in range(4):
        known[L.PATTERN_COST + k] = cost[k]
    lowest = highest = np.int64(0)
    for lane in range(32):
        if (mask >> lane) & 1:
            lowest, highest = min(lowest, address[lane] - first), max(highest, address[lane] - first)
    known[L.PATTERN_LOWEST], known[L.PATTERN_HIGHEST] = lowest, highest
    V.store(known, L.PATTERN_APART, space.apart(address, first), np.uint32(FULL_MASK))


@compiled
def shared_cost(st, sm, i, mask, size):
    """The wavefronts of a shared-memory instruction: see `coalescer.shared_wavefronts`. Of a load or store those of its
    pattern, which depend on how far the other lanes are from the first one, and on where that is in a bank."""
    op = st.code[i, M.COL_OP]
    atomic = st.code[i, M.COL_AUX4] >> 8
    address = st.address[sm]
    touched = st.touched[sm]
    banks = st.par[P.BANKS]
    shift = st.par[P.BANK_SHIFT]
    if op == M.OP_LOAD or op == M.OP_STORE:
        known, cost = st.pattern[st.sm[sm, L.SM_CHUNK], i], L.PATTERN_COST
        return np.int64(known[cost]), np.int64(known[cost + 1]), np.int64(known[cost + 2]), np.int64(known[cost + 3])
    if atomic == M.ATOMIC_POPC_INC:
        return shared_wavefronts(address, touched, mask, size, banks, shift, False)
    if atomic == M.ATOMIC_CAST_SPIN:
        _, wavefronts, ideal = spin_winners(address, touched, mask, size, banks, shift)
        return wavefronts, ideal, wavefronts, 0
    return shared_turns(address, touched, mask, size, banks, shift, 2 if atomic == M.ATOMIC_CAS else 1)


@compiled
def move_shared(st, sm, w, i, wb, mask, size):
    """The values of an access to shared memory, whose addresses are the SM's instruction at hand."""
    op = st.code[i, M.COL_OP]
    address = st.address[sm]
    base = -np.int64(st.warp[w, L.WARP_BLOCK]) * st.par[P.SHARED_STRIDE]
    if op == M.OP_LOAD or op == M.OP_STORE:
        space.move_rows(st, i, wb, st.shared32[sm], st.shared8[sm], address, base, 1, mask, size)
    else:
        values = st.deferred_values[sm, st.sm[sm, L.SM_DEFERRED]]
        copy_operands(st, i, wb, st.code[i, M.COL_AUX4] & 255, values)
        tried = np.int64(mask)
        if st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_CAST_SPIN:
            banks, shift = st.par[P.BANKS], st.par[P.BANK_SHIFT]
            tried, _, _ = spin_winners(address, st.touched[sm], mask, size, banks, shift)
        execute_atomic(st, st.shared32[sm], base, address, values, i, w, mask, tried)


@compiled
def shared_values(st, sm, w, i, wb, mask):
    """Load, store or atomic on shared memory, without its time. Returns (ideal wavefronts, the hardware's, conflicts),
    zeros if it ends the run."""
    par, op, size = st.par, st.code[i, M.COL_OP], np.int64(st.code[i, M.COL_AUX1] & 255)
    # ptxas reads a whole vector of which a kernel needs a part: a load has to begin inside, the rest to end there.
    end = par[P.SHARED_BYTES] + (size - 1 if op == M.OP_LOAD else 0)
    right = plain = op == M.OP_LOAD or op == M.OP_STORE
    if not plain or not pattern_holds(st, sm, i, mask, size, end):
        right = space.check_window(st, sm, i, w, mask, size, par[P.SHARED_FIRST], end, L.ERROR_SHARED_BOUNDS)
        if right and plain:
            keep_pattern(st, sm, i, mask, size)
    watched = par[P.CHECKS] & (CHECK_INIT | CHECK_RACE) != 0
    if not right or (watched and not watch_shared(st, sm, i, w, wb, mask, size)):
        return np.int64(0), np.int64(0), np.int64(0)
    wavefronts, ideal, data_wavefronts, conflicts = shared_cost(st, sm, i, mask, size)
    move_shared(st, sm, w, i, wb, mask, size)
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    counts[L.COUNT_SHARED_WAVEFRONTS] += wavefronts
    counts[L.COUNT_SHARED_IDEAL] += ideal
    counts[L.COUNT_SHARED_DATA] += data_wavefronts
    counts[L.COUNT_SHARED_CONFLICTS] += conflicts
    counts[L.COUNT_SHARED_REQUESTS] += 1
    return ideal, data_wavefronts, conflicts


@compiled
def shared_access(st, sm, q, w, i, wb, mask, time):
    """Load, store or atomic on shared memory."""
    par, op, size = st.par, st.code[i, M.COL_OP], np.int64(st.code[i, M.COL_AUX1] & 255)
    ideal, data_wavefronts, conflicts = shared_values(st, sm, w, i, wb, mask)
    if par[P.MODE] & L.BOOKS == 0 or data_wavefronts == 0:
        return
    rbar, wbar = st.code[i, M.COL_RBAR], st.code[i, M.COL_WBAR]
    start = enter_queue(st, q, time, 1)
    if op == M.OP_STORE:
        note_store(st.smsp[q])
    release = par[P.SHARED_LOAD_RELEASE]
    if op != M.OP_LOAD:
        release = par[P.SHARED_STORE_RELEASE] + (max(size >> 2, 1) - 1) * par[P.REGISTER_RELEASE]
    turn = par[P.SHARED_WAVEFRONT] if op == M.OP_LOAD or op == M.OP_STORE else par[P.SHARED_ATOMIC_INTERVAL]
    data = take_data_stage(st, sm, q, w, start, max(data_wavefronts * turn, par[P.DATA_INTERVAL]))
    if op != M.OP_LOAD and conflicts == 0:
        st.sm[sm, L.SM_WRITTEN] = data + data_wavefronts * turn + par[P.BAR_DATA]
    release_at(st, w, rbar, data + release, L.STALL_SHORT)
    conflicts *= 2 if op != M.OP_LOAD and st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_CAS else 1  # two wavefronts a turn
    there = data + conflicts * par[P.SHARED_WAY_LATENCY] + par[P.LSU_INTERVAL] * (ideal - 1) - par[P.ENTRY]
    if op == M.OP_LOAD:
        release_at(st, w, wbar, there + par[P.SHARED_LATENCY], L.STALL_SHORT)
    elif op != M.OP_STORE:
        release_at(st, w, wbar, there + par[P.SHARED_ATOMIC_LATENCY], L.STALL_SHORT)


@compiled
def policy_of(st, i, wb):
    """The L2 policy in the descriptor of a load or store, see `memory.policy`; 0 if nothing."""
    row = st.code[i, M.COL_AUX5]
    return np.int64(st.regs[row_offset(row, wb) + 32]) if row != 0 else np.int64(0)


@compiled
def global_cost(st, sm, w, i, wb, mask, size):
    """(Lines of an access to global memory, its sectors, what L2 is told: `policy_of`). Fills st.touched[sm]. No lines
    if the access ends the run."""
    none = np.int64(0), np.int64(0), np.int64(0)
    if not space.check_global(st, sm, i, w, mask, size):
        return none
    if st.par[P.CHECKS] & CHECK_INIT and st.unknown.size > 1 and not watch_global(st, sm, i, w, mask, size):
        return none
    op, touched = st.code[i, M.COL_OP], st.touched[sm]
    lines, sectors = coalesce(st.address[sm], touched, mask, size)
    policy = np.int64(0)
    if op == M.OP_LOAD or op == M.OP_STORE:
        policy = policy_of(st, i, wb)
        if st.par[P.MODE] & L.BOOKS != 0:
            note_words(st.address[sm], touched, lines, mask, size if op == M.OP_STORE else max(size, 4))
    return lines, sectors, policy


@compiled
def path_of(st, sm, i, lines):
    """The path of an access to global memory, PATH_* of `queued`: in order at L2 if it is strong, or if a line that it
    touches has atomics that have not taken effect."""
    op = st.code[i, M.COL_OP]
    if op != M.OP_LOAD and op != M.OP_STORE:
        if op == M.OP_RED or (st.code[i, M.COL_DST_COUNT] == 0 and st.code[i, M.COL_WBAR] == 7):
            return queued.PATH_REDUCTION
        return queued.PATH_ATOMIC
    seen = st.sm[sm, L.SM_DEFERRED_LINES] | st.sm[sm, L.SM_QUEUED_LINES]
    strong = st.code[i, M.COL_AUX3] & M.MEM_STRONG != 0 and st.par[P.MODE] & L.BOOKS != 0
    if strong or seen & line_filter(st.touched[sm], lines) != 0:
        return queued.PATH_READ_STRONG if op == M.OP_LOAD else queued.PATH_WRITE_STRONG
    return queued.PATH_READ if op == M.OP_LOAD else queued.PATH_WRITE


@compiled
def move_global(st, sm, w, i, wb, mask, size, path):
    """The values of an access to global memory, unless they move at L2, where atomics do if time is booked."""
    base = st.par[P.MEMORY_BASE]
    if path == queued.PATH_READ or path == queued.PATH_WRITE:
        space.move_rows(st, i, wb, st.memory32, st.memory8, st.address[sm], base, 1, mask, size)
    elif path >= queued.PATH_REDUCTION and st.par[P.MODE] & L.BOOKS == 0:
        values = st.deferred_values[sm, 0]
        copy_operands(st, i, wb, st.code[i, M.COL_AUX4] & 255, values)
        execute_atomic(st, st.memory32, base, st.address[sm], values, i, w, mask, np.int64(mask))


@compiled
def global_values(st, sm, q, w, i, wb, mask, time):
    """Load, store, atomic or reduction on global memory, without its time. Returns (its lines, its path, what L2 is
    told); no lines if it ends the run."""
    size = access_size(st, i)
    lines, sectors, policy = global_cost(st, sm, w, i, wb, mask, size)
    if lines == 0:
        return lines, np.int64(0), policy
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    counts[L.COUNT_REQUESTS] += 1
    counts[L.COUNT_SECTORS] += sectors
    counts[L.COUNT_TAGS] += lines
    counts[L.COUNT_SECTORS_IDEAL] += min(sectors, (popc(mask) * size + 31) // 32)
    path = np.int64(path_of(st, sm, i, lines))
    move_global(st, sm, w, i, wb, mask, size, path)
    if st.par[P.MODE] & L.KEEPS != 0:
        op = st.code[i, M.COL_OP]
        kind = KIND_READ if op == M.OP_LOAD else KIND_WRITE if op == M.OP_STORE else KIND_ATOMIC
        note_lines(st, sm, access(q, w, i, wb, mask, size, time, policy), lines, np.int64(kind))
    return lines, path, policy


@compiled
def plain_access(st, sm, w, i, wb, mask, time):
    """Executes, in a run without time, a load or store of shared or global memory of blocks without a cluster. Returns
    whether the run goes on."""
    if mask != 0:
        space.lane_addresses(st, sm, i, wb, mask)
        if st.code[i, M.COL_AUX0] == M.SPACE_SHARED:
            shared_values(st, sm, w, i, wb, mask)
        else:
            q, _ = place_of(st, sm, w)
            global_values(st, sm, q, w, i, wb, mask, time)
    return st.sm[sm, L.SM_ERROR] == 0


@compiled_on_demand()
def remote_access(st, sm, q, w, i, wb, mask, time):
    """Load, store or atomic on the shared memory of other blocks of the cluster: a request from SM to SM."""
    op = st.code[i, M.COL_OP]
    size = access_size(st, i)
    if not find_remote(st, sm, i, w, mask, size):
        return
    a = access(q, w, i, wb, mask, size, time)
    if st.par[P.MODE] & L.BOOKS == 0:
        take_effect_remotely(st, sm, defer(st, sm, a, np.int64(-1)))
        st.sm[sm, L.SM_DEFERRED] = 0
        return
    path = queued.PATH_REMOTE_WRITE
    if op == M.OP_LOAD:
        path = queued.PATH_REMOTE_READ
    elif op == M.OP_ATOM and (st.code[i, M.COL_DST_COUNT] > 0 or st.code[i, M.COL_WBAR] != 7):
        path = queued.PATH_REMOTE_ATOMIC
    elif op != M.OP_STORE:
        path = queued.PATH_REMOTE_REDUCTION
    queued.send_lines(st, sm, a, remote_lines(st, sm, i, mask, size), np.int64(path))


@compiled
def local_lines(st, sm, mask, size):
    """Fills st.touched[sm] with the lines of an access whose addresses are at hand. Returns their number, and the
    sectors of its requests: one for each word, as on an H100."""
    address = st.address[sm]
    count, all_sectors = np.int64(0), np.int64(0)
    for _word in range(max(size >> 2, 1)):
        n, sectors = coalesce(address, st.touched[sm, count:], mask, 4)
        all_sectors += sectors
        if count < 32:
            note_words(address, st.touched[sm, count:], n, mask, 4)
            count += n
        row = V.load64(address, 0)
        V.store64(address, 0, V.select(mask, row + V.splat64(4 * 32), row))
    return count, all_sectors


@compiled
def local_access(st, sm, q, w, i, wb, mask, time):
    """Load or store of thread-private memory, through L1 like global memory."""
    par = st.par
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if not space.check_window(st, sm, i, w, mask, size, 0, par[P.LOCAL_BYTES], L.ERROR_LOCAL_BOUNDS):
        return
    # Byte addresses of the interleaved array, where what is wider than a word goes on a word of all lanes further on.
    # Other lanes of a generic access keep theirs.
    row, lanes = V.load64(st.address[sm], 0), V.zero_extend(V.lane_numbers() << V.splat(2))
    place = ((row >> V.splat64(2)) << V.splat64(7)) + lanes + (row & V.splat64(3))
    place = place + V.splat64(np.int64(w) * par[P.LOCAL_BYTES] * 32)
    V.store64(st.address[sm], 0, V.select(mask, place, row))
    if par[P.CHECKS] & CHECK_INIT and not watch_local(st, sm, i, w, mask, size):
        return
    space.move_rows(st, i, wb, st.local32, st.local8, st.address[sm], 0, 32, mask, size)
    count, sectors = local_lines(st, sm, mask, size)
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    counts[L.COUNT_LOCAL_REQUESTS] += max(size >> 2, 1)
    counts[L.COUNT_LOCAL_SECTORS] += sectors
    if par[P.MODE] & L.BOOKS == 0:
        return
    for n in range(count):
        st.touched[sm, n, 0] += par[P.LOCAL_LINE]
    if st.sm[sm, L.SM_LOG_ROW] != 0:
        log_local(st, sm, count)
    path, size = (queued.PATH_READ, 0) if st.code[i, M.COL_OP] == M.OP_LOAD else (queued.PATH_WRITE, size)
    queued.send_lines(st, sm, access(q, w, i, wb, mask, size, time), count, np.int64(path))


@compiled
def pass_by(st, sm, q, w, i, time):
    """A memory instruction that no lane executes: it goes through the queue and the data stage all the same.

    H200, guarded_*: whoever needs its result waits for as long as for a shuffle's, be it of shared memory or of L1, and
    32 warps issue one in 1.3 to 1.5 cycles each.
    """
    par = st.par
    release_at(st, w, st.code[i, M.COL_RBAR], time + par[P.SOURCE_RELEASE], L.STALL_SHORT)
    data = take_data_stage(st, sm, q, w, enter_queue(st, q, time, 1), 1)
    reason = L.STALL_SHORT if st.code[i, M.COL_AUX0] == M.SPACE_SHARED else L.STALL_LONG
    release_at(st, w, st.code[i, M.COL_WBAR], data - par[P.ENTRY] + par[P.SHUFFLE_LATENCY], reason)


@compiled
def access_space(st, sm, q, w, i, wb, lanes, where, time):
    """Executes one memory instruction for lanes that mean the same space."""
    if st.code[i, M.COL_OP] == M.OP_ATOM and not atomic_predicate(st, sm, w, i, lanes, where, time):
        return
    if where == M.SPACE_SHARED and st.par[P.CLUSTER_BLOCKS] > 0:
        own = own_lanes(st, sm, w, lanes)
        if own != 0:
            shared_access(st, sm, q, w, i, wb, own, time)
        if own != lanes:
            remote_access(st, sm, q, w, i, wb, lanes & ~own, time)
    elif where == M.SPACE_SHARED:
        shared_access(st, sm, q, w, i, wb, lanes, time)
    elif where == M.SPACE_LOCAL:
        local_access(st, sm, q, w, i, wb, lanes, time)
    else:
        count, path, policy = global_values(st, sm, q, w, i, wb, lanes, time)
        if count != 0 and st.par[P.MODE] & L.BOOKS != 0:
            queued.send_lines(st, sm, access(q, w, i, wb, lanes, access_size(st, i), time, policy), count, path)


@compiled
def memory_access(st, sm, q, w, i, wb, mask, time):
    """Executes one memory instruction for the lanes in `mask` and books its time."""
    if mask == 0:
        if st.par[P.MODE] & L.BOOKS != 0:
            pass_by(st, sm, q, w, i, time)
        return
    op, where = st.code[i, M.COL_OP], st.code[i, M.COL_AUX0]
    space.lane_addresses(st, sm, i, wb, mask)
    if op == M.OP_LDC:
        constant_access(st, sm, q, w, i, wb, mask, time)
        return
    if op == M.OP_QSPC:
        query_space(st, sm, w, i, mask, time)
        return
    if where != M.SPACE_GENERIC:  # not in the loop, before which its compiler puts what any of these may need
        access_space(st, sm, q, w, i, wb, mask, where, time)
        return
    left = mask
    while left != 0:
        space_of_lanes, lanes = space.window_of(st, sm, left)
        left &= ~lanes
        access_space(st, sm, q, w, i, wb, lanes, space_of_lanes, time)
