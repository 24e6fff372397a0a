"""Operations on the bytes and half words inside each lane: PRMT, IDP, I2IP, video and packed 16-bit instructions."""

import numpy as np

from gpusim.engine.rows import lanes as V
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
def permute_bytes(a, selector, c, mode):
    """PRMT: four bytes chosen from the eight of (c:a), each by a nibble, its number (bit 3: copy its sign); PTX
    manual, prmt."""
    if mode != m.PRMT_IDX:
        number = selector & V.splat(3)
        lower = V.select(V.equal(number, V.splat(0)), V.splat(_SELECTORS[mode, 0]), V.splat(_SELECTORS[mode, 1]))
        upper = V.select(V.equal(number, V.splat(2)), V.splat(_SELECTORS[mode, 2]), V.splat(_SELECTORS[mode, 3]))
        selector = V.select(V.less_u(number, V.splat(2)), lower, upper)
    result = V.splat(0)
    for k in range(4):
        nibble = V.shr(selector, V.splat(4 * k))
        word = V.select(V.equal(nibble & V.splat(4), V.splat(0)), a, c)
        byte = (word >> ((nibble & V.splat(3)) << V.splat(3))) & V.splat(255)
        copied = V.select(V.less_u(byte, V.splat(128)), V.splat(0), V.splat(255))
        result = result | (V.select(V.equal(nibble & V.splat(8), V.splat(0)), byte, copied) << V.splat(8 * k))
    return result


@compiled
def part(row, k, bits, signed):
    """Element k of a row of packed `bits`-bit integers, extended to 32 bits."""
    row = V.shl(row, V.splat(32 - bits * (k + 1)))
    return V.sar(row, V.splat(32 - bits)) if signed != 0 else V.shr(row, V.splat(32 - bits))


@compiled
def dot_packed(a, b, bits, signs):
    """Dot product of packed `bits`-bit integers; bit 0 of `signs`: a is signed, bit 1: b is."""
    total = V.splat(0)
    for k in range(32 // bits):
        total = total + part(a, k, bits, signs & 1) * part(b, k, bits, signs & 2)
    return total


@compiled
def saturate(a, bits, signed):
    """Signed a limited to what a signed or unsigned integer of `bits` bits can hold."""
    if signed != 0:
        limit = (1 << (bits - 1)) - 1
        return V.min_s(V.max_s(a, V.splat(-limit - 1)), V.splat(limit))
    return V.min_s(V.max_s(a, V.splat(0)), V.splat((1 << bits) - 1))


@compiled
def pack(a, b, c, bits):
    """I2IP: c << 2 * bits | a << bits | b (PTX manual, cvt.pack)."""
    element = V.splat((1 << bits) - 1)
    packed = ((a & element) << V.splat(bits)) | (b & element)
    return V.shl(c, V.splat(2 * bits)) | packed


@compiled
def byte_differences(a, b, c, signed, accumulate):
    """VABSDIFF4: absolute differences of four bytes, packed, or with .ACC their sum plus c."""
    packed = V.splat(0)
    total = c
    for k in range(4):
        x = part(a, k, 8, signed)
        y = part(b, k, 8, signed)
        difference = V.select(V.less_s(x, y), y - x, x - y)
        packed = packed | (difference << V.splat(8 * k))
        total = total + difference
    return total if accumulate != 0 else packed


@compiled
def add_packed(a, b, bits, signs):
    """Sums of packed `bits`-bit integers, each wrapping; bit 0 of `signs`: of -a, bit 1: of -b."""
    result = V.splat(0)
    for k in range(32 // bits):
        x, y = part(a, k, bits, 0), part(b, k, bits, 0)
        total = (V.splat(0) - x if signs & 1 else x) + (V.splat(0) - y if signs & 2 else y)
        result = result | ((total & V.splat((1 << bits) - 1)) << V.splat(bits * k))
    return result


@compiled
def mnmx_packed(a, b, bits, smaller, signed):
    """Minima of packed `bits`-bit integers in the lanes of `smaller`, maxima in the others."""
    result = V.splat(0)
    for k in range(32 // bits):
        x, y = part(a, k, bits, signed), part(b, k, bits, signed)
        chosen = V.select(smaller, V.min_s(x, y), V.max_s(x, y)) & V.splat((1 << bits) - 1)
        result = result | (chosen << V.splat(bits * k))
    return result
