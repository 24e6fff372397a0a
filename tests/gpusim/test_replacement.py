"""Which line of a cache goes: hits of L1 and L2 against a model of one set, for sequences made by chains of loads."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.config import load_config
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.state import memory as ms
from tests.gpusim.line_places import map_lines
from tests.gpusim.memory_requests import answer
from tests.gpusim.parameter_kernels import program, run
from tests.gpusim.parameter_rows import l1_hits

WAYS = 8
POLICIES = ("lru", "fifo", "random")
#: One set of eight lines: all of L1 that shared memory leaves.
ONE_SET_L1 = {
    "l1.ways": WAYS,
    "l1.reserved_lines": 0,
    "sm.shared_capacities_bytes": [233472],
    "sm.unified_l1_bytes": 233472 + 128 * WAYS,
    "l2.fetch_bytes": 32,
}
#: One set of eight lines for each of two slices.
ONE_SET_L2 = {"l2.slices": 2, "l2.ways": WAYS, "l2.bytes": 2 * WAYS * 128, "l2.fetch_bytes": 32}
VISITS = 8  # of a line at most, each at another word of its first sector


def hits_of(sequence, policy, ways=WAYS):
    """Hits of one set of `ways` lines: the list is in the order in which lines go."""
    held: list[int] = []
    hits = 0
    for line in sequence:
        if line in held:
            hits += 1
            if policy == "lru":
                held.remove(line)
                held.append(line)
        else:
            if len(held) == ways:
                held.pop(0)
            held.append(line)
    return hits


def hits_of_protected(sequence, ways=WAYS):
    """Hits of one set that never gives up the line that was found last: it is the last of the list while it is that."""
    held: list[int] = []
    last = None
    hits = 0
    for line in sequence:
        if line in held:
            hits += 1
            if last not in (None, line):
                held.remove(last)
                held.append(last)
            held.remove(line)
            held.append(line)
            last = line
        else:
            if len(held) == ways:
                held.remove(next(each for each in held if each != last))
            held.append(line)
    return hits


def sequences():
    """Lines in turn, as many as there are ways, one more and half as many more; then some at random."""
    yield [k % WAYS for k in range(4 * WAYS)]
    yield [k % (WAYS + 1) for k in range(4 * WAYS)]
    yield [k % (WAYS + WAYS // 2) for k in range(5 * WAYS)]
    for seed in range(6):
        rng = np.random.default_rng(seed)
        lines = int(rng.integers(WAYS // 2, 3 * WAYS))
        visits = np.repeat(np.arange(lines), rng.integers(1, VISITS + 1, lines))
        yield rng.permutation(visits).tolist()


def chain(sequence):
    """`next` of a chain of loads that visits lines in this order."""
    visited: dict[int, int] = {}
    words = []
    for line in sequence:
        words.append(32 * line + visited.get(line, 0))
        visited[line] = visited.get(line, 0) + 1
    following = np.zeros(32 * (max(sequence) + 1), np.uint32)
    following[words[:-1]] = words[1:]
    return following, words[0]


def hits_in_l1(sequence, policy):
    following, first = chain(sequence)
    arguments = (np.zeros(32, np.uint32), following, np.int32(len(sequence)), np.int32(0))
    assert first == 0
    changes = {**ONE_SET_L1, "l1.replacement": policy}
    return l1_hits(gpusim.simulate(program("chase"), 1, 1, arguments, "tiny", overrides=changes))


def hits_in_l2(sequence, policy):
    """Reads of one sector each, one after the other, of lines that live in one slice."""
    config = load_config("tiny", {**ONE_SET_L2, "l2.replacement": policy})
    system = MemorySystem(config, 1)
    lines = np.arange(1 << 20, (1 << 20) + 1024)
    lines = lines[map_lines(system.state, lines)[:, 1] == 0]
    request = np.zeros((1, 1, ms.REQ_FIELDS), np.int64)
    for k, line in enumerate(sequence):
        request[0, 0, [ms.REQ_TIME, ms.REQ_LINE, ms.REQ_SECTORS]] = 10_000 * k, lines[line], 1
        answer(system.state, request, np.ones(1, np.int64), np.zeros((1, ms.ORDER_WORDS), np.int64))
    return int(system.counters[ms.CNT_TEX_HIT_SECTORS])


def from_zero(sequence):
    """The same sequence with lines numbered as they come."""
    numbers = {line: n for n, line in enumerate(dict.fromkeys(sequence))}
    return [numbers[line] for line in sequence]


@pytest.mark.parametrize("policy", POLICIES[:2])
@pytest.mark.parametrize("hits", [hits_in_l1, hits_in_l2])
def test_hits_are_those_of_the_policy(hits, policy):
    for sequence in map(from_zero, sequences()):
        assert hits(sequence, policy) == hits_of(sequence, policy), sequence


def test_the_line_that_l1_found_last_stays():
    """H200: lines that come once push out far fewer of those that come again than by age alone (`note_use`)."""
    again = [line for k in range(20) for line in (0, 0, *range(1 + 9 * k, 10 + 9 * k))]
    for sequence in map(from_zero, (again[: 4 * 11], *sequences())):
        assert hits_in_l1(sequence, "slru") == hits_of_protected(sequence), sequence
    assert hits_of_protected(again) > hits_of(again, "lru")


def test_the_policies_differ_on_these_sequences():
    found = [(hits_of(each, "lru"), hits_of(each, "fifo")) for each in sequences()]
    assert sum(lru != fifo for lru, fifo in found) >= 3


@pytest.mark.parametrize("hits", [hits_in_l1, hits_in_l2])
def test_what_thrashes_in_turn_partly_stays_at_random(hits):
    """Of nine lines in turn eight ways keep none by age; at random a line survives most of the misses between its
    uses. What fits is never replaced, whatever the policy."""
    in_turn = [k % (WAYS + 1) for k in range(8 * (WAYS + 1))]
    assert hits(in_turn, "lru") == hits(in_turn, "fifo") == 0
    assert len(in_turn) / 4 < hits(in_turn, "random") < len(in_turn) - WAYS - 1
    assert hits(in_turn, "random") == hits(in_turn, "random")
    fits = [k % WAYS for k in range(8 * WAYS)]
    assert {hits(fits, policy) for policy in POLICIES} == {7 * WAYS}


def test_whole_sectors_that_are_stored_are_in_l1_if_stores_allocate():
    """Of 128 threads each stores and loads a word, eight times in different lines: all sectors are whole."""
    without, allocating = (l1_hits(run("reread", {"l1.write_allocate": each})) for each in (False, True))
    assert (without, allocating) == (0, 8 * 128 * 4 // 32)


@pytest.mark.parametrize(("allocates", "hits"), [(True, 8), (False, 4)])
def test_a_part_of_a_sector_that_is_stored_is_there_for_who_loads_it(allocates, hits):
    arguments = np.zeros(32, np.uint32), np.int32(8)
    result = gpusim.simulate(program("reread"), 1, 4, arguments, "tiny", overrides={"l1.write_allocate": allocates})
    # Two rounds of four words share a sector. Without allocation the first one's load brings it.
    assert l1_hits(result) == hits


def own_part(data, words, out):
    """Each block reads its own `words` words."""
    total = np.float32(0)
    for k in range(cuda.threadIdx.x, words, cuda.blockDim.x):
        total += data[cuda.blockIdx.x * words + k]
    if total != 0:
        out[0] = total


def test_sms_find_their_own_parts_of_most_of_l2_in_the_end():
    """Of 5.5 MiB through 7.5: copies are replaced as home lines are, so that both together need 8.25. But homes age
    while copies are read, and in the end each line is there once. An H200's SMs read up to 48 MB of 60 MiB so."""
    words = (11 << 19) // 4 // 132 // 1024 * 1024
    with gpusim.Device("h200", overrides={"l2.bytes": 15 << 19}) as device:
        arguments = device.device_array(132 * words, np.float32), words, device.device_array(1, np.float32)
        results = [device.launch(own_part, 132, 1024, arguments, 200_000) for _ in range(3)]
        read = [result.metrics["dram__bytes_read.sum"] / arguments[0].nbytes for result in results]
    assert read[0] > 1
    assert read[1] > 0.05
    assert read[2] < 0.005
