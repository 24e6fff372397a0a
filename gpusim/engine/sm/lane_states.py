"""States of a warp's lanes that do not run, and the choice of those that go on next. `convergence.py` uses it.

Each lane has a program counter (SPLIT_PC) and a state: it can run, has given way (SPLIT_YIELDED), or waits: at a
convergence barrier or WARPSYNC (SPLIT_WAITING), in a WARPSYNC.COLLECTIVE (SPLIT_COLLECTIVE, SPLIT_INSIDE), at a barrier
of the block (SPLIT_HELD).
Which goes on next follows from three registers, which an H200 lets a program read (BMOV of OPT_STACK and TRAP_RETURN;
THREAD_STATE_ENUM holds the states):

- a stack of lane numbers, the lowest lane of each side that a parting left behind;
- the last such side as a group of its own, which is forgotten once it has run or lanes part again;
- a candidate, a lane chosen early for when the stack is empty.
"""

from gpusim.engine.state import L, compiled, lowest_bit

#: The first of the convergence barriers that stand for WARPSYNC, one for each lane mask in use.
FIRST_SYNC = 16
#: No lane.
NONE = -1


@compiled
def place(split, w, lanes, pc):
    """Sets the program counter of lanes that stop."""
    while lanes != 0:
        split[w, L.SPLIT_PC + lowest_bit(lanes)] = pc
        lanes &= lanes - 1


@compiled
def at_pc(split, w, lanes, pc):
    """The lanes, of the idle `lanes`, whose program counter is at an instruction."""
    found = 0
    while lanes != 0:
        lane = lowest_bit(lanes)
        if split[w, L.SPLIT_PC + lane] == pc:
            found |= lanes & -lanes
        lanes &= lanes - 1
    return found


@compiled
def park(split, w, lanes, pc):
    """Leaves lanes behind that can run: on top of the stack, and as the last side."""
    depth = split[w, L.SPLIT_DEPTH]
    if depth >= L.LANES_OF_WARP:  # never, as each entry is a lane of its own; `run_warp.run_instruction` reports it
        split[w, L.SPLIT_FULL] = 1
        return
    place(split, w, lanes, pc)
    split[w, L.SPLIT_STACK + depth] = lowest_bit(lanes)
    split[w, L.SPLIT_DEPTH] = depth + 1
    split[w, L.SPLIT_PARKED] |= lanes
    split[w, L.SPLIT_LAST_PC] = pc
    split[w, L.SPLIT_LAST] = lanes


@compiled
def wake(split, w, lanes):
    """Lanes that had given way, or waited for others of their warp, can run."""
    split[w, L.SPLIT_YIELDED] &= ~lanes
    split[w, L.SPLIT_COLLECTIVE] &= ~lanes
    for b in range(L.CONVERGENCE_BARRIERS):
        split[w, L.SPLIT_WAITING + b] &= ~lanes


@compiled
def waiting(split, w, first, last, field=L.SPLIT_WAITING):
    """Lanes that wait at one of the barriers from `first` to before `last`, of convergence or of another `field`."""
    lanes = 0
    for b in range(first, last):
        lanes |= split[w, field + b]
    return lanes


@compiled
def held(split, w):
    """Lanes that wait at a barrier of the block."""
    return waiting(split, w, 0, L.BARRIERS_OF_BLOCK, L.SPLIT_HELD)


@compiled
def idle(warp, split, w):
    """Lanes that do not run but could be let go on: not those at a barrier of the block, or in a collective."""
    return warp[w, L.WARP_ALIVE] & ~warp[w, L.WARP_ACTIVE] & ~(split[w, L.SPLIT_INSIDE] | held(split, w))


@compiled
def can_run(warp, split, w):
    """Lanes that do not run and wait for nothing, parked or not."""
    return idle(warp, split, w) & ~(split[w, L.SPLIT_YIELDED] | waiting(split, w, 0, L.CONVERGENCE_BARRIERS))


@compiled
def in_turn(lanes, after):
    """The first of `lanes` behind lane number `after`, around the end."""
    behind = lanes & ~((2 << after) - 1)
    return lowest_bit(behind if behind != 0 else lanes)


@compiled
def search(warp, split, w):
    """The next candidate: in turn behind the lane that was found last, of all that idle but not on the stack."""
    lanes = idle(warp, split, w) & ~split[w, L.SPLIT_PARKED]
    split[w, L.SPLIT_FIRST_COME] = 0
    split[w, L.SPLIT_CANDIDATE] = NONE if lanes == 0 else in_turn(lanes, split[w, L.SPLIT_FOUND])


@compiled
def go_on(warp, split, w, lanes, pc):
    """Makes `lanes` the running ones, and those in their copy of a collective that no barrier holds any more."""
    wake(split, w, lanes)
    split[w, L.SPLIT_PARKED] &= ~lanes
    if split[w, L.SPLIT_CANDIDATE] >= 0 and (lanes >> split[w, L.SPLIT_CANDIDATE]) & 1:
        split[w, L.SPLIT_CANDIDATE] = NONE
    split[w, L.SPLIT_SPIN] = 0
    warp[w, L.WARP_ACTIVE] = lanes | split[w, L.SPLIT_INSIDE] & ~held(split, w)
    warp[w, L.WARP_PC] = pc


@compiled
def go_on_with(warp, split, w, lane):
    """Makes an idle lane run and all that are at the same instruction, also those that wait there."""
    pc = split[w, L.SPLIT_PC + lane]
    lanes = at_pc(split, w, idle(warp, split, w), pc)
    kept = 0
    for k in range(split[w, L.SPLIT_DEPTH]):
        split[w, L.SPLIT_STACK + kept] = split[w, L.SPLIT_STACK + k]
        kept += (lanes >> split[w, L.SPLIT_STACK + k]) & 1 == 0
    split[w, L.SPLIT_DEPTH] = kept
    if kept == 0 and can_run(warp, split, w) & ~lanes == 0:
        for b in range(FIRST_SYNC):
            if split[w, L.SPLIT_WAITING + b] & split[w, L.SPLIT_MEMBERS + b] & lanes != 0:
                split[w, L.SPLIT_MEMBERS + b] = 0
    go_on(warp, split, w, lanes, pc)


@compiled
def resume(warp, split, w, stopped):
    """Lets other lanes run than those that did. False if none can.

    `stopped`: those that did, if they have given way or wait for others of their warp; 0 if they have ended or wait for
    the block.
    """
    warp[w, L.WARP_ACTIVE] = 0
    if split[w, L.SPLIT_CANDIDATE] == NONE and stopped != 0:
        split[w, L.SPLIT_CANDIDATE] = lowest_bit(stopped)
        split[w, L.SPLIT_FIRST_COME] = 1
    if split[w, L.SPLIT_DEPTH] == 0:
        return pick(warp, split, w, stopped)
    split[w, L.SPLIT_DEPTH] -= 1
    if split[w, L.SPLIT_LAST] != 0:
        lanes = split[w, L.SPLIT_LAST]
        split[w, L.SPLIT_LAST] = 0
        go_on(warp, split, w, lanes, split[w, L.SPLIT_LAST_PC])
        return True
    lane = split[w, L.SPLIT_STACK + split[w, L.SPLIT_DEPTH]]
    candidate = split[w, L.SPLIT_CANDIDATE]
    if candidate > lane and split[w, L.SPLIT_FIRST_COME] != 0:  # one that a search had found would stay
        nearer = stopped & ~((2 << lane) - 1) & ((1 << candidate) - 1)
        candidate = lowest_bit(nearer) if nearer != 0 else candidate
        split[w, L.SPLIT_CANDIDATE] = candidate
    go_on_with(warp, split, w, lane)
    if candidate >= 0 and split[w, L.SPLIT_CANDIDATE] == NONE:
        search(warp, split, w)
    warp[w, L.WARP_TOOK_OLD] = 1
    return True


@compiled
def pick(warp, split, w, stopped):
    """With an empty stack: lets the candidate run, others than `stopped` if there are any. False if nobody can.

    A BSYNC that it waits at opens. It could wait for lanes at a barrier of the block; then it stays, as it does at a
    WARPSYNC if there is nobody else.
    """
    lanes = idle(warp, split, w)
    at_bsync = waiting(split, w, 0, FIRST_SYNC)
    at_sync = waiting(split, w, FIRST_SYNC, L.CONVERGENCE_BARRIERS)
    if held(split, w) != 0:
        lanes &= ~(at_bsync | at_sync)
    if lanes & ~at_sync == 0:
        return False
    lanes &= ~stopped
    if lanes == 0:
        split[w, L.SPLIT_CANDIDATE] = NONE
        go_on(warp, split, w, stopped, split[w, L.SPLIT_PC + lowest_bit(stopped)])
        return True
    lane = split[w, L.SPLIT_CANDIDATE]
    if lane == NONE or (lanes >> lane) & 1 == 0:
        lane = in_turn(lanes, split[w, L.SPLIT_FOUND])
    split[w, L.SPLIT_FOUND] = lane
    split[w, L.SPLIT_CANDIDATE] = NONE
    for b in range(L.CONVERGENCE_BARRIERS):
        there = split[w, L.SPLIT_WAITING + b] & (split[w, L.SPLIT_MEMBERS + b] if b < FIRST_SYNC else lanes)
        if (there >> lane) & 1:
            wake(split, w, there)
            if b < FIRST_SYNC:
                split[w, L.SPLIT_MEMBERS + b] = 0
    go_on_with(warp, split, w, lane)
    search(warp, split, w)
    return True
