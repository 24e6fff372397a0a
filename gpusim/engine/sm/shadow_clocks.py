"""Who has heard of what: the records that `shadow` keeps of accesses to shared memory, and the clocks that order them.

A record says who accessed a byte (warp, lane), by which instruction, and at which of the warp's *epochs*; a new epoch
begins whenever the warp synchronises. Two accesses are ordered if the later one's warp (for lanes of one warp: the lane
itself) has heard, through barriers, of an epoch of the other one at least as late as the access: vector clocks, kept
between the warps of a block and between the lanes of a warp, the order that the PTX memory model calls happens-before.

What an asynchronous copy writes is there for whoever has heard that the copy is over. So a clock of a block's warps has
further columns, which barriers hand on as they do epochs: for each warp how many groups of its copies are over, and for
each mbarrier how many phases are. See `shadow_copies` for who writes them.

What orders: BAR between the warps that take part; the barrier of a cluster; an mbarrier, between who has arrived in a
phase and who has seen its end; WARPSYNC between the lanes it brings together, and NOP, which is what ptxas leaves of
`__syncwarp` where the lanes run together anyway; compare-and-swap and exchange, of which locks are made. Lanes of one
warp that merely run together are not ordered (CUDA programming guide, "Independent thread scheduling").
"""

import numpy as np

from gpusim.engine.state import L, P, compiled, compiled_on_demand
from isa import microops as M

CHECK_INIT, CHECK_RACE, CHECK_SYNC = 1, 2, 4

# --- a record: kind, lane, warp of the block, instruction, epoch; 0 where there was no access -------------------------
NO_ACCESS, READ, WRITE, ATOMIC = range(4)
COPY = 4  # a write by LDGSTS, with the number of the copy's group for an epoch
BULK = 5  # a write by a bulk copy, with the mbarrier that hears of it and the number of its phase
KINDS = 7
LANE_BIT, WARP_BIT, PC_BIT, EPOCH_BIT = 3, 8, 18, 38
LAST_EPOCH = (1 << 25) - 1
MBARRIER_BITS = 6
LAST_WRITE, FIRST_READ, SECOND_READ, RECORDS = range(4)

# --- rows of lane_clock behind those of the 32 lanes, and of warp_clock behind those of the warps ---------------------
LANE_LOCK, LANE_JOIN, LANE_ROWS = 32, 33, 34
OWN_COPIES, LANE_COLUMNS = 32, 33  # groups of the warp's own copies of which the lane knows that they are over
NAMED_BARRIERS = 16
WARP_LOCK = NAMED_BARRIERS  # row P.WARPS + WARP_LOCK: what the last owner of a lock had heard of
WARP_CLUSTER = WARP_LOCK + 1  # what those had heard of that have arrived at the barrier of the cluster
WARP_ROWS = WARP_CLUSTER + 1  # behind them two for each mbarrier, see `shadow_copies`


@compiled
def epoch_of(st, w):
    """The warp's epoch, from 1 on."""
    return min(st.warp[w, L.WARP_EPOCH] + 1, np.int64(LAST_EPOCH))


@compiled
def record_of(st, w, i, kind, lane, epoch):
    """What is remembered of an access."""
    last = np.int64(LAST_EPOCH)  # those behind it are taken for ordered sooner than they are
    of_warp = np.int64(kind) | np.int64(st.warp[w, L.WARP_INDEX]) << WARP_BIT | np.int64(i) << PC_BIT
    return of_warp | np.int64(lane) << LANE_BIT | min(np.int64(epoch), last) << EPOCH_BIT


@compiled
def ordered(st, sm, w, lane, record):
    """Whether the access of a record, or the copy, was over before whatever `lane` of warp w does now."""
    warp = (record >> WARP_BIT) & 1023
    other = (record >> LANE_BIT) & 31
    epoch = record >> EPOCH_BIT
    kind = record & KINDS
    mine = st.warp[w, L.WARP_INDEX]
    known = st.warp_clock[sm, st.warp[w, L.WARP_BLOCK], mine]
    if kind == BULK:
        mbarrier = epoch & ((1 << MBARRIER_BITS) - 1)
        return epoch >> MBARRIER_BITS < known[2 * st.par[P.WARPS] + mbarrier]
    if kind == COPY:
        if warp == mine and other != lane:
            return epoch <= st.lane_clock[w, lane, OWN_COPIES]
        return epoch <= known[st.par[P.WARPS] + warp]
    if warp == mine:
        return other == lane or epoch <= st.lane_clock[w, lane, other]
    return epoch <= known[warp]


@compiled
def own_copies(st, sm, w):
    """How many groups of its own copies warp w knows to be over."""
    mine = st.warp[w, L.WARP_INDEX]
    return st.warp_clock[sm, st.warp[w, L.WARP_BLOCK], mine, st.par[P.WARPS] + mine]


@compiled
def sync_lanes(st, sm, w, mask):
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
            clock[lane, OWN_COPIES] = own_copies(st, sm, w)
    st.warp[w, L.WARP_EPOCH] += 1


@compiled
def add_to(st, sm, w, row):
    """What warp w has done and heard of goes to a row of its block's warp clocks, and a new epoch begins."""
    clock = st.warp_clock[sm, st.warp[w, L.WARP_BLOCK]]
    mine = st.warp[w, L.WARP_INDEX]
    for other in range(clock.shape[1]):
        clock[row, other] = max(clock[row, other], clock[mine, other])
    clock[row, mine] = epoch_of(st, w)
    st.warp[w, L.WARP_EPOCH] += 1


@compiled
def hear_of(st, sm, w, row):
    """Warp w has heard of everything in a row of its block's warp clocks."""
    clock = st.warp_clock[sm, st.warp[w, L.WARP_BLOCK]]
    mine = st.warp[w, L.WARP_INDEX]
    for other in range(clock.shape[1]):
        clock[mine, other] = max(clock[mine, other], clock[row, other])


@compiled
def arrive_at_barrier(st, sm, w, number):
    """Lanes of warp w arrive at a barrier of the block."""
    add_to(st, sm, w, st.par[P.WARPS] + number)


@compiled
def pass_barrier(st, sm, w, number):
    """A barrier of the block opens for the lanes of warp w that wait at it; called before they are released."""
    lanes = np.int64(0)
    if st.warp[w, L.WARP_DEFERRED] == number + 1:
        lanes = st.warp[w, L.WARP_ACTIVE]
    lanes |= st.split[w, L.SPLIT_HELD + number]
    if lanes != 0:
        hear_of(st, sm, w, st.par[P.WARPS] + number)
        sync_lanes(st, sm, w, lanes)


@compiled
def close_barrier(st, sm, block, number):
    """The barrier's next use begins without memory of this one."""
    st.warp_clock[sm, block, st.par[P.WARPS] + number, :] = 0


@compiled
def take_lock(st, sm, w, mask):
    """The executing lanes have heard of whatever was done before a compare-and-swap or exchange in their block."""
    hear_of(st, sm, w, st.par[P.WARPS] + WARP_LOCK)
    clock = st.lane_clock[w]
    for lane in range(32):
        if (mask >> lane) & 1:
            for other in range(32):
                clock[lane, other] = max(clock[lane, other], clock[LANE_LOCK, other])
            clock[lane, OWN_COPIES] = own_copies(st, sm, w)


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
    add_to(st, sm, w, st.par[P.WARPS] + WARP_LOCK)

@compiled_on_demand()
def meet_cluster(st, sm, w, i, mask):
    """Warp w arrives at the barrier of its cluster, or waits for it; whoever waits already hears of the arrival."""
    row = st.par[P.WARPS] + WARP_CLUSTER
    if st.code[i, M.COL_OP] != M.OP_CLUSTER_ARRIVE:
        hear_of(st, sm, w, row)
        sync_lanes(st, sm, w, mask)
        return
    add_to(st, sm, w, row)
    count = st.par[P.SUB_PARTITIONS] * st.par[P.WARP_SLOTS]
    for other in range(sm * count, (sm + 1) * count):
        if st.warp[other, L.WARP_BLOCK] == st.warp[w, L.WARP_BLOCK] and st.warp[other, L.WARP_STATE] == L.WAIT_CLUSTER:
            hear_of(st, sm, other, row)
