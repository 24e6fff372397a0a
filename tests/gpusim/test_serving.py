"""Who is served when: the same numbers of wavefronts and sectors as the counters, recorded on an H200 and counted."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.engine.sm import coalescer
from gpusim.plot.accesses import bank_passes, lanes_by_word
from isa import microops as M

RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "data/h200_patterns.json.gz").read_bytes()))
KINDS = {
    "load": (M.OP_LOAD, 0),
    "store": (M.OP_STORE, 0),
    "popc_inc": (M.OP_ATOM, M.ATOMIC_POPC_INC),
    "cas": (M.OP_ATOM, M.ATOMIC_CAS),
}
ANY_ATOMIC = (M.OP_ATOM, -1)

addresses = st.lists(st.one_of(st.just(-1), st.integers(0, 255)), min_size=32, max_size=32).filter(
    lambda lanes: max(lanes) >= 0
)


def warp(offsets, size):
    return np.array([1024 + offset // size * size if offset >= 0 else -1 for offset in offsets], np.int64)


def wavefronts(address, size, operation, atomic=0, spin=False):
    """All of a schedule, of which it must hold that a bank serves one word in each, and every lane gets its words."""
    found = [each for turns in bank_passes(address, size, operation, atomic) for each in turns]
    wanted = {lane: {int(address[lane]) // 4 + k for k in range(max(size // 4, 1))} for lane in range(32)}
    for each in found:
        assert each, "no wavefront serves nobody"
        for bank, lanes in each.items():
            assert all(address[lane] >= 0 and bank in {word % 32 for word in wanted[lane]} for lane in lanes)
            assert set.intersection(*(wanted[lane] for lane in lanes))
    served = {(lane, bank) for each in found for bank, lanes in each.items() for lane in lanes}
    assert spin or served == {(lane, w % 32) for lane in range(32) if address[lane] >= 0 for w in wanted[lane]}
    return found


def test_every_recorded_access_has_as_many_wavefronts():
    for operation, size, lanes, total, *_ in RECORDED["shared"]:
        address = warp(RECORDED["lanes"][lanes], size)
        assert len(wavefronts(address, size, *KINDS.get(operation, ANY_ATOMIC))) == total, (operation, size, address)


@pytest.mark.parametrize("size", (4, 8))
@given(offsets=addresses)
def test_spinning_lanes(size, offsets):
    address = warp([4 * each if each >= 0 else -1 for each in offsets], size)
    mask = sum(1 << lane for lane in range(32) if address[lane] >= 0)
    found = wavefronts(address, size, M.OP_ATOM, M.ATOMIC_CAST_SPIN, spin=True)
    winners, total, _ = coalescer.spin_winners(address, np.zeros((160, 2), np.int64), mask, size, 32, 2)
    assert len(found) == total
    assert sum(1 << lane for lane in {lane for each in found for lanes in each.values() for lane in lanes}) == winners


@pytest.mark.parametrize("operation", (M.OP_LOAD, M.OP_STORE))
@pytest.mark.parametrize("size", (1, 2, 4, 8, 16))
@given(offsets=addresses)
def test_plain_accesses(operation, size, offsets):
    address = warp([4 * each if each >= 0 else -1 for each in offsets], size)
    mask = sum(1 << lane for lane in range(32) if address[lane] >= 0)
    load, touched = operation == M.OP_LOAD, np.zeros((160, 2), np.int64)
    counted = coalescer.shared_wavefronts(address, touched, mask, size, 32, 2, load)
    assert len(wavefronts(address, size, operation)) == counted[0]


def test_matrix_rows_are_a_pass_each():
    """Rows of 16 bytes, 128 bytes apart: eight lanes of a matrix in the same four banks; and side by side."""
    apart = np.array([128 * lane if lane < 16 else -1 for lane in range(32)], np.int64)
    assert [len(each) for each in bank_passes(apart, 16, M.OP_LDSM)] == [8, 8]
    assert [len(each) for each in bank_passes(16 * np.arange(32), 16, M.OP_LDSM)] == [1] * 4


@pytest.mark.parametrize("size", (1, 4, 8, 16))
@given(offsets=addresses)
def test_sectors_and_lines(size, offsets):
    address = warp([16 * each if each >= 0 else -1 for each in offsets], size)
    mask = sum(1 << lane for lane in range(32) if address[lane] >= 0)
    words = lanes_by_word(address, size)
    counted = coalescer.coalesce(np.maximum(address, 0), np.zeros((160, 2), np.int64), mask, size)
    assert (len({word // 32 for word in words}), len({word // 8 for word in words})) == counted[:2]
    for lane in np.flatnonzero(address >= 0).tolist():
        assert lane in words[int(address[lane]) // 4]


def test_local_memory_is_interleaved():
    same = lanes_by_word(np.full(32, 8, np.int64), 4, local=True)
    assert same == {64 + lane: [lane] for lane in range(32)}
    assert len({word // 32 for word in lanes_by_word(4 * np.arange(32), 4, local=True)}) == 32
