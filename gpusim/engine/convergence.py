"""Divergence and reconvergence of a warp: which of its lanes run, and where the others are.

Every lane has its own program counter (Volta and later). The lanes that run together are the warp's active mask; the
others are either in a *split* (a group with one program counter that could run, or waits at a block barrier) or wait at
a convergence barrier B0..B15. BSSY names who must meet, BSYNC waits for them, BREAK and EXIT take lanes out, and YIELD
lets lanes that wait go ahead of those that spin, which is what makes a lock between the lanes of one warp end.
Semantics after "Control Flow Management in Modern GPUs" (arXiv 2407.02944) and the convergence-barrier patent
US 2016/0019066 A1: a barrier opens when each of its members has arrived, left or yielded.
"""


from gpusim.engine.jit import compiled
from gpusim.engine.layout import (
    CONVERGENCE_BARRIERS,
    D_COUNT,
    D_MASK,
    D_MEMBERS,
    D_PC,
    D_RESUME,
    D_SPIN,
    D_STATE,
    D_WAITING,
    D_YIELDED,
    SPLIT_AT_BARRIER,
    SPLIT_READY,
    W_ACTIVE,
    W_ALIVE,
    W_PC,
)

#: Backward branches a group may take while another one is ready, before they change places: forward progress for
#: loops that spin without a YIELD. Only the order of independent groups depends on it.
SPIN_LIMIT = 1024


@compiled
def push(split, w, pc, mask, state):
    """Adds a split on top."""
    n = split[w, D_COUNT]
    split[w, D_PC + n] = pc
    split[w, D_MASK + n] = mask
    split[w, D_STATE + n] = state
    split[w, D_COUNT] = n + 1


@compiled
def push_bottom(split, w, pc, mask):
    """Adds a ready split below all others."""
    n = split[w, D_COUNT]
    for k in range(n, 0, -1):
        split[w, D_PC + k] = split[w, D_PC + k - 1]
        split[w, D_MASK + k] = split[w, D_MASK + k - 1]
        split[w, D_STATE + k] = split[w, D_STATE + k - 1]
    split[w, D_PC] = pc
    split[w, D_MASK] = mask
    split[w, D_STATE] = SPLIT_READY
    split[w, D_COUNT] = n + 1


@compiled
def remove(split, w, k):
    """Takes split k out of the list."""
    n = split[w, D_COUNT] - 1
    for j in range(k, n):
        split[w, D_PC + j] = split[w, D_PC + j + 1]
        split[w, D_MASK + j] = split[w, D_MASK + j + 1]
        split[w, D_STATE + j] = split[w, D_STATE + j + 1]
    split[w, D_COUNT] = n


@compiled
def pick(warp, split, w):
    """Makes the topmost ready split the running one. False if there is none."""
    for k in range(split[w, D_COUNT] - 1, -1, -1):
        if split[w, D_STATE + k] == SPLIT_READY:
            warp[w, W_PC] = split[w, D_PC + k]
            warp[w, W_ACTIVE] = split[w, D_MASK + k]
            split[w, D_YIELDED] &= ~split[w, D_MASK + k]
            split[w, D_SPIN] = 0
            remove(split, w, k)
            return True
    return False


@compiled
def any_ready(split, w):
    for k in range(split[w, D_COUNT]):  # noqa: SIM110
        if split[w, D_STATE + k] == SPLIT_READY:
            return True
    return False  # written out: a generator cannot be compiled


@compiled
def branch(warp, split, w, taken, target, fall_through):
    """Lanes in `taken` go to `target`, the other active lanes on. True if the active lanes part."""
    active = warp[w, W_ACTIVE]
    if taken == active:
        pc = warp[w, W_PC]
        warp[w, W_PC] = target
        if target <= pc and split[w, D_COUNT] > 0:
            split[w, D_SPIN] += 1
            if split[w, D_SPIN] >= SPIN_LIMIT and any_ready(split, w):
                push_bottom(split, w, target, active)
                pick(warp, split, w)
        return False
    if taken == 0:
        warp[w, W_PC] = fall_through
        return False
    push(split, w, target, taken, SPLIT_READY)
    warp[w, W_ACTIVE] = active & ~taken
    warp[w, W_PC] = fall_through
    return True


@compiled
def set_barrier(warp, split, w, barrier):
    """BSSY: the active lanes are to meet at `barrier`."""
    split[w, D_MEMBERS + barrier] = warp[w, W_ACTIVE]
    split[w, D_WAITING + barrier] = 0


@compiled
def open_barriers(warp, split, w):
    """Opens every convergence barrier that nobody is missing from; its lanes become a ready split."""
    alive = warp[w, W_ALIVE]
    for b in range(CONVERGENCE_BARRIERS):
        waiting = split[w, D_WAITING + b]
        if waiting != 0:
            missing = split[w, D_MEMBERS + b] & alive & ~waiting & ~split[w, D_YIELDED]
            if missing == 0:
                push(split, w, split[w, D_RESUME + b], waiting, SPLIT_READY)
                split[w, D_WAITING + b] = 0
                split[w, D_MEMBERS + b] &= ~waiting


@compiled
def meet(warp, split, w, barrier):
    """BSYNC: the active lanes wait for the members of `barrier`. False if no lane of the warp can run now."""
    active = warp[w, W_ACTIVE]
    members = split[w, D_MEMBERS + barrier]
    waiting = split[w, D_WAITING + barrier]
    resume = warp[w, W_PC] + 1
    if members & active == 0:  # released before by a YIELD: nothing to wait for
        warp[w, W_PC] = resume
        return True
    missing = members & warp[w, W_ALIVE] & ~active & ~waiting & ~split[w, D_YIELDED]
    if missing == 0:
        warp[w, W_ACTIVE] = active | waiting
        warp[w, W_PC] = resume
        split[w, D_WAITING + barrier] = 0
        split[w, D_MEMBERS + barrier] &= ~(active | waiting)
        return True
    split[w, D_WAITING + barrier] = waiting | active
    split[w, D_RESUME + barrier] = resume
    warp[w, W_ACTIVE] = 0
    return pick(warp, split, w)


@compiled
def warp_sync(warp, split, w, mask):
    """WARPSYNC: the active lanes wait for those in `mask`. False if no lane of the warp can run now."""
    active = warp[w, W_ACTIVE]
    mask &= warp[w, W_ALIVE]
    if mask & ~active == 0:
        warp[w, W_PC] += 1
        return True
    slot = CONVERGENCE_BARRIERS - 1
    for b in range(16, CONVERGENCE_BARRIERS):
        if split[w, D_WAITING + b] == 0 or split[w, D_MEMBERS + b] == mask:
            slot = b
            break
    split[w, D_MEMBERS + slot] = mask | active
    return meet(warp, split, w, slot)


@compiled
def leave(warp, split, w, barrier, mask):
    """BREAK: lanes in `mask` no longer take part in `barrier`."""
    split[w, D_MEMBERS + barrier] &= ~mask
    open_barriers(warp, split, w)


@compiled
def yield_lanes(warp, split, w):
    """YIELD: whoever waits for the active lanes alone goes ahead, and other ready lanes run first."""
    active = warp[w, W_ACTIVE]
    warp[w, W_PC] += 1
    split[w, D_YIELDED] |= active
    open_barriers(warp, split, w)
    if any_ready(split, w):
        resume = warp[w, W_PC]
        pick(warp, split, w)
        push_bottom(split, w, resume, active)
    else:
        split[w, D_YIELDED] &= ~active


@compiled
def exit_lanes(warp, split, w, mask):
    """EXIT of the lanes in `mask`. False if no lane of the warp can run now."""
    warp[w, W_ALIVE] &= ~mask
    warp[w, W_ACTIVE] &= ~mask
    split[w, D_YIELDED] &= ~mask
    open_barriers(warp, split, w)
    if warp[w, W_ACTIVE] != 0:
        warp[w, W_PC] += 1
        return True
    return pick(warp, split, w)


@compiled
def block_at_barrier(warp, split, w, barrier):
    """The active lanes wait at a barrier of the block. False if no lane of the warp can run now."""
    push(split, w, warp[w, W_PC] + 1, warp[w, W_ACTIVE], SPLIT_AT_BARRIER + barrier)
    warp[w, W_ACTIVE] = 0
    return pick(warp, split, w)


@compiled
def release_from_barrier(split, w, barrier):
    """Lanes that waited at a barrier of the block are ready again."""
    for k in range(split[w, D_COUNT]):
        if split[w, D_STATE + k] == SPLIT_AT_BARRIER + barrier:
            split[w, D_STATE + k] = SPLIT_READY
