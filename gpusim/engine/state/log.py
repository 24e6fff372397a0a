"""The SM's log of chosen warps while it runs, for `gpusim.tracing`: a row for each event.

Every SM has rows of its own, so what is written does not depend on the number of host threads; the host takes them
away between lookahead windows (`tracing.recorder`). Nothing here changes what the machine does.
"""

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.engine.state import parameters as P
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled
from isa import microops as M

#: Bits of SM_LOG: some of the SM's blocks are logged; all are; what a tracer on a GPU sees (`tracing.accel_sim`): no
#: stalls, but addresses of all lanes; values of registers are not logged any more. STOPS, alone: nothing is logged, but
#: a warp may stop the run (`engine.stop`).
SOME_BLOCKS, WHOLE_SM, AS_TRACER, NO_VALUES, STOPS = 1, 2, 4, 8, 16
#: Rows that blocks may need that end and start between two looks at the room.
BLOCK_ROWS = 256
#: EVENT_ACCESS of an issue without addresses, and of one whose addresses are wanted if it has any.
NO_ADDRESSES, ADDRESSES_WANTED = -1, -2
PREDICATES = 7  # that an instruction can write: P0 to P6
#: What an issue costs: column of its row, counter of its instruction.
_COSTS = (
    (L.EVENT_WAVEFRONTS, L.COUNT_SHARED_WAVEFRONTS), (L.EVENT_IDEAL, L.COUNT_SHARED_IDEAL),
    (L.EVENT_SECTORS, L.COUNT_SECTORS), (L.EVENT_LINES, L.COUNT_TAGS), (L.EVENT_DIVERGENT, L.COUNT_DIVERGENT),
)  # fmt: skip


@compiled
def log_block(st, sm, number, time):
    """A block becomes resident."""
    st.life[number, 0] = sm
    st.life[number, 1] = time
    if st.wanted[number] != 0:
        st.sm[sm, L.SM_LOG] |= SOME_BLOCKS


@compiled
def new_row(st, sm, w, kind):
    """Number of the SM's next row, about warp w. There is room: a warp has at most a row for each of its cycles."""
    n = min(st.sm[sm, L.SM_LOGGED], st.log.shape[1] - 1)
    st.sm[sm, L.SM_LOGGED] += 1
    st.log[sm, n, L.EVENT_KIND] = kind
    st.log[sm, n, L.EVENT_WARP] = st.warp[w, L.WARP_LOGGED] - 1
    return n


@compiled
def log_start(st, sm, q, slot, w, block, time):
    """A warp becomes resident: decides whether it is logged."""
    if st.sm[sm, L.SM_LOG] == STOPS:
        return
    number = st.block[sm, block, L.BLOCK_NUMBER]
    if st.sm[sm, L.SM_LOG] & WHOLE_SM == 0 and st.wanted[number] == 0:
        return
    st.warp[w, L.WARP_LOGGED] = number * st.par[P.WARPS] + st.warp[w, L.WARP_INDEX] + 1
    row = st.log[sm, new_row(st, sm, w, L.LOG_START)]
    row[L.EVENT_START] = time
    row[L.EVENT_SMSP] = q % st.par[P.SUB_PARTITIONS]
    row[L.EVENT_SLOT] = slot


@compiled
def log_end(st, sm, w, time):
    """A warp has ended."""
    if st.warp[w, L.WARP_LOGGED] != 0:
        st.log[sm, new_row(st, sm, w, L.LOG_END), L.EVENT_END] = time


@compiled
def log_stall(st, sm, w, reason, since, until):
    """A warp waits."""
    if st.warp[w, L.WARP_LOGGED] == 0 or st.sm[sm, L.SM_LOG] & AS_TRACER:
        return
    row = st.log[sm, new_row(st, sm, w, L.LOG_STALL)]
    row[L.EVENT_START] = since
    row[L.EVENT_END] = until
    row[L.EVENT_REASON] = reason
    row[L.EVENT_PC] = st.warp[w, L.WARP_PC]


@compiled
def log_room(st, sm):
    """Instructions that an SM can log before its rows are taken away, where that is not after every window."""
    if st.sm[sm, L.SM_LOG] == STOPS:
        return L.NEVER
    rows = st.log.shape[1] - BLOCK_ROWS - st.sm[sm, L.SM_LOGGED]
    return max(min(rows, st.log_lanes.shape[1] - st.sm[sm, L.SM_LOG_LANES]), 0)


@compiled
def new_lanes(st, sm):
    """Number of the SM's next row of addresses."""
    k = min(st.sm[sm, L.SM_LOG_LANES], st.log_lanes.shape[1] - 1)
    st.sm[sm, L.SM_LOG_LANES] += 1
    return k


# many parameters: an issue, as the row says it.
@compiled
def log_issue(st, sm, q, slot, w, i, active, guarded, executed, time):
    """A warp issues instruction i; what it costs is added by `log_costs`, its addresses by `log_addresses`."""
    if st.warp[w, L.WARP_LOGGED] == 0:
        return
    n = new_row(st, sm, w, L.LOG_ISSUE)
    st.sm[sm, L.SM_LOG_ROW] = n + 1
    row = st.log[sm, n]
    row[L.EVENT_START] = time
    row[L.EVENT_PC] = i
    row[L.EVENT_SMSP] = q % st.par[P.SUB_PARTITIONS]
    row[L.EVENT_SLOT] = slot
    row[L.EVENT_ACTIVE] = active
    row[L.EVENT_GUARDED] = guarded
    row[L.EVENT_EXECUTED] = executed
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    for column, counter in _COSTS:
        row[column] = -counts[counter]
    row[L.EVENT_LOCAL] = 0
    wanted = st.wanted[st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_NUMBER]]
    row[L.EVENT_ACCESS] = ADDRESSES_WANTED if wanted != 0 else NO_ADDRESSES
    if wanted != 0 and st.log_before.shape[1] > 1 and st.sm[sm, L.SM_LOG] & (AS_TRACER | NO_VALUES) == 0:
        log_values(st, sm, w, (wanted - 1) * st.par[P.WARPS] + st.warp[w, L.WARP_INDEX], time)


@compiled
def log_values(st, sm, w, k, time):
    """Log registers and predicates of a warp that have changed since its last issue: a row for each, so results that
    come late need no care. k: its row of `log_before`. A third of the rows of lanes is kept for addresses; what finds
    no place in the others is logged at a later issue."""
    before = st.log_before[k]
    count = before.shape[0] - 1
    first = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
    for r in range(count + 1):
        changed = np.uint32(0)
        if r < count:
            for lane in range(32):
                changed |= before[r, lane] ^ st.regs[first + 32 * r + lane]
        else:
            for p in range(PREDICATES):
                changed |= before[r, p] ^ st.preds[16 * w + p]
        if changed == 0 or 3 * st.sm[sm, L.SM_LOG_LANES] >= 2 * st.log_lanes.shape[1]:
            continue
        for lane in range(32 if r < count else PREDICATES):
            before[r, lane] = st.regs[first + 32 * r + lane] if r < count else st.preds[16 * w + lane]
        lanes = new_lanes(st, sm)
        for lane in range(32):
            st.log_lanes[sm, lanes, lane] = before[r, lane]
        row = st.log[sm, new_row(st, sm, w, L.LOG_VALUE)]
        row[L.EVENT_START] = time
        row[L.EVENT_REGISTER] = r
        row[L.EVENT_ACCESS] = lanes


@compiled
def log_costs(st, sm, i):
    """The instruction of the last `log_issue` has been executed: what its counters have grown by is its cost."""
    row = st.log[sm, st.sm[sm, L.SM_LOG_ROW] - 1]
    st.sm[sm, L.SM_LOG_ROW] = 0
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    for column, counter in _COSTS:
        row[column] += counts[counter]


@compiled
def log_local(st, sm, count):
    """The access is to local memory, and touches `count` lines: no counter of the instruction says so."""
    row = st.log[sm, st.sm[sm, L.SM_LOG_ROW] - 1]
    row[L.EVENT_LOCAL] = 1
    row[L.EVENT_LINES] += count
    for n in range(count):
        row[L.EVENT_SECTORS] += popc(st.touched[sm, n, 1])


@compiled
def log_addresses(st, sm, i, mask):
    """st.address holds what the lanes in `mask` access."""
    row = st.log[sm, st.sm[sm, L.SM_LOG_ROW] - 1]
    if row[L.EVENT_ACCESS] == NO_ADDRESSES:
        return
    k = row[L.EVENT_ACCESS]
    if k < 0:
        k = row[L.EVENT_ACCESS] = new_lanes(st, sm)
        st.log_lanes[sm, k, :] = -1
    lanes = np.int64(mask)
    matrices = st.code[i, M.COL_OP] == M.OP_LDSM or st.code[i, M.COL_OP] == M.OP_STSM
    if matrices and st.sm[sm, L.SM_LOG] & AS_TRACER == 0:
        lanes &= (np.int64(1) << (8 * np.int64(st.code[i, M.COL_AUX5] & 255))) - 1  # those that name a row of a matrix
    for lane in range(32):
        if (lanes >> lane) & 1:
            st.log_lanes[sm, k, lane] = st.address[sm, lane]
