"""Integer comparisons and predicate logic against plain Python."""

import numpy as np
import pytest

from gpusim.engine.rows.predicate import exec_pred
from isa import microops as m
from tests.gpusim.rows import LANES, Warp, random_words

BOOL = {
    m.BOOL_AND: lambda p, q: p and q,
    m.BOOL_OR: lambda p, q: p or q,
    m.BOOL_XOR: lambda p, q: p != q,
}


def relation_of(x, y):
    return m.COMPARE_LT if x < y else m.COMPARE_GT if x > y else m.COMPARE_EQ


@pytest.mark.parametrize("operation", BOOL)
@pytest.mark.parametrize("unsigned", [0, 1])
def test_comparison(operation, unsigned):
    rng = np.random.default_rng(operation)
    for relation in range(8):
        a, b = random_words(rng), random_words(rng)
        b[:6] = a[:6]
        warp = Warp()
        warp.preds[2] = rng.integers(0, 1 << 32)
        warp.execute(
            exec_pred, m.OP_ISETP, a, b, aux0=relation, aux1=unsigned, aux2=operation, pd0=0, pd1=1, ps0=2
        )
        convert = (lambda x: x) if unsigned else (lambda x: x - (x >> 31 << 32))
        holds = [bool(relation_of(convert(x), convert(y)) & relation) for x, y in zip(a, b, strict=True)]
        other = warp.lanes_of(2)
        assert warp.lanes_of(0) == [BOOL[operation](p, q) for p, q in zip(holds, other, strict=True)]
        assert warp.lanes_of(1) == [BOOL[operation](not p, q) for p, q in zip(holds, other, strict=True)]


@pytest.mark.parametrize("relation", range(8))
def test_64_bit_comparison_in_two_steps(relation):
    rng = np.random.default_rng(relation)
    low_a, low_b, high_a, high_b = (random_words(rng) for _ in range(4))
    high_b[:16] = high_a[:16]
    low_b[:8] = low_a[:8]
    warp = Warp()
    warp.execute(exec_pred, m.OP_ISETP, low_a, low_b, aux0=relation, aux1=1, pd0=0)
    warp.execute(exec_pred, m.OP_ISETP, high_a, high_b, aux0=relation, aux3=1, pd0=1, ps1=0)
    expected = []
    for x, y, u, v in zip(low_a, low_b, high_a, high_b, strict=True):
        a, b = ((high - (high >> 31 << 32) << 32) + low for high, low in ((u, x), (v, y)))
        expected.append(bool(relation_of(a, b) & relation))
    assert warp.lanes_of(1) == expected


def test_predicate_table():
    rng = np.random.default_rng(3)
    for _ in range(20):
        first, second = (int(x) for x in rng.integers(0, 256, 2))
        warp = Warp()
        warp.preds[:3] = rng.integers(0, 1 << 32, 3)
        inputs = list(zip(*(warp.lanes_of(k) for k in range(3)), strict=True))
        warp.execute(
            exec_pred, m.OP_PLOP3, aux0=first, aux1=second, pd0=3, pd1=4, ps0=0, ps1=1, ps1_neg=1, ps2=2
        )
        index = [4 * p + 2 * (not q) + r for p, q, r in inputs]
        assert warp.lanes_of(3) == [bool(first >> k & 1) for k in index]
        assert warp.lanes_of(4) == [bool(second >> k & 1) for k in index]


def test_true_is_never_written():
    warp = Warp()
    warp.execute(exec_pred, m.OP_ISETP, [1] * LANES, [2] * LANES, aux0=m.COMPARE_EQ, pd0=7, pd1=15)
    assert all(warp.lanes_of(7))
    assert all(warp.lanes_of(15))


@pytest.mark.parametrize("byte", range(4))
def test_predicates_to_and_from_registers(byte):
    rng = np.random.default_rng(byte)
    warp = Warp()
    warp.preds[:7] = rng.integers(0, 1 << 32, 7)
    before = [warp.lanes_of(k) for k in range(7)]
    a, chosen = random_words(rng), 0x5B
    got = warp.execute(exec_pred, m.OP_P2R, a, [chosen] * LANES, aux0=byte)
    for lane in range(LANES):
        bits = sum(before[k][lane] << k for k in range(7)) & chosen
        assert got[lane] == a[lane] & ~(chosen << 8 * byte) | bits << 8 * byte
    values = random_words(rng)
    warp.execute(exec_pred, m.OP_R2P, values, [chosen] * LANES, aux0=byte)
    for k in range(7):
        taken = [bool(value >> 8 * byte + k & 1) for value in values]
        assert warp.lanes_of(k) == (taken if chosen >> k & 1 else before[k])
