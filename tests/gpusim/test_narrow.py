"""Packing and unpacking of 8-bit floats, TF32 and halves against exact rational arithmetic; halves of atomics too."""

from fractions import Fraction

import numpy as np
import pytest

from gpusim.engine.rows.convert import exec_convert
from gpusim.engine.rows.scalar_half import combine_half, half_bits, half_value
from isa import microops as m
from tests.gpusim.rows import LANES, Warp

E4M3, E5M2 = (4, 3, 7), (5, 2, 15)  # bits of exponent and of mantissa, bias


def narrow_value(byte: int, form: tuple[int, int, int]) -> Fraction | None:
    """Value of an 8-bit float; None for infinities and NaN (arXiv 2209.05433, table 1)."""
    exponent_bits, mantissa_bits, bias = form
    exponent, mantissa = byte >> mantissa_bits & (1 << exponent_bits) - 1, byte & (1 << mantissa_bits) - 1
    if (byte & 0x7F == 0x7F) if form == E4M3 else exponent == 31:
        return None
    size = Fraction(mantissa, 1 << mantissa_bits) + (exponent > 0)
    return (-1 if byte & 0x80 else 1) * size * Fraction(2) ** (max(exponent, 1) - bias)


def nearest_narrow(value: np.float32, form: tuple[int, int, int]) -> int:
    """Nearest finite 8-bit float, ties to the even one; NaN is 0x7f."""
    if np.isnan(value):
        return 0x7F
    finite = [byte for byte in range(0x80) if narrow_value(byte, form) is not None]
    sign = 0x80 if np.signbit(value) else 0
    if np.isinf(value):
        return sign | finite[-1]
    size = abs(Fraction(float(value)))
    return sign | min(finite, key=lambda byte: (abs(narrow_value(byte, form) - size), byte & 1))


def floats(rng: np.random.Generator) -> np.ndarray:
    """Numbers around the 8-bit range, values halfway between two results, and special ones."""
    plain = (rng.standard_normal(LANES) * 2.0 ** rng.integers(-18, 18, LANES)).astype(np.float32)
    halfway = np.float32(2.0) ** rng.integers(-16, 9, LANES) * (
        1 + rng.integers(0, 32, LANES) / np.float32(16)
    )
    special = rng.choice(
        np.float32([0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 57344, 61440, 1e30, 1e-30]), LANES
    )
    return np.select([rng.random(LANES) < 0.4, rng.random(LANES) < 0.6], [plain, halfway], special).astype(
        np.float32
    )


@pytest.mark.parametrize("kind, form", [(m.NARROW_E4M3, E4M3), (m.NARROW_E5M2, E5M2)])
def test_packing_rounds_to_the_nearest_even(kind, form):
    rng = np.random.default_rng(3)
    for _ in range(8):
        a, b = floats(rng), floats(rng)
        got = Warp().execute(
            exec_convert, m.OP_F2FP, a.view(np.uint32), b.view(np.uint32), range(LANES),
            aux0=m.FLAG_SATFINITE, aux2=kind, aux3=m.PACK_AB,
        )  # fmt: skip
        want = [
            lane << 16 | nearest_narrow(x, form) << 8 | nearest_narrow(y, form)
            for lane, (x, y) in enumerate(zip(a, b, strict=True))
        ]
        assert got == want


@pytest.mark.parametrize("kind, form", [(m.NARROW_E4M3, E4M3), (m.NARROW_E5M2, E5M2)])
@pytest.mark.parametrize("upper", [0, 1])
def test_every_byte_unpacks_to_its_value(kind, form, upper):
    for first in range(0, 256, LANES):
        words = [(byte | (byte ^ 0x80) << 8) << 16 * upper for byte in range(first, first + LANES)]
        got = Warp().execute(
            exec_convert, m.OP_F2FP, b=words, aux2=m.HALF_F16, aux3=m.UNPACK_WIDEN, aux4=kind, aux5=upper
        )
        for byte, word in zip(range(first, first + LANES), got, strict=True):
            low, high = np.uint32([word]).view(np.float16)
            value = narrow_value(byte, form)
            if value is None:
                infinite = form == E5M2 and byte & 3 == 0
                assert np.isinf(low) if infinite else word == 0x7FFF7FFF
            else:
                assert Fraction(float(low)) == value and Fraction(float(high)) == -value
                assert np.signbit(low) == bool(byte & 0x80)


@pytest.mark.parametrize("rounding, mode", [(m.ROUND_NEAREST, "nearest"), (m.ROUND_ZERO, "cut")])
def test_tf32_keeps_ten_bits_of_mantissa(rounding, mode):
    values = floats(np.random.default_rng(5))
    got = Warp().execute(exec_convert, m.OP_F2FP, b=values.view(np.uint32), aux1=rounding, aux2=m.NARROW_TF32,
                         aux3=m.PACK_WORD)  # fmt: skip
    for value, bits in zip(values, got, strict=True):
        if np.isnan(value):
            assert bits == 0x7FFFE000
            continue
        word = int(value.view(np.uint32))
        steps = Fraction(word, 1 << 13)
        assert bits == (round(steps) if mode == "nearest" else int(steps)) << 13


@pytest.mark.parametrize("bits", [8])
@pytest.mark.parametrize("is_signed", [0, 1])
def test_two_floats_become_two_bytes(bits, is_signed):
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((2, LANES)) * 150).astype(np.float32)
    a[:4] = np.inf, -np.inf, np.nan, 2.5
    least, most = (-128, 127) if is_signed else (0, 255)
    got = Warp().execute(
        exec_convert, m.OP_F2IP, a.view(np.uint32), b.view(np.uint32), range(LANES), aux2=bits, aux3=is_signed
    )
    one = [
        [0x80 if np.isnan(x) else int(np.clip(np.rint(x), least, most)) & 0xFF for x in row] for row in (a, b)
    ]
    assert got == [lane << 16 | x << 8 | y for lane, (x, y) in enumerate(zip(*one, strict=True))]


@pytest.mark.parametrize("form", [m.HALF_F16, m.HALF_BF16])
def test_halves_of_atomics_have_their_value_and_come_back(form):
    for bits in range(1 << 16):
        value = half_value(bits, form)
        if form == m.HALF_F16:
            want = float(np.uint16(bits).view(np.float16))
        else:
            want = float((np.uint32(bits) << np.uint32(16)).view(np.float32))
        assert value == want or (np.isnan(value) and np.isnan(want))
        assert half_bits(value, form) == (0x7FFF if np.isnan(want) else bits)


def test_atomic_sums_of_halves_round_once():
    rng = np.random.default_rng(11)
    for a, b in rng.integers(0, 1 << 16, (2000, 2)):
        x, y = np.uint16([a, b]).view(np.float16)
        with np.errstate(invalid="ignore", over="ignore"):
            total = np.float16(x + y)
        want = 0x7FFF if np.isnan(total) else int(total.view(np.uint16))
        assert combine_half(m.ATOMIC_ADD, m.HALF_F16, a, b) == want


def test_atomic_extremes_of_halves_prefer_numbers_and_order_zeros():
    nan, one, zero, minus_zero = 0x7E00, 0x3C00, 0, 0x8000
    for op, other in ((m.ATOMIC_MIN, minus_zero), (m.ATOMIC_MAX, zero)):
        assert combine_half(op, m.HALF_F16, nan, one) == combine_half(op, m.HALF_F16, one, nan) == one
        assert combine_half(op, m.HALF_F16, zero, minus_zero) == other
        assert combine_half(op, m.HALF_F16, minus_zero, zero) == other
        assert combine_half(op, m.HALF_F16, nan, 0xFE00) == 0x7FFF
    assert combine_half(m.ATOMIC_MIN, m.HALF_BF16, 0x3F80, 0xBF80) == 0xBF80
