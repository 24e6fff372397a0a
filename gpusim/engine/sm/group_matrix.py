"""Matrix products of a group of four warps (wgmma: HGMMA, QGMMA, IGMMA, BGMMA), with operands in shared memory.

Each warp of the group computes sixteen of the 64 rows when it issues the instruction: its rows of A, from registers or
shared memory, times B from shared memory. A descriptor of 64 bits says where a matrix lies: its start (bits 0..13), the
two distances between its pieces of eight rows and 16 bytes (bits 16..29 and 32..45), all in units of 16 bytes, and the
swizzle (bits 62, 63), which exchanges 16-byte pieces of a line by its number (PTX manual, wgmma matrix descriptors;
every case here was checked against recordings of an H200).
"""

import numpy as np

from gpusim.engine.rows.common import FULL_MASK, predicate, row_offset
from gpusim.engine.rows.lanes import load, splat, store
from gpusim.engine.rows.tensor import load_addends, store_results
from gpusim.engine.rows.tensor_integer import group_numbers, integer_sum, sparse_integer_sum
from gpusim.engine.rows.tensor_sum import elements_per_word, fused_sum, metadata
from gpusim.engine.rows.tensor_tile import RESULTS, finite_words, integer_sums, room, take, tile_products
from gpusim.engine.sm.group_time import book_group
from gpusim.engine.sm.matrix_load import four_words, put_lines
from gpusim.engine.sm.space import fail
from gpusim.engine.sm.tensor_map import uniform_pair
from gpusim.engine.state import L, P, compiled, compiled_on_demand
from isa import microops as M

TILE_WORDS = 288  # scratch of an SM: rows of lanes, four for A, two or four for eight columns of B, one of metadata
_B_TILE = 128
_METADATA = 256
_UNIT = 16
_NO_SWIZZLE = 0


@compiled
def line_bytes(swizzle):
    """Bytes of a row of a matrix that lie together."""
    return np.int64(256) >> swizzle  # 1: 128, 2: 64, 3: 32


@compiled
def swizzled(address, swizzle):
    """Return where a byte really lies: some of address bits 7..9 are added to bits 4..6 without carry."""
    if swizzle == _NO_SWIZZLE:
        return address
    moved = (line_bytes(swizzle) // _UNIT - 1) & (address >> 7)
    return address ^ (moved << 4)


@compiled
def lines(descriptor, row, byte, across):
    """(byte, distance) of eight lines of 16 bytes before they are swizzled: of eight rows 16 bytes along K, or
    `across` of eight places along K eight 16-bit rows."""
    start = (descriptor & 0x3FFF) * _UNIT
    leading = ((descriptor >> 16) & 0x3FFF) * _UNIT
    stride = ((descriptor >> 32) & 0x3FFF) * _UNIT
    swizzle = (descriptor >> 62) & 3
    distance = np.int64(_UNIT) if swizzle == _NO_SWIZZLE else line_bytes(swizzle)
    if swizzle == _NO_SWIZZLE:
        start += (row // 8) * stride + (byte // _UNIT) * leading
    elif across:
        start += (2 * row // distance) * leading + (byte // _UNIT) * stride + 2 * row % distance
    else:
        start += (row // 8) * stride + byte
    return start, distance


@compiled
def lie_in_shared(st, sm, w, i, start, distance, swizzle):
    """Return whether eight lines end in the block's shared memory; else that is an error."""
    if (start + 7 * distance) | 127 < st.par[P.SHARED_BYTES]:
        return True
    for k in range(8):
        at = swizzled(start + k * distance, swizzle)
        if at + _UNIT > st.par[P.SHARED_BYTES]:
            fail(st, sm, L.ERROR_SHARED_BOUNDS, i, w, 0, at, _UNIT)
            return False
    return True


@compiled
def fill_tile(st, sm, w, i, first, descriptor, row, halves, pieces, across):
    """Fragment of eight rows (`halves` 1) or sixteen from `row` on, `pieces` of 16 bytes of K, into the SM's
    scratch."""
    shared, base = st.shared32[sm], (st.warp[w, L.WARP_BLOCK] * st.par[P.SHARED_STRIDE]) >> 2
    swizzle = (descriptor >> 62) & 3
    for word in range(pieces * halves):
        to = first + 32 * word
        start, distance = lines(descriptor, row + 8 * (word % halves), _UNIT * (word // halves), across)
        if not lie_in_shared(st, sm, w, i, start, distance, swizzle):
            return
        for k in range(0, 8, 2):
            x = four_words(shared, base + (swizzled(start + k * distance, swizzle) >> 2))
            y = four_words(shared, base + (swizzled(start + (k + 1) * distance, swizzle) >> 2))
            put_lines(st.tile, to, k, x, y, across)


@compiled
def element(st, i, tile, c_word, half, odd):
    """Results of one row half and one of each lane's two columns. Of a sparse A two of four elements along K are
    stored, and metadata say which."""
    kinds, result_bits, flags = st.code[i, M.COL_AUX1], st.code[i, M.COL_AUX2], st.code[i, M.COL_AUX4]
    a, b, words = tile + 32 * half, tile + _B_TILE, tile + _METADATA
    selector, sparse = (flags >> M.GMMA_SELECTOR_BIT) & 3, flags & M.GMMA_SPARSE
    if kinds & 255 == M.TENSOR_INTEGER:
        types, saturate = st.code[i, M.COL_AUX3], flags & M.GMMA_SATURATE != 0
        if sparse == 0:
            return integer_sum(st.tile, a, 64, st.tile, b, odd, 2, types, c_word, saturate)
        return sparse_integer_sum(st.tile, a, st.tile, b, odd, 2, types, c_word, saturate, words, half, selector)
    first = second = splat(0)
    if sparse != 0 and elements_per_word(kinds & 255) == 4:
        first, second = group_numbers(words, st.tile, half, 0), group_numbers(words, st.tile, half, 2)
    elif sparse != 0:
        first = second = metadata(st.tile, words, selector, half, False)
    sign = -1.0 if negative(flags) else 1.0
    return fused_sum(st.tile, a, st.tile, b, odd, 2, kinds, c_word, odd, result_bits, sign, sparse, first, second)


@compiled
def negative(flags):
    return (flags & M.GMMA_NEGATE_A != 0) != (flags & M.GMMA_NEGATE_B != 0)


@compiled_on_demand()
def any_columns(st, i, spread, tile, c, adds):
    """RESULTS of eight columns that `tensor_tile` leaves alone."""
    wide = st.code[i, M.COL_AUX2] == 32
    for k in range(4):
        c_word = load(st.regs, c + 32 * (k if wide else k >> 1)) if adds else splat(0)
        store(spread, RESULTS + 32 * k, element(st, i, tile, c_word, k >> 1, k & 1), FULL_MASK)


# many parameters: where A, B, C and D lie and which lanes write; compiled code has no records
@compiled
def columns_of_eight(st, i, spread, tile, c, d, adds, mask, ordinary):
    """C or nothing, plus this warp's rows of A times eight columns of B; `ordinary`: A is, and in scratch."""
    code, regs = st.code, st.regs
    kinds, result_bits, flags = code[i, M.COL_AUX1], code[i, M.COL_AUX2], code[i, M.COL_AUX4]
    whole = kinds & 255 == M.TENSOR_INTEGER
    c0 = c1 = c2 = c3 = splat(0)
    if adds:
        c0, c1, c2, c3 = load_addends(regs, c, result_bits)
    kind = M.TENSOR_INTEGER if whole else kinds >> 8
    right = ordinary and (whole or finite_words(c0, c1, c2, c3, result_bits))
    right = right and take(spread, st.tile, tile + _B_TILE, 2, 1, kind, code[i, M.COL_AUX3] & 2)
    if right and whole:
        integer_sums(spread, np.int64(32), c0, c1, c2, c3, flags & M.GMMA_SATURATE != 0)
    elif right:
        sign = 0x80000000 if negative(flags) else 0
        right = tile_products(spread, 2, kinds & 255, c0, c1, c2, c3, result_bits, sign)
    if not right:
        any_columns(st, i, spread, tile, c, adds)
    store_results(regs, d, spread, result_bits, mask)


@compiled
def count_reads(st, sm, w, i, columns, flags):
    """Wavefronts of the operands that come from shared memory: 128 bytes each, B once for the four warps (H200)."""
    b_bytes = columns * (64 if flags & M.GMMA_SPARSE != 0 else 32)
    wavefronts = b_bytes // 128 if st.warp[w, L.WARP_INDEX] & 3 == 0 else np.int64(0)
    if flags & M.GMMA_REGISTERS == 0:
        wavefronts += 4
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    counts[L.COUNT_SHARED_WAVEFRONTS] += wavefronts
    counts[L.COUNT_SHARED_IDEAL] += wavefronts


@compiled_on_demand()
def group_matrix(st, sm, q, w, i, wb, mask, time):
    """Executes one of these instructions for one warp of the four, and books when its result may be read."""
    code = st.code
    flags, kind = code[i, M.COL_AUX4], code[i, M.COL_AUX1] & 255
    columns = np.int64(code[i, M.COL_AUX0] & 0xFFFF)
    sparse = flags & M.GMMA_SPARSE != 0
    tile = sm * TILE_WORDS
    b_descriptor = uniform_pair(st, wb, code[i, M.COL_AUX5])
    adds = predicate(code, i, M.COL_PS0, st.preds, 16 * w) & np.uint32(1) != 0
    c = row_offset(code[i, M.COL_C], wb)
    d = wb + 32 * code[i, M.COL_DST]
    words = 128 if code[i, M.COL_AUX2] == 32 else 64  # of the accumulators, for eight columns
    if flags & M.GMMA_REGISTERS != 0:
        a = row_offset(code[i, M.COL_A], wb)
        for k in range(4):
            store(st.tile, tile + 32 * k, load(st.regs, a + 32 * k), FULL_MASK)
    else:
        row = 16 * (st.warp[w, L.WARP_INDEX] & 3)
        descriptor = uniform_pair(st, wb, code[i, M.COL_B])
        fill_tile(st, sm, w, i, tile, descriptor, row, 2, 2, flags & M.GMMA_TRANSPOSE_A != 0)
    if sparse:
        store(st.tile, tile + _METADATA, load(st.regs, wb + 32 * (code[i, M.COL_AUX0] >> 16)), FULL_MASK)
    spread = room()
    ordinary = not sparse and (kind != M.TENSOR_INTEGER or code[i, M.COL_AUX3] >> 4 == 8)
    if ordinary:
        ordinary = take(spread, st.tile, tile, 2, 2, kind, code[i, M.COL_AUX3] & 1)
    for n in range(columns // 8):
        pieces = 4 if sparse else 2
        fill_tile(st, sm, w, i, tile + _B_TILE, b_descriptor, 8 * n, 1, pieces, flags & M.GMMA_TRANSPOSE_B != 0)
        columns_of_eight(st, i, spread, tile, c + words * n, d + words * n, adds, mask, ordinary)
    count_reads(st, sm, w, i, columns, flags)
    if st.par[P.MODE] & L.BOOKS != 0:
        book_group(st, sm, q, w, flags, columns, time)
