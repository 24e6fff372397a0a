"""Divergence and reconvergence of a warp: which of its lanes run, and where the others are.

Every lane has its own program counter (Volta and later). The lanes that run together are the warp's active mask; the
others are in *splits* (`splits.py`: groups with one program counter that can run, or wait, at a convergence barrier
B0..B15 for example). BSSY names who must meet, BSYNC waits for them, BREAK and EXIT take lanes out, WARPSYNC waits for
the lanes of a mask wherever they are. General semantics after "Control Flow Management in Modern GPUs" (arXiv
2407.02944) and the convergence-barrier patent US 2016/0019066 A1. What they leave open we measured on an H200: clocks
on both sides of branches, Nsight Compute's instruction counts, and 6,000 launches of one warp through 1,500 random
programs of branches, loops, ways out of them and YIELDs in which every lane notes where it is and when
(`tests/gpusim/test_flow_replay.py` replays some of each):

- Of the two sides of a branch the one with fewer lanes runs first; if they are equal, the one that falls through. The
  other waits on a stack until the first can go no further: a load that a side waits for does not let the other go.
- An indirect branch sends the lanes that share the target of the lowest lane, unless they are the majority: then those
  that share the target of the lowest other lane. All others execute the branch again later.
- Only the last side left behind is remembered as a group. When lanes part again the ones before it lose their
  identity: what goes on later is every lane at their instruction, those that wait there included.
- BSSY adds lanes to a barrier. Others may be in it: lanes that gave way in a loop, while those before the loop come by.
  If its members wait at different BSYNCs when the last one arrives, all execute theirs again.
- Lanes that wait at BSYNC go on when the last member arrives. When it leaves instead, by BREAK or EXIT, they execute
  their BSYNC again, so that instruction counters see it twice. Lanes that are no members pass, and leave those behind.
- WARPSYNC of lanes that are not yet together: each group executes it once as it arrives, then all together once more.
  One that only lanes are missing from that have ended is passed at once.
- WARPSYNC does not wait for lanes that wait at BSYNC for those at the WARPSYNC: they could never come. (Not measured:
  numba-cuda's reduction ends with such a WARPSYNC of a few lanes, and runs on hardware.)
- WARPSYNC.EXCLUSIVE is for lanes with different masks, as of `__reduce_max_sync(__match_any_sync(...))`: those of one
  mask go on without the others, to the next BSYNC. (Not measured: the order of the masks.)
- WARPSYNC.COLLECTIVE begins code that all lanes of the mask run together, in the copy of the last group to arrive. When
  it ends the groups part, and those that had waited execute their WARPSYNC again, which sends them to its label.

YIELD:

- All others go first who can run and have not given way themselves. Lanes at WARPSYNC come after them and execute it
  again, and go on waiting.
- If there are none, the lanes at one BSYNC execute it again and pass: those of the lowest barrier whose members are all
  waiting somewhere or have given way.
- Besides, one BSYNC that only lanes are missing from that gave way or wait elsewhere is passed, if nobody else can run.
  The next one is waited at. Who waits elsewhere for those who pass there has to execute that BSYNC again.
- Lanes that arrive where others wait, while only lanes that gave way are missing, wait; then all of them execute their
  BSYNC again and pass.
- Lanes that give way to lanes that had given way at the same YIELD go on with them: all execute it once more, together.

With these rules 82 in 100 of the 6,000 launches show the groups of the H200 in its order: all without a YIELD (one of
2,840 is off), and two in three of those with YIELDs. What the others have in common is that lanes give way while
others have given way already, or wait at more than one barrier: who of them is next is not understood.
"""

from gpusim.engine.sm import splits
from gpusim.engine.state import layout as L
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled

#: Backward branches a group may take while another one is ready, before they change places: forward progress for
#: loops that spin without a YIELD. Only the order of independent groups depends on it.
SPIN_LIMIT = 1024


@compiled
def pick(warp, split, w):
    """Makes the topmost ready split the running one. False if there is none."""
    for _ in range(2):
        for k in range(split[w, L.D_COUNT] - 1, -1, -1):
            if split[w, L.D_STATE + k] <= L.SPLIT_OLD:
                pc = split[w, L.D_PC + k]
                active = split[w, L.D_MASK + k]
                old = split[w, L.D_STATE + k] == L.SPLIT_OLD
                splits.remove(split, w, k)
                if old:
                    if active & (split[w, L.D_PASSING] | split[w, L.D_LATE]) == 0:
                        warp[w, L.W_TOOK_OLD] = 1
                    active |= splits.gather(split, w, pc)
                warp[w, L.W_PC] = pc
                warp[w, L.W_ACTIVE] = active
                splits.goes_on(split, w, active)
                split[w, L.D_SPIN] = 0
                return True
        if not pass_alone(warp, split, w) and not pass_sync(split, w):
            break
    return False


@compiled
def pass_alone(warp, split, w):
    """Lets lanes at a BSYNC go on that wait for nobody any more. False if there are none.

    To be called when no lane can run.
    """
    for b in range(splits.FIRST_SYNC):
        waiting = split[w, L.D_WAITING + b]
        if waiting != 0 and split[w, L.D_MEMBERS + b] & warp[w, L.W_ALIVE] & ~waiting == 0:
            split[w, L.D_MEMBERS + b] |= waiting
            splits.wake(split, w, b, False)
            split[w, L.D_MEMBERS + b] = 0
            return True
    return False


@compiled
def pass_sync(split, w):
    """Lets the lanes at a WARPSYNC go on whose others can never come, as they wait at BSYNC. False if there are none.

    To be called when no lane can run. Lanes at a block's barrier may come yet, so then nobody goes on.
    """
    found = -1
    for k in range(split[w, L.D_COUNT]):
        if L.SPLIT_AT_BARRIER <= split[w, L.D_STATE + k] < L.SPLIT_AT_SYNC:
            return False
        if L.SPLIT_AT_SYNC <= split[w, L.D_STATE + k] < L.SPLIT_AT_COLLECTIVE:
            found = split[w, L.D_STATE + k] - L.SPLIT_AT_SYNC + splits.FIRST_SYNC
    if found < 0:
        return False
    split[w, L.D_AGAIN] |= release_sync(split, w, found)
    return True


@compiled
def branch(warp, split, w, taken, target, fall_through):
    """Lanes in `taken` go to `target`, the other active lanes on. True if the active lanes part."""
    active = warp[w, L.W_ACTIVE]
    if taken == active:
        pc = warp[w, L.W_PC]
        warp[w, L.W_PC] = target
        if target <= pc and split[w, L.D_COUNT] > 0:
            split[w, L.D_SPIN] += 1
            if split[w, L.D_SPIN] >= SPIN_LIMIT and splits.any_ready(split, w):
                splits.push_bottom(split, w, target, active)
                pick(warp, split, w)
        return False
    if taken == 0:
        warp[w, L.W_PC] = fall_through
        return False
    stay = active & ~taken
    splits.age(split, w)
    if popc(taken) < popc(stay):
        splits.push(split, w, fall_through, stay, L.SPLIT_READY)
        warp[w, L.W_ACTIVE] = taken
        warp[w, L.W_PC] = target
    else:
        splits.push(split, w, target, taken, L.SPLIT_READY)
        warp[w, L.W_ACTIVE] = stay
        warp[w, L.W_PC] = fall_through
    return True


@compiled
def send(warp, split, w, gone, target, again, fall_through):
    """Indirect branch: lanes in `gone` go to `target`, those in `again` repeat the branch, the others go on."""
    stay = warp[w, L.W_ACTIVE] & ~(gone | again)
    if stay != 0:
        splits.push(split, w, fall_through, stay, L.SPLIT_READY)
    if again != 0:
        splits.push(split, w, warp[w, L.W_PC], again, L.SPLIT_READY)
    split[w, L.D_AGAIN] = (split[w, L.D_AGAIN] & ~gone) | again
    warp[w, L.W_ACTIVE] = gone
    warp[w, L.W_PC] = target


@compiled
def set_barrier(warp, split, w, barrier):
    """BSSY: the active lanes are to meet at `barrier`.

    Lanes that wait at it stay: in a recursion they wait for an outer use of the barrier, whose members BMOV has saved.
    """
    split[w, L.D_MEMBERS + barrier] |= warp[w, L.W_ACTIVE]


@compiled
def open_barriers(warp, split, w):
    """Goes on with the lanes at every convergence barrier and WARPSYNC that nobody is missing from any more."""
    alive = warp[w, L.W_ALIVE]
    for b in range(L.CONVERGENCE_BARRIERS):
        members = split[w, L.D_MEMBERS + b]
        waiting = split[w, L.D_WAITING + b]
        if b < splits.FIRST_SYNC:
            waiting &= members
        if waiting != 0 and members & alive & ~waiting == 0:
            if b >= splits.FIRST_SYNC:
                split[w, L.D_AGAIN] |= release_sync(split, w, b)
                retry_collective(split, w, b)
            else:
                splits.release(split, w, b, L.SPLIT_READY, False)
                split[w, L.D_MEMBERS + b] = 0


@compiled
def wait_at(warp, split, w, barrier, lanes):
    """`lanes` of the running group wait at their BSYNC, with the members that wait there already."""
    pc = warp[w, L.W_PC]
    together = lanes
    for k in range(split[w, L.D_COUNT] - 1, -1, -1):
        here = split[w, L.D_STATE + k] == L.SPLIT_AT_BSYNC + barrier and split[w, L.D_PC + k] == pc
        if here and split[w, L.D_MASK + k] & split[w, L.D_MEMBERS + barrier] != 0:
            together |= split[w, L.D_MASK + k]
            splits.remove(split, w, k)
    splits.push(split, w, pc, together, L.SPLIT_AT_BSYNC + barrier)
    split[w, L.D_WAITING + barrier] |= lanes
    warp[w, L.W_ACTIVE] &= ~lanes


@compiled
def join(warp, split, w, barrier):
    """BSYNC passed: who waits at the same one goes on with the running group."""
    members = split[w, L.D_MEMBERS + barrier]
    for k in range(split[w, L.D_COUNT] - 1, -1, -1):
        lanes = split[w, L.D_MASK + k]
        here = split[w, L.D_STATE + k] == L.SPLIT_AT_BSYNC + barrier and split[w, L.D_PC + k] == warp[w, L.W_PC]
        if here and lanes & members != 0:
            warp[w, L.W_ACTIVE] |= lanes
            split[w, L.D_WAITING + barrier] &= ~lanes
            splits.remove(split, w, k)
    split[w, L.D_MEMBERS + barrier] = 0
    warp[w, L.W_PC] += 1


@compiled
def meet(warp, split, w, barrier):
    """BSYNC: the active lanes wait for the members of `barrier`. False if no lane of the warp can run now."""
    active = warp[w, L.W_ACTIVE]
    members = split[w, L.D_MEMBERS + barrier] & warp[w, L.W_ALIVE]
    waiting = split[w, L.D_WAITING + barrier] & members
    missing = members & ~active & ~waiting
    if active & split[w, L.D_PASSING] != 0:
        split[w, L.D_PASSING] &= ~active
        split[w, L.D_MEMBERS + barrier] = 0
        warp[w, L.W_PC] += 1
        return True
    if members & active == 0:  # opened before by a YIELD: nothing to wait for
        warp[w, L.W_PC] += 1
        return True
    if missing == 0:
        for k in range(split[w, L.D_COUNT]):
            here = split[w, L.D_STATE + k] == L.SPLIT_AT_BSYNC + barrier and split[w, L.D_MASK + k] & members != 0
            if here and split[w, L.D_PC + k] != warp[w, L.W_PC]:
                wait_at(warp, split, w, barrier, active)
                splits.wake(split, w, barrier, False)
                split[w, L.D_MEMBERS + barrier] = 0
                return pick(warp, split, w)
        join(warp, split, w, barrier)
        return True
    if active & ~members != 0:
        wait_at(warp, split, w, barrier, active & members)
        warp[w, L.W_PC] += 1
        return True
    gone = splits.blocked(split, w)
    if missing & ~gone & ~split[w, L.D_GRANTED] == 0 and not splits.others_ready(split, w, split[w, L.D_GRANTED]):
        split[w, L.D_GRANTED] = 0
        join(warp, split, w, barrier)
        for b in range(splits.FIRST_SYNC):
            if split[w, L.D_WAITING + b] & missing != 0:
                splits.wake(split, w, b, True)
        return True
    wait_at(warp, split, w, barrier, active)
    yielded = split[w, L.D_YIELDED]
    if yielded != 0 and not splits.others_ready(split, w, yielded):
        if waiting != 0 and missing & ~yielded & ~gone == 0:
            split[w, L.D_GRANTED] = 0
            splits.wake(split, w, barrier, False)
        elif splits.wake_one(warp, split, w, active):
            split[w, L.D_GRANTED] = 0
    return pick(warp, split, w)


@compiled
def release_sync(split, w, barrier):
    """Makes the groups that wait at WARPSYNC ready to execute it again. Returns their lanes."""
    lanes = 0
    for k in range(split[w, L.D_COUNT]):
        if split[w, L.D_STATE + k] == L.SPLIT_AT_SYNC + barrier - splits.FIRST_SYNC:
            split[w, L.D_STATE + k] = L.SPLIT_READY
            lanes |= split[w, L.D_MASK + k]
    split[w, L.D_WAITING + barrier] &= ~lanes
    return lanes


@compiled
def retry_collective(split, w, barrier):
    """Makes the groups that wait at WARPSYNC.COLLECTIVE ready to find out that nobody is missing any more."""
    for k in range(split[w, L.D_COUNT]):
        if split[w, L.D_STATE + k] == L.SPLIT_AT_COLLECTIVE + barrier - splits.FIRST_SYNC:
            split[w, L.D_STATE + k] = L.SPLIT_READY
            split[w, L.D_WAITING + barrier] &= ~split[w, L.D_MASK + k]


@compiled
def sync_barrier(split, w, mask):
    """The convergence barrier that stands for WARPSYNC of the lanes in `mask`."""
    found = L.CONVERGENCE_BARRIERS - 1
    for b in range(L.CONVERGENCE_BARRIERS - 1, splits.FIRST_SYNC - 1, -1):
        if split[w, L.D_WAITING + b] == 0:
            found = b
    for b in range(splits.FIRST_SYNC, L.CONVERGENCE_BARRIERS):
        if split[w, L.D_WAITING + b] != 0 and split[w, L.D_MEMBERS + b] == mask:
            found = b
    split[w, L.D_MEMBERS + found] = mask
    return found


@compiled
def warp_sync(warp, split, w, mask):
    """WARPSYNC: the active lanes wait for those in `mask`. False if no lane of the warp can run now."""
    active = warp[w, L.W_ACTIVE]
    pc = warp[w, L.W_PC]
    if mask & warp[w, L.W_ALIVE] & ~active == 0 or split[w, L.D_AGAIN] & active != 0:
        split[w, L.D_AGAIN] &= ~active
        warp[w, L.W_PC] = pc + 1
        return True
    barrier = sync_barrier(split, w, mask)
    waits = L.SPLIT_AT_SYNC + barrier - splits.FIRST_SYNC
    for k in range(split[w, L.D_COUNT] - 1, -1, -1):
        if split[w, L.D_STATE + k] == waits and split[w, L.D_PC + k] == pc:
            active |= split[w, L.D_MASK + k]
            splits.remove(split, w, k)
    split[w, L.D_WAITING + barrier] |= active
    if mask & warp[w, L.W_ALIVE] & ~split[w, L.D_WAITING + barrier] == 0:
        split[w, L.D_AGAIN] |= active | release_sync(split, w, barrier)
        split[w, L.D_WAITING + barrier] = 0
        warp[w, L.W_ACTIVE] = active
        return True
    splits.push(split, w, pc, active, waits)
    warp[w, L.W_ACTIVE] = 0
    return pick(warp, split, w)


@compiled
def part(warp, split, w, lanes):
    """WARPSYNC.EXCLUSIVE: of the active lanes these go first, those with other masks execute it again behind them."""
    others = warp[w, L.W_ACTIVE] & ~lanes
    if others != 0:
        splits.push(split, w, warp[w, L.W_PC], others, L.SPLIT_READY)
        warp[w, L.W_ACTIVE] = lanes


@compiled
def collect(warp, split, w, mask, label):
    """WARPSYNC.COLLECTIVE: all in `mask` go on together. False if no lane of the warp can run now."""
    active = warp[w, L.W_ACTIVE]
    if split[w, L.D_AGAIN] & active != 0:
        split[w, L.D_AGAIN] &= ~active
        warp[w, L.W_PC] = label
        return True
    barrier = sync_barrier(split, w, mask)
    waits = L.SPLIT_AT_COLLECTIVE + barrier - splits.FIRST_SYNC
    together = split[w, L.D_WAITING + barrier] | active
    if mask & warp[w, L.W_ALIVE] & ~together != 0:
        split[w, L.D_WAITING + barrier] = together
        splits.push(split, w, warp[w, L.W_PC], active, waits)
        warp[w, L.W_ACTIVE] = 0
        return pick(warp, split, w)
    for k in range(split[w, L.D_COUNT]):
        if split[w, L.D_STATE + k] == waits:
            split[w, L.D_STATE + k] = L.SPLIT_IN_COLLECTIVE
    split[w, L.D_WAITING + barrier] = 0
    warp[w, L.W_ACTIVE] = together
    warp[w, L.W_PC] += 1
    return True


@compiled
def end_collective(warp, split, w):
    """ENDCOLLECTIVE: the last group to arrive goes on, the others are ready to execute their WARPSYNC again."""
    for k in range(split[w, L.D_COUNT]):
        if split[w, L.D_STATE + k] == L.SPLIT_IN_COLLECTIVE:
            split[w, L.D_STATE + k] = L.SPLIT_READY
            split[w, L.D_AGAIN] |= split[w, L.D_MASK + k]
            warp[w, L.W_ACTIVE] &= ~split[w, L.D_MASK + k]
    warp[w, L.W_PC] += 1


@compiled
def leave(warp, split, w, barrier, mask):
    """BREAK: lanes in `mask` no longer take part in `barrier`."""
    split[w, L.D_MEMBERS + barrier] &= ~mask
    open_barriers(warp, split, w)


@compiled
def yield_lanes(warp, split, w):
    """YIELD: whoever waits for the active lanes alone goes ahead, and other ready lanes run first."""
    active = warp[w, L.W_ACTIVE]
    warp[w, L.W_PC] += 1
    resume = warp[w, L.W_PC]
    if split[w, L.D_AGAIN] & active != 0:
        split[w, L.D_AGAIN] &= ~active
        return
    split[w, L.D_YIELDED] |= active
    split[w, L.D_GRANTED] |= active
    granted = split[w, L.D_GRANTED]
    if splits.others_ready(split, w, granted):
        splits.wake_sync(split, w, True)
    elif splits.top_but(split, w, granted) < 0:
        lanes = splits.gather(split, w, resume)
        if lanes != 0:
            together(warp, split, w, lanes)
            return
        if not splits.wake_one(warp, split, w, 0):
            if splits.any_ready(split, w):
                splits.push_bottom(split, w, resume, active)
                pick(warp, split, w)
            else:
                splits.goes_on(split, w, active)
            return
    if split[w, L.D_PC + splits.top_but(split, w, granted)] == resume:
        together(warp, split, w, splits.gather(split, w, resume))
    else:
        splits.push_bottom(split, w, resume, active)
        pick(warp, split, w)


@compiled
def together(warp, split, w, lanes):
    """Lanes that had given way at the same YIELD execute it once more with the active ones."""
    warp[w, L.W_ACTIVE] |= lanes
    warp[w, L.W_PC] -= 1
    split[w, L.D_AGAIN] |= warp[w, L.W_ACTIVE]
    splits.goes_on(split, w, warp[w, L.W_ACTIVE])


@compiled
def exit_lanes(warp, split, w, mask):
    """EXIT of the lanes in `mask`. False if no lane of the warp can run now."""
    warp[w, L.W_ALIVE] &= ~mask
    warp[w, L.W_ACTIVE] &= ~mask
    splits.goes_on(split, w, mask)
    split[w, L.D_PASSING] &= ~mask
    open_barriers(warp, split, w)
    if warp[w, L.W_ACTIVE] != 0:
        warp[w, L.W_PC] += 1
        return True
    return pick(warp, split, w)


@compiled
def block_at_barrier(warp, split, w, barrier):
    """The active lanes wait at a barrier of the block. False if no lane of the warp can run now."""
    splits.push(split, w, warp[w, L.W_PC] + 1, warp[w, L.W_ACTIVE], L.SPLIT_AT_BARRIER + barrier)
    warp[w, L.W_ACTIVE] = 0
    return pick(warp, split, w)


@compiled
def release_from_barrier(split, w, barrier):
    """Lanes that waited at a barrier of the block are ready again."""
    for k in range(split[w, L.D_COUNT]):
        if split[w, L.D_STATE + k] == L.SPLIT_AT_BARRIER + barrier:
            split[w, L.D_STATE + k] = L.SPLIT_READY
