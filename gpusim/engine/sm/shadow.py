"""What is remembered about memory on request, to find reads of undefined values, data races and misused barriers.

Nothing here runs unless P_CHECKS asks for it: every caller tests that flag first. Nothing here changes a register, a
byte of memory or a time, so a checked run has the cycles and counts of an unchecked one.

Every byte of shared memory has three records: its last write, and two reads since. A record says who accessed it
(warp, lane), by which instruction, and at which of the warp's *epochs*; a new epoch begins whenever the warp
synchronises. Two accesses are ordered if the later one's warp (for lanes of one warp: the lane itself) has heard,
through barriers, of an epoch of the other one at least as late as the access: vector clocks, kept between the warps of
a block and between the lanes of a warp, the order that the PTX memory model calls happens-before. Two reads suffice for
the reason that FastTrack gives (Flanagan and Freund, "FastTrack: efficient and precise dynamic race detection", PLDI
2009): a read that is ordered before a newer one need not be kept.

What orders: BAR between the warps that take part; WARPSYNC between the lanes it brings together, and NOP, which is what
ptxas leaves of `__syncwarp` where the lanes run together anyway; compare-and-swap and exchange, of which locks are
made. Lanes of one warp that merely run together are not ordered (CUDA programming guide, "Independent thread
scheduling").
"""

import numpy as np
from numba.core import types

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.access import access
from gpusim.engine.sm.space import fail
from gpusim.engine.state import layout as L
from gpusim.engine.state.bits import lowest_bit, popc
from gpusim.engine.state.jit import compiled, compiled_on_demand
from isa import microops as M

CHECK_INIT, CHECK_RACE, CHECK_SYNC = 1, 2, 4

# --- a record: kind, lane, warp of the block, instruction, epoch; 0 where there was no access -------------------------
NO_ACCESS, READ, WRITE, ATOMIC = range(4)
LANE_BIT, WARP_BIT, PC_BIT, EPOCH_BIT = 2, 7, 17, 37
LAST_EPOCH = (1 << 26) - 1
LAST_WRITE, FIRST_READ, SECOND_READ, RECORDS = range(4)

# --- rows of lane_clock behind those of the 32 lanes, and of warp_clock behind those of the warps ---------------------
LANE_LOCK, LANE_JOIN, LANE_ROWS = 32, 33, 34
NAMED_BARRIERS = 16
WARP_LOCK = NAMED_BARRIERS  # row P_WARPS + WARP_LOCK: what the last owner of a lock had heard of
WARP_ROWS = NAMED_BARRIERS + 1


@compiled
def epoch_of(st, w):
    """The warp's epoch, from 1 on."""
    return min(st.warp[w, L.W_EPOCH] + 1, np.int64(LAST_EPOCH))


@compiled
def other_thread(record):
    """Thread number in the block of a record."""
    return ((record >> WARP_BIT) & 1023) * 32 + ((record >> LANE_BIT) & 31)


@compiled
def ordered(st, sm, w, lane, record):
    """Whether the access of a record happened before whatever `lane` of warp w does now."""
    warp = (record >> WARP_BIT) & 1023
    other = (record >> LANE_BIT) & 31
    epoch = record >> EPOCH_BIT
    mine = st.warp[w, L.W_INDEX]
    if warp == mine:
        return other == lane or epoch <= st.lane_clock[w, lane, other]
    return epoch <= st.warp_clock[sm, st.warp[w, L.W_BLOCK], mine, warp]


@compiled
def byte_of(st, base, address, lane, src, at):
    """The byte that a store of `lane` writes at `at`, counted from its address."""
    word = st.regs[src + 32 * (at >> 2) + lane]
    return (word >> np.uint32(8 * (at & 3))) & np.uint32(0xFF)


@compiled
def shared_base(st, w):
    """First byte of the shared memory of a warp's block."""
    return st.warp[w, L.W_BLOCK] * st.par[L.P_SHARED_STRIDE]


@compiled
def changes_value(st, sm, a, lane, byte, record):
    """Whether a store over another thread's unordered write leaves another value than that thread wrote."""
    address = st.address[sm]
    base = shared_base(st, a.warp)
    src = row_offset(st.code[a.pc, M.COL_B], a.base)
    new = byte_of(st, base, address, lane, src, byte)
    other = (record >> LANE_BIT) & 31
    at = address[lane] + byte
    own = (a.mask >> other) & 1 and (record >> PC_BIT) & 0xFFFFF == a.pc
    if own and address[other] <= at < address[other] + a.size:
        return new != byte_of(st, base, address, other, src, at - address[other])  # written by the same instruction
    return new != np.uint32(st.shared8[sm, base + at])


@compiled
def conflict(st, sm, w, lane, records, kind):
    """The unordered access that an access of `kind` to a byte races with, except for writes over writes; or 0."""
    last = records[LAST_WRITE]
    if last != 0 and kind != WRITE:
        both_atomic = kind == ATOMIC and last & 3 == ATOMIC
        if not both_atomic and not ordered(st, sm, w, lane, last):
            return last
    if kind == READ:
        return np.int64(0)
    for k in range(FIRST_READ, RECORDS):
        read = records[k]
        if read != 0 and not (kind == ATOMIC and read & 3 == ATOMIC) and not ordered(st, sm, w, lane, read):
            return read
    return np.int64(0)


@compiled
def remember_read(st, sm, w, lane, records, record):
    """Keeps a read in place of one that happened before it; of three unordered ones, two of different warps."""
    for k in range(FIRST_READ, RECORDS):
        if records[k] == 0 or ordered(st, sm, w, lane, records[k]):
            records[k] = record
            return
    first = (records[FIRST_READ] >> WARP_BIT) & 1023
    second = (records[SECOND_READ] >> WARP_BIT) & 1023
    if first == second and (record >> WARP_BIT) & 1023 != first:
        records[SECOND_READ] = record


@compiled
def report_race(st, sm, i, w, lane, address, size, record):
    """Ends the run; the record of the other access goes with the error."""
    if st.sm[sm, L.S_ERROR] == 0:
        st.sm[sm, L.S_ERROR_OTHER] = record
    fail(st, sm, L.E_RACE, i, w, lane, address, size)


@compiled
def watch_byte(st, sm, a, lane, byte, kind, spins, record):
    """Checks one byte of a shared-memory access and remembers it. False if it is an error."""
    w = a.warp
    address = st.address[sm]
    records = st.shadow[sm, shared_base(st, w) + address[lane] + byte]
    checks = st.par[L.P_CHECKS]
    last = records[LAST_WRITE]
    if checks & CHECK_RACE:
        other = conflict(st, sm, w, lane, records, kind)
        over = other == 0 and kind == WRITE and last != 0 and not ordered(st, sm, w, lane, last)
        if over and (last & 3 == ATOMIC or changes_value(st, sm, a, lane, byte, last)):
            other = last
        if other != 0:
            report_race(st, sm, a.pc, w, lane, address[lane], a.size, other)
            return False
    others_write = st.par[L.P_CLUSTER_BLOCKS] > 0  # of which nothing is remembered
    if checks & CHECK_INIT and last == 0 and kind != WRITE and not others_write:
        fail(st, sm, L.E_UNINITIALIZED, a.pc, w, lane, address[lane], a.size)
        return False
    if kind == READ or spins:
        if checks & CHECK_RACE:
            remember_read(st, sm, w, lane, records, record)
        return True
    if kind == ATOMIC and checks & CHECK_RACE:
        remember_read(st, sm, w, lane, records, record)
    elif kind == WRITE:
        records[FIRST_READ] = 0
        records[SECOND_READ] = 0
    records[LAST_WRITE] = record
    return True


@compiled_on_demand(types.boolean)
def watch_shared(st, sm, i, w, wb, mask, size):
    """Looks at a load, store or atomic on shared memory before it takes effect. False if it is an error.

    Expects byte addresses within the block's shared memory in st.address[sm].
    """
    code = st.code
    op = code[i, M.COL_OP]
    spins = op == M.OP_LOAD and code[i, M.COL_SPIN] != 0  # the reading half of an atomic that is made of a loop
    kind = np.int64(ATOMIC)
    if op == M.OP_LOAD and not spins:
        kind = np.int64(READ)
    elif op == M.OP_STORE:
        kind = np.int64(WRITE)
    operation = code[i, M.COL_AUX4] >> 8
    locks = op == M.OP_ATOM and (operation == M.ATOMIC_CAS or operation == M.ATOMIC_EXCH)
    races = st.par[L.P_CHECKS] & CHECK_RACE != 0
    if races and locks:
        take_lock(st, sm, w, mask)
    a = access(0, w, i, wb, mask, size, 0)
    warp = np.int64(st.warp[w, L.W_INDEX])
    record = kind | (warp << WARP_BIT) | (np.int64(i) << PC_BIT) | (epoch_of(st, w) << EPOCH_BIT)
    for lane in range(32):
        if (mask >> lane) & 1:
            mine = record | (np.int64(lane) << LANE_BIT)
            for byte in range(size):
                if not watch_byte(st, sm, a, lane, np.int64(byte), kind, spins, mine):
                    return False
    if races and locks:
        release_lock(st, sm, w, mask)
    return True


@compiled_on_demand(types.boolean)
def watch_local(st, sm, i, w, mask, size):
    """As watch_shared for thread-private memory, with byte addresses in the interleaved array in st.address[sm]."""
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
                    start = np.int64(w) * st.par[L.P_LOCAL_BYTES] * 32
                    own = st.address[sm, lane] - start
                    fail(st, sm, L.E_UNINITIALIZED, i, w, lane, own // stride * 4 | (own & 3), size)
                    return False
    return True


@compiled_on_demand(types.boolean)
def watch_global(st, sm, i, w, mask, size):
    """As watch_shared for device memory that was allocated and never written."""
    op = st.code[i, M.COL_OP]
    exchange = op == M.OP_ATOM and st.code[i, M.COL_AUX4] >> 8 == M.ATOMIC_EXCH
    base = st.par[L.P_MEMORY_BASE]
    for lane in range(32):
        first = st.address[sm, lane] - base
        if (mask >> lane) & 1 and 0 <= first <= st.unknown.size - size:  # memory of the host has contents
            for byte in range(first, first + size):
                if op == M.OP_STORE or exchange:
                    st.unknown[byte] = 0
                elif st.unknown[byte] != 0:
                    fail(st, sm, L.E_UNINITIALIZED, i, w, lane, st.address[sm, lane], size)
                    return False
    return True


# --- clocks -----------------------------------------------------------------------------------------------------------
@compiled
def sync_lanes(st, w, mask):
    """The lanes in `mask` have heard of everything that any of them has done or heard of."""
    clock = st.lane_clock[w]
    now = epoch_of(st, w)
    for other in range(32):
        latest = np.int64(0)
        for lane in range(32):
            if (mask >> lane) & 1:
                latest = max(latest, clock[lane, other])
        if (mask >> other) & 1:
            latest = now
        clock[LANE_JOIN, other] = latest
    for lane in range(32):
        if (mask >> lane) & 1:
            for other in range(32):
                clock[lane, other] = clock[LANE_JOIN, other]
    st.warp[w, L.W_EPOCH] += 1


@compiled
def add_to(st, sm, w, row):
    """What warp w has done and heard of goes to a row of its block's warp clocks, and a new epoch begins."""
    clock = st.warp_clock[sm, st.warp[w, L.W_BLOCK]]
    mine = st.warp[w, L.W_INDEX]
    for other in range(clock.shape[1]):
        clock[row, other] = max(clock[row, other], clock[mine, other])
    clock[row, mine] = epoch_of(st, w)
    st.warp[w, L.W_EPOCH] += 1


@compiled
def hear_of(st, sm, w, row):
    """Warp w has heard of everything in a row of its block's warp clocks."""
    clock = st.warp_clock[sm, st.warp[w, L.W_BLOCK]]
    mine = st.warp[w, L.W_INDEX]
    for other in range(clock.shape[1]):
        clock[mine, other] = max(clock[mine, other], clock[row, other])


@compiled
def arrive_at_barrier(st, sm, w, number):
    """Lanes of warp w arrive at a barrier of the block."""
    add_to(st, sm, w, st.par[L.P_WARPS] + number)


@compiled
def pass_barrier(st, sm, w, number):
    """A barrier of the block opens for the lanes of warp w that wait at it; called before they are released."""
    lanes = np.int64(0)
    if st.warp[w, L.W_DEFERRED] == number + 1:
        lanes = st.warp[w, L.W_ACTIVE]
    for k in range(st.split[w, L.D_COUNT]):
        if st.split[w, L.D_STATE + k] == L.SPLIT_AT_BARRIER + number:
            lanes |= st.split[w, L.D_MASK + k]
    if lanes != 0:
        hear_of(st, sm, w, st.par[L.P_WARPS] + number)
        sync_lanes(st, w, lanes)


@compiled
def close_barrier(st, sm, block, number):
    """The barrier's next use begins without memory of this one."""
    st.warp_clock[sm, block, st.par[L.P_WARPS] + number, :] = 0


@compiled
def take_lock(st, sm, w, mask):
    """The executing lanes have heard of whatever was done before a compare-and-swap or exchange in their block."""
    hear_of(st, sm, w, st.par[L.P_WARPS] + WARP_LOCK)
    clock = st.lane_clock[w]
    for lane in range(32):
        if (mask >> lane) & 1:
            for other in range(32):
                clock[lane, other] = max(clock[lane, other], clock[LANE_LOCK, other])


@compiled
def release_lock(st, sm, w, mask):
    """Whoever takes a lock later has heard of what the executing lanes have done."""
    clock = st.lane_clock[w]
    now = epoch_of(st, w)
    for other in range(32):
        latest = clock[LANE_LOCK, other]
        for lane in range(32):
            if (mask >> lane) & 1:
                latest = max(latest, clock[lane, other])
        clock[LANE_LOCK, other] = now if (mask >> other) & 1 else latest
    add_to(st, sm, w, st.par[L.P_WARPS] + WARP_LOCK)


# --- a block or a warp begins -----------------------------------------------------------------------------------------
@compiled
def forget_block(st, sm, block):
    """A new block begins in a block slot."""
    checks = st.par[L.P_CHECKS]
    stride = st.par[L.P_SHARED_STRIDE]
    if checks & (CHECK_INIT | CHECK_RACE):
        st.shadow[sm, block * stride : (block + 1) * stride, :] = 0
    if checks & CHECK_RACE:
        st.warp_clock[sm, block, :, :] = 0


@compiled
def forget_warp(st, w):
    """A new warp begins in a warp slot."""
    size = st.par[L.P_LOCAL_BYTES] * 32
    if st.par[L.P_CHECKS] & CHECK_RACE:
        st.lane_clock[w, :, :] = 0
    if st.par[L.P_CHECKS] & CHECK_INIT:
        st.local_known[w * size : (w + 1) * size] = 0


# --- use of barriers --------------------------------------------------------------------------------------------------
@compiled
def mask_is_sound(st, sm, i, w, mask, a):
    """Whether the lane masks in the row at `a` name the lanes in `mask` that use them, and none that has exited."""
    width = 32
    threads = min(st.par[L.P_THREADS] - width * st.warp[w, L.W_INDEX], width)
    gone = ((np.int64(1) << threads) - 1) & ~st.warp[w, L.W_ALIVE]
    for lane in range(32):
        if (mask >> lane) & 1:
            named = np.int64(st.regs[a + lane])
            if (named >> lane) & 1 == 0:
                fail(st, sm, L.E_NOT_IN_MASK, i, w, lane, named, 32)
                return False
            if named & gone != 0:
                fail(st, sm, L.E_EXITED_IN_MASK, i, w, lane, named, lowest_bit(named & gone))
                return False
    return True


@compiled
def barrier_is_sound(st, sm, i, w, mask, number, threads):
    """Whether all lanes of the warp that are left arrive at a barrier together, with a count that it can have."""
    missing = st.warp[w, L.W_ALIVE] & ~np.int64(mask)
    if missing != 0:
        fail(st, sm, L.E_BARRIER_DIVERGENT, i, w, lowest_bit(missing), number, popc(mask))
        return False
    if threads < 0 or threads % 32 != 0 or threads > 32 * st.par[L.P_WARPS]:
        fail(st, sm, L.E_BARRIER_COUNT, i, w, lowest_bit(np.int64(mask)), number, threads)
        return False
    return True
