"""Operands of a product in shared memory: where a descriptor says that an element lies, and what its bits mean.

A descriptor of 64 bits (PTX ISA, tcgen05 shared memory descriptor) has the start of a matrix (bits 0 to 13) and two
distances between its pieces (16 to 29 `leading`, 32 to 45 `stride`), in units of 16 bytes; the place of its start in
the pattern of the swizzle (49 to 51), and the swizzle (61 to 63): 0 none, 2, 4, 6 lines of 128, 64, 32 bytes whose
pieces of 16 bytes are exchanged, 1 lines of 128 bytes with pieces of 32.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from gpusim.engine.rows import lanes as V
from gpusim.engine.state import P, compiled

F16, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1, U8, S8 = range(10)
EXPONENTS = np.array((5, 8, 8, 4, 5, 2, 3, 2, 0, 0), np.int64)
FRACTIONS = np.array((10, 7, 10, 3, 2, 3, 2, 1, 8, 8), np.int64)
NONE = -(1 << 20)  # stands for the exponent of a zero
ABSENT = 2 * NONE  # of an element that a structured sparse matrix has not
UNIT = 16
_F64_BIAS, _F64_FRACTION = 1023, 52


@compiled
def bits_of(form):
    """Bits of an element; TF32 lies in 32, of which the last 13 do not count."""
    return 32 if form == TF32 else 16 if form <= BF16 else 8 if form <= E5M2 or form >= U8 else 6 if form < E2M1 else 4


@compiled
def line_bytes(swizzle):
    """Bytes that lie together of a row of the matrix."""
    return UNIT if swizzle == 0 else 32 if swizzle == 6 else 64 if swizzle == 4 else 128


@compiled
def swizzled(at, descriptor):
    """Return where a byte really lies: bits of its line's number in the pattern are added to those of its piece."""
    swizzle = (descriptor >> 61) & 7
    line = (at >> 7) - ((descriptor >> 49) & 7)
    if swizzle == 1:
        return at ^ ((line & 3) << 5)
    return at ^ ((line & (line_bytes(swizzle) // UNIT - 1)) << 4)


@compiled
def distances(descriptor):
    """(Start, leading, stride) in bytes."""
    field = 0x3FFF
    return (descriptor & field) * UNIT, ((descriptor >> 16) & field) * UNIT, ((descriptor >> 32) & field) * UNIT


@compiled
def in_block(st, slot, at, size):
    """A byte of its SM's shared memory, -1 if it is not the block's."""
    return slot * st.par[P.SHARED_STRIDE] + at if 0 <= at <= st.par[P.SHARED_BYTES] - size else np.int64(-1)


@compiled
def chunk_at(st, slot, descriptor, row, piece):
    """Byte of the SM's shared memory of 16 bytes along K, `piece` of them from the start, of a row of a K-major matrix;
    -1 if they do not lie in the block's."""
    start, leading, stride = distances(descriptor)
    line = line_bytes((descriptor >> 61) & 7)
    at = start + (row // 8) * stride + row % 8 * line + piece * (leading if line == UNIT else UNIT)
    return in_block(st, slot, swizzled(at, descriptor), UNIT)


@compiled
def across_at(st, slot, descriptor, row, k, size):
    """The byte of an element of `size` bytes of an MN-major matrix, else as `chunk_at`."""
    start, leading, stride = distances(descriptor)
    swizzle = (descriptor >> 61) & 7
    line, rows = line_bytes(swizzle), 4 if swizzle == 1 else 8
    at = row * size
    if line == UNIT:
        leading, stride = stride, leading
    start += at // line * leading + at % line + k % rows * line + k // rows * stride
    return in_block(st, slot, swizzled(start, descriptor), size)


# many parameters: whose memory, the matrix, and the element; compiled code has no records
@compiled
def shared_bits(st, sm, slot, descriptor, row, k, form, across, packed):
    """Bits of an element in shared memory, -1 if it is not the block's. Sixteen elements of 6 or 4 bits have a piece of
    16 bytes, unless they are `packed`: then twice as many of 4 bits have."""
    bits, container = bits_of(form), 4 if packed else max(bits_of(form), 8)
    if across:
        at, inner = across_at(st, slot, descriptor, row, k, np.int64(bits >> 3)), np.int64(0)
    else:
        at = chunk_at(st, slot, descriptor, row, (k * container) >> 7)
        inner = k % (128 // container) * bits
    if at < 0:
        return np.int64(-1)
    bit = (at & 3) * 8 + inner
    word, first = (at >> 2) + (bit >> 5), bit & 31
    value = np.int64(st.shared32[sm, word])
    if first + bits > 32:
        value |= np.int64(st.shared32[sm, word + 1]) << 32
    return (value >> first) & ((np.int64(1) << bits) - 1)


@compiled
def cell_bits(cell, k, form, packed):
    """Bits of element k in the 32-bit cells of A in tensor memory, of which `cell` is its own: 6 and 4 bits lie in a
    byte, with two zeros above and those of 4 bits with two zeros below, unless they are `packed`."""
    bits = bits_of(form)
    container = 4 if packed else max(bits, 8)
    shift = k % (32 // container) * container + (2 if bits == 4 and not packed else 0)
    return V.shr(cell, V.splat(shift)) & V.splat((1 << bits) - 1 if bits < 32 else 0xFFFFFFFF)


@compiled
def power_of_two(exponent):
    """2 to a row of exponents, as f64."""
    return V.as_f64(V.shl64(V.sign_extend(exponent + V.splat(_F64_BIAS)), V.splat(_F64_FRACTION)))


@compiled
def decoded(bits, form):
    """(Values as f64, exponents by which products are aligned, lanes that are infinite or no number) of elements. That
    of a denormal number is the smallest of its format, that of zero NONE; integers have none."""
    if form >= U8:
        value = V.sar(bits << V.splat(24), V.splat(24)) if form == S8 else bits
        return V.s64_to_f64(V.sign_extend(value)), V.splat(0), np.uint32(0)
    if form == TF32:
        bits = V.shr(bits, V.splat(13))
    exponents, fractions = EXPONENTS[form], FRACTIONS[form]
    bias, top = (1 << (exponents - 1)) - 1, (1 << exponents) - 1
    field = V.shr(bits, V.splat(fractions)) & V.splat(top)
    fraction = bits & V.splat((1 << fractions) - 1)
    normal = ~V.equal(field, V.splat(0))
    exponent = V.max_u(field, V.splat(1)) - V.splat(bias)
    size = fraction | (V.mask_bits(normal) << V.splat(fractions))
    value = V.s64_to_f64(V.zero_extend(size)) * power_of_two(exponent - V.splat(fractions))
    special = V.equal(field, V.splat(top))
    if form == E4M3:
        special &= V.equal(fraction, V.splat(7))
    elif form > E5M2:
        special = np.uint32(0)
    if special != np.uint32(0):
        nan = special & ~V.equal(fraction, V.splat(0))
        value = V.select(special, V.splat_f64(np.inf), value)
        value = V.select(nan, V.splat_f64(np.nan), value)
    sign = V.shl64(V.zero_extend(V.shr(bits, V.splat(exponents + fractions)) & V.splat(1)), V.splat(63))
    exponent = V.select(V.equal(size, V.splat(0)), V.splat(NONE), exponent)
    return V.as_f64(V.as_u64(value) | sign), exponent, special


@compiled
def scale_of(byte, form):
    """(Value as f64, exponent) of scales: `form` 0 UE8M0, a power of two or no number; 1 UE4M3, E4M3 without sign."""
    if form:
        value, exponent, _ = decoded(byte & V.splat(0x7F), E4M3)
        return value, exponent
    exponent = byte - V.splat(127)
    value = V.select(V.equal(byte, V.splat(0xFF)), V.splat_f64(np.nan), power_of_two(exponent))
    return value, exponent


@intrinsic
def spread(typing: Any, place: Any, offset: Any) -> Any:
    """The f64 row whose lanes all hold the double at a word of an array of words."""

    def generate(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        first = V.pointer(context, builder, sig.args, values, ir.DoubleType(), 1)
        undefined = ir.Constant(ir.VectorType(ir.DoubleType(), V.LANES), ir.Undefined)
        one = builder.insert_element(undefined, builder.load(first, align=8), ir.IntType(32)(0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), V.LANES), [0] * V.LANES)
        return builder.shuffle_vector(one, undefined, order)

    return V.f64(place, offset), generate
