"""Control flow: branches, calls, convergence barriers, exits, fences."""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, row_offset, set_predicate
from gpusim.engine.sm import convergence
from gpusim.engine.sm.barrier import check_complete
from gpusim.engine.sm.fence import begin_fence
from gpusim.engine.sm.flight import close_copies, close_group
from gpusim.engine.sm.group_time import arrive_in_group, wait_for_group
from gpusim.engine.sm.readiness import block
from gpusim.engine.sm.shadow import mask_is_sound
from gpusim.engine.sm.shadow_clocks import CHECK_RACE, CHECK_SYNC, lanes_of, sync_lanes
from gpusim.engine.sm.shadow_copies import end_group, wait_for_groups
from gpusim.engine.sm.space import fail
from gpusim.engine.sm.spinning import look
from gpusim.engine.state import L, P, compiled, lowest_bit, popc
from isa import microops as M


@compiled
def goto(st, sm, w, i, taken, target):
    """Sends lanes to an instruction, and counts a divergence."""
    if target < 0 or target >= st.code.shape[0]:
        fail(st, sm, L.ERROR_BAD_TARGET, i, w, lowest_bit(taken), target * 16, 16)
        return
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    counts[L.COUNT_BRANCHES] += 1
    if convergence.branch(st.warp, st.split, w, np.int64(taken), target, i + 1, st.par[P.STACK] != 0):
        counts[L.COUNT_DIVERGENT] += 1
    elif st.par[P.WATCHED] != 0 and st.warp[w, L.WARP_PC] <= i:
        look(st, w)


@compiled
def same_word(st, a, lanes, leader):
    """The lanes, of `lanes`, that hold the same word as `leader` in the register at `a`."""
    return np.int64(V.equal(V.load(st.regs, a), V.splat(st.regs[a + leader]))) & lanes


@compiled
def indirect(st, sm, w, i, wb, lanes):
    """Branch to an address from registers: one group of lanes goes, those with other targets repeat it later."""
    code = st.code
    a = row_offset(code[i, M.COL_A], wb)
    group = same_word(st, a, lanes, lowest_bit(lanes))
    if group != lanes and 2 * popc(group) > popc(lanes):
        group = same_word(st, a, lanes, lowest_bit(lanes & ~group))
    base = code[i, M.COL_AUX2] if code[i, M.COL_OP] == M.OP_CALL else code[i, M.COL_AUX0]
    target = (np.int64(np.int32(st.regs[a + lowest_bit(group)])) + np.int64(base)) >> 4
    null = code[i, M.COL_OP] == M.OP_CALL and target == 0  # a null pointer: a kernel's own start cannot be called
    if null or target < 0 or target >= code.shape[0]:
        fail(st, sm, L.ERROR_BAD_TARGET, i, w, lowest_bit(group), target * 16, 16)
        return
    if st.split[w, L.SPLIT_AGAIN] & lanes == 0:  # source counters see an instruction once, with all its targets
        groups, left = np.int64(0 if lanes == st.warp[w, L.WARP_ACTIVE] else 1), lanes
        while left != 0:
            left &= ~same_word(st, a, left, lowest_bit(left))
            groups += 1
        counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
        counts[L.COUNT_BRANCHES] += max(groups - 1, 1)
        counts[L.COUNT_DIVERGENT] += groups - 1
    convergence.send(st.warp, st.split, w, group, target, lanes & ~group, i + 1)


@compiled
def exit_threads(st, sm, w, i, mask, time):
    """EXIT: the lanes leave their block. False if no lane of the warp can run now."""
    b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    b[L.BLOCK_ALIVE] -= popc(mask)
    runs = convergence.exit_lanes(st.warp, st.split, w, np.int64(mask))
    if b[L.BLOCK_ALIVE] > 0:
        for number in range(16):
            if b[L.BLOCK_ARRIVED + number] > 0:
                check_complete(st, sm, w, i, np.int64(number), time + st.par[P.BAR_BASE], w)
    return runs


@compiled
def branch_lanes(st, sm, w, i, wb, lanes):
    """BRA: where its lanes go is decided by each, by any, by all, or by who is missing (BRA.ANY, BRA.U, BRA.DIV).

    Behind a BRA.U that some lanes would take, ptxas tests the same condition again and branches around what is for the
    others alone, in a region that begins there: it is taken by all lanes or none.
    """
    active = st.warp[w, L.WARP_ACTIVE]
    kind = st.code[i, M.COL_AUX1]
    if kind == M.BRANCH_DIV:
        a = row_offset(st.code[i, M.COL_A], wb)
        if st.par[P.CHECKS] & CHECK_SYNC:
            mask_is_sound(st, sm, i, w, lanes, a)
        named = np.int64(st.regs[a + lowest_bit(active)])
        if named & st.warp[w, L.WARP_ALIVE] & ~active == 0:
            lanes = np.int64(0)
    elif kind == M.BRANCH_ANY and lanes != 0:
        lanes = active
    elif kind == M.BRANCH_UNIFORM and lanes != active:
        lanes = np.int64(0)
    goto(st, sm, w, i, lanes, np.int64(st.code[i, M.COL_AUX0]))


@compiled
def sync_warp(st, sm, w, i, wb, lanes):
    """WARPSYNC. False if no lane of the warp can run now."""
    code = st.code
    named = lanes_of(st, w)
    if code[i, M.COL_AUX0] & 1 == 0:
        a = row_offset(code[i, M.COL_A], wb)
        first = lowest_bit(lanes)
        if code[i, M.COL_AUX0] & 2 != 0:
            lanes = same_word(st, a, lanes, first)
            convergence.part(st.warp, st.split, w, lanes)
        named &= np.int64(st.regs[a + first])
        # H100: so for every function of a warp that is compiled to it. Some branch around it where nobody is missing
        # (BRA.DIV), and run on; H200: COLLECTIVE takes any mask.
        for lane in range(32 if code[i, M.COL_AUX0] & 4 == 0 else 0):
            if (lanes >> lane) & 1 and (st.regs[a + lane] >> lane) & 1 == 0:
                fail(st, sm, L.ERROR_NOT_IN_MASK, i, w, lane, np.int64(st.regs[a + lane]), 32)
                return True
        if st.par[P.CHECKS] & CHECK_SYNC:
            mask_is_sound(st, sm, i, w, lanes, a)
    if code[i, M.COL_AUX0] & 4 != 0:
        label = np.int64(code[i, M.COL_AUX1])
        if label < 0 or label >= code.shape[0]:
            fail(st, sm, L.ERROR_BAD_TARGET, i, w, lowest_bit(lanes), label * 16, 16)
            return True
        return convergence.collect(st.warp, st.split, w, named, label)
    active = st.warp[w, L.WARP_ACTIVE]
    again = st.split[w, L.SPLIT_AGAIN] & active
    runs = convergence.warp_sync(st.warp, st.split, w, named)
    complete = named & ~active == 0 or st.split[w, L.SPLIT_AGAIN] & active != 0  # the last lane has arrived
    if st.par[P.CHECKS] & CHECK_RACE and again == 0 and complete:
        sync_lanes(st, sm, w, named & st.warp[w, L.WARP_ALIVE])
    return runs


@compiled
def move_barrier(st, w, i, wb, lanes):
    """BMOV: the members of a convergence barrier to or from a register, or from another barrier."""
    number = st.code[i, M.COL_AUX1]
    kind = st.code[i, M.COL_AUX0]
    if kind >= M.BMOV_COPY:
        other = L.SPLIT_MEMBERS + st.code[i, M.COL_AUX2]
        st.split[w, L.SPLIT_MEMBERS + number] = st.split[w, other]
        if kind == M.BMOV_MOVE:
            st.split[w, other] = 0
        return
    if kind == M.BMOV_FROM_REGISTER:
        a = row_offset(st.code[i, M.COL_A], wb)
        st.split[w, L.SPLIT_MEMBERS + number] = np.int64(st.regs[a + lowest_bit(lanes)])
        return
    write_lanes(st, i, wb, lanes, np.uint32(st.split[w, L.SPLIT_MEMBERS + number]))
    if kind == M.BMOV_CLEAR:
        st.split[w, L.SPLIT_MEMBERS + number] = 0


@compiled
def write_lanes(st, i, wb, lanes, value):
    """A value into the destination register of some lanes."""
    V.store(st.regs, row_offset(st.code[i, M.COL_DST], wb), V.splat(value), lanes)


@compiled
def elect(st, w, i, wb, lanes):
    """ELECT: the lowest lane, as a predicate and as its number."""
    first = np.uint32(1) << np.uint32(lowest_bit(lanes))
    set_predicate(st.preds, 16 * w, st.code[i, M.COL_PD0], first, lanes)
    write_lanes(st, i, wb, np.int64(0xFFFFFFFF), np.uint32(lowest_bit(lanes)))


@compiled
def change_registers(st, sm, w, i):
    """USETMAXREG: the warp gives registers back to its block, or takes what others gave back, if that is enough."""
    b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    more = st.code[i, M.COL_AUX0] - st.code[i, M.COL_AUX2] - st.warp[w, L.WARP_REGISTERS]
    has = st.code[i, M.COL_AUX1] == 0 or more <= b[L.BLOCK_REGISTERS]
    if has:
        b[L.BLOCK_REGISTERS] -= more
        st.warp[w, L.WARP_REGISTERS] += more
    set_predicate(st.preds, 16 * w, st.code[i, M.COL_PD0], np.uint32(0xFFFFFFFF if has else 0), FULL_MASK)


@compiled
def reconverge(st, sm, w, i, wb, lanes):
    """Instructions that move lanes of a warp between groups. False if no lane of the warp can run now."""
    op = st.code[i, M.COL_OP]
    if op == M.OP_BSYNC and lanes == st.warp[w, L.WARP_ACTIVE]:
        return convergence.meet(st.warp, st.split, w, st.code[i, M.COL_AUX1])
    if op == M.OP_YIELD:
        st.warp[w, L.WARP_PC] = i + 1
        if st.par[P.STACK] == 0:
            convergence.give_way(st.warp, st.split, w)
        return True
    if op == M.OP_WARPSYNC:
        return sync_warp(st, sm, w, i, wb, lanes)
    if op == M.OP_ENDCOLLECTIVE:
        convergence.end_collective(st.warp, st.split, w)
        return True
    if op == M.OP_BSSY:
        convergence.set_barrier(st.warp, st.split, w, st.code[i, M.COL_AUX1])
    elif op == M.OP_BREAK:
        convergence.leave(st.warp, st.split, w, st.code[i, M.COL_AUX1], np.int64(lanes))
        return True
    st.warp[w, L.WARP_PC] = i + 1  # a guarded BSYNC, where only some of the lanes go to meet the others, as well
    return True


@compiled
def control(st, sm, q, slot, w, i, wb, mask, time):
    """Executes a control instruction for the lanes in `mask`. False if no lane of the warp can run now."""
    code = st.code
    op = code[i, M.COL_OP]
    lanes = mask  # those of both predicates, where there are two: BREAK P1, B0
    if op == M.OP_BRA:
        branch_lanes(st, sm, w, i, wb, lanes)
        return True
    if lanes == 0 and op != M.OP_BSYNC:
        st.warp[w, L.WARP_PC] = i + 1
        return True
    if op == M.OP_EXIT or op == M.OP_KILL:
        return exit_threads(st, sm, w, i, lanes, time)
    if op == M.OP_JMP or (op == M.OP_CALL and code[i, M.COL_AUX0] >= 0):
        goto(st, sm, w, i, lanes, np.int64(code[i, M.COL_AUX0]))
        return True
    if op == M.OP_BRX or op == M.OP_JMX or op == M.OP_RET or op == M.OP_CALL:
        indirect(st, sm, w, i, wb, lanes)
        return True
    if op in (M.OP_BSSY, M.OP_BSYNC, M.OP_BREAK, M.OP_YIELD, M.OP_WARPSYNC, M.OP_ENDCOLLECTIVE):
        return reconverge(st, sm, w, i, wb, lanes)
    if op == M.OP_BPT:
        ended = code[i, M.COL_AUX0] == M.BPT_CODE_END
        fail(st, sm, L.ERROR_CODE_END if ended else L.ERROR_TRAP, i, w, lowest_bit(lanes), 0, 0)
        return True  # and stay: there is nothing behind the end of the code
    if op == M.OP_BMOV:
        move_barrier(st, w, i, wb, lanes)
    elif op == M.OP_ELECT:
        elect(st, w, i, wb, lanes)
    elif op == M.OP_LEPC:
        write_lanes(st, i, wb, lanes, np.uint32(code[i, M.COL_AUX0]))
        write_lanes(st, i, wb + 32, lanes, np.uint32(0))
    elif op == M.OP_LDGDEPBAR:
        close_copies(st, sm, w, time, code[i, M.COL_WBAR])
        if st.par[P.CHECKS] & CHECK_RACE:
            end_group(st, sm, w, i)
    elif op == M.OP_DEPBAR and st.par[P.CHECKS] & CHECK_RACE:
        wait_for_groups(st, sm, w, i, np.int64(lanes))
    elif op == M.OP_BULK_COMMIT:
        close_group(st, sm, w, L.WARP_BULK, L.BULK_WRITE_TOKEN, time, code[i, M.COL_RBAR])
    elif op == M.OP_REGISTERS:
        change_registers(st, sm, w, i)
    elif op == M.OP_GRID_TRIGGER:
        b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
        b[L.BLOCK_TRIGGERED] = time if b[L.BLOCK_TRIGGERED] == 0 else b[L.BLOCK_TRIGGERED]
    elif op == M.OP_NOP and st.par[P.CHECKS] & CHECK_RACE:
        sync_lanes(st, sm, w, lanes)
    st.warp[w, L.WARP_PC] = i + 1
    if op == M.OP_SYSCALL:
        st.warp[w, L.WARP_CALL] = time
        block(st, w, q, slot, L.WAIT_HOST, L.STALL_MISC)
        return False
    if op == M.OP_GRID_WAIT and st.par[P.DEPENDS] != 0:
        block(st, w, q, slot, L.WAIT_GRID, L.STALL_MISC)
        return False
    if op == M.OP_GROUP_ARRIVE:
        return arrive_in_group(st, sm, q, slot, w, time)
    if op == M.OP_GROUP_WAIT:
        wait_for_group(st, sm, w, np.int64(code[i, M.COL_AUX0]))
    if op == M.OP_MEMBAR and lanes != 0 and code[i, M.COL_AUX0] >= M.SCOPE_GPU and st.par[P.MODE] & L.BOOKS != 0:
        begin_fence(st, sm, w, np.int64(code[i, M.COL_AUX0]), time)
        block(st, w, q, slot, L.WAIT_MEMBAR, L.STALL_MEMBAR)
        return False
    return True
