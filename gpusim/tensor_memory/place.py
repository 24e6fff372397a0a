"""Places in tensor memory, who has allocated them, and what moves values there from registers and shared memory.

An address is a lane in the upper and a column in the lower half. An SM's cells lie column by column, so that those of a
warp's 32 lanes are a row.
"""

import numpy as np
from numba.core import types

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, gather, row_offset, set_predicate
from gpusim.engine.rows.float import minimum_maximum
from gpusim.engine.sm.space import fail
from gpusim.engine.state import L, compiled, compiled_on_demand
from gpusim.tensor_memory import races
from gpusim.tensor_memory.matrices import element
from gpusim.tensor_memory.operand import chunk_at
from isa import microops as M

UNIT_SHIFT = 5  # columns of an allocation unit
LOW_HALF, HIGH_HALF = 0xFFFF, 0xFFFF0000


@compiled
def cell(address):
    """The word of an SM's tensor memory at an address."""
    return (address & 0xFFFF) * L.TMEM_LANES + (address >> 16)


@compiled
def allocated(st, sm, slot, address, columns):
    """Return whether a block has all these columns."""
    first = address & 0xFFFF
    units = st.block[sm, slot, L.BLOCK_TMEM_UNITS]
    wanted = (np.int64(2) << ((first + columns - 1) >> UNIT_SHIFT)) - (np.int64(1) << (first >> UNIT_SHIFT))
    return columns > 0 and first + columns <= L.TMEM_COLUMNS and units & wanted == wanted


@compiled
def check(st, sm, w, i, address, columns):
    """`allocated` by the warp's block; else that is an error."""
    if allocated(st, sm, st.warp[w, L.WARP_BLOCK], address, columns):
        return True
    fail(st, sm, L.ERROR_TMEM_BOUNDS, i, w, 0, address, columns)
    return False


@compiled
def take_units(st, sm, w, i, wb, other, other_slot):
    """UTCATOMSWS.FIND_AND_SET: the first free units, at a multiple of their number, of the SM or of both of a pair. A
    block has the right to allocate alone until it relinquishes it, so that two never wait for what the other has."""
    slot, owner = st.warp[w, L.WARP_BLOCK], st.sm[sm, L.SM_TMEM_OWNER]
    count = np.int64(st.regs[row_offset(st.code[i, M.COL_A], wb)])
    taken = st.sm[sm, L.SM_TMEM_UNITS] | (st.sm[other, L.SM_TMEM_UNITS] if other >= 0 else 0)
    wanted, first = (np.int64(1) << count) - 1, np.int64(0)
    while first + count <= L.TMEM_COLUMNS >> UNIT_SHIFT and taken & (wanted << first) != 0:
        first += count
    found = (owner == 0 or owner == slot + 1) and count > 0 and first + count <= L.TMEM_COLUMNS >> UNIT_SHIFT
    if found:
        st.sm[sm, L.SM_TMEM_OWNER] = slot + 1
        st.sm[sm, L.SM_TMEM_UNITS] |= wanted << first
        st.block[sm, slot, L.BLOCK_TMEM_UNITS] |= wanted << first
        races.note(st, sm, first << UNIT_SHIFT, count << UNIT_SHIFT, 0)
        if other >= 0:
            st.sm[other, L.SM_TMEM_UNITS] |= wanted << first
            st.block[other, other_slot, L.BLOCK_TMEM_UNITS] |= wanted << first
    V.store(st.regs, row_offset(st.code[i, M.COL_DST], wb), V.splat(first), FULL_MASK)
    set_predicate(st.preds, 16 * w, st.code[i, M.COL_PD0], np.uint32(FULL_MASK if found else 0), FULL_MASK)


# --- registers ------------------------------------------------------------------------------------------------------
@compiled
def cells_of(shape, r):
    """(Lanes, columns) that the threads' register r has, as rows: the matrix fragments of the PTX ISA's figures 183 to
    187, as CUTLASS's layouts tell them."""
    t = V.lane_numbers()
    quad, line = t & V.splat(3), V.shr(t, V.splat(2))
    if shape == M.TMEM_16X64:
        return line + ((t & V.splat(1)) << V.splat(3)), V.splat(2 * r) + V.shr(quad, V.splat(1))
    if shape == M.TMEM_16X128:
        return line + V.splat(8 * (r & 1)), V.splat(4 * (r >> 1)) + quad
    if shape == M.TMEM_16X256:
        return line + V.splat(8 * ((r >> 1) & 1)), V.splat(8 * (r >> 2) + (r & 1)) + (quad << V.splat(1))
    return (t if shape == M.TMEM_32X32 else t & V.splat(15)), V.splat(r)


@compiled
def threads_of(shape):
    """The threads that take part: of .16x32bx2 either half of a warp."""
    return LOW_HALF if shape == M.TMEM_16X32_LOW else HIGH_HALF if shape == M.TMEM_16X32_HIGH else FULL_MASK


@compiled
def columns_of(shape, count, packed):
    """Columns that so many registers reach over."""
    return (2 * count if M.TMEM_16X64 <= shape <= M.TMEM_16X256 else count) << packed


@compiled
def places_of(shape, r, base, packed):
    """Words of tensor memory of the threads' register r, the first of two where cells are packed."""
    lanes, columns = cells_of(shape, r)
    return V.splat(base) + ((columns << V.splat(packed)) * V.splat(L.TMEM_LANES)) + lanes


@compiled
def load_cells(cells, shape, r, base, packed):
    """Register r of a load."""
    if shape == M.TMEM_32X32 and packed == 0:
        return V.load(cells, base + L.TMEM_LANES * r)
    places = places_of(shape, r, base, packed)
    row = gather(cells, 0, places)
    if packed:
        row = (row & V.splat(0xFFFF)) | (gather(cells, L.TMEM_LANES, places) << V.splat(16))
    return row


@compiled
def store_cells(cells, shape, r, base, packed, row, threads):
    """Register r of a store; of packed ones each half goes to a cell of its own, above which are zeros (assumed)."""
    if shape == M.TMEM_32X32 and packed == 0:
        V.store(cells, base + L.TMEM_LANES * r, row, FULL_MASK)
        return
    places = places_of(shape, r, base, packed)
    for lane in range(32):
        if (threads >> lane) & 1:
            value, at = V.get_u32(row, lane), np.int64(V.get_u32(places, lane))
            cells[at] = value & np.uint32(0xFFFF) if packed else value
            if packed:
                cells[at + L.TMEM_LANES] = value >> np.uint32(16)


@compiled
def extreme(old, new, kind):
    """The smaller or larger of two rows, `kind` as the word of the micro-operation says."""
    op, flags = kind & 255, kind >> 8
    if flags & M.FLAG_ABS:
        new = new & V.splat(0x7FFFFFFF)
    if op >= M.REDUX_MIN_F:
        return minimum_maximum(old, new, np.uint32(FULL_MASK if op == M.REDUX_MIN_F else 0), flags)
    if op == M.REDUX_MIN_S or op == M.REDUX_MAX_S:
        return V.min_s(old, new) if op == M.REDUX_MIN_S else V.max_s(old, new)
    return V.min_u(old, new) if op == M.REDUX_MIN_U else V.max_u(old, new)


@compiled_on_demand(types.boolean)
def move(st, sm, w, i, wb):
    """LDTM and STTM: a warp has the lanes of its number in its four. False after an error."""
    code, regs = st.code, st.regs
    address = np.int64(regs[row_offset(code[i, M.COL_A], wb)]) + code[i, M.COL_AUX2]
    shape, count, packed = code[i, M.COL_AUX0], np.int64(code[i, M.COL_AUX1]), np.int64(code[i, M.COL_AUX3])
    lane, own = address >> 16, (st.warp[w, L.WARP_INDEX] & 3) << 5
    if lane != own and (shape == M.TMEM_32X32 or lane != own + 16):
        fail(st, sm, L.ERROR_TMEM_LANES, i, w, 0, address, own)
        return False
    if not check(st, sm, w, i, address, columns_of(shape, count, packed)):
        return False
    cells, threads, base = st.tmem[sm], threads_of(shape), cell(address)
    if code[i, M.COL_OP] == M.OP_TMEM_STORE:
        b, step = row_offset(code[i, M.COL_B], wb), 32 if code[i, M.COL_B] >= 0 else 0  # RZ stands for all of them
        for r in range(count):
            store_cells(cells, shape, r, base, packed, V.load(regs, b + step * r), threads)
        return True
    if not races.waited_for(st, sm, w, i, address, columns_of(shape, count, packed)):
        return False
    d, kind, most = row_offset(code[i, M.COL_DST], wb), code[i, M.COL_AUX4], V.splat(0)
    for r in range(count):
        row = load_cells(cells, shape, r, base, packed)
        V.store(regs, d + 32 * r, row, threads)
        if code[i, M.COL_AUX5] >= 0:
            first = row & V.splat(0x7FFFFFFF) if (kind >> 8) & M.FLAG_ABS else row
            most = extreme(most, row, kind) if r > 0 else first
    if code[i, M.COL_AUX5] >= 0:
        V.store(regs, row_offset(code[i, M.COL_AUX5], wb), most, threads)
    return True


# --- shared memory --------------------------------------------------------------------------------------------------
@compiled
def unpacked(st, sm, at, word, bits):
    """Word 0 to 3 of a line of 16 bytes, or (`bits` 6 or 4) of the 16 elements that lie in the line's first 12 or 8,
    each in a byte of its own: E3M2 and E2M3 below two zeros, E2M1 as E2M3 with two zeros behind (assumed, as A lies
    in tensor memory)."""
    if bits == 8:
        return st.shared32[sm, (at >> 2) + word]
    result = np.uint32(0)
    for k in range(4):
        result |= element(st.shared8[sm], at, 4 * word + k, bits) << np.uint32(8 * k)
    return result


@compiled
def lines_of(shape):
    """(Rows, lines of 16 bytes of each) that a copy reads."""
    rows = 4 if shape == M.COPY_4X256 else 128 if shape == M.COPY_128X256 or shape == M.COPY_128X128 else 64
    return np.int64(32 if shape == M.COPY_32X128 else rows), np.int64(2 if shape <= M.COPY_4X256 else 1)


@compiled
def lane_of_copy(shape, row, copy):
    """The lane that gets a row of a copy; `copy` 0 to 3: of those that are written several times."""
    if shape == M.COPY_4X256:
        return 32 * row
    if shape == M.COPY_64X128_02:  # warps 0 and 2 the first rows, 1 and 3 the others
        return row + 64 * copy
    if shape == M.COPY_64X128_01:
        return row % 32 + 64 * (row // 32) + 32 * copy
    return row + 32 * copy


@compiled_on_demand(types.boolean)
def copy(st, sm, slot, i, address, descriptor):
    """UTCCP of one block: lines of a matrix in shared memory to lanes. False if a line lies outside of it."""
    shape, bits = st.code[i, M.COL_AUX0], np.int64(st.code[i, M.COL_AUX1])
    rows, pieces = lines_of(shape)
    copies = 4 if shape == M.COPY_32X128 else 2 if shape == M.COPY_64X128_02 or shape == M.COPY_64X128_01 else 1
    cells = st.tmem[sm]
    for row in range(rows):
        for piece in range(pieces):
            at = chunk_at(st, slot, descriptor, np.int64(row), np.int64(piece))
            if at < 0:
                return False
            for word in range(4):
                value = unpacked(st, sm, at, word, bits)
                for n in range(copies):
                    lane = (address >> 16) + lane_of_copy(shape, row, n)
                    cells[((address & 0xFFFF) + 4 * piece + word) * L.TMEM_LANES + lane % L.TMEM_LANES] = value
    return True


@compiled
def shift(st, sm, address):
    """UTCSHIFT.DOWN: each of a warp's lanes but the last gets eight columns of the next one (assumed: of those two ways
    to read `down` the one in which UTCCP.4dp256bit renews the last lane, as CUTLASS says)."""
    for column in range(8):
        at = cell(address) + L.TMEM_LANES * column
        for lane in range(31):
            st.tmem[sm, at + lane] = st.tmem[sm, at + lane + 1]
