"""Which of a sub-partition's ready warps issues: one function for each `issue.policy`, on its slots.

Each gives the slot of the chosen warp, or -1 if none is ready. `last` is the slot that issued last.
"""

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled

POLICIES = {"gto": 0, "gty": 1, "lrr": 2, "oldest": 3, "glrr": 4, "block": 5}
GTO, GTY, LRR, OLDEST, GLRR, BLOCK = range(6)
NONE_READY = np.int64(1) << 62
TURN_BITS = 8  # of the place of a slot in turn


@compiled
def next_in_turn(ready, last, time):
    """Loose round robin: the next ready warp after the last one."""
    for k in range(1, ready.size + 1):
        slot = (last + k) % ready.size
        if ready[slot] <= time:
            return np.int64(slot)
    return np.int64(-1)


@compiled
def of_least_age(ready, ages, sign, time):
    """The oldest ready warp (`sign` 1) or the youngest (-1). Ages count up with each launch of a warp."""
    best = np.int64(-1)
    for slot in range(ready.size):
        if ready[slot] <= time and (best < 0 or sign * ages[slot] < sign * ages[best]):
            best = np.int64(slot)
    return best


@compiled
def next_of_oldest_block(ready, blocks, last, again, time):
    """The warp that has issued just before (`again`) if it is ready, else of the ready warps one of the oldest block,
    the next in turn. Returns (slot, whether others are ready too, if that is known).

    H200: blocks of one SM that wait for the same pipe end one after the other, the warps of one block together; of
    warps that could issue in every cycle two share the cycles, as a branch lets the other one in, and a third gets
    none.
    """
    if again and ready[last] <= time:
        return last, False
    best = NONE_READY
    count = 0
    for slot in range(ready.size):  # without branches, so that it becomes vector code
        turn = last - 1 - slot
        turn += ready.size & (turn >> 63)
        best = min(best, (blocks[slot] << TURN_BITS) + turn if ready[slot] <= time else NONE_READY)
        count += 1 if ready[slot] <= time else 0
    if count == 0:
        return np.int64(-1), False
    slot = last - 1 - (best & ((1 << TURN_BITS) - 1))
    return slot if slot >= 0 else slot + ready.size, count > 1


@compiled
def choose(st, q, ages, time):
    """(Slot of the warp that issues by the policy, -1 if none is ready; whether others are known to be ready too).

    ages: of the warps, by slot.
    """
    ready = st.ready[q]
    last = st.smsp[q, L.Q_LAST]
    policy = st.par[L.P_POLICY]
    if policy == BLOCK:
        return next_of_oldest_block(ready, st.block_order[q], last, st.smsp[q, L.Q_ISSUED] == time - 1, time)
    if policy == LRR:
        return next_in_turn(ready, last, time), False
    if policy == OLDEST:
        return of_least_age(ready, ages, 1, time), False
    if ready[last] <= time:  # the greedy ones
        return last, False
    if policy == GLRR:
        return next_in_turn(ready, last, time), False
    return of_least_age(ready, ages, -1 if policy == GTY else 1, time), False
