"""Every key of a node's description matters: changed, it moves the time of some copy, the way that it should."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.node import System, describe_node_keys, load_node
from gpusim.node.sections import ManagedMemory
from tests.gpusim.kernels import Kernels

MB = 1_000_000
NAMES = ("node.name", "node.gpu")  # what things are called moves no copy
DEVICE_KEYS = {
    "host.launch_call_us": 50.0, "host.function_us": 50.0, "copies.event_us": 0.5, "copies.takeover_us": 50.0,
    "copies.command_us": 5.0, "copies.command_bytes": 0, "nvlink.sm_share": 0.1, "nvlink.sm_reverse": 0.5,
}  # fmt: skip
"""Keys that move what devices do, and collectives, and what they are changed to."""

MANAGED_KEYS = tuple(f"managed.{name}" for name in ManagedMemory.model_fields)

# (node, key, changed to, does it get faster or slower). Every key has a row, on a node where it is in use.
ROWS = [
    ("pcie", "node.gpus", 2, None),
    ("two_nodes_ib", "node.machines", 3, None),
    ("hgx_h200", "nvlink.wiring", "none", "slower"),
    ("hgx_h200", "nvlink.links", 9, "slower"),
    ("dgx1", "nvlink.pairs", [[0, 3, 1], [1, 2, 1]], "slower"),
    ("hgx_h200", "nvlink.lanes", 4, "faster"),
    ("hgx_h200", "nvlink.lane_gbit_s", 50.0, "slower"),
    ("hgx_h200", "nvlink.encoding", 0.5, "slower"),
    ("hgx_h200", "nvlink.payload_bytes", 64, "slower"),
    ("hgx_h200", "nvlink.header_bytes", 32, "slower"),
    ("hgx_h200", "nvlink.achieved", 0.9, "slower"),
    ("hgx_h200", "nvlink.reverse", 0.2, "slower"),
    ("hgx_h200", "nvlink.credits", 8, "slower"),
    ("hgx_h200", "nvlink.latency_us", 0.5, "slower"),
    ("hgx_h200", "pcie.gpus_per_switch", 4, "slower"),
    ("hgx_h200", "pcie.lanes", 8, "slower"),
    ("hgx_h200", "pcie.uplink_lanes", 8, "slower"),
    ("hgx_h200", "pcie.lane_gbit_s", 64.0, "faster"),
    ("hgx_h200", "pcie.encoding", 0.8, "slower"),
    ("hgx_h200", "pcie.payload_bytes", 512, "faster"),
    ("hgx_h200", "pcie.header_bytes", 64, "slower"),
    ("hgx_h200", "pcie.achieved", 0.8, "slower"),
    ("hgx_h200", "pcie.reverse", 0.3, "slower"),
    ("hgx_h200", "pcie.credits", 32, "slower"),
    ("hgx_h200", "pcie.latency_us", 0.4, "slower"),
    ("pcie", "pcie.peers", "none", "slower"),
    ("pcie", "host.sockets", 1, None),
    ("hgx_h200", "host.memory_read_gb_s", 100.0, "slower"),
    ("hgx_h200", "host.memory_write_gb_s", 100.0, "slower"),
    ("hgx_h200", "host.memory_latency_us", 1.0, "slower"),
    ("pcie", "host.socket_gb_s", 10.0, "slower"),
    ("pcie", "host.socket_latency_us", 1.0, "slower"),
    ("hgx_h200", "host.copy_call_us", 20.0, "slower"),
    ("hgx_h200", "host.large_copy_bytes", 1 << 40, "faster"),
    ("hgx_h200", "host.large_copy_call_us", 20.0, "slower"),
    ("hgx_h200", "host.event_call_us", 20.0, "slower"),
    ("two_nodes_ib", "network.kind", "socket", None),
    ("two_nodes_ib", "network.nics_per_switch", 2, None),
    ("two_nodes_ib", "network.gpu_direct", False, "slower"),
    ("two_nodes_ib", "network.lanes", 2, "slower"),
    ("two_nodes_ib", "network.lane_gbit_s", 53.125, "slower"),
    ("two_nodes_ib", "network.encoding", 0.5, "slower"),
    ("two_nodes_ib", "network.payload_bytes", 256, "slower"),
    ("two_nodes_ib", "network.header_bytes", 1000, "slower"),
    ("two_nodes_ib", "network.achieved", 0.5, "slower"),
    ("two_nodes_ib", "network.reverse", 0.2, "slower"),
    ("two_nodes_ib", "network.credits", 2, "slower"),
    ("two_nodes_ib", "network.latency_us", 1.5, "slower"),
    ("hgx_h200", "copies.device_gb_s", 1000.0, "slower"),
    ("hgx_h200", "copies.device_start_us", 40.0, "slower"),
    ("hgx_h200", "copies.peer_engines", 2, "faster"),
    ("hgx_h200", "copies.peer_start_us", 40.0, "slower"),
    ("hgx_h200", "copies.to_device_engines", 2, None),
    ("hgx_h200", "copies.to_device_start_us", 40.0, "slower"),
    ("hgx_h200", "copies.to_host_engines", 2, None),
    ("hgx_h200", "copies.to_host_start_us", 40.0, "slower"),
    ("hgx_h200", "copies.inline_bytes", 0, None),
    ("hgx_h200", "copies.inline_gb_s", 1.0, "slower"),
    ("hgx_h200", "copies.staging_bytes", 1 << 20, "faster"),
    ("hgx_h200", "copies.cache_bytes", 0, "slower"),
    ("hgx_h200", "copies.read_cached_gb_s", 10.0, "slower"),
    ("hgx_h200", "copies.read_gb_s", 5.0, "slower"),
    ("hgx_h200", "copies.write_cached_gb_s", 10.0, "slower"),
    ("hgx_h200", "copies.write_gb_s", 5.0, "slower"),
    ("hgx_h200", "links.down", ["gpu0-switch0"], "slower"),
    ("hgx_h200", "links.scale", [["gpu0-switch0", 0.5]], "slower"),
]


Outcome = tuple[float, list[tuple[float, float, tuple[str, ...]]]]


def scenario(name: str, overrides: dict[str, object]) -> Outcome:
    """The time of many kinds of copies, one group after the other, and when and where each of them went."""
    system = System(name, overrides=overrides)
    last = system.node.gpus[-1]
    groups: list[list[tuple[int | str, int | str, int]]] = [[(0, 0, 8 * MB)]]
    groups += [[(last, 0, nbytes)] for nbytes in (4096, 8 * MB)]
    groups += [[(last, 0, 8 * MB), (0, last, 8 * MB)], [(1, 0, 8 * MB), (0, 1, 8 * MB)]]
    groups += [[(1, 0, 8 * MB)] * 2, [(0, "host", 8 * MB)] * 2, [("host", 0, 8 * MB)] * 2]
    groups += [[(0, "host", 8 * MB), ("host", 0, 8 * MB)], [(last, "host0", MB)]]
    groups += [[(gpu, "host", 8 * MB) for gpu in system.node.gpus[:4]]]
    groups += [[("host", gpu, 8 * MB) for gpu in system.node.gpus[:4]]]
    for group in groups:
        for destination, source, nbytes in group:
            stream = system.stream(destination if source in ("host", "host0") else source)
            stream.record()
            system.copy(destination, source, nbytes, stream)
        system.synchronize()
    for nbytes in (4096, 8 * MB, 150 * MB):
        system.copy(0, "host", nbytes, pinned=False)
        system.copy("host", 0, nbytes, pinned=False)
    result = system.run()
    return result.time_us, [(copy.began_us, copy.ended_us, copy.links) for copy in result.copies]


@pytest.fixture(scope="module")
def before() -> dict[str, Outcome]:
    return {name: scenario(name, {}) for name in {row[0] for row in ROWS}}


@pytest.mark.parametrize("name, key, value, way", ROWS, ids=[row[1] for row in ROWS])
def test_a_key_matters(before: dict[str, Outcome], name: str, key: str, value: object, way: str | None) -> None:
    changed = scenario(name, {key: value})
    assert changed[1] != before[name][1]
    if way is not None:
        assert (changed[0] > before[name][0]) == (way == "slower") and changed[0] != before[name][0]


KERNELS = Kernels("""
#define KERNEL extern "C" __global__ void
#define I (blockIdx.x * blockDim.x + threadIdx.x)
#define ALL (gridDim.x * blockDim.x)
KERNEL read(const int *x, int size, int *out) {
  int total = 0;
  for (int i = I; i < size; i += ALL) total += x[i];
  out[I] = total;
}
// A word of each of so many pages; value: written there if positive. A thread pauses before each of its pages.
KERNEL touch(int *x, int pages, int pause, int value) {
  int words = 1024, total = 0;
  for (int page = I; page < pages; page += ALL) {
    for (int k = 0; k < pause; k++) total = total * 3 + k * total;
    int *word = x + page * words + I % words;
    if (value > 0) *word = value;
    else total += *word;
  }
  if (total == -1) x[0] = total;
}
""")


def device_times(overrides: dict[str, object]) -> tuple[float, ...]:
    """Of kernels, copies and the host between them, of a kernel on a peer's memory, and of a collective."""
    node = load_node("hgx_h200", 2, overrides=overrides)
    first = gpusim.Device("tiny", threads=1, node=node)
    second = gpusim.Device(beside=first, threads=1)
    x, out, stream = second.to_device(np.ones(1 << 14, np.int32)), first.device_array(512, np.int32), first.stream()
    near, host = first.device_array(512, np.int32), first.pinned_array(512, np.int32)
    marks = [stream.record()]
    near.copy_to_device(host, stream)
    near[:1].copy_to_device(host[:1], stream)
    marks.append(stream.record())
    for _ in range(2):
        first.launch(KERNELS["read"], 1, 64, (near, np.int32(512), out), stream=stream)
    near.copy_to_host(host, stream)
    stream.call(lambda: None)
    marks.append(stream.record())
    first.launch(KERNELS["read"], 4, 128, (x, np.int32(1 << 14), out), stream=stream)
    marks.append(stream.record())
    first.synchronize()
    exchange = gpusim.collective("all_to_all", 64 << 20, 2, node).time_us
    return (*(before.elapsed_ms(after) for before, after in itertools.pairwise(marks)), exchange)


@pytest.fixture(scope="module")
def device_before() -> tuple[float, ...]:
    return device_times({})


@pytest.mark.parametrize("key", DEVICE_KEYS)
def test_a_key_matters_to_devices(device_before: tuple[float, ...], key: str) -> None:
    assert device_times({key: DEVICE_KEYS[key]}) != device_before


def managed_times(overrides: dict[str, object]) -> Iterator[tuple[float, float]]:
    """Of kernels and the host that use managed memory in every way, after each step, on a GPU that has room for little:
    the time, and how far the host's thread has come."""
    node = load_node("hgx_h200", 1, overrides=overrides)
    device = gpusim.Device("tiny", threads=1, node=node, memory_bytes=8 << 20)
    first, second = (device.managed_array(1 << 19, np.int32) for _ in range(2))
    stream = device.stream()

    def use(x: Any, *shape: int, pages: int = 512, pause: int = 0, value: int = 0) -> tuple[float, float]:
        device.launch(KERNELS["touch"], *(shape or (4, 128)), (x, *map(np.int32, (pages, pause, value))))
        return device.now_cycles, device.streams.host.time

    first[:] = 1
    yield use(first)
    yield use(second, 1, 1, pages=17, pause=4000)  # untouched, one page after the other, in two leaves
    first.host(write=True)
    device.prefetch(first)
    yield use(first)
    for to in ("device", "device", "host"):
        device.prefetch(second, to, stream)
        stream.record()
        yield use(first)
    device.advise(first, read_mostly=True)
    first.host(write=True)
    yield use(first)
    yield use(first, value=2)
    first.host()
    first[:5000] = 3
    device.advise(second, preferred="host")
    yield use(second)
    device.device_array(5 << 20, np.uint8)  # leaves room for one and a half of the arrays
    third = device.managed_array(1 << 19, np.int32)
    device.prefetch(third)
    yield use(third)
    yield use(first)


@pytest.fixture(scope="module")
def managed_before() -> list[tuple[float, float]]:
    return list(managed_times({}))


@pytest.mark.parametrize("key", MANAGED_KEYS)
def test_a_key_matters_to_managed_memory(managed_before: list[tuple[float, float]], key: str) -> None:
    value = getattr(load_node("hgx_h200").config.managed, key.removeprefix("managed."))
    times = managed_times({key: value // 8 if isinstance(value, int) else 2 * value})
    assert any(now != before for now, before in zip(times, managed_before, strict=True))


def test_every_key_has_its_row() -> None:
    assert {*(row[1] for row in ROWS), *DEVICE_KEYS, *MANAGED_KEYS, *NAMES} == set(describe_node_keys())
