"""Bulk copies between global and shared memory and from block to block, plain (UBLKCP, UBLKRED, UBLKPF) and of boxes of
a tensor (UTMALDG, UTMASTG, UTMAREDG, UTMAPF): what they are at issue, and what they ask of L2.

Bytes move later, see `bulk_effect`. A copy keeps what it is until then in a row of State.bulk, here always `k`.
"""

import numpy as np

from gpusim.engine.sm import tensor_box as tb
from gpusim.engine.sm import tensor_map as tm
from gpusim.engine.sm.bulk_effect import apply_copy, free_bulk, take_bulk
from gpusim.engine.sm.cluster import OFFSET_MASK, RANK_SHIFT
from gpusim.engine.sm.flight import event_at, open_group, send, take_deferred, take_end
from gpusim.engine.sm.shadow_clocks import CHECK_INIT, CHECK_RACE
from gpusim.engine.sm.shadow_copies import watch_bulk
from gpusim.engine.sm.space import fail, find_allocation
from gpusim.engine.state import L, P, compiled, ms, popc
from isa import microops as M

_LINE_SHIFT = 7
_UNIT = ANSWER_BYTES = 16
_REQUESTS = np.array(
    (ms.KIND_READ, ms.KIND_WRITE, ms.KIND_REDUCTION, ms.KIND_SM_WRITE, ms.KIND_SM_WRITE, ms.KIND_READ), np.int64
)


@compiled
def inside_shared(st, sm, w, i, address, size):
    offset = address & OFFSET_MASK
    if offset < st.par[P.SHARED_FIRST] or offset + size > st.par[P.SHARED_BYTES]:
        fail(st, sm, L.ERROR_SHARED_BOUNDS, i, w, 0, address, size)
        return False
    return True


@compiled
def destination(st, sm, w, i, wb, k, size):
    """Notes whose shared memory the copy goes to, where, and which mbarriers hear of it. False after an error."""
    code = st.code
    address, barrier = tm.uniform_word(st, wb, code[i, M.COL_A], 0), tm.uniform_word(st, wb, code[i, M.COL_A], 1)
    inside = aligned(st, sm, w, i, barrier, 8) and inside_shared(st, sm, w, i, address, size)
    if not inside or not inside_shared(st, sm, w, i, barrier, np.int64(8)):
        return False
    most = max(st.par[P.CLUSTER_BLOCKS], 1)
    blocks, pair = np.int64(1) << min(address >> RANK_SHIFT, 62), code[i, M.COL_AUX4] & M.BULK_PAIR != 0
    k[L.BULK_TOLD] = 1 + (barrier >> RANK_SHIFT & 1) if pair else 0
    if code[i, M.COL_AUX4] & M.BULK_MULTICAST != 0:
        blocks = tm.uniform_word(st, wb, code[i, M.COL_C], 0) >> 16
    elif (address ^ barrier) >> RANK_SHIFT > pair:
        blocks = np.int64(1) << 62
    if blocks == 0 or blocks >> most != 0:
        fail(st, sm, L.ERROR_CLUSTER if st.par[P.CLUSTER_BLOCKS] > 0 else L.ERROR_SHARED_BOUNDS, i, w, 0, address, size)
        return False
    k[L.BULK_SHARED], k[L.BULK_BARRIER], k[L.BULK_BLOCKS] = address & OFFSET_MASK, barrier & OFFSET_MASK, blocks
    return True


@compiled
def source(st, sm, w, i, address, size):
    """Offset in the block's own shared memory of what leaves it, -1 after an error."""
    if not inside_shared(st, sm, w, i, address, size):
        return np.int64(-1)
    if address >> RANK_SHIFT != st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_RANK]:
        fail(st, sm, L.ERROR_SHARED_BOUNDS, i, w, 0, address, size)
        return np.int64(-1)
    return address & OFFSET_MASK


@compiled
def aligned(st, sm, w, i, address, to):
    if address & (to - 1) != 0:
        fail(st, sm, L.ERROR_MISALIGNED, i, w, 0, address, np.int64(to))
        return False
    return True


@compiled
def plain_copy(st, sm, w, i, wb, k):
    """UBLKCP, UBLKRED, UBLKPF: bytes that lie together; the size is in units of 16 bytes. False after an error."""
    code = st.code
    kind = code[i, M.COL_AUX4] & M.BULK_KIND
    size = (tm.uniform_word(st, wb, code[i, M.COL_C], 0) & 0xFFFF) * _UNIT
    k[L.BULK_BYTES] = size
    leaves = kind == M.BULK_STORE or kind == M.BULK_REDUCE
    shared = kind == M.BULK_SHARED or kind == M.BULK_SHARED_REDUCE
    far, near = (M.COL_A, M.COL_B) if leaves else (M.COL_B, M.COL_A)
    if size == 0:
        return True
    if not shared:
        k[L.BULK_MEMORY] = tm.uniform_pair(st, wb, code[i, far])
        if kind == M.BULK_PREFETCH:
            n = find_allocation(st.starts, st.ends, k[L.BULK_MEMORY])
            k[L.BULK_BYTES] = size if n >= 0 and k[L.BULK_MEMORY] + size <= st.ends[n] else 0
            return True
        if not aligned(st, sm, w, i, k[L.BULK_MEMORY], _UNIT):
            return False
    if not aligned(st, sm, w, i, tm.uniform_word(st, wb, code[i, near], 0), _UNIT):
        return False
    if not shared and not tm.inside(st, sm, w, i, k[L.BULK_MEMORY], size):
        return False
    if leaves or shared:
        address = tm.uniform_word(st, wb, code[i, M.COL_B], 0)
        if shared and not aligned(st, sm, w, i, address, _UNIT):
            return False
        from_ = source(st, sm, w, i, address, size)
        if from_ < 0:
            return False
        if leaves:
            k[L.BULK_SHARED] = from_
            return True
        k[L.BULK_MEMORY] = from_
    return destination(st, sm, w, i, wb, k, size)


@compiled
def answer(st, sm, w, i, wb, k):
    """UGETNEXTWORKID.BROADCAST: the answer goes from the block to all of its cluster."""
    address, barrier = no_block_left(st, sm, w, i, wb)
    k[L.BULK_SHARED] = k[L.BULK_MEMORY] = address
    k[L.BULK_BARRIER], k[L.BULK_BYTES] = barrier, ANSWER_BYTES
    k[L.BULK_BLOCKS] = (np.int64(1) << max(st.par[P.CLUSTER_BLOCKS], 1)) - 1
    return address >= 0


@compiled
def no_block_left(st, sm, w, i, wb):
    """Writes the answer of UGETNEXTWORKID, zeros, which mean that no block is left. Returns (its offset in the block's
    shared memory, that of the mbarrier which hears of it), -1 after an error."""
    address, size = tm.uniform_word(st, wb, st.code[i, M.COL_A], 0), np.int64(ANSWER_BYTES)
    barrier = tm.uniform_word(st, wb, st.code[i, M.COL_B], 0)
    right = aligned(st, sm, w, i, address, ANSWER_BYTES) and aligned(st, sm, w, i, barrier, 8)
    right = right and inside_shared(st, sm, w, i, address, size)
    if not right or not inside_shared(st, sm, w, i, barrier, np.int64(8)):
        return np.int64(-1), np.int64(-1)
    at = (st.warp[w, L.WARP_BLOCK] * st.par[P.SHARED_STRIDE] + (address & OFFSET_MASK)) >> 2
    st.shared32[sm, at : at + (ANSWER_BYTES >> 2)] = 0
    return address & OFFSET_MASK, barrier & OFFSET_MASK


@compiled
def reduced(kind, operation):
    """Return whether elements of a type can be reduced so; others an H200 finds to be an illegal instruction."""
    if kind == M.TYPE_F32 or kind == M.TYPE_F32_FTZ or kind == M.TYPE_F64:
        return operation == M.ATOMIC_ADD
    if kind == M.TYPE_F16X2 or kind == M.TYPE_BF16X2:
        return operation <= M.ATOMIC_MAX
    if operation == M.ATOMIC_INC or operation == M.ATOMIC_DEC:
        return kind == M.TYPE_U32
    if kind == M.TYPE_S64:
        return operation == M.ATOMIC_MIN or operation == M.ATOMIC_MAX
    return kind >= 0


@compiled
def tensor_copy(st, sm, w, i, wb, k):
    """UTMALDG, UTMASTG, UTMAREDG, UTMAPF: a box of a tensor, its corner given by a coordinate for each dimension. False
    after an error."""
    code = st.code
    kind = code[i, M.COL_AUX4] & M.BULK_KIND
    if not tm.read_map(st, sm, w, i, wb, k):
        return False
    rank, size = tm.rank(k), tm.cell_bytes(k)
    right = tm.element_bytes(k) > 0 and rank == code[i, M.COL_AUX1]
    right = right and (code[i, M.COL_AUX4] & M.BULK_ROWS4 == 0 or (rank == 2 and tm.interleave(k) == 0))
    right = right and tm.is_im2col(k) == (code[i, M.COL_AUX4] & M.BULK_IM2COL != 0)
    if kind == M.BULK_REDUCE and not reduced(tm.reduction_type(k), code[i, M.COL_AUX2]):
        right = False
    first = 2 if kind == M.BULK_LOAD else 0 if kind == M.BULK_PREFETCH else 1
    k[L.BULK_ROWS4] = code[i, M.COL_AUX4] & M.BULK_ROWS4 != 0
    for d in range(5 if k[L.BULK_ROWS4] else rank):
        coordinate = tm.uniform_word(st, wb, code[i, M.COL_A], first + d)
        k[L.BULK_CORNER + d] = (coordinate ^ 0x80000000) - 0x80000000
    if right and tm.is_im2col(k):
        leaves = kind == M.BULK_STORE or kind == M.BULK_REDUCE
        for s in range(rank - 2):  # the corner has to lie in the box of pixels
            d, low, high = tm.pixel_range(k, s)
            right = right and low <= k[L.BULK_CORNER + d] <= high and not (leaves and low < 0)
        if kind == M.BULK_LOAD or kind == M.BULK_PREFETCH:
            k[L.BULK_OFFSETS] = tm.uniform_word(st, wb, code[i, M.COL_C], 0) & 0xFFFF
    if not right:
        fail(st, sm, L.ERROR_UNSUPPORTED, i, w, 0, tm.word(k, 2), np.int64(128))
        return False
    rows, (start, count, _) = tb.row_count(k), tb.row_cells(k)
    k[L.BULK_BYTES] = rows * count * size
    if not aligned(st, sm, w, i, tm.tensor_base(k) + start * size, _UNIT):
        return False
    if kind == M.BULK_PREFETCH:
        return True
    address = tm.uniform_word(st, wb, code[i, M.COL_A], 0)
    if not aligned(st, sm, w, i, address, 128):
        return False
    if kind == M.BULK_LOAD:
        return destination(st, sm, w, i, wb, k, rows * tb.row_pitch(k))
    k[L.BULK_SHARED] = source(st, sm, w, i, address, rows * tb.row_pitch(k))
    return k[L.BULK_SHARED] >= 0


# many parameters: the request, and whose it is; compiled code has no records
@compiled
def ask(st, sm, k, token, entry, kind, time, address, size):
    """A request for bytes that lie in one line."""
    n = k[L.BULK_NEXT]
    if n > L.BULK_LINES:
        return
    sectors = (np.int64(2) << (((address + size - 1) >> 5) & 3)) - (np.int64(1) << ((address >> 5) & 3))
    payload = size if kind >= ms.KIND_ATOMIC else np.int64(ms.PAST_L1)
    if kind == ms.KIND_WRITE and size < popc(sectors) * ms.SECTOR_BYTES:
        kind = np.int64(ms.KIND_WRITE_PARTIAL)
    if entry >= 0:
        st.deferred[sm, entry, L.DEFERRED_LEFT] += 1
    st.token[sm, token, L.TOKEN_LEFT] += 1
    k[L.BULK_NEXT] = n + 1
    what = 2 * token | (entry + 1) << 32
    leaves = time + st.par[P.BULK_START] + n
    if ms.KIND_ATOMIC <= kind < ms.KIND_SM_READ:
        # A sector a cycle leaves shared memory, a row of less than two in two (H200: stores of 16 bytes to 64 KiB and
        # of boxes with rows of 16 bytes to 1 KiB).
        k[L.BULK_SENT] += max(popc(sectors), 2)
        leaves = time + st.par[P.BULK_STORE] + k[L.BULK_SENT]
    send(st, sm, leaves, address >> _LINE_SHIFT, sectors, kind, what, payload, np.int64(32))


@compiled
def part_end(at, end, reads):
    """Return the end of a request from `at` on: its line's; reads of parts of a sector are requests of their own."""
    line = min(((at >> _LINE_SHIFT) + 1) << _LINE_SHIFT, end)
    if not reads:
        return line
    sector = ((at >> 5) + 1) << 5
    if at & 31 != 0:
        return min(sector, line)
    return line & ~31 if line & ~31 > at else line


@compiled
def ask_range(st, sm, k, token, entry, kind, time, address, size):
    """Requests for any range: a copy goes by 128 bytes, wherever they begin, each as requests for parts of lines (H200:
    16 KiB that begin 48 bytes behind a line are 640 sectors, 512 requests as loads and 256 as stores)."""
    at = address
    while at < address + size:
        chunk = min(at + ms.LINE_BYTES, address + size)
        while at < chunk:
            end = part_end(at, chunk, kind == ms.KIND_READ)
            ask(st, sm, k, token, entry, kind, time, at, end - at)
            at = end


@compiled
def ask_box(st, sm, w, i, k, token, entry, kind, time):
    """Requests for the rows of a box, as far as they lie in the tensor. Rows that lie together are asked for as one.
    False after an error."""
    size, (first, count, step) = tm.cell_bytes(k), tb.row_cells(k)
    low, high = max(first, 0), min(first + (count - 1) * step + 1, tb.row_limit(k, kind != ms.KIND_WRITE))
    start, end = np.int64(0), np.int64(0)
    prefetch = st.code[i, M.COL_AUX4] & M.BULK_KIND == M.BULK_PREFETCH
    for r in range(tb.row_count(k)):
        row = tb.row_start(st, k, r)
        if row < 0 or high <= low:
            continue
        address = row + st.par[P.MEMORY_BASE] + low * size
        if prefetch:
            n = find_allocation(st.starts, st.ends, address)
            if n < 0 or address + (high - low) * size > st.ends[n]:
                continue
        elif not tm.inside(st, sm, w, i, address, (high - low) * size):
            return False
        if address != end:
            ask_range(st, sm, k, token, entry, kind, time, start, end - start)
            start = address
        end = address + (high - low) * size
    ask_range(st, sm, k, token, entry, kind, time, start, end - start)
    return True


@compiled
def bulk_access(st, sm, w, i, wb, time):
    """Executes one bulk copy, which the warp asks for once, whatever lanes are active."""
    kind, tensor = st.code[i, M.COL_AUX4] & M.BULK_KIND, st.code[i, M.COL_AUX4] & M.BULK_TENSOR != 0
    row = take_bulk(st, sm, w, i)
    k = st.bulk[sm, row]
    if st.code[i, M.COL_AUX4] & M.BULK_ANSWER != 0:
        right = answer(st, sm, w, i, wb, k)
    else:
        right = tensor_copy(st, sm, w, i, wb, k) if tensor else plain_copy(st, sm, w, i, wb, k)
    if not right or k[L.BULK_BYTES] == 0:
        free_bulk(st, sm, row)
        return
    own = np.int64(1) << st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_RANK]
    checked = st.par[P.CHECKS] & (CHECK_INIT | CHECK_RACE) != 0 and k[L.BULK_TOLD] == 0  # no end that others see
    if kind == M.BULK_LOAD and k[L.BULK_BLOCKS] & own != 0 and checked:
        size = tb.row_count(k) * tb.row_pitch(k) if tensor else k[L.BULK_BYTES]
        if not watch_bulk(st, sm, np.int64(i), np.int64(w), np.int64(row), np.int64(size)):
            return
    arrives = kind == M.BULK_LOAD and k[L.BULK_BLOCKS] == own and k[L.BULK_TOLD] == 0
    hears = L.COPY_BYTES_TOKEN if arrives else L.BULK_WRITE_TOKEN
    token = take_end(st, sm, w, hears, k[L.BULK_BLOCK], k[L.BULK_BARRIER], k[L.BULK_BYTES])
    st.token[sm, token, L.TOKEN_BULK] = row + 1 if arrives else 0
    entry = np.int64(-1)
    if not arrives and kind != M.BULK_PREFETCH and kind != M.BULK_STORE:
        entry = take_deferred(st, sm, w, i)
        st.deferred[sm, entry, L.DEFERRED_BULK] = row + 1
    k[L.BULK_NEXT] = 0
    request = _REQUESTS[kind]
    if tensor:
        if not ask_box(st, sm, w, i, k, token, entry, request, time):
            return
    else:
        ask_range(st, sm, k, token, entry, request, time, k[L.BULK_MEMORY], k[L.BULK_BYTES])
    if entry >= 0 and k[L.BULK_NEXT] == 0:  # a box without an element in the tensor
        ask(st, sm, k, token, entry, np.int64(ms.KIND_SM_WRITE), time, np.int64(0), np.int64(1))
    event_at(st, sm, time + st.par[P.BULK_START], token)
    if kind == M.BULK_STORE or kind == M.BULK_REDUCE:
        k[L.BULK_GROUP] = open_group(st, sm, w, L.WARP_BULK, L.BULK_WRITE_TOKEN)
        st.token[sm, k[L.BULK_GROUP], L.TOKEN_LEFT] += 1
        k[L.BULK_SENT] += time + st.par[P.BULK_STORE]
    if kind == M.BULK_STORE:
        sent = take_end(st, sm, w, L.BULK_WRITE_TOKEN, k[L.BULK_BLOCK], k[L.BULK_GROUP], k[L.BULK_BYTES])
        st.token[sm, sent, L.TOKEN_BULK] = row + 1
        event_at(st, sm, k[L.BULK_SENT], sent)
    elif kind == M.BULK_PREFETCH:
        free_bulk(st, sm, row)
    if entry >= 0 and st.par[P.MODE] & L.BOOKS == 0:
        apply_copy(st, sm, entry, time)
        st.sm[sm, L.SM_DEFERRED] = 0
