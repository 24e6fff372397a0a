"""Bulk copies between global and shared memory, plain (UBLKCP, UBLKRED) and of boxes of a tensor (UTMALDG, UTMASTG,
UTMAREDG).

A tensor map, which the instruction finds in memory, has 128 bytes. Their meaning was read off maps that the driver's
cuTensorMapEncodeTiled made with one argument changed at a time: words 0 and 1 hold the address; word 2 the number of
dimensions less one (from bit 4), the type (7), interleave (11), swizzle (13) and what to put in place of elements that
are out of bounds (15); words 3 to 6 and the hexadecimal digits of word 7 the strides in units of 16 bytes; words 8 to
12 the extents less one; word 13 the element strides less one, three bits each, and in its last byte and the bytes of
word 14 the box's extents less one. A row of the box whose bytes are fewer than a swizzled line gets a line to itself.

Bytes move at issue; the mbarrier is told, or the group's scoreboard released, when the replies of L2 have come.
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.atomics import combine32, combine64
from gpusim.engine.sm.cluster import own_offset
from gpusim.engine.sm.flight import event_at, send, take_token
from gpusim.engine.sm.matrix_load import four_words, put_line
from gpusim.engine.sm.space import PARAMETER_WINDOW, fail, find_allocation
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.memory import KIND_READ, KIND_REDUCTION, KIND_WRITE
from isa import microops as M

BULK_LINES = 2000  # requests of one copy at most; a box of more rows than this takes less time than it should
_LINE_SHIFT = 7
_UNIT = 16
_MAP_BYTES = 128
_SIZES = np.array([1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 0, 0, 0, 0, 0], np.int64)
_KINDS = np.array(
    [-1, -1, M.TYPE_U32, M.TYPE_S32, M.TYPE_U64, M.TYPE_S64, -1, M.TYPE_F32, -1, -1, -1, -1, -1, -1, -1, -1], np.int64
)
_OUT_OF_BOUNDS_NAN = 0x7FF7  # both halves of every word, as seen on an H200


@compiled
def uniform_word(st, wb, operand, k):
    """Register `k` from that of an operand on, as the first lane has it."""
    return np.int64(st.regs[row_offset(operand, wb) + 32 * k])


@compiled
def inside(st, sm, w, i, address, size):
    """True if a range of global memory lies in one live allocation; else records the error."""
    k = find_allocation(st.starts, st.ends, address)
    if k < 0 or address + size > st.ends[k]:
        fail(st, sm, L.E_BOUNDS, i, w, 0, address, size)
        return False
    return True


@compiled
def inside_shared(st, sm, w, i, address, size):
    if address < st.par[L.P_SHARED_FIRST] or address + size > st.par[L.P_SHARED_BYTES]:
        fail(st, sm, L.E_SHARED_BOUNDS, i, w, 0, address, size)
        return False
    return True


@compiled
def is_mbarrier(st, sm, w, i, address):
    """Whether an mbarrier can lie at a shared address; otherwise the error is recorded."""
    if address & 7 != 0:
        fail(st, sm, L.E_MISALIGNED, i, w, 0, address, np.int64(8))
        return False
    return inside_shared(st, sm, w, i, address, np.int64(8))


@compiled
def start_copy(st, sm, w, i, kind, barrier, amount):
    """Token of a copy; one end is missing until `end_copy`."""
    k = take_token(st, sm, w, 7, kind)
    token = st.token[sm, k]
    token[L.T_LEFT] = 1
    token[L.T_TIME] = 0
    token[L.T_BLOCK] = st.block[sm, st.warp[w, L.W_BLOCK], L.B_NUMBER] << 8 | st.warp[w, L.W_BLOCK]
    token[L.T_ADDRESS] = barrier
    token[L.T_AMOUNT] = amount
    return k


@compiled
def ask(st, sm, k, kind, time, line, before):
    """Sends a request for a line unless it is that of the request before. Returns the line."""
    token = st.token[sm, k]
    n = token[L.T_LEFT]
    if line != before and n <= BULK_LINES:
        payload = np.int64(0 if kind == KIND_READ else 128)
        send(st, sm, time + st.par[L.P_BULK_START] + n, line, np.int64(15), kind, 2 * k, payload, np.int64(32))
        token[L.T_LEFT] = n + 1
    return line


@compiled
def combine(st, sm, at, from_, size, kind, operation):
    """One element of shared memory into global memory by a reduction, or as it is (`kind` negative)."""
    if kind < 0:
        for b in range(size):
            st.memory8[at + b] = st.shared8[sm, from_ + b]
    elif size == 4:
        st.memory32[at >> 2] = combine32(operation, kind, st.memory32[at >> 2], st.shared32[sm, from_ >> 2])
    else:
        old = np.uint64(st.memory32[at >> 2]) | (np.uint64(st.memory32[(at >> 2) + 1]) << np.uint64(32))
        word = from_ >> 2
        value = np.uint64(st.shared32[sm, word]) | (np.uint64(st.shared32[sm, word + 1]) << np.uint64(32))
        new = combine64(operation, kind, old, value)
        st.memory32[at >> 2] = np.uint32(new & np.uint64(0xFFFFFFFF))
        st.memory32[(at >> 2) + 1] = np.uint32(new >> np.uint64(32))


@compiled
def plain_copy(st, sm, w, i, wb, time):
    """UBLKCP and UBLKRED: bytes that lie together; the size is in units of 16 bytes."""
    code = st.code
    size = (uniform_word(st, wb, code[i, M.COL_C], 0) & 0xFFFF) * _UNIT
    load = code[i, M.COL_AUX4] == M.BULK_LOAD
    far, near = (M.COL_B, M.COL_A) if load else (M.COL_A, M.COL_B)
    address = uniform_word(st, wb, code[i, far], 0) | (uniform_word(st, wb, code[i, far], 1) << 32)
    shared = own_offset(st, sm, w, uniform_word(st, wb, code[i, near], 0))
    if size == 0:
        return
    if (address | shared) & (_UNIT - 1) != 0:
        fail(st, sm, L.E_MISALIGNED, i, w, 0, address if address & (_UNIT - 1) else shared, np.int64(_UNIT))
        return
    if not inside(st, sm, w, i, address, size) or not inside_shared(st, sm, w, i, shared, size):
        return
    barrier = np.int64(0)
    if load:
        barrier = own_offset(st, sm, w, uniform_word(st, wb, code[i, M.COL_A], 1))
        if not is_mbarrier(st, sm, w, i, barrier):
            return
    k = start_copy(st, sm, w, i, L.TOKEN_COPY_BYTES if load else L.TOKEN_BULK_WRITE, barrier, size)
    at = address - st.par[L.P_MEMORY_BASE]
    from_ = st.warp[w, L.W_BLOCK] * st.par[L.P_SHARED_STRIDE] + shared
    if load:
        for word in range(size >> 2):
            st.shared32[sm, (from_ >> 2) + word] = st.memory32[(at >> 2) + word]
    elif code[i, M.COL_AUX4] == M.BULK_STORE:
        for word in range(size >> 2):
            st.memory32[(at >> 2) + word] = st.shared32[sm, (from_ >> 2) + word]
    else:
        step = np.int64(code[i, M.COL_AUX1])
        for n in range(0, size, step):
            combine(st, sm, at + n, from_ + n, step, code[i, M.COL_AUX3], code[i, M.COL_AUX2])
    kind = KIND_READ if load else KIND_WRITE if code[i, M.COL_AUX4] == M.BULK_STORE else KIND_REDUCTION
    for line in range(address >> _LINE_SHIFT, ((address + size - 1) >> _LINE_SHIFT) + 1):
        ask(st, sm, k, kind, time, np.int64(line), np.int64(-1))
    event_at(st, sm, time + st.par[L.P_BULK_START], k)


@compiled
def reduced(kind, operation):
    """Whether elements of a type can be reduced so; `kind` -1 stands for those that are not modelled."""
    if kind == M.TYPE_F32:
        return operation == M.ATOMIC_ADD
    if kind == M.TYPE_U64 or kind == M.TYPE_S64:
        return operation != M.ATOMIC_INC and operation != M.ATOMIC_DEC
    return kind >= 0


@compiled
def out_of_bounds(shared, at, size, fill):
    """What a load puts in place of an element outside the tensor."""
    for b in range(size):
        value = (_OUT_OF_BOUNDS_NAN >> (8 * (b & 1))) & 255 if fill else 0
        shared[at + b] = np.uint8(value)


@compiled
def tensor_map_words(st, sm, w, i, wb, operand):
    """First word of a tensor map in st.memory32, -1 - word for one among the parameters, NEVER after an error."""
    address = uniform_word(st, wb, operand, 0) | (uniform_word(st, wb, operand, 1) << 32)
    if PARAMETER_WINDOW <= address < PARAMETER_WINDOW + st.bank8.shape[1] - _MAP_BYTES:
        return -1 - ((address - PARAMETER_WINDOW) >> 2)
    if not inside(st, sm, w, i, address, np.int64(_MAP_BYTES)):
        return L.NEVER
    if address & 63 != 0:
        fail(st, sm, L.E_MISALIGNED, i, w, 0, address, np.int64(64))
        return L.NEVER
    return (address - st.par[L.P_MEMORY_BASE]) >> 2


@compiled
def map_word(st, start, n):
    """Word n of a tensor map."""
    return np.int64(st.memory32[start + n]) if start >= 0 else np.int64(st.bank32[0, n - 1 - start])


@compiled
def map_stride(st, start, d):
    """Bytes from one element to the next along dimension d > 0."""
    return (map_word(st, start, 2 + d) | ((map_word(st, start, 7) >> (4 * (d - 1))) & 15) << 32) * _UNIT


@compiled
def box_extent(st, start, d):
    return ((map_word(st, start, 13) >> 24) if d == 0 else (map_word(st, start, 14) >> (8 * (d - 1)))) % 256 + 1


@compiled
def element_stride(st, start, d):
    """Distance of the elements of a box along a dimension; none along the first unless interleaved (driver's API)."""
    return ((map_word(st, start, 13) >> (3 * d)) & 7) + 1 if d > 0 else np.int64(1)


@compiled
def row_extent(st, start, size, exact):
    """Elements of a row that a copy may touch. A plain store writes whole units of 16 bytes, as an H200 does, also
    where the row ends inside one."""
    extent = map_word(st, start, 8) + 1
    return extent if exact else (extent * size + _UNIT - 1) // _UNIT * _UNIT // size


@compiled
def move_units(st, sm, place, size, shared, block, width, load):
    """Bytes of global memory from or to swizzled lines of shared memory, 16 at a time."""
    words, memory = st.shared32[sm], st.memory32
    for n in range(0, size, _UNIT):
        at = shared + n
        at = (block + (at ^ (((at >> 7) & width) << 4))) >> 2
        if load:
            put_line(words, at, four_words(memory, (place + n) >> 2))
        else:
            put_line(memory, (place + n) >> 2, four_words(words, at))


# many parameters: the box, its map and what is done with it, which `tensor_copy` alone knows.
@compiled
def move_row(st, sm, start, first, count, size, row, shared, shift, load, kind, operation):
    """`count` elements from number `first` on; row: byte in global memory of element 0, -1 if it is out of bounds."""
    extent = row_extent(st, start, size, load or kind >= 0)
    width = (1 << shift) - 1
    fill = (map_word(st, start, 2) >> 15) & 1 != 0
    block = st.address[sm, 31]
    whole = row >= 0 and first >= 0 and first + count <= extent and (row | shared | (count * size)) & (_UNIT - 1) == 0
    if whole and kind < 0:
        move_units(st, sm, row + first * size, count * size, shared, block, width, load)
        return
    for x in range(count):
        at = shared + x * size
        at ^= ((at >> 7) & width) << 4
        at += block
        outside = row < 0 or first + x < 0 or first + x >= extent
        if load:
            if outside:
                out_of_bounds(st.shared8[sm], at, size, fill)
            else:
                place = row + (first + x) * size
                for b in range(size):
                    st.shared8[sm, at + b] = st.memory8[place + b]
        elif not outside:
            combine(st, sm, row + (first + x) * size, at, size, kind, operation)


@compiled
def tensor_copy(st, sm, w, i, wb, time):
    """UTMALDG, UTMASTG, UTMAREDG: a box of a tensor, its corner given by a coordinate for each dimension."""
    code = st.code
    load = code[i, M.COL_AUX4] == M.BULK_TENSOR_LOAD
    start = tensor_map_words(st, sm, w, i, wb, code[i, M.COL_B])
    if start == L.NEVER:
        return
    flags = map_word(st, start, 2)
    rank = ((flags >> 4) & 7) + 1
    kind_of_element = (flags >> 7) & 15
    size = _SIZES[kind_of_element]
    reduces = code[i, M.COL_AUX4] == M.BULK_TENSOR_REDUCE
    kind = _KINDS[kind_of_element] if reduces else np.int64(-1)
    plain = kind_of_element != 8 and (flags >> 16) & 1 == 0 and (flags >> 11) & 3 == 0
    if reduces and not reduced(kind, code[i, M.COL_AUX2]):
        plain = False
    if size == 0 or not plain or rank != code[i, M.COL_AUX1]:
        fail(st, sm, L.E_UNSUPPORTED, i, w, 0, flags, np.int64(_MAP_BYTES))
        return
    first_coordinate = 2 if load else 1
    base = map_word(st, start, 0) | (map_word(st, start, 1) << 32)
    shared = own_offset(st, sm, w, uniform_word(st, wb, code[i, M.COL_A], 0))
    first = uniform_word(st, wb, code[i, M.COL_A], first_coordinate)
    first = (first ^ 0x80000000) - 0x80000000
    if (first * size) & (_UNIT - 1) != 0 or shared & 127 != 0:
        fail(st, sm, L.E_MISALIGNED, i, w, 0, base + first * size, np.int64(_UNIT))
        return
    shift = (flags >> 13) & 3
    count = box_extent(st, start, 0)
    pitch = count * size
    if shift != 0:
        pitch = max(pitch, np.int64(16) << shift)
    rows = np.int64(1)
    for d in range(1, rank):
        step = element_stride(st, start, d)
        rows *= (box_extent(st, start, d) + step - 1) // step
    if not inside_shared(st, sm, w, i, shared, rows * pitch):
        return
    barrier = np.int64(0)
    if load:
        barrier = own_offset(st, sm, w, uniform_word(st, wb, code[i, M.COL_A], 1))
        if not is_mbarrier(st, sm, w, i, barrier):
            return
    k = start_copy(
        st, sm, w, i, L.TOKEN_COPY_BYTES if load else L.TOKEN_BULK_WRITE, barrier, rows * count * size
    )
    request = KIND_READ if load else KIND_REDUCTION if reduces else KIND_WRITE
    st.address[sm, 31] = st.warp[w, L.W_BLOCK] * st.par[L.P_SHARED_STRIDE]
    before = np.int64(-1)
    for r in range(rows):
        left = np.int64(r)
        row = base - st.par[L.P_MEMORY_BASE]
        for d in range(1, rank):
            step = element_stride(st, start, d)
            here = (box_extent(st, start, d) + step - 1) // step
            coordinate = uniform_word(st, wb, code[i, M.COL_A], first_coordinate + d)
            coordinate = (coordinate ^ 0x80000000) - 0x80000000 + left % here * step
            left //= here
            if coordinate < 0 or coordinate > map_word(st, start, 8 + d):
                row = np.int64(-1) << 60
            row += coordinate * map_stride(st, start, d)
        low = max(first, 0)
        high = min(first + count, row_extent(st, start, size, load or kind >= 0))
        if row >= 0 and high > low:
            address = row + st.par[L.P_MEMORY_BASE] + low * size
            if not inside(st, sm, w, i, address, (high - low) * size):
                return
            for line in range(address >> _LINE_SHIFT, ((address + (high - low) * size - 1) >> _LINE_SHIFT) + 1):
                before = ask(st, sm, k, request, time, np.int64(line), before)
        move_row(
            st, sm, start, first, count, size, row, shared + r * pitch, shift, load, kind, code[i, M.COL_AUX2]
        )
    event_at(st, sm, time + st.par[L.P_BULK_START], k)


@compiled
def bulk_access(st, sm, w, i, wb, time):
    """Executes one bulk copy, which the warp asks for once, whatever lanes are active."""
    if st.code[i, M.COL_AUX4] >= M.BULK_TENSOR_LOAD:
        tensor_copy(st, sm, w, i, wb, time)
    else:
        plain_copy(st, sm, w, i, wb, time)
