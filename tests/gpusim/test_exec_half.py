"""Packed halves, bit for bit, against exact fractions."""

import numpy as np
import pytest

from gpusim.engine.rows.half import exec_half
from isa import microops as m
from tests.gpusim.rows import LANES, Warp
from tests.oracle import floats as oracle
from tests.oracle.floats import BF16, F16, F32

ROUNDS = 12
FORMATS = {m.HALF_F16: F16, m.HALF_BF16: BF16}
SPECIAL = (0, 1, 0x8000, 0x8001, 0x3C00, 0x3F80, 0xBC00, 0x7C00, 0xFC00, 0x7BFF, 0x7F80, 0xFF80, 0x7F7F, 0x7E00, 0x03FF,
           0x0400, 0x007F, 0x0080)  # fmt: skip


def random_halves(rng):
    halves = rng.integers(0, 1 << 16, 2 * LANES)
    halves = np.where(rng.random(2 * LANES) < 0.3, rng.choice(SPECIAL, 2 * LANES), halves)
    return (halves[:LANES] | halves[LANES:] << 16).tolist()


def pairs(function, *words):
    return [
        function(*(x & 0xFFFF for x in lane)) | function(*(x >> 16 for x in lane)) << 16
        for lane in zip(*words, strict=True)
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_arithmetic(form):
    rng = np.random.default_rng(form)
    f = FORMATS[form]
    for _ in range(ROUNDS):
        a, b, c = random_halves(rng), random_halves(rng), random_halves(rng)
        run = Warp().execute
        assert run(exec_half, m.OP_HFMA2, a, b, c, aux1=form) == pairs(
            lambda x, y, z: oracle.fma(f, x, y, z), a, b, c
        )
        assert run(exec_half, m.OP_HADD2, a, b, aux1=form) == pairs(lambda x, y: oracle.add(f, x, y), a, b)
        assert run(exec_half, m.OP_HMUL2, a, b, aux1=form) == pairs(
            lambda x, y: oracle.multiply(f, x, y), a, b
        )


def test_flushing_and_relu():
    rng = np.random.default_rng(5)
    for _ in range(ROUNDS):
        a, b, c = random_halves(rng), random_halves(rng), random_halves(rng)

        def flushed(x, y, z):
            return oracle.flush(F16, oracle.fma(F16, *(oracle.flush(F16, v) for v in (x, y, z))))

        assert Warp().execute(exec_half, m.OP_HFMA2, a, b, c, aux0=m.FLAG_FTZ) == pairs(flushed, a, b, c)

        def rectified(x, y, z):
            result = oracle.fma(F16, x, y, z)
            return 0 if oracle.order_key(F16, result) < 0 and not oracle.is_nan(F16, result) else result

        got = Warp().execute(exec_half, m.OP_HFMA2, a, b, c, aux0=m.FLAG_RELU)
        assert got == pairs(rectified, a, b, c)


def test_selected_halves_and_signs():
    rng = np.random.default_rng(6)
    a, b = random_halves(rng), random_halves(rng)
    got = Warp().execute(exec_half, m.OP_HADD2, a, b, aux2=1 | 2 << 2, mod_a=m.MOD_FNEG, mod_b=m.MOD_FABS)
    for x, y, result in zip(a, b, got, strict=True):
        expected = oracle.add(F16, (x & 0xFFFF) ^ 0x8000, y >> 16 & 0x7FFF)
        assert result == expected | expected << 16


def test_widening_sum():
    rng = np.random.default_rng(7)
    a, b = random_halves(rng), random_halves(rng)
    got = Warp().execute(exec_half, m.OP_HADD2_F32, a, b, aux2=1 | 2 << 2)

    def wide(bits):
        if oracle.is_nan(F16, bits):
            return F32.nan
        if oracle.is_infinite(F16, bits):
            return F32.infinity | (F32.sign if bits & 0x8000 else 0)
        return oracle.encode(F32, oracle.value(F16, bits), zero_sign=oracle.negative(F16, bits))

    assert got == [oracle.add(F32, wide(x & 0xFFFF), wide(y >> 16)) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("form", FORMATS)
def test_comparisons(form):
    rng = np.random.default_rng(8)
    f = FORMATS[form]
    a, b = random_halves(rng), random_halves(rng)
    b[:8] = a[:8]
    for relation in range(16):
        warp = Warp()
        warp.execute(exec_half, m.OP_HSETP2, a, b, aux1=form, aux3=relation, pd0=0, pd1=1)
        low = [bool(oracle.compare(f, x & 0xFFFF, y & 0xFFFF) & relation) for x, y in zip(a, b, strict=True)]
        high = [bool(oracle.compare(f, x >> 16, y >> 16) & relation) for x, y in zip(a, b, strict=True)]
        assert warp.lanes_of(0) == low
        assert warp.lanes_of(1) == high
        got = warp.execute(exec_half, m.OP_HSET2, a, b, aux1=form, aux3=relation)
        assert got == [0xFFFF * p | 0xFFFF0000 * q for p, q in zip(low, high, strict=True)]
