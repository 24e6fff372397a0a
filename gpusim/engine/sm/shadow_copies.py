"""Racecheck's knowledge of asynchronous copies into shared memory, and of mbarriers.

A copy writes its bytes at any time until it is over. So they are recorded when it is issued, as written by a COPY or a
BULK, and any access before its thread has heard of the end is an error, whether or not the bytes have come by then.

LDGSTS: the copies of a warp are over by groups, which LDGDEPBAR (cp.async.commit_group) and ARRIVES.LDGSTSBAR end and
which are counted for each warp. A DEPBAR on their scoreboard that leaves n of them tells the lanes that execute it that
their own copies in all others are over; other lanes have to hear of it by a barrier.

Bulk copies are over with the phase of their mbarrier in which they were issued, for whoever has seen its end. An
mbarrier has two rows of a block's warp clocks: what those have heard of that have arrived so far, and what it was when
the last phase ended, of which the lanes hear that see that end.
"""

import numpy as np
from numba.core import types

from gpusim.engine.sm import shadow_clocks as sc
from gpusim.engine.sm.cluster import OFFSET_MASK, RANK_SHIFT
from gpusim.engine.sm.readiness import all_warps
from gpusim.engine.sm.shadow import watch_byte
from gpusim.engine.sm.space import access, exhausted, fail, same_address
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit
from isa import microops as M

# --- rows of copies_seen: the warps of a block, then its mbarriers ----------------------------------------------------
SEEN_COUNT = 0  # groups of copies that the warp has ended, phases of the mbarrier that are over
SEEN_BARS = 1  # scoreboards of those groups
SEEN_WHERE = 1  # 1 + word of the mbarrier in its SM's shared memory
SEEN_LAST = 2  # record of the last copy
SEEN_WAITED = 3  # groups of copies of whose end some lane of the warp knows
SEEN_FIELDS = 4


@compiled
def mbarrier_at(st, sm, slot, word):
    """Number of the block's mbarrier at a word of the SM's shared memory; from now on one lies there. As many as there
    is room for if that would be one too many."""
    seen, first = st.copies_seen[sm, slot], st.par[P.WARPS]
    for row in range(first, seen.shape[0]):
        if seen[row, SEEN_WHERE] == 0:
            seen[row, SEEN_WHERE] = word + 1
            st.warp_clock[sm, slot, arrived_row(st, row - first) : arrived_row(st, row - first) + 2, :] = 0
        if seen[row, SEEN_WHERE] == word + 1:
            return row - first
    return seen.shape[0] - first


@compiled
def own_mbarrier(st, sm, w, address):
    """Number of the block's mbarrier at an address in the shared memory of warp w's block, -1 after an error."""
    slot = st.warp[w, L.WARP_BLOCK]
    n, most = mbarrier_at(st, sm, slot, word_of(st, slot, address)), st.copies_seen.shape[2] - st.par[P.WARPS]
    return np.int64(-1) if exhausted(st, sm, L.POOL_MBARRIERS, w, n, most) else n


@compiled
def word_of(st, slot, address):
    """Word of an SM's shared memory that a block's address names."""
    return (slot * st.par[P.SHARED_STRIDE] + address) >> 2


@compiled
def arrived_row(st, n):
    """Row of the warp clocks for those that arrive at mbarrier n; behind it lies the one of its last phase."""
    return sc.shared_row(st, sc.WARP_ROWS + 2 * n)


# --- copies -----------------------------------------------------------------------------------------------------------
@compiled_on_demand(types.boolean)
def watch_copy(st, sm, i, w, mask):
    """LDGSTS, with the addresses that it writes in st.copy_targets. False if something else is there unordered."""
    size = np.int64(st.code[i, M.COL_AUX1] & 255)
    a = access(0, w, i, 0, mask, size, 0)
    seen = st.copies_seen[0, 0, 0]
    if st.par[P.CHECKS] & sc.CHECK_RACE:
        seen = st.copies_seen[sm, st.warp[w, L.WARP_BLOCK], st.warp[w, L.WARP_INDEX]]
    for lane in range(32):
        record = sc.record_of(st, w, i, sc.COPY, lane, seen[SEEN_COUNT] + 1)
        for byte in range(size if (mask >> lane) & 1 else 0):
            if not watch_byte(st, sm, a, lane, st.copy_targets[sm, lane], byte, np.int64(sc.COPY), False, record):
                return False
        seen[SEEN_LAST] = record if (mask >> lane) & 1 else seen[SEEN_LAST]
    return True


@compiled_on_demand(types.boolean)
def watch_bulk(st, sm, i, w, row, size):
    """Check a bulk copy of `size` bytes to its own block, which its first active lane issues. False after an error."""
    lane, start, phase = np.int64(lowest_bit(st.warp[w, L.WARP_ACTIVE])), st.bulk[sm, row, L.BULK_SHARED], np.int64(0)
    seen = st.copies_seen[0, 0, 0]
    if st.par[P.CHECKS] & sc.CHECK_RACE:
        n = own_mbarrier(st, sm, w, st.bulk[sm, row, L.BULK_BARRIER])
        if n < 0:
            return False
        seen = st.copies_seen[sm, st.warp[w, L.WARP_BLOCK], st.par[P.WARPS] + n]
        phase = seen[SEEN_COUNT] << sc.MBARRIER_BITS | n
    record = sc.record_of(st, w, i, sc.BULK, lane, phase)
    a = access(0, w, i, 0, 1, size, 0)
    for byte in range(size):
        if not watch_byte(st, sm, a, lane, start, byte, np.int64(sc.BULK), False, record):
            return False
    seen[SEEN_LAST] = record
    return True


@compiled_on_demand()
def end_group(st, sm, w, i):
    """LDGDEPBAR: the warp's copies so far are a group."""
    seen = st.copies_seen[sm, st.warp[w, L.WARP_BLOCK], st.warp[w, L.WARP_INDEX]]
    seen[SEEN_COUNT] += 1
    seen[SEEN_BARS] |= np.int64(1) << st.code[i, M.COL_WBAR]


@compiled_on_demand()
def wait_for_groups(st, sm, w, i, lanes):
    """DEPBAR: all groups but the last ones that it allows are over."""
    slot, mine = st.warp[w, L.WARP_BLOCK], st.warp[w, L.WARP_INDEX]
    seen = st.copies_seen[sm, slot, mine]
    scoreboard, left = st.code[i, M.COL_AUX0], np.int64(st.code[i, M.COL_AUX1])
    if seen[SEEN_BARS] & st.code[i, M.COL_WAIT] != 0:
        left = np.int64(0)
    elif scoreboard >= 6 or (seen[SEEN_BARS] >> scoreboard) & 1 == 0:
        return
    over = seen[SEEN_COUNT] - left
    for lane in range(32):
        if (lanes >> lane) & 1:
            at = sc.LANE_COPIES + lane
            st.lane_clock[w, lane, at] = max(st.lane_clock[w, lane, at], over)
    seen[SEEN_WAITED] = max(seen[SEEN_WAITED], over)


# --- mbarriers --------------------------------------------------------------------------------------------------------
@compiled_on_demand()
def end_group_with(st, sm, w, lanes, address):
    """ARRIVES.LDGSTSBAR: the warp's copies so far are a group, of whose end an mbarrier of the block hears."""
    slot, mine = st.warp[w, L.WARP_BLOCK], st.warp[w, L.WARP_INDEX]
    n = own_mbarrier(st, sm, w, address)
    if n >= 0:
        seen, row = st.copies_seen[sm, slot, mine], arrived_row(st, n)
        seen[SEEN_COUNT] += 1
        sc.publish(st, sm, w, lanes, row)
        every = seen[SEEN_COUNT] if sc.lanes_of(st, w) & ~lanes == 0 else np.int64(0)
        sc.raise_to(st.warp_clock[sm, slot, row, st.par[P.WARPS] + mine], every, seen[SEEN_COUNT], lanes)


@compiled_on_demand()
def note_arrivals(st, sm, w, mask):
    """Lanes of warp w arrive at the mbarriers in st.address, as far as these are the block's own."""
    left = mask
    while left != 0:
        lanes, address = same_address(st, sm, left), st.address[sm, lowest_bit(left)]
        rank = address >> RANK_SHIFT
        if rank == 0 or rank == st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_RANK]:
            n = own_mbarrier(st, sm, w, address & OFFSET_MASK)
            if n >= 0:
                sc.publish(st, sm, w, lanes, arrived_row(st, n))
        left &= ~lanes


@compiled_on_demand()
def note_other_block(st, sm, word):
    """Another block arrives at an mbarrier: what it has heard of is not known, so it may be all that this block did."""
    slot = 4 * word // st.par[P.SHARED_STRIDE]
    n = mbarrier_at(st, sm, slot, word)
    for w in all_warps(st, sm):
        if n < st.copies_seen.shape[2] - st.par[P.WARPS] and st.warp[w, L.WARP_BLOCK] == slot:
            sc.publish(st, sm, w, np.int64(0xFFFFFFFF), arrived_row(st, n))


@compiled_on_demand()
def end_phase(st, sm, word):
    """A phase of the mbarrier at a word of the SM's shared memory is over."""
    slot = 4 * word // st.par[P.SHARED_STRIDE]
    n = st.par[P.WARPS] + mbarrier_at(st, sm, slot, word)
    if n < st.copies_seen.shape[2]:
        seen, clock = st.copies_seen[sm, slot, n], st.warp_clock[sm, slot]
        row = arrived_row(st, n - st.par[P.WARPS])
        seen[SEEN_COUNT] += 1
        clock[row, st.par[P.WARPS] + n, sc.EVERY] = seen[SEEN_COUNT]
        sc.join_rows(clock[row + 1], clock[row])


@compiled_on_demand()
def see_end(st, sm, w, lanes, word):
    """Lanes of warp w see that a phase of an mbarrier is over."""
    n = mbarrier_at(st, sm, st.warp[w, L.WARP_BLOCK], word)
    if n != st.copies_seen.shape[2] - st.par[P.WARPS]:
        sc.hear_of(st, sm, w, lanes, arrived_row(st, n) + 1)
    if st.par[P.TMEM] != 0:
        st.tmem[sm, L.TMEM_SEEN] = max(st.tmem[sm, L.TMEM_SEEN], st.tmem[sm, L.TMEM_TOLD + (word >> 1) % 64])


@compiled_on_demand()
def see_ends(st, sm, w, lanes):
    """Lanes of warp w see that a phase of the mbarriers at their addresses (st.address) is over."""
    left = lanes
    while left != 0:
        looking = same_address(st, sm, left)
        see_end(st, sm, w, looking, word_of(st, st.warp[w, L.WARP_BLOCK], st.address[sm, lowest_bit(left)]))
        left &= ~looking


# --- the end of a block -----------------------------------------------------------------------------------------------
@compiled_on_demand(types.boolean)
def all_waited_for(st, sm, w):
    """Return True if some lane of a block that ends with warp w knows of every copy's end; else that is an error."""
    slot, warps = st.warp[w, L.WARP_BLOCK], st.par[P.WARPS]
    seen, clock = st.copies_seen[sm, slot], st.warp_clock[sm, slot]
    for n in range(seen.shape[0]):
        last = seen[n, SEEN_LAST]
        needed = last >> sc.EPOCH_BIT if n < warps else (last >> (sc.EPOCH_BIT + sc.MBARRIER_BITS)) + 1
        known = seen[n, SEEN_WAITED]
        for each in range(2 * warps):
            known = max(known, clock[each, warps + n, sc.EVERY], clock[each, warps + n, sc.SOME])
        if last != 0 and known < needed:
            if st.sm[sm, L.SM_ERROR] == 0:
                st.sm[sm, L.SM_ERROR_OTHER] = last
            where = (seen[n, SEEN_WHERE] - 1) * 4 - slot * st.par[P.SHARED_STRIDE] if n >= warps else 0
            i, lane = (last >> sc.PC_BIT) & 0xFFFFF, (last >> sc.LANE_BIT) & 31
            fail(st, sm, L.ERROR_UNWAITED, i, w, lane, where, np.int64(0))
            return False
    return True


ON_DEMAND = (
    *(watch_copy, watch_bulk, end_group, wait_for_groups, end_group_with),
    *(note_arrivals, note_other_block, end_phase, see_end, see_ends, all_waited_for),
)
