"""Warps of 64 lanes: two rows of 32, the *halves*, that share a slot of a scheduler and issue as one where they meet.

A half has program counter, lanes, splits, registers and scoreboards of its own, as a warp of 32 has; the second one's
row lies P_OTHER_HALF behind the first one's. The slot, the issue and the line in the instruction buffer are the warp's,
and what is said of them lies in the first half's row; so are the cycles that are charged, and both rows know until when
they have been (`share_time`). W_SIDE says which halves have the slot.

While both are at the same instruction they have it together: it issues once, when both could. Else the half with the
lower program counter goes first, until the other one's is reached: minimum-PC reconvergence, as S. Collange,
"Stack-less SIMT reconvergence at low cost", 2011, proposes it. A half that waits for other warps of its block (barrier,
cluster, host) does not count meanwhile; one that waits for memory keeps the slot, as the warp's one program counter
would. So that the halves may wait for each other in loops, a half that goes round often while the other one could run
lets that go on for a while (PATIENCE, QUANTUM), the sooner if it looks at what others may change.
"""

from gpusim.engine.sm.flight import close_copies
from gpusim.engine.sm.readiness import charge, first_half, make_ready
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled
from isa import microops as M

FIRST, SECOND, BOTH = 1, 2, 3
#: Backward branches of a half alone while the other one could run, as many as `convergence.SPIN_LIMIT`; an atomic, a
#: strong load, a look at an mbarrier and NANOSLEEP stand for several. Then issues of the other half before the order of
#: program counters holds again. (Ours: only what spins, or differs by more rounds of a loop, depends on them.)
PATIENCE = 1024
LOOK = 32
QUANTUM = 64
#: What an instruction of both halves counts once: the most that one of them has counted.
_ONCE = (L.N_REQUESTS, L.N_SHARED_REQUESTS, L.N_BRANCHES, L.N_DIVERGENT)
_DIVERGENT = 3


@compiled
def can_go(st, w):
    """Whether a half has lanes that do not wait for other warps."""
    state = st.warp[w, L.W_STATE]
    waits = state == L.WAIT_BARRIER or state == L.WAIT_CLUSTER or state == L.WAIT_HOST
    return st.warp[w, L.W_ALIVE] != 0 and not waits


@compiled
def running_half(st, w):
    """Row of the half that has the slot of the warp whose first half is w; the first one's if both have it."""
    return w + st.par[L.P_OTHER_HALF] if st.warp[w, L.W_SIDE] == SECOND else w


@compiled
def choose_halves(st, w):
    """Decides which halves issue next, and returns them: FIRST, SECOND, BOTH, or 0 if none can go."""
    other = w + st.par[L.P_OTHER_HALF]
    side = (FIRST if can_go(st, w) else 0) | (SECOND if can_go(st, other) else 0)
    first, second = st.warp[w, L.W_PC], st.warp[other, L.W_PC]
    if side != BOTH or first == second:
        st.warp[w, L.W_TURNS] = 0
    elif st.warp[w, L.W_TURNS] < 0:
        side = st.warp[w, L.W_SIDE]
    else:
        side = FIRST if first < second else SECOND
    st.warp[w, L.W_SIDE] = side
    return side


@compiled
def rounds(st, i, pc):
    """For how many rounds of a loop an instruction counts that leads to `pc`, see PATIENCE."""
    op = st.code[i, M.COL_OP]
    if st.code[i, M.COL_CLASS] == M.CLS_MEMORY:
        strong = op == M.OP_LOAD and st.code[i, M.COL_AUX3] & M.MEM_STRONG != 0
        return LOOK if op == M.OP_ATOM or op == M.OP_SYNCS or strong else 0
    if st.code[i, M.COL_CLASS] == M.CLS_CONTROL and op == M.OP_NANOSLEEP:
        return LOOK
    return 1 if pc <= i else 0


@compiled
def take_turns(st, w, i):
    """One half alone has issued instruction i. Has it gone round often enough, the other one has its turn."""
    side = st.warp[w, L.W_SIDE]
    row = running_half(st, w)
    other = 2 * w + st.par[L.P_OTHER_HALF] - row
    if side == BOTH or not can_go(st, other):
        return
    if st.warp[w, L.W_TURNS] < 0:
        st.warp[w, L.W_TURNS] += 1
    else:
        st.warp[w, L.W_TURNS] += rounds(st, i, st.warp[row, L.W_PC])
        if st.warp[w, L.W_TURNS] >= PATIENCE:
            st.warp[w, L.W_TURNS] = -QUANTUM
            st.warp[w, L.W_SIDE] = BOTH - side


@compiled
def may_go_on(st, w, fixed, until, reason):
    """A half may issue again from `until` on; it waits until `fixed` for a fixed time, and then for `reason`."""
    st.warp[w, L.W_FIXED] = fixed
    st.warp[w, L.W_NEXT] = until
    st.warp[w, L.W_WHY] = reason


@compiled
def share_time(st, w):
    """One half of the warp whose first half is w may have been charged some time: the other one is not any more."""
    other = w + st.par[L.P_OTHER_HALF]
    since = max(st.warp[w, L.W_SINCE], st.warp[other, L.W_SINCE])
    st.warp[w, L.W_SINCE] = since
    st.warp[other, L.W_SINCE] = since
    return since


@compiled
def ready_halves(st, sm, q, slot, w, now):
    """As `make_ready`, for the halves that have the slot of the warp whose first half is w."""
    side = st.warp[w, L.W_SIDE]
    time = max(now, share_time(st, w))
    for half in range(2):
        row = w + half * st.par[L.P_OTHER_HALF]
        if (side >> half) & 1 and st.warp[row, L.W_STATE] == L.WAIT_MEMBAR:
            st.ready[q, slot] = L.NEVER
            return
    for half in range(2):
        row = w + half * st.par[L.P_OTHER_HALF]
        if (side >> half) & 1:
            charge(st, sm, row, L.R_WAIT, st.warp[row, L.W_FIXED])
            charge(st, sm, row, st.warp[row, L.W_WHY], st.warp[row, L.W_NEXT])
            time = max(time, st.warp[row, L.W_NEXT], st.warp[row, L.W_SINCE])
            st.warp[row, L.W_LINE] = st.warp[w, L.W_LINE]
            make_ready(st, sm, q, slot, row, now, time)
            st.warp[w, L.W_LINE] = st.warp[row, L.W_LINE]
            share_time(st, w)
            if st.warp[row, L.W_STATE] != L.RUNNING:
                return
            time = st.ready[q, slot]


@compiled
def look_again(st, sm, w, now):
    """Works out when the warp in whose rows w lies may issue, from `now` on."""
    parts = st.par[L.P_SUB_PARTITIONS]
    first = first_half(st, w)
    local = first - sm * parts * st.par[L.P_WARP_SLOTS]
    q = sm * parts + local % parts
    if st.par[L.P_OTHER_HALF] == 0:
        make_ready(st, sm, q, local // parts, w, now, now)
    else:
        ready_halves(st, sm, q, local // parts, first, now)


@compiled
def wake(st, sm, w, now):
    """Something that the warp, or one half of it, waited for has happened: charge the wait and look again."""
    if st.par[L.P_OTHER_HALF] != 0:
        called = st.warp[w, L.W_STATE] == L.WAIT_HOST
        st.warp[w, L.W_STATE] = L.RUNNING
        if called:
            first = first_half(st, w)
            other = 2 * first + st.par[L.P_OTHER_HALF] - w
            if st.warp[first, L.W_SIDE] != 0 or st.warp[other, L.W_STATE] == L.WAIT_HOST:
                return  # the other half runs, or its answer comes next
            choose_halves(st, first)
    charge(st, sm, w, st.warp[w, L.W_REASON], now)
    look_again(st, sm, w, now)


@compiled
def let_half_go(st, w, time):
    """A barrier has opened for a half; `wake_halves` follows when that is known of both."""
    st.warp[w, L.W_STATE] = L.RUNNING
    may_go_on(st, w, 0, time, L.R_BARRIER)


@compiled
def wake_halves(st, sm, w, time):
    """If both halves of a warp have waited for a barrier, and one waits no longer, the warp goes on at `time`."""
    if st.warp[w, L.W_SIDE] == 0 and choose_halves(st, w) != 0:
        charge(st, sm, running_half(st, w), L.R_BARRIER, time)
        look_again(st, sm, w, time)


@compiled
def fence_over(st, sm, w, after, now):
    """The stores that a half's MEMBAR waits for are done: it may go on at `after`."""
    st.warp[w, L.W_STATE] = L.RUNNING
    may_go_on(st, w, 0, after, L.R_MEMBAR)
    first = first_half(st, w)
    if st.warp[first, L.W_SIDE] & (FIRST if w == first else SECOND) != 0:
        charge(st, sm, w, L.R_MEMBAR, after)
        look_again(st, sm, w, now)


@compiled
def settle(st, sm, q, slot, w, i, time):
    """After an issue: who has the slot next, and from when on."""
    take_turns(st, w, i)
    if choose_halves(st, w) == 0:
        st.ready[q, slot] = L.NEVER
    else:
        ready_halves(st, sm, q, slot, w, time)


@compiled
def held(st, w):
    """Memory instructions of the warp whose first half is w that wait for the way beyond the SM."""
    other = st.par[L.P_OTHER_HALF]
    return st.warp[w, L.W_HELD] + (st.warp[w + other, L.W_HELD] if other != 0 else 0)


@compiled
def end_other_half(st, sm, w, time):
    """The warp whose first half is w has ended: its second half's row is free."""
    other = w + st.par[L.P_OTHER_HALF]
    st.warp[other, L.W_STATE] = L.FREE
    st.warp[other, L.W_AGE] = -1
    st.warp[other, L.W_BLOCK] = -1
    if st.warp[other, L.W_COPIES] != 0:
        close_copies(st, sm, other, time, 7)
    st.warp[w, L.W_DRAINED] = max(st.warp[w, L.W_DRAINED], st.warp[other, L.W_DRAINED])


# --- counts of an instruction that both halves issue -----------------------------------------------------------------
@compiled
def begin_count(st, sm, i):
    """Before the first half executes instruction i."""
    line = st.line[st.sm[sm, L.S_CHUNK], i]
    for k in range(len(_ONCE)):
        st.sm[sm, L.S_BEFORE + k] = line[_ONCE[k]]


@compiled
def count_first(st, sm, i):
    """Between the two: what the first half has counted is taken back, and kept."""
    line = st.line[st.sm[sm, L.S_CHUNK], i]
    for k in range(len(_ONCE)):
        before = st.sm[sm, L.S_BEFORE + k]
        st.sm[sm, L.S_COUNTED + k] = line[_ONCE[k]] - before
        line[_ONCE[k]] = before


@compiled
def count_both(st, sm, w, i):
    """After the second one: a branch by which the halves part has diverged."""
    line = st.line[st.sm[sm, L.S_CHUNK], i]
    for k in range(len(_ONCE)):
        before = st.sm[sm, L.S_BEFORE + k]
        line[_ONCE[k]] = before + max(st.sm[sm, L.S_COUNTED + k], line[_ONCE[k]] - before)
    branched = line[L.N_BRANCHES] > st.sm[sm, L.S_BEFORE + _DIVERGENT - 1]
    part = st.warp[w, L.W_PC] != st.warp[w + st.par[L.P_OTHER_HALF], L.W_PC]
    if branched and part and line[L.N_DIVERGENT] == st.sm[sm, L.S_BEFORE + _DIVERGENT]:
        line[L.N_DIVERGENT] += 1
