"""The block dispatcher: hands the blocks of a grid to SMs in order, and refills them as blocks finish.

First blocks go out one per `launch.fill_interval_cycles` over the whole GPU, one to each SM, then a second, and so on,
as fast as SMs start them; those of a grid that others run beside go to the SM with room for most (`fill_beside`). Ends
of blocks are noted one per `launch.block_interval_cycles`, whether or not L2 has answered their stores. Decisions
fall between lookahead windows, in order of time. What occupancy promises is there, or a RuntimeError says what is not.

Warps free their slots and registers one by one, as they end, but only the end of a block makes the dispatcher look, and
then at both SMs of its TPC: all blocks that fit start, also in the place of warps whose blocks still run (H200,
`block_release`: starts lie 360 to 520 cycles, evenly spread, behind an end in the TPC, whatever warps had ended).
"""

import numpy as np

from gpusim.engine.sm.cluster import PEER_SHIFT
from gpusim.engine.sm.shadow import forget_block, forget_warp
from gpusim.engine.sm.tensor_memory import tmem_begin
from gpusim.engine.state import L, P, compiled, of_block, of_seat, of_warp
from gpusim.engine.state.address_map import spread
from gpusim.engine.state.log import log_block, log_start

#: A grid's words in the dispatcher: its next block, how many it has, how many are on SMs, the last end.
G_NEXT, G_TOTAL, G_RUNNING, G_LAST, G_PATIENCE, G_GROUP, G_FIELDS = range(7)
#: Its two servers: cycles from which it hands out another block, and takes note of another end.
C_HANDS, C_NOTES, C_FIELDS = range(3)


@compiled
def next_block(st, grid):
    """Number of the grid's next block."""
    return st.chosen[grid[G_NEXT]] if st.chosen.size > 0 else grid[G_NEXT]


@compiled
def start_block(st, grid, sm, slot, number, time):
    """Starts a block of the grid in a free block slot of an SM; its first warp may issue from `time` on."""
    par = st.par
    b = st.block[sm, slot]
    if b[L.BLOCK_STATE] != 0:
        raise RuntimeError("block slots ran out: a block was given one that is taken")
    b[:] = 0
    if st.handed.shape[0] > 0:
        b[L.BLOCK_HANDED] = grid[G_NEXT]
        st.handed[grid[G_NEXT], 0] = time
    grid[G_NEXT] += 1
    grid[G_RUNNING] += 1
    b[L.BLOCK_STATE] = 1
    b[L.BLOCK_SEAT] = par[P.SEAT]
    b[L.BLOCK_NUMBER] = number
    b[L.BLOCK_X] = number % par[P.GRID_X]
    b[L.BLOCK_Y] = number // par[P.GRID_X] % par[P.GRID_Y]
    b[L.BLOCK_Z] = number // (par[P.GRID_X] * par[P.GRID_Y])
    b[L.BLOCK_WARPS_LEFT] = par[P.WARPS]
    b[L.BLOCK_ALIVE] = par[P.THREADS]
    b[L.BLOCK_START] = time
    b[L.BLOCK_REDUCED : L.BLOCK_REDUCED + 16] = -1
    if par[P.CHECKS] != 0:
        forget_block(st, sm, slot)
    if par[P.TMEM] != 0:
        tmem_begin(st, sm, slot)
    s = st.sm[sm]
    time = max(time, s[L.SM_BLOCK_FREE])
    taken = max(par[P.WARPS] * par[P.WARP_LAUNCH] + par[P.BLOCK_SETUP], par[P.BLOCK_LEAST])
    tpc = sm - sm % par[P.TPC_SMS]  # its SMs get blocks in turn (H200: of 1, 8, 32 warps 7, 14, 48 cycles apart)
    for k in range(tpc, min(tpc + par[P.TPC_SMS], par[P.SM_COUNT])):
        st.sm[k, L.SM_BLOCK_FREE] = max(st.sm[k, L.SM_BLOCK_FREE], time + taken // (1 if k == sm else par[P.TPC_SMS]))
    if s[L.SM_BLOCKS] == 0:
        s[L.SM_ACTIVE_SINCE] = time
        if s[L.SM_LAUNCHED] == 0:
            time += par[P.SM_START]
            s[L.SM_BLOCK_FREE] += par[P.SM_START]
        if s[L.SM_CARVEOUT] != par[P.CARVEOUT] and s[L.SM_OUTSTANDING] == 0:  # not while loads are on their way
            s[L.SM_CARVEOUT] = par[P.CARVEOUT]
            s[L.SM_L1_SETS] = par[P.L1_SETS]
            st.tags[sm, L.TAG_TAG, :] = -1
            st.tags[sm, L.TAG_USED, :] = 0
    if st.life.shape[0] > 0:
        log_block(st, sm, b[L.BLOCK_NUMBER], time)
    s[L.SM_BLOCKS] += 1
    s[L.SM_LAUNCHED] += 1
    smsps = par[P.SUB_PARTITIONS]
    s[L.SM_BLOCK_NUMBER] += 1
    for index in range(par[P.WARPS]):
        smsp = (s[L.SM_TURN] + index) % smsps
        for _ in range(smsps):  # the next one with a free slot; `start_warp` says so if there is none
            if st.smsp[sm * smsps + smsp, L.SMSP_WARPS] == par[P.WARP_SLOTS]:
                smsp = (smsp + 1) % smsps
        start_warp(st, sm, sm * smsps + smsp, slot, index, time + index * par[P.WARP_LAUNCH])
    # H200, %warpid: warps go round the sub-partitions, and blocks of all their multiples begin at each in turn, too.
    s[L.SM_TURN] = (s[L.SM_TURN] + max(par[P.WARPS] % smsps, 1)) % smsps


@compiled
def start_warp(st, sm, q, block, index, time):
    """Makes warp `index` of a block resident in sub-partition q; the scheduler clears its registers."""
    par = st.par
    smsps = par[P.SUB_PARTITIONS]
    slots = par[P.WARP_SLOTS]
    slot = 0
    while slot < slots and st.warp[(sm * slots + slot) * smsps + q % smsps, L.WARP_STATE] != L.FREE:
        slot += 1
    if slot == slots:
        raise RuntimeError("warp slots ran out: a sub-partition has none for a block's next warp")
    w = (sm * slots + slot) * smsps + q % smsps
    start_lanes(st, w, block, index, time)
    st.warp[w, L.WARP_AGE] = st.sm[sm, L.SM_AGE]
    st.sm[sm, L.SM_AGE] += 1
    if st.sm[sm, L.SM_LOG] != 0:
        log_start(st, sm, q, slot, w, block, time)
    # The first instruction line is asked for when the warp first comes up, so that requests stay in order of time.
    st.ready[q, slot] = time
    st.block_order[q, slot] = st.sm[sm, L.SM_BLOCK_NUMBER]
    st.smsp[q, L.SMSP_NEXT] = min(st.smsp[q, L.SMSP_NEXT], time)
    st.smsp[q, L.SMSP_WARPS] += 1
    st.sm[sm, L.SM_WARPS] += 1


@compiled
def start_lanes(st, w, block, index, time):
    """Sets up row w: the block's threads from 32 times `index` on."""
    par = st.par
    lanes = min(par[P.THREADS] - 32 * index, 32)
    mask = (1 << lanes) - 1
    warp = st.warp[w]
    warp[:] = 0
    warp[L.WARP_STATE] = L.RUNNING
    warp[L.WARP_ACTIVE] = warp[L.WARP_ALIVE] = mask
    warp[L.WARP_BLOCK] = block
    warp[L.WARP_INDEX] = index
    warp[L.WARP_SEAT] = par[P.SEAT]
    warp[L.WARP_SINCE] = warp[L.WARP_START] = time
    warp[L.WARP_FETCHED] = -1
    st.split[w, :] = 0
    st.split[w, L.SPLIT_CANDIDATE] = -1
    if par[P.CHECKS] != 0:
        forget_warp(st, w)


@compiled
def handed_out(clock, server, earliest, interval):
    """Cycle at which the dispatcher is done with the next block, `interval` after the last, not before `earliest`."""
    start = max(clock[server], earliest * P.FRACTION)
    clock[server] = start + interval
    return start // P.FRACTION


@compiled
def free_slot(st, sm):
    """A free block slot of an SM, -1 if it has none."""
    for slot in range(st.par[P.BLOCK_SLOTS]):
        if st.block[sm, slot, L.BLOCK_STATE] == 0:
            return np.int64(slot)
    return np.int64(-1)


@compiled
def fitting(st, sm, time):
    """Return how many further blocks of a launch an SM has room for at `time`, beside those of others: their warps
    spread over the sub-partitions.

    An SM is divided between shared memory and L1 as the launch of its first block wants it, until it is idle again.
    Launches that want more shared memory for their full occupancy, or prefer less, do not get on it, be there room or
    not (H200, `splits`: so in 9,210 of 9,216 pairs of grids).
    """
    par = st.par
    slots = np.int64(0)
    shared = par[P.CARVEOUT]
    if st.sm[sm, L.SM_BLOCKS] > 0:
        shared = st.sm[sm, L.SM_CARVEOUT]
        if not par[P.CARVEOUT_LEAST] <= shared <= par[P.CARVEOUT_MOST]:
            return np.int64(0)
    for slot in range(par[P.BLOCK_SLOTS]):
        if st.block[sm, slot, L.BLOCK_STATE] == 0:
            slots += 1
        else:
            shared -= of_block(st, sm, slot).par[P.BLOCK_SHARED]
    if par[P.BLOCK_SHARED] > 0:
        slots = min(slots, shared // par[P.BLOCK_SHARED])
    smsps, warps = par[P.SUB_PARTITIONS], np.int64(0)
    for smsp in range(smsps):
        free = 0
        registers = par[P.REGISTERS]
        for slot in range(par[P.WARP_SLOTS]):
            w = (sm * par[P.WARP_SLOTS] + slot) * smsps + smsp
            if st.warp[w, L.WARP_STATE] == L.FREE and st.warp[w, L.WARP_SINCE] <= time:
                free += 1
            else:
                registers -= of_warp(st, w).par[P.WARP_REGISTERS]
        if par[P.WARP_REGISTERS] > 0:
            free = min(free, registers // par[P.WARP_REGISTERS])
        slots = min(slots, free // max(par[P.WARPS] // smsps, 1) if par[P.WARPS] >= smsps else slots)
        warps += free
    return max(min(slots, warps // par[P.WARPS]), 0)


@compiled
def place_blocks(st, grid, sm, time, start):
    """Starts as many of the grid's next blocks as an SM takes at `time`; their warps may issue from `start` on."""
    while fitting(st, sm, time) > 0 and grid[G_NEXT] < grid[G_TOTAL]:
        start_block(st, grid, sm, free_slot(st, sm), next_block(st, grid), start)


@compiled
def group_begins(st, group):
    """The first SM of a group that clusters lie in, or that behind the last: a listed one, or a GPC of whole TPCs."""
    par = st.par
    if par[P.CLUSTER_LISTED]:
        return par[P.CLUSTER_BEGINS + group]
    together, sms = par[P.TPC_SMS], par[P.SM_COUNT]
    return min(group * -(-sms // together) // par[P.CLUSTER_GROUPS] * together, sms)


@compiled
def cluster_group(st, grid, size):
    """The group of SMs that gets the next cluster, -1 if none has room. Groups take turns; those wait whose SMs would
    have more blocks than another's: H200, right for 251 of 256 grids (tests/gpusim/data/cluster_places.json)."""
    groups, slots = st.par[P.CLUSTER_GROUPS], st.par[P.BLOCK_SLOTS]
    least = slots
    for sm in range(st.par[P.SM_COUNT]):
        least = min(least, st.sm[sm, L.SM_BLOCKS])
    for most in range(least + 1, slots + 1):
        for turn in range(groups):
            group = (grid[G_GROUP] + turn) % groups
            first, last = group_begins(st, group), group_begins(st, group + 1)
            room = 0  # clusters have the GPU for themselves, and all ends are noted: an SM's blocks are its slots'
            for sm in range(first, last):
                room += max(most - st.sm[sm, L.SM_BLOCKS], 0)
            if last - first >= min(size, st.par[P.CLUSTER_MOST]) and room >= size:
                grid[G_GROUP] = group + 1
                return group
    return -1


@compiled
def place_clusters(st, grid, clock, server, earliest, now, interval):
    """Starts clusters as long as one fits: all its blocks at once, on the emptiest SMs of a group."""
    par = st.par
    size = par[P.CLUSTER_BLOCKS]
    across = par[P.GRID_X] // par[P.CLUSTER_X]
    down = par[P.GRID_Y] // par[P.CLUSTER_Y]
    while grid[G_NEXT] < grid[G_TOTAL]:
        chosen = cluster_group(st, grid, size)
        if chosen < 0:
            return
        number = next_block(st, grid) // size
        x = number % across * par[P.CLUSTER_X]
        y = number // across % down * par[P.CLUSTER_Y]
        z = number // (across * down) * par[P.CLUSTER_Z]
        leader = st.block[0, 0]
        for rank in range(size):
            sm = -1
            for candidate in range(group_begins(st, chosen), group_begins(st, chosen + 1)):
                room = free_slot(st, candidate) >= 0
                if room and (sm < 0 or st.sm[candidate, L.SM_BLOCKS] < st.sm[sm, L.SM_BLOCKS]):
                    sm = candidate
            slot = free_slot(st, sm)
            more = par[P.CLUSTER_INTERVAL] if rank == 0 else 0
            time = handed_out(clock, server, earliest, interval + more) + par[P.BLOCK_LAUNCH]
            column = x + rank % par[P.CLUSTER_X]
            row = y + rank // par[P.CLUSTER_X] % par[P.CLUSTER_Y]
            layer = z + rank // (par[P.CLUSTER_X] * par[P.CLUSTER_Y])
            block = column + par[P.GRID_X] * (row + par[P.GRID_Y] * layer)
            start_block(st, grid, sm, slot, block, max(time, now))
            b = st.block[sm, slot]
            b[L.BLOCK_RANK] = rank
            b[L.BLOCK_CLUSTER] = number
            if rank == 0:
                leader = b
            leader[L.BLOCK_PEER + rank] = sm << PEER_SHIFT | slot
        for rank in range(1, size):
            peer = leader[L.BLOCK_PEER + rank]
            b = st.block[peer >> PEER_SHIFT, peer & ((1 << PEER_SHIFT) - 1)]
            for other in range(size):
                b[L.BLOCK_PEER + other] = leader[L.BLOCK_PEER + other]


@compiled
def fill(st, grid, clock, now, order, interval):
    """The blocks that find room at once: one to each SM in turn. order: the SM of each (`place.first_blocks`)."""
    if st.par[P.CLUSTER_BLOCKS] > 0:
        place_clusters(st, grid, clock, C_HANDS, now, now, interval)
        return
    for k in range(order.size):
        time = handed_out(clock, C_HANDS, now, interval) + st.par[P.BLOCK_LAUNCH]
        start_block(st, grid, order[k], k // st.par[P.SM_COUNT], next_block(st, grid), time)


@compiled
def fill_beside(st, grid, clock, now, order, interval):
    """Place blocks on SMs that other launches use, too: each goes to an SM that has room for most of them.

    order: of all SMs, which decides between equals. H200: right for 98.5 % of 12,000 placements of 40 random schedules.
    """
    counts = st.address  # scratch: no instruction is at hand between windows
    for k in range(order.size):
        counts[order[k], 0] = fitting(st, order[k], now)
    while grid[G_NEXT] < grid[G_TOTAL]:
        best = order[0]
        for k in range(order.size):
            if counts[order[k], 0] > counts[best, 0]:
                best = order[k]
        if counts[best, 0] == 0:
            return
        time = handed_out(clock, C_HANDS, now, interval) + st.par[P.BLOCK_LAUNCH]
        start_block(st, grid, best, free_slot(st, best), next_block(st, grid), time)
        counts[best, 0] = fitting(st, best, now)


@compiled
def end_block(st, dispatch, sm, slot, time):
    """A block has ended: its place is free, and its grid knows."""
    st = of_block(st, sm, slot)
    st.block[sm, slot, L.BLOCK_STATE] = 0
    if st.handed.shape[0] > 0:
        st.handed[st.block[sm, slot, L.BLOCK_HANDED], 1] = time
    if st.life.shape[0] > 0:
        st.life[st.block[sm, slot, L.BLOCK_NUMBER], 2] = time
    grid = dispatch[st.par[P.SEAT]]
    grid[G_RUNNING] -= 1
    grid[G_LAST] = max(grid[G_LAST], time)


@compiled
def refill(st, dispatch, seats, clock, now, interval):
    """Hand the room of blocks that finished in the last window, in order of time, to the next ones of the launches that
    have had their first blocks. dispatch: int64 [seats, G_FIELDS]. seats: theirs, in the order in which they get room.
    """
    last = np.int64(-1)
    while True:
        first = -1
        earliest = L.NEVER
        for sm in range(st.sm.shape[0]):
            n = st.sm[sm, L.SM_DONE_SEEN]
            if n < st.sm[sm, L.SM_DONE] and st.done[sm, n, 0] < earliest:
                earliest = st.done[sm, n, 0]
                first = sm
        if first < 0:
            break
        n = st.sm[first, L.SM_DONE_SEEN]
        st.sm[first, L.SM_DONE_SEEN] = n + 1
        end_block(st, dispatch, first, st.done[first, n, 1], earliest)
        noted = handed_out(clock, C_NOTES, earliest, interval)
        last = earliest
        noted += spread(st.block[first, st.done[first, n, 1], L.BLOCK_NUMBER], st.par[P.REFILL_SPREAD])
        start = max(noted + st.par[P.REFILL] + st.par[P.BLOCK_LAUNCH], now)
        together = st.par[P.TPC_SMS] if st.par[P.MODE] & L.BOOKS != 0 else 1
        for k in range(seats.size):
            own = of_seat(st, seats[k])
            if own.par[P.CLUSTER_BLOCKS] > 0:
                continue
            for n in range(together):
                sm = first // together * together + (first + n) % together
                if sm < st.sm.shape[0]:
                    place_blocks(own, dispatch[seats[k]], sm, earliest, start)
            if dispatch[seats[k], G_NEXT] < dispatch[seats[k], G_TOTAL]:
                break  # the others wait behind it
    if last >= 0:
        for k in range(seats.size):
            own = of_seat(st, seats[k])
            if own.par[P.CLUSTER_BLOCKS] > 0:
                place_clusters(own, dispatch[seats[k]], clock, C_NOTES, last + st.par[P.REFILL], now, 0)
    st.sm[:, L.SM_DONE] = 0
    st.sm[:, L.SM_DONE_SEEN] = 0
