"""The block dispatcher: hands the blocks of a grid to SMs in order, and refills them as blocks finish.

Blocks go out one per `launch.block_interval_cycles` over the whole GPU, first one to each SM, then a second, and so on;
later each finished block makes room for the next one. Decisions are taken between lookahead windows, in order of time.
"""

import numpy as np

from gpusim.engine import layout as L
from gpusim.engine.jit import compiled

# --- state of the dispatcher ------------------------------------------------------------------------------------------
G_NEXT, G_TOTAL, G_FREE_AT, G_RUNNING, G_AGE, G_PLACED, G_FIELDS = range(7)
#: The dispatcher's clock counts in 1/256 cycles, since it hands out a block every 1.19 cycles.
FRACTION = 256


@compiled
def place_block(st, grid, sm, slot, time):
    """Starts the grid's next block in a free block slot of an SM; its first warp may issue from `time` on."""
    par = st.par
    number = grid[G_NEXT]
    grid[G_NEXT] += 1
    grid[G_RUNNING] += 1
    b = st.block[sm, slot]
    b[:] = 0
    b[L.B_STATE] = 1
    b[L.B_NUMBER] = number
    b[L.B_X] = number % par[L.P_GRID_X]
    b[L.B_Y] = (number // par[L.P_GRID_X]) % par[L.P_GRID_Y]
    b[L.B_Z] = number // (par[L.P_GRID_X] * par[L.P_GRID_Y])
    b[L.B_WARPS_LEFT] = par[L.P_WARPS]
    b[L.B_ALIVE] = par[L.P_THREADS]
    b[L.B_START] = time
    for barrier in range(16):
        b[L.B_REDUCED + barrier] = -1
    s = st.sm[sm]
    if s[L.S_BLOCKS] == 0:
        s[L.S_ACTIVE_SINCE] = time
    s[L.S_BLOCKS] += 1
    s[L.S_LAUNCHED] += 1
    parts = par[L.P_SUB_PARTITIONS]
    for index in range(par[L.P_WARPS]):
        part = 0
        for k in range(1, parts):  # the emptiest sub-partition, the first of equals
            if st.part[sm * parts + k, L.Q_WARPS] < st.part[sm * parts + part, L.Q_WARPS]:
                part = k
        start_warp(st, grid, sm, sm * parts + part, slot, index, time + index // parts * par[L.P_WARP_LAUNCH])


@compiled
def start_warp(st, grid, sm, q, block, index, time):
    """Makes warp `index` of a block resident in sub-partition q; all registers are zero."""
    par = st.par
    parts = par[L.P_SUB_PARTITIONS]
    slots = par[L.P_WARP_SLOTS]
    slot = 0
    while st.warp[(sm * slots + slot) * parts + q % parts, L.W_STATE] != L.FREE:
        slot += 1
    w = (sm * slots + slot) * parts + q % parts
    lanes = min(par[L.P_THREADS] - 32 * index, 32)
    mask = (1 << lanes) - 1
    warp = st.warp[w]
    warp[:] = 0
    warp[L.W_STATE] = L.RUNNING
    warp[L.W_ACTIVE] = mask
    warp[L.W_ALIVE] = mask
    warp[L.W_BLOCK] = block
    warp[L.W_INDEX] = index
    warp[L.W_AGE] = grid[G_AGE]
    warp[L.W_SINCE] = time
    warp[L.W_START] = time
    warp[L.W_LINE] = -1
    grid[G_AGE] += 1
    st.split[w, :] = 0
    rows = par[L.P_ROWS_PER_WARP]
    first = 32 * (par[L.P_CONST_ROWS] + w * rows)
    st.regs[first : first + 32 * rows] = 0
    st.preds[16 * w : 16 * w + 16] = 0
    st.preds[16 * w + 7] = 0xFFFFFFFF
    st.preds[16 * w + 15] = 0xFFFFFFFF
    # The first instruction line is asked for when the warp first comes up, so that requests stay in order of time.
    st.ready[q, slot] = time
    st.part[q, L.Q_NEXT] = min(st.part[q, L.Q_NEXT], time)
    st.part[q, L.Q_WARPS] += 1
    st.sm[sm, L.S_WARPS] += 1


@compiled
def handed_out(grid, earliest, interval):
    """Cycle at which the dispatcher hands out its next block, not before `earliest`."""
    start = max(grid[G_FREE_AT], earliest * FRACTION)
    grid[G_FREE_AT] = start + interval
    return start // FRACTION


@compiled
def fill(st, grid, now, order, interval):
    """First wave: a block to each SM in turn (in `order`) until all are full or the grid is used up."""
    for slot in range(st.par[L.P_BLOCK_SLOTS]):
        for k in range(order.size):
            if grid[G_NEXT] >= grid[G_TOTAL]:
                return
            time = handed_out(grid, now, interval) + st.par[L.P_BLOCK_LAUNCH]
            place_block(st, grid, order[k], slot, time)


@compiled
def refill(st, grid, now, interval):
    """Blocks that finished in the last window, in order of time, make room for the next ones."""
    while True:
        first = -1
        earliest = L.NEVER
        for sm in range(st.sm.shape[0]):
            n = st.sm[sm, L.S_DONE_SEEN]
            if n < st.sm[sm, L.S_DONE] and st.done[sm, n, 0] < earliest:
                earliest = st.done[sm, n, 0]
                first = sm
        if first < 0:
            break
        n = st.sm[first, L.S_DONE_SEEN]
        st.sm[first, L.S_DONE_SEEN] = n + 1
        slot = st.done[first, n, 1]
        st.block[first, slot, L.B_STATE] = 0
        grid[G_RUNNING] -= 1
        if grid[G_NEXT] < grid[G_TOTAL]:
            time = handed_out(grid, earliest + st.par[L.P_REFILL], interval) + st.par[L.P_BLOCK_LAUNCH]
            place_block(st, grid, first, slot, max(time, now))
    for sm in range(st.sm.shape[0]):
        st.sm[sm, L.S_DONE] = 0
        st.sm[sm, L.S_DONE_SEEN] = 0
    return np.int64(grid[G_RUNNING])
