"""The groups of a warp's lanes that are not running: a list for each warp, bottom first. `convergence.py` uses it."""

from gpusim.engine.state.jit import compiled
from gpusim.engine.state.layout import (
    CONVERGENCE_BARRIERS,
    D_COUNT,
    D_FULL,
    D_GRANTED,
    D_LATE,
    D_MASK,
    D_MEMBERS,
    D_PASSING,
    D_PC,
    D_STATE,
    D_WAITING,
    D_YIELDED,
    MOST_SPLITS,
    SPLIT_AT_BSYNC,
    SPLIT_AT_COLLECTIVE,
    SPLIT_AT_SYNC,
    SPLIT_OLD,
    SPLIT_READY,
    W_ALIVE,
)

#: The first of the convergence barriers that stand for WARPSYNC, one for each lane mask in use.
FIRST_SYNC = 16


@compiled
def insert(split, w, at, pc, mask, state):
    """Adds a split as number `at`, counted from the bottom."""
    n = split[w, D_COUNT]
    if n >= MOST_SPLITS:  # never, as each holds a lane of its own; `scheduler.issue` reports it
        split[w, D_FULL] = 1
        return
    for k in range(n, at, -1):
        split[w, D_PC + k] = split[w, D_PC + k - 1]
        split[w, D_MASK + k] = split[w, D_MASK + k - 1]
        split[w, D_STATE + k] = split[w, D_STATE + k - 1]
    split[w, D_PC + at] = pc
    split[w, D_MASK + at] = mask
    split[w, D_STATE + at] = state
    split[w, D_COUNT] = n + 1


@compiled
def push(split, w, pc, mask, state):
    """Adds a split on top."""
    insert(split, w, split[w, D_COUNT], pc, mask, state)


@compiled
def push_bottom(split, w, pc, mask):
    """Adds a ready split below all others."""
    insert(split, w, 0, pc, mask, SPLIT_READY)


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
def goes_on(split, w, lanes):
    """What was noted about lanes that had given way is over."""
    split[w, D_YIELDED] &= ~lanes
    split[w, D_GRANTED] &= ~lanes
    split[w, D_LATE] &= ~lanes


@compiled
def release(split, w, barrier, state, bottom):
    """Makes the members that wait at a BSYNC splits of another state. Returns their lanes."""
    members = split[w, D_MEMBERS + barrier]
    released = 0
    k = 0
    for _ in range(split[w, D_COUNT]):
        lanes = split[w, D_MASK + k]
        if split[w, D_STATE + k] == SPLIT_AT_BSYNC + barrier and lanes & members != 0:
            pc = split[w, D_PC + k]
            remove(split, w, k)
            released |= lanes
            if bottom:
                insert(split, w, 0, pc, lanes, state)
                k += 1
            else:
                push(split, w, pc, lanes, state)
        else:
            k += 1
    split[w, D_WAITING + barrier] &= ~released
    return released


@compiled
def wake(split, w, barrier, bottom):
    """Makes the members that wait at a BSYNC ready to execute it again, and to pass."""
    split[w, D_PASSING] |= release(split, w, barrier, SPLIT_OLD, bottom)


@compiled
def wake_sync(split, w, low):
    """Makes lanes at WARPSYNC ready to execute it again: next, or (`low`) after all who have not given way."""
    k = 0
    for _ in range(split[w, D_COUNT]):
        state = split[w, D_STATE + k]
        if SPLIT_AT_SYNC <= state < SPLIT_AT_COLLECTIVE:
            pc, lanes = split[w, D_PC + k], split[w, D_MASK + k]
            remove(split, w, k)
            split[w, D_WAITING + FIRST_SYNC + state - SPLIT_AT_SYNC] &= ~lanes
            split[w, D_LATE] |= lanes
            at = 0
            while at < split[w, D_COUNT] and (not low or split[w, D_MASK + at] & split[w, D_YIELDED] != 0):
                at += 1
            insert(split, w, at, pc, lanes, SPLIT_OLD)
            if low:
                k += 1
        else:
            k += 1


@compiled
def blocked(split, w):
    """The lanes that wait at a BSYNC or WARPSYNC."""
    lanes = 0
    for b in range(CONVERGENCE_BARRIERS):
        lanes |= split[w, D_WAITING + b]
    return lanes


@compiled
def wake_one(warp, split, w, but):
    """For lanes that give way: wakes who waits at one BSYNC, and before these who waits at WARPSYNC. False if none.

    That is the first barrier whose members are all waiting or have given way. Lanes `but` have just begun to wait at
    a BSYNC: they alone do not count, and nobody at WARPSYNC is woken for them.
    """
    found = False
    gone = split[w, D_YIELDED] | blocked(split, w) | ~warp[w, W_ALIVE]
    for b in range(FIRST_SYNC):
        members = split[w, D_MEMBERS + b]
        if not found and split[w, D_WAITING + b] & members & ~but != 0 and members & ~gone == 0:
            wake(split, w, b, False)
            found = True
    if but == 0:
        for b in range(FIRST_SYNC, CONVERGENCE_BARRIERS):
            if split[w, D_WAITING + b] != 0:
                wake_sync(split, w, False)
                found = True
    return found


@compiled
def gather(split, w, pc):
    """Takes all other lanes that are at an instruction, also those that wait at it if it is a BSYNC or WARPSYNC."""
    lanes = 0
    for k in range(split[w, D_COUNT] - 1, -1, -1):
        state = split[w, D_STATE + k]
        at_sync = SPLIT_AT_SYNC <= state < SPLIT_AT_COLLECTIVE
        if split[w, D_PC + k] == pc and (state <= SPLIT_OLD or at_sync or state >= SPLIT_AT_BSYNC):
            mask = split[w, D_MASK + k]
            if at_sync:
                split[w, D_WAITING + FIRST_SYNC + state - SPLIT_AT_SYNC] &= ~mask
            elif state >= SPLIT_AT_BSYNC:
                split[w, D_WAITING + state - SPLIT_AT_BSYNC] &= ~mask
            lanes |= mask
            remove(split, w, k)
    return lanes


@compiled
def age(split, w):
    """Lanes part once more: the splits left behind before lose their identity, see `gather`."""
    for k in range(split[w, D_COUNT]):
        if split[w, D_STATE + k] == SPLIT_READY:
            split[w, D_STATE + k] = SPLIT_OLD


@compiled
def any_ready(split, w):
    """Whether a group of lanes other than the running one could run."""
    found = False
    for k in range(split[w, D_COUNT]):
        found |= split[w, D_STATE + k] <= SPLIT_OLD
    return found


@compiled
def others_ready(split, w, but):
    """Whether a group can run that is not of the lanes `but` and does not come late."""
    found = False
    for k in range(split[w, D_COUNT]):
        found |= split[w, D_STATE + k] <= SPLIT_OLD and split[w, D_MASK + k] & ~(but | split[w, D_LATE]) != 0
    return found


@compiled
def top_but(split, w, but):
    """The topmost split that can run and is not of the lanes `but`, -1 if there is none."""
    for k in range(split[w, D_COUNT] - 1, -1, -1):
        if split[w, D_STATE + k] <= SPLIT_OLD and split[w, D_MASK + k] & ~but != 0:
            return k
    return -1
