"""Tensor maps: 128 bytes in which a tensor and the box that a bulk copy takes of it are described.

Their meaning was read off maps that the driver's cuTensorMapEncodeTiled made with one argument changed at a time: words
0 and 1 hold the address; word 2 the number of dimensions less one (from bit 4), the type (7), interleave (11), swizzle
((13), what to put in place of elements that are out of bounds (15), rounding to TF32 (16) and what a swizzle moves
(19: 0 pieces of 16 bytes, 1 of 32); words 3 to 6 and the
hexadecimal digits of word 7 the strides in units of 16 bytes; words 8 to 12 the extents less one; word 13 the element
strides less one, three bits each, and in its last byte and the bytes of word 14 the box's extents less one.

A map for im2col has bit 0 of word 2, the channels of a pixel in the last byte of word 13, and in word 15 the pixels of
a column less one; the halves of word 14 hold the lower and the upper corner of the box of pixels, 16, 8 or 5 bits for
each of one, two or three dimensions.

In an interleaved tensor the first dimension goes by slots of 16 or 32 bytes; the channels, the last dimension but one,
by as many as fill a slot, though the box counts them one by one.

A copy keeps the map as it was at its issue in its row `k` of State.bulk.
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.sm.space import PARAMETER_WINDOW, fail, find_allocation
from gpusim.engine.state import L, P, compiled
from isa import microops as M

UNIT = 16
_MAP_BYTES = 128
_MAP_WORDS = 16
_SIZES = np.array([1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 1, 8, 12, 0, 0], np.int64)
_PACKED_TYPE, _PADDED_TYPE = 11, 12
_KINDS = np.array(
    [-1, -1, M.TYPE_U32, M.TYPE_S32, M.TYPE_U64, M.TYPE_S64, M.TYPE_F16X2, M.TYPE_F32, M.TYPE_F32_FTZ, M.TYPE_F64,
     M.TYPE_BF16X2, -1, -1, -1, -1, -1], np.int64
)  # fmt: skip


@compiled
def uniform_word(st, wb, operand, n):
    """Register `n` from that of an operand on, as the first lane has it."""
    return np.int64(st.regs[row_offset(operand, wb) + 32 * n])


@compiled
def uniform_pair(st, wb, operand):
    """Two of them as one number of 64 bits, such as an address."""
    return uniform_word(st, wb, operand, 0) | (uniform_word(st, wb, operand, 1) << 32)


@compiled
def inside(st, sm, w, i, address, size):
    """True if a range of global memory lies in one live allocation; else records the error."""
    n = find_allocation(st.starts, st.ends, address)
    if n < 0 or address + size > st.ends[n]:
        fail(st, sm, L.ERROR_BOUNDS, i, w, 0, address, size)
        return False
    return True


@compiled
def read_map(st, sm, w, i, wb, k):
    """Copies the words of the map that the instruction names. False after an error."""
    address = uniform_pair(st, wb, st.code[i, M.COL_B])
    parameter = PARAMETER_WINDOW <= address < PARAMETER_WINDOW + st.bank8.shape[1] - _MAP_BYTES
    if not parameter and not inside(st, sm, w, i, address, np.int64(_MAP_BYTES)):
        return False
    if not parameter and address & 63 != 0:
        fail(st, sm, L.ERROR_MISALIGNED, i, w, 0, address, np.int64(64))
        return False
    start = (address - (PARAMETER_WINDOW if parameter else st.par[P.MEMORY_BASE])) >> 2
    for n in range(_MAP_WORDS):
        k[L.BULK_MAP + n] = np.int64(st.bank32[0, start + n] if parameter else st.memory32[start + n])
    return True


@compiled
def word(k, n):
    """Word n of a copy's tensor map."""
    return k[L.BULK_MAP + n]


@compiled
def tensor_base(k):
    return word(k, 0) | (word(k, 1) << 32)


@compiled
def rank(k):
    return ((word(k, 2) >> 4) & 7) + 1


@compiled
def type_field(k):
    return (word(k, 2) >> 7) & 15


@compiled
def element_bytes(k):
    """Bytes of an element, or of those of 6 or 4 bits that are counted together, 0 for what is not known."""
    return _SIZES[type_field(k)] if (word(k, 2) >> 20) & 1 == 0 else np.int64(0)


@compiled
def packed(k):
    """Binary logarithm of how many elements are counted together: two of 4 bits, or 16 of 4 or 6 bits."""
    return 0 if type_field(k) < _PACKED_TYPE else 1 if type_field(k) == _PACKED_TYPE else 4


@compiled
def shared_bytes(k):
    """Bytes of a cell in shared memory, where 16 elements of 4 or 6 bits may have 16 bytes, the last of them unused."""
    return np.int64(UNIT) if type_field(k) >= _PADDED_TYPE else cell_bytes(k)


@compiled
def reduction_type(k):
    """TYPE_* of the elements for a reduction, -1 for those that have none."""
    return _KINDS[type_field(k)]


@compiled
def is_im2col(k):
    return word(k, 2) & 1 != 0


@compiled
def interleave(k):
    """0 none, 1 slots of 16 bytes, 2 of 32."""
    return (word(k, 2) >> 11) & 3


@compiled
def cell_bytes(k):
    """Bytes of what the first dimension counts: elements, or slots of an interleaved tensor."""
    return np.int64(8) << interleave(k) if interleave(k) != 0 else element_bytes(k)


@compiled
def swizzle(k):
    """0 none, 1 to 3: lines of 32, 64, 128 bytes."""
    return (word(k, 2) >> 13) & 3


@compiled
def swizzled(k, at):
    """Where a byte of shared memory really lies: bits of its line's number are added to those of its piece."""
    atom = (word(k, 2) >> 19) & 1
    return at ^ (((at >> 7) & (((1 << swizzle(k)) - 1) >> atom)) << (4 + atom))


@compiled
def stride(k, d):
    """Bytes from one element to the next along dimension d > 0."""
    return (word(k, 2 + d) | ((word(k, 7) >> (4 * (d - 1))) & 15) << 32) * UNIT


@compiled
def extent(k, d):
    """Elements of the tensor along a dimension."""
    return word(k, 8 + d) + 1


@compiled
def element_stride(k, d):
    """Distance of the elements of a box along a dimension; none along the first unless interleaved (driver's API)."""
    return ((word(k, 13) >> (3 * d)) & 7) + 1 if d > 0 or interleave(k) != 0 else np.int64(1)


@compiled
def box_count(k, d):
    """Elements that a box takes along a dimension."""
    step = element_stride(k, d)
    extent_less_1 = (word(k, 13) >> 24 if d == 0 else word(k, 14) >> (8 * (d - 1))) % 256
    count = (extent_less_1 + step) // step
    if interleave(k) != 0 and d == rank(k) - 2:
        per = cell_bytes(k) // element_bytes(k)
        return (count + per - 1) // per
    return count


@compiled
def pixel_bits(k):
    """Bits of a number of pixels along each dimension that they have."""
    return 16 if rank(k) == 3 else 8 if rank(k) == 4 else 5


@compiled
def pixel_corner(k, s, upper):
    """The lower or upper corner of the box of pixels along dimension s of theirs, the upper one from the far end."""
    bits = pixel_bits(k)
    value = (word(k, 14) >> (16 * upper + bits * s)) & ((1 << bits) - 1)
    sign = 1 << (bits - 1)
    return (value ^ sign) - sign


@compiled
def pixel_range(k, s):
    """(dimension of the tensor, first, last pixel of the box) along dimension s of the pixels."""
    d = s if interleave(k) != 0 else s + 1
    return d, pixel_corner(k, s, 0), extent(k, d) - 1 + pixel_corner(k, s, 1)
