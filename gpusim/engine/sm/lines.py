"""The lines that a memory instruction touches: L1 lookups, requests to L2, and what takes effect there in order.

L1 is written through. A store leaves it as it was, or, with `l1.write_allocate`, keeps the sectors that it writes whole
there, as a load would.
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.atomics import copy_operands
from gpusim.engine.sm.coalescer import shared_wavefronts
from gpusim.engine.sm.flight import FOR_MISS, FOR_TOKEN, hold, new_token, release_at, send
from gpusim.engine.sm.stages import enter_queue, leave_queue, store_cycles, tag_cycles, take_data_stage
from gpusim.engine.state import layout as L
from gpusim.engine.state.address_map import spread
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.memory import (
    FIFO,
    KIND_ATOMIC,
    KIND_READ,
    KIND_WRITE,
    KIND_WRITE_PARTIAL,
    LINE_BYTES,
    RANDOM,
    SECTOR_BYTES,
)
from isa import microops as M


@compiled
def find_line(st, sm, line):
    """(way index into st.tags[sm], found). Without a match: the idle way that `l1.replacement` gives up, or -1.

    L_USED is when a line was last used or, for "fifo", when it came; 0 in a way that is empty.
    """
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
    if st.par[L.P_L1_REPLACEMENT] == RANDOM and victim >= 0 and oldest > 0:
        start = spread(st.sm[sm, L.S_CLOCK], ways)
        for k in range(start, start + ways):
            if tags[first + k % ways, L.L_PENDING] == 0:
                return first + k % ways, False
    return victim, False


@compiled
def note_use(st, sm, way):
    """A line of L1 has been found again."""
    st.sm[sm, L.S_CLOCK] += 1
    if st.par[L.P_L1_REPLACEMENT] != FIFO:
        st.tags[sm, way, L.L_USED] = st.sm[sm, L.S_CLOCK]


@compiled
def give_way(st, sm, way, line):
    """A way of L1 is another line's from now on, none of whose sectors is there."""
    st.sm[sm, L.S_CLOCK] += 1
    tag = st.tags[sm, way]
    tag[L.L_TAG] = line
    tag[L.L_VALID] = 0
    tag[L.L_PENDING] = 0
    tag[L.L_USED] = st.sm[sm, L.S_CLOCK]
    tag[L.L_MISS] = 0


@compiled
def keep_stored(st, sm, line, sectors):
    """With `l1.write_allocate`: whole sectors that are stored are in L1."""
    if st.par[L.P_L1_WAYS] == 0:
        return
    way, found = find_line(st, sm, line)
    if found:
        note_use(st, sm, way)
    elif way >= 0:
        give_way(st, sm, way, line)
    if way >= 0:
        st.tags[sm, way, L.L_VALID] |= sectors


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
            note_use(st, sm, way)
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
            give_way(st, sm, way, line)
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
        cycles = (hit_wavefronts * LINE_BYTES + par[L.P_L1_DATA] - 1) // par[L.P_L1_DATA]
        there = take_data_stage(st, sm, q, start, cycles) - 2 + par[L.P_L1_LATENCY]
        first = (LINE_BYTES + par[L.P_L1_DATA] - 1) // par[L.P_L1_DATA]  # in the latency of a load that hits
        there += 2 * (hit_wavefronts - 1) + max(cycles - first - (hit_wavefronts - 1), 0)
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
        if kind == KIND_WRITE and payload < popc(sectors) * SECTOR_BYTES:
            actual = KIND_WRITE_PARTIAL
        elif kind == KIND_WRITE and par[L.P_L1_WRITE_ALLOCATE] != 0:
            keep_stored(st, sm, touched[n, 0], sectors)
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
    st.warp[w, L.W_DRAINED] = max(st.warp[w, L.W_DRAINED], sent + par[L.P_STORE_DRAIN])


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
def take_operands(st, i, wb, size, values):
    """Copies what an access sends, uint32 values[8, 32], out of the registers, which may change after its issue."""
    op = st.code[i, M.COL_OP]
    if op == M.OP_STORE:
        src = row_offset(st.code[i, M.COL_B], wb)
        for k in range(max(size >> 2, 1)):
            for lane in range(32):
                values[k, lane] = st.regs[src + 32 * k + lane]
    elif op != M.OP_LOAD:
        copy_operands(st, i, wb, st.code[i, M.COL_AUX4] & 255, values)


@compiled
def defer(st, sm, w, i, wb, mask, size, kept):
    """Keeps the operands of an access that takes effect at L2 in time order. Returns its entry.

    kept: row of st.held_values[sm] where they are since its issue, or -1.
    """
    entry = st.sm[sm, L.S_DEFERRED]
    st.sm[sm, L.S_DEFERRED] = entry + 1
    st.deferred[sm, entry, L.X_PC] = i
    st.deferred[sm, entry, L.X_WARP] = w
    st.deferred[sm, entry, L.X_MASK] = mask
    st.deferred[sm, entry, L.X_DONE] = 0
    st.deferred[sm, entry, L.X_REMOTE] = 0
    for lane in range(32):
        st.lanes[sm, entry, lane] = st.address[sm, lane]
    if kept < 0:
        take_operands(st, i, wb, size, st.values[sm, entry])
    else:
        for k in range(8):
            for lane in range(32):
                st.values[sm, entry, k, lane] = st.held_values[sm, kept, k, lane]
    return entry


@compiled
def line_filter(touched, count):
    """A 64-bit set of line numbers, for "did this SM defer something on this line in this window?"."""
    bits = np.int64(0)
    for n in range(count):
        line = touched[n, 0]
        bits |= np.int64(1) << ((line ^ (line >> 6) ^ (line >> 12)) & 63)
    return bits
