"""A streaming multiprocessor in time: replies arrive, sub-partitions issue, idle cycles are skipped.

`advance` runs one SM to the end of a lookahead window. SMs touch nothing of each other, so any number of host threads
gives the same result.
"""

import numpy as np

from gpusim.engine.sm.admission import ROOM, no_room, too_many_loads
from gpusim.engine.sm.async_copy import land
from gpusim.engine.sm.bulk_effect import land as land_bulk
from gpusim.engine.sm.fence import STORES, fence_reply, pass_fence
from gpusim.engine.sm.flight import FOR_MSHR, event_at, free_token, give_row, pop_event
from gpusim.engine.sm.mbarrier import end_looks, see_phase, tell
from gpusim.engine.sm.queued import access_lines, is_store, must_wait, take_queued
from gpusim.engine.sm.readiness import all_warps, load_ahead, place_of, wake
from gpusim.engine.sm.run_warp import finish_warp
from gpusim.engine.sm.scheduler import step
from gpusim.engine.sm.space import access
from gpusim.engine.sm.stages import take_data_stage, take_data_turns
from gpusim.engine.sm.stored import first_leaves, send_stored
from gpusim.engine.state import L, P, compiled, of_seat, of_warp, popc, prefetch
from isa import microops as M


@compiled
def scoreboard_reply(st, sm, w, scoreboard, release, now):
    """One reply fewer to wait for; the last one wakes the warp."""
    st.warp[w, L.WARP_PENDING + scoreboard] -= 1
    st.warp[w, L.WARP_RELEASE + scoreboard] = max(st.warp[w, L.WARP_RELEASE + scoreboard], release)
    if st.warp[w, L.WARP_STATE] == L.WAIT_SCOREBOARD:
        counted = st.code[st.warp[w, L.WARP_PC], M.COL_OP] == M.OP_DEPBAR  # it may wait for some of the replies only
        if st.warp[w, L.WARP_PENDING + scoreboard] == 0 or counted:
            wake(st, sm, w, now)


@compiled
def resume(st, sm, now):
    """Lets instructions that wait go on, in order, as far as L2 takes them."""
    while st.sm[sm, L.SM_QUEUED] > 0:
        path = st.queued[sm, st.sm[sm, L.SM_QUEUED_FIRST], L.QUEUED_PATH]
        if must_wait(st, sm, path) or no_room(st, sm, ROOM) or (not is_store(path) and too_many_loads(st, sm)):
            return
        k = take_queued(st, sm)
        h = st.queued[sm, k]
        w, i = h[L.QUEUED_WARP], h[L.QUEUED_PC]
        st = of_warp(st, w)
        wb = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
        q = h[L.QUEUED_SMSP]
        a = access(q, w, i, wb, h[L.QUEUED_MASK], h[L.QUEUED_SIZE], now, h[L.QUEUED_POLICY])
        access_lines(st, sm, a, h[L.QUEUED_COUNT], path, k)
        for scoreboard in (st.code[i, M.COL_RBAR], st.code[i, M.COL_WBAR]):
            if scoreboard < 6:
                scoreboard_reply(st, sm, w, scoreboard, now, now)
        if st.warp[w, L.WARP_STATE] == L.WAIT_DRAIN and st.warp[w, L.WARP_QUEUED] == 0:
            st.warp[w, L.WARP_DRAINED] = max(st.warp[w, L.WARP_DRAINED], now)
            _, slot = place_of(st, sm, w)
            finish_warp(st, sm, q, slot, w, now)


EVENTS_AHEAD = 64  # of the next replies whose rows are loaded ahead


@compiled
def go_on(st, sm, now):
    """Lets what waits for room go on: instructions in the queues, and warps in front of them."""
    resume(st, sm, now)
    if st.sm[sm, L.SM_THROTTLED] != 0:
        st.sm[sm, L.SM_THROTTLED] = 0
        for w in all_warps(st, sm):
            if st.warp[w, L.WARP_STATE] == L.WAIT_THROTTLE:
                wake(st, sm, w, now)


@compiled
def copy_reply(st, sm, k, now):
    """The last reply to asynchronous copies, or to a look at an mbarrier. Returns the token that hears of it, or -1."""
    token = st.token[sm, k]
    w = token[L.TOKEN_WARP]
    after = token[L.TOKEN_AFTER] - 1
    if token[L.TOKEN_KIND] == L.COPY_DATA_TOKEN:
        if token[L.TOKEN_SECTORS] == 0:  # the data have come; they go to shared memory now
            token[L.TOKEN_SECTORS] = 1
            token[L.TOKEN_LEFT] = 1
            turns = token[L.TOKEN_TIME]  # H200: 2.9 to 3.7 cycles more than wavefronts each, for one what two take
            there = take_data_stage(st, sm, -1, w, now, max(turns, 2) + 2) + turns - 1 if turns > 0 else now
            event_at(st, sm, there + st.par[P.COPY_LAND], k)
            return np.int64(-1)
        after = land(st, sm, k)
    elif token[L.TOKEN_KIND] == L.PHASE_TOKEN:
        after = np.int64(-1)
        see_phase(st, sm, k)
    else:
        if token[L.TOKEN_BULK] > 0:
            land_bulk(st, sm, token[L.TOKEN_BULK] - 1, now)
        if token[L.TOKEN_KIND] in (L.COPY_ARRIVE_TOKEN, L.COPY_BYTES_TOKEN, L.REMOTE_TOKEN):
            tell(st, sm, k, now)
    if st.warp[w, L.WARP_AGE] == token[L.TOKEN_AGE]:
        if st.warp[w, L.WARP_CLOSED] == k + 1:
            st.warp[w, L.WARP_CLOSED] = 0
        if token[L.TOKEN_SCOREBOARD] < 6:
            scoreboard_reply(st, sm, w, token[L.TOKEN_SCOREBOARD], now, now)
    free_token(st, sm, k)
    return after


@compiled
def token_reply(st, sm, k, now):
    """A reply to a memory instruction; with the last one, its scoreboard is released."""
    token = st.token[sm, k]
    st = of_seat(st, token[L.TOKEN_SEAT])
    token[L.TOKEN_LEFT] -= 1
    if token[L.TOKEN_KIND] == L.STORE_TOKEN or token[L.TOKEN_KIND] == L.ATOMIC_TOKEN:
        full = st.sm[sm, L.SM_FLITS] >= st.par[P.MAX_FLITS]
        freed = token[L.TOKEN_AMOUNT] if token[L.TOKEN_LEFT] == 0 else np.int64(0)
        if token[L.TOKEN_SECTORS] > 0:  # see `flight.hold_flits`
            freed = token[L.TOKEN_AMOUNT] // token[L.TOKEN_SECTORS]
            token[L.TOKEN_SECTORS] -= 1
        token[L.TOKEN_AMOUNT] -= freed
        st.sm[sm, L.SM_FLITS] -= freed
        if full and st.sm[sm, L.SM_FLITS] < st.par[P.MAX_FLITS]:
            st.sm[sm, L.SM_STORE_FREE] = max(st.sm[sm, L.SM_STORE_FREE], now)
    if token[L.TOKEN_LEFT] > 0:
        return
    w = token[L.TOKEN_WARP]
    if token[L.TOKEN_KIND] == L.FENCE_TOKEN:
        fence_reply(st, sm, k, now)
        return
    if token[L.TOKEN_KIND] >= L.COPY_TOKEN:
        after = np.int64(k)
        while after >= 0:
            after = copy_reply(st, sm, after, now)
            if after >= 0:
                st.token[sm, after, L.TOKEN_LEFT] -= 1
                if st.token[sm, after, L.TOKEN_LEFT] > 0:
                    return
        return
    if st.warp[w, L.WARP_AGE] == token[L.TOKEN_AGE]:
        if token[L.TOKEN_KIND] == L.STORE_TOKEN:
            st.warp[w, L.WARP_STORES] -= 1
            if st.warp[w, L.WARP_STORES] == 0 and st.warp[w, L.WARP_FENCE] == STORES:
                pass_fence(st, sm, w, now, now + st.par[P.MEMBAR_LATENCY])
        elif token[L.TOKEN_SCOREBOARD] < 6:
            there, turns = now, token[L.TOKEN_TIME]
            if turns > 0:  # H200: 32 to 39 cycles for each of seven loads whose 32 lines another one has asked for
                there = take_data_turns(st, sm, w, now, turns, turns) + turns - 1
            scoreboard_reply(st, sm, w, token[L.TOKEN_SCOREBOARD], there + st.par[P.L1_REPLY], now)
    free_token(st, sm, k)


@compiled
def fill_line(st, sm, k, now):
    """A line request of L1 is answered: its sectors are there, and whoever waits for them hears of it."""
    mshr = st.mshr[sm, k]
    sectors = mshr[L.MSHR_SECTORS]
    way = mshr[L.MSHR_WAY]
    # Another line may have the way since: a sector that was asked for twice is pending only until the first reply.
    if way >= 0 and st.tags[sm, L.TAG_TAG, way] == mshr[L.MSHR_LINE]:
        st.tags[sm, L.TAG_VALID, way] |= sectors
        st.tags[sm, L.TAG_PENDING, way] &= ~sectors
    st.sm[sm, L.SM_OUTSTANDING] -= popc(sectors)
    for n in range(mshr[L.MSHR_COUNT]):
        token_reply(st, sm, mshr[L.MSHR_TOKEN + n], now)
    more = mshr[L.MSHR_MORE]
    while more > 0:
        row = st.waiting[sm, more - 1]
        following = row[L.WAITING_NEXT]
        give_row(st, sm, st.waiting[sm], more - 1, L.SM_WAIT_FREE, L.WAITING_NEXT)
        token_reply(st, sm, row[L.WAITING_TOKEN], now)
        more = following
    mshr[L.MSHR_COUNT] = 0
    give_row(st, sm, st.mshr[sm], k, L.SM_MSHR_FREE, L.MSHR_NEXT)


@compiled
def arrive(st, sm, what, now):
    """Handles one reply from beyond the SM."""
    st.sm[sm, L.SM_IN_FLIGHT] -= 1
    if what & 1 == FOR_MSHR:
        fill_line(st, sm, what >> 1, now)
    else:
        token_reply(st, sm, what >> 1, now)
    go_on(st, sm, now)


@compiled
def next_event(st, sm):
    """Cycle of the SM's next event, NEVER if it is idle for good."""
    smsps = st.par[P.SUB_PARTITIONS]
    earliest = st.event_time[sm, 0] if st.sm[sm, L.SM_EVENTS] > 0 else L.NEVER
    if st.sm[sm, L.SM_WAITING] != 0:
        earliest = min(earliest, st.sm[sm, L.SM_WAIT_ENDS])
    for q in range(sm * smsps, (sm + 1) * smsps):
        earliest = min(earliest, st.smsp[q, L.SMSP_NEXT])
    return earliest


@compiled
def load_row_ahead(row, most):
    """Starts to load the first `most` elements of a row of 64-bit numbers into the host's caches."""
    for k in range(0, most, 8):
        prefetch(row, k)


@compiled
def load_sm_ahead(st, sm, until):
    """Starts to load what the SM needs in a window: since its last one, the others' has taken its place in the host's
    caches."""
    smsps, slots = st.par[P.SUB_PARTITIONS], st.par[P.WARP_SLOTS]
    load_row_ahead(st.sm[sm], L.SM_FIELDS)
    load_row_ahead(st.event[sm], min(st.sm[sm, L.SM_EVENTS], EVENTS_AHEAD))
    load_row_ahead(st.address[sm], 32)
    load_row_ahead(st.touched[sm, 0], 64)
    for q in range(sm * smsps, (sm + 1) * smsps):
        load_row_ahead(st.smsp[q], L.SMSP_FIELDS)
        load_row_ahead(st.block_order[q], slots)
    first = sm * smsps * slots
    for w in range(first, first + smsps * slots):
        load_row_ahead(st.warp[w], L.WARP_FIELDS)
        prefetch(st.preds, 16 * w)
    events = min(st.sm[sm, L.SM_EVENTS], EVENTS_AHEAD)
    for k in range(events):
        if st.event[sm, k] & 1 == FOR_MSHR:
            load_row_ahead(st.mshr[sm, st.event[sm, k] >> 1], L.MSHR_FIELDS)
    for q in range(smsps):
        for slot in range(slots):
            if st.ready[sm * smsps + q, slot] < until:
                w = first + slot * smsps + q
                load_ahead(of_warp(st, w), w, st.warp[w, L.WARP_PC])
    for k in range(events):
        what = st.event[sm, k]
        if what & 1 == FOR_MSHR:
            mshr = st.mshr[sm, what >> 1]
            prefetch(st.token[sm, mshr[L.MSHR_TOKEN]], 0)
            for field in range(L.TAG_USED):
                prefetch(st.tags[sm, field], mshr[L.MSHR_WAY])
        else:
            prefetch(st.token[sm, what >> 1], 0)


@compiled
def advance(st, sm, start, until):
    """Runs one SM from cycle `start` to `until`. Returns the cycle of its next event after that."""
    smsps = st.par[P.SUB_PARTITIONS]
    if next_event(st, sm) < until:
        load_sm_ahead(st, sm, until)
    go_on(st, sm, start)
    now = start
    while True:
        event = next_event(st, sm)
        if st.sm[sm, L.SM_ERROR] != 0:
            st.sm[sm, L.SM_NOW] = now
            return event
        if event >= until:
            # Lines of stores that could leave later may be joined in the next window.
            send_stored(st, sm, until if st.sm[sm, L.SM_WARPS] > 0 else L.NEVER)
            return min(event, first_leaves(st, sm))
        now = max(now, event)
        while st.sm[sm, L.SM_EVENTS] > 0 and st.event_time[sm, 0] <= now:
            arrive(st, sm, pop_event(st, sm), now)
        if st.sm[sm, L.SM_WAITING] != 0 and st.sm[sm, L.SM_WAIT_ENDS] <= now:
            # Looks that have waited for as long as they may see that the phase is not over.
            st.sm[sm, L.SM_WAIT_ENDS] = end_looks(st, sm, np.int64(-1), now, now, np.int64(0))
        k = now % smsps
        for _ in range(smsps):  # each sub-partition is the first to ask for what they share in its turn
            if st.smsp[sm * smsps + k, L.SMSP_NEXT] <= now:
                step(st, sm, k, now)
            k = k + 1 if k + 1 < smsps else 0


@compiled
def advance_range(st, first, last, chunk, start, until):
    """Runs SMs first..last-1 through a window. Returns the earliest event after it."""
    earliest = L.NEVER
    for sm in range(first, last):
        st.sm[sm, L.SM_CHUNK] = chunk
        earliest = min(earliest, advance(st, sm, start, until))
    return np.int64(earliest)
