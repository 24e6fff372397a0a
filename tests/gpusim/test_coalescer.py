"""Addresses to wavefronts, lines and sectors: an H200's counters replayed, an obvious oracle, and laws."""

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim
from gpusim.engine.sm import coalescer
from tests.gpusim.ptx import Bodies

RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "data/h200_patterns.json.gz").read_bytes()))
BANKS, BANK_SHIFT = 32, 2
ALL = 0xFFFFFFFF

#: Rows of the recording whose requests the rule for atomics does not give, by position in "global". Atomics to many
#: scattered lines send one to four requests more on the hardware than lines and equal addresses ask for.
KNOWN_GAPS = 8

word_address = st.integers(0, 511).map(lambda word: 4 * word)
lanes32 = st.lists(word_address, min_size=32, max_size=32)
masks = st.integers(1, ALL)


def scratch():
    return np.zeros((160, 3), np.int64)


def warp(offsets, size=4):
    """(addresses, mask) of 32 byte offsets, aligned to `size`; a negative one stands for an inactive lane."""
    address = np.array([max(offset, 0) // size * size for offset in offsets], np.int64) + 1024
    return address, sum(1 << lane for lane, offset in enumerate(offsets) if offset >= 0)


def shared(operation, size, address, mask, banks=BANKS, bank_shift=BANK_SHIFT):
    """What the load/store unit asks for an operation."""
    if operation in ("load", "store", "popc_inc"):
        load = operation == "load"
        return coalescer.shared_wavefronts(address, scratch(), mask, size, banks, bank_shift, load)
    cost = 2 if operation == "cas" else 1
    return coalescer.shared_turns(address, scratch(), mask, size, banks, bank_shift, cost)


def degree(address, lanes, words, banks=BANKS, bank_shift=BANK_SHIFT):
    """Oracle: most different words in one bank."""
    wanted = {(address[lane] >> bank_shift) + k for lane in lanes for k in range(words)}
    return max(Counter(word % banks for word in wanted).values(), default=0)


def test_recorded_shared_memory():
    """Every recorded load, store and atomic: source counters, data-pipe wavefronts and conflicts."""
    for operation, size, lanes, *expected in RECORDED["shared"]:
        address, mask = warp(RECORDED["lanes"][lanes])
        assert list(shared(operation, size, address, mask)) == expected, (operation, size, address)
    assert len(RECORDED["shared"]) > 900


@pytest.mark.parametrize("size", (4, 8))
def test_recorded_loops_of_cast_spin(size):
    """The compiler's loop of load, add, CAST.SPIN: who wins each round decides the counters of all rounds."""
    launches = [row for row in RECORDED["spin"] if row[0] == size]
    assert len(launches) > 15
    for _, lanes, *expected in launches:
        address, mask = warp(RECORDED["lanes"][lanes])
        memory = dict.fromkeys(address.tolist(), 0)
        totals = np.zeros(4, int)
        while mask:
            wavefronts, ideal, pipe, _ = shared("load", size, address, mask)
            winners, spin, spin_ideal = coalescer.spin_winners(address, scratch(), mask, size, BANKS, BANK_SHIFT)
            totals += (wavefronts + spin, ideal + spin_ideal, pipe, spin)
            seen = {lane: memory[int(address[lane])] for lane in range(32) if winners >> lane & 1}
            for lane, old in seen.items():
                if memory[int(address[lane])] == old:
                    memory[int(address[lane])] += int(address[lane]) - 1024
                    mask &= ~(1 << lane)
        assert totals.tolist() == expected, address


def test_recorded_global_memory():
    """Tags and sectors of every recorded access, and the requests and sectors that reach L2."""
    gaps = 0
    for operation, size, lanes, tags, sectors, ideal, requests, moved in RECORDED["global"]:
        address, mask = warp(RECORDED["lanes"][lanes])
        found = coalescer.coalesce(address, scratch(), mask, size)
        assert found == (tags, sectors)
        assert min(sectors, (mask.bit_count() * size + 31) // 32) == ideal
        if operation not in ("load", "store"):
            found = coalescer.atomic_requests(address, scratch(), mask, operation == "cas")
            gaps += found != (requests, moved)
        else:
            assert found == (requests, moved)
    assert gaps == KNOWN_GAPS, "the rule for scattered atomics has changed: write down the new number"
    assert len(RECORDED["global"]) > 350


@given(lanes32, masks, st.sampled_from((1, 2, 4, 8, 16)), st.sampled_from((1, 8, 16, 32, 64)), st.sampled_from((2, 3)))
def test_in_which_bank_an_access_begins_changes_no_cost(offsets, mask, size, banks, bank_shift):
    """Which is why `lsu.pattern_place` does not ask."""
    address, _ = warp(offsets, size)
    costs = [
        coalescer.shared_wavefronts(address + further, scratch(), mask, size, banks, bank_shift, True)
        for further in max(1 << bank_shift, size) * np.array((0, 1, 5, 30, 31))
    ]
    assert len(set(costs)) == 1


@given(lanes32, masks, st.sampled_from((1, 2, 4)), st.sampled_from((16, 24, 31, 32, 64, 128)), st.sampled_from((2, 3)))
def test_degree_is_the_most_wanted_bank(offsets, mask, words, banks, bank_shift):
    """Any number of banks of 4 or 8 bytes, against the oracle; wide accesses want consecutive words."""
    address, _ = warp(offsets, 4 * words)
    first, end = (0, 32) if words == 1 else (8, 16)
    active = [lane for lane in range(first, end) if mask >> lane & 1]
    found = coalescer.bank_degree(address, scratch(), mask, first, end, words, banks, bank_shift)
    assert found == degree(address, active, words, banks, bank_shift)


@given(lanes32, masks, st.permutations(range(32)))
def test_permuting_lanes_keeps_the_degree(offsets, mask, order):
    address, _ = warp(offsets)
    moved = sum((mask >> lane & 1) << position for position, lane in enumerate(order))
    for operation in ("load", "store", "add"):
        assert shared(operation, 4, address, mask) == shared(operation, 4, address[list(order)].copy(), moved)


@given(masks, word_address, st.sampled_from((1, 2, 4, 8, 16)))
def test_one_address_for_all(mask, offset, size):
    """A broadcast takes one wavefront (two of 16 bytes across the halves), an atomic as many turns as lanes."""
    address, _ = warp([offset] * 32, size)
    wavefronts, ideal, pipe, conflicts = shared("load", size, address, mask)
    halves = (1 if mask & 0xFFFF else 0) + (1 if mask >> 16 else 0)
    expected = halves if size == 16 else 1
    assert wavefronts == pipe == expected and conflicts == 0
    assert ideal == min(expected, -(-size * mask.bit_count() // 128))  # what the bytes alone need
    if size in (4, 8):
        turns = mask.bit_count()
        assert shared("add", size, address, mask)[2] == turns
        assert shared("cas", size, address, mask)[2] == 2 * turns
    assert coalescer.coalesce(address, scratch(), mask, size) == (1, 1)
    assert coalescer.atomic_requests(address, scratch(), mask, False) == (mask.bit_count(), mask.bit_count())


@given(lanes32, masks, st.sampled_from((4, 8, 16)), st.sampled_from(("load", "store")))
def test_hardware_never_needs_more_than_separate_passes(offsets, mask, size, operation):
    address, _ = warp(offsets, size)
    wavefronts, ideal, pipe, conflicts = shared(operation, size, address, mask)
    assert 1 <= ideal <= wavefronts
    assert 0 <= conflicts < pipe <= shared("store", size, address, mask)[2]


def test_wider_data_path_takes_fewer_passes():
    """Contiguous 16-byte accesses fill 64 banks half as often as 32, whatever the width of a bank."""
    address, _ = warp([16 * lane for lane in range(32)])
    assert [shared("store", 16, address, ALL, banks)[0] for banks in (16, 32, 64)] == [8, 4, 2]
    assert shared("store", 16, address, ALL, 32, 3)[0] == 2


@given(st.lists(st.integers(0, 1 << 14), min_size=32, max_size=32), masks, st.sampled_from((1, 4, 8, 16)))
def test_lines_and_sectors_are_those_touched(offsets, mask, size):
    address, _ = warp(offsets, size)
    touched = scratch()
    lines, sectors = coalescer.coalesce(address, touched, mask, size)
    wanted = {int(address[lane]) >> 5 for lane in range(32) if mask >> lane & 1}
    listed = {4 * int(line) + k for line, part, _ in touched[:lines] for k in range(4) if part >> k & 1}
    assert listed == wanted and sectors == len(wanted)
    assert len(set(touched[:lines, 0].tolist())) == lines


@given(lanes32, masks, st.booleans())
def test_atomic_requests_serve_every_lane_once(offsets, mask, swap):
    """As many requests name a sector as its busiest address has lanes; different addresses share."""
    address, _ = warp(offsets)
    touched = scratch()
    requests, sectors = coalescer.atomic_requests(address, touched, mask, swap)
    active = [int(address[lane]) for lane in range(32) if mask >> lane & 1]
    lanes_on = Counter(active)
    sent = Counter(4 * int(line) + k for line, part, _ in touched[:requests] for k in range(4) if part >> k & 1)
    assert sent == {s: max(lanes_on[a] for a in lanes_on if a >> 5 == s) for s in {a >> 5 for a in active}}
    assert sectors == sent.total()
    if swap:  # two operands a lane: a request covers half a line
        assert all(part < 4 or part & 3 == 0 for part in touched[:requests, 1])


BROADCASTS = Bodies(
    {
        "shared": """mov.u32 t6,room; ld.volatile.shared.v4.u32 {v0,v1,v2,v3},[t6];
        st.global.v4.u32 [%mine],{v0,v1,v2,v3};""",
        "generic": """mov.u32 t6,room; cvt.u64.u32 x6,t6; cvta.shared.u64 x6,x6; ld.global.u64 x7,[%from];
        add.u64 x6,x6,x7; ld.volatile.v4.u32 {v0,v1,v2,v3},[x6]; st.global.v4.u32 [%mine],{v0,v1,v2,v3};""",
    }
)


@pytest.mark.parametrize(("address", "wavefronts"), [("shared", 2), ("generic", 4)])
def test_a_broadcast_of_16_bytes(toolchain, address, wavefronts):
    """An H100 counts so: what is loaded by a generic address, here one that the compiler cannot know, is not merged."""
    arrays = np.zeros(128, np.uint32), np.zeros(128, np.uint32)
    result = gpusim.simulate(BROADCASTS[address], 1, 32, arrays, "h100")
    assert result.metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == wavefronts
