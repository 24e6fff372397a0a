"""Products of 16 rows of A and eight columns of B of ordinary numbers, to the same bits as `tensor_sum` and faster.

Both fragments are spread out in scratch memory (`tensor_lanes`) once, as single-precision numbers and as exponents.
Products of two elements are exact in single precision, if none is beyond its range: NaN, infinity and, where the type
has eight bits of exponent, numbers that are very large or small are left to `tensor_sum`. A product aligned and cut is
a 32-bit integer, and a sum of sixteen is one too: with 25 places each is below 2**27 - 2**17.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows import tensor_lanes as T
from gpusim.engine.rows.simd import part
from gpusim.engine.rows.tensor_sum import PLACES, PLACES_8BIT, power_of_two, value_of
from gpusim.engine.state.jit import compiled
from isa import microops as m

_STEPS = 32  # of 8-bit elements; of other ones fewer
_PAIR_STEPS = 16
_A_PAIRS = 64 * _STEPS
_B = _A_PAIRS + 64 * _PAIR_STEPS
_B_PAIRS = _B + 8 * _STEPS
RESULTS = _B  # four rows of results may lie here when B is not wanted any more
room = T.scratch(_B_PAIRS + 8 * _PAIR_STEPS)
_LEAST, _MOST = -50, 60  # exponents of elements whose products and their scales are single-precision numbers
_LIMITS = (_LEAST & 255 | _MOST << 8) * 0x10001
_BITS = 0x7F800000
_F32_BIAS = 127
_F64_BIAS = 1023
_LOST = (1 << 29) - 1  # the bits of a double's fraction that a single has not


@compiled
def per_word(kind):
    """Elements of a fragment word; integers are bytes."""
    return 1 if kind == m.TENSOR_TF32 else 2 if kind == m.TENSOR_F16 or kind == m.TENSOR_BF16 else 4


@compiled
def pairs_of(word, k, kind):
    """Exponents of half the elements of a word, or (8-bit types) of a quarter (`k` 0 or 1), two in each lane."""
    if kind == m.TENSOR_TF32:
        size = word & V.splat(0x7FFFE000)
        exponent = (V.shr(size, V.splat(23)) - V.splat(_F32_BIAS)) & V.splat(0xFFFF)
        size = V.select(V.equal(size, V.splat(0)), V.splat(0), V.splat(1))  # and nothing in the upper half
        return T.without_zeros(T.in_range(exponent, V.splat(_LIMITS)), size)
    if kind == m.TENSOR_F16 or kind == m.TENSOR_BF16:
        size = word & V.splat(0x7FFF7FFF)
        if kind == m.TENSOR_BF16:
            field, bias, limits = V.shr(size, V.splat(7)) & V.splat(0xFF00FF), 127, _LIMITS
        else:
            field, bias, limits = V.shr(size, V.splat(10)) & V.splat(0x1F001F), 15, 0x0FF10FF1
    else:
        size = V.shr(word, V.splat(8 * k)) & V.splat(0x7F007F)
        if kind == m.TENSOR_E5M2:
            field, bias, limits = V.shr(size, V.splat(2)) & V.splat(0x1F001F), 15, 0x0FF10FF1
        else:
            nan = V.shr(size + V.splat(0x10001), V.splat(7)) & V.splat(0x10001)
            field, bias, limits = (V.shr(size, V.splat(3)) & V.splat(0xF000F)) + nan, 7, 0x08F908F9
    exponent = T.add_pairs(T.larger_pairs(field, V.splat(0x10001)), V.splat((-bias & 0xFFFF) * 0x10001))
    return T.without_zeros(T.in_range(exponent, V.splat(limits)), size)


@compiled
def number_of(word, k, kind, signed):
    """Element k of a word in single precision; `signed`: of integers."""
    if kind == m.TENSOR_F16:
        return V.half_to_f32(V.shr(word, V.splat(16 * k)))
    if kind == m.TENSOR_BF16:
        return V.as_f32(V.shr(word, V.splat(16 * k)) << V.splat(16))
    if kind == m.TENSOR_TF32:
        return V.as_f32(word & V.splat(0xFFFFE000))
    if kind == m.TENSOR_INTEGER:
        return T.s32_to_f32(part(word, k, 8, signed))
    return V.to_f32(value_of(V.shr(word, V.splat(8 * k)) & V.splat(0xFF), kind))


@compiled
def ordinary(seen):
    """Whether no exponent among the larger ones `seen` is out of range."""
    wrong = seen & (V.shr(seen, V.splat(1)) ^ V.splat(0xFFFFFFFF))
    return V.equal(wrong & V.splat(0x40004000), V.splat(0)) == np.uint32(0xFFFFFFFF)


@compiled
def take_a(place, words, a, count, kind, signed):
    """Spread out `count` words (a lane) of sixteen rows; words[a + 64 * word + 32 * half]. Whether all are ordinary."""
    per, seen = per_word(kind), V.splat(T.ZERO_EXPONENT)
    pairs = (per + 1) // 2
    for number in range(2 * count):
        word, half = number >> 1, number & 1
        row = V.load(words, a + 32 * number)
        for k in range(per):
            at = 64 * 4 * (word * per + k) + 32 * half
            T.spread_rows(place, at, V.as_u32(number_of(row, k, kind, signed)))
        if kind != m.TENSOR_INTEGER:
            for k in range(pairs):
                exponents = pairs_of(row, k, kind)
                seen = T.larger_pairs(seen, exponents)
                T.spread_rows(place, _A_PAIRS + 64 * 4 * (word * pairs + k) + 32 * half, exponents)
    return ordinary(seen)


@compiled
def take_b(place, words, b, count, kind, signed):
    """Spread out `count` words of eight columns; words[b + 32 * word]. Whether all are ordinary."""
    per, seen = per_word(kind), V.splat(T.ZERO_EXPONENT)
    pairs = (per + 1) // 2
    for word in range(count):
        row = V.load(words, b + 32 * word)
        for k in range(per):
            T.spread_columns(place, _B + 32 * (word * per + k), V.as_u32(number_of(row, k, kind, signed)))
        if kind != m.TENSOR_INTEGER:
            for k in range(pairs):
                exponents = pairs_of(row, k, kind)
                seen = T.larger_pairs(seen, exponents)
                T.spread_columns(place, _B_PAIRS + 32 * (word * pairs + k), exponents)
    return ordinary(seen)


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
def integer_sums(place, steps):
    """Sums of products of bytes, which are exact in single precision."""
    zero = V.splat_f32(0.0)
    r00, r01, r10, r11 = zero, zero, zero, zero
    for step in range(steps):
        a0, a1 = V.as_f32(V.load(place, 64 * step)), V.as_f32(V.load(place, 64 * step + 32))
        b0, b1 = V.as_f32(T.load_columns(place, _B + 8 * step)), V.as_f32(T.load_columns(place, _B + 8 * step + 4))
        r00, r01 = V.fma32(a0, b0, r00), V.fma32(a0, b1, r01)
        r10, r11 = V.fma32(a1, b0, r10), V.fma32(a1, b1, r11)
    return T.f32_to_s32(r00), T.f32_to_s32(r01), T.f32_to_s32(r10), T.f32_to_s32(r11)


@compiled
def addend(word, upper, result_bits):
    """(value, exponent) of an element of C: an f32 or one half of a word."""
    bits, shift, bias = word, 23, _F32_BIAS
    if result_bits == 16:
        bits, shift, bias = V.shr(word, V.splat(16 * upper)) & V.splat(0xFFFF), 10, 15
    size = bits & V.splat(0x7FFFFFFF if result_bits == 32 else 0x7FFF)
    exponent = V.max_u(V.shr(size, V.splat(shift)), V.splat(1)) - V.splat(bias)
    exponent = V.select(V.equal(size, V.splat(0)), V.splat(T.ZERO_EXPONENT), exponent)
    return V.half_to_f32(bits) if result_bits == 16 else V.as_f32(bits), exponent


@compiled
def scale_of(top, places, sign):
    """What makes the last place that counts of a product a one; 0 or 1 << 31 in `sign` changes the product's."""
    kept = V.max_s(top, V.splat(2 * _LEAST))
    return V.as_f32(((V.splat(_F32_BIAS + places) - kept) << V.splat(23)) | V.splat(sign))


@compiled
def rounded(products, value, top, places, result_bits):
    """Result bits from the cut products, C and the largest exponent. All sums are whole numbers of the last place, of
    which single precision can do without none but where fractions have more than 24 bits."""
    top = V.max_s(top, V.splat(-_F32_BIAS - PLACES))
    scale = power_of_two(V.splat(_F64_BIAS + places) - top)
    total = T.s32_to_f64(products) + V.truncate64(V.to_f64(value) * scale)
    bits = V.as_u64(total * power_of_two(V.splat(_F64_BIAS - places) + top))
    short = V.as_u32(V.to_f32(V.as_f64(bits & V.splat64(~_LOST))))
    if result_bits == 16:
        odd = ~V.equal64(bits & V.splat64(_LOST), V.splat64(0))
        return V.f32_to_half(V.as_f32(short | V.mask_bits(odd)))
    return short & V.splat(0xFFFFFC00) if places == PLACES_8BIT else short


@compiled
def finite_words(words, result_bits):
    """Whether a row of C holds neither infinity nor NaN."""
    if result_bits == 32:
        return V.equal(words & V.splat(_BITS), V.splat(_BITS)) == 0
    low, high = V.splat(0x7C00), V.splat(0x7C000000)
    return V.equal(words & low, low) | V.equal(words & high, high) == 0


# many parameters: compiled code has no records
@compiled
def tile_products(place, words, kind, c0, c1, c2, c3, result_bits, sign):
    """Rows of C (finite) plus the products of what `take_a` and `take_b` left in scratch, which are ordinary; four
    rows of singles or of halves in the low bits."""
    per = per_word(kind)
    places = PLACES_8BIT if per == 4 else PLACES
    v0, e0 = addend(c0, 0, result_bits)
    v1, e1 = addend(c1, 1, result_bits)
    v2, e2 = addend(c2, 0, result_bits)
    v3, e3 = addend(c3, 1, result_bits)
    t0, t1, t2, t3 = largest_exponents(place, 4 * words * ((per + 1) // 2))
    t0, t1, t2, t3 = V.max_s(t0, e0), V.max_s(t1, e1), V.max_s(t2, e2), V.max_s(t3, e3)
    s0, s1 = scale_of(t0, places, sign), scale_of(t1, places, sign)
    s2, s3 = scale_of(t2, places, sign), scale_of(t3, places, sign)
    r0, r1, r2, r3 = cut_sums(place, 4 * words * per, s0, s1, s2, s3)
    return (
        rounded(r0, v0, t0, places, result_bits),
        rounded(r1, v1, t1, places, result_bits),
        rounded(r2, v2, t2, places, result_bits),
        rounded(r3, v3, t3, places, result_bits),
    )


@compiled
def four_results(place):
    """What was put at RESULTS."""
    at = RESULTS
    return V.load(place, at), V.load(place, at + 32), V.load(place, at + 64), V.load(place, at + 96)
