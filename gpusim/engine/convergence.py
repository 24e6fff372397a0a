"""Divergence and reconvergence of a warp: which of its lanes run, and where the others are.

Every lane has its own program counter (Volta and later). The lanes that run together are the warp's active mask; the
others are in *splits* (groups with one program counter that can run, or wait) or wait at a convergence barrier
B0..B15. BSSY names who must meet, BSYNC waits for them, BREAK and EXIT take lanes out, WARPSYNC waits for the lanes of
a mask wherever they are. General semantics after "Control Flow Management in Modern GPUs" (arXiv 2407.02944) and the
convergence-barrier patent US 2016/0019066 A1. What they leave open we measured on an H200 (clocks on both sides of
branches, and Nsight Compute's instruction counts of the kernels that `tests/gpusim/test_flow_replay.py` replays):

- Of the two sides of a branch the one with fewer lanes runs first; if they are equal, the one that falls through. The
  other waits on a stack until the first can go no further: a load that a side waits for does not let the other go.
- An indirect branch sends the lanes that share the target of the lowest lane, unless they are the majority: then those
  that share the target of the lowest other lane. All others execute the branch again later.
- Lanes that wait at BSYNC go on when the last member arrives. When it leaves instead, by BREAK or EXIT, they execute
  their BSYNC again, so that instruction counters see it twice.
- YIELD lets all others go first who can run, and those that wait at a barrier for nobody but lanes that yield: they
  execute their BSYNC again and pass. Lanes at WARPSYNC execute that again too, and go on waiting.
- Lanes that give way by YIELD to lanes that had given way at the same YIELD go on with them: all of them execute the
  YIELD once more, together.
- Lanes that wait at a BSYNC whose barrier other lanes have used meanwhile (a later BSSY named others) go on when
  nobody else of the warp can.
- WARPSYNC of lanes that are not yet together: each group executes it once as it arrives, then all together once more.
- WARPSYNC does not wait for lanes that wait at BSYNC for those at the WARPSYNC: they could never come. (Not measured:
  numba-cuda's reduction ends with such a WARPSYNC of a few lanes, and runs on hardware.)
- WARPSYNC.COLLECTIVE begins code that all lanes of the mask run together, in the copy of the last group to arrive. When
  it ends the groups part, and those that had waited execute their WARPSYNC again, which sends them to its label.
- Only the last side left behind is remembered as a group. When lanes part again the ones before it lose their
  identity: what goes on later is every lane at their instruction, those that wait there at a BSYNC included.
"""

from gpusim.engine.bits import popc
from gpusim.engine.jit import compiled
from gpusim.engine.layout import (
    CONVERGENCE_BARRIERS,
    D_AGAIN,
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
    SPLIT_AT_COLLECTIVE,
    SPLIT_AT_SYNC,
    SPLIT_IN_COLLECTIVE,
    SPLIT_OLD,
    SPLIT_READY,
    W_ACTIVE,
    W_ALIVE,
    W_PC,
)

#: Backward branches a group may take while another one is ready, before they change places: forward progress for
#: loops that spin without a YIELD. Only the order of independent groups depends on it.
SPIN_LIMIT = 1024

#: The first of the convergence barriers that stand for WARPSYNC, one for each lane mask in use.
FIRST_SYNC = 16


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
    for _ in range(2):
        for k in range(split[w, D_COUNT] - 1, -1, -1):
            if split[w, D_STATE + k] <= SPLIT_OLD:
                pc = split[w, D_PC + k]
                active = split[w, D_MASK + k]
                old = split[w, D_STATE + k] == SPLIT_OLD
                remove(split, w, k)
                if old:
                    active |= gather(split, w, pc)
                warp[w, W_PC] = pc
                warp[w, W_ACTIVE] = active
                split[w, D_YIELDED] &= ~active
                split[w, D_SPIN] = 0
                return True
        if not pass_alone(warp, split, w) and not pass_sync(split, w):
            break
    return False


@compiled
def pass_alone(warp, split, w):
    """Lets lanes at a BSYNC go on that wait for nobody any more. False if there are none.

    To be called when no lane can run. A later BSSY of other lanes on the same barrier has replaced the members that
    these lanes waited for; once its own members have gone on, nobody is left who could open it.
    """
    for b in range(FIRST_SYNC):
        waiting = split[w, D_WAITING + b]
        if waiting != 0 and split[w, D_MEMBERS + b] & warp[w, W_ALIVE] & ~waiting == 0:
            push(split, w, split[w, D_RESUME + b], waiting, SPLIT_READY)
            split[w, D_WAITING + b] = 0
            split[w, D_MEMBERS + b] = 0
            return True
    return False


@compiled
def pass_sync(split, w):
    """Lets the lanes at a WARPSYNC go on whose others can never come, as they wait at BSYNC. False if there are none.

    To be called when no lane can run. Lanes at a block's barrier may come yet, so then nobody goes on.
    """
    found = -1
    for k in range(split[w, D_COUNT]):
        if SPLIT_AT_BARRIER <= split[w, D_STATE + k] < SPLIT_AT_SYNC:
            return False
        if SPLIT_AT_SYNC <= split[w, D_STATE + k] < SPLIT_AT_COLLECTIVE:
            found = split[w, D_STATE + k] - SPLIT_AT_SYNC + FIRST_SYNC
    if found < 0:
        return False
    split[w, D_AGAIN] |= release_sync(split, w, found)
    return True


@compiled
def gather(split, w, pc):
    """Takes all other lanes that are at an instruction, also those that wait at it if it is a BSYNC."""
    lanes = 0
    for k in range(split[w, D_COUNT] - 1, -1, -1):
        if split[w, D_STATE + k] <= SPLIT_OLD and split[w, D_PC + k] == pc:
            lanes |= split[w, D_MASK + k]
            remove(split, w, k)
    for b in range(FIRST_SYNC):
        if split[w, D_WAITING + b] != 0 and split[w, D_RESUME + b] == pc:
            lanes |= split[w, D_WAITING + b]
            split[w, D_WAITING + b] = 0
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
    stay = active & ~taken
    age(split, w)
    if popc(taken) < popc(stay):
        push(split, w, fall_through, stay, SPLIT_READY)
        warp[w, W_ACTIVE] = taken
        warp[w, W_PC] = target
    else:
        push(split, w, target, taken, SPLIT_READY)
        warp[w, W_ACTIVE] = stay
        warp[w, W_PC] = fall_through
    return True


@compiled
def send(warp, split, w, gone, target, again, fall_through):
    """Indirect branch: lanes in `gone` go to `target`, those in `again` repeat the branch, the others go on."""
    stay = warp[w, W_ACTIVE] & ~(gone | again)
    if stay != 0:
        push(split, w, fall_through, stay, SPLIT_READY)
    if again != 0:
        push(split, w, warp[w, W_PC], again, SPLIT_READY)
    split[w, D_AGAIN] = (split[w, D_AGAIN] & ~gone) | again
    warp[w, W_ACTIVE] = gone
    warp[w, W_PC] = target


@compiled
def set_barrier(warp, split, w, barrier):
    """BSSY: the active lanes are to meet at `barrier`.

    Lanes that wait at it stay: in a recursion they wait for an outer use of the barrier, whose members BMOV has saved.
    """
    split[w, D_MEMBERS + barrier] = warp[w, W_ACTIVE]


@compiled
def open_barriers(warp, split, w):
    """Goes on with the lanes at every convergence barrier and WARPSYNC that nobody is missing from any more."""
    alive = warp[w, W_ALIVE]
    for b in range(CONVERGENCE_BARRIERS):
        members = split[w, D_MEMBERS + b]
        waiting = split[w, D_WAITING + b]
        if b < FIRST_SYNC:
            waiting &= members
        if waiting != 0 and members & alive & ~waiting == 0:
            if b >= FIRST_SYNC:
                split[w, D_AGAIN] |= release_sync(split, w, b)
                retry_collective(split, w, b)
            else:
                push(split, w, split[w, D_RESUME + b], waiting, SPLIT_READY)
                split[w, D_WAITING + b] &= ~waiting
                split[w, D_MEMBERS + b] = 0


@compiled
def meet(warp, split, w, barrier):
    """BSYNC: the active lanes wait for the members of `barrier`. False if no lane of the warp can run now."""
    active = warp[w, W_ACTIVE]
    members = split[w, D_MEMBERS + barrier]
    waiting = split[w, D_WAITING + barrier]
    if members & active == 0:  # opened before by a YIELD: nothing to wait for
        warp[w, W_PC] += 1
        return True
    if members & warp[w, W_ALIVE] & ~active & ~waiting & ~split[w, D_YIELDED] == 0:
        together = active | (waiting & members)
        warp[w, W_ACTIVE] = together
        warp[w, W_PC] += 1
        split[w, D_WAITING + barrier] = waiting & ~together
        split[w, D_MEMBERS + barrier] = 0
        return True
    split[w, D_WAITING + barrier] = waiting | active
    split[w, D_RESUME + barrier] = warp[w, W_PC]
    warp[w, W_ACTIVE] = 0
    return pick(warp, split, w)


@compiled
def release_sync(split, w, barrier):
    """Makes the groups that wait at WARPSYNC ready to execute it again. Returns their lanes."""
    lanes = 0
    for k in range(split[w, D_COUNT]):
        if split[w, D_STATE + k] == SPLIT_AT_SYNC + barrier - FIRST_SYNC:
            split[w, D_STATE + k] = SPLIT_READY
            lanes |= split[w, D_MASK + k]
    split[w, D_WAITING + barrier] &= ~lanes
    return lanes


@compiled
def retry_collective(split, w, barrier):
    """Makes the groups that wait at WARPSYNC.COLLECTIVE ready to find out that nobody is missing any more."""
    for k in range(split[w, D_COUNT]):
        if split[w, D_STATE + k] == SPLIT_AT_COLLECTIVE + barrier - FIRST_SYNC:
            split[w, D_STATE + k] = SPLIT_READY
            split[w, D_WAITING + barrier] &= ~split[w, D_MASK + k]


@compiled
def sync_barrier(split, w, mask):
    """The convergence barrier that stands for WARPSYNC of the lanes in `mask`."""
    found = CONVERGENCE_BARRIERS - 1
    for b in range(CONVERGENCE_BARRIERS - 1, FIRST_SYNC - 1, -1):
        if split[w, D_WAITING + b] == 0:
            found = b
    for b in range(FIRST_SYNC, CONVERGENCE_BARRIERS):
        if split[w, D_WAITING + b] != 0 and split[w, D_MEMBERS + b] == mask:
            found = b
    split[w, D_MEMBERS + found] = mask
    return found


@compiled
def warp_sync(warp, split, w, mask):
    """WARPSYNC: the active lanes wait for those in `mask`. False if no lane of the warp can run now."""
    active = warp[w, W_ACTIVE]
    pc = warp[w, W_PC]
    if mask & ~active == 0 or split[w, D_AGAIN] & active != 0:
        split[w, D_AGAIN] &= ~active
        warp[w, W_PC] = pc + 1
        return True
    barrier = sync_barrier(split, w, mask)
    waits = SPLIT_AT_SYNC + barrier - FIRST_SYNC
    for k in range(split[w, D_COUNT] - 1, -1, -1):
        if split[w, D_STATE + k] == waits and split[w, D_PC + k] == pc:
            active |= split[w, D_MASK + k]
            remove(split, w, k)
    split[w, D_WAITING + barrier] |= active
    if mask & warp[w, W_ALIVE] & ~split[w, D_WAITING + barrier] == 0:
        split[w, D_AGAIN] |= active | release_sync(split, w, barrier)
        split[w, D_WAITING + barrier] = 0
        warp[w, W_ACTIVE] = active
        return True
    push(split, w, pc, active, waits)
    warp[w, W_ACTIVE] = 0
    return pick(warp, split, w)


@compiled
def collect(warp, split, w, mask, label):
    """WARPSYNC.COLLECTIVE: all in `mask` go on together. False if no lane of the warp can run now."""
    active = warp[w, W_ACTIVE]
    if split[w, D_AGAIN] & active != 0:
        split[w, D_AGAIN] &= ~active
        warp[w, W_PC] = label
        return True
    barrier = sync_barrier(split, w, mask)
    waits = SPLIT_AT_COLLECTIVE + barrier - FIRST_SYNC
    together = split[w, D_WAITING + barrier] | active
    if mask & warp[w, W_ALIVE] & ~together != 0:
        split[w, D_WAITING + barrier] = together
        push(split, w, warp[w, W_PC], active, waits)
        warp[w, W_ACTIVE] = 0
        return pick(warp, split, w)
    for k in range(split[w, D_COUNT]):
        if split[w, D_STATE + k] == waits:
            split[w, D_STATE + k] = SPLIT_IN_COLLECTIVE
    split[w, D_WAITING + barrier] = 0
    warp[w, W_ACTIVE] = together
    warp[w, W_PC] += 1
    return True


@compiled
def end_collective(warp, split, w):
    """ENDCOLLECTIVE: the last group to arrive goes on, the others are ready to execute their WARPSYNC again."""
    for k in range(split[w, D_COUNT]):
        if split[w, D_STATE + k] == SPLIT_IN_COLLECTIVE:
            split[w, D_STATE + k] = SPLIT_READY
            split[w, D_AGAIN] |= split[w, D_MASK + k]
            warp[w, W_ACTIVE] &= ~split[w, D_MASK + k]
    warp[w, W_PC] += 1


@compiled
def leave(warp, split, w, barrier, mask):
    """BREAK: lanes in `mask` no longer take part in `barrier`."""
    split[w, D_MEMBERS + barrier] &= ~mask
    open_barriers(warp, split, w)


@compiled
def yield_lanes(warp, split, w):
    """YIELD: whoever waits for the active lanes alone goes ahead, and other ready lanes run first."""
    active = warp[w, W_ACTIVE]
    alive = warp[w, W_ALIVE]
    warp[w, W_PC] += 1
    gone = active | split[w, D_YIELDED]
    for b in range(CONVERGENCE_BARRIERS):
        waiting = split[w, D_WAITING + b]
        if waiting != 0 and b >= FIRST_SYNC:
            release_sync(split, w, b)
        elif waiting != 0 and split[w, D_MEMBERS + b] & alive & ~waiting & ~gone == 0:
            push(split, w, split[w, D_RESUME + b], waiting, SPLIT_READY)
            split[w, D_WAITING + b] = 0
            split[w, D_MEMBERS + b] = 0
    if any_ready(split, w):
        resume = warp[w, W_PC]
        pick(warp, split, w)
        if warp[w, W_PC] == resume:
            warp[w, W_ACTIVE] |= active | gather(split, w, resume)
            warp[w, W_PC] = resume - 1
        else:
            push_bottom(split, w, resume, active)
            split[w, D_YIELDED] |= active


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
