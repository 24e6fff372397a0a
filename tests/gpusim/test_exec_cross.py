"""Exchanges between lanes against the definitions of the PTX manual."""

import numpy as np
import pytest

from gpusim.engine.rows.cross import exec_cross
from isa import microops as m
from tests.gpusim.rows import LANES, WORD, Warp, mask_of, random_wide, random_words

MASKS = [WORD, 0x0F0F00F1, 0x80000000, 0x00000010]


def source_lane(kind, lane, b, c):
    segment, clamp, b = c >> 8 & 31, c & 31, b & 31
    last = lane & segment | clamp & ~segment
    found = {
        m.SHFL_UP: lane - b,
        m.SHFL_DOWN: lane + b,
        m.SHFL_BFLY: lane ^ b,
        m.SHFL_IDX: lane & segment | b & ~segment,
    }[kind]
    valid = found >= last if kind == m.SHFL_UP else found <= last
    return (found if valid else lane), valid


@pytest.mark.parametrize("kind", [m.SHFL_IDX, m.SHFL_UP, m.SHFL_DOWN, m.SHFL_BFLY])
def test_shuffle(kind):
    rng = np.random.default_rng(kind)
    for control in (0x1F, 0, 0x181F, 0x1000, 0x0C03, 0x1E01):
        a = random_words(rng)
        b = rng.integers(0, 40, LANES).tolist() if rng.random() < 0.5 else [int(rng.integers(0, 32))] * LANES
        warp = Warp()
        got = warp.execute(exec_cross, m.OP_SHFL, a, b, [control] * LANES, aux0=kind, pd0=0)
        chosen = [source_lane(kind, lane, b[lane], control) for lane in range(LANES)]
        assert got == [a[lane] for lane, _ in chosen]
        assert warp.lanes_of(0) == [valid for _, valid in chosen]


@pytest.mark.parametrize("mask", MASKS)
def test_vote(mask):
    for votes in (0, WORD, 0x0F0F0000, mask, mask & 0x10):
        warp = Warp()
        warp.preds[3] = votes
        warp.row(40)[:] = 9
        got = warp.execute(exec_cross, m.OP_VOTE, mask=mask, aux0=m.VOTE_ANY, ps0=3, pd0=0)
        assert got == [votes & mask if mask >> lane & 1 else 9 for lane in range(LANES)]
        assert int(warp.preds[0]) == (mask if votes & mask else 0)
        warp.execute(exec_cross, m.OP_VOTE, mask=mask, aux0=m.VOTE_ALL, ps0=3, pd0=8, aux5=1)
        assert int(warp.preds[8]) == (WORD if votes & mask == mask else 0)
        warp.execute(exec_cross, m.OP_VOTE, mask=mask, aux0=m.VOTE_EQ, ps0=3, pd0=9, aux5=1)
        assert int(warp.preds[9]) == (WORD if votes & mask in (0, mask) else 0)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("wide", [False, True])
def test_match(mask, wide):
    rng = np.random.default_rng(1)
    pool = random_wide(rng)[:3]
    values = [pool[k] if wide else pool[k] & WORD for k in rng.integers(0, 3, LANES)]
    warp = Warp()
    got = warp.execute(exec_cross, m.OP_MATCH_ANY, values, mask=mask, aux0=int(wide))
    for lane in range(LANES):
        if mask >> lane & 1:
            assert got[lane] == mask & mask_of(value == values[lane] for value in values)
    warp.execute(exec_cross, m.OP_MATCH_ALL, values, mask=mask, aux0=int(wide), pd0=0)
    executing = [values[lane] for lane in range(LANES) if mask >> lane & 1]
    assert int(warp.preds[0]) == (mask if len(set(executing)) == 1 else 0)
    same = warp.execute(exec_cross, m.OP_MATCH_ALL, [5] * LANES, mask=mask, pd0=0)
    assert all(same[lane] == mask for lane in range(LANES) if mask >> lane & 1)


@pytest.mark.parametrize("mask", MASKS)
def test_reductions(mask):
    rng = np.random.default_rng(2)
    a = random_words(rng)
    words = [a[lane] for lane in range(LANES) if mask >> lane & 1]
    signed = [word - (word >> 31 << 32) for word in words]
    expected = {
        m.REDUX_SUM: sum(words),
        m.REDUX_MIN_U: min(words),
        m.REDUX_MAX_U: max(words),
        m.REDUX_MIN_S: min(signed),
        m.REDUX_MAX_S: max(signed),
        m.REDUX_AND: np.bitwise_and.reduce(words),
        m.REDUX_OR: np.bitwise_or.reduce(words),
        m.REDUX_XOR: np.bitwise_xor.reduce(words),
    }
    for kind, value in expected.items():
        got = Warp().execute(exec_cross, m.OP_REDUX, a, mask=mask, aux0=kind, aux5=1)
        assert got == [int(value) & WORD] * LANES


@pytest.mark.parametrize("kind", [m.REDUX_MIN_F, m.REDUX_MAX_F])
@pytest.mark.parametrize("mask", [1 << 4, WORD])
def test_a_reduction_of_nothing_but_nan_is_the_one_nan(kind, mask):
    """PTX manual, redux.sync .f32: canonical NaN, also of a single lane."""
    got = Warp().execute(exec_cross, m.OP_REDUX, [0xFFC12345] * LANES, mask=mask, aux0=kind, aux5=1)
    assert got == [0x7FFFFFFF] * LANES


@pytest.mark.parametrize("mask", MASKS)
def test_register_to_uniform_takes_the_lowest_lane(mask):
    a = list(range(100, 132))
    lowest = (mask & -mask).bit_length() - 1
    assert Warp().execute(exec_cross, m.OP_R2UR, a, mask=mask, aux5=1) == [100 + lowest] * LANES


def test_nothing_happens_without_lanes():
    warp = Warp()
    warp.row(40)[:] = 3
    assert warp.execute(exec_cross, m.OP_R2UR, [1] * LANES, mask=0, aux5=1) == [3] * LANES
