"""The order of accesses: the records that `shadow` keeps of those to shared memory, and the clocks that order them.

A record says who accessed a byte (warp, lane), by which instruction, and at which of the warp's *epochs*; a new epoch
begins whenever lanes of the warp synchronise. Two accesses are ordered if the later one's lane has heard of an epoch of
the other lane at least as late as the access: vector clocks, the order that the PTX memory model calls happens-before.

Each lane has a clock of the lanes of its own warp. Of other warps each warp has one clock of what all its lanes have
heard and one of what only some have, with three numbers for a warp: up to which epoch *every* lane of it is known, up
to which later one *some* are, and *who* these are. What does not fit into that is taken for known, so an order may be
seen that is not there, never the other way round.

What an asynchronous copy writes is there for whoever has heard that the copy is over. So clocks have further columns,
which are handed on as epochs are: for each lane, or warp, how many groups of its copies are over, and for each mbarrier
how many phases are. See `shadow_copies` for who writes them.

What orders: BAR between the lanes that take part; the barrier of a cluster; an mbarrier, between the lanes that have
arrived in a phase and those that have seen its end; WARPSYNC between the lanes it brings together, and NOP, which is
what ptxas leaves of `__syncwarp` where the lanes run together anyway; compare-and-swap and exchange, of which locks are
made. Lanes of one warp that merely run together are not ordered (CUDA programming guide, "Independent thread
scheduling").
"""

import numpy as np

from gpusim.engine.sm.readiness import all_warps
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

# --- rows of lane_clock behind those of the 32 lanes; columns: epochs of the lanes, then groups of their copies -------
LANE_LOCK, LANE_JOIN, LANE_ROWS = 32, 33, 34
LANE_COPIES, LANE_COLUMNS = 32, 64

# --- rows of warp_clock: what all lanes of each warp have heard, what some of them have, then these -------------------
NAMED_BARRIERS = 16
WARP_LOCK = NAMED_BARRIERS  # what the last owner of a lock had heard of
WARP_CLUSTER = WARP_LOCK + 1  # what those had heard of that have arrived at the barrier of the cluster
WARP_ROWS = WARP_CLUSTER + 1  # behind them two for each mbarrier, see `shadow_copies`
# An entry. Those who know a row of the second kind stand as WHO in its warp's own column.
EVERY, SOME, WHO, ENTRY = range(4)


@compiled
def epoch_of(st, w):
    """The warp's epoch, from 1 on."""
    return min(st.warp[w, L.WARP_EPOCH] + 1, np.int64(LAST_EPOCH))


@compiled
def record_of(st, w, i, kind, lane, epoch):
    """The record of an access."""
    last = np.int64(LAST_EPOCH)  # those behind it are taken for ordered sooner than they are
    of_warp = np.int64(kind) | np.int64(st.warp[w, L.WARP_INDEX]) << WARP_BIT | np.int64(i) << PC_BIT
    return of_warp | np.int64(lane) << LANE_BIT | min(np.int64(epoch), last) << EPOCH_BIT


@compiled
def shared_row(st, n):
    """Row of the warp clocks that belongs to no warp: of a named barrier, WARP_LOCK, WARP_CLUSTER, or behind these."""
    return 2 * st.par[P.WARPS] + n


@compiled
def lanes_of(st, w):
    """The lanes that warp w began with."""
    return (np.int64(1) << min(st.par[P.THREADS] - 32 * st.warp[w, L.WARP_INDEX], 32)) - 1


@compiled
def arriving(st, w, lanes):
    """These lanes, which arrive at a barrier of threads, and those that have exited: they count as arrived."""
    return lanes | (lanes_of(st, w) & ~st.warp[w, L.WARP_ALIVE])


@compiled
def raise_to(entry, every, some, who):
    """An entry knows what it knew, and these."""
    most = max(entry[EVERY], every)
    lanes = (entry[WHO] if entry[SOME] > most else np.int64(0)) | (who if some > most else np.int64(0))
    entry[SOME] = max(entry[SOME], some) if lanes != 0 else np.int64(0)
    entry[EVERY] = most
    entry[WHO] = lanes


@compiled
def join_rows(row, other):
    """A row of the warp clocks knows what it knew, and another one."""
    for column in range(row.shape[0]):
        raise_to(row[column], other[column, EVERY], other[column, SOME], other[column, WHO])


@compiled
def known_of(entry, lane):
    """Up to when an entry knows a lane."""
    return entry[SOME] if (entry[WHO] >> lane) & 1 else entry[EVERY]


@compiled
def heard(st, sm, w, lane, column, other):
    """Up to when `lane` of warp w knows the lane `other` of a column of the warp clocks."""
    clock = st.warp_clock[sm, st.warp[w, L.WARP_BLOCK]]
    mine = st.warp[w, L.WARP_INDEX]
    some = clock[st.par[P.WARPS] + mine]
    latest = known_of(clock[mine, column], other)
    return max(latest, known_of(some[column], other)) if (some[mine, WHO] >> lane) & 1 else latest


@compiled
def ordered(st, sm, w, lane, record):
    """Return whether the access of a record, or the copy, was over before whatever `lane` of warp w does now."""
    warp = (record >> WARP_BIT) & 1023
    other = (record >> LANE_BIT) & 31
    epoch = record >> EPOCH_BIT
    kind = record & KINDS
    if kind == BULK:
        mbarrier = epoch & ((1 << MBARRIER_BITS) - 1)
        return epoch >> MBARRIER_BITS < heard(st, sm, w, lane, 2 * st.par[P.WARPS] + mbarrier, 0)
    if warp == st.warp[w, L.WARP_INDEX]:
        if kind == COPY:
            return epoch <= st.lane_clock[w, lane, LANE_COPIES + other]
        return other == lane or epoch <= st.lane_clock[w, lane, other]
    return epoch <= heard(st, sm, w, lane, st.par[P.WARPS] + warp if kind == COPY else warp, other)


@compiled
def join_lanes(st, w, lanes):
    """Row LANE_JOIN of warp w is what the lanes have done and heard of."""
    clock = st.lane_clock[w]
    clock[LANE_JOIN, :] = 0
    for lane in range(32):
        if (lanes >> lane) & 1:
            for column in range(LANE_COLUMNS):
                clock[LANE_JOIN, column] = max(clock[LANE_JOIN, column], clock[lane, column])
    for lane in range(32):
        if (lanes >> lane) & 1:
            clock[LANE_JOIN, lane] = epoch_of(st, w)


@compiled
def tell_lanes(st, w, lanes, row):
    """The lanes have heard of what is in a row of their warp's lane_clock."""
    clock = st.lane_clock[w]
    for lane in range(32):
        for column in range(LANE_COLUMNS if (lanes >> lane) & 1 else 0):
            clock[lane, column] = max(clock[lane, column], clock[row, column])


@compiled
def sync_lanes(st, sm, w, lanes):
    """The lanes have heard of everything that any of them has done or heard of."""
    join_lanes(st, w, lanes)
    tell_lanes(st, w, lanes, LANE_JOIN)
    st.warp[w, L.WARP_EPOCH] += 1
    clock = st.warp_clock[sm, st.warp[w, L.WARP_BLOCK]]
    mine = st.warp[w, L.WARP_INDEX]
    some = clock[st.par[P.WARPS] + mine]
    if some[mine, WHO] & lanes != 0:
        some[mine, WHO] |= lanes
        if st.warp[w, L.WARP_ALIVE] & ~some[mine, WHO] == 0:
            join_rows(clock[mine], some)
            some[:, :] = 0


@compiled
def publish(st, sm, w, lanes, row):
    """Adds what lanes of warp w have done and heard of to a row of its block's warp clocks, and a new epoch begins."""
    clock = st.warp_clock[sm, st.warp[w, L.WARP_BLOCK]]
    warps, mine = st.par[P.WARPS], st.warp[w, L.WARP_INDEX]
    join_rows(clock[row], clock[mine])
    if clock[warps + mine, mine, WHO] & lanes != 0:
        join_rows(clock[row], clock[warps + mine])
    join_lanes(st, w, lanes)
    own = lanes_of(st, w)
    for part in range(2):
        known = st.lane_clock[w, LANE_JOIN, LANE_COPIES * part : LANE_COPIES * (part + 1)]
        every, some, who = np.int64(LAST_EPOCH), np.int64(0), np.int64(0)
        for lane in range(32):
            if (own >> lane) & 1:
                every = min(every, known[lane])
        for lane in range(32):
            some = max(some, known[lane])
            who |= np.int64(known[lane] > every) << lane
        raise_to(clock[row, warps * part + mine], every, some, who)
    st.warp[w, L.WARP_EPOCH] += 1


@compiled
def hear_of(st, sm, w, lanes, row):
    """Lanes of warp w have heard of everything in a row of their block's warp clocks."""
    clock = st.warp_clock[sm, st.warp[w, L.WARP_BLOCK]]
    warps, mine = st.par[P.WARPS], st.warp[w, L.WARP_INDEX]
    if row != shared_row(st, WARP_LOCK):  # LANE_LOCK is more exact
        for other in range(32):
            st.lane_clock[w, LANE_JOIN, other] = known_of(clock[row, mine], other)
            st.lane_clock[w, LANE_JOIN, LANE_COPIES + other] = known_of(clock[row, warps + mine], other)
        tell_lanes(st, w, lanes, LANE_JOIN)
    if st.warp[w, L.WARP_ALIVE] & ~lanes == 0:
        join_rows(clock[mine], clock[row])
        return
    who = clock[warps + mine, mine, WHO] | lanes
    join_rows(clock[warps + mine], clock[row])
    clock[warps + mine, mine, :] = 0
    clock[warps + mine, mine, WHO] = who


@compiled
def pass_barrier(st, sm, w, number):
    """A barrier of the block opens for the lanes of warp w that wait at it; called before they are released."""
    lanes = np.int64(0)
    if st.warp[w, L.WARP_DEFERRED] == number + 1:
        lanes = st.warp[w, L.WARP_ACTIVE]
    lanes |= st.split[w, L.SPLIT_HELD + number]
    if lanes != 0:
        hear_of(st, sm, w, lanes, shared_row(st, number))
        sync_lanes(st, sm, w, lanes)


@compiled_on_demand()
def meet_cluster(st, sm, w, i, mask):
    """Warp w arrives at the barrier of its cluster, or waits for it; whoever waits already hears of the arrival."""
    row = shared_row(st, WARP_CLUSTER)
    if st.code[i, M.COL_OP] != M.OP_CLUSTER_ARRIVE:
        hear_of(st, sm, w, mask, row)
        sync_lanes(st, sm, w, mask)
        return
    publish(st, sm, w, arriving(st, w, mask), row)
    for other in all_warps(st, sm):
        if st.warp[other, L.WARP_BLOCK] == st.warp[w, L.WARP_BLOCK] and st.warp[other, L.WARP_STATE] == L.WAIT_CLUSTER:
            hear_of(st, sm, other, st.warp[other, L.WARP_ALIVE], row)
