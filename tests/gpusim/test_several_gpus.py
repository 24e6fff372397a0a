"""Several GPUs in one run: their kernels on each other's memory, the links between them, streams that wait for each
other."""

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.errors import ArgumentError, NodeError

SMALL = {"overrides": ["sm.count=8", "sm.gpcs=2"], "threads": 1}
WORDS = 1 << 16


def gpus(count):
    first = gpusim.Device("h200", **SMALL)
    return [first, *(gpusim.Device(beside=first, threads=1) for _ in range(count - 1))]


def read_all(x, out):
    total = np.float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    out[cuda.grid(1)] = total


def add_to(x, value):
    i = cuda.grid(1)
    cuda.atomic.add(x, i % x.size, value)


def together(devices, launches):
    """Cycles of launches, (device, kernel, args) each, that begin together; their results."""
    begun = devices[0].now_cycles
    pending = [device.launch(kernel, 32, 256, args, stream=device.stream()) for device, kernel, args in launches]
    for device in devices:
        device.synchronize()
    return devices[0].now_cycles - begun, [each.result for each in pending]


def test_kernels_of_two_gpus_add_to_one_array():
    first, second = gpus(2)
    x = first.to_device(np.zeros(64, np.int32))
    together((first, second), [(first, add_to, (x, np.int32(1))), (second, add_to, (x, np.int32(1000)))])
    assert (x.copy_to_host() == 32 * 256 // 64 * 1001).all()


def test_two_readers_share_the_way_out_of_a_gpu():
    """Against one, and against two that read from different GPUs. Links so narrow that they are what is waited for."""

    def took(readers, owners):
        first = gpusim.Device("h200", **SMALL, node=gpusim.node.load_node("hgx_h200", overrides=["nvlink.links=1"]))
        devices = [first, *(gpusim.Device(beside=first, threads=1) for _ in range(3))]
        arrays = [device.to_device(np.ones(WORDS, np.float32)) for device in devices]
        outs = [device.to_device(np.zeros(32 * 256, np.float32)) for device in devices]
        for array, device, out in zip(arrays, devices, outs, strict=True):
            device.launch(read_all, 32, 256, (array, out))
        launches = [(devices[r], read_all, (arrays[o], outs[r])) for r, o in zip(readers, owners, strict=True)]
        return together(devices, launches)[0]

    alone, apart, same = took([2], [0]), took([2, 3], [0, 1]), took([2, 3], [0, 0])
    assert apart < 1.2 * alone
    assert same > 1.6 * alone


def test_streams_of_two_gpus_wait_for_each_other():
    first, second = gpus(2)
    x = first.to_device(np.zeros(256, np.int32))
    a, b = first.stream(), second.stream()
    slow = first.launch(read_all, 32, 256, (first.to_device(np.ones(WORDS, np.float32)),
                                            first.to_device(np.zeros(32 * 256, np.float32))), stream=a)  # fmt: skip
    event = a.record()
    b.wait_event(event)
    after = b.record()
    second.launch(add_to, 1, 256, (x, np.int32(1)), stream=b)
    first.synchronize()
    second.synchronize()
    assert after.cycle >= event.cycle >= slow.result.cycles
    assert (x.copy_to_host() == 1).all()


def test_copies_between_gpus_take_a_copy_engine():
    first, second = gpus(2)
    x, y = first.to_device(np.arange(WORDS, dtype=np.float32)), second.device_array(WORDS, np.float32)
    begun = first.now_cycles
    first.copy(y, x)
    took_us = first.config.time_us(first.now_cycles - begun)
    assert took_us > 4 * WORDS / first._node.bandwidth_gb_s(first._node.path("gpu0", "gpu1")) / 1e3
    assert (y.copy_to_host() == x.copy_to_host()).all()
    with pytest.raises(ArgumentError, match="does not match"):
        first.copy(second.device_array(3, np.float32), x)


def test_copies_kernels_and_collectives_agree_on_a_link():
    """One large transfer: what SMs move takes the same share of what a copy engine moves, by a kernel or by NCCL."""
    first = gpusim.Device("h200", threads=1)
    second = gpusim.Device(beside=first, threads=1)
    node, copies, times = first._node, [], []
    for size in (1 << 28, 1 << 30):
        system = gpusim.node.System(node)
        copies.append(system.copy(1, 0, size))
        system.run()
    rate = (copies[1].nbytes - copies[0].nbytes) / (copies[1].duration_us - copies[0].duration_us) / 1e3
    for words in (1 << 18, 1 << 18, 3 << 18):  # the first brings its code
        x, out = second.to_device(np.ones(words, np.float32)), first.device_array(528 * 512, np.float32)
        times.append(first.launch(read_all, 528, 512, (x, out)).time_us)
    kernel_rate = 8 * (1 << 18) / (times[2] - times[1]) / 1e3
    broadcast = [gpusim.collective("broadcast", size, 2).time_us for size in (1 << 28, 1 << 30)]
    collective_rate = ((1 << 30) - (1 << 28)) / (broadcast[1] - broadcast[0]) / 1e3
    share = node.config.nvlink.sm_share
    assert kernel_rate / rate == pytest.approx(share, rel=0.03)
    assert collective_rate / rate == pytest.approx(share, rel=0.03)


def test_what_a_node_does_not_have_is_refused():
    first = gpusim.Device("tiny", node=gpusim.node.load_node("hgx_h200", 1))
    with pytest.raises(NodeError, match="no more than 1 GPU"):
        gpusim.Device(beside=first)
    other = gpusim.Device("tiny")
    with pytest.raises(ArgumentError, match="another device"):
        first.launch(add_to, 1, 32, (other.to_device(np.zeros(32, np.int32)), np.int32(1)))
