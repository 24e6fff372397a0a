"""Halves of atomics: their values and bits, sums that round once, extremes."""

import numpy as np
import pytest

from gpusim.engine.rows.scalar_half import combine_half, half_bits, half_value
from isa import microops as m


@pytest.mark.parametrize("form", [m.HALF_F16, m.HALF_BF16])
def test_halves_of_atomics_have_their_value_and_come_back(form):
    for bits in range(0, 1 << 16, 5):  # every exponent, infinities, all of the low bits
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
