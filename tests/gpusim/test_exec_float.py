"""Single-precision micro-operations, bit for bit, against exact fractions."""

import numpy as np
import pytest

from gpusim.engine.rows.float import exec_float
from gpusim.engine.rows.predicate import exec_pred
from isa import microops as m
from tests.gpusim.rows import LANES, Warp, random_words
from tests.oracle import floats as oracle
from tests.oracle.floats import F32

ROUNDS = 10
ROUNDINGS = [m.ROUND_NEAREST, m.ROUND_DOWN, m.ROUND_UP, m.ROUND_ZERO]
ONE = 0x3F800000


def close_words(rng, words):
    """Words with exponents near those of `words`, so that sums cancel and round."""
    near = (np.array(words, np.int64) + (rng.integers(-3, 4, LANES) << 23)) & 0xFFFFFFFF
    return (near ^ (rng.integers(0, 2, LANES) << 31) ^ rng.integers(0, 256, LANES)).tolist()


def operands(rng):
    a = random_words(rng)
    b = close_words(rng, a) if rng.random() < 0.5 else random_words(rng)
    if rng.random() < 0.5:
        c = [oracle.fma(F32, x, y, 0) for x, y in zip(a, b, strict=True)]
        return a, b, close_words(rng, c)
    return a, b, random_words(rng)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_fused_multiply_add(rounding):
    rng = np.random.default_rng(rounding)
    op = m.OP_FFMA if rounding == m.ROUND_NEAREST else m.OP_FFMA_MODE
    for _ in range(ROUNDS):
        a, b, c = operands(rng)
        got = Warp().execute(exec_float, op, a, b, c, aux1=rounding)
        assert got == [oracle.fma(F32, *lane, rounding) for lane in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_add_and_multiply(rounding):
    rng = np.random.default_rng(rounding + 10)
    nearest = rounding == m.ROUND_NEAREST
    for _ in range(ROUNDS):
        a, b, _ = operands(rng)
        got = Warp().execute(exec_float, m.OP_FADD if nearest else m.OP_FADD_MODE, a, b, aux1=rounding)
        assert got == [oracle.add(F32, x, y, rounding) for x, y in zip(a, b, strict=True)]
        got = Warp().execute(exec_float, m.OP_FMUL if nearest else m.OP_FMUL_MODE, a, b, aux1=rounding)
        assert got == [oracle.multiply(F32, x, y, rounding) for x, y in zip(a, b, strict=True)]


def saturated(bits):
    if oracle.is_nan(F32, bits) or oracle.order_key(F32, bits) <= 0:
        return 0
    return min(bits, ONE)


def test_flushing_and_saturation():
    rng = np.random.default_rng(20)
    for _ in range(ROUNDS):
        a, b, c = operands(rng)
        flushed = [[oracle.flush(F32, x) for x in words] for words in (a, b, c)]
        expected = [oracle.flush(F32, oracle.fma(F32, *lane)) for lane in zip(*flushed, strict=True)]
        assert Warp().execute(exec_float, m.OP_FFMA_FTZ, a, b, c) == expected
        assert Warp().execute(exec_float, m.OP_FFMA_MODE, a, b, c, aux0=m.FLAG_FTZ) == expected
        got = Warp().execute(exec_float, m.OP_FFMA_MODE, a, b, c, aux0=m.FLAG_FTZ | m.FLAG_SAT)
        assert got == [saturated(x) for x in expected]
        sums = [oracle.flush(F32, oracle.add(F32, x, y)) for x, y in zip(*flushed[:2], strict=True)]
        assert Warp().execute(exec_float, m.OP_FADD_FTZ, a, b) == sums
        products = [oracle.flush(F32, oracle.multiply(F32, x, y)) for x, y in zip(*flushed[:2], strict=True)]
        assert Warp().execute(exec_float, m.OP_FMUL_FTZ, a, b) == products


def test_operand_modifiers():
    rng = np.random.default_rng(21)
    a, b, c = operands(rng)
    got = Warp().execute(
        exec_float, m.OP_FFMA, a, b, c, mod_a=m.MOD_FNEG, mod_b=m.MOD_FABS, mod_c=m.MOD_FNEG_FABS
    )
    changed = [(x ^ F32.sign, y & ~F32.sign, z | F32.sign) for x, y, z in zip(a, b, c, strict=True)]
    assert got == [oracle.fma(F32, *lane) for lane in changed]


def test_scaled_product():
    rng = np.random.default_rng(22)
    for scale in (-3, -1, 2):
        a, b, _ = operands(rng)
        got = Warp().execute(exec_float, m.OP_FMUL_MODE, a, b, aux2=scale)
        for x, y, result in zip(a, b, got, strict=True):
            special = any(oracle.is_nan(F32, z) or oracle.is_infinite(F32, z) for z in (x, y))
            minus = oracle.negative(F32, x) != oracle.negative(F32, y)
            if not special:
                exact = (
                    oracle.value(F32, x) * oracle.value(F32, y) * 2**scale
                    if scale > 0
                    else (oracle.value(F32, x) * oracle.value(F32, y) / 2**-scale)
                )
                assert result == oracle.encode(F32, exact, zero_sign=minus)


def extreme(a, b, smaller, nan_wins):
    a_nan, b_nan = oracle.is_nan(F32, a), oracle.is_nan(F32, b)
    if (a_nan and b_nan) or (nan_wins and (a_nan or b_nan)):
        return F32.nan
    if a_nan or b_nan:
        return b if a_nan else a
    pair = sorted((a, b), key=lambda x: (oracle.order_key(F32, x), not oracle.negative(F32, x)))
    return pair[0] if smaller else pair[1]


@pytest.mark.parametrize("nan_wins", [False, True])
def test_minimum_and_maximum(nan_wins):
    rng = np.random.default_rng(23)
    for _ in range(ROUNDS):
        a, b, _ = operands(rng)
        warp = Warp()
        warp.preds[1] = rng.integers(0, 1 << 32)
        got = warp.execute(exec_float, m.OP_FMNMX, a, b, ps0=1, aux0=m.FLAG_NAN * nan_wins)
        choice = warp.lanes_of(1)
        assert got == [extreme(x, y, p, nan_wins) for x, y, p in zip(a, b, choice, strict=True)]
        got = warp.execute(exec_float, m.OP_FMNMX, a, b, aux0=m.FLAG_XORSIGN, mod_a=m.MOD_FABS)
        for x, y, result in zip(a, b, got, strict=True):
            best = extreme(x & ~F32.sign, y, True, False)
            assert result == (best if best == F32.nan else best & ~F32.sign | (x ^ y) & F32.sign)


@pytest.mark.parametrize("relation", range(16))
def test_comparisons(relation):
    rng = np.random.default_rng(24)
    for _ in range(4):
        a, b, _ = operands(rng)
        b[:8] = a[:8]
        holds = [bool(oracle.compare(F32, x, y) & relation) for x, y in zip(a, b, strict=True)]
        warp = Warp()
        warp.preds[2] = rng.integers(0, 1 << 32)
        other = warp.lanes_of(2)
        warp.execute(exec_pred, m.OP_FSETP, a, b, aux0=relation, pd0=0, pd1=1, ps0=2, aux2=m.BOOL_AND)
        assert warp.lanes_of(0) == [p and q for p, q in zip(holds, other, strict=True)]
        assert warp.lanes_of(1) == [not p and q for p, q in zip(holds, other, strict=True)]
        got = warp.execute(exec_float, m.OP_FSET, a, b, aux0=relation, aux2=m.BOOL_OR, ps0=2, aux3=1)
        assert got == [ONE if p or q else 0 for p, q in zip(holds, other, strict=True)]
