"""Records of memory accesses, kept on request to find reads of undefined values, data races and misused barriers.

Nothing here runs unless P.CHECKS asks for it: every caller tests that flag first. Nothing here changes a register, a
byte of memory or a time, so a checked run has the cycles and counts of an unchecked one.

Every byte of shared memory has three records: its last write, and two reads since. `shadow_clocks` says what a record
is and which accesses are ordered, `shadow_copies` what asynchronous copies and mbarriers add. Two reads suffice for the
reason that FastTrack gives (Flanagan and Freund, "FastTrack: efficient and precise dynamic race detection", PLDI 2009):
a read that is ordered before a newer one need not be kept.
"""

import numpy as np
from numba.core import types

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm import shadow_clocks as sc
from gpusim.engine.sm.space import access, fail
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit, popc
from isa import microops as M


@compiled
def byte_of(st, lane, src, at):
    """The byte that a store of `lane` writes at `at`, counted from its address."""
    word = st.regs[src + 32 * (at >> 2) + lane]
    return (word >> np.uint32(8 * (at & 3))) & np.uint32(0xFF)


@compiled
def shared_base(st, w):
    """First byte of the shared memory of a warp's block."""
    return st.warp[w, L.WARP_BLOCK] * st.par[P.SHARED_STRIDE]


@compiled
def changes_value(st, sm, a, lane, byte, record):
    """Return whether a store over another thread's unordered write leaves another value than that thread wrote."""
    address = st.address[sm]
    src = row_offset(st.code[a.pc, M.COL_B], a.base)
    new = byte_of(st, lane, src, byte)
    other = (record >> sc.LANE_BIT) & 31
    at = address[lane] + byte
    own = (a.mask >> other) & 1 and (record >> sc.PC_BIT) & 0xFFFFF == a.pc
    if own and address[other] <= at < address[other] + a.size:
        return new != byte_of(st, other, src, at - address[other])  # written by the same instruction
    return new != np.uint32(st.shared8[sm, shared_base(st, a.warp) + at])


@compiled
def excludes(kind, before):
    """Return True if an access and the write or atomic before it must be ordered. Writes over writes are judged by
    value, and copies over copies are let be."""
    if kind >= sc.COPY or before >= sc.COPY:
        return kind < sc.COPY or before < sc.COPY
    return before == sc.ATOMIC if kind == sc.WRITE else kind != sc.ATOMIC or before != sc.ATOMIC


@compiled
def conflict(st, sm, w, lane, records, kind):
    """The unordered access that an access of `kind` to a byte races with, except for writes over writes; or 0."""
    last = records[sc.LAST_WRITE]
    if last != 0 and excludes(kind, last & sc.KINDS) and not sc.ordered(st, sm, w, lane, last):
        return last
    if kind == sc.READ:
        return np.int64(0)
    for k in range(sc.FIRST_READ, sc.RECORDS):
        read = records[k]
        both_atomic = kind == sc.ATOMIC and read & sc.KINDS == sc.ATOMIC
        if read != 0 and not both_atomic and not sc.ordered(st, sm, w, lane, read):
            return read
    return np.int64(0)


@compiled
def remember_read(st, sm, w, lane, records, record):
    """Keeps a read in place of one that happened before it; of three unordered ones, two of different warps."""
    for k in range(sc.FIRST_READ, sc.RECORDS):
        if records[k] == 0 or sc.ordered(st, sm, w, lane, records[k]):
            records[k] = record
            return
    first = (records[sc.FIRST_READ] >> sc.WARP_BIT) & 1023
    second = (records[sc.SECOND_READ] >> sc.WARP_BIT) & 1023
    if first == second and (record >> sc.WARP_BIT) & 1023 != first:
        records[sc.SECOND_READ] = record


@compiled
def watch_byte(st, sm, a, lane, start, byte, kind, spins, record):
    """Checks one byte of a shared-memory access that begins at `start` and remembers it. False if it is an error."""
    w = a.warp
    records = st.shadow[sm, shared_base(st, w) + start + byte]
    checks = st.par[P.CHECKS]
    last = records[sc.LAST_WRITE]
    if checks & sc.CHECK_RACE:
        other = conflict(st, sm, w, lane, records, kind)
        over = other == 0 and kind == sc.WRITE and last & sc.KINDS == sc.WRITE and st.code[a.pc, M.COL_OP] == M.OP_STORE
        if over and not sc.ordered(st, sm, w, lane, last) and changes_value(st, sm, a, lane, byte, last):
            other = last
        if other != 0:
            if st.sm[sm, L.SM_ERROR] == 0:
                st.sm[sm, L.SM_ERROR_OTHER] = other
            fail(st, sm, L.ERROR_RACE, a.pc, w, lane, start, a.size)
            return False
    others_write = st.par[P.CLUSTER_BLOCKS] > 0  # of which nothing is remembered
    if checks & sc.CHECK_INIT and last == 0 and kind != sc.WRITE and kind < sc.COPY and not others_write:
        fail(st, sm, L.ERROR_UNINITIALIZED, a.pc, w, lane, start, a.size)
        return False
    reads = kind == sc.READ or spins
    if reads or kind == sc.ATOMIC:
        if checks & sc.CHECK_RACE:
            remember_read(st, sm, w, lane, records, record)
    else:
        records[sc.FIRST_READ] = records[sc.SECOND_READ] = 0
    if not reads:
        records[sc.LAST_WRITE] = record
    return True


@compiled_on_demand(types.boolean)
def watch_shared(st, sm, i, w, wb, mask, size):
    """Looks at a load, store or atomic on shared memory before it takes effect. False if it is an error.

    Expects byte addresses within the block's shared memory in st.address[sm].
    """
    code, op = st.code, st.code[i, M.COL_OP]
    spins = op == M.OP_LOAD and code[i, M.COL_SPIN] != 0  # the reading half of an atomic that is made of a loop
    kind = np.int64(sc.ATOMIC)
    if op == M.OP_LOAD and not spins:
        kind = np.int64(sc.READ)
    elif op == M.OP_STORE:
        kind = np.int64(sc.WRITE)
    operation = code[i, M.COL_AUX4] >> 8
    locks = op == M.OP_ATOM and (operation == M.ATOMIC_CAS or operation == M.ATOMIC_EXCH)
    races = st.par[P.CHECKS] & sc.CHECK_RACE != 0
    if races and locks:  # whoever takes a lock has heard of whatever was done before in the block
        sc.hear_of(st, sm, w, mask, sc.shared_row(st, sc.WARP_LOCK))
        sc.tell_lanes(st, w, mask, sc.LANE_LOCK)
    a = access(0, w, i, wb, mask, size, 0)
    for lane in range(32):
        # Code for tensor memory keeps account in the system's part of shared memory, and orders that by itself.
        if (mask >> lane) & 1 and (st.par[P.TMEM] == 0 or st.address[sm, lane] >= 0x400):
            mine = sc.record_of(st, w, i, kind, lane, sc.epoch_of(st, w))
            for byte in range(size):
                if not watch_byte(st, sm, a, lane, st.address[sm, lane], np.int64(byte), kind, spins, mine):
                    return False
    if races and locks:  # whoever takes it later has heard of what the executing lanes have done
        sc.publish(st, sm, w, mask, sc.shared_row(st, sc.WARP_LOCK))
        clock = st.lane_clock[w]
        for column in range(sc.LANE_COLUMNS):
            clock[sc.LANE_LOCK, column] = max(clock[sc.LANE_LOCK, column], clock[sc.LANE_JOIN, column])
    return True


@compiled_on_demand(types.boolean)
def watch_local(st, sm, i, w, mask, size):
    """Check loads of thread-private memory for undefined bytes; st.address[sm] are places in the interleaved array."""
    store = st.code[i, M.COL_OP] == M.OP_STORE
    known = st.local_known
    stride = 4 * 32
    for lane in range(32):
        if (mask >> lane) & 1:
            for byte in range(size):
                at = st.address[sm, lane] + stride * (byte >> 2) + (byte & 3)
                if store:
                    known[at] = 1
                elif known[at] == 0:
                    start = np.int64(w) * st.par[P.LOCAL_BYTES] * 32
                    own = st.address[sm, lane] - start
                    fail(st, sm, L.ERROR_UNINITIALIZED, i, w, lane, own // stride * 4 | (own & 3), size)
                    return False
    return True


@compiled_on_demand(types.boolean)
def watch_global(st, sm, i, w, mask, size):
    """Check that device memory was written between its allocation and a read. False if that is an error."""
    op = st.code[i, M.COL_OP]
    exchange = op == M.OP_ATOM and st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_EXCH
    base = st.par[P.MEMORY_BASE]
    for lane in range(32):
        first = st.address[sm, lane] - base
        if (mask >> lane) & 1 and 0 <= first <= st.unknown.size - size:  # memory of the host has contents
            for byte in range(first, first + size):
                if op == M.OP_STORE or exchange:
                    st.unknown[byte] = 0
                elif st.unknown[byte] != 0:
                    fail(st, sm, L.ERROR_UNINITIALIZED, i, w, lane, st.address[sm, lane], size)
                    return False
    return True


# --- a block or a warp begins -----------------------------------------------------------------------------------------
@compiled
def forget_block(st, sm, block):
    """A new block begins in a block slot."""
    checks = st.par[P.CHECKS]
    stride = st.par[P.SHARED_STRIDE]
    if checks & (sc.CHECK_INIT | sc.CHECK_RACE):
        st.shadow[sm, block * stride : (block + 1) * stride, :] = 0
    if checks & sc.CHECK_RACE:
        st.warp_clock[sm, block, : sc.shared_row(st, sc.WARP_ROWS)] = 0
        st.copies_seen[sm, block, :, :] = 0


@compiled
def forget_warp(st, w):
    """A new warp begins in a warp slot."""
    size = st.par[P.LOCAL_BYTES] * 32
    if st.par[P.CHECKS] & sc.CHECK_RACE:
        st.lane_clock[w, :, :] = 0
    if st.par[P.CHECKS] & sc.CHECK_INIT:
        st.local_known[w * size : (w + 1) * size] = 0


# --- use of barriers --------------------------------------------------------------------------------------------------
@compiled
def mask_is_sound(st, sm, i, w, mask, a):
    """Return True if the lane masks in the row at `a`, of the lanes in `mask`, name no lane that has exited."""
    gone = sc.lanes_of(st, w) & ~st.warp[w, L.WARP_ALIVE]
    for lane in range(32):
        if (mask >> lane) & 1:
            named = np.int64(st.regs[a + lane])
            if named & gone != 0:
                fail(st, sm, L.ERROR_EXITED_IN_MASK, i, w, lane, named, lowest_bit(named & gone))
                return False
    return True


@compiled
def barrier_is_sound(st, sm, i, w, mask, number, threads):
    """Return True if all remaining lanes of the warp arrive at a barrier together, with a count that it can have."""
    missing = st.warp[w, L.WARP_ALIVE] & ~np.int64(mask)
    if missing != 0:
        fail(st, sm, L.ERROR_BARRIER_DIVERGENT, i, w, lowest_bit(missing), number, popc(mask))
        return False
    if threads < 0 or threads % 32 != 0 or threads > 32 * st.par[P.WARPS]:
        fail(st, sm, L.ERROR_BARRIER_COUNT, i, w, lowest_bit(np.int64(mask)), number, threads)
        return False
    return True
