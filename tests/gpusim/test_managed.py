"""Managed memory: which leaves come, when, and what the host, prefetches and advice do. What a real GPU takes:
`tests/validate/test_managed.py`."""

from itertools import pairwise

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.engine.state import memory as ms
from gpusim.errors import ArgumentError, MemoryAccessError, OutOfDeviceMemory
from gpusim.node.managed import FAULTS
from gpusim.node.timeline import rows_of
from gpusim.plot import streams_timeline
from tests.gpusim.test_trace_export import Read

LEAF = 64 << 10
MB = 1 << 20


@pytest.fixture
def device():
    with gpusim.Device("h200", threads=1) as made:
        yield made


def step(words, stride, first, last):
    """One thread touches a word of every stride in order."""
    for k in range(first, last):
        words[k * stride] += 1


def fill(words, value):
    for k in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        words[k] = value


def add(words, out):
    total = np.int32(0)
    for k in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        total += words[k]
    cuda.atomic.add(out, 0, total)


def groups(array, to="gpu"):
    return [(each.leaf, each.leaves) for each in array.faults if each.to == to]


def us(device, act):
    before = device.now_cycles
    act()
    return (device.now_cycles - before) / device.config.gpu.clock_mhz


def written(device, nbytes):
    """A managed array that the host has written."""
    array = device.managed_array(nbytes // 4, np.int32)
    array[:] = 1
    return array


def test_six_faults_bring_a_block_in_order_both_ways(device):
    array = written(device, 4 * MB)
    device.launch(step, 1, 1, (array, 1024, 0, 1024))
    block = [(0, 1), (1, 1), (2, 2), (4, 4), (8, 8), (16, 16)]
    both = block + [(32 + leaf, leaves) for leaf, leaves in block]
    assert groups(array) == both
    assert array.on_device_bytes == array.nbytes
    seen = len(groups(array, "host"))
    assert (array.host()[::1024] == 2).all()
    assert groups(array, "host")[seen:] == both
    assert array.on_device_bytes == 0


def test_half_is_not_more_than_half(device):
    """One page in every 128 KB: 64 KB each. The next fault brings all that is missing."""
    array = written(device, 2 * MB)
    device.launch(step, 1, 1, (array, 32768, 0, 16))
    assert groups(array) == [(2 * k, 1) for k in range(16)]
    device.launch(step, 1, 1, (array, 16384, 1, 2))
    assert groups(array)[16:] == [(1, 31)]
    assert array.on_device_bytes == 2 * MB


def test_what_is_there_costs_nothing_more(device):
    array, plain = written(device, MB), device.device_array(MB // 4, np.int32)
    first = device.launch(add, 132, 256, (array, np.zeros(1, np.int32)))
    again = device.launch(add, 132, 256, (array, np.zeros(1, np.int32)))
    device.launch(add, 132, 256, (plain, np.zeros(1, np.int32)))
    usual = device.launch(add, 132, 256, (plain, np.zeros(1, np.int32)))
    assert first.time_us > 100 and again.cycles == pytest.approx(usual.cycles, rel=0.02)


def test_values_are_right_wherever_they_are(device):
    array, total = device.managed_array((256, 1024), np.int32), np.zeros(1, np.int32)
    array[3, 5:9] = 7
    assert array[3, 6] == 7 and array[0, 0] == 0
    device.launch(add, 8, 128, (array_of(array), total))
    assert total[0] == 28
    device.launch(fill, 8, 128, (array_of(array), 2))
    assert (array.copy_to_host() == 2).all()


def array_of(array):
    """The same bytes in one dimension, for a kernel."""
    from gpusim.launch.device_array import DeviceArray

    return DeviceArray(array.memory, array.address, (array.size,), array.dtype)


def test_the_host_brings_back_only_what_it_touches(device):
    array = written(device, MB)
    device.prefetch(array)
    assert array.on_device_bytes == MB
    array[20_000]
    assert array.on_device_bytes == MB - LEAF


def test_prefetches(device):
    array = written(device, 16 * MB)
    known = device.managed.known
    there = known.prefetch_us + 16 * known.prefetch_gpu_us_per_mb
    assert us(device, lambda: device.prefetch(array)) == pytest.approx(there, rel=0.05)
    assert us(device, lambda: device.prefetch(array)) < there / 4
    assert not groups(array) and array.on_device_bytes == array.nbytes
    device.launch(add, 132, 256, (array, np.zeros(1, np.int32)))
    assert not groups(array)
    device.prefetch(array, "host")
    assert array.on_device_bytes == 0 and us(device, array.host) == 0


def test_a_prefetch_in_a_stream_is_waited_for_by_what_asks_before(device):
    array, stream, other = written(device, MB), device.stream(), device.stream()
    device.prefetch(array, stream=stream)
    device.launch(step, 1, 1, (array, 1024, 0, 256), stream=stream)
    device.launch(step, 1, 1, (array, 1024, 0, 1), stream=other)
    device.synchronize()
    assert not groups(array) and array[0] == 3


def test_read_mostly_is_copied_until_it_is_written(device):
    array = written(device, MB)
    device.advise(array, read_mostly=True)
    device.launch(add, 132, 256, (array, np.zeros(1, np.int32)))
    assert array.on_device_bytes == MB and us(device, array.host) == 0 and array.on_device_bytes == MB
    known = device.managed.known
    result = device.launch(fill, 132, 256, (array, 5))
    assert result.time_us > MB // 4096 * known.collapse_page_us
    assert us(device, array.host) > 100
    assert us(device, lambda: array.host(write=True)) == pytest.approx(256 * known.host_collapse_page_us, rel=0.01)
    assert array.on_device_bytes == 0


def test_what_stays_on_the_host_is_reached_over_the_bus(device):
    array = written(device, 4 * MB)
    device.advise(array, preferred="host")
    result = device.launch(step, 1, 1, (array, 1024, 0, 256))
    assert result.time_us / 256 == pytest.approx(device.managed.known.bus_latency_us, rel=0.05)
    result = device.launch(add, 264, 256, (array, np.zeros(1, np.int32)))
    assert array.nbytes / result.time_us / 1e3 == pytest.approx(device.managed.known.bus_gb_s, rel=0.1)
    assert not groups(array) and array.on_device_bytes == 0 and us(device, array.host) == 0
    device.advise(array, preferred="none")
    device.launch(add, 264, 256, (array, np.zeros(1, np.int32)))
    assert array.on_device_bytes == array.nbytes


def test_what_came_longest_ago_leaves_a_full_gpu():
    with gpusim.Device("h200", memory_bytes=8 * MB) as device:
        array = device.managed_array(5 * MB // 2, np.int32)
        device.launch(fill, 132, 256, (array, 1))
        gone = groups(array, "host")
        assert gone and gone[0] == (0, 32) and array.on_device_bytes <= 8 * MB
        assert (array.host() == 1).all()
        taken = device.device_array(4 * MB, np.uint8)
        device.prefetch(array)
        assert array.on_device_bytes == 2 * MB  # whole blocks, and the device itself has a few bytes
        device.free(taken)
        device.free(array)
        with pytest.raises(OutOfDeviceMemory):
            device.device_array(9 * MB, np.uint8)


def test_two_arrays_have_leaves_of_their_own(device):
    first, second = written(device, MB), written(device, MB)
    device.prefetch(second)
    assert (first.on_device_bytes, second.on_device_bytes) == (0, MB)
    device.free(first)
    assert second.on_device_bytes == MB
    third = device.managed_array(MB, np.uint8)
    assert third.on_device_bytes == 0
    with pytest.raises(MemoryAccessError, match="use after free"):
        first.host()


def test_threads_change_nothing():
    cycles = []
    for threads in (1, 3):
        with gpusim.Device("h200", threads=threads) as device:
            array = written(device, MB)
            cycles.append(device.launch(add, 132, 256, (array, np.zeros(1, np.int32))).cycles)
    assert cycles[0] == cycles[1]


def test_without_time_it_is_an_array():
    with gpusim.Device("h200", mode="functional") as device:
        array = device.managed_array(1024, np.int32)
        array[:] = 3
        device.prefetch(array)
        device.launch(fill, 1, 32, (array, 4))
        assert (array.host() == 4).all() and array.faults == []


def test_mistakes_are_told(device):
    array = device.managed_array(16)
    with pytest.raises(ArgumentError, match="only managed arrays"):
        device.prefetch(device.device_array(16))
    with pytest.raises(ArgumentError, match="one of device, host, not on 'disk'"):
        device.prefetch(array, "disk")
    with pytest.raises(ArgumentError, match="one of device, host, none"):
        device.advise(array, preferred="gpu")
    with pytest.raises(ArgumentError, match="Python objects"):
        device.managed_array(4, object)
    with pytest.raises(ArgumentError, match="managed arrays have 17,179,869,184 together"):
        device.managed_array(17 << 30, np.uint8)
    for _ in range(ms.MANAGED_MOST - 1):
        device.managed_array(16)
    with pytest.raises(ArgumentError, match="more than 32 managed arrays"):
        device.managed_array(16)


def test_a_full_record_of_faults_is_told(device, monkeypatch):
    array = written(device, 2 * MB)
    table = device.managed.table
    device.managed.begin()
    monkeypatch.setattr(table, "clear", lambda: None)
    table._m[ms.P_FAULTS] = ms.FAULTS_MOST - 2
    with pytest.raises(ValueError, match="more faults of managed memory than their record has rows"):
        device.launch(step, 1, 1, (array, 1024, 0, 512))


def test_the_timeline_has_faults_and_prefetches(device, tmp_path):
    array, other, streams = written(device, 4 * MB), written(device, MB), [device.stream() for _ in range(2)]
    device.launch(add, 132, 256, (array, np.zeros(1, np.int32)), stream=streams[0])
    device.prefetch(other, stream=streams[1])
    device.synchronize()
    array.host()
    timeline, per_us = device.timeline(), device.config.gpu.clock_mhz
    assert rows_of(timeline.spans) == [("gpu0", 1), ("gpu0", 2), ("gpu0", FAULTS)]
    served = [each for each in timeline.spans if each.kind == "fault"]
    assert all(first.end <= later.start for first, later in pairwise(served))
    found = [each for each in array.faults if each.to == "gpu"]
    assert {round(each.end * per_us) for each in served} == {each.ready for each in found}
    assert sum(int(each.name.split()[0].replace(",", "")) for each in served) == 64 * sum(each.leaves for each in found)
    kernel = next(each for each in timeline.spans if each.kind == "kernel")
    assert kernel.start < served[0].start and served[-1].end < kernel.end
    assert [each.name for each in timeline.spans if each.kind == "prefetch"] == ["1,024 KiB to the GPU"]
    back = [each for each in timeline.spans if each.kind == "host's fault"]
    assert [each.name for each in back] == ["4,096 KiB to the host", "1,024 KiB to the host", "4,096 KiB to the host"]
    assert back[-1].start >= kernel.end and back[-1].end * per_us == pytest.approx(device.now_cycles)
    read = Read(timeline.save(tmp_path / "managed.perfetto"))
    assert {each[0] for each in read.slices} == {("gpu0", name) for name in ("stream 1", "stream 2", "faults")}
    ax = streams_timeline(timeline)
    assert [each.get_text() for each in ax.get_yticklabels()] == ["stream 1", "stream 2", "faults"]
    drawn = {each.get_label(): len(each.get_paths()) for each in ax.collections}
    assert drawn == {"kernel": 1, "prefetch": 1, "fault": len(served), "host's fault": 3}
