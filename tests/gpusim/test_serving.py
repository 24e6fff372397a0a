"""Who is served when: the same numbers of wavefronts and sectors as the counters, recorded on an H200 and counted."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.engine.sm import coalescer
from gpusim.results.serving import NotServed, sectors, wavefronts
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


def check(found, address, size, spin=False):
    """What must hold of every schedule: a bank serves one word in a wavefront, and every lane gets all of its words."""
    active = address >= 0
    assert (found.words[active, 0] == address[active] // 4).all()
    assert (found.words[~active] == -1).all() and (found.first[~active] == -1).all()
    if not spin:
        assert (found.first[active] >= 0).all()
    seen = {}
    for lane, k in np.argwhere(found.first >= 0).tolist():
        for wavefront in range(found.first[lane, k], found.first[lane, k] + found.each):
            assert wavefront < found.total
            key = (wavefront, int(found.banks[lane, k]))
            assert seen.setdefault(key, int(found.words[lane, k])) == found.words[lane, k]
    assert {wavefront for wavefront, _ in seen} == set(range(found.total))
    assert found.excessive.sum() == found.total - found.ideal


def test_every_recorded_access_has_as_many_wavefronts():
    for operation, size, lanes, total, ideal, *_ in RECORDED["shared"]:
        address = warp(RECORDED["lanes"][lanes], size)
        found = wavefronts(address, size, *KINDS.get(operation, ANY_ATOMIC))
        assert (found.total, found.ideal) == (total, ideal), (operation, size, address)
        check(found, address, size)


@pytest.mark.parametrize("size", (4, 8))
@given(offsets=addresses)
def test_spinning_lanes(size, offsets):
    address = warp([4 * each if each >= 0 else -1 for each in offsets], size)
    mask = sum(1 << lane for lane in range(32) if address[lane] >= 0)
    found = wavefronts(address, size, M.OP_ATOM, M.ATOMIC_CAST_SPIN)
    winners, total, ideal = coalescer.spin_winners(address, np.zeros((160, 2), np.int64), mask, size, 32, 2)
    assert (found.total, found.ideal) == (total, ideal)
    assert sum(1 << int(lane) for lane in np.flatnonzero(found.first[:, 0] >= 0)) == winners
    check(found, address, size, spin=True)


@pytest.mark.parametrize("operation", (M.OP_LOAD, M.OP_STORE))
@pytest.mark.parametrize("size", (1, 2, 4, 8, 16))
@given(offsets=addresses)
def test_plain_accesses(operation, size, offsets):
    address = warp([4 * each if each >= 0 else -1 for each in offsets], size)
    mask = sum(1 << lane for lane in range(32) if address[lane] >= 0)
    found = wavefronts(address, size, operation)
    touched = np.zeros((160, 2), np.int64)
    load = operation == M.OP_LOAD
    counted = coalescer.shared_wavefronts(address, touched, mask, size, 32, 2, load)
    assert (found.total, found.ideal) == counted[:2]
    check(found, address, size)


def test_matrix_rows_are_a_pass_each():
    """Rows of 16 bytes, 128 bytes apart: eight lanes of a matrix in the same four banks; and side by side."""
    apart = np.array([128 * lane if lane < 16 else -1 for lane in range(32)], np.int64)
    assert (wavefronts(apart, 16, M.OP_LDSM).total, wavefronts(apart, 16, M.OP_LDSM).ideal) == (16, 2)
    assert wavefronts(16 * np.arange(32), 16, M.OP_LDSM).total == 4


def test_excessive_wavefronts_are_the_later_ones_of_each_pass():
    """16 bytes a lane, every quarter of the warp in the same two places of the banks: twice as long as need be."""
    address = 16 * np.arange(32) * 2
    found = wavefronts(address, 16, M.OP_STORE)
    assert found.starts == (0, 2, 4, 6)
    assert found.excessive.tolist() == [False, True] * 4


def test_a_bank_says_whom_it_serves():
    found = wavefronts(np.where(np.arange(32) < 16, 0, 128), 4, M.OP_LOAD)
    assert found.lanes_of(0, 0) == list(range(16))
    assert found.lanes_of(1, 0) == list(range(16, 32))
    assert found.lanes_of(0, 1) == []


@pytest.mark.parametrize("size", (1, 4, 8, 16))
@given(offsets=addresses)
def test_sectors_and_lines(size, offsets):
    address = warp([16 * each if each >= 0 else -1 for each in offsets], size)
    mask = sum(1 << lane for lane in range(32) if address[lane] >= 0)
    found = sectors(address, size)
    lines, total = coalescer.coalesce(np.maximum(address, 0), np.zeros((160, 2), np.int64), mask, size)
    assert (len(found.lines), found.total) == (lines, total)
    for lane in np.flatnonzero(address >= 0).tolist():
        row = int(np.flatnonzero(found.lines == address[lane] // 128 * 128)[0])
        word = int(address[lane]) % 128 // 4
        assert found.lane[row, word] <= lane
        if size <= 4:
            assert found.lanes[row, word] == ((address // 4 == address[lane] // 4) & (address >= 0)).sum()
    assert found.asked == size * (address >= 0).sum()


def test_local_memory_is_interleaved():
    same = sectors(np.full(32, 8, np.int64), 4, local=True)
    assert same.lines.tolist() == [2 * 128]
    assert same.lane.tolist() == [list(range(32))]
    assert sectors(4 * np.arange(32), 4, local=True).total == 32
    assert len(sectors(np.full(32, 8, np.int64), 8, local=True).lines) == 2


def test_nobody_has_a_part():
    with pytest.raises(NotServed):
        wavefronts(np.full(32, -1), 4, M.OP_LOAD)
    with pytest.raises(NotServed):
        sectors(np.full(32, -1), 4)
