"""The lines that a memory instruction touches: L1 lookups, requests to L2, and what takes effect there in order."""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.atomics import copy_operands, swaps
from gpusim.engine.sm.flight import (
    FOR_MSHR,
    FOR_TOKEN,
    hold,
    hold_flits,
    note_lines,
    release_at,
    send,
    take_deferred,
    take_row,
    take_token,
)
from gpusim.engine.sm.l1 import (
    absent_sectors,
    bank_turns,
    find_line,
    keep_stored,
    line_words,
    note_use,
    replace_line,
    returned_turns,
    tag_turns,
    words_of,
)
from gpusim.engine.sm.stages import enter_queue, leave_queue, take_data_stage, take_data_turns
from gpusim.engine.sm.stored import behind_stored, join_stored, send_stored, store_cycles, store_line, take_turns
from gpusim.engine.state import L, P, compiled, ms, popc
from isa import microops as M

_ASKING = 32  # requests that wait for the way to L2 before lookups wait for them; assumed, as many as a load has lines
_COPIES_AHEAD = 7
"""Asynchronous copies that have left their queues and wait for their turns at L1. H200: so far behind its own copies a
load from shared memory waits, and an address is read, of 16 and of 32 copies with 4 to 32 requests each."""


@compiled
def take_mshr(st, sm, line, sectors, token, way):
    """Takes an MSHR (`admission` has seen to it that there is one)."""
    w = st.token[sm, token, L.TOKEN_WARP]
    k = take_row(st, sm, w, st.mshr[sm], L.SM_MSHRS_NEW, L.SM_MSHR_FREE, L.MSHR_NEXT, L.POOL_MSHRS)
    if k < 0:
        return np.int64(0)
    mshr = st.mshr[sm, k]
    mshr[L.MSHR_LINE], mshr[L.MSHR_SECTORS], mshr[L.MSHR_WAY], mshr[L.MSHR_TOKEN] = line, sectors, way, token
    mshr[L.MSHR_COUNT], mshr[L.MSHR_MORE] = 1, 0
    return k


@compiled
def wait_too(st, sm, mshr, token):
    """One token more waits for a line request whose own room is full. False if the SM has no row for it."""
    s = st.sm[sm]
    if s[L.SM_WAIT_FREE] == 0 and s[L.SM_WAITS_NEW] == st.waiting.shape[1]:
        return False
    w = st.token[sm, token, L.TOKEN_WARP]
    n = take_row(st, sm, w, st.waiting[sm], L.SM_WAITS_NEW, L.SM_WAIT_FREE, L.WAITING_NEXT, L.POOL_TOKENS)
    st.waiting[sm, n, L.WAITING_TOKEN] = token
    st.waiting[sm, n, L.WAITING_NEXT] = mshr[L.MSHR_MORE]
    mshr[L.MSHR_MORE] = n + 1
    return True


@compiled
def join_mshrs(st, sm, a, way, sectors, token):
    """Lets a load wait with others for sectors of a line that are on their way already.

    An H200 lets any number of loads wait for a sector: 32 warps with eight each ask L2 once (`ld_back`). Returns (those
    of them for which there is no more room, and that are asked for again; the load's token).
    """
    left = sectors
    for s in range(4):
        if (sectors >> s) & 1:
            mshr = st.mshr[sm, (st.tags[sm, L.TAG_MSHR, way] >> (s * L.BITS_OF_MSHR)) & L.MASK_OF_MSHR]
            count = mshr[L.MSHR_COUNT]
            more = mshr[L.MSHR_MORE] - 1
            last = mshr[L.MSHR_TOKEN + count - 1] if more < 0 else st.waiting[sm, more, L.WAITING_TOKEN]
            if count > 0 and last == token and token >= 0:
                left &= ~(1 << s)
                continue
            token = token if token >= 0 else take_token(st, sm, a.warp, st.code[a.pc, M.COL_WBAR], L.LOAD_TOKEN)
            if count < L.TOKENS_OF_MSHR:
                mshr[L.MSHR_TOKEN + count] = token
                mshr[L.MSHR_COUNT] = count + 1
            elif not wait_too(st, sm, mshr, token):
                continue
            st.token[sm, token, L.TOKEN_LEFT] += 1
            left &= ~(1 << s)
    return left, token


@compiled
def ask_l2(st, sm, line, sectors, way, token, past, time, policy):
    """Asks L2 for sectors of a line; they are pending in its way of L1, unless that is -1. past: they go past L1."""
    k = take_mshr(st, sm, line, sectors, token, way)
    st.token[sm, token, L.TOKEN_LEFT] += 1
    if way >= 0:
        tags = st.tags[sm]
        tags[L.TAG_PENDING, way] |= sectors
        for s in range(4):
            if (sectors >> s) & 1:
                shift = s * L.BITS_OF_MSHR
                tags[L.TAG_MSHR, way] = tags[L.TAG_MSHR, way] & ~(L.MASK_OF_MSHR << shift) | k << shift
    st.sm[sm, L.SM_OUTSTANDING] += popc(sectors)
    send(st, sm, time, line, sectors, ms.KIND_READ, 2 * k + FOR_MSHR, np.int64(ms.PAST_L1 if past else 0), policy)


@compiled
def read_data(st, sm, a, start, turns, own, more=0):
    """Cycle at which what L1 holds of a load is there, which takes so many turns of the data stage, own of them of one
    bank, and `more` of a copy. It leaves its queue with the tag stage, unless many wait behind that (`queue_ldg_hit`).
    """
    par = st.par
    cycles = (turns * ms.LINE_BYTES + par[P.L1_DATA] - 1) // par[P.L1_DATA]
    least = max(cycles, par[P.DATA_INTERVAL])
    if more > 0:
        data = take_data_stage(st, sm, a.smsp, a.warp, start, least, more)
    else:
        data = take_data_turns(st, sm, a.warp, start, least, least * max(2 * own, turns) // max(turns, 1))
        leave_queue(st.smsp[a.smsp], data + (2 - par[P.L1_WAITING]) * least)
    there = data - par[P.ENTRY] + par[P.L1_LATENCY]
    first = (ms.LINE_BYTES + par[P.L1_DATA] - 1) // par[P.L1_DATA]  # in the latency of a load that hits
    return there + max(par[P.LSU_INTERVAL] * (own - 1), turns - 1) + max(cycles - first - (turns - 1), 0)


@compiled
def read_lines(st, sm, a, count, bypass, copies):
    """Looks the touched lines up in L1 and asks L2 for what is missing; the scoreboard waits for all of it.

    `bypass`: around L1. `copies`: token of a group of asynchronous copies that waits instead of a scoreboard, or -1.
    Returns the cycle at which what L1 held is there. Lines are looked up several to a cycle (`tag_turns`), those that
    miss leave one by one.
    """
    par = st.par
    if par[P.MODE] & L.BOOKS == 0:
        if par[P.MODE] & L.KEEPS != 0:
            note_lines(st, sm, a, count, ms.KIND_READ)
        return a.time
    touched = st.touched[sm]
    tags = st.tags[sm]
    entered = enter_queue(st, a.smsp, a.time, 1)
    start = max(entered, st.sm[sm, L.SM_TAG_FREE])
    release = (entered if copies >= 0 else start) + par[P.SOURCE_RELEASE]
    release_at(st, a.warp, st.code[a.pc, M.COL_RBAR], release, L.STALL_LONG)
    looked_up = tag_turns(par, touched, count)
    token = copies
    hit_sectors = hit_lines = misses = 0
    way_free = st.sm[sm, L.SM_STORE_FREE]
    counts = st.counters[st.sm[sm, L.SM_CHUNK], a.pc]
    for n in range(count):
        line = touched[n, 0]
        missing = touched[n, 4] = touched[n, 1]
        way, found = -1, False
        if not bypass and st.sm[sm, L.SM_L1_SETS] > 0:
            way, found = find_line(st, sm, line)
        if found:
            note_use(st, sm, way)
            absent = missing & ~tags[L.TAG_VALID, way]
            if absent != 0 and tags[L.TAG_WORDS, way] != 0:
                needed = touched[n, 2] if a.size == 0 else line_words(st.address[sm], line, a.mask, max(a.size, 4))
                absent = absent_sectors(tags[L.TAG_WORDS, way], needed, missing, absent)
            hit_lines += 1 if absent == 0 or missing & tags[L.TAG_VALID, way] != 0 else 0
            touched[n, 4] = absent
            again, token = join_mshrs(st, sm, a, way, absent & tags[L.TAG_PENDING, way], token)
            absent = absent & ~tags[L.TAG_PENDING, way] | again
            hit_sectors += popc(missing & ~absent)
            missing = absent
        elif way >= 0:
            replace_line(st, sm, way, line)
        if missing != 0:
            token = token if token >= 0 else take_token(st, sm, a.warp, st.code[a.pc, M.COL_WBAR], L.LOAD_TOKEN)
            if misses == 0 and st.sm[sm, L.SM_STORED] > 0:
                way_free = behind_stored(st, sm, start)
            sent = max(start + max(misses, n // par[P.L1_TAGS_PER_CYCLE]), way_free + misses) + par[P.L1_REQUEST]
            ask_l2(st, sm, line, missing, way, token, bypass or copies >= 0, sent, a.policy)
            counts[L.COUNT_MISSES] += popc(missing)
            misses += 1
    if misses > 0:
        st.sm[sm, L.SM_STORE_FREE] = max(start, st.sm[sm, L.SM_STORE_FREE]) + misses
        st.sm[sm, L.SM_TAG_FREE] = max(st.sm[sm, L.SM_TAG_FREE], st.sm[sm, L.SM_STORE_FREE] - _ASKING)
    counts[L.COUNT_HITS] += hit_sectors
    turns = max(misses, looked_up)  # one that waits for its sub-partition's turn lets those of others pass
    st.sm[sm, L.SM_TAG_FREE] = max(st.sm[sm, L.SM_TAG_FREE], min(start, a.time + par[P.ENTRY])) + looked_up
    leave_queue(st.smsp[a.smsp], start + turns)
    there = start
    if copies >= 0:
        st.smsp[a.smsp, L.SMSP_LSU_FREE] = max(st.smsp[a.smsp, L.SMSP_LSU_FREE], start - _COPIES_AHEAD * turns)
        if misses == 0 and st.token[sm, copies, L.TOKEN_TIME] > 0:  # else when what is missing has come
            turns = st.token[sm, copies, L.TOKEN_TIME]
            there = read_data(st, sm, a, start, turns, turns, 1)
            st.token[sm, copies, L.TOKEN_TIME] = 0
    elif not bypass:
        own = bank_turns(touched, count, -1, False)
        data = returned_turns(touched, count, looked_up) if token >= 0 else np.int64(0)
        counts[L.COUNT_L1_DATA] += data + own
        # Hits take the tag stage's turns if others miss. H200: 11.6, 14.9, 17.3, 19.1 cycles if 0, 4, 8, 12 of 32 do.
        data += max(own, looked_up) if token >= 0 and own > 0 else own
        if misses == 0 and token >= 0:  # it comes through the data stage when what it waits for with others has come
            st.token[sm, token, L.TOKEN_TIME] = data
        else:
            there = read_data(st, sm, a, start + max(looked_up - data, 0), data, own)
    if hit_lines > 0:
        release_at(st, a.warp, st.code[a.pc, M.COL_WBAR], there, L.STALL_LONG)
    if token >= 0:
        hold(st, a.warp, st.code[a.pc, M.COL_WBAR], L.STALL_LONG)
    return there


@compiled
def prefetch_lines(st, sm, a, count):
    """L2 gets the touched lines, and nobody waits. H200, CCTL.PF1 and .PF2: neither looks into L1; 32 lines take 8
    turns of the data stage and a cycle each of the way to L2."""
    s, par, touched = st.sm[sm], st.par, st.touched[sm]
    if par[P.MODE] & (L.BOOKS | L.KEEPS) == 0:
        return
    start = max(enter_queue(st, a.smsp, a.time, 1), s[L.SM_TAG_FREE])
    turns = tag_turns(par, touched, count)
    counts = st.counters[s[L.SM_CHUNK], a.pc]
    counts[L.COUNT_L1_DATA] += turns
    counts[L.COUNT_REQUESTS] += 1
    s[L.SM_TAG_FREE] = start + turns
    release_at(st, a.warp, st.code[a.pc, M.COL_RBAR], start + par[P.SOURCE_RELEASE], L.STALL_LONG)
    sent = max(take_data_stage(st, sm, a.smsp, a.warp, start, turns), s[L.SM_STORE_FREE])
    token = take_token(st, sm, a.warp, 7, L.BULK_WRITE_TOKEN)
    st.token[sm, token, L.TOKEN_LEFT] = count
    for n in range(count):
        leaves = sent + n + par[P.L1_REQUEST]
        send(st, sm, leaves, touched[n, 0], 15, ms.KIND_PREFETCH, 2 * token, np.int64(0), np.int64(0))
    s[L.SM_STORE_FREE] = sent + count
    leave_queue(st.smsp[a.smsp], sent + count)
    st.warp[a.warp, L.WARP_DRAINED] = max(st.warp[a.warp, L.WARP_DRAINED], sent + count + par[P.STORE_DRAIN])


@compiled
def write_plain(st, sm, a, count):
    """The lines of a plain store wait for their way to L2 (`stored`); they are in L1 meanwhile and afterwards.

    A sub-partition hands over a register in two cycles, RZ in none: an H200's stores of 0, 1, 2 and 4 registers take 4,
    6.2, 8.1 and 12.2. The data stage takes as many turns as a bank gets words, or the tag stage for its lines.
    """
    par = st.par
    touched = st.touched[sm]
    registers = 2 + (max(a.size >> 2, 1) if st.code[a.pc, M.COL_B] >= 0 else 0)
    start = max(enter_queue(st, a.smsp, a.time, registers), st.sm[sm, L.SM_TAG_FREE])
    looked_up = tag_turns(par, touched, count)
    turns = max(bank_turns(touched, count, -1, False), looked_up if touched[0, 2] != 0 else count)  # bytes: one a line
    st.counters[st.sm[sm, L.SM_CHUNK], a.pc, L.COUNT_L1_DATA] += turns
    st.sm[sm, L.SM_TAG_FREE] = start + looked_up
    data = take_data_turns(st, sm, a.warp, start, max(turns, par[P.DATA_INTERVAL]), turns)
    leave_queue(st.smsp[a.smsp], data + turns)
    send_stored(st, sm, data)
    ready = data + (3 * turns + count) // 2 + par[P.STORED_CYCLES]
    release = par[P.STORE_RELEASE] + (max(a.size >> 2, 1) - 1) * par[P.REGISTER_RELEASE]
    release_at(st, a.warp, st.code[a.pc, M.COL_RBAR], data + release, L.STALL_LONG)
    payload = popc(a.mask) * a.size // count
    token = np.int64(-1)
    room = data
    apart = take_turns(st, sm, count, a.time)
    for n in range(count):
        line, sectors, words = touched[n, 0], touched[n, 1], touched[n, 2]
        if par[P.L1_WRITE_ALLOCATE] != 0:
            keep_stored(st, sm, line, sectors, words)
        bytes_ = 4 * popc(words) if words != 0 else payload
        if join_stored(st, sm, a.smsp, line, sectors, words, bytes_, ready, apart):
            continue
        if token < 0:
            token = take_token(st, sm, a.warp, 7, L.STORE_TOKEN)
            st.warp[a.warp, L.WARP_STORES] += 1
        st.token[sm, token, L.TOKEN_LEFT] += 1
        there = max(room, data + n * turns // count)
        room = store_line(st, sm, a, line, sectors, words, bytes_, there, ready, token)
    if room > data + turns:  # for want of room, which keeps what comes behind it waiting too
        st.sm[sm, L.SM_DATA_FREE] = max(st.sm[sm, L.SM_DATA_FREE], room)
    leave_queue(st.smsp[a.smsp], room)
    st.warp[a.warp, L.WARP_DRAINED] = max(st.warp[a.warp, L.WARP_DRAINED], room + turns + par[P.STORE_DRAIN])


@compiled
def adds_floats(st, pc):
    """OPS_FLOAT if an instruction adds floating-point numbers to device memory, else 0."""
    op, operation = st.code[pc, M.COL_OP], st.code[pc, M.COL_AUX4]
    adds = (op == M.OP_ATOM or op == M.OP_RED) and operation >> 8 == M.ATOMIC_ADD
    return np.int64(ms.OPS_FLOAT if adds and operation & 255 >= M.TYPE_F32 else 0)


@compiled
def pass_l1(st, sm, a, count, tags, answered):
    """(turns of the data stage, flits to L2) of lines that L1 does not keep; touched[n, 4] >> 4: flits of the n-th.
    One lane's words go with the header, others as sectors behind it, two each of a compare-and-swap. H200: reductions,
    strong loads and atomics of 32 lines take 32, 32 and 64 turns (`l1tex__data_pipe_lsu_wavefronts`), with words 33
    apart 10.5, 8.6 and 25; atomics, `answered`, of 16 lines with two lanes each 49. A swap sends whole sectors.
    """
    touched = st.touched[sm]
    swap = swaps(st, a.pc)
    flits = np.int64(0)
    for n in range(count):
        own = 1 if popc(touched[n, 2]) <= a.size >> 2 else 1 + popc(touched[n, 1]) * (2 if swap else 1)
        touched[n, 4] = own << 4 | touched[n, 1]
        flits += own
    turns = max(returned_turns(touched, count, tags), 1)
    if answered:
        for n in range(count if swap else 0):
            touched[n, 2] = words_of(touched[n, 1])
        turns += returned_turns(touched, count, tags)
        turns += turns // 2 if popc(a.mask) > count else 0
    st.counters[st.sm[sm, L.SM_CHUNK], a.pc, L.COUNT_L1_DATA] += turns
    return turns, flits


@compiled
def write_lines(st, sm, a, count, kind, entry):
    """Sends reductions, strong stores and those to other SMs, a request per line, behind the plain ones that wait; only
    MEMBAR and the kernel's end wait for them. `entry`: of st.deferred[sm], for what takes effect there, else -1.
    """
    par = st.par
    touched = st.touched[sm]
    start = max(enter_queue(st, a.smsp, a.time, 1), st.sm[sm, L.SM_TAG_FREE])
    looked_up = tag_turns(par, touched, count)
    st.sm[sm, L.SM_TAG_FREE] = start + looked_up
    turns, flits = np.int64(1), np.int64(0)
    if kind < ms.KIND_SM_READ:
        turns, flits = pass_l1(st, sm, a, count, looked_up, False)
    data = take_data_turns(st, sm, a.warp, start, turns, turns)
    leave_queue(st.smsp[a.smsp], data + turns)
    data = start if kind == ms.KIND_REDUCTION else data  # whose turns hold others up, not themselves (`queue_red`)
    send_stored(st, sm, L.NEVER)
    sent = max(data, st.sm[sm, L.SM_STORE_FREE])
    release = par[P.STORE_RELEASE] + (max(a.size >> 2, 1) - 1) * par[P.REGISTER_RELEASE]
    release_at(st, a.warp, st.code[a.pc, M.COL_RBAR], data + release, L.STALL_LONG)
    token = take_token(st, sm, a.warp, 7, L.STORE_TOKEN)
    st.token[sm, token, L.TOKEN_LEFT] = count
    payload = popc(a.mask) * a.size // count
    if kind >= ms.KIND_SM_READ:
        # Three packets to another SM take as much room as two for L2, and have it until all have arrived.
        packets = np.int64(0)
        for n in range(count):
            packets += popc(touched[n, 1])
        hold_flits(st, sm, token, 0, 2 * ((packets + 2) // 3))
    else:
        hold_flits(st, sm, token, count, flits)
    st.warp[a.warp, L.WARP_STORES] += 1
    what = (2 * token + FOR_TOKEN) | ((entry + 1) << 32)
    operations = a.policy if kind == ms.KIND_WRITE_STRONG else popc(a.mask) // count | adds_floats(st, a.pc)
    parts = np.int64(0)
    for n in range(count):
        sectors = touched[n, 1]
        leaves = sent + parts // P.FLIT_PARTS + par[P.L1_REQUEST]
        send(st, sm, leaves, touched[n, 0], sectors, kind, what, payload, operations)
        if kind == ms.KIND_REDUCTION:
            parts += (touched[n, 4] >> 4) * par[P.FLIT]
        else:
            sent += store_cycles(par, sectors, True) if kind < ms.KIND_SM_READ else popc(sectors)
    sent += (parts + P.FLIT_PARTS - 1) // P.FLIT_PARTS
    st.sm[sm, L.SM_STORE_FREE] = sent
    leave_queue(st.smsp[a.smsp], sent)
    st.warp[a.warp, L.WARP_DRAINED] = max(st.warp[a.warp, L.WARP_DRAINED], sent + par[P.STORE_DRAIN])


@compiled
def atomic_lines(st, sm, a, count, kind, entry):
    """Atomics with a result and strong loads: the scoreboard waits for the replies of all lines."""
    touched = st.touched[sm]
    wbar = st.code[a.pc, M.COL_WBAR]
    start = max(enter_queue(st, a.smsp, a.time, 1), st.sm[sm, L.SM_TAG_FREE])
    looked_up = tag_turns(st.par, touched, count)
    st.sm[sm, L.SM_TAG_FREE] = start + (looked_up if kind == ms.KIND_ATOMIC else count)
    release_at(st, a.warp, st.code[a.pc, M.COL_RBAR], start + st.par[P.SOURCE_RELEASE], L.STALL_LONG)
    token = take_token(st, sm, a.warp, wbar, L.ATOMIC_TOKEN)
    st.token[sm, token, L.TOKEN_LEFT] = count
    hold(st, a.warp, wbar, L.STALL_LONG)
    what = (2 * token + FOR_TOKEN) | ((entry + 1) << 32)
    # What a strong load brings does not go through L1, whose 48 bytes a cycle do not hold it up: an H100's SM takes 84.
    payload = popc(a.mask) * a.size // count if kind == ms.KIND_ATOMIC else np.int64(ms.PAST_L1)
    operations = max(popc(a.mask) // count, 1) | adds_floats(st, a.pc)
    operations = a.policy if kind == ms.KIND_READ_STRONG else operations
    sent = start
    parts = np.int64(0)
    if kind < ms.KIND_SM_READ:
        turns, flits = pass_l1(st, sm, a, count, looked_up, kind == ms.KIND_ATOMIC)
        data = take_data_turns(st, sm, a.warp, start, turns, turns if kind == ms.KIND_ATOMIC else 0)
        if kind == ms.KIND_ATOMIC:
            sent = max(data, st.sm[sm, L.SM_STORE_FREE])
            hold_flits(st, sm, token, count, flits)
    for n in range(count):
        leaves = sent + parts // P.FLIT_PARTS + st.par[P.L1_REQUEST]
        send(st, sm, leaves, touched[n, 0], touched[n, 1], kind, what, payload, operations)
        parts += (touched[n, 4] >> 4) * st.par[P.FLIT] if kind == ms.KIND_ATOMIC else P.FLIT_PARTS
    if kind == ms.KIND_ATOMIC:
        sent += (parts + P.FLIT_PARTS - 1) // P.FLIT_PARTS
        st.sm[sm, L.SM_STORE_FREE] = sent
        leave_queue(st.smsp[a.smsp], sent)


@compiled
def take_operands(st, a, values):
    """Copies what an access sends, uint32 values[8, 32], out of the registers, which may change after its issue."""
    op = st.code[a.pc, M.COL_OP]
    if op == M.OP_STORE:
        src = row_offset(st.code[a.pc, M.COL_B], a.base)
        for k in range(max(a.size >> 2, 1)):
            if k == 4:  # the second half has its own registers
                src = row_offset(st.code[a.pc, M.COL_AUX4], a.base) - 32 * 4
            V.store_words(values[k], 0, V.load(st.regs, src + 32 * k))
    elif op != M.OP_LOAD:
        copy_operands(st, a.pc, a.base, st.code[a.pc, M.COL_AUX4] & 255, values)


@compiled
def defer(st, sm, a, kept):
    """Keeps the operands of an access that takes effect at L2 in time order. Returns its entry.

    kept: row of st.queued_values[sm] where they are since its issue, or -1.
    """
    entry = take_deferred(st, sm, a.warp, a.pc)
    st.deferred[sm, entry, L.DEFERRED_MASK] = a.mask
    V.store64(st.deferred_address[sm, entry], 0, V.load64(st.address[sm], 0))
    if kept < 0:
        take_operands(st, a, st.deferred_values[sm, entry])
    else:
        for k in range(8):
            V.store_words(st.deferred_values[sm, entry, k], 0, V.load_words(st.queued_values[sm, kept, k], 0))
    return entry


@compiled
def line_filter(touched, count):
    """A 64-bit set of line numbers, for "did this SM defer something on this line in this window?"."""
    bits = np.int64(0)
    for n in range(count):
        line = touched[n, 0]
        bits |= np.int64(1) << ((line ^ (line >> 6) ^ (line >> 12)) & 63)
    return bits
