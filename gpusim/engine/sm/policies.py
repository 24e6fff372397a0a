"""Issue policies: the choice among a sub-partition's ready warps, one function for each `issue.policy`, on its slots.

Each gives the slot of the chosen warp, or -1 if none is ready. `last` is the slot that issued last.
"""

import numpy as np

from gpusim.engine.state import L, P, compiled

POLICIES = {"gto": 0, "gty": 1, "lrr": 2, "oldest": 3, "glrr": 4, "block": 5}
_, GTY, LRR, OLDEST, GLRR, BLOCK = POLICIES.values()
NONE_READY = np.int64(1) << 62
TURN_BITS = 8  # of the place of a slot in turn
LONGEST_WAIT = 0xFFFF
"""Cycles for which a warp has been ready that are told apart where warps take turns."""
SHORT_WAIT = 8
"""LONGEST_WAIT if the last warp can go on. Microbenchmarks on an H200 (chains of FFMA without yields, 8 warps):
seven that issue one instruction at a time keep the eighth out, five that issue two or three the others: 4 to 12."""
_ORDER_BITS = TURN_BITS + 16


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
def next_of_oldest_block(ready, blocks, before, longest, time):
    """Of the ready warps of the oldest block the one that has waited longest, as far as `longest` cycles tell them
    apart; of several the next one downwards from slot `before`. Returns (slot, whether others are ready too).

    H200: blocks of one SM that wait for the same pipe end one after the other. Of a block, warps take turns behind an
    instruction that yields and in front of a busy unit. Else the last warp goes first: of four or eight warps that
    could issue in every cycle two share the cycles, as a branch lets the other one in, and the first warps come last
    (`turns_*`).
    """
    best = NONE_READY
    count = 0
    for slot in range(ready.size):  # without branches, so that it becomes vector code
        turn = before - 1 - slot
        turn += ready.size & (turn >> 63)
        turn += (longest - min(time - ready[slot], longest)) << TURN_BITS
        best = min(best, (blocks[slot] << _ORDER_BITS) + turn if ready[slot] <= time else NONE_READY)
        count += 1 if ready[slot] <= time else 0
    if count == 0:
        return np.int64(-1), False
    slot = before - 1 - (best & ((1 << TURN_BITS) - 1))
    return slot if slot >= 0 else slot + ready.size, count > 1


@compiled
def choose(st, q, ages, time):
    """(Slot of the warp that issues by the policy, -1 if none is ready; whether others are known to be ready too).

    ages: of the warps, by slot.
    """
    ready = st.ready[q]
    last = st.smsp[q, L.SMSP_LAST]
    policy = st.par[P.POLICY]
    if policy == BLOCK:
        if st.smsp[q, L.SMSP_IN_TURN] != 0:
            return next_of_oldest_block(ready, st.block_order[q], last, LONGEST_WAIT, time)
        if ready[last] <= min(time, st.smsp[q, L.SMSP_GOES_ON]):
            return last, False
        return next_of_oldest_block(ready, st.block_order[q], np.int64(ready.size), SHORT_WAIT, time)
    if policy != LRR and policy != OLDEST and ready[last] <= time:  # the greedy ones
        return last, False
    if policy in (LRR, GLRR):
        return next_in_turn(ready, last, time), False
    return of_least_age(ready, ages, -1 if policy == GTY else 1, time), False
