"""Device memory: contents survive, stale and stray addresses are found, errors say what lies near."""

import ctypes
import itertools
import resource
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.errors import MemoryAccessError, OutOfDeviceMemory
from gpusim.launch.arena import Arena
from gpusim.launch.device_array import DeviceArray
from gpusim.launch.memory import ALIGNMENT, BASE, GUARD_BYTES, DeviceMemory, span


def contains(memory, address, size=1):
    """The check that compiled code makes, on the tables alone."""
    tables = memory.tables()
    index = np.searchsorted(tables.starts, address, side="right") - 1
    return bool(index >= 0 and address + size <= tables.ends[index])


def test_what_was_uploaded_is_there():
    memory = DeviceMemory()
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    address = memory.upload(data, "data")
    assert address % ALIGNMENT == 0 and address > BASE
    np.testing.assert_array_equal(memory.array(address, np.float32, (2, 3, 4)), data)
    np.testing.assert_array_equal(memory.array(address, np.float32, (24,)), data.ravel())
    tables = memory.tables()
    np.testing.assert_array_equal(tables.arena[address - tables.base :][: data.nbytes], data.view(np.uint8).ravel())


def test_descriptions():
    memory = DeviceMemory()
    address = memory.alloc(40_000, "c")
    assert memory.describe(address + 40_004) == "4 bytes past the end of 'c' (40,000 bytes)"
    assert memory.describe(address + 40_000) == "just past the end of 'c' (40,000 bytes)"
    assert memory.describe(address - 1) == "1 byte before the start of 'c' (40,000 bytes)"
    assert memory.describe(address + 8) == "byte 8 of 'c' (40,000 bytes)"
    assert memory.describe(address + 39_998, 4) == (
        "from 2 bytes before the end of 'c' (40,000 bytes) to 2 bytes past it"
    )
    assert memory.describe(0) == "a null pointer"
    assert memory.describe(16) == "a null pointer plus 16 bytes"
    assert memory.describe(1 << 20) == "not an address of device memory"
    memory.free(address)
    assert memory.describe(address + 8) == "byte 8 of 'c' (40,000 bytes, freed)"
    assert DeviceMemory().describe(BASE) == "no allocation is near"
    one = memory.alloc(1)
    assert memory.describe(one).endswith("(1 byte)") and "'allocation 2'" in memory.describe(one)
    other = memory.alloc(16, "other")
    assert "'other'" in memory.describe(other + 400)
    assert memory.describe(other + 400, 4, [1, one]).endswith("past the end of 'allocation 2' (1 byte)")
    assert memory.describe(other + 8, 4, [one]) == "byte 8 of 'other' (16 bytes)"


def test_between_two_allocations_both_are_named_if_both_are_near():
    memory = DeviceMemory()
    a, b = memory.alloc(400, "a"), memory.alloc(400, "b")
    assert memory.describe(a + 410) == "10 bytes past the end of 'a' (400 bytes)"
    other = f"{b - 1100 - a - 400:,} bytes past the end of 'a' (400 bytes)"
    assert memory.describe(b - 1100) == f"1,100 bytes before the start of 'b' (400 bytes) and {other}"
    assert [each.label for each in memory.near(b - 1100)] == ["b", "a"]
    assert [each.label for each in memory.near(a + 399)] == ["a"] and memory.near(BASE - 1) == []


def test_an_allocation_can_be_put_where_it_was():
    old = DeviceMemory(base=BASE + (1 << 32))
    kept, freed = old.alloc(1000, "kept"), old.alloc(10, "freed")
    last = old.alloc(8, "last")
    old.free(freed)
    memory = DeviceMemory(base=old.base)
    for address, nbytes in ((last, 8), (kept, 1000)):
        assert memory.alloc(nbytes, at=address) == address
    memory.next_address = old.next_address
    assert memory.alloc(4) == old.alloc(4)
    for bad in (kept, kept + 999, kept - 1, last, old.base - 8, old.base + (1 << 40)):
        with pytest.raises(ValueError):
            memory.alloc(2, at=bad)


def test_what_was_never_written_is_passed_over():
    memory = DeviceMemory(undoable=True)
    address = memory.alloc(100 << 20)
    memory.fill(address + (50 << 20), 1, 7)
    found = memory.next_written(address)
    assert found <= address + (50 << 20) and memory.next_written(address + (50 << 20)) == address + (50 << 20)
    if Arena(1, undoable=True).can_keep:
        assert found > address + (49 << 20) and memory.next_written(address + (51 << 20)) > address + (100 << 20)


@pytest.mark.parametrize("followed", [True, False])
def test_a_trial_leaves_nothing_but_what_is_known(followed):
    memory = DeviceMemory(undoable=True, follow_contents=followed)
    address = memory.upload(np.arange(4))
    memory.forget(address, 32)
    before = memory.allocations
    with memory.undone():
        memory.fill(address, 8, 9)
        memory.alloc(100)
    np.testing.assert_array_equal(memory.array(address, np.int64, (4,)), np.arange(4))
    assert memory.allocations == before
    unknown = memory.tables().unknown[address - BASE :][:32]
    if followed:
        assert unknown.tolist() == [0] * 8 + [1] * 24
        with pytest.raises(KeyError), memory.undone():
            memory.fill(address, 32)
            raise KeyError
        assert unknown.tolist() == [0] * 8 + [1] * 24
        memory.know_all()
        assert not unknown.any()


def test_use_after_free_and_double_free():
    memory = DeviceMemory()
    address = memory.alloc(8, "a")
    memory.free(address)
    assert not contains(memory, address)
    with pytest.raises(MemoryAccessError, match=r"use after free.*'a' \(8 bytes, freed\)"):
        memory.view(address, 4)
    with pytest.raises(MemoryAccessError, match="double free"):
        memory.free(address)
    inner = memory.alloc(8)
    assert inner != address, "a freed range is not handed out again"
    with pytest.raises(MemoryAccessError, match="never allocated"):
        memory.free(inner + 4)


def test_empty_allocations():
    memory = DeviceMemory()
    a, b = memory.alloc(0, "none"), memory.alloc(0)
    assert a != b
    assert not contains(memory, a)
    assert memory.view(a, 0).size == 0
    assert memory.array(memory.upload(np.empty((0, 3))), np.float64, (0, 3)).shape == (0, 3)
    assert memory.describe(a) == "just past the end of 'none' (0 bytes)"
    memory.free(a)
    with pytest.raises(MemoryAccessError):
        memory.view(a, 0)


def test_capacity_and_reuse_under_pressure():
    memory = DeviceMemory(capacity_bytes=1 << 20)
    with pytest.raises(OutOfDeviceMemory, match="1,048,577 bytes for 'big'"):
        memory.alloc((1 << 20) + 1, "big")
    first = memory.alloc(1 << 20)
    with pytest.raises(OutOfDeviceMemory):
        memory.alloc(1)
    memory.free(first)
    seen = {first}
    for _ in range(10):
        address = memory.alloc(1 << 20)
        assert contains(memory, address, 1 << 20)
        seen.add(address)
        memory.free(address)
    assert 2 <= len(seen) < 11, "reused only when fresh addresses have run out"
    assert memory.used_bytes == 0


def test_memory_costs_what_is_written():
    def resident_bytes():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    memory, content = DeviceMemory(capacity_bytes=141_000_000_000), np.ones(1 << 23, dtype=np.uint8)
    before = resident_bytes()
    memory.alloc(1 << 34)
    address = memory.upload(content)
    assert resident_bytes() - before < 1.5 * (1 << 23)
    memory.free(address)
    assert resident_bytes() - before < 0.5 * (1 << 23), "freed pages go back to the host"


KEEPS = pytest.mark.parametrize("undoable", [True, False])
"""Whether pages are copied when written, or everything at once as where the host cannot do that."""


@KEEPS
@pytest.mark.parametrize("followed", [True, False])
def test_what_fails_is_undone(undoable, followed):
    memory = DeviceMemory(undoable=undoable, follow_contents=followed)
    a, b, c = memory.upload(np.arange(4)), memory.upload(np.ones(300_000)), memory.alloc(8)
    memory.forget(c, 8)
    unknown = memory.tables().unknown
    view, before = memory.view(b, 2_400_000), memory.allocations
    with pytest.raises(KeyboardInterrupt), memory.all_or_nothing():
        memory.fill(a, 32, 9)
        view[1_234_567] = 9
        memory.free(memory.upload(np.ones(1000)))
        memory.free(a)
        memory.fill(c, 8)
        assert memory.view(memory.alloc(100), 100).sum() == 0
        raise KeyboardInterrupt
    assert memory.allocations == before and memory.tables().starts.tolist() == [a, b, c]
    np.testing.assert_array_equal(memory.array(a, np.int64, (4,)), np.arange(4))
    np.testing.assert_array_equal(memory.array(b, np.float64, (300_000,)), np.ones(300_000))
    assert unknown.size == 1 or unknown[c - BASE :][:8].all()
    assert memory.alloc(8) not in (a, b, c)


@KEEPS
def test_what_ends_well_stays(undoable):
    memory = DeviceMemory(undoable=undoable)
    a, b = memory.upload(np.arange(4)), memory.upload(np.ones(300_000))
    for value in (7, 8):
        with memory.all_or_nothing():
            memory.fill(a, 32, value)
            memory.view(b, 2_400_000)[[0, 1_234_567, 2_399_999]] = value
            new = memory.upload(np.full(10_000, value))
        assert (memory.view(a, 32) == value).all()
        assert np.flatnonzero(memory.view(b, 2_400_000) == value).tolist() == [0, 1_234_567, 2_399_999]
        assert (memory.array(new, np.int64, (10_000,)) == value).all()


@pytest.mark.skipif(not Arena(1, undoable=True).can_keep, reason="the host does not tell written pages")
@pytest.mark.parametrize("unified", [False, True])
def test_only_what_is_written_is_copied(unified):
    memory = DeviceMemory(undoable=True, unified=unified)
    address = memory.upload(np.ones(1 << 26, np.uint8))
    for _ in range(3):
        with memory.all_or_nothing():
            memory.view(address, 1 << 26)[12345] = 2
    assert memory.kept_bytes == 3 * 4096
    with pytest.raises(KeyError), memory.all_or_nothing():
        memory.view(address, 1 << 26)[:2] = 3
        raise KeyError
    assert (memory.view(address, 2) == 1).all() and memory.view(address, 1 << 26)[12345] == 2


def test_device_array():
    memory = DeviceMemory()
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    array = DeviceArray(memory, memory.upload(data), (2, 3), np.int32)
    assert (array.ndim, array.size, array.nbytes, len(array), array.strides) == (2, 6, 24, 2, (12, 4))
    np.testing.assert_array_equal(array.host_view, data)
    memory.free(array.address)
    with pytest.raises(MemoryAccessError, match="use after free"):
        array.host_view.copy()


@given(st.lists(st.one_of(st.integers(0, 5000), st.just("free")), max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_allocations_never_touch(steps, random):
    memory = DeviceMemory(capacity_bytes=20_000)
    contents = {}
    for step in steps:
        if step == "free":
            if contents:
                address = random.choice(sorted(contents))
                del contents[address]
                memory.free(address)
            continue
        if memory.used_bytes + step > memory.capacity_bytes:
            with pytest.raises(OutOfDeviceMemory):
                memory.alloc(step)
            continue
        try:
            address = memory.alloc(step)
        except OutOfDeviceMemory:
            continue  # fragmented: every gap left is too small
        assert address not in contents
        contents[address] = np.frombuffer(random.randbytes(step), dtype=np.uint8)
        memory.view(address, step)[...] = contents[address]
    live = sorted(contents)
    for address in live:
        assert address % ALIGNMENT == 0
        np.testing.assert_array_equal(memory.view(address, contents[address].size), contents[address])
    for left, right in itertools.pairwise(live):
        assert left + contents[left].size + GUARD_BYTES <= right
    assert memory.used_bytes == sum(data.size for data in contents.values())
    np.testing.assert_array_equal(memory.tables().starts, live)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(-3, 3)), max_size=3).map(
        lambda axes: (tuple(n for n, _ in axes), tuple(8 * s for _, s in axes))
    )
)
def test_span_is_what_numpy_touches(axes):
    shape, strides = axes
    offsets = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)]
    assert span(8, shape, strides) == (min(offsets), max(offsets) + 8)


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are chosen on Linux")
def test_unified_memory_has_one_address_on_host_and_device():
    memory = DeviceMemory(1 << 20, unified=True)
    address = memory.upload(np.arange(6, dtype=np.int32), "numbers")
    assert list((ctypes.c_int32 * 6).from_address(address)) == [0, 1, 2, 3, 4, 5]
    ctypes.c_int32.from_address(address + 4).value = 70
    assert memory.array(address, np.int32, (6,)).tolist() == [0, 70, 2, 3, 4, 5]
    assert memory.describe(address + 30) == "6 bytes past the end of 'numbers' (24 bytes)"
    assert memory.tables().base == memory.base <= address


def test_host_memory_can_be_lent_to_a_unified_device():
    memory = DeviceMemory(1 << 20, unified=True)
    own = memory.alloc(64, "own")
    host = np.arange(8.0)
    memory.adopt(host.ctypes.data, host.nbytes, "lent")
    assert memory.array(host.ctypes.data, np.float64, (8,)).tolist() == host.tolist()
    memory.view(host.ctypes.data + 8, 8).view(np.float64)[0] = -1
    assert host[1] == -1
    assert memory.holding(host.ctypes.data + 63).label == "lent"
    assert memory.holding(own + 63).label == "own"
    assert memory.holding(own + 64) is None
    assert list(memory.tables().starts) == sorted([own, host.ctypes.data])
    with pytest.raises(ValueError, match="known to the device"):
        memory.adopt(host.ctypes.data + 32, 64, "again")
    used = memory.used_bytes
    memory.free(host.ctypes.data)
    assert memory.used_bytes == used == 64
    with pytest.raises(MemoryAccessError):
        memory.check(host.ctypes.data, 1)
    with pytest.raises(ValueError, match="same addresses"):
        DeviceMemory(1 << 20).adopt(host.ctypes.data, 8, "lent")
