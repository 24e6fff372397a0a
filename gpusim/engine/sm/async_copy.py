"""Memory instructions whose end is announced by something else than a scoreboard of their own: LDGSTS and its kind.

A copy moves its bytes when its replies have come; a program that reads too early reads what was there before. Groups
of copies end in the order in which they were committed, as on an H200 (`copy_groups`).
"""

import numpy as np

from gpusim.engine.rows.common import FULL_MASK, predicate, row_offset
from gpusim.engine.rows.lanes import (
    equal,
    high,
    less_u64,
    load,
    load64,
    low,
    splat,
    splat64,
    store,
    store64,
    store_words,
    zero_extend,
)
from gpusim.engine.sm.bulk_copy import ANSWER_BYTES, bulk_access, no_block_left
from gpusim.engine.sm.bulk_effect import apply_remote, send_news
from gpusim.engine.sm.cluster import find_remote, own_lanes, own_offsets, remote_lines
from gpusim.engine.sm.coalescer import coalesce
from gpusim.engine.sm.copy_cost import LINE_SHIFT, copy_wavefronts, last_to_target, sector_pairs, zero_wavefronts
from gpusim.engine.sm.flight import block_key, event_at, give_row, is_there, open_group, take_end, take_row
from gpusim.engine.sm.lines import defer, prefetch_lines, read_lines, write_lines
from gpusim.engine.sm.matrix_load import four_words, matrix_access, put_line
from gpusim.engine.sm.mbarrier import arrive_with_copies, barrier_object
from gpusim.engine.sm.shadow_clocks import CHECK_INIT, CHECK_RACE
from gpusim.engine.sm.shadow_copies import watch_copy
from gpusim.engine.sm.space import (
    access,
    addresses,
    apart,
    check_global,
    check_shared,
    fail,
    find_allocation,
    lane_addresses,
)
from gpusim.engine.sm.stored import words_of
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit, ms, popc
from gpusim.engine.state.log import AS_TRACER, log_addresses
from gpusim.engine.state.memory import KIND_SM_WRITE
from isa import microops as M

_BYTES = 8
_NEAR = 1 << 31  # bytes between lanes' addresses that a word tells


@compiled
def send_store(st, sm, a, entry):
    """On its way to other SMs, as any store there; in a run without time it is there."""
    st.deferred[sm, entry, L.DEFERRED_REMOTE] = 1
    if st.par[P.MODE] & L.BOOKS == 0:
        apply_remote(st, sm, entry, a.time)
        st.sm[sm, L.SM_DEFERRED] = 0
        return
    write_lines(st, sm, a, remote_lines(st, sm, a.pc, a.mask, a.size), np.int64(KIND_SM_WRITE), entry)


@compiled
def remote_store(st, sm, q, w, i, wb, mask, time):
    """STAS, REDAS: a value for each lane, of which an mbarrier of the same block hears."""
    size, row = np.int64(st.code[i, M.COL_AUX1]), row_offset(st.code[i, M.COL_A], wb)
    places, address = st.copy_targets[sm], st.address[sm]
    store64(address, 0, zero_extend(load(st.regs, row + 32)))
    if not find_remote(st, sm, i, w, mask, np.int64(_BYTES)):
        return
    store64(places, 0, load64(address, 0))
    store64(address, 0, zero_extend(load(st.regs, row)))
    if not find_remote(st, sm, i, w, mask, size):
        return
    a = access(q, w, i, wb, mask, size, time)
    entry = defer(st, sm, a, np.int64(-1))
    store_words(st.deferred_values[sm, entry, 4], 0, low(load64(places, 0)))
    store_words(st.deferred_values[sm, entry, 5], 0, high(load64(places, 0)))
    send_store(st, sm, a, entry)


@compiled
def next_block(st, sm, w, i, wb, time):
    """UGETNEXTWORKID: the answer is that there is none, which is always right: all blocks are started anyway."""
    address, barrier = no_block_left(st, sm, w, i, wb)
    if address >= 0:
        slot, size = st.warp[w, L.WARP_BLOCK], np.int64(ANSWER_BYTES)
        n = send_news(st, sm, slot, L.COPY_BYTES_TOKEN, barrier, size, np.int64(0))
        event_at(st, sm, time + st.par[P.BULK_START], n)


@compiled
def check_parts(st, sm, i, w, mask, size):
    """Check global addresses as check_global does, where the sources' distances from multiples of `size` are the bytes
    at the end that become zero, which may lie outside of all memory."""
    for lane in range(32):
        if (mask >> lane) & 1:
            missing = st.address[sm, lane] & (size - 1)
            source = st.address[sm, lane] - missing
            k = find_allocation(st.starts, st.ends, source)
            if k < 0 or source > st.ends[k] - (size - missing):
                fail(st, sm, L.ERROR_BOUNDS, i, w, lane, source, size - missing)
                return False
    return True


@compiled
def copy_lanes(st, sm, i, mask, reading, base, source, target):
    """Bytes from global to shared memory, `base` the first one of the block, or zeros for lanes that do not read.

    In the .ZFILL form the source's distance from a multiple of the size is the number of bytes at the end that become
    zero.
    """
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    fill = size - 1 if st.code[i, M.COL_AUX4] != 0 else np.int64(0)
    shared, memory = st.shared32[sm], st.memory32
    for lane in range(32):
        if (mask >> lane) & 1:
            missing = source[lane] & fill
            count = size - missing if (reading >> lane) & 1 else np.int64(0)
            to, from_ = (base + target[lane]) >> 2, (source[lane] - missing - st.par[P.MEMORY_BASE]) >> 2
            if count == 16:
                put_line(shared, to, four_words(memory, from_))
                continue
            if count == size:
                for k in range(size >> 2):
                    shared[to + k] = memory[from_ + k]
                continue
            for k in range(size >> 2):
                left = max(count - 4 * k, 0)
                word = memory[from_ + k] if left > 0 else np.uint32(0)
                shared[to + k] = word & np.uint32((1 << 8 * left) - 1) if left < 4 else word


@compiled
def keep_copy(st, sm, w, i, mask, reading):
    """Keeps what a copy moves when its data are there. Returns the copy's token, of whose ends one is missing."""
    n = take_row(st, sm, w, st.copy_lanes[sm], L.SM_COPIES_NEW, L.SM_COPY_FREE, L.COPY_NEXT, L.POOL_COPIES)
    if n < 0:
        return np.int64(0)
    group = open_group(st, sm, w, L.WARP_COPIES, L.COPY_TOKEN)
    st.token[sm, group, L.TOKEN_LEFT] += 1
    copy = st.copy_lanes[sm, n]
    copy[L.COPY_PC] = i
    copy[L.COPY_MASK] = mask
    copy[L.COPY_READING] = reading
    store64(copy, L.COPY_TARGET, load64(st.copy_targets[sm], 0))
    store64(copy, L.COPY_SOURCE, load64(st.address[sm], 0))
    return take_end(st, sm, w, L.COPY_DATA_TOKEN, block_key(st, sm, st.warp[w, L.WARP_BLOCK]), n, group)


@compiled
def land(st, sm, k):
    """The data of copy k are there: they go to shared memory, unless its block has ended. Returns its group's token."""
    token = st.token[sm, k]
    n = token[L.TOKEN_ADDRESS]
    copy = st.copy_lanes[sm, n]
    slot = token[L.TOKEN_BLOCK] & 255
    if is_there(st, sm, token[L.TOKEN_BLOCK]):
        i, mask, reading = copy[L.COPY_PC], copy[L.COPY_MASK], copy[L.COPY_READING]
        source, target = copy[L.COPY_SOURCE : L.COPY_SOURCE + 32], copy[L.COPY_TARGET : L.COPY_TARGET + 32]
        copy_lanes(st, sm, i, mask, reading, slot * st.par[P.SHARED_STRIDE], source, target)
    give_row(st, sm, st.copy_lanes[sm], n, L.SM_COPY_FREE, L.COPY_NEXT)
    return token[L.TOKEN_AMOUNT]


@compiled
def copy_addresses(st, sm, w, i, wb, mask, size):
    """Sources of LDGSTS into st.address, targets in the block's memory into st.copy_targets. Returns the lanes that
    read, -1 if an address is not allowed."""
    address, target = st.address[sm], st.copy_targets[sm]
    row = row_offset(st.code[i, M.COL_A], wb)
    store64(address, 0, zero_extend(load(st.regs, row) + splat(st.code[i, M.COL_AUX2])))
    own_offsets(st, sm, w)
    if not check_shared(st, sm, i, w, mask, size):
        return np.int64(-1)
    store64(target, 0, load64(address, 0))
    store64(address, 0, addresses(st, i, wb, M.COL_B, st.code[i, M.COL_AUX5]))
    reading = mask & np.int64(predicate(st.code, i, M.COL_PS0, st.preds, 16 * w))
    parts = st.code[i, M.COL_AUX4] != 0
    allowed = check_parts(st, sm, i, w, reading, size) if parts else check_global(st, sm, i, w, reading, size)
    return reading if allowed else np.int64(-1)


@compiled
def count_copy(st, sm, i, mask, reading, parts, lines, sectors):
    """Counts a copy as Nsight Compute does; its sources have lost the bytes that become zero.

    Of copies past L1 it leaves out wavefronts and theoretical sectors if they are guarded. It counts wavefronts of
    those that may write zeros as of a store by all lanes, also where none of them reads, and of the .ZFILL form as of
    copies of both kinds. lines, sectors: that are read, 0 if none is. parts: some lane gets zeros behind what it reads.
    Returns (how many requests to L2 st.touched holds now, turns of the data stage of a copy through L1).
    """
    code, counts = st.code, st.counters[st.sm[sm, L.SM_CHUNK], i]
    size = np.int64(code[i, M.COL_AUX1] & 255)
    source, target, scratch = st.address[sm], st.copy_targets[sm], st.copy_targets[sm, 32:]
    line_bytes = st.par[P.BANKS] << st.par[P.BANK_SHIFT]
    counts[L.COUNT_REQUESTS] += lines > 0
    counts[L.COUNT_TAGS] += lines
    bypass = code[i, M.COL_AUX3] & M.MEM_BYPASS != 0
    zeros = mask if bypass and parts else mask & ~reading
    counts[L.COUNT_ZEROS] += zero_wavefronts(zeros, reading, size, line_bytes, bypass) - (reading == 0)
    if not bypass:
        counts[L.COUNT_SECTORS] += sectors
        counts[L.COUNT_SECTORS_IDEAL] += min(sectors, (popc(reading) * size + 31) // 32)
        wavefronts, ideal, turns = copy_wavefronts(source, target, mask, reading, size, line_bytes, scratch)
        counts[L.COUNT_SHARED_DATA] += turns
        counts[L.COUNT_SHARED_WAVEFRONTS] += wavefronts
        counts[L.COUNT_SHARED_IDEAL] += ideal
        return lines, turns
    wavefronts, moved, pairs, lanes = sector_pairs(source, target, reading, scratch)
    asked = wavefronts
    for n in range(asked):  # a sector whose halves go to two sectors comes twice
        st.touched[sm, n, 0], st.touched[sm, n, 1] = scratch[n] >> LINE_SHIFT, scratch[n] & 15
    counts[L.COUNT_SECTORS] += moved
    counts[L.COUNT_SECTORS_IDEAL] += (lanes * size + 31) // 32
    counts[L.COUNT_PAST_L1] += pairs
    if code[i, M.COL_GUARD] != 7:
        return asked, np.int64(0)
    if mask != reading:
        lanes = popc(last_to_target(target, mask))
    ideal = (lanes * size + line_bytes - 1) // line_bytes
    if code[i, M.COL_PS0] != 7:
        wavefronts, reads = np.int64(0), np.int64(0)
        if code[i, M.COL_AUX4] != 0:
            wavefronts, _, _, _ = sector_pairs(source, target, mask, scratch)
            ideal *= 2
            reads = mask
        also, _, _ = copy_wavefronts(source, target, mask, reads, size, line_bytes, scratch)
        wavefronts += also
    counts[L.COUNT_SHARED_WAVEFRONTS] += wavefronts
    counts[L.COUNT_SHARED_IDEAL] += ideal
    return asked, np.int64(0)


@compiled
def counts_alike(st, sm, i, mask, reading):
    """Return whether the lanes of a copy lie as those of the last one did, also in lines: what it counts is the same
    then, and is counted here. Else how they lie is noted, and what the counters are before it."""
    known, counts = st.pattern[st.sm[sm, L.SM_CHUNK], i], st.counters[st.sm[sm, L.SM_CHUNK], i]
    source, target, first = st.address[sm], st.copy_targets[sm], lowest_bit(mask)
    line = ms.LINE_BYTES - 1
    at, to = np.uint32(1 + (source[first] & line)), np.uint32(target[first] & line)
    sources, targets = apart(source, source[first]), apart(target, target[first])
    near = less_u64(load64(source, 0) - splat64(source[first] - _NEAR), splat64(2 * _NEAR))
    same = equal(sources, load(known, L.PATTERN_APART)) & equal(targets, load(known, L.PATTERN_TARGETS)) & near
    same_lanes = known[L.PATTERN_MASK] == np.uint32(mask) and known[L.PATTERN_READING] == np.uint32(reading)
    if same_lanes and known[L.PATTERN_FIRST] == at and known[L.PATTERN_TARGET] == to and ~same & np.uint32(mask) == 0:
        for k in range(L.COUNT_STALL):
            counts[k] += np.int64(known[L.PATTERN_COUNTS + k])
        return True
    known[L.PATTERN_FIRST], known[L.PATTERN_TARGET] = at if ~near & np.uint32(mask) == 0 else np.uint32(0), to
    known[L.PATTERN_MASK], known[L.PATTERN_READING] = mask, reading
    store(known, L.PATTERN_APART, sources, np.uint32(FULL_MASK))
    store(known, L.PATTERN_TARGETS, targets, np.uint32(FULL_MASK))
    for k in range(L.COUNT_STALL):
        known[L.PATTERN_COUNTS + k] = np.uint32(-counts[k])
    return False


@compiled
def copy_to_shared(st, sm, q, w, i, wb, mask, time):
    """LDGSTS: asynchronous copy of 4, 8 or 16 bytes a lane from global to shared memory.

    It moves its bytes when the replies are there, all at once; in a functional run here.
    """
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    reading = copy_addresses(st, sm, w, i, wb, mask, size)
    if reading < 0:
        return
    if st.par[P.CHECKS] & (CHECK_INIT | CHECK_RACE) and not watch_copy(st, sm, np.int64(i), np.int64(w), mask):
        return
    address = st.address[sm]
    if st.sm[sm, L.SM_LOG_ROW] != 0:
        log_addresses(st, sm, i, mask if st.sm[sm, L.SM_LOG] & AS_TRACER else reading)
    k = np.int64(0)
    if st.par[P.MODE] & L.BOOKS != 0:
        k = keep_copy(st, sm, w, i, mask, reading)
    else:
        base = st.warp[w, L.WARP_BLOCK] * st.par[P.SHARED_STRIDE]
        copy_lanes(st, sm, i, mask, reading, base, address, st.copy_targets[sm])
        if st.par[P.MODE] & L.KEEPS == 0 and counts_alike(st, sm, i, mask, reading):
            return
    parts = False
    if st.code[i, M.COL_AUX4] != 0:
        for lane in range(32):
            parts |= (reading >> lane) & 1 != 0 and address[lane] & (size - 1) != 0
            address[lane] &= ~(size - 1)
    there = time + st.par[P.SHARED_LATENCY]
    lines, sectors = coalesce(address, st.touched[sm], reading, size)
    lines, turns = count_copy(st, sm, i, mask, reading, parts, lines, sectors)
    if st.par[P.MODE] & L.BOOKS != 0:
        st.token[sm, k, L.TOKEN_TIME] = turns
    else:
        known, counts = st.pattern[st.sm[sm, L.SM_CHUNK], i], st.counters[st.sm[sm, L.SM_CHUNK], i]
        for n in range(L.COUNT_STALL):  # by how much it has changed them, for the next one
            known[L.PATTERN_COUNTS + n] += np.uint32(counts[n])
    if reading != 0:
        bypass = st.code[i, M.COL_AUX3] & M.MEM_BYPASS != 0
        for n in range(lines):
            st.touched[sm, n, 2] = words_of(st.touched[sm, n, 1])
        there = read_lines(st, sm, access(q, w, i, wb, reading, 0, time), lines, bypass, k)
    if st.par[P.MODE] & L.BOOKS != 0:
        event_at(st, sm, there, k)


@compiled_on_demand()
def async_access(st, sm, q, slot, w, i, wb, mask, time):
    """Executes one of these instructions for the lanes in `mask` and books its time."""
    if mask == 0:
        return
    op = st.code[i, M.COL_OP]
    if op == M.OP_LDGSTS:
        copy_to_shared(st, sm, q, w, i, wb, mask, time)
    elif op == M.OP_LDSM or op == M.OP_STSM:
        matrix_access(st, sm, q, w, i, wb, mask, time)
    elif op == M.OP_BULK_COPY:
        bulk_access(st, sm, w, i, wb, time)
    elif op == M.OP_PREFETCH:
        lane_addresses(st, sm, i, wb, mask)
        for lane in range(32):
            if find_allocation(st.starts, st.ends, st.address[sm, lane]) < 0:
                mask &= ~(1 << lane)
        lines, _ = coalesce(st.address[sm], st.touched[sm], mask, 1)
        if lines > 0:
            prefetch_lines(st, sm, access(q, w, i, wb, mask, 1, time), lines)
    elif op == M.OP_STAS:
        remote_store(st, sm, q, w, i, wb, mask, time)
    elif op == M.OP_NEXT_BLOCK:
        next_block(st, sm, w, i, wb, time)
    elif op == M.OP_SYNCS:
        lane_addresses(st, sm, i, wb, mask)
        own = own_lanes(st, sm, w, mask) if st.par[P.CLUSTER_BLOCKS] > 0 else np.int64(mask)
        others = mask & ~own  # whose mbarriers are other blocks'
        if others != 0 and find_remote(st, sm, i, w, others, np.int64(_BYTES)):
            a = access(q, w, i, wb, others, np.int64(_BYTES), time)
            send_store(st, sm, a, defer(st, sm, a, np.int64(-1)))
        if own != 0:
            barrier_object(st, sm, q, slot, w, i, wb, own, time)
    else:
        arrive_with_copies(st, sm, w, i, wb, mask, time)
