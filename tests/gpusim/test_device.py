"""`gpusim.Device`: memory, caches, streams and events over several launches."""

import numpy as np
import pytest

import gpusim
from gpusim.config import load_config
from gpusim.engine.memory.place import first_blocks, places
from gpusim.errors import MemoryAccessError
from gpusim.node import load_node
from tests.gpusim.kernels import Kernels

KERNELS = Kernels("""
#define KERNEL extern "C" __global__ void
#define I (blockIdx.x * blockDim.x + threadIdx.x)
KERNEL add_one(int *x, int size) { if (I < size) x[I] += 1; }
KERNEL add_far(int *x, int distance) { x[I] += 1; x[I + distance] += 1; }
KERNEL frees(char **kept, int *out) { free(*kept); out[0] = 1; out[100] = 1; }
KERNEL keeps(char **kept) { *kept = (char *)malloc(100); (*kept)[7] = 42; }
""")


def add_one(device, x, **options):
    return device.launch(KERNELS["add_one"], -(-x.size // 128), 128, (x, np.int32(x.size)), **options)


@pytest.fixture(scope="module")
def device():
    with gpusim.Device("tiny") as made:
        yield made


def test_arrays_stay_on_the_device(device):
    x = device.to_device(np.arange(1000, dtype=np.int32))
    add_one(device, x)
    add_one(device, x)
    assert (x.copy_to_host() == np.arange(1000) + 2).all()


def test_l2_stays_warm_until_flushed(device):
    x = device.to_device(np.zeros(4096, np.int32))
    device.flush_l2()
    cold = add_one(device, x)
    warm = add_one(device, x)
    assert cold.metrics["dram__bytes_read.sum"] >= 4 * 4096
    assert warm.metrics["dram__bytes_read.sum"] == 0
    assert warm.cycles < cold.cycles
    device.flush_l2()
    flushed = add_one(device, x)
    assert flushed.metrics["dram__bytes_read.sum"] >= 4 * 4096
    device.flush_l2(filled=True)
    filled = add_one(device, x)
    assert filled.metrics["dram__bytes_read.sum"] >= 4 * 4096
    # Its lines take the places of others that are still to be written.
    assert filled.metrics["dram__bytes_write.sum"] > flushed.metrics["dram__bytes_write.sum"]


def test_events_measure_simulated_time():
    free = [f"host.{name}=0" for name in ("event_call_us", "launch_call_us")]  # else the launch comes after the event
    device = gpusim.Device("tiny", node=load_node("hgx_h200", 1, overrides=free))
    x = device.to_device(np.zeros(256, np.int32))
    start, end = device.event(), device.event()
    stream = device.stream()
    start.record(stream)
    pending = add_one(device, x, stream=stream)
    end.record(stream)
    took = start.elapsed_ms(end)
    cycles = pending.result.cycles + device.config.launch.event_cycles
    assert took == pytest.approx(device.config.time_us(cycles) / 1000)


def test_a_failed_launch_leaves_memory_as_it_was(device):
    x = device.to_device(np.zeros(128, np.int32), "x")
    with pytest.raises(MemoryAccessError, match="past the end of 'x'"):
        device.launch(KERNELS["add_far"], 1, 128, (x, np.int32(128)))
    assert (x.copy_to_host() == 0).all()
    add_one(device, x)
    assert (x.copy_to_host() == 1).all()


def test_a_failed_launch_leaves_the_heap_as_it_was(device):
    kept, out = device.to_device(np.zeros(1, np.uint64)), device.to_device(np.zeros(1, np.int32), "out")
    device.launch(KERNELS["keeps"], 1, 1, (kept,))
    with pytest.raises(MemoryAccessError, match="past the end of 'out'"):
        device.launch(KERNELS["frees"], 1, 1, (kept, out))
    address = int(kept.copy_to_host()[0])
    assert device.memory.view(address, 100)[7] == 42 and out.copy_to_host()[0] == 0
    device.memory.free(address)


def test_an_unrecorded_event_has_no_time(device):
    with pytest.raises(ValueError, match="recorded"):
        device.event().elapsed_ms(device.event())


@pytest.mark.parametrize("count", [1, 33, 65])
@pytest.mark.parametrize("blocks", [1, 40, 200])
def test_an_odd_number_of_sms_takes_every_block(count, blocks):
    config = load_config("h200", overrides=[f"sm.count={count}"])
    found = first_blocks(config, count, blocks, 2)
    assert len(found) == min(blocks, 2 * count) and set(found.tolist()) <= set(range(count))
    assert len(places(config, count, blocks)) == count
