"""Boxes of tensors, row by row: where a row lies in both memories, and its bytes from one to the other.

A row of the box whose bytes are fewer than a swizzled line gets a line to itself.
"""

import numpy as np

from gpusim.engine.rows.half import combine_halves
from gpusim.engine.sm import tensor_map as tm
from gpusim.engine.sm.atomics import combine32, combine_pair
from gpusim.engine.sm.matrix_load import four_words, put_line
from gpusim.engine.state import L, P, compiled
from isa import microops as M

_OUT_OF_BOUNDS_NAN = 0x7FF7  # both halves of every word, as seen on an H200
_OUTSIDE = np.int64(-1) << 60


@compiled
def row_cells(k):
    """(The first, how many, their distance) of the cells of a row, counted from where `row_start` is. The pixels of an
    interleaved tensor are single slots."""
    if tm.is_im2col(k) and tm.interleave(k) != 0:
        return np.int64(0), np.int64(1), np.int64(1)
    together = tm.packed(k)
    return k[L.BULK_CORNER] >> together, tm.box_count(k, 0) >> together, tm.element_stride(k, 0)


@compiled
def row_pitch(k):
    """Bytes from one row of a box to the next in shared memory."""
    pitch = row_cells(k)[1] * tm.shared_bytes(k)
    if tm.swizzle(k) == 0 or tm.interleave(k) != 0:
        return pitch
    return max(pitch, np.int64(16) << tm.swizzle(k))


@compiled
def row_count(k):
    if tm.is_im2col(k):
        return tm.word(k, 15) + 1
    if k[L.BULK_ROWS4]:
        return np.int64(4)
    rows = np.int64(1)
    for d in range(1, tm.rank(k)):
        rows *= tm.box_count(k, d)
    return rows


@compiled
def row_start(st, k, r):
    """Byte in st.memory8 of element 0 of row r of a box, negative if the row is out of bounds."""
    row = tm.tensor_base(k) - st.par[P.MEMORY_BASE]
    if tm.is_im2col(k):
        return pixel_start(k, r, row)
    if k[L.BULK_ROWS4]:
        coordinate = k[L.BULK_CORNER + 1 + r]
        return row + coordinate * tm.stride(k, 1) if 0 <= coordinate < tm.extent(k, 1) else _OUTSIDE
    left = np.int64(r)
    for d in range(1, tm.rank(k)):
        here = tm.box_count(k, d)
        coordinate = k[L.BULK_CORNER + d] + left % here * tm.element_stride(k, d)
        left //= here
        if coordinate < 0 or coordinate >= tm.extent(k, d):
            return _OUTSIDE
        row += coordinate * tm.stride(k, d)
    return row


@compiled
def pixel_start(k, r, row):
    """`row_start` of pixel r: pixels follow each other along the first dimension of theirs from the corner to the end
    of their box, then from its beginning with the next one along the second, and so on to the next image (PTX ISA,
    im2col mode). Offsets move them all."""
    rank = tm.rank(k)
    left = np.int64(r)
    for s in range(rank - 2):
        d, low, high = tm.pixel_range(k, s)
        step = tm.element_stride(k, d)
        start = k[L.BULK_CORNER + d]
        first = (high - start) // step + 1
        if left < first:
            start += left * step
            left = np.int64(0)
        else:
            count = (high - low) // step + 1
            start = low + (left - first) % count * step
            left = 1 + (left - first) // count
        start += k[L.BULK_OFFSETS] >> tm.pixel_bits(k) * s & (1 << tm.pixel_bits(k)) - 1
        if start < 0 or start >= tm.extent(k, d):
            return _OUTSIDE
        row += start * (tm.stride(k, d) if d > 0 else tm.cell_bytes(k))
    for d in range(rank - 2 if tm.interleave(k) != 0 else rank - 1, rank):
        coordinate = k[L.BULK_CORNER + d] + (left if d == rank - 1 else 0)
        if coordinate < 0 or coordinate >= tm.extent(k, d):
            return _OUTSIDE
        row += coordinate * tm.stride(k, d)
    return row


@compiled
def row_limit(k, exact):
    """Elements of a row that a copy may touch. A plain store writes whole units of 16 bytes, as an H200 does, also
    where the row ends inside one."""
    if tm.is_im2col(k) and tm.interleave(k) != 0:
        return np.int64(1)
    count, size = tm.extent(k, 0) >> tm.packed(k), tm.cell_bytes(k)
    return count if exact or size >= tm.UNIT else (count * size + tm.UNIT - 1) // tm.UNIT * tm.UNIT // size


@compiled
def combine(words, to, shared, from_, size, kind, operation):
    """One element at byte `from_` of `shared` into that at byte `to` of `words` by a reduction; both are words."""
    at, word = to >> 2, from_ >> 2
    if size == 2:
        old, new = words[at] >> np.uint32(8 * (to & 2)), shared[word] >> np.uint32(8 * (from_ & 2))
        form = M.HALF_F16 if kind == M.TYPE_F16X2 else M.HALF_BF16
        result = combine_halves(operation, form, old & np.uint32(0xFFFF), new & np.uint32(0xFFFF)) & np.uint32(0xFFFF)
        keep = np.uint32(0xFFFF0000) >> np.uint32(8 * (to & 2))
        words[at] = np.uint32(words[at] & keep | result << np.uint32(8 * (to & 2)))
    elif size == 4:
        words[at] = combine32(operation, kind, words[at], shared[word])
    else:
        combine_pair(words, at, operation, kind, shared[word], shared[word + 1])


@compiled
def move_row(st, sm, k, r, shared, block, load, operation):
    """Row r of a box, from or to byte `shared` of what begins at `block` in st.shared8[sm]; operation: of a reduction,
    -1 for plain copies."""
    (first, count, step), row = row_cells(k), row_start(st, k, r)
    extent, size, room = row_limit(k, load or operation >= 0), tm.cell_bytes(k), tm.shared_bytes(k)
    whole = row >= 0 and step == 1 and first >= 0 and first + count <= extent and room == size
    rounds = load and tm.word(k, 2) >> 16 & 1 != 0  # float32 to TF32
    if whole and operation < 0 and not rounds and (row | shared | (count * size)) & (tm.UNIT - 1) == 0:
        for n in range(0, count * size, tm.UNIT):
            at, place = (block + tm.swizzled(k, shared + n)) >> 2, (row + first * size + n) >> 2
            if load:
                put_line(st.shared32[sm], at, four_words(st.memory32, place))
            else:
                put_line(st.memory32, place, four_words(st.shared32[sm], at))
        return
    piece = min(size, np.int64(tm.UNIT))  # of a cell, in one unit of a swizzled line
    for n in range(0, count * size, piece):
        at = block + tm.swizzled(k, shared + n // size * room + n % size)
        x = first + n // size * step
        if row < 0 or x < 0 or x >= extent:
            value = _OUT_OF_BOUNDS_NAN if tm.word(k, 2) >> 15 & 1 else 0
            for b in range(piece if load else 0):
                st.shared8[sm, at + b] = np.uint8(value >> (8 * (b & 1)) & 255)
            continue
        place = row + x * size + n % size
        if operation >= 0:
            combine(st.memory32, place, st.shared32[sm], at, size, tm.reduction_type(k), operation)
            continue
        for b in range(piece):
            if load:
                st.shared8[sm, at + b] = st.memory8[place + b]
            else:
                st.memory8[place + b] = st.shared8[sm, at + b]
        if rounds:
            for b in range(0, piece, 4):
                st.shared32[sm, (at + b) >> 2] = to_tf32(st.shared32[sm, (at + b) >> 2])


@compiled
def to_tf32(bits):
    """A float32 rounded to ten bits of fraction, to nearest."""
    if bits & np.uint32(0x7F800000) == np.uint32(0x7F800000):
        return bits
    return np.uint32((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000))


@compiled
def move_box(st, sm, k, load, operation):
    """All rows of a box between global memory and the shared memory of the copy's block, on SM `sm`."""
    block = (k[L.BULK_BLOCK] & 255) * st.par[P.SHARED_STRIDE]
    pitch = row_pitch(k)
    for r in range(row_count(k)):
        move_row(st, sm, k, r, k[L.BULK_SHARED] + r * pitch, block, load, operation)
