"""Products of matrix fragments, added up as the tensor cores of an H200 do it, bit for bit.

A sum is not a chain of rounded additions. All products of an instruction and the addend are aligned to the largest
exponent among them, cut (toward zero) at a fixed number of binary places below it, added exactly, and only the total is
rounded: to nearest for half-precision results, toward zero for single precision. Exponents are those of the factors
added, so a product may be as large as four times its power of two; zeros take no part. The structure is that of Fasi,
Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ Computer Science 7:e330, 2021), and Li
et al., "FTTN" (CCGrid 2024); 25 places, one sum over all of K, and 13 places for 8-bit floats, whose single-precision
results keep 13 bits of fraction, are what products of random matrices on an H200 show without an exception.
"""

import math

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import gather
from gpusim.engine.rows.float_bits import NO_LANES, round_to_f32
from gpusim.engine.rows.half_bits import from_half, odd_f32, to_half
from gpusim.engine.rows.narrow_bits import from_narrow
from gpusim.engine.state.jit import compiled
from isa import microops as m

PLACES = 25
PLACES_8BIT = 13
_ORIGIN = 256  # added to exponents, so that zero can stand for a number that takes no part
_F64_BIAS = 1023
_F64_FRACTION = 52
_F32_LIMIT = 2.0**128
KEPT_8BIT = 0xFFFFFC00  # sign, exponent and 13 bits of fraction
_INFINITY = 0x7F800000


@compiled
def a_lanes(t):
    """Lane that holds the elements number t of this lane's row of A."""
    return (V.lane_numbers() & V.splat(28)) + V.splat(t)


@compiled
def b_lanes(t, odd):
    """Lane that holds the elements number t of column 2t' or 2t' + 1 of B, for this lane's t'."""
    return ((V.lane_numbers() & V.splat(3)) << V.splat(3)) + V.splat(4 * odd + t)


@compiled
def elements_per_word(kind):
    """Elements of a fragment word; integers are bytes."""
    return 1 if kind == m.TENSOR_TF32 else 2 if kind == m.TENSOR_F16 or kind == m.TENSOR_BF16 else 4


@compiled
def bits_of_element(word, k, kind):
    """Element k of a fragment word in its low bits; a tf32 without the lower 13 bits, which do not count."""
    if kind == m.TENSOR_TF32:
        return word & V.splat(0xFFFFE000)
    if kind == m.TENSOR_E4M3 or kind == m.TENSOR_E5M2:
        return V.shr(word, V.splat(8 * k)) & V.splat(0xFF)
    return V.shr(word, V.splat(16 * k)) & V.splat(0xFFFF)


@compiled
def value_of(bits, kind):
    """An element's value as f64."""
    if kind == m.TENSOR_TF32:
        return V.to_f64(V.as_f32(bits))
    if kind == m.TENSOR_BF16:
        return V.to_f64(V.as_f32(bits << V.splat(16)))
    if kind == m.TENSOR_E4M3 or kind == m.TENSOR_E5M2:
        bits = from_narrow(bits, m.NARROW_E4M3 if kind == m.TENSOR_E4M3 else m.NARROW_E5M2)
    return V.to_f64(from_half(bits, m.HALF_F16, 0))


@compiled
def exponent_of(bits, kind):
    """An element's exponent plus _ORIGIN, 0 for a zero; that of denormal numbers is the smallest of the format."""
    if kind == m.TENSOR_TF32:
        field, bias, magnitude = V.shr(bits, V.splat(23)) & V.splat(255), 127, bits & V.splat(0x7FFFFFFF)
    elif kind == m.TENSOR_BF16:
        field, bias, magnitude = V.shr(bits, V.splat(7)) & V.splat(255), 127, bits & V.splat(0x7FFF)
    elif kind == m.TENSOR_E4M3:
        field, bias, magnitude = V.shr(bits, V.splat(3)) & V.splat(15), 7, bits & V.splat(0x7F)
    elif kind == m.TENSOR_E5M2:
        field, bias, magnitude = V.shr(bits, V.splat(2)) & V.splat(31), 15, bits & V.splat(0x7F)
    else:
        field, bias, magnitude = V.shr(bits, V.splat(10)) & V.splat(31), 15, bits & V.splat(0x7FFF)
    exponent = V.max_u(field, V.splat(1)) + V.splat(_ORIGIN - bias)
    return V.select(V.equal(magnitude, V.splat(0)), V.splat(0), exponent)


@compiled
def power_of_two(exponent):
    """2 to a row of exponents to which the bias of f64 has been added."""
    return V.as_f64(V.shl64(V.zero_extend(exponent), V.splat(_F64_FRACTION)))


@compiled
def finished(total, plain, top, places, result_bits):
    """Result words (halves in the low bits) from the aligned total, and from the plain sum where that is not finite."""
    exact = total * power_of_two(top + V.splat(_F64_BIAS - 2 * _ORIGIN - places))
    infinity = V.splat_f64(math.inf)
    finite = V.less_f64(plain, infinity) & V.less_f64(V.splat_f64(-math.inf), plain)
    value = V.select(finite, exact, plain)
    if result_bits == 16:
        return to_half(odd_f32(value, V.splat_f64(0.0)), m.HALF_F16)
    bits = round_to_f32(value, V.splat_f64(0.0), m.ROUND_ZERO)
    above = ~V.less_f64(value, V.splat_f64(_F32_LIMIT)) & finite
    below = ~V.less_f64(V.splat_f64(-_F32_LIMIT), value) & finite
    bits = V.select(above, V.splat(_INFINITY), V.select(below, V.splat(_INFINITY | 0x80000000), bits))
    if places == PLACES_8BIT:
        special = V.equal(bits & V.splat(_INFINITY), V.splat(_INFINITY))
        bits = V.select(special | NO_LANES, bits, bits & V.splat(KEPT_8BIT))
    return bits


@compiled
def addend(word, upper, result_bits):
    """(value, exponent) of an element of C: an f32 or one half of a word."""
    if result_bits == 32:
        magnitude = word & V.splat(0x7FFFFFFF)
        exponent = V.max_u(V.shr(magnitude, V.splat(23)), V.splat(1)) + V.splat(2 * _ORIGIN - 127)
        return V.to_f64(V.as_f32(word)), V.select(V.equal(magnitude, V.splat(0)), V.splat(0), exponent)
    bits = bits_of_element(word, upper, m.TENSOR_F16)
    exponent = exponent_of(bits, m.TENSOR_F16)
    shifted = V.select(V.equal(exponent, V.splat(0)), V.splat(0), exponent + V.splat(_ORIGIN))
    return value_of(bits, m.TENSOR_F16), shifted


@compiled
def met(b_rows, b, odd, sparse, chosen, j, kind):
    """(word of B, first bit in it) of the element that meets element j of A; `chosen`: metadata of the lane's row of A.

    Of a sparse A two of each four elements along K are kept, of each two tf32 one; two bits of metadata number them.
    """
    per = elements_per_word(kind)
    if sparse == 0:
        return gather(b_rows, b + 32 * (j // (4 * per)), b_lanes((j // per) & 3, odd)), V.splat(32 // per * (j % per))
    if per == 4:
        number = V.shr(chosen, V.splat(2 * (j & 15))) & V.splat(3)
        return gather(b_rows, b + 32 * (j >> 3), b_lanes((j >> 1) & 3, odd)), number << V.splat(3)
    if kind == m.TENSOR_TF32:
        position = V.splat(2 * (j & 1)) + (V.shr(chosen, V.splat(4 * j + 1)) & V.splat(1))
        return gather(b_rows, b + 32 * (j >> 1), b_lanes(0, odd) + position), V.splat(0)
    number = V.shr(chosen, V.splat(2 * j)) & V.splat(3)
    group = j >> 1
    position = V.splat(2 * (group & 1)) + V.shr(number, V.splat(1))
    return gather(b_rows, b + 32 * (group >> 1), b_lanes(0, odd) + position), (number & V.splat(1)) << V.splat(4)


# many parameters: two fragments with their places, an addend and the result's form; compiled code has no records
@compiled
def fused_sum(a_rows, a, b_rows, b, odd, words, kinds, c_word, upper, result_bits, sign, sparse, chosen, more):
    """An element of C in every lane plus the products of a row of A and a column of B.

    a_rows[a + 64 * word], b_rows[b + 32 * word]: fragment words; words: of A; kinds: TENSOR_* of A | of B << 8; odd:
    which of the lane's two columns; sign: 1.0 or -1.0, which multiplies the products. sparse: whether only half of A is
    there; `chosen` then says which half, a word for each lane's row, `more` for elements from number 16 on.
    """
    kind, b_kind = kinds & 255, kinds >> 8
    per = elements_per_word(kind)
    places = PLACES_8BIT if per == 4 else PLACES
    plain, top = addend(c_word, upper, result_bits)
    for j in range(4 * per * words):
        a_word = gather(a_rows, a + 64 * (j // (4 * per)), a_lanes((j // per) & 3))
        b_word, shift = met(b_rows, b, odd, sparse, chosen if j < 16 else more, j, kind)
        a_bits, b_bits = bits_of_element(a_word, j % per, kind), bits_of_element(V.shr(b_word, shift), 0, b_kind)
        a_exponent, b_exponent = exponent_of(a_bits, kind), exponent_of(b_bits, b_kind)
        nothing = V.equal(a_exponent, V.splat(0)) | V.equal(b_exponent, V.splat(0))
        top = V.max_u(top, V.select(nothing, V.splat(0), a_exponent + b_exponent))
    scale = power_of_two(V.splat(_F64_BIAS + 2 * _ORIGIN + places) - top)  # makes the last place that counts a one
    total = V.splat_f64(0.0) + V.truncate(plain * scale)
    for j in range(4 * per * words):
        a_word = gather(a_rows, a + 64 * (j // (4 * per)), a_lanes((j // per) & 3))
        b_word, shift = met(b_rows, b, odd, sparse, chosen if j < 16 else more, j, kind)
        a_bits, b_bits = bits_of_element(a_word, j % per, kind), bits_of_element(V.shr(b_word, shift), 0, b_kind)
        product = value_of(a_bits, kind) * V.splat_f64(sign) * value_of(b_bits, b_kind)
        plain = plain + product
        total = total + V.truncate(product * scale)
    return finished(total, plain, top, places, result_bits)


@compiled
def metadata(regs, rows, selector, lower, narrow):
    """Metadata words of rows g (`lower` 0) or g + 8: 16-bit pieces of one lane (`narrow`) or of two (PTX manual)."""
    lanes = V.lane_numbers() & V.splat(28)
    if narrow:
        return V.shr(gather(regs, rows, lanes + V.splat(selector)), V.splat(16 * lower)) & V.splat(0xFFFF)
    first = V.shr(gather(regs, rows, lanes + V.splat(2 * selector)), V.splat(16 * lower)) & V.splat(0xFFFF)
    second = V.shr(gather(regs, rows, lanes + V.splat(2 * selector + 1)), V.splat(16 * lower)) & V.splat(0xFFFF)
    return first | (second << V.splat(16))
