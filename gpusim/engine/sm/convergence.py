"""Divergence and reconvergence of a warp: what branches, barriers and YIELD do to its lanes.

Every lane has its own program counter (Volta and later). The lanes that run together are the warp's active mask;
`lane_states.py` says where the others are and who goes on next. BSSY names who must meet, BSYNC waits for them, BREAK
and EXIT take lanes out, WARPSYNC waits for the lanes of a mask wherever they are. General semantics after "Control
Flow Management in Modern GPUs" (arXiv 2407.02944) and the convergence-barrier patent US 2016/0019066 A1. What they
leave open we measured on an H200: clocks on both sides of branches, Nsight Compute's instruction counts, and random
programs of branches, loops, ways out of them and YIELDs in which every lane notes where it is, when, and what the
registers of control flow hold (`tests/gpusim/test_flow_replay.py` replays some):

- Of the two sides of a branch the one with fewer lanes runs first; if they are equal, the one that falls through. The
  other waits on a stack until the first can go no further: a load that a side waits for does not let the other go.
- An indirect branch sends the lanes that share the target of the lowest lane, unless they are the majority: then those
  that share the target of the lowest other lane. All others execute the branch again later.
- Only the last side left behind is remembered as a group. Of those before it the stack knows a lane: what goes on is
  every lane at its instruction, those that wait there included.
- With an empty stack a lane goes on that was chosen before: the first that stopped since the choice was free, or one
  that is found in turn behind the last one chosen. Who stopped first loses its place to a lane with a lower number that
  stops before a side with a still lower one goes on by its lane. If the lane waits at a BSYNC, that barrier opens.
- YIELD: others run, from the stack or the chosen lane's; if there are none, the same lanes go on.
- BSSY adds lanes to a barrier. Others may be in it: lanes that gave way in a loop, while those before the loop come by.
  Who met in this way executes the BSYNC once more, together. If members wait at different BSYNCs when the last one
  arrives, the others execute theirs again.
- BSYNC goes on when the last member arrives; also at once if the stack is empty and no lane of the warp can run. Who is
  missing then can run: who waited elsewhere executes that instruction again. Lanes that are no members pass.
- BREAK or EXIT of the last one missing opens a barrier like a branch: the smaller side goes on, those that waited with
  their BSYNC once more. A barrier of which BREAK leaves only lanes that wait somewhere is empty.
- WARPSYNC of lanes that are not yet together: each group executes it once as it arrives, then all together once more.
  One that only lanes are missing from that have ended is passed at once.
- WARPSYNC.EXCLUSIVE is for lanes with different masks, as of `__reduce_max_sync(__match_any_sync(...))`: those of one
  mask go on without the others, to the next BSYNC. (Not measured: the order of the masks.)
- WARPSYNC.COLLECTIVE begins code that all lanes of the mask run together, in the copy of the last group to arrive. When
  it ends the groups part, and those that had waited execute their WARPSYNC again, which sends them to its label.
- Lanes that a barrier of the block lets go are on the stack, by their instruction, but go on together in a collective.

A machine with `issue.reconvergence = "stack"` has none of the ways to give way: YIELD does nothing, and a group that
spins goes on. What a parting leaves behind then waits until those before it can go no further (`spinning.py`).

Where several groups have stopped and the stack is empty, these rules do not always say who goes on on an H200:
`python -m validate generated` lists kernels that count otherwise.
"""

from gpusim.engine.sm import lane_states as states
from gpusim.engine.sm.lane_states import FIRST_SYNC
from gpusim.engine.state import L, compiled, lowest_bit, popc

#: Backward branches a group may take while another one could run, before it gives way: forward progress for loops that
#: spin without a YIELD. Only the order of independent groups depends on it.
SPIN_LIMIT = 1024


@compiled
def branch(warp, split, w, taken, target, fall_through, stack):
    """Lanes in `taken` go to `target`, the other active lanes on. True if the active lanes part.

    stack: a group that spins never gives way.
    """
    active = warp[w, L.WARP_ACTIVE]
    if taken == active:
        pc = warp[w, L.WARP_PC]
        warp[w, L.WARP_PC] = target
        if target <= pc and active != warp[w, L.WARP_ALIVE] and not stack:
            split[w, L.SPLIT_SPIN] += 1
            if split[w, L.SPLIT_SPIN] >= SPIN_LIMIT and states.can_run(warp, split, w) | split[w, L.SPLIT_YIELDED] != 0:
                give_way(warp, split, w)
        return False
    if taken == 0:
        warp[w, L.WARP_PC] = fall_through
        return False
    first, there, others, here = active & ~taken, fall_through, taken, target
    if popc(others) < popc(first):
        first, there, others, here = others, here, first, there
    states.park(split, w, others, here)
    warp[w, L.WARP_ACTIVE] = first
    warp[w, L.WARP_PC] = there
    return True


@compiled
def send(warp, split, w, gone, target, again, fall_through):
    """Indirect branch: lanes in `gone` go to `target`, those in `again` repeat the branch, the others go on."""
    stay = warp[w, L.WARP_ACTIVE] & ~(gone | again)
    if stay != 0:
        states.park(split, w, stay, fall_through)
    if again != 0:
        states.park(split, w, again, warp[w, L.WARP_PC])
    split[w, L.SPLIT_AGAIN] = (split[w, L.SPLIT_AGAIN] & ~gone) | again
    warp[w, L.WARP_ACTIVE] = gone
    warp[w, L.WARP_PC] = target


@compiled
def set_barrier(warp, split, w, barrier):
    """BSSY: the active lanes are to meet at `barrier`.

    Lanes that wait at it stay: in a recursion they wait for an outer use of the barrier, whose members BMOV has saved.
    """
    active = warp[w, L.WARP_ACTIVE]
    split[w, L.SPLIT_SHARED] &= ~(1 << barrier)
    if split[w, L.SPLIT_MEMBERS + barrier] & ~active != 0:
        split[w, L.SPLIT_SHARED] |= 1 << barrier
    split[w, L.SPLIT_MEMBERS + barrier] |= active


@compiled
def meet(warp, split, w, barrier):
    """BSYNC: the active lanes wait for the members of `barrier`. False if no lane of the warp can run now."""
    active = warp[w, L.WARP_ACTIVE]
    pc = warp[w, L.WARP_PC]
    members = split[w, L.SPLIT_MEMBERS + barrier] & warp[w, L.WARP_ALIVE]
    if members & active == 0:  # opened before: nothing to wait for
        warp[w, L.WARP_PC] = pc + 1
        return True
    missing = members & ~active & ~split[w, L.SPLIT_WAITING + barrier]
    if missing != 0 and active & ~members != 0:
        states.place(split, w, active & members, pc)
        split[w, L.SPLIT_WAITING + barrier] |= active & members
        warp[w, L.WARP_ACTIVE] = active & ~members
        warp[w, L.WARP_PC] = pc + 1
        return True
    alone = split[w, L.SPLIT_DEPTH] == 0 and states.can_run(warp, split, w) == 0
    if missing == 0 or (alone and missing & states.held(split, w) == 0):
        states.wake(split, w, missing)
        there = split[w, L.SPLIT_WAITING + barrier] & members
        here = states.at_pc(split, w, there, pc)
        split[w, L.SPLIT_MEMBERS + barrier] = 0
        states.wake(split, w, there)
        shared = (split[w, L.SPLIT_SHARED] >> barrier) & 1
        split[w, L.SPLIT_SHARED] &= ~(1 << barrier)
        states.go_on(warp, split, w, active | here, pc if shared else pc + 1)
        return True
    states.place(split, w, active, pc)
    split[w, L.SPLIT_WAITING + barrier] |= active
    return states.resume(warp, split, w, active)


@compiled
def open_barriers(warp, split, w):
    """Lanes have left: who waits at a barrier or WARPSYNC that nobody is missing from any more goes on.

    The members of a barrier and the active lanes are then two sides, of which the smaller one runs first.
    """
    alive = warp[w, L.WARP_ALIVE]
    for b in range(FIRST_SYNC):
        there = split[w, L.SPLIT_WAITING + b] & split[w, L.SPLIT_MEMBERS + b]
        if there == 0 or split[w, L.SPLIT_MEMBERS + b] & alive & ~there != 0:
            continue
        split[w, L.SPLIT_MEMBERS + b] = 0
        states.wake(split, w, there)
        pc = split[w, L.SPLIT_PC + lowest_bit(there)]
        there = states.at_pc(split, w, there, pc)
        active = warp[w, L.WARP_ACTIVE]
        if active == 0:
            states.go_on(warp, split, w, there, pc)
        elif popc(there) < popc(active):
            states.park(split, w, active, warp[w, L.WARP_PC])
            warp[w, L.WARP_ACTIVE] = there
            warp[w, L.WARP_PC] = pc
        else:
            states.park(split, w, there, pc)
            split[w, L.SPLIT_LAST] = 0
    for b in range(FIRST_SYNC, L.CONVERGENCE_BARRIERS):
        there = split[w, L.SPLIT_WAITING + b]
        if there != 0 and split[w, L.SPLIT_MEMBERS + b] & alive & ~there == 0:
            split[w, L.SPLIT_AGAIN] |= there & ~split[w, L.SPLIT_COLLECTIVE]
            states.wake(split, w, there)


@compiled
def leave(warp, split, w, barrier, mask):
    """BREAK: lanes in `mask` no longer take part in `barrier`. Sets the program counter."""
    warp[w, L.WARP_PC] += 1
    split[w, L.SPLIT_MEMBERS + barrier] &= ~mask
    members = split[w, L.SPLIT_MEMBERS + barrier] & warp[w, L.WARP_ALIVE]
    empty = mask != 0 and members & ~states.waiting(split, w, 0, FIRST_SYNC) == 0
    open_barriers(warp, split, w)
    if empty:
        split[w, L.SPLIT_MEMBERS + barrier] = 0


@compiled
def exit_lanes(warp, split, w, mask):
    """EXIT of the lanes in `mask`. False if no lane of the warp can run now."""
    warp[w, L.WARP_ALIVE] &= ~mask
    warp[w, L.WARP_ACTIVE] &= ~mask
    warp[w, L.WARP_PC] += 1
    open_barriers(warp, split, w)
    return warp[w, L.WARP_ACTIVE] != 0 or states.resume(warp, split, w, 0)


@compiled
def give_way(warp, split, w):
    """YIELD: others run if there are any, and the active lanes go on later from the warp's program counter."""
    active = warp[w, L.WARP_ACTIVE]
    states.place(split, w, active, warp[w, L.WARP_PC])
    split[w, L.SPLIT_YIELDED] |= active
    states.resume(warp, split, w, active)


@compiled
def sync_barrier(split, w, mask):
    """The convergence barrier that stands for WARPSYNC of the lanes in `mask`."""
    found = L.CONVERGENCE_BARRIERS - 1
    for b in range(L.CONVERGENCE_BARRIERS - 1, FIRST_SYNC - 1, -1):
        if split[w, L.SPLIT_WAITING + b] == 0:
            found = b
    for b in range(FIRST_SYNC, L.CONVERGENCE_BARRIERS):
        if split[w, L.SPLIT_WAITING + b] != 0 and split[w, L.SPLIT_MEMBERS + b] == mask:
            found = b
    split[w, L.SPLIT_MEMBERS + found] = mask
    return found


@compiled
def warp_sync(warp, split, w, mask):
    """WARPSYNC: the active lanes wait for those in `mask`. False if no lane of the warp can run now."""
    active = warp[w, L.WARP_ACTIVE]
    pc = warp[w, L.WARP_PC]
    if mask & warp[w, L.WARP_ALIVE] & ~active == 0 or split[w, L.SPLIT_AGAIN] & active != 0:
        split[w, L.SPLIT_AGAIN] &= ~active
        warp[w, L.WARP_PC] = pc + 1
        return True
    barrier = sync_barrier(split, w, mask)
    states.place(split, w, active, pc)
    split[w, L.SPLIT_WAITING + barrier] |= active
    there = split[w, L.SPLIT_WAITING + barrier]
    if mask & warp[w, L.WARP_ALIVE] & ~there == 0:
        split[w, L.SPLIT_AGAIN] |= there & ~split[w, L.SPLIT_COLLECTIVE]
        here = states.at_pc(split, w, there & ~split[w, L.SPLIT_COLLECTIVE], pc)
        states.wake(split, w, there)
        states.go_on(warp, split, w, here, pc)
        return True
    return states.resume(warp, split, w, active)


@compiled
def part(warp, split, w, lanes):
    """WARPSYNC.EXCLUSIVE: of the active lanes these go first, those with other masks execute it again behind them."""
    others = warp[w, L.WARP_ACTIVE] & ~lanes
    if others != 0:
        states.park(split, w, others, warp[w, L.WARP_PC])
        warp[w, L.WARP_ACTIVE] = lanes


@compiled
def collect(warp, split, w, mask, label):
    """WARPSYNC.COLLECTIVE: all in `mask` go on together. False if no lane of the warp can run now."""
    active = warp[w, L.WARP_ACTIVE]
    if split[w, L.SPLIT_AGAIN] & active != 0:
        split[w, L.SPLIT_AGAIN] &= ~active
        warp[w, L.WARP_PC] = label
        return True
    barrier = sync_barrier(split, w, mask)
    there = split[w, L.SPLIT_WAITING + barrier]
    if mask & warp[w, L.WARP_ALIVE] & ~(there | active) != 0:
        states.place(split, w, active, warp[w, L.WARP_PC])
        split[w, L.SPLIT_WAITING + barrier] |= active
        split[w, L.SPLIT_COLLECTIVE] |= active
        return states.resume(warp, split, w, active)
    split[w, L.SPLIT_INSIDE] |= there
    states.wake(split, w, there)
    warp[w, L.WARP_ACTIVE] = there | active
    warp[w, L.WARP_PC] += 1
    return True


@compiled
def end_collective(warp, split, w):
    """ENDCOLLECTIVE: the last group to arrive goes on, the others are ready to execute their WARPSYNC again."""
    others = split[w, L.SPLIT_INSIDE] & warp[w, L.WARP_ACTIVE]
    split[w, L.SPLIT_INSIDE] &= ~others
    split[w, L.SPLIT_AGAIN] |= others
    warp[w, L.WARP_ACTIVE] &= ~others
    warp[w, L.WARP_PC] += 1
    park_by_place(split, w, others)


@compiled
def park_by_place(split, w, lanes):
    """Puts lanes on the stack that can run again, each by where it is."""
    while lanes != 0:
        pc = split[w, L.SPLIT_PC + lowest_bit(lanes)]
        together = states.at_pc(split, w, lanes, pc)
        states.park(split, w, together, pc)
        lanes &= ~together
    split[w, L.SPLIT_LAST] = 0


@compiled
def block_at_barrier(warp, split, w, barrier):
    """The active lanes wait at a barrier of the block. False if no lane of the warp can run now."""
    active = warp[w, L.WARP_ACTIVE]
    states.place(split, w, active & ~split[w, L.SPLIT_INSIDE], warp[w, L.WARP_PC] + 1)  # those are still at WARPSYNC
    split[w, L.SPLIT_HELD + barrier] |= active
    return states.resume(warp, split, w, 0)


@compiled
def release_from_barrier(split, w, barrier):
    """Lanes that waited at a barrier of the block can run."""
    if split[w, L.SPLIT_HELD + barrier] != 0:
        lanes = split[w, L.SPLIT_HELD + barrier]
        split[w, L.SPLIT_HELD + barrier] = 0
        park_by_place(split, w, lanes & ~split[w, L.SPLIT_INSIDE])
