"""Instructions on tensor memory: which there are, what of both blocks of a pair they touch, and when they are done.

What one block does to another takes effect between windows, as a request from SM to SM (`engine.sm.cluster`): products
of a pair, and what mbarriers of other blocks hear. All else takes effect at issue, and an mbarrier hears of it when the
tensor core is through.

An SM has one tensor core, which takes products and copies in order (`reserve`), and its results are there some time
after it has taken the next one. Loads and stores take turns at the port of their sub-partition. The numbers are those
of the configuration's section `tensor_memory`.
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.async_copy import send_store
from gpusim.engine.sm.bulk_effect import deliver_news, send_news
from gpusim.engine.sm.cluster import OFFSET_MASK, RANK_SHIFT, find_remote, peer_of
from gpusim.engine.sm.flight import release_at, take_deferred
from gpusim.engine.sm.shadow_clocks import CHECK_RACE
from gpusim.engine.sm.shadow_copies import note_arrivals
from gpusim.engine.sm.space import access, fail
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit
from gpusim.tensor_memory import operand as O
from gpusim.tensor_memory import place, races
from gpusim.tensor_memory import product as X
from isa import Program
from isa import microops as M

_DEPTH_BYTES = 32  # of a product along K, whatever its elements; twice as many of B if A is structured sparse
_REGISTER_BYTES = 128  # of a warp
_SHIFTED_COLUMNS = 8


@compiled
def other_of_pair(st, sm, slot, asked):
    """(SM, slot) of the other block of a pair, -1 without one or if it is not asked for."""
    if not asked or st.par[P.CLUSTER_BLOCKS] < 2:
        return np.int64(-1), np.int64(-1)
    return peer_of(st, sm, slot, st.block[sm, slot, L.BLOCK_RANK] ^ 1)


@compiled
def keep(st, sm, w, i, wb, entry):
    """Keeps the operands of an asynchronous instruction in an entry, whether it takes effect now or between windows:
    registers may change meanwhile. False after an error."""
    code, regs, k = st.code, st.regs, st.deferred_address[sm, entry]
    op, a, b = code[i, M.COL_OP], row_offset(code[i, M.COL_A], wb), row_offset(code[i, M.COL_B], wb)
    if op == M.OP_TMEM_PRODUCT:
        X.describe(st, w, i, wb, k, st.deferred_values[sm, entry, 0])
        if k[X.ROWS] == 0:
            fail(st, sm, L.ERROR_TMEM_DESCRIPTOR, i, w, 0, k[X.DESCRIPTOR], 0)
            return False
        columns = k[X.COLUMNS] // k[X.SHARES]
        right = place.check(st, sm, w, i, k[X.D], columns)
        if k[X.FLAGS] & M.PRODUCT_A_TMEM:
            right = right and place.check(st, sm, w, i, k[X.A] & 0xFFFFFFFF, np.int64(8))
        if k[X.SCALES]:
            right = right and place.check(st, sm, w, i, k[X.SCALE_A], (k[X.ROWS] + 31) // 32)
            right = right and place.check(st, sm, w, i, k[X.SCALE_B], (columns + 31) // 32)
        return right
    k[0] = regs[a] + code[i, M.COL_AUX4]
    if op == M.OP_TMEM_COPY:
        k[1] = np.int64(regs[b]) | np.int64(regs[b + 32]) << 32
        return place.check(st, sm, w, i, k[0], np.int64(8 if code[i, M.COL_AUX0] <= M.COPY_4X256 else 4))
    if op == M.OP_TMEM_SHIFT:
        return place.check(st, sm, w, i, k[0], np.int64(8))
    offset, own = k[0] & OFFSET_MASK, np.int64(1) << (k[0] >> RANK_SHIFT & 31)
    k[1] = np.int64(regs[b]) & 0xFFFF if code[i, M.COL_AUX3] != 0 else own
    if offset & 7 != 0 or offset < st.par[P.SHARED_FIRST] or offset + 8 > st.par[P.SHARED_BYTES]:
        fail(st, sm, L.ERROR_MISALIGNED if offset & 7 != 0 else L.ERROR_SHARED_BOUNDS, i, w, 0, k[0], 8)
        return False
    if k[1] == 0 or k[1] >> max(st.par[P.CLUSTER_BLOCKS], 1) != 0:
        fail(st, sm, L.ERROR_CLUSTER, i, w, 0, k[0], 8)
        return False
    if st.par[P.CHECKS] & CHECK_RACE:  # who sees the phase end has heard of what this thread did
        st.address[sm, :] = k[0]
        note_arrivals(st, sm, np.int64(w), np.int64(st.warp[w, L.WARP_ACTIVE]))
    return True


@compiled
def both(st, i):
    """Return whether an asynchronous instruction is one of a pair of blocks."""
    product = st.code[i, M.COL_OP] == M.OP_TMEM_PRODUCT
    return (st.code[i, M.COL_AUX1] & M.PRODUCT_PAIR if product else st.code[i, M.COL_AUX2]) != 0


@compiled
def reserve(st, sm, other, time, busy, done):
    """Books the tensor core of an SM, and of the other one of a pair: it begins when it is through with what came
    before, takes the next one `busy` cycles later, and its result is there `done` cycles after the begin."""
    for each in (sm, other):
        if each >= 0:
            begin = max(st.sm[each, L.SM_TMEM_BUSY], time)
            st.sm[each, L.SM_TMEM_BUSY] = begin + busy
            st.sm[each, L.SM_TMEM_DONE] = max(st.sm[each, L.SM_TMEM_DONE], begin + done)


@compiled
def book_product(st, sm, other, i, x, time):
    """Books a product, and counts it. All of A must have come from shared memory before the first columns enter, B
    comes beside them; of a pair each SM has its own rows of A and reads half of B."""
    par, pair = st.par, np.int64(other >= 0)
    of_a = np.int64(0) if x[X.FLAGS] & M.PRODUCT_A_TMEM else _DEPTH_BYTES * x[X.ROWS]
    of_b = (_DEPTH_BYTES * x[X.COLUMNS]) << X.bit(x[X.DESCRIPTOR], 2) >> pair
    enter = -(-x[X.COLUMNS] // (x[X.SHARES] * par[P.TMEM_COLUMN_RATE]))
    busy = max(enter, -(-(of_a + of_b) // par[P.TMEM_OPERANDS]))
    done = -(-of_a // par[P.TMEM_OPERANDS]) + enter + par[P.TMEM_PRODUCT] + pair * par[P.TMEM_PAIR]
    reserve(st, sm, other, time, busy, done)
    counts, amount = st.counters[st.sm[sm, L.SM_CHUNK], i], (x[X.ROWS] * x[X.COLUMNS] * x[X.DEPTH]) << pair
    counts[L.TMEM_MULTIPLY_ADDS] += amount
    counts[L.TMEM_SINGLE] += amount if x[X.A_FORM] == O.TF32 and x[X.KIND] == M.PRODUCT_HALF else 0
    counts[L.TMEM_CYCLES] += busy << pair


@compiled
def multiply_both(st, sm, slot, other, other_slot, x, masks):
    """A product of a block, or of both of a pair. False if an operand does not lie in its block's shared memory."""
    if other < 0:
        if x[X.ROWS] == L.TMEM_LANES and x[X.SHARES] == 1 and not x[X.HALF]:
            races.note(st, sm, x[X.D], x[X.COLUMNS], 1)
        return X.multiply(st, sm, slot, x, masks, sm, slot, sm, slot, np.int64(0))
    if st.block[sm, slot, L.BLOCK_RANK] & 1:
        sm, slot, other, other_slot = other, other_slot, sm, slot
    right = X.multiply(st, sm, slot, x, masks, sm, slot, other, other_slot, np.int64(0))
    return right and X.multiply(st, other, other_slot, x, masks, sm, slot, other, other_slot, np.int64(1))


@compiled
def tell_blocks(st, sm, slot, barrier, ranks, time, far):
    """The mbarriers of some blocks of the cluster hear that what came before is done; `far`: not within a window."""
    done = max(st.sm[sm, L.SM_TMEM_DONE], time) + st.par[P.TMEM_COMMIT]
    if far:
        done = max(done, time + st.par[P.REMOTE_WAY])
    for rank in range(max(st.par[P.CLUSTER_BLOCKS], 1)):
        if (ranks >> rank) & 1:
            there, where = peer_of(st, sm, slot, rank)
            races.note_commit(st, sm, there, (where * st.par[P.SHARED_STRIDE] + (barrier & OFFSET_MASK)) >> 2)
            n = send_news(st, there, where, L.COPY_ARRIVE_TOKEN, barrier & OFFSET_MASK, np.int64(1), np.int64(0))
            deliver_news(st, there, n, done)


@compiled
def act(st, sm, w, i, entry, time, far):
    """An asynchronous instruction takes effect."""
    slot, op, k = st.warp[w, L.WARP_BLOCK], st.code[i, M.COL_OP], st.deferred_address[sm, entry]
    (other, other_slot), right = other_of_pair(st, sm, slot, both(st, i)), True
    if op == M.OP_TMEM_PRODUCT:
        book_product(st, sm, other, i, k, time)
        right = multiply_both(st, sm, slot, other, other_slot, k, st.deferred_values[sm, entry, 0])
    elif op == M.OP_TMEM_COPY:
        rows, pieces = place.lines_of(st.code[i, M.COL_AUX0])
        busy = -(-rows * pieces * O.UNIT // st.par[P.TMEM_COPY])
        reserve(st, sm, other, time, busy, busy + st.par[P.TMEM_PRODUCT])
        right = place.copy(st, sm, slot, i, k[0], k[1])
        if other >= 0:
            right = right and place.copy(st, other, other_slot, i, k[0], k[1])
    elif op == M.OP_TMEM_SHIFT:
        busy = _SHIFTED_COLUMNS // st.par[P.TMEM_COLUMN_RATE]
        reserve(st, sm, other, time, busy, busy + st.par[P.TMEM_PRODUCT])
        place.shift(st, sm, k[0])
        if other >= 0:
            place.shift(st, other, k[0])
    else:
        tell_blocks(st, sm, slot, k[0], k[1], time, far)
    if not right:
        fail(st, sm, L.ERROR_SHARED_BOUNDS, i, w, 0, (k[X.B] & 0x3FFF) * 16, 16)


@compiled
def begin(st, sm, q, w, i, wb, time):
    """An asynchronous instruction: it takes effect at once, or between windows if other blocks have a part in it."""
    entry = min(st.sm[sm, L.SM_DEFERRED], st.deferred.shape[1] - 1)
    if not keep(st, sm, w, i, wb, entry):
        return
    slot = st.warp[w, L.WARP_BLOCK]
    rank = st.block[sm, slot, L.BLOCK_RANK] if st.par[P.CLUSTER_BLOCKS] > 0 else np.int64(0)
    if both(st, i) and st.par[P.CLUSTER_BLOCKS] < 2:
        fail(st, sm, L.ERROR_CLUSTER, i, w, 0, 1 << RANK_SHIFT, 0)
        return
    commits = st.code[i, M.COL_OP] == M.OP_TMEM_COMMIT
    far = both(st, i) or (commits and st.deferred_address[sm, entry, 1] != np.int64(1) << rank)
    if not far or st.par[P.MODE] & L.BOOKS == 0:
        act(st, sm, w, i, entry, time, False)
        return
    to = rank ^ 1
    if commits and not both(st, i):
        to = lowest_bit(st.deferred_address[sm, entry, 1] & ~(np.int64(1) << rank))
    st.address[sm, 0] = to << RANK_SHIFT | st.par[P.SHARED_FIRST]
    if find_remote(st, sm, i, w, 1, np.int64(8)):
        taken = take_deferred(st, sm, w, i)
        send_store(st, sm, access(q, w, i, wb, np.int64(1), np.int64(8), time), taken)


@compiled
def leave(st, sm, w):
    """The block gives up its right to allocate."""
    if st.sm[sm, L.SM_TMEM_OWNER] == st.warp[w, L.WARP_BLOCK] + 1:
        st.sm[sm, L.SM_TMEM_OWNER] = 0


@compiled_on_demand()
def tmem_effect(st, sm, entry, time):
    """An instruction that had to wait for the end of its window takes effect: its request came at `time`."""
    w, i = st.deferred[sm, entry, L.DEFERRED_WARP], st.deferred[sm, entry, L.DEFERRED_PC]
    act(st, sm, w, i, entry, time - st.par[P.REMOTE_WAY], True)


@compiled_on_demand()
def tmem_access(st, sm, q, w, i, wb, time):
    """Executes an instruction on tensor memory, which a warp asks for once, whatever lanes are active."""
    code, op = st.code, st.code[i, M.COL_OP]
    if op == M.OP_TMEM_LOAD or op == M.OP_TMEM_STORE:
        if place.move(st, sm, w, i, wb):
            port = L.SMSP_UNIT_FREE + M.UNIT_TMEM
            turns = -(-_REGISTER_BYTES * np.int64(code[i, M.COL_AUX1]) // st.par[P.TMEM_PORT])
            st.smsp[q, port] = max(st.smsp[q, port], time) + turns
            release_at(st, w, code[i, M.COL_WBAR], st.smsp[q, port] + st.par[P.TMEM_LOAD], L.STALL_LONG)
            release_at(st, w, code[i, M.COL_RBAR], st.smsp[q, port], L.STALL_LONG)
    elif op == M.OP_TMEM_WAIT:
        stored = st.smsp[q, L.SMSP_UNIT_FREE + M.UNIT_TMEM] + st.par[P.TMEM_STORE]
        release_at(st, w, code[i, M.COL_WBAR], max(stored, time), L.STALL_LONG)
    elif op == M.OP_TMEM_TAKE:
        other, other_slot = other_of_pair(st, sm, st.warp[w, L.WARP_BLOCK], code[i, M.COL_AUX2] != 0)
        place.take_units(st, sm, w, i, wb, other, other_slot)
    elif op == M.OP_TMEM_FREE:
        stay = np.int64(st.regs[row_offset(code[i, M.COL_A], wb)])
        st.sm[sm, L.SM_TMEM_UNITS] &= stay
        st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_TMEM_UNITS] &= stay
    elif op == M.OP_TMEM_LEAVE:
        leave(st, sm, w)
    else:
        begin(st, sm, q, w, i, wb, time)


# --- blocks ---------------------------------------------------------------------------------------------------------
_SYSTEM_WORDS = (0x40 >> 2, 0x68 >> 2)
"""Words of a block's shared memory with which ptxas's code keeps account. There is an mbarrier by which the blocks of a
pair hand over what one has allocated, and behind it the phase of it that is waited for; all others begin with zero."""
_MISSING_ONE = 0xFFFFF


def set_parameters(par: np.ndarray, program: Program, code: np.ndarray) -> None:
    """Parameters of the engine that a program with such instructions has otherwise."""
    if (code[:, M.COL_CLASS] == M.CLS_TMEM).any():
        par[P.TMEM] = max(program.pair_barrier, 4 * _SYSTEM_WORDS[0])
        par[P.SHARED_FIRST] = 4 * _SYSTEM_WORDS[0]
        if (code[code[:, M.COL_OP] == M.OP_TMEM_TAKE, M.COL_AUX2] != 0).any():
            par[P.BLOCK_SLOTS] = 1  # other blocks of the second SM do not see what a pair takes (assumed)


@compiled_on_demand()
def tmem_begin(st, sm, slot):
    """A block starts. The first of a pair finds its mbarrier's phase over, the second does not."""
    b, par = st.block[sm, slot], st.par
    words = (slot * par[P.SHARED_STRIDE]) >> 2
    for k in range(_SYSTEM_WORDS[0], _SYSTEM_WORDS[1]):
        st.shared32[sm, words + k] = np.uint32(0)
    barrier = words + (par[P.TMEM] >> 2)
    st.shared32[sm, barrier] = np.uint32(_MISSING_ONE << 1)
    st.shared32[sm, barrier + 1] = np.uint32(_MISSING_ONE << 11)
    if par[P.CLUSTER_BLOCKS] > 1:
        x, y, z = b[L.BLOCK_X] % par[P.CLUSTER_X], b[L.BLOCK_Y] % par[P.CLUSTER_Y], b[L.BLOCK_Z] % par[P.CLUSTER_Z]
        rank = x + par[P.CLUSTER_X] * (y + par[P.CLUSTER_Y] * z)
        st.shared32[sm, barrier + 2] = np.uint32(1 - (rank & 1))


@compiled_on_demand()
def tmem_end(st, sm, w):
    """The last warp of a block has ended: all that the block has allocated must be free again (PTX ISA)."""
    leave(st, sm, w)
    units = st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_TMEM_UNITS]
    if units != 0:
        fail(st, sm, L.ERROR_TMEM_KEPT, st.warp[w, L.WARP_PC], w, 0, units, 0)
