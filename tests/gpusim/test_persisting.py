"""What L2 keeps when it is told to: classes of lines in one set, policies, windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.config import load_config
from gpusim.engine.memory.policy import class_of
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.state import memory as ms
from gpusim.errors import LaunchError
from gpusim.launch.launch import AccessWindow
from tests.gpusim.line_places import map_lines
from tests.gpusim.memory_requests import answer

WAYS = 8
ONE_SET = {"l2.slices": 2, "l2.ways": WAYS, "l2.bytes": 2 * WAYS * 128, "l2.fetch_bytes": 32}
ONE_SET |= {"l2.persisting_share": 0.5}
KEPT = WAYS // 2
FIRST, LAST, NORMAL = 0x12F << 20, 0x14F << 20, 0x16F << 20
"""Policies: all lines go first, persist, are normal."""


class OneSet:
    """A set of eight lines, half of which may persist, and reads of lines that lie in it, by number."""

    def __init__(self, set_aside: int = KEPT, **overrides):
        self.system = MemorySystem(load_config("tiny", ONE_SET | overrides), 1)
        self.system.set_aside(set_aside * 2 * 128)
        lines = np.arange(1 << 20, (1 << 20) + 1024)
        self.lines = lines[map_lines(self.system.state, lines)[:, 1] == 0]
        self.time = 0

    def read(self, number: int, policy: int = 0, kind: int = ms.KIND_READ) -> bool:
        """Whether a read of one sector hits."""
        request = np.zeros((1, 1, ms.REQ_FIELDS), np.int64)
        self.time += 10_000
        request[0, 0, [ms.REQ_TIME, ms.REQ_LINE, ms.REQ_SECTORS]] = self.time, self.lines[number], 1
        request[0, 0, [ms.REQ_KIND, ms.REQ_OPS, ms.REQ_PAYLOAD_BYTES]] = kind, policy, 32
        before = self.system.counters[ms.CNT_TEX_MISS_SECTORS]
        answer(self.system.state, request, np.ones(1, np.int64), np.zeros((1, ms.ORDER_WORDS), np.int64))
        return bool(self.system.counters[ms.CNT_TEX_MISS_SECTORS] == before)

    def reads(self, *numbers: int, policy: int = 0) -> list[bool]:
        return [self.read(number, policy) for number in numbers]

    def window(self, count: int, **how) -> None:
        """A window over the first so many lines."""
        first = int(self.lines[0]) * 128
        self.system.set_window(AccessWindow(first, int(self.lines[count - 1]) * 128 + 128 - first, **how))


def test_what_is_to_go_first_goes_before_what_is_older():
    cache = OneSet()
    cache.reads(*range(WAYS - 1))
    cache.reads(*range(100, 110), policy=FIRST)
    assert all(cache.reads(*range(WAYS - 1)))
    cache.read(50)
    assert not any(cache.reads(*range(100, 110), policy=FIRST))


@pytest.mark.parametrize("set_aside", range(KEPT + 1))
def test_as_many_of_what_persists_as_are_set_aside_and_one_at_least_outlive_a_stream(set_aside):
    cache = OneSet(set_aside)
    cache.reads(*range(KEPT + 1), policy=LAST)
    cache.reads(*range(100, 100 + 3 * WAYS))
    kept = max(set_aside, 1)
    assert cache.reads(*range(KEPT + 1)) == [False] * (KEPT + 1 - kept) + [True] * kept


def test_less_room_makes_the_oldest_normal():
    cache = OneSet()
    cache.reads(*range(KEPT), policy=LAST)
    cache.system.set_aside(2 * 2 * 128)
    cache.reads(*range(100, 100 + 3 * WAYS))
    assert cache.reads(*range(KEPT)) == [False, False, True, True]


def test_what_is_set_aside_serves_other_lines_while_nothing_persists():
    cache = OneSet()
    cache.reads(*range(WAYS))
    assert all(cache.reads(*range(WAYS)))


def test_a_reset_makes_lines_normal_and_loses_none():
    cache = OneSet()
    cache.reads(*range(KEPT), policy=LAST)
    cache.system.reset_persisting()
    assert all(cache.reads(*range(KEPT)))
    cache.reads(*range(100, 100 + WAYS))
    assert not any(cache.reads(*range(KEPT)))


def test_what_persists_does_so_until_an_access_says_normal():
    for policy, stays in ((0, True), (NORMAL, False), (FIRST, True), (0x10F << 20, True)):
        cache = OneSet()
        cache.read(0, LAST)
        cache.read(0, policy)
        cache.reads(*range(100, 100 + 2 * WAYS))
        assert cache.read(0) == stays, hex(policy)


@pytest.mark.parametrize("kind", [ms.KIND_WRITE, ms.KIND_READ_STRONG])
def test_stores_and_strong_loads_have_policies_too(kind):
    cache = OneSet()
    cache.read(0, LAST, kind)
    cache.reads(*range(100, 100 + 2 * WAYS))
    assert cache.read(0)


def test_a_window_keeps_the_share_of_its_lines_that_it_is_told_and_always_the_same():
    found = []
    for _ in range(2):
        system = MemorySystem(load_config("tiny"), 1)
        system.set_aside(system._config.l2.persisting_max_bytes)
        system.set_window(AccessWindow(1 << 27, 2048 * 128, 0.25))
        request = np.zeros((1, 2048, ms.REQ_FIELDS), np.int64)
        request[0, :, ms.REQ_LINE] = (1 << 20) + np.arange(2048)
        request[0, :, [ms.REQ_TIME, ms.REQ_SECTORS]] = 1000 * np.arange(2048), np.full(2048, 15)
        answer(system.state, request, np.full(1, 2048), np.zeros((2048, ms.ORDER_WORDS), np.int64))
        state = system._lines[:, 0]
        assert ((state >> ms.TAG_SHIFT != 0) == (state & (ms.KEPT | ms.FIRST) != 0)).all()  # the others are streaming
        found.append(state & ms.KEPT != 0)
    assert (found[0] == found[1]).all()
    assert found[0].sum() == pytest.approx(2048 * 5 / 16, rel=0.15)  # a sixteenth more, as on an H200


def test_a_policy_of_a_range_means_its_blocks():
    """10 MB of 20 MB from 1 MB on, in blocks of 256 KB: what createpolicy makes of these."""
    policy = 0x1C6 << 20 | (4 & 127) << 12 | 40 << 5
    state = MemorySystem(load_config("tiny"), 1).state
    megabyte = 1 << 13
    found = [class_of(state, np.int64(mb * megabyte), np.int64(policy)) for mb in (0, 1, 5, 10, 11, 20)]
    assert found == [ms.CLASS_SAME, *[ms.CLASS_LAST] * 3, *[ms.CLASS_SAME] * 2]


@given(st.lists(st.integers(0, 2 * WAYS), min_size=1, max_size=60), st.integers(1, KEPT))
def test_a_persisting_window_that_fits_never_lowers_its_own_hits(sequence, size):
    """Law: lines of a window that has room in what is set aside hit at least as often as without it."""
    hits = []
    for windowed in (False, True):
        cache = OneSet()
        if windowed:
            cache.window(size)
        hits.append(sum(cache.read(number) and number < size for number in sequence))
    assert hits[1] >= hits[0]


def test_room_is_set_aside_in_ways_and_not_beyond_the_most():
    system = MemorySystem(load_config("tiny"), 1)
    l2 = system._config.l2
    way = l2.bytes // l2.ways
    assert system.set_aside(1) == way
    assert system.set_aside(l2.persisting_max_bytes) == l2.persisting_max_bytes
    with pytest.raises(LaunchError, match="to set aside"):
        system.set_aside(l2.persisting_max_bytes + 1)


@pytest.mark.parametrize(
    "wrong", [{"nbytes": 0}, {"nbytes": 1 << 40}, {"hit_ratio": 1.5}, {"hit": "sticky"}, {"miss": "persisting"}]
)
def test_windows_that_no_gpu_takes_are_refused(wrong):
    with pytest.raises(LaunchError, match="an access window with"):
        AccessWindow(**({"address": 0, "nbytes": 128} | wrong)).check(load_config("tiny"))
