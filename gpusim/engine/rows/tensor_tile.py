"""Products of 16 rows of A and eight columns of B of ordinary numbers, to the same bits as `tensor_sum` and faster.

Both fragments are spread out in scratch memory (`tensor_lanes`) once, as single-precision numbers and as exponents.
Products of two elements are exact in single precision where they count. A product aligned and cut is a 32-bit
integer, and a sum of sixteen is one too: with 25 places each is below 2**27 - 2**17. What is beyond the range of one or
the other is left to `tensor_sum`, and so are NaN and infinity.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows import tensor_lanes as T
from gpusim.engine.rows.float_bits import NO_LANES
from gpusim.engine.rows.tensor_integer import added
from gpusim.engine.rows.tensor_sum import KEPT_8BIT, PLACES, PLACES_8BIT, elements_per_word
from gpusim.engine.state.jit import compiled
from isa import microops as m

_STEPS = 32  # of 8-bit elements; of other ones fewer
_PAIR_STEPS = 16
_A_PAIRS = 64 * _STEPS
_B = _A_PAIRS + 64 * _PAIR_STEPS
_B_PAIRS = _B + 8 * _STEPS
_TOPS = _B_PAIRS + 8 * _PAIR_STEPS
_ADDENDS = _TOPS + 128
RESULTS = _ADDENDS + 128  # four rows, for rows g and g + 8 with columns 2t and 2t + 1
_ALONE = RESULTS + 128
DOUBLE_B, DOUBLE_RESULTS = _B, _TOPS  # of products of doubles, eight rows
room = T.scratch(_ALONE + 4)
_LEAST, _MOST = -100, 125  # largest exponents of products that, like their scales, are single-precision numbers
_NONE = -4096  # above that of no product, see `tensor_lanes.ZERO_EXPONENT`, below that of any
_F32_BIAS = 127
_F32_DIGITS = 24
_ALL_LANES = np.uint32(0xFFFFFFFF)


@compiled
def four_rows(place, at):
    return V.load(place, at), V.load(place, at + 32), V.load(place, at + 64), V.load(place, at + 96)


@compiled
def put_rows(place, at, r0, r1, r2, r3, mask):
    V.store(place, at, r0, mask)
    V.store(place, at + 32, r1, mask)
    V.store(place, at + 64, r2, mask)
    V.store(place, at + 96, r3, mask)


@compiled
def both(value):
    """A small number in both halves."""
    return V.splat(value | value << 16)


@compiled
def pairs_of(word, k, kind):
    """Exponents of half the elements of a word, or (8-bit types) of a quarter (`k` 0 or 1), two in each lane."""
    least, most = -126, 127
    if kind == m.TENSOR_TF32:
        size = word & V.splat(0x7FFFE000)
        field, bias = size >> V.splat(23), 127
        size = V.select(V.equal(size, V.splat(0)), V.splat(0), V.splat(1))  # and nothing in the upper half
    elif kind == m.TENSOR_BF16:
        size = word & V.splat(0x7FFF7FFF)
        field, bias = (size >> V.splat(7)) & V.splat(0xFF00FF), 127
    elif kind == m.TENSOR_F16:
        size = word & V.splat(0x7FFF7FFF)
        field, bias, least, most = (size >> V.splat(10)) & V.splat(0x1F001F), 15, -14, 15
    else:
        size = (V.shr(word, V.splat(8)) if k else word) & V.splat(0x7F007F)
        if kind == m.TENSOR_E5M2:
            field, bias, least, most = (size >> V.splat(2)) & V.splat(0x1F001F), 15, -14, 15
        else:
            nan = ((size + V.splat(0x10001)) >> V.splat(7)) & V.splat(0x10001)
            field, bias, least, most = ((size >> V.splat(3)) & V.splat(0xF000F)) + nan, 7, -6, 8
    field = T.larger_pairs(field, V.splat(0x10001))  # which is that of denormal numbers
    return T.exponent_pairs(field, both(bias), both(bias + least), both(most - least), size)


@compiled
def number_of(word, k, kind, signed):
    """Element k of a word in single precision; `signed`: of integers."""
    if kind == m.TENSOR_F16:
        return V.half_to_f32(word >> V.splat(16 * k))
    if kind == m.TENSOR_BF16:
        return V.as_f32((word >> V.splat(16 * k)) << V.splat(16))
    if kind == m.TENSOR_TF32:
        return V.as_f32(word & V.splat(0xFFFFE000))
    top = word << V.splat(24 - 8 * k)
    if kind == m.TENSOR_INTEGER:
        return T.s32_to_f32(V.sar(top, V.splat(24)) if signed != 0 else top >> V.splat(24))
    if kind == m.TENSOR_E5M2:
        return V.half_to_f32((top >> V.splat(16)) & V.splat(0xFF00))
    bits = V.sar(top, V.splat(17)) & V.splat(0xBF80)  # a half's exponent counts from 15 instead of 7
    return V.half_to_f32(bits) * V.splat_f32(256.0)


@compiled
def ordinary(seen):
    """Return whether no exponent among the larger ones `seen` is out of range."""
    wrong = seen & (V.shr(seen, V.splat(1)) ^ V.splat(0xFFFFFFFF))
    return V.equal(wrong & V.splat(0x40004000), V.splat(0)) == _ALL_LANES


@compiled
def spread_out(place, at, row, step, rows):
    """Four steps, from number `step` on, of a row of A (`rows`: 0 or 32 for rows g or g + 8) or (-1) of B."""
    if rows < 0:
        T.spread_columns(place, at + 8 * step, row)
    else:
        T.spread_rows(place, at + 64 * step + rows, row)


# many parameters: compiled code has no records
@compiled
def spread_fragment(place, words, first, count, sides, kind, signed):
    per, seen = elements_per_word(kind), V.splat(T.ZERO_EXPONENT)
    pairs = 0 if kind == m.TENSOR_INTEGER else (per + 1) // 2
    numbers, exponents = (0, _A_PAIRS) if sides == 2 else (_B, _B_PAIRS)
    for number in range(sides * count):
        word, rows = (number >> 1, 32 * (number & 1)) if sides == 2 else (number, -1)
        row = V.load(words, first + 32 * number)
        for k in range(per):
            spread_out(place, numbers, V.as_u32(number_of(row, k, kind, signed)), 4 * (word * per + k), rows)
        for k in range(pairs):
            pair = pairs_of(row, k, kind)
            seen = T.larger_pairs(seen, pair)
            spread_out(place, exponents, pair, 4 * (word * pairs + k), rows)
    return ordinary(seen)


# many parameters: compiled code has no records
@compiled
def take(place, words, first, count, sides, kind, signed):
    """Spread out a fragment of `count` words (a lane) of A (`sides` 2: rows g and g + 8) or B (1), which begins at
    words[first]. Whether it is ordinary: without infinity or NaN. Usual cases have code of their own, which is faster.
    """
    if count == 2 and kind == m.TENSOR_F16:
        return spread_fragment(place, words, first, 2, sides, m.TENSOR_F16, 0)
    if count == 2 and kind == m.TENSOR_BF16:
        return spread_fragment(place, words, first, 2, sides, m.TENSOR_BF16, 0)
    return spread_fragment(place, words, first, count, sides, kind, signed)


@compiled
def larger_half(pairs):
    """The larger of the two signed halves."""
    return V.max_s(V.sar(pairs, V.splat(16)), V.sar(pairs << V.splat(16), V.splat(16)))


@compiled
def largest_exponents(place, steps):
    """Of the products, for rows g and g + 8 with columns 2t and 2t + 1."""
    top = V.splat(T.ZERO_EXPONENT * 0x10001)
    t00, t01, t10, t11 = top, top, top, top
    for step in range(steps):
        a0, a1 = V.load(place, _A_PAIRS + 64 * step), V.load(place, _A_PAIRS + 64 * step + 32)
        b0, b1 = T.load_columns(place, _B_PAIRS + 8 * step), T.load_columns(place, _B_PAIRS + 8 * step + 4)
        t00, t01 = T.larger_pairs(t00, T.add_pairs(a0, b0)), T.larger_pairs(t01, T.add_pairs(a0, b1))
        t10, t11 = T.larger_pairs(t10, T.add_pairs(a1, b0)), T.larger_pairs(t11, T.add_pairs(a1, b1))
    return larger_half(t00), larger_half(t01), larger_half(t10), larger_half(t11)


@compiled
def cut(a, b, scale):
    """A product in units of the last place that counts, cut to an integer."""
    return T.f32_to_s32(a * b * scale)


@compiled
def cut_sums(place, steps, s00, s01, s10, s11):
    """Sums of the products, each scaled and cut."""
    zero = V.splat(0)
    r00, r01, r10, r11 = zero, zero, zero, zero
    for step in range(steps):
        a0, a1 = V.as_f32(V.load(place, 64 * step)), V.as_f32(V.load(place, 64 * step + 32))
        b0, b1 = V.as_f32(T.load_columns(place, _B + 8 * step)), V.as_f32(T.load_columns(place, _B + 8 * step + 4))
        r00, r01 = r00 + cut(a0, b0, s00), r01 + cut(a0, b1, s01)
        r10, r11 = r10 + cut(a1, b0, s10), r11 + cut(a1, b1, s11)
    return r00, r01, r10, r11


@compiled
def integer_sums(place, steps, c0, c1, c2, c3, saturate):
    """RESULTS: C plus sums of products of bytes, which are exact in single precision."""
    zero = V.splat_f32(0.0)
    r00, r01, r10, r11 = zero, zero, zero, zero
    for step in range(steps):
        a0, a1 = V.as_f32(V.load(place, 64 * step)), V.as_f32(V.load(place, 64 * step + 32))
        b0, b1 = V.as_f32(T.load_columns(place, _B + 8 * step)), V.as_f32(T.load_columns(place, _B + 8 * step + 4))
        r00, r01 = V.fma(a0, b0, r00), V.fma(a0, b1, r01)
        r10, r11 = V.fma(a1, b0, r10), V.fma(a1, b1, r11)
    r0, r1 = added(c0, T.f32_to_s32(r00), saturate), added(c1, T.f32_to_s32(r01), saturate)
    r2, r3 = added(c2, T.f32_to_s32(r10), saturate), added(c3, T.f32_to_s32(r11), saturate)
    put_rows(place, RESULTS, r0, r1, r2, r3, _ALL_LANES)


@compiled
def addend(word, upper, result_bits):
    """(value, exponent) of an element of C: an f32 or one half of a word. Where no f32 is needed to align products,
    the exponents of its zeros and denormal numbers need not be right."""
    if result_bits == 32:
        return V.as_f32(word), ((word << V.splat(1)) >> V.splat(24)) - V.splat(_F32_BIAS)
    bits = (word >> V.splat(16 * upper)) & V.splat(0xFFFF)
    size = bits & V.splat(0x7FFF)
    exponent = V.max_u(size >> V.splat(10), V.splat(1)) - V.splat(15)
    return V.half_to_f32(bits), V.select(V.equal(size, V.splat(0)), V.splat(T.ZERO_EXPONENT), exponent)


@compiled
def scale_of(top, places):
    """The factor that makes the last place that counts a one."""
    return V.as_f32((V.splat(_F32_BIAS + places) - top) << V.splat(23))


@compiled
def rounded(total, top, value, alone, places, result_bits):
    """Result bits from the cut sum; in the lanes of `alone`, where no product counts, from C."""
    negative = V.sar(total, V.splat(31))
    size = (total ^ negative) - negative
    surplus = V.max_s(V.splat(32 - _F32_DIGITS) - V.leading_zeros(size), V.splat(0))
    kept = (size >> surplus) << surplus
    number = V.as_u32(T.s32_to_f32(kept)) | (negative & V.splat(0x80000000))
    if result_bits == 16:
        number = number | V.mask_bits(~V.equal(kept, size))
    back = V.as_f32((top + V.splat(_F32_BIAS - places)) << V.splat(23))
    result = V.select(alone, value + V.splat_f32(0.0), V.as_f32(number) * back)
    if result_bits == 16:
        return V.f32_to_half(result)
    return V.as_u32(result) & V.splat(KEPT_8BIT) if places == PLACES_8BIT else V.as_u32(result)


@compiled
def finite_words(c0, c1, c2, c3, result_bits):
    """Return whether rows of C hold neither infinity nor NaN."""
    if result_bits == 32:
        most = V.max_u(V.max_u(c0 << V.splat(1), c1 << V.splat(1)), V.max_u(c2 << V.splat(1), c3 << V.splat(1)))
        return V.less_u(most, V.splat(0xFF000000)) == _ALL_LANES
    low, high = V.splat(0x7C00), V.splat(0x7C000000)
    wrong = V.equal(c0 & low, low) | V.equal(c0 & high, high) | V.equal(c2 & low, low) | V.equal(c2 & high, high)
    return wrong == NO_LANES


# many parameters: compiled code has no records
@compiled
def tile_products(place, words, kind, c0, c1, c2, c3, result_bits, sign):
    """RESULTS of C, finite, plus or (`sign` 1 << 31) minus the products of what `take` left in scratch, which is
    ordinary; four rows of singles or of halves in the low bits. False where that will not do: exponents are out of
    range or a sum is, which takes sixteen products of almost four times a power of two."""
    per = elements_per_word(kind)
    places = PLACES_8BIT if per == 4 else PLACES
    t0, t1, t2, t3 = largest_exponents(place, 4 * words * ((per + 1) // 2))
    put_rows(place, _TOPS, t0, t1, t2, t3, _ALL_LANES)
    put_rows(place, _ADDENDS, c0, c1, c2, c3, _ALL_LANES)
    wrong = NO_LANES
    for k in range(4):
        top = V.load(place, _TOPS + 32 * k)
        value, exponent = addend(V.load(place, _ADDENDS + 32 * k), k & 1, result_bits)
        none = V.less_s(top, V.splat(_NONE))
        wrong |= V.less_u(V.splat(_MOST - _LEAST), top - V.splat(_LEAST)) & ~none
        top = V.max_s(V.max_s(top, exponent), V.splat(_LEAST))
        scale = V.as_u32(scale_of(top, places))
        V.store(place, RESULTS + 32 * k, scale ^ V.splat(sign), _ALL_LANES)
        V.store(place, _ADDENDS + 32 * k, V.as_u32(value), _ALL_LANES)
        V.store(place, _TOPS + 32 * k, top, _ALL_LANES)
        place[_ALONE + k] = none
    if wrong != NO_LANES:
        return False
    s0, s1, s2, s3 = four_rows(place, RESULTS)
    r0, r1, r2, r3 = cut_sums(place, 4 * words * per, V.as_f32(s0), V.as_f32(s1), V.as_f32(s2), V.as_f32(s3))
    put_rows(place, RESULTS, r0, r1, r2, r3, _ALL_LANES)
    for k in range(4):
        top, value = V.load(place, _TOPS + 32 * k), V.as_f32(V.load(place, _ADDENDS + 32 * k))
        products, whole = V.load(place, RESULTS + 32 * k), T.f32_to_s32(value * scale_of(top, places))
        total = products + whole
        wrong |= V.less_s((products ^ total) & (whole ^ total), V.splat(0))
        bits = rounded(total, top, value, place[_ALONE + k], places, result_bits)
        V.store(place, RESULTS + 32 * k, bits, _ALL_LANES)
    return wrong == NO_LANES
