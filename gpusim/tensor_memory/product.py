"""Matrix products in tensor memory: D = A * B (+ D), of one block or of what one block of a pair has to do.

A *part* are the 32 lanes of tensor memory that one warp can reach; results lie in lanes as rows of A do (PTX ISA, data
path layouts A to G). Where A has fewer rows than there are lanes, the parts share the columns, or use half of theirs.

All products of an instruction and the addend are aligned to the largest exponent, cut 25 places below it, added
exactly, and rounded once: to nearest for halves, toward zero for single precision. Packed four-bit numbers are added
up in sixteens first, exactly, and cut 35 places below the largest exponent of their scales and the addend (Xie et al.,
"MMA-Sim", arXiv 2511.10909, 2025, on a B200). Structured sparse A and the scale of D are taken to follow the same rules
(assumed), as zeros take no part.
"""

import numpy as np
from numba.core import types

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, gather, predicate, row_offset
from gpusim.engine.rows.tensor_integer import added
from gpusim.engine.rows.tensor_lanes import scratch
from gpusim.engine.rows.tensor_sum import addend, finished
from gpusim.engine.state import L, compiled, compiled_on_demand
from gpusim.tensor_memory import operand as O
from isa import microops as M

PLACES, PLACES_4BIT = 25, 35
ORIGIN = 512  # what `tensor_sum` adds to exponents
_DEPTH, ROW, _KEY = 128, 96, 64  # most elements along K; words of one with its exponents, from which word these
_COLUMN = 4 * _DEPTH * ROW  # of B; A's parts lie before it
_SCALES_A = _COLUMN + _DEPTH // 32 * ROW  # of four groups and parts
_SCALES_B = _SCALES_A + 16 * ROW
RAW = _SCALES_B + ROW
room = scratch(RAW + _DEPTH)
_PARTS = 4
_BLOCK = 4  # groups of packed four-bit numbers


#: What an instruction and its descriptors say, a row of 64-bit numbers of which these are the columns.
KIND, FLAGS, DESCRIPTOR, METADATA = range(4)  # PRODUCT_*; of the instruction; address
A, B, D = 4, 5, 6  # descriptors, or addresses in tensor memory
SCALE_A, SCALE_B = 7, 8  # addresses
MASK = 9  # 1: lanes or columns are left out
ADDS, LESS = 10, 11  # 1: D is added to; its exponent is less by so much
ROWS, COLUMNS = 12, 13  # rows of A that a block has; 0: the descriptor says something that does not exist
SHARES = 14  # of the columns, one for each of the parts that have the same rows
HALF = 15  # 1: of a part only 16 lanes have rows
DEPTH, A_FORM, B_FORM = 16, 17, 18  # FORM: one of `operand`
RESULT = 19  # bits, 0 for integers
SCALES = 20  # SCALES_*


@compiled
def bit(value, k):
    return (value >> k) & 1


@compiled
def form_of(kind, code):
    """A form by its number in the instruction descriptor, -1 for none."""
    if kind == M.PRODUCT_HALF:
        return np.int64(code if code <= O.TF32 else -1)
    if kind == M.PRODUCT_INTEGER:
        return np.int64(O.U8 + code if code <= 1 else -1)
    if kind == M.PRODUCT_NIBBLE:
        return np.int64(O.E2M1 if code == 1 else -1)
    return np.int64(-1 if code == 2 or code > 5 else O.E4M3 + code if code < 2 else O.E4M3 + code - 1)


@compiled
def describe(st, w, i, wb, x, masks):
    """Fills in what instruction i says; masks: gets the words of lanes or columns that it leaves out."""
    code, regs = st.code, st.regs
    words, scales = row_offset(code[i, M.COL_AUX2], wb), row_offset(code[i, M.COL_AUX5], wb)
    a, b = row_offset(code[i, M.COL_A], wb), row_offset(code[i, M.COL_B], wb)
    kind, flags, descriptor = np.int64(code[i, M.COL_AUX0]), code[i, M.COL_AUX1], np.int64(regs[words + 32])
    scaled, pair, ws = code[i, M.COL_AUX5] >= 0, flags & M.PRODUCT_PAIR != 0, flags & M.PRODUCT_WS != 0
    sparse, columns = bit(descriptor, 2), ((descriptor >> 17) & 63) * 8
    rows = ((descriptor >> 27) & 3) * 128 if scaled else ((descriptor >> 24) & 31) * 16
    x[KIND], x[FLAGS], x[DESCRIPTOR], x[METADATA] = kind, flags, descriptor, regs[words]
    x[A] = np.int64(regs[a]) | np.int64(regs[a + 32]) << 32
    x[B] = np.int64(regs[b]) | np.int64(regs[b + 32]) << 32
    x[D] = regs[row_offset(code[i, M.COL_C], wb)]
    x[SCALES] = 0
    if scaled:
        x[SCALE_A], x[SCALE_B] = regs[scales], regs[scales + 32]
        packed, fine = kind == M.PRODUCT_NIBBLE, flags & M.PRODUCT_16 != 0
        x[SCALES] = M.SCALES_GIVEN | M.SCALES_PACKED * packed | M.SCALES_16 * fine
        x[SCALES] |= M.SCALES_UE4M3 * (packed and not bit(descriptor, 23))
    x[ADDS] = predicate(code, i, M.COL_PS0, st.preds, 16 * w) & np.uint32(1)
    x[LESS], x[MASK] = code[i, M.COL_AUX4], code[i, M.COL_AUX3] >= 0
    for k in range((8 if pair else 2 if ws else 4) if x[MASK] else 0):
        masks[k] = regs[row_offset(code[i, M.COL_AUX3], wb) + 32 * k]
    x[A_FORM] = form_of(kind, (descriptor >> 7) & 7)
    x[B_FORM] = form_of(kind, (descriptor >> 10) & (3 if kind == M.PRODUCT_NIBBLE else 7))
    depth = 64 if kind == M.PRODUCT_NIBBLE else 32 if kind != M.PRODUCT_HALF else 8 if x[A_FORM] == O.TF32 else 16
    x[DEPTH], x[COLUMNS] = depth << sparse, columns
    x[RESULT] = 32 if scaled or bit(descriptor, 4) else 0 if kind == M.PRODUCT_INTEGER else 16
    x[HALF] = rows == (128 if pair else 64) and not ws and (sparse or not pair)
    x[SHARES] = max(128 // rows, 1) if ws and rows > 0 else 2 if pair and rows == 128 and not x[HALF] else 1
    right = rows == 128 or (rows == 256 and pair) or (rows == 64 and not pair and not scaled) or (rows == 32 and ws)
    right = right and 0 < columns <= 256 and columns % (16 * x[SHARES] if pair else 8 * x[SHARES]) == 0
    right = right and x[A_FORM] >= 0 and x[B_FORM] >= 0
    right = right and (kind != M.PRODUCT_HALF or (x[A_FORM] == O.TF32) == (x[B_FORM] == O.TF32))
    right = right and not (kind == M.PRODUCT_NIBBLE and bit(descriptor, 31))  # 96 elements along K
    x[ROWS] = (rows >> 1 if pair else rows) if right else 0


# --- A --------------------------------------------------------------------------------------------------------------
@compiled
def put(place, at, value, exponent):
    V.store64(place, at, V.as_u64(value))
    V.store_words(place, at + _KEY, exponent)


@compiled
def row_of(x, part, lane):
    """The row of a block's A that a lane has."""
    return 16 * part + lane % 16 if x[HALF] else (32 * part + lane) % x[ROWS]


@compiled
def raw_a(st, sm, slot, x, part, k, place):
    """Bits of element k of the rows of a part. False if one does not lie in the block's shared memory."""
    packed = x[KIND] == M.PRODUCT_NIBBLE
    if x[FLAGS] & M.PRODUCT_A_TMEM:
        column = (x[A] & 0xFFFF) + k * (4 if packed else max(O.bits_of(x[A_FORM]), 8)) // 32
        at = column * L.TMEM_LANES
        lanes = V.lane_numbers() + V.splat(32 * part)
        if x[FLAGS] & M.PRODUCT_ASHIFT:
            lanes = V.min_u(lanes + V.splat(1), V.splat(L.TMEM_LANES - 1))
        cells = gather(st.tmem[sm], at, lanes)
        V.store_words(place, RAW, O.cell_bits(cells, k, x[A_FORM], packed))
        return True
    for lane in range(32):
        row, across = row_of(x, part, lane), bit(x[DESCRIPTOR], 15) != 0
        bits = O.shared_bits(st, sm, slot, x[A], row, k, x[A_FORM], across, packed)
        if bits < 0:
            return False
        place[RAW + lane] = np.uint32(bits)
    return True


@compiled
def chosen(st, sm, x, part, chunk):
    """Four bits of metadata of each lane of a part: where the elements of a chunk of the stored A belong (PTX ISA,
    sparsity metadata; CUTLASS, tmem_e_frg). 16-bit and larger ones have half a word for sixteen rows, of which those
    from number 8 on take the upper one, and the second half of K eight lanes further."""
    column = (x[METADATA] & 0xFFFF) + (bit(x[DESCRIPTOR], 0) if x[KIND] == M.PRODUCT_HALF else 0)
    lanes, shift = V.lane_numbers(), V.splat(4 * (chunk & 7))
    if x[KIND] == M.PRODUCT_HALF:
        shift = V.splat(4 * (chunk & 3)) + ((lanes & V.splat(8)) << V.splat(1))
        lanes = (lanes & V.splat(23)) + V.splat(8 * (chunk >> 2))
    else:
        column += chunk >> 3
    return V.shr(gather(st.tmem[sm], column * L.TMEM_LANES + 32 * part, lanes), shift) & V.splat(15)


@compiled
def put_chosen(place, first, count, pairs, choice, value, exponent):
    """Puts elements where the low bits of `choice` say, `count` places of which each is `pairs` from the last."""
    for n in range(count):
        at, here = (first + pairs * n) * ROW, V.equal(choice & V.splat(count - 1), V.splat(n))
        V.store64(place, at, V.select(here, V.as_u64(value), V.load64(place, at)))
        V.store(place, at + _KEY, exponent, here)


@compiled
def scatter(st, sm, x, part, j, place, value, exponent):
    """Element j of a structured sparse A to where it belongs: two of four; of TF32 one of two; of packed four-bit
    numbers two pairs of four."""
    pairs = 2 if x[KIND] == M.PRODUCT_NIBBLE else 1
    if x[A_FORM] == O.TF32:
        choice = V.shr(chosen(st, sm, x, part, j), V.splat(1)) & V.splat(1)
        put_chosen(place, part * _DEPTH + 2 * j, 2, 1, choice, value, exponent)
    else:
        chunk = j // (2 * pairs)
        choice = V.shr(chosen(st, sm, x, part, chunk), V.splat(2 * (j // pairs % 2)))
        put_chosen(place, part * _DEPTH + 4 * pairs * chunk + j % pairs, 4, pairs, choice, value, exponent)


@compiled
def scale_bytes(st, sm, part, address, first, row, lanes):
    """Words of scales from an address on of some lanes of a part, in the column of row number `row` / 32; `first` is
    the byte with which they begin."""
    word = gather(st.tmem[sm], ((address & 0xFFFF) + row // 32) * L.TMEM_LANES + 32 * part, lanes)
    return V.shr(word, V.splat(8 * (first & 3)))


@compiled
def scaled_by(place, part, word, scales, factor):
    """(Factor of A's elements, what their exponents are more by) with their scales; those of groups of packed four-bit
    numbers go into scratch."""
    if scales & M.SCALES_PACKED:
        for group in range(_BLOCK):
            byte = V.shr(word, V.splat(8 * (group if scales & M.SCALES_16 else group // 2))) & V.splat(0xFF)
            scale, exponent = O.scale_of(byte, scales & M.SCALES_UE4M3)
            put(place, _SCALES_A + (4 * part + group) * ROW, scale, exponent)
    elif scales:
        scale, exponent = O.scale_of(word & V.splat(0xFF), 0)
        return V.splat_f64(factor) * scale, exponent
    return V.splat_f64(factor), V.splat(0)


@compiled
def clear(place, first, count):
    """A structured sparse row has no elements yet."""
    for k in range(first, first + count):
        put(place, k * ROW, V.splat_f64(0.0), V.splat(O.ABSENT))


@compiled
def stage_a(st, sm, slot, x, place):
    """A of all parts into scratch. Returns whether any of it is infinite or no number, -1 after an error."""
    special, sparse = np.uint32(0), bit(x[DESCRIPTOR], 2) != 0
    negative = bit(x[DESCRIPTOR], 13) != bit(x[DESCRIPTOR], 14) and x[KIND] != M.PRODUCT_INTEGER
    for part in range(_PARTS):
        word = V.splat(0)
        if x[SCALES]:
            word = scale_bytes(st, sm, part, x[SCALE_A], x[DESCRIPTOR] >> 29, 32 * part % x[ROWS], V.lane_numbers())
        factor, more = scaled_by(place, part, word, x[SCALES], -1.0 if negative else 1.0)
        special |= V.unordered_f64(factor, factor)
        if sparse:
            clear(place, part * _DEPTH, x[DEPTH])
        for k in range(x[DEPTH] >> sparse):
            if not raw_a(st, sm, slot, x, part, np.int64(k), place):
                return -1
            value, exponent, wrong = O.decoded(V.load_words(place, RAW), x[A_FORM])
            value, exponent, special = value * factor, exponent + more, special | wrong
            if sparse:
                scatter(st, sm, x, part, np.int64(k), place, value, exponent)
            else:
                put(place, (part * _DEPTH + k) * ROW, value, exponent)
    return 1 if special != np.uint32(0) else 0


# --- B --------------------------------------------------------------------------------------------------------------
@compiled
def zeroed(masks, x, n):
    """Return whether the zero-column mask (.WS) leaves a column out: spans of columns that count and that do not
    alternate, from a start on for each share of the columns."""
    low, high = np.int64(masks[0]), np.int64(masks[1])
    if not bit(high, 7):
        return False
    share, at = n // (x[COLUMNS] // x[SHARES]), n % (x[COLUMNS] // x[SHARES])
    left_out, used = ((high >> 8) & 255) + 1, ((high >> 16) & 255) + 1
    at = (at + ((low >> (8 * share)) & 255)) % (left_out + used)
    return at < left_out if bit(high, share) else at >= used


# many parameters: whose memory, and what of it; compiled code has no records
@compiled
def stage_b(st, sm, slot, x, row, zero, place):
    """A column of B, row `row` of its matrix, into scratch. Returns as `stage_a`."""
    packed, across = x[KIND] == M.PRODUCT_NIBBLE, bit(x[DESCRIPTOR], 16) != 0
    for k in range(x[DEPTH]):
        bits = np.int64(0) if zero else O.shared_bits(st, sm, slot, x[B], row, np.int64(k), x[B_FORM], across, packed)
        if bits < 0:
            return -1
        place[RAW + k] = np.uint32(bits)
    return put_column(place, x[DEPTH], x[B_FORM])


@compiled
def put_column(place, depth, form):
    """A column of B whose bits are in scratch. Returns whether any of it is infinite or no number."""
    special = np.uint32(0)
    for k in range(0, depth, 32):
        value, exponent, wrong = O.decoded(V.load_words(place, RAW + k), form)
        put(place, _COLUMN + k // 32 * ROW, value, exponent)
        special |= wrong & np.uint32(0xFFFFFFFF >> max(k + 32 - depth, 0))
    return 1 if special != np.uint32(0) else 0


@compiled
def key_b(place, k):
    return np.int64(np.int32(place[_COLUMN + k // 32 * ROW + _KEY + k % 32]))


@compiled
def product_at(place, part, k):
    """Products of a part's rows of A and the column of B, element k of both."""
    a = V.as_f64(V.load64(place, (part * _DEPTH + k) * ROW))
    return a * O.spread(place, _COLUMN + k // 32 * ROW + 2 * (k % 32))


# --- sums -----------------------------------------------------------------------------------------------------------
# many parameters: what is added up; compiled code has no records
@compiled
def single_sums(place, depth, part, c, top, factor, more, special):
    """(Cut total, total as it is, largest exponent) of an addend c of exponent `top` and all products, of which B's
    scale makes `factor` times as much and `more` of the exponent. The second is only right where it is not finite."""
    for k in range(depth):
        if key_b(place, k) > O.NONE // 2:
            top = V.max_s(top, V.load_words(place, (part * _DEPTH + k) * ROW + _KEY) + V.splat(key_b(place, k) + more))
    scale = O.power_of_two(V.splat(PLACES) - top)
    total, plain = V.splat_f64(0.0) + V.truncate(c * scale), c
    scale = scale * V.splat_f64(factor)
    for k in range(depth):
        if special or key_b(place, k) > O.NONE // 2:
            value = product_at(place, part, k)
            if special:
                absent = V.equal(V.load_words(place, (part * _DEPTH + k) * ROW + _KEY), V.splat(O.ABSENT))
                value = V.select(absent, V.splat_f64(0.0), value)
                plain = plain + value * V.splat_f64(factor)
            total = total + V.truncate(value * scale)
    return total, plain, top


@compiled
def grouped_sums(place, depth, part, c, top):
    """As `single_sums`, of packed four-bit numbers, whose groups have a scale each."""
    for group in range(_BLOCK):
        exponent = np.int64(np.int32(place[_SCALES_B + _KEY + group]))
        top = V.max_s(top, V.load_words(place, _SCALES_A + (4 * part + group) * ROW + _KEY) + V.splat(exponent))
    scale = O.power_of_two(V.splat(PLACES_4BIT) - top)
    total, plain = V.splat_f64(0.0) + V.truncate(c * scale), c
    per = depth // _BLOCK
    for group in range(_BLOCK):
        value = V.splat_f64(0.0)
        for k in range(group * per, (group + 1) * per):
            value = value + product_at(place, part, k)
        value = value * V.as_f64(V.load64(place, _SCALES_A + (4 * part + group) * ROW))
        value = value * O.spread(place, _SCALES_B + 2 * group)
        total, plain = total + V.truncate(value * scale), plain + value
    return total, plain, top


@compiled
def whole_sums(place, x, part, c_word):
    """Sums of integers, which wrap around or saturate."""
    total = V.splat_f64(0.0)
    for k in range(x[DEPTH]):
        total = total + product_at(place, part, k)
    return added(c_word, V.low(V.f64_to_s64(total)), bit(x[DESCRIPTOR], 3) != 0)


# many parameters: as above, and how the result is to be rounded; compiled code has no records
@compiled
def rounded_sums(place, depth, part, c, top, word, scales, result, special):
    """Result words of an addend and a part's products; word: B's scales, the same in all lanes."""
    if scales & M.SCALES_PACKED:
        group = V.lane_numbers() & V.splat(3)
        word = V.shr(word, (group if scales & M.SCALES_16 else V.shr(group, V.splat(1))) << V.splat(3))
    scale, exponent = O.scale_of(word & V.splat(0xFF), scales & M.SCALES_UE4M3)
    put(place, _SCALES_B, scale, exponent)
    if scales & M.SCALES_PACKED:
        total, plain, top = grouped_sums(place, depth, part, c, top)
        return finished(total, plain, top + V.splat(ORIGIN), PLACES_4BIT, result)
    factor, more = 1.0, np.int64(0)
    if scales:
        factor, more = V.get_f64(scale, 0), np.int64(np.int32(V.get_u32(exponent, 0)))
    special = special or factor != factor or V.equal_f64(c - c, V.splat_f64(0.0)) != np.uint32(FULL_MASK)
    total, plain, top = single_sums(place, depth, part, c, top, factor, more, special)
    return finished(total, plain if special else V.splat_f64(0.0), top + V.splat(ORIGIN), PLACES, result)


@compiled
def part_sums(st, sm, x, part, n, place, c_word, special):
    """D of a part's rows and column n of its share."""
    if x[KIND] == M.PRODUCT_INTEGER:
        return whole_sums(place, x, part, c_word)
    c, top = addend(c_word, 0, x[RESULT])
    top = top - V.splat(ORIGIN)
    if x[LESS] > 0:
        c = c * O.power_of_two(V.splat(-x[LESS]))
        top = V.max_s(top - V.splat(x[LESS]), V.splat(-ORIGIN))
    word = V.splat(0)
    if x[SCALES]:
        word = scale_bytes(st, sm, part, x[SCALE_B], x[DESCRIPTOR] >> 4, n, V.splat(n % 32))
    return rounded_sums(place, x[DEPTH], part, c, top, word, x[SCALES], x[RESULT], special)


@compiled
def lanes_left_out(masks, x, part, second):
    """Lanes of a part that stay as they are; `second`: of the second block of a pair."""
    return np.uint32(0) if not x[MASK] or x[FLAGS] & M.PRODUCT_WS else masks[part + _PARTS * second]


# many parameters: the block, whose columns of B are whose, and which of the pair it is; compiled code has no records
@compiled_on_demand(types.boolean)
def multiply(st, sm, slot, x, masks, first_sm, first_slot, second_sm, second_slot, second):
    """One block's part of a product. B's first columns lie in one block, those from the middle on in another, of a
    pair; second: 1 for the second block of it. False if an operand does not lie in its block's shared memory."""
    place, cells, own = room(), st.tmem[sm], x[COLUMNS] // x[SHARES]
    excludes = x[FLAGS] & M.PRODUCT_WS != 0 and x[MASK] != 0
    special_a = stage_a(st, sm, slot, x, place)
    if special_a < 0:
        return False
    shift = (np.int64(masks[1]) >> 24) & 63 if excludes else np.int64(0)
    lanes = np.uint32(0xFFFFFFFF)
    if x[HALF]:
        lanes = np.uint32(0xFFFF0000 if (x[D] >> 16) & 16 else 0xFFFF)
    parts = np.int64(_PARTS) // x[SHARES]
    for n in range(x[COLUMNS]):
        zero = excludes and zeroed(masks, x, n)
        row, b_sm, b_slot = n + shift, first_sm, first_slot
        if x[FLAGS] & M.PRODUCT_PAIR and n >= x[COLUMNS] // 2:
            row, b_sm, b_slot = n - x[COLUMNS] // 2, second_sm, second_slot
        special = stage_b(st, b_sm, b_slot, x, row, zero, place)
        if special < 0:
            return False
        for k in range(parts):
            part = k + parts * (n // own)
            at = ((x[D] & 0xFFFF) + n % own) * L.TMEM_LANES + 32 * part
            c_word = V.load(cells, at) if x[ADDS] else V.splat(0)
            result = part_sums(st, sm, x, part, n % own, place, c_word, special + special_a > 0)
            V.store(cells, at, result, lanes & ~lanes_left_out(masks, x, part, second))
    return True
