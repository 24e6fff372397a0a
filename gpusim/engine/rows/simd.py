"""Operations on the bytes and half words inside each lane: PRMT, IDP, I2IP, video and packed 16-bit instructions."""

import numpy as np

from gpusim.engine.rows.lanes import (
    equal,
    less_s,
    less_u,
    max_s,
    min_s,
    sar,
    select,
    shl,
    shr,
    splat,
)
from gpusim.engine.state.jit import compiled
from isa import microops as m

# By mode PRMT_* and the selector's low two bits; mode 0 takes its nibbles from the selector itself.
_SELECTORS = np.array(
    [
        [0x0000, 0x0000, 0x0000, 0x0000],
        [0x3210, 0x4321, 0x5432, 0x6543],
        [0x5670, 0x6701, 0x7012, 0x0123],
        [0x0000, 0x1111, 0x2222, 0x3333],
        [0x3210, 0x3211, 0x3222, 0x3333],
        [0x0000, 0x1110, 0x2210, 0x3210],
        [0x1010, 0x3232, 0x1010, 0x3232],
    ],
    np.uint32,
)


@compiled
def full_selector(selector, mode):
    """Four nibbles, one per byte of the result: the byte number (bit 3: copy its sign); PTX manual, prmt."""
    if mode == m.PRMT_IDX:
        return selector
    number = selector & splat(3)
    lower = select(equal(number, splat(0)), splat(_SELECTORS[mode, 0]), splat(_SELECTORS[mode, 1]))
    upper = select(equal(number, splat(2)), splat(_SELECTORS[mode, 2]), splat(_SELECTORS[mode, 3]))
    return select(less_u(number, splat(2)), lower, upper)


@compiled
def permute_bytes(a, selector, c, mode):
    """PRMT: four bytes chosen from the eight of (c:a)."""
    selector = full_selector(selector, mode)
    result = splat(0)
    for k in range(4):
        nibble = shr(selector, splat(4 * k))
        word = select(equal(nibble & splat(4), splat(0)), a, c)
        byte = (word >> ((nibble & splat(3)) << splat(3))) & splat(255)
        copied = select(less_u(byte, splat(128)), splat(0), splat(255))
        result = result | (select(equal(nibble & splat(8), splat(0)), byte, copied) << splat(8 * k))
    return result


@compiled
def part(row, k, bits, signed):
    """Element k of a row of packed `bits`-bit integers, extended to 32 bits."""
    row = shl(row, splat(32 - bits * (k + 1)))
    return sar(row, splat(32 - bits)) if signed != 0 else shr(row, splat(32 - bits))


@compiled
def dot_4a(a, b, signs):
    """Dot product of four bytes; bit 0 of `signs`: a is signed, bit 1: b is."""
    total = splat(0)
    for k in range(4):
        total = total + part(a, k, 8, signs & 1) * part(b, k, 8, signs & 2)
    return total


@compiled
def dot_2a(a, b, signs, upper):
    """Dot product of a's two half words with two bytes of b, the upper ones if `upper`."""
    first = 2 if upper != 0 else 0
    total = part(a, 0, 16, signs & 1) * part(b, first, 8, signs & 2)
    return total + part(a, 1, 16, signs & 1) * part(b, first + 1, 8, signs & 2)


@compiled
def saturate(a, bits, signed):
    """Signed a limited to what a signed or unsigned integer of `bits` bits can hold."""
    if signed != 0:
        limit = (1 << (bits - 1)) - 1
        return min_s(max_s(a, splat(-limit - 1)), splat(limit))
    return min_s(max_s(a, splat(0)), splat((1 << bits) - 1))


@compiled
def pack(a, b, c, bits):
    """I2IP: c << 2 * bits | a << bits | b (PTX manual, cvt.pack)."""
    element = splat((1 << bits) - 1)
    packed = ((a & element) << splat(bits)) | (b & element)
    return shl(c, splat(2 * bits)) | packed


@compiled
def byte_differences(a, b, c, signed, accumulate):
    """VABSDIFF4: absolute differences of four bytes, packed, or with .ACC their sum plus c."""
    packed = splat(0)
    total = c
    for k in range(4):
        x = part(a, k, 8, signed)
        y = part(b, k, 8, signed)
        difference = select(less_s(x, y), y - x, x - y)
        packed = packed | (difference << splat(8 * k))
        total = total + difference
    return total if accumulate != 0 else packed


@compiled
def halves(low_half, high_half):
    return (low_half & splat(0xFFFF)) | (high_half << splat(16))


@compiled
def add_16x2(a, b):
    """Two 16-bit additions, each wrapping."""
    return halves(a + b, shr(a, splat(16)) + shr(b, splat(16)))


@compiled
def negated_halves(a):
    """Two's complement of each 16-bit half."""
    return halves(splat(0) - a, splat(0) - shr(a, splat(16)))


@compiled
def mnmx_16x2(a, b, smaller, signed):
    """Two 16-bit minima in the lanes of `smaller`, maxima in the others."""
    a0, b0 = part(a, 0, 16, signed), part(b, 0, 16, signed)
    a1, b1 = part(a, 1, 16, signed), part(b, 1, 16, signed)
    least = halves(min_s(a0, b0), min_s(a1, b1))
    return select(smaller, least, halves(max_s(a0, b0), max_s(a1, b1)))


@compiled
def add_8x4(a, b):
    """Four 8-bit additions, each wrapping."""
    result = splat(0)
    for k in range(4):
        result = result | (((shr(a, splat(8 * k)) + shr(b, splat(8 * k))) & splat(0xFF)) << splat(8 * k))
    return result


@compiled
def negated_bytes(a):
    """Two's complement of each byte."""
    return add_8x4(a ^ splat(0xFFFFFFFF), splat(0x01010101))


@compiled
def mnmx_8x4(a, b, smaller, signed):
    """Four 8-bit minima in the lanes of `smaller`, maxima in the others."""
    result = splat(0)
    for k in range(4):
        x, y = part(a, k, 8, signed), part(b, k, 8, signed)
        chosen = select(smaller, min_s(x, y), max_s(x, y)) & splat(0xFF)
        result = result | (chosen << splat(8 * k))
    return result


@compiled
def add_saturated(a, b):
    """Signed sum, limited to 32 bits: it overflowed if both addends have the sign that the sum has not."""
    total = a + b
    overflowed = less_s((a ^ total) & (b ^ total), splat(0))
    return select(overflowed, sar(total, splat(31)) ^ splat(0x80000000), total)
