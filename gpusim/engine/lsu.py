"""The load/store unit of an SM: from a memory instruction at issue to values, wavefronts, L1 lookups and requests.

Values move at issue, except what the whole device can see in an order that matters (atomics, reductions, strong
accesses): those wait for their turn at L2, see `atomics.apply_deferred`. Time is a chain of servers: the
sub-partition's queue, the tag stage (a few lines a cycle), the data stage (one wavefront a cycle, shared by L1 and
shared memory) and, for misses, whatever lies beyond the SM.
"""

import numpy as np

from gpusim.engine import layout as L
from gpusim.engine.atomics import copy_operands, execute_atomic, words_of
from gpusim.engine.bits import popc
from gpusim.engine.cluster import find_remote, names_other_block
from gpusim.engine.coalescer import atomic_requests, coalesce, shared_turns, shared_wavefronts, spin_winners
from gpusim.engine.constant_load import constant_access
from gpusim.engine.exec_common import row_offset
from gpusim.engine.flight import FOR_MISS, FOR_TOKEN, hold, new_token, release_at, send
from gpusim.engine.generic import atomic_predicate, query_space
from gpusim.engine.jit import compiled
from gpusim.engine.log import log_local
from gpusim.engine.memory_state import (
    KIND_ATOMIC,
    KIND_READ,
    KIND_READ_STRONG,
    KIND_REDUCTION,
    KIND_SM,
    KIND_WRITE,
    KIND_WRITE_PARTIAL,
    KIND_WRITE_STRONG,
)
from gpusim.engine.shadow import CHECK_INIT, CHECK_RACE, watch_global, watch_local, watch_shared
from gpusim.engine.space import (
    check_global,
    check_window,
    lane_addresses,
    load_rows,
    local_addresses,
    store_rows,
    window_of,
)
from gpusim.engine.stages import enter_queue, leave_queue, store_cycles, tag_cycles, take_data_stage
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
    if not check_window(st, sm, i, w, mask, size, par[L.P_SHARED_FIRST], end, L.E_SHARED_BOUNDS):
        return
    if par[L.P_CHECKS] & (CHECK_INIT | CHECK_RACE) and not watch_shared(st, sm, i, w, wb, mask, size):
        return
    wavefronts, ideal, data_wavefronts, conflicts = shared_cost(st, sm, i, mask, size)
    base = -np.int64(st.warp[w, L.W_BLOCK]) * par[L.P_SHARED_STRIDE]
    if op == M.OP_LOAD:
        dst = row_offset(st.code[i, M.COL_DST], wb)
        signed = st.code[i, M.COL_AUX1] & M.MEM_SIGNED
        load_rows(st.shared32[sm], st.shared8[sm], address, base, 1, st.regs, dst, mask, size, signed)
    elif op == M.OP_STORE:
        src = row_offset(st.code[i, M.COL_B], wb)
        store_rows(st.shared32[sm], st.shared8[sm], address, base, 1, st.regs, src, mask, size)
    else:
        values = st.values[sm, st.sm[sm, L.S_DEFERRED]]
        copy_operands(st, i, wb, st.code[i, M.COL_AUX4] & 255, values)
        tried = np.int64(mask)
        if st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_CAST_SPIN:
            tried, _, _ = spin_winners(
                address, st.touched[sm], mask, size, par[L.P_BANKS], par[L.P_BANK_SHIFT]
            )
        execute_atomic(st, st.shared32[sm], base, address, values, i, w, mask, tried)
    line = st.line[st.sm[sm, L.S_CHUNK], i]
    line[L.N_SHARED_WAVEFRONTS] += wavefronts
    line[L.N_SHARED_IDEAL] += ideal
    line[L.N_SHARED_DATA] += data_wavefronts
    line[L.N_SHARED_CONFLICTS] += conflicts
    line[L.N_SHARED_REQUESTS] += 1

    rbar = st.code[i, M.COL_RBAR]
    wbar = st.code[i, M.COL_WBAR]
    start = enter_queue(st, q, time, data_wavefronts)
    held = par[L.P_SHARED_LOAD_RELEASE]
    if op != M.OP_LOAD:
        held = par[L.P_SHARED_STORE_RELEASE] + (max(size >> 2, 1) - 1) * par[L.P_REGISTER_RELEASE]
    release_at(st, w, rbar, start + held, L.R_SHORT)
    data = take_data_stage(st, sm, q, start, data_wavefronts * par[L.P_SHARED_WAVEFRONT])
    ways = conflicts * par[L.P_SHARED_WAY_LATENCY] + 2 * (ideal - 1)
    if op == M.OP_LOAD:
        release_at(st, w, wbar, data - 2 + par[L.P_SHARED_LATENCY] + ways, L.R_SHORT)
    elif op != M.OP_STORE:
        release_at(st, w, wbar, data - 2 + par[L.P_SHARED_ATOMIC_LATENCY] + ways, L.R_SHORT)


@compiled
def find_line(st, sm, line):
    """(way index into st.tags[sm], found). Without a match: the least recently used idle way, or -1."""
    sets = st.par[L.P_L1_SETS]
    ways = st.par[L.P_L1_WAYS]
    tags = st.tags[sm]
    first = ((line ^ (line >> 7) ^ (line >> 13)) % sets) * ways
    victim = -1
    oldest = L.NEVER
    for k in range(first, first + ways):
        if tags[k, L.L_TAG] == line:
            return k, True
        if tags[k, L.L_PENDING] == 0 and tags[k, L.L_USED] < oldest:
            oldest = tags[k, L.L_USED]
            victim = k
    return victim, False


@compiled
def new_miss(st, sm, line, sectors, token, way):
    k = st.sm[sm, L.S_MISS_FREE]
    miss = st.miss[sm, k]
    st.sm[sm, L.S_MISS_FREE] = miss[L.M_NEXT]
    miss[L.M_LINE] = line
    miss[L.M_SECTORS] = sectors
    miss[L.M_COUNT] = 1
    miss[L.M_WAY] = way
    miss[L.M_TOKEN] = token
    return k


@compiled
def read_lines(st, sm, q, w, i, bypass, count, time, copies, mask, size):
    """Looks the touched lines up in L1 and asks L2 for what is missing; the scoreboard waits for all of it.

    `bypass`: around L1. `copies`: token of a group of asynchronous copies that waits instead of a scoreboard, or -1.
    `size`: bytes that each lane of `mask` reads at its address, 0 if the addresses are not at hand.
    Returns the cycle at which what L1 held is there.

    Lines that hit are looked up several to a cycle, those that miss one by one. What hits is read as shared memory
    is, in as many turns as lanes collide in a bank (H200: lanes 2, 8, 32 words apart take 2, 8, 32 cycles in L1; 33
    words apart, in as many lines but different banks, 9).
    """
    par = st.par
    touched = st.touched[sm]
    tags = st.tags[sm]
    wbar = st.code[i, M.COL_WBAR]
    start = enter_queue(st, q, time, 1)
    start = max(start, st.sm[sm, L.S_TAG_FREE])
    release_at(st, w, st.code[i, M.COL_RBAR], start + par[L.P_SOURCE_RELEASE], L.R_LONG)
    no_allocate = bypass or par[L.P_L1_WAYS] == 0
    token = copies
    hits = 0
    hit_wavefronts = 0
    misses = 0
    chunk = st.sm[sm, L.S_CHUNK]
    for n in range(count):
        line = touched[n, 0]
        wanted = touched[n, 1]
        way = -1
        found = False
        if not no_allocate:
            way, found = find_line(st, sm, line)
        missing = wanted
        if found:
            st.sm[sm, L.S_CLOCK] += 1
            tags[way, L.L_USED] = st.sm[sm, L.S_CLOCK]
            here = wanted & tags[way, L.L_VALID]
            hits += popc(here)
            if here != 0:
                hit_wavefronts += 1
            missing = wanted & ~here
            waiting = missing & tags[way, L.L_PENDING]
            for s in range(4):
                if (waiting >> s) & 1:
                    k = (tags[way, L.L_MISS] >> (s * L.MISS_BITS)) & ((1 << L.MISS_BITS) - 1)
                    n_tokens = st.miss[sm, k, L.M_COUNT]
                    if n_tokens > 0 and st.miss[sm, k, L.M_TOKEN + n_tokens - 1] == token and token >= 0:
                        missing &= ~(1 << s)
                        hits += 1
                    elif n_tokens < L.M_TOKENS:
                        if token < 0:
                            token = new_token(st, sm, w, wbar, L.TOKEN_LOAD)
                        st.miss[sm, k, L.M_TOKEN + n_tokens] = token
                        st.miss[sm, k, L.M_COUNT] = n_tokens + 1
                        st.token[sm, token, L.T_LEFT] += 1
                        missing &= ~(1 << s)
                        hits += 1
        elif way >= 0:
            st.sm[sm, L.S_CLOCK] += 1
            tags[way, L.L_TAG] = line
            tags[way, L.L_VALID] = 0
            tags[way, L.L_PENDING] = 0
            tags[way, L.L_USED] = st.sm[sm, L.S_CLOCK]
            tags[way, L.L_MISS] = 0
        if missing != 0:
            if token < 0:
                token = new_token(st, sm, w, wbar, L.TOKEN_LOAD)
            st.token[sm, token, L.T_LEFT] += 1
            k = new_miss(st, sm, line, missing, token, way)
            if way >= 0:
                tags[way, L.L_PENDING] |= missing
                for s in range(4):
                    if (missing >> s) & 1:
                        shift = s * L.MISS_BITS
                        tags[way, L.L_MISS] &= ~(((1 << L.MISS_BITS) - 1) << shift)
                        tags[way, L.L_MISS] |= k << shift
            st.sm[sm, L.S_OUTSTANDING] += popc(missing)
            st.line[chunk, i, L.N_MISSES] += popc(missing)
            now = start + misses + tag_cycles(par, n - misses) + par[L.P_L1_REQUEST]
            send(st, sm, now, line, missing, KIND_READ, 2 * k + FOR_MISS, 0, 0)
            misses += 1
    st.line[chunk, i, L.N_HITS] += hits
    st.sm[sm, L.S_TAG_FREE] = start + misses + tag_cycles(par, count - misses)
    leave_queue(st.part[q], st.sm[sm, L.S_TAG_FREE])
    there = start
    if hit_wavefronts > 0:
        if size > 0 and hit_wavefronts == count:
            banks, shift = par[L.P_BANKS], par[L.P_BANK_SHIFT]
            _, _, hit_wavefronts, _ = shared_wavefronts(st.address[sm], touched, mask, size, banks, shift, True)
        # A sub-partition alone gets a turn every other cycle, as for shared memory.
        busy = start + hit_wavefronts * par[L.P_LSU_INTERVAL]
        st.part[q, L.Q_LSU_FREE] = max(st.part[q, L.Q_LSU_FREE], busy)
        there = take_data_stage(st, sm, q, start, hit_wavefronts) - 2 + par[L.P_L1_LATENCY] + 2 * (hit_wavefronts - 1)
        release_at(st, w, wbar, there, L.R_LONG)
    if token >= 0:
        hold(st, w, wbar, L.R_LONG)
    return there


@compiled
def write_lines(st, sm, q, w, i, mask, size, count, time, kind, entry):
    """Sends stores and reductions to L2, a request per line; only MEMBAR and the kernel's end wait for them."""
    par = st.par
    touched = st.touched[sm]
    start = enter_queue(st, q, time, 1)
    start = max(start, st.sm[sm, L.S_TAG_FREE])
    st.sm[sm, L.S_TAG_FREE] = start + tag_cycles(par, count)
    data = take_data_stage(st, sm, q, start, 1)
    sent = max(data, st.sm[sm, L.S_STORE_FREE])
    held = par[L.P_STORE_RELEASE] + (max(size >> 2, 1) - 1) * par[L.P_REGISTER_RELEASE]
    release_at(st, w, st.code[i, M.COL_RBAR], data + held, L.R_LONG)
    token = new_token(st, sm, w, 7, L.TOKEN_STORE)
    st.token[sm, token, L.T_LEFT] = count
    st.sm[sm, L.S_STORE_LINES] += count
    st.warp[w, L.W_STORES] += 1
    lanes_payload = popc(mask) * size
    for n in range(count):
        sectors = touched[n, 1]
        payload = lanes_payload // count
        actual = kind
        if kind == KIND_WRITE and payload < popc(sectors) * 32:
            actual = KIND_WRITE_PARTIAL
        send(
            st,
            sm,
            sent + par[L.P_L1_REQUEST],
            touched[n, 0],
            sectors,
            actual,
            (2 * token + FOR_TOKEN) | ((entry + 1) << 32),
            payload,
            popc(mask) // count,
        )
        sent += store_cycles(popc(sectors))
    st.sm[sm, L.S_STORE_FREE] = sent
    leave_queue(st.part[q], sent)
    st.warp[w, L.W_DRAINED] = max(st.warp[w, L.W_DRAINED], sent)


@compiled
def atomic_lines(st, sm, q, w, i, mask, size, count, time, kind, entry):
    """Atomics with a result and strong loads: the scoreboard waits for the replies of all lines."""
    par = st.par
    touched = st.touched[sm]
    wbar = st.code[i, M.COL_WBAR]
    start = enter_queue(st, q, time, 1)
    start = max(start, st.sm[sm, L.S_TAG_FREE])
    st.sm[sm, L.S_TAG_FREE] = start + count
    release_at(st, w, st.code[i, M.COL_RBAR], start + par[L.P_SOURCE_RELEASE], L.R_LONG)
    token = new_token(st, sm, w, wbar, L.TOKEN_ATOMIC)
    st.token[sm, token, L.T_LEFT] = count
    hold(st, w, wbar, L.R_LONG)
    payload = popc(mask) * size // count if kind == KIND_ATOMIC else 0
    for n in range(count):
        send(
            st,
            sm,
            start + n + par[L.P_L1_REQUEST],
            touched[n, 0],
            touched[n, 1],
            kind,
            (2 * token + FOR_TOKEN) | ((entry + 1) << 32),
            payload,
            max(popc(mask) // count, 1),
        )


@compiled
def defer(st, sm, w, i, wb, mask, size):
    """Keeps the operands of an access that takes effect at L2 in time order. Returns its entry."""
    entry = st.sm[sm, L.S_DEFERRED]
    st.sm[sm, L.S_DEFERRED] = entry + 1
    st.deferred[sm, entry, L.X_PC] = i
    st.deferred[sm, entry, L.X_WARP] = w
    st.deferred[sm, entry, L.X_MASK] = mask
    st.deferred[sm, entry, L.X_DONE] = 0
    st.deferred[sm, entry, L.X_REMOTE] = 0
    for lane in range(32):
        st.lanes[sm, entry, lane] = st.address[sm, lane]
    op = st.code[i, M.COL_OP]
    values = st.values[sm, entry]
    if op == M.OP_STORE:
        src = row_offset(st.code[i, M.COL_B], wb)
        for k in range(max(size >> 2, 1)):
            for lane in range(32):
                values[k, lane] = st.regs[src + 32 * k + lane]
    elif op != M.OP_LOAD:
        copy_operands(st, i, wb, st.code[i, M.COL_AUX4] & 255, values)
    return entry


@compiled
def line_filter(touched, count):
    """A 64-bit set of line numbers, for "did this SM defer something on this line in this window?"."""
    bits = np.int64(0)
    for n in range(count):
        line = touched[n, 0]
        bits |= np.int64(1) << ((line ^ (line >> 6) ^ (line >> 12)) & 63)
    return bits


@compiled
def global_access(st, sm, q, w, i, wb, mask, time):
    """Load, store, atomic or reduction on global memory."""
    par = st.par
    op = st.code[i, M.COL_OP]
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if op == M.OP_ATOM or op == M.OP_RED:
        size = np.int64(4 * words_of(st.code[i, M.COL_AUX4] & 255))
    if not check_global(st, sm, i, w, mask, size):
        return
    if par[L.P_CHECKS] & CHECK_INIT and st.unknown.size > 1 and not watch_global(st, sm, i, w, mask, size):
        return
    touched = st.touched[sm]
    lines, sectors = coalesce(st.address[sm], touched, mask, size)
    line = st.line[st.sm[sm, L.S_CHUNK], i]
    line[L.N_REQUESTS] += 1
    line[L.N_SECTORS] += sectors
    line[L.N_TAGS] += lines
    line[L.N_SECTORS_IDEAL] += min(sectors, (popc(mask) * size + 31) // 32)

    strong = st.code[i, M.COL_AUX3] & M.MEM_STRONG
    bits = line_filter(touched, lines)
    in_order = strong != 0 or st.sm[sm, L.S_DEFERRED_LINES] & bits != 0
    base = par[L.P_MEMORY_BASE]
    if op == M.OP_LOAD:
        if in_order:
            entry = defer(st, sm, w, i, wb, mask, size)
            atomic_lines(st, sm, q, w, i, mask, size, lines, time, KIND_READ_STRONG, entry)
            return
        dst = row_offset(st.code[i, M.COL_DST], wb)
        signed = st.code[i, M.COL_AUX1] & M.MEM_SIGNED
        load_rows(st.memory32, st.memory8, st.address[sm], base, 1, st.regs, dst, mask, size, signed)
        read_lines(st, sm, q, w, i, False, lines, time, -1, mask, size)
        return
    if op == M.OP_STORE and not in_order:
        src = row_offset(st.code[i, M.COL_B], wb)
        store_rows(st.memory32, st.memory8, st.address[sm], base, 1, st.regs, src, mask, size)
        write_lines(st, sm, q, w, i, mask, size, lines, time, KIND_WRITE, -1)
        return
    st.sm[sm, L.S_DEFERRED_LINES] |= bits
    entry = defer(st, sm, w, i, wb, mask, size)
    if op == M.OP_STORE:
        write_lines(st, sm, q, w, i, mask, size, lines, time, KIND_WRITE_STRONG, entry)
        return
    requests, _ = atomic_requests(st.address[sm], touched, mask, st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_CAS)
    if op == M.OP_RED or (st.code[i, M.COL_DST_COUNT] == 0 and st.code[i, M.COL_WBAR] == 7):
        write_lines(st, sm, q, w, i, mask, size, requests, time, KIND_REDUCTION, entry)
    else:
        atomic_lines(st, sm, q, w, i, mask, size, requests, time, KIND_ATOMIC, entry)


@compiled
def remote_access(st, sm, q, w, i, wb, mask, time):
    """Load, store or atomic on the shared memory of other blocks of the cluster: a request from SM to SM."""
    op = st.code[i, M.COL_OP]
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if op == M.OP_ATOM or op == M.OP_RED:
        size = np.int64(4 * words_of(st.code[i, M.COL_AUX4] & 255))
    if not find_remote(st, sm, i, w, mask, size):
        return
    entry = defer(st, sm, w, i, wb, mask, size)
    st.deferred[sm, entry, L.X_REMOTE] = 1
    st.touched[sm, 0, 0] = 0
    st.touched[sm, 0, 1] = 1
    waits = st.code[i, M.COL_DST_COUNT] > 0 or st.code[i, M.COL_WBAR] != 7
    if op == M.OP_LOAD or (op == M.OP_ATOM and waits):
        atomic_lines(st, sm, q, w, i, mask, size, 1, time, KIND_SM, entry)
    else:
        write_lines(st, sm, q, w, i, mask, size, 1, time, KIND_SM, entry)


@compiled
def local_access(st, sm, q, w, i, wb, mask, time):
    """Load or store of thread-private memory, through L1 like global memory."""
    par = st.par
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    if not check_window(st, sm, i, w, mask, size, 0, par[L.P_LOCAL_BYTES], L.E_LOCAL_BOUNDS):
        return
    start = local_addresses(st, sm, w, mask, size)
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
        load_rows(words, bytes_, address, 0, 32, st.regs, dst, mask, size, signed)
    else:
        store_rows(words, bytes_, address, 0, 32, st.regs, row_offset(st.code[i, M.COL_B], wb), mask, size)
    touched = st.touched[sm]
    count = np.int64(0)
    for _word in range(max(size >> 2, 1)):
        n, _ = coalesce(address, touched[count:], mask, 4)
        for lane in range(32):
            if (mask >> lane) & 1:
                address[lane] += 128
        count += n
        if count > 31:
            break
    for n in range(count):
        touched[n, 0] += par[L.P_LOCAL_LINE]
    if st.sm[sm, L.S_LOG_ROW] != 0:
        log_local(st, sm, count)
    if st.code[i, M.COL_OP] == M.OP_LOAD:
        read_lines(st, sm, q, w, i, False, count, time, -1, mask, 0)
    else:
        write_lines(st, sm, q, w, i, mask, size, count, time, KIND_WRITE, -1)


@compiled
def memory_access(st, sm, q, w, i, wb, mask, time):
    """Executes one memory instruction for the lanes in `mask` and books its time."""
    if mask == 0:
        return
    par = st.par
    op = st.code[i, M.COL_OP]
    lane_addresses(st, sm, i, wb, mask)
    space = st.code[i, M.COL_AUX0]
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
            space, lanes = window_of(st, sm, left)
        left &= ~lanes
        if op == M.OP_ATOM and not atomic_predicate(st, sm, w, i, lanes, space, time):
            continue
        if space == M.SPACE_SHARED and par[L.P_CLUSTER_BLOCKS] > 0 and names_other_block(st, sm, w, lanes):
            remote_access(st, sm, q, w, i, wb, lanes, time)
        elif space == M.SPACE_SHARED:
            shared_access(st, sm, q, w, i, wb, lanes, time)
        elif space == M.SPACE_LOCAL:
            local_access(st, sm, q, w, i, wb, lanes, time)
        else:
            global_access(st, sm, q, w, i, wb, lanes, time)
