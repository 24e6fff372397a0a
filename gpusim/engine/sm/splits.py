"""The groups of a warp's lanes that are not running: a list for each warp, bottom first. `convergence.py` uses it."""

from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled

#: The first of the convergence barriers that stand for WARPSYNC, one for each lane mask in use.
FIRST_SYNC = 16


@compiled
def insert(split, w, at, pc, mask, state):
    """Adds a split as number `at`, counted from the bottom."""
    n = split[w, L.D_COUNT]
    if n >= L.MOST_SPLITS:  # never, as each holds a lane of its own; `scheduler.issue` reports it
        split[w, L.D_FULL] = 1
        return
    for k in range(n, at, -1):
        split[w, L.D_PC + k] = split[w, L.D_PC + k - 1]
        split[w, L.D_MASK + k] = split[w, L.D_MASK + k - 1]
        split[w, L.D_STATE + k] = split[w, L.D_STATE + k - 1]
    split[w, L.D_PC + at] = pc
    split[w, L.D_MASK + at] = mask
    split[w, L.D_STATE + at] = state
    split[w, L.D_COUNT] = n + 1


@compiled
def push(split, w, pc, mask, state):
    """Adds a split on top."""
    insert(split, w, split[w, L.D_COUNT], pc, mask, state)


@compiled
def push_bottom(split, w, pc, mask):
    """Adds a ready split below all others."""
    insert(split, w, 0, pc, mask, L.SPLIT_READY)


@compiled
def remove(split, w, k):
    """Takes split k out of the list."""
    n = split[w, L.D_COUNT] - 1
    for j in range(k, n):
        split[w, L.D_PC + j] = split[w, L.D_PC + j + 1]
        split[w, L.D_MASK + j] = split[w, L.D_MASK + j + 1]
        split[w, L.D_STATE + j] = split[w, L.D_STATE + j + 1]
    split[w, L.D_COUNT] = n


@compiled
def goes_on(split, w, lanes):
    """What was noted about lanes that had given way is over."""
    split[w, L.D_YIELDED] &= ~lanes
    split[w, L.D_GRANTED] &= ~lanes
    split[w, L.D_LATE] &= ~lanes


@compiled
def release(split, w, barrier, state, bottom):
    """Makes the members that wait at a BSYNC splits of another state. Returns their lanes."""
    members = split[w, L.D_MEMBERS + barrier]
    released = 0
    k = 0
    for _ in range(split[w, L.D_COUNT]):
        lanes = split[w, L.D_MASK + k]
        if split[w, L.D_STATE + k] == L.SPLIT_AT_BSYNC + barrier and lanes & members != 0:
            pc = split[w, L.D_PC + k]
            remove(split, w, k)
            released |= lanes
            if bottom:
                insert(split, w, 0, pc, lanes, state)
                k += 1
            else:
                push(split, w, pc, lanes, state)
        else:
            k += 1
    split[w, L.D_WAITING + barrier] &= ~released
    return released


@compiled
def wake(split, w, barrier, bottom):
    """Makes the members that wait at a BSYNC ready to execute it again, and to pass."""
    split[w, L.D_PASSING] |= release(split, w, barrier, L.SPLIT_OLD, bottom)


@compiled
def wake_sync(split, w, low):
    """Makes lanes at WARPSYNC ready to execute it again: next, or (`low`) after all who have not given way."""
    k = 0
    for _ in range(split[w, L.D_COUNT]):
        state = split[w, L.D_STATE + k]
        if L.SPLIT_AT_SYNC <= state < L.SPLIT_AT_COLLECTIVE:
            pc, lanes = split[w, L.D_PC + k], split[w, L.D_MASK + k]
            remove(split, w, k)
            split[w, L.D_WAITING + FIRST_SYNC + state - L.SPLIT_AT_SYNC] &= ~lanes
            split[w, L.D_LATE] |= lanes
            at = 0
            while at < split[w, L.D_COUNT] and (not low or split[w, L.D_MASK + at] & split[w, L.D_YIELDED] != 0):
                at += 1
            insert(split, w, at, pc, lanes, L.SPLIT_OLD)
            if low:
                k += 1
        else:
            k += 1


@compiled
def blocked(split, w):
    """The lanes that wait at a BSYNC or WARPSYNC."""
    lanes = 0
    for b in range(L.CONVERGENCE_BARRIERS):
        lanes |= split[w, L.D_WAITING + b]
    return lanes


@compiled
def wake_one(warp, split, w, but):
    """For lanes that give way: wakes who waits at one BSYNC, and before these who waits at WARPSYNC. False if none.

    That is the first barrier whose members are all waiting or have given way. Lanes `but` have just begun to wait at
    a BSYNC: they alone do not count, and nobody at WARPSYNC is woken for them.
    """
    found = False
    gone = split[w, L.D_YIELDED] | blocked(split, w) | ~warp[w, L.W_ALIVE]
    for b in range(FIRST_SYNC):
        members = split[w, L.D_MEMBERS + b]
        if not found and split[w, L.D_WAITING + b] & members & ~but != 0 and members & ~gone == 0:
            wake(split, w, b, False)
            found = True
    if but == 0:
        for b in range(FIRST_SYNC, L.CONVERGENCE_BARRIERS):
            if split[w, L.D_WAITING + b] != 0:
                wake_sync(split, w, False)
                found = True
    return found


@compiled
def gather(split, w, pc):
    """Takes all other lanes that are at an instruction, also those that wait at it if it is a BSYNC or WARPSYNC."""
    lanes = 0
    for k in range(split[w, L.D_COUNT] - 1, -1, -1):
        state = split[w, L.D_STATE + k]
        at_sync = L.SPLIT_AT_SYNC <= state < L.SPLIT_AT_COLLECTIVE
        if split[w, L.D_PC + k] == pc and (state <= L.SPLIT_OLD or at_sync or state >= L.SPLIT_AT_BSYNC):
            mask = split[w, L.D_MASK + k]
            if at_sync:
                split[w, L.D_WAITING + FIRST_SYNC + state - L.SPLIT_AT_SYNC] &= ~mask
            elif state >= L.SPLIT_AT_BSYNC:
                split[w, L.D_WAITING + state - L.SPLIT_AT_BSYNC] &= ~mask
            lanes |= mask
            remove(split, w, k)
    return lanes


@compiled
def age(split, w):
    """Lanes part once more: the splits left behind before lose their identity, see `gather`."""
    for k in range(split[w, L.D_COUNT]):
        if split[w, L.D_STATE + k] == L.SPLIT_READY:
            split[w, L.D_STATE + k] = L.SPLIT_OLD


@compiled
def any_ready(split, w):
    """Whether a group of lanes other than the running one could run."""
    found = False
    for k in range(split[w, L.D_COUNT]):
        found |= split[w, L.D_STATE + k] <= L.SPLIT_OLD
    return found


@compiled
def others_ready(split, w, but):
    """Whether a group can run that is not of the lanes `but` and does not come late."""
    found = False
    for k in range(split[w, L.D_COUNT]):
        found |= split[w, L.D_STATE + k] <= L.SPLIT_OLD and split[w, L.D_MASK + k] & ~(but | split[w, L.D_LATE]) != 0
    return found


@compiled
def top_but(split, w, but):
    """The topmost split that can run and is not of the lanes `but`, -1 if there is none."""
    for k in range(split[w, L.D_COUNT] - 1, -1, -1):
        if split[w, L.D_STATE + k] <= L.SPLIT_OLD and split[w, L.D_MASK + k] & ~but != 0:
            return k
    return -1
