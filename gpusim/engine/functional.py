"""Functional runs: the same instructions, executed and counted, but nothing takes time.

A warp runs until it ends or waits for others, or for a turn; then the next one does. Blocks take the places of others
on one SM, as long as they get on: their registers and shared memory stay in the host's caches. When none of the SM's
blocks ends for long, more SMs get theirs, so that blocks that wait for each other meet as on a GPU. Where all blocks of
the grid find room at once they have it from the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager

import numpy as np

from gpusim.engine import dispatcher as D
from gpusim.engine.endless import EndlessWatch
from gpusim.engine.grid import CyclesUsedUp, Grid, MachineStopped, NothingMoves
from gpusim.engine.host_calls import asked, sm_of
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.rows.common import FULL_MASK
from gpusim.engine.sm.admission import BULK_ROOM
from gpusim.engine.sm.cluster import open_barriers
from gpusim.engine.sm.execute import compute
from gpusim.engine.sm.flight import pop_event
from gpusim.engine.sm.mbarrier import end_looks
from gpusim.engine.sm.readiness import all_warps, place_of, wake
from gpusim.engine.sm.run_warp import clear_lanes, counted_lanes, finish_warp, run_instruction, stays
from gpusim.engine.sm.sm import arrive
from gpusim.engine.state import L, P, compiled, ms
from gpusim.engine.state.arrays import State
from gpusim.engine.state.log import log_room
from gpusim.engine.straight import run_at
from isa import microops as M

TURN, ROUND = 1024, 1 << 14
"""Instructions that a warp runs before others of its SM do, and those of an SM, at least, before other SMs go on."""
STEP = 64  # instructions of a warp before others go on, where all blocks are to be about as far
PATIENCE = 64  # rounds without a block's end after which another SM gets blocks
_SOME = 16  # SMs whose requests stand for those of all
_CALL = 1 << 22  # from one look of the host to the next


@compiled
def take_replies(st, sm):
    """Deliver the replies to all that was asked for."""
    while st.sm[sm, L.SM_EVENTS] > 0:
        now = st.event_time[sm, 0]
        arrive(st, sm, pop_event(st, sm), now)


@compiled
def run_plain(st, sm, w, most):
    """Runs a warp as far as `run_instruction` is not needed: a straight run, if it has been compiled, else what only
    computes, up to the next other instruction. Returns how many instructions it was."""
    warp, s, code = st.warp[w], st.sm[sm], st.code
    if s[L.SM_LOG] != 0 or s[L.SM_LOG_ROW] != 0:
        return np.int64(0)
    first, active = warp[L.WARP_PC], np.uint32(warp[L.WARP_ACTIVE])
    i, wb, address = first, 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP]), st.runs[first, L.RUN_ADDRESS]
    if address != 0 and active == FULL_MASK and st.par[P.CLUSTER_BLOCKS] | st.par[P.CHECKS] == 0:
        i += run_at(address, st, np.int64(sm), np.int64(w))
        st.counters[s[L.SM_CHUNK], first, L.COUNT_RUNS] += s[L.SM_ERROR] == 0
    else:
        while i == first or st.runs[i, L.RUN_WITHIN] != 0 or (i < first + most and st.runs[i, L.RUN_ADDRESS] == 0):
            cls = code[i, M.COL_CLASS]
            if not M.CLS_INT <= cls <= M.CLS_TENSOR or cls == M.CLS_CROSS or code[i, M.COL_OP] == M.OP_GMMA:
                break
            compute(st, sm, w, i, wb, counted_lanes(st, sm, w, i, active), cls)
            i += 1
    warp[L.WARP_PC] = i
    warp[L.WARP_SINCE] += i - first
    s[L.SM_ISSUED] += i - first
    return i - first


@compiled
def run_warp(st, sm, w, most):
    """Runs a warp, `most` instructions at most. Returns how many it was. Its time counts its instructions."""
    q, slot = place_of(st, sm, w)
    if st.warp[w, L.WARP_FETCHED] < 0:
        clear_lanes(st, sm, w)
        st.warp[w, L.WARP_FETCHED] = 0
    if st.sm[sm, L.SM_LOG] != 0:
        most = min(most, log_room(st, sm))
    n = np.int64(0)
    whole = st.sm[sm, L.SM_LOG] == 0  # a turn ends at the ends of straight runs, as if all of them were compiled
    while True:
        within = whole and st.runs[st.warp[w, L.WARP_PC], L.RUN_WITHIN] != 0
        if not within and (n >= most or st.requests[sm] + BULK_ROOM > st.request.shape[1]):  # kept for L2
            return n
        done = run_plain(st, sm, w, most - n)
        n += done
        if st.sm[sm, L.SM_ERROR] != 0:
            return n
        if done > 0:
            continue
        i = st.warp[w, L.WARP_PC]
        time = st.warp[w, L.WARP_SINCE]
        _, _, runs = run_instruction(st, sm, q, slot, w, i, time)
        take_replies(st, sm)
        n += 1
        if st.warp[w, L.WARP_ALIVE] == 0:
            finish_warp(st, sm, q, slot, w, time)
            return n
        if not runs and st.warp[w, L.WARP_STATE] == L.RUNNING:
            stays(st, sm, q, slot, w, i)
        if not runs or st.sm[sm, L.SM_ERROR] != 0:
            return n


@compiled
def run_sm(st, sm, turn, most):
    """Runs the warps of an SM in turn until all have ended or wait, or for `most` instructions and some more."""
    done = np.int64(0)
    while True:
        before = done
        take_replies(st, sm)  # what other SMs have told mbarriers of this one
        for w in all_warps(st, sm):
            if st.warp[w, L.WARP_STATE] == L.RUNNING:
                done += run_warp(st, sm, w, turn)
                if st.sm[sm, L.SM_ERROR] != 0:
                    return done
        if done == before or done >= most:
            return done


@compiled
def run_grid(st, dispatch, seats, clock, turn, each, most):
    """Runs the blocks of a grid that are on SMs, and those that take their places, for some `most` instructions: a warp
    `turn` of them before the next one does, an SM `each` or some more.

    Returns how many it was: none if all blocks wait for the host or for ever. Less where an SM has no room to log more.
    """
    grid = dispatch[0]
    done = np.int64(0)
    full = False
    while done < most and grid[D.G_RUNNING] > 0 and not full:
        before = done
        left = grid[D.G_RUNNING] + grid[D.G_TOTAL] - grid[D.G_NEXT]
        idle = -1
        for sm in range(st.sm.shape[0]):
            if st.sm[sm, L.SM_BLOCKS] > 0:
                done += run_sm(st, sm, turn, each)
                if st.sm[sm, L.SM_ERROR] != 0:
                    return done
                full |= st.sm[sm, L.SM_LOG] != 0 and log_room(st, sm) == 0
            elif idle < 0:
                idle = sm
        D.refill(st, dispatch, seats, clock, 0, 0)
        grid[D.G_PATIENCE] += 1
        if left > grid[D.G_RUNNING] + grid[D.G_TOTAL] - grid[D.G_NEXT]:
            grid[D.G_PATIENCE] = 0
        if st.par[P.CLUSTER_BLOCKS] > 0:
            open_barriers(st, 0)
        elif idle >= 0 and (grid[D.G_PATIENCE] >= PATIENCE or done == before):
            D.place_blocks(st, grid, idle, L.NEVER, 0)
            grid[D.G_PATIENCE] = 0
        if done == before and (idle < 0 or grid[D.G_NEXT] == grid[D.G_TOTAL]):
            break
    return done


def run_functionally(
    parts: Sequence[Grid],
    together: bool,
    faults: Callable[[Grid], AbstractContextManager[None]],
    submit: Callable[..., Future[int]],
    look: Callable[[np.ndarray, int], None],
    system: MemorySystem | None = None,
    in_step: bool = False,
) -> None:
    """Runs a grid to its end, all blocks `together` or, if they may be, one after the other. Raises what `faults` makes
    of what `Engine.wait` raises; `max_cycles` is the most instructions of a warp.

    parts: of the grid, each with a state of its own; several if blocks have nothing to do with each other. submit: runs
    them on host threads. look: called now and then with a part's counters, and how many instructions it was since.
    system: whose L2 gets the grid's requests, if they are kept, from blocks on SMs all over the GPU, in an order that
    does not depend on threads; in_step: about that of a run in time.
    """
    turn, most = (STEP, 1) if in_step else (TURN, ROUND)
    some = 1 if system is not None else _CALL
    under_way = deque(
        (grid, begun, submit(run_grid, *begun, turn, most, some))
        for grid, begun in [(grid, _begun(grid, together or in_step, system)) for grid in parts]
    )
    try:
        while under_way:
            grid, begun, running = under_way[0]
            count = running.result()
            with faults(grid):
                look(grid.state.counters, count)
                _looked_at(grid, count, system)
            under_way.popleft()
            if grid.dispatch[D.G_RUNNING] > 0:
                under_way.append((grid, begun, submit(run_grid, *begun, turn, most, some)))
    finally:
        wait(each[-1] for each in under_way)  # an interrupt, too, finds no thread that still writes to memory


def _begun(grid: Grid, together: bool, system: MemorySystem | None) -> tuple[State, np.ndarray, np.ndarray, np.ndarray]:
    """Hands out the first blocks of a part. Returns what `run_grid` takes."""
    state = grid.state
    table, seats, clock = np.zeros((1, D.G_FIELDS), np.int64), np.zeros(1, np.int64), np.zeros(D.C_FIELDS, np.int64)
    dispatch = grid.dispatch = table[0]
    dispatch[D.G_NEXT], dispatch[D.G_TOTAL] = grid.begins, grid.begins + grid.blocks
    grid.watch = EndlessWatch.of(state, dispatch) if grid.watched else None
    grid.memory = [np.zeros(ms.COUNTERS, np.int64)]
    grid.counted = int(state.counters[:, :, L.COUNT_EXECUTED].sum())
    total, sms = grid.blocks, int(state.par[P.SM_COUNT])
    room = sms * int(state.par[P.RESIDENT])
    if grid.recorder is not None:
        grid.recorder.begin(state)
        room = 0  # a recorder keeps what blocks do that have not ended: as few as can be
    if together or state.par[P.CLUSTER_BLOCKS] > 0 or (total <= room and system is None):
        D.fill(state, dispatch, clock, 0, np.arange(min(total, room)) % sms, 0)
    else:
        for sm in range(0, sms if system is not None else 1, max(sms // _SOME, 1)):
            D.place_blocks(state, dispatch, sm, L.NEVER, 0)
    return state, table, seats, clock


def _end_looks(grid: Grid) -> bool:
    """Where nothing moves, looks at mbarriers end without their phase, as after their time on a GPU: a thread may look
    before it does itself what ends the phase. False if there are none, or only those that have ended in vain."""
    state, waiting = grid.state, np.flatnonzero(grid.state.sm[:, L.SM_WAITING])
    looks = np.sort(state.token[:, :, [L.TOKEN_ADDRESS, L.TOKEN_BLOCK]], axis=1).tobytes()
    if not waiting.size or looks == grid.ended_looks:
        return False
    grid.ended_looks = looks
    for sm in waiting:
        end_looks(state, int(sm), -1, L.NEVER, 0, 0)
    return True


def _looked_at(grid: Grid, done: int, system: MemorySystem | None) -> None:
    """Does for a part, between calls of `run_grid`, what the host has to do. done: instructions of the last call."""
    state, dispatch = grid.state, grid.dispatch
    if system is not None:
        grid.memory[0] += system.warm_up(state.request, state.requests)
    if grid.recorder is not None:
        done += int(state.sm[:, L.SM_LOGGED].sum())  # whose room may have been all that it waited for
        grid.recorder.collect(state, 0)
    stopped = np.flatnonzero(state.sm[:, L.SM_ERROR])
    if stopped.size:
        raise MachineStopped(int(stopped[0]))
    if grid.host is not None and (warps := asked(state)).size:
        grid.host(state, warps)
        for w in warps:
            wake(state, sm_of(state, int(w)), int(w), int(state.warp[w, L.WARP_SINCE]))
    elif not done and not _end_looks(grid):
        raise NothingMoves(int(state.warp[:, L.WARP_SINCE].max()))
    if grid.watch is not None:
        grid.watch.look()
    running = state.warp[:, L.WARP_STATE] != L.FREE
    longest = (state.warp[:, L.WARP_SINCE] - state.warp[:, L.WARP_START])[running].max(initial=0)
    grid.tell(int(longest), int(dispatch[D.G_NEXT] - dispatch[D.G_RUNNING]))
    if grid.max_cycles is not None and longest > grid.max_cycles:
        raise CyclesUsedUp
