"""Memory instructions whose end is announced by something else than a scoreboard of their own: LDGSTS and its kind.

The values move at issue: a program that waits as it must sees the same as on the hardware, one that reads too early
has a race. What takes its time is the announcement, through L1 and L2 as a load's.
"""

import numpy as np

from gpusim.engine.rows.common import predicate, row_offset
from gpusim.engine.sm.access import access
from gpusim.engine.sm.bulk_copy import bulk_access
from gpusim.engine.sm.bulk_effect import land
from gpusim.engine.sm.cluster import names_other_block, own_offset, own_offsets
from gpusim.engine.sm.coalescer import coalesce
from gpusim.engine.sm.copy_cost import bypass_sectors, copy_wavefronts
from gpusim.engine.sm.flight import event_at, open_copies
from gpusim.engine.sm.lines import read_lines
from gpusim.engine.sm.matrix_load import four_words, matrix_access, put_line
from gpusim.engine.sm.mbarrier import arrive_with_copies, barrier_object, tell
from gpusim.engine.sm.remote_store import next_block, remote_arrive, remote_store
from gpusim.engine.sm.space import check_global, check_window, fail, find_allocation, lane_addresses
from gpusim.engine.state import layout as L
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled, compiled_on_demand
from gpusim.engine.state.log import log_addresses
from isa import microops as M


@compiled
def global_sources(st, sm, i, wb):
    """Byte address of every lane's source into st.address[sm]: scaled B, uniform base C and offset AUX5."""
    flags = st.code[i, M.COL_AUX3]
    shift = (flags >> M.MEM_SHIFT_BIT) & 15
    base = row_offset(st.code[i, M.COL_B], wb)
    uniform = np.int64(0)
    if flags & M.MEM_UNIFORM_BASE:
        u = row_offset(st.code[i, M.COL_C], wb)
        uniform = np.int64(st.regs[u])
        if flags & M.MEM_UNIFORM_WIDE:
            uniform |= np.int64(st.regs[u + 32]) << 32
    for lane in range(32):
        value = np.int64(st.regs[base + lane])
        if flags & M.MEM_WIDE_ADDRESS:
            value |= np.int64(st.regs[base + 32 + lane]) << 32
        st.address[sm, lane] = (value << shift) + uniform + np.int64(st.code[i, M.COL_AUX5])


@compiled
def shared_target(st, i, row, lane):
    """Shared address that a lane names as its target, which may carry the rank of its block."""
    return (np.int64(st.regs[row + lane]) + np.int64(st.code[i, M.COL_AUX2])) & 0xFFFFFFFF


@compiled
def check_parts(st, sm, i, w, mask, size):
    """As check_global where the sources' distances from multiples of `size` are the bytes at the end that become zero,
    which may lie outside of all memory."""
    for lane in range(32):
        if (mask >> lane) & 1:
            missing = st.address[sm, lane] & (size - 1)
            source = st.address[sm, lane] - missing
            k = find_allocation(st.starts, st.ends, source)
            if k < 0 or source > st.ends[k] - (size - missing):
                fail(st, sm, L.E_BOUNDS, i, w, lane, source, size - missing)
                return False
    return True


@compiled
def copy_part(st, sm, to, from_, count, size):
    """`count` bytes of global to shared memory, both at multiples of `size`, and then zeros up to `size`."""
    shared, memory = st.shared32[sm], st.memory32
    if count == 16:
        put_line(shared, to >> 2, four_words(memory, from_ >> 2))
        return
    for k in range(size >> 2):
        left = max(count - 4 * k, 0)
        word = memory[(from_ >> 2) + k] if left > 0 else np.uint32(0)
        shared[(to >> 2) + k] = word & np.uint32((1 << 8 * left) - 1) if left < 4 else word


@compiled
def copy_lanes(st, sm, w, i, mask, size, reading):
    """Bytes from global (st.address) to shared memory (st.copy_targets), or zeros for lanes that do not read.

    In the .ZFILL form the source's distance from a multiple of `size` is the number of bytes at the end that become
    zero. Afterwards st.address holds the aligned sources.
    """
    block = st.warp[w, L.W_BLOCK] * st.par[L.P_SHARED_STRIDE]
    zero_fill = st.code[i, M.COL_AUX4] != 0
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        to = block + own_offset(st, sm, w, st.copy_targets[sm, lane])
        source = st.address[sm, lane]
        count = np.int64(0)
        if (reading >> lane) & 1:
            missing = source & (size - 1) if zero_fill else np.int64(0)
            source -= missing
            count = size - missing
            st.address[sm, lane] = source
        copy_part(st, sm, to, source - st.par[L.P_MEMORY_BASE], count, size)


@compiled
def copy_to_shared(st, sm, q, w, i, wb, mask, time):
    """LDGSTS: asynchronous copy of 4, 8 or 16 bytes a lane from global to shared memory."""
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    k = open_copies(st, sm, w)
    address = st.address[sm]
    target = st.copy_targets[sm]
    row = row_offset(st.code[i, M.COL_A], wb)
    for lane in range(32):
        target[lane] = shared_target(st, i, row, lane)
        address[lane] = target[lane]
    own_offsets(st, sm, w)
    if not check_window(
        st, sm, i, w, mask, size, st.par[L.P_SHARED_FIRST], st.par[L.P_SHARED_BYTES], L.E_SHARED_BOUNDS
    ):
        return
    global_sources(st, sm, i, wb)
    reading = mask & np.int64(predicate(st.code, i, M.COL_PS0, st.preds, 16 * w))
    if st.code[i, M.COL_AUX4] != 0:
        if not check_parts(st, sm, i, w, reading, size):
            return
    elif not check_global(st, sm, i, w, reading, size):
        return
    copy_lanes(st, sm, w, i, mask, size, reading)
    if st.sm[sm, L.S_LOG_ROW] != 0:
        log_addresses(st, sm, i, reading)
    token = st.token[sm, k]
    if reading == 0:
        token[L.T_TIME] = max(token[L.T_TIME], time + st.par[L.P_SHARED_LATENCY])
        return
    bypass = st.code[i, M.COL_AUX3] & M.MEM_BYPASS != 0
    lines, sectors = coalesce(st.address[sm], st.touched[sm], reading, size)
    counts = st.counters[st.sm[sm, L.S_CHUNK], i]
    counts[L.N_REQUESTS] += 1
    counts[L.N_TAGS] += lines
    counts[L.N_SECTORS_IDEAL] += min(sectors, (popc(reading) * size + 31) // 32)
    if bypass:
        counts[L.N_SECTORS] += bypass_sectors(st.address[sm], target, reading)
    else:
        counts[L.N_SECTORS] += sectors
        banks, shift = st.par[L.P_BANKS], st.par[L.P_BANK_SHIFT]
        wavefronts, ideal = copy_wavefronts(st.address[sm], target, reading, size, banks, shift, target[32:])
        counts[L.N_SHARED_WAVEFRONTS] += wavefronts
        counts[L.N_SHARED_IDEAL] += ideal
    there = read_lines(st, sm, access(q, w, i, wb, mask, 0, time), lines, bypass, np.int64(k))
    token[L.T_TIME] = max(token[L.T_TIME], there)


@compiled
def copy_done(st, sm, k, now):
    """All replies to a group of copies are there. False if its part of known time is not over: it comes again then."""
    token = st.token[sm, k]
    if token[L.T_TIME] > now:
        token[L.T_LEFT] = 1
        event_at(st, sm, token[L.T_TIME], k)
        return False
    if token[L.T_BULK] > 0:
        land(st, sm, token[L.T_BULK] - 1, now)
    kind = token[L.T_KIND]
    if kind == L.TOKEN_COPY_ARRIVE or kind == L.TOKEN_COPY_BYTES or kind == L.TOKEN_REMOTE:
        tell(st, sm, k)
    return True


@compiled_on_demand()
def async_access(st, sm, q, w, i, wb, mask, time):
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
    elif op == M.OP_STAS:
        remote_store(st, sm, q, w, i, wb, mask, time)
    elif op == M.OP_NEXT_BLOCK:
        next_block(st, sm, w, i, wb, time)
    elif op == M.OP_SYNCS:
        lane_addresses(st, sm, i, wb, mask)
        if st.par[L.P_CLUSTER_BLOCKS] > 0 and names_other_block(st, sm, w, mask):
            remote_arrive(st, sm, q, w, i, wb, mask, time)
        else:
            barrier_object(st, sm, q, w, i, wb, mask, time)
    else:
        arrive_with_copies(st, sm, w, i, wb, mask, time)
