"""Every key of a node's description matters: changed, it moves the time of some copy, the way that it should."""

from __future__ import annotations

import pytest

from gpusim.node import System, describe_node_keys

MB = 1_000_000
NAMES = ("node.name", "node.gpu")  # what things are called moves no copy

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
    groups: list[list[tuple[int | str, int | str, int]]] = [[(0, 0, 20 * MB)]]
    groups += [[(last, 0, nbytes)] for nbytes in (4096, 20 * MB)]
    groups += [[(last, 0, 20 * MB), (0, last, 20 * MB)], [(1, 0, 20 * MB), (0, 1, 20 * MB)]]
    groups += [[(1, 0, 20 * MB)] * 2, [(0, "host", 20 * MB)] * 2, [("host", 0, 20 * MB)] * 2]
    groups += [[(0, "host", 20 * MB), ("host", 0, 20 * MB)], [(last, "host0", MB)]]
    groups += [[(gpu, "host", 20 * MB) for gpu in system.node.gpus[:4]]]
    groups += [[("host", gpu, 20 * MB) for gpu in system.node.gpus[:4]]]
    for group in groups:
        for destination, source, nbytes in group:
            stream = system.stream(destination if source in ("host", "host0") else source)
            stream.record()
            system.copy(destination, source, nbytes, stream)
        system.synchronize()
    for nbytes in (4096, 20 * MB, 150 * MB):
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


def test_every_key_has_its_row() -> None:
    assert {*(row[1] for row in ROWS), *NAMES} == set(describe_node_keys())
