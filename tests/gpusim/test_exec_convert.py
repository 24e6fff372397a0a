"""Conversions and bit counts against exact fractions and plain Python integers."""

from fractions import Fraction
from math import ceil, floor, trunc

import numpy as np
import pytest

from gpusim.engine.rows.convert import exec_convert
from isa import microops as m
from tests.gpusim.rows import LANES, WORD, Warp, random_wide, random_words
from tests.oracle import floats as oracle
from tests.oracle.floats import F16, F32, F64

ROUND = {m.ROUND_NEAREST: round, m.ROUND_DOWN: floor, m.ROUND_UP: ceil, m.ROUND_ZERO: trunc}
ROUNDINGS = list(ROUND)
FORMATS = {16: F16, 32: F32, 64: F64}


def floats(rng, bits):
    """Values around the limits of every integer type, halves between integers, and special ones."""
    form = FORMATS[bits]
    if rng.random() < 0.3:
        words = random_wide(rng) if bits == 64 else random_words(rng)
        return [word & (1 << bits) - 1 for word in words]
    sizes = [Fraction(int(rng.integers(0, 1 << 40)), 2) / 2 ** int(rng.integers(0, 40)) for _ in range(LANES)]
    limits = [
        Fraction(2) ** k + Fraction(int(d), 2) for k in (7, 8, 15, 16, 31, 32) for d in (-3, -2, -1, 0, 1, 2)
    ]
    values = [limits[rng.integers(len(limits))] if rng.random() < 0.5 else size for size in sizes]
    return [oracle.encode(form, -value if rng.random() < 0.5 else value) for value in values]


def to_integer(form, bits_in, rounding, bits, is_signed, nan):
    if oracle.is_nan(form, bits_in):
        return nan
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if oracle.is_infinite(form, bits_in):
        return low if oracle.negative(form, bits_in) else high
    return min(max(ROUND[rounding](oracle.value(form, bits_in)), low), high)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("source", [16, 32, 64])
def test_float_to_integer(rounding, source):
    rng = np.random.default_rng(rounding + source)
    for bits in (8, 16, 32, 64):
        for is_signed in (0, 1):
            a = floats(rng, source)
            warp = Warp()
            to_zero = rng.random() < 0.5
            got = warp.execute(
                exec_convert, m.OP_F2I, a,
                aux0=m.FLAG_NTZ * to_zero, aux1=rounding, aux2=bits, aux3=is_signed, aux4=source,
            )  # fmt: skip
            nan = 0 if to_zero else 1 << bits - 1
            expected = [to_integer(FORMATS[source], x, rounding, bits, is_signed, nan) for x in a]
            if bits == 64:
                assert warp.wide() == [x & (1 << 64) - 1 for x in expected]
            else:
                assert got == [x & WORD for x in expected]


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_integer_to_float(rounding):
    rng = np.random.default_rng(rounding)
    for bits in (8, 16, 32, 64):
        for is_signed in (0, 1):
            a = random_wide(rng) if bits == 64 else random_words(rng)
            exact = [x & (1 << bits) - 1 for x in a]
            if is_signed:
                exact = [x - (x >> bits - 1 << bits) for x in exact]
            for target in (16, 32, 64):
                if target == 16 and rounding != m.ROUND_NEAREST:
                    continue
                warp = Warp()
                got = warp.execute(
                    exec_convert, m.OP_I2F, a, aux1=rounding, aux2=target, aux3=is_signed, aux4=bits
                )
                got = warp.wide() if target == 64 else got
                assert got == [oracle.encode(FORMATS[target], Fraction(x), rounding) for x in exact]


def test_byte_of_a_register():
    rng = np.random.default_rng(3)
    a = random_words(rng)
    got = Warp().execute(exec_convert, m.OP_I2F, a, aux2=32, aux4=8, aux5=2)
    assert got == [oracle.encode(F32, Fraction(x >> 16 & 255)) for x in a]


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_double_to_single_and_back(rounding):
    rng = np.random.default_rng(rounding)
    for _ in range(6):
        a = [x for x in (random_wide(rng) + floats(rng, 64)) if not oracle.is_nan(F64, x)][:LANES]
        got = Warp().execute(exec_convert, m.OP_F2F, a, aux1=rounding, aux2=32, aux4=64)
        for x, result in zip(a, got, strict=True):
            sign = F32.sign if oracle.negative(F64, x) else 0
            if oracle.is_infinite(F64, x):
                assert result == F32.infinity | sign
            else:
                assert result == oracle.encode(F32, oracle.value(F64, x), rounding, bool(sign))
    b = [x for x in random_words(rng) * 2 if not oracle.is_nan(F32, x) and not oracle.is_infinite(F32, x)][
        :LANES
    ]
    warp = Warp()
    warp.execute(exec_convert, m.OP_F2F, b, aux2=64, aux4=32)
    assert warp.wide() == [
        oracle.encode(F64, oracle.value(F32, x), zero_sign=oracle.negative(F32, x)) for x in b
    ]


def test_nan_keeps_its_payload():
    warp = Warp()
    got = warp.execute(exec_convert, m.OP_F2F, [0x7FF8DEAD00000001] * LANES, aux2=32, aux4=64)
    assert got == [0x7FC6F568] * LANES  # as an H200 has it


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_rounding_to_integers(rounding):
    rng = np.random.default_rng(rounding)
    for bits in (32, 64):
        form = FORMATS[bits]
        a = [x for x in floats(rng, bits) + floats(rng, bits) if not oracle.is_nan(form, x)][:LANES]
        warp = Warp()
        got = warp.execute(exec_convert, m.OP_FRND, a, aux1=rounding, aux2=bits)
        got = warp.wide() if bits == 64 else got
        for x, result in zip(a, got, strict=True):
            if oracle.is_infinite(form, x):
                assert result == x
            else:
                whole = Fraction(ROUND[rounding](oracle.value(form, x)))
                assert result == oracle.encode(form, whole, zero_sign=oracle.negative(form, x))


def test_bit_counts():
    rng = np.random.default_rng(4)
    a = random_words(rng)
    run = Warp().execute
    assert run(exec_convert, m.OP_POPC, a) == [x.bit_count() for x in a]
    assert run(exec_convert, m.OP_BREV, a) == [int(f"{x:032b}"[::-1], 2) for x in a]
    assert run(exec_convert, m.OP_FLO_U, a) == [(x.bit_length() - 1) & WORD for x in a]
    assert run(exec_convert, m.OP_FLO_U, a, aux0=1) == [32 - x.bit_length() if x else WORD for x in a]
    flipped = [x ^ WORD if x >> 31 else x for x in a]
    assert run(exec_convert, m.OP_FLO_S, a) == [(x.bit_length() - 1) & WORD for x in flipped]


@pytest.mark.parametrize("rounding", [m.ROUND_NEAREST, m.ROUND_ZERO])
@pytest.mark.parametrize("form", [m.HALF_F16, m.HALF_BF16])
def test_packing_halves(rounding, form):
    rng = np.random.default_rng(rounding)
    target = {m.HALF_F16: F16, m.HALF_BF16: oracle.BF16}[form]

    def narrow(x):
        if oracle.is_nan(F32, x):
            return target.nan
        sign = target.sign if oracle.negative(F32, x) else 0
        if oracle.is_infinite(F32, x):
            return target.infinity | sign
        return oracle.encode(target, oracle.value(F32, x), rounding, bool(sign))

    for _ in range(6):
        a, b = random_words(rng), floats(rng, 32)
        got = Warp().execute(exec_convert, m.OP_F2FP, a, b, aux1=rounding, aux2=form)
        assert got == [narrow(x) << 16 | narrow(y) for x, y in zip(a, b, strict=True)]
