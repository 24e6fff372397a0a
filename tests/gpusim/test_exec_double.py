"""Double-precision micro-operations, bit for bit, against exact fractions."""

import numpy as np
import pytest

from gpusim.engine.rows.double import exec_double
from isa import microops as m
from tests.gpusim.rows import LANES, Warp
from tests.oracle import floats as oracle
from tests.oracle.floats import F64

ROUNDS = 8
MASK64 = (1 << 64) - 1
SPECIAL = (
    0, 1, F64.sign, F64.sign | 1, 0x3FF0000000000000, 0xBFF0000000000000, 0x000FFFFFFFFFFFFF, 0x0010000000000000,
    0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x7FF0000000000001,
    0x3CA0000000000000, 0x0000000000000003, 0xFFEFFFFFFFFFFFFF, 0x1FF0000000000000, 0x5FF0000000000000,
)  # fmt: skip


def random_doubles(rng):
    bits = [int(x) for x in rng.integers(0, 1 << 64, LANES, np.uint64)]
    return [SPECIAL[rng.integers(len(SPECIAL))] if rng.random() < 0.4 else x for x in bits]


def close(rng, values):
    """Doubles near the given ones, so that sums cancel and round."""
    return [
        (x + (int(rng.integers(-3, 4)) << 52) ^ int(rng.integers(0, 2)) << 63 ^ int(rng.integers(0, 64)))
        & MASK64
        for x in values
    ]


def operands(rng):
    a = random_doubles(rng)
    b = close(rng, a) if rng.random() < 0.5 else random_doubles(rng)
    if rng.random() < 0.6:
        return a, b, close(rng, [oracle.fma(F64, x, y, 0) for x, y in zip(a, b, strict=True)])
    return a, b, random_doubles(rng)


def with_nan(result, *by_priority):
    """A NaN operand comes out quiet, with its payload; the first of several in the hardware's order wins."""
    for operand in by_priority:
        if oracle.is_nan(F64, operand):
            return operand | 1 << 51
    return result


@pytest.mark.parametrize("rounding", [m.ROUND_NEAREST, m.ROUND_DOWN, m.ROUND_UP, m.ROUND_ZERO])
def test_arithmetic(rounding):
    rng = np.random.default_rng(rounding)
    mode = 0 if rounding == m.ROUND_NEAREST else m.OP_DADD_MODE - m.OP_DADD
    for _ in range(ROUNDS):
        a, b, c = operands(rng)
        warp = Warp()
        warp.execute(exec_double, m.OP_DFMA + mode, a, b, c, aux1=rounding)
        assert warp.wide() == [
            with_nan(oracle.fma(F64, x, y, z, rounding), y, z, x) for x, y, z in zip(a, b, c, strict=True)
        ]
        warp.execute(exec_double, m.OP_DADD + mode, a, b, aux1=rounding)
        assert warp.wide() == [
            with_nan(oracle.add(F64, x, y, rounding), y, x) for x, y in zip(a, b, strict=True)
        ]
        warp.execute(exec_double, m.OP_DMUL + mode, a, b, aux1=rounding)
        assert warp.wide() == [
            with_nan(oracle.multiply(F64, x, y, rounding), y, x) for x, y in zip(a, b, strict=True)
        ]


def test_sign_modifiers_act_on_the_high_word():
    rng = np.random.default_rng(9)
    a, b, _ = operands(rng)
    warp = Warp()
    warp.execute(exec_double, m.OP_DADD, a, b, mod_a=m.MOD_FNEG, mod_b=m.MOD_FABS)
    expected = [
        with_nan(oracle.add(F64, x ^ F64.sign, y & ~F64.sign), y, x) for x, y in zip(a, b, strict=True)
    ]
    assert warp.wide() == expected


@pytest.mark.parametrize("relation", range(16))
def test_comparisons(relation):
    rng = np.random.default_rng(10)
    for _ in range(3):
        a, b, _ = operands(rng)
        b[:8] = a[:8]
        warp = Warp()
        warp.preds[2] = rng.integers(0, 1 << 32)
        warp.execute(exec_double, m.OP_DSETP, a, b, aux0=relation, aux2=m.BOOL_XOR, pd0=0, pd1=1, ps0=2)
        other = warp.lanes_of(2)
        holds = [bool(oracle.compare(F64, x, y) & relation) for x, y in zip(a, b, strict=True)]
        assert warp.lanes_of(0) == [p != q for p, q in zip(holds, other, strict=True)]
        assert warp.lanes_of(1) == [p == q for p, q in zip(holds, other, strict=True)]
