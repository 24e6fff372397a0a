"""Nodes: shipped descriptions, paths, overrides, and what is refused."""

from __future__ import annotations

import itertools
import time

import pytest

from gpusim.errors import ConfigError, NodeError
from gpusim.node import Node, describe_node_keys, load_node, node_with, shipped_nodes


def names(node: Node, a: str, b: str) -> list[str]:
    return [node.links[index].name for index in node.path(a, b)]


def least_latency(node: Node, a: str, b: str, kinds: set[str]) -> float:
    """Bellman and Ford's, without any of the search's rules but that GPUs, hosts and networks pass nothing on."""
    far = {a: 0.0}
    for _ in node.devices:
        for link in node.links:
            inner = link.start == a or not link.start.startswith(("gpu", "host", "network"))
            if link.kind in kinds and inner and link.start in far:
                there = far[link.start] + link.latency_us
                far[link.end] = min(far.get(link.end, there), there)
    return far.get(b, float("inf"))


@pytest.mark.parametrize("name", shipped_nodes())
def test_every_pair_of_a_shipped_node_has_a_path(name: str) -> None:
    node = load_node(name)
    assert node.gpus == tuple(f"gpu{k}" for k in range(len(node.gpus)))
    assert sorted(itertools.chain(*node.machines)) == sorted(node.gpus)
    for a, b in itertools.permutations([*node.gpus, *map(node.host_of, node.gpus)], 2):
        if a == b:
            assert node.path(a, b) == ()
            continue
        path = [node.links[index] for index in node.path(a, b)]
        assert path[0].start == a and path[-1].end == b
        assert all(one.end == other.start for one, other in itertools.pairwise(path))
        assert not any(link.start.startswith("gpu") for link in path[1:]), "a GPU passes nothing on"
        there, back = node.latency_us(node.path(a, b)), node.latency_us(node.path(b, a))
        assert there == pytest.approx(back)
    assert all(node.config.source(key) for key in describe_node_keys())


@pytest.mark.parametrize("name", ["dgx1", "hgx_h200", "pairs", "pcie"])
def test_paths_are_the_shortest(name: str) -> None:
    node = load_node(name)
    for a, b in itertools.permutations(node.gpus, 2):
        direct = least_latency(node, a, b, {"nvlink"})
        host = least_latency(node, a, node.host_of(a), {"pcie", "memory", "upi"})
        host += least_latency(node, node.host_of(a), b, {"pcie", "memory", "upi"})
        peers = least_latency(node, a, b, {"pcie"})
        wanted = next(each for each in (direct, peers, host) if each < float("inf"))
        assert node.latency_us(node.path(a, b)) == pytest.approx(wanted), (a, b)


@pytest.mark.parametrize("gpu, name", [("h200", "HGX H200"), ("v100", "DGX-1 V100"), ("h100", "HGX with h100")])
def test_a_gpu_comes_in_a_node_of_its_own_kind(gpu: str, name: str) -> None:
    node = node_with(gpu)
    assert (node.name, node.gpu_config, len(node.gpus)) == (name, gpu, 8)


def test_the_reference_node_is_what_its_data_sheet_says() -> None:
    node = load_node()
    assert (node.name, node.gpu_config, len(node.gpus)) == ("HGX H200", "h200", 8)
    assert names(node, "gpu2", "gpu5") == ["gpu2.nvlink>switch0", "switch0.nvlink>gpu5"]
    # 18 links of 25 GB/s, 128 of 144 bytes payload, 99.37 % of the time.
    assert node.bandwidth_gb_s(node.path("gpu2", "gpu5")) == pytest.approx(18 * 25 * 8 / 9 * 0.9937)
    # 16 lanes of 32 GT/s, 128b/130b, 256 of 288 bytes payload, 99 % of the time.
    assert node.bandwidth_gb_s(node.path("host0", "gpu0")) == pytest.approx(64 * 128 / 130 * 8 / 9 * 0.99)
    assert names(node, "host0", "gpu7")[1] == "bridge0.upi>bridge1"


def test_a_hybrid_cube_mesh_has_neighbours_and_strangers() -> None:
    node = load_node("dgx1")
    gpus = range(8)
    links = {(a, b): names(node, f"gpu{a}", f"gpu{b}") for a, b in itertools.permutations(gpus, 2)}
    near = {pair for pair, path in links.items() if path == [f"gpu{pair[0]}.nvlink>gpu{pair[1]}"]}
    assert all(sum(a == gpu for a, _ in near) == 4 for gpu in gpus)
    assert (0, 5) not in near and "bridge0.memory>host0" in links[0, 5], "staged through host memory"
    rate = {pair: node.bandwidth_gb_s(node.path(*(f"gpu{k}" for k in pair))) for pair in ((0, 1), (0, 3))}
    assert rate[0, 3] == pytest.approx(2 * rate[0, 1])


def test_pairs_use_nvlink_inside_and_pcie_between() -> None:
    node = load_node("pairs")
    assert names(node, "gpu2", "gpu3") == ["gpu2.nvlink>gpu3"]
    assert names(node, "gpu0", "gpu2")[0] == "gpu0.pcie>pcie0"
    assert names(load_node("pcie"), "gpu0", "gpu1") == ["gpu0.pcie>pcie0", "pcie0.pcie>gpu1"]
    staged = load_node("pcie", overrides=["pcie.peers=none"])
    assert "bridge0.memory>host0" in names(staged, "gpu0", "gpu1")
    direct = load_node("pcie", overrides=["pcie.peers=all"])
    assert "host0.memory>bridge0" not in names(direct, "gpu0", "gpu3")


def test_machines_are_joined_by_the_nearest_nics_or_by_sockets() -> None:
    direct = names(load_node("two_nodes_ib"), "gpu1", "gpu15")
    assert direct[:3] == ["gpu1.pcie>pcie1", "pcie1.pcie>nic1", "nic1.infiniband>network0"]
    assert direct[3:] == ["network0.infiniband>nic15", "nic15.pcie>pcie15", "pcie15.pcie>gpu15"]
    sockets = names(load_node("two_nodes_sockets"), "gpu1", "gpu15")
    assert "bridge0.memory>host0" in sockets and "host3.memory>bridge3" in sockets


def test_of_equally_near_nics_the_faster_is_taken() -> None:
    both = ["network.nics_per_switch=2"]
    assert "nic0.infiniband>network0" in names(load_node("two_nodes_ib", overrides=both), "gpu0", "gpu8")
    slow = load_node("two_nodes_ib", overrides=[*both, 'links.scale=[["nic0-network0", 0.5]]'])
    assert "nic1.infiniband>network0" in names(slow, "gpu0", "gpu8")


def test_many_machines_are_quick() -> None:
    start = time.process_time()
    node = load_node("hgx_h200", nodes=128)
    for k in range(1024):
        assert node.path(f"gpu{k}", f"gpu{(k + 8) % 1024}")
    assert len(node.gpus) == 1024 and len(node.machines) == 128
    assert time.process_time() - start < 5, "ten times what it takes"


def test_fewer_gpus_are_the_first() -> None:
    node = load_node("two_nodes_ib", gpus=9)
    assert node.gpus[-1] == "gpu8" and node.machines[1] == ("gpu8",)
    assert load_node(node) is node and len(load_node(node, gpus=2).gpus) == 2
    with pytest.raises(NodeError, match="HGX H200 has 8 GPUs, not 9"):
        load_node(gpus=9)


def test_overrides_change_links() -> None:
    whole = load_node()
    part = load_node(overrides=["nvlink.links=12"])
    pair = ("gpu0", "gpu1")
    assert part.bandwidth_gb_s(part.path(*pair)) == pytest.approx(whole.bandwidth_gb_s(whole.path(*pair)) * 12 / 18)
    assert part.config.source("nvlink.links") == "override"
    # Too few credits: one packet of 128 bytes a round trip.
    slow = load_node(overrides={"nvlink.credits": 1})
    assert slow.bandwidth_gb_s(slow.path(*pair)) == pytest.approx(18 * 128 / (2 * 0.177e3))
    half = load_node(overrides=['links.scale=[["gpu0.nvlink>switch0", 0.5]]'])
    assert half.bandwidth_gb_s(half.path(*pair)) == pytest.approx(whole.bandwidth_gb_s(whole.path(*pair)) / 2)
    assert half.bandwidth_gb_s(half.path(*pair[::-1])) == whole.bandwidth_gb_s(whole.path(*pair[::-1]))


def test_without_its_nvlinks_a_gpu_uses_pcie() -> None:
    node = load_node(overrides=['links.down=["gpu0-switch0"]'])
    assert names(node, "gpu0", "gpu1")[0] == "gpu0.pcie>pcie0"
    assert names(node, "gpu1", "gpu2")[0] == "gpu1.nvlink>switch0"


def test_devices_without_a_way_are_named() -> None:
    node = load_node(overrides=['links.down=["gpu3-switch0", "gpu3-pcie3"]'])
    with pytest.raises(NodeError, match="no way from gpu1 to gpu3 in HGX H200"):
        node.path("gpu1", "gpu3")
    assert node.path("gpu1", "gpu2")
    apart = load_node("two_nodes_ib", overrides=["network.nics_per_switch=0"])
    with pytest.raises(NodeError, match="no way from gpu0 to gpu8"):
        apart.path("gpu0", "gpu8")
    with pytest.raises(NodeError, match="has no device 'gpu9'"):
        load_node().path("gpu0", "gpu9")


@pytest.mark.parametrize(
    "name, overrides, message",
    [
        ("hgx_h20", None, "did you mean 'hgx_h200'"),
        ("hgx_h200", ["nvlink.link=2"], "did you mean 'nvlink.links'"),
        ("hgx_h200", ["nvlink.latency_ns=2"], "did you mean 'nvlink.latency_us'"),
        ("hgx_h200", ["nvlink.links"], "key=value"),
        ("hgx_h200", ["nvlink.links=-1"], "must not be below 0"),
        ("dgx1", ["nvlink.links=5"], "nvlink.links is 5"),
        ("dgx1", ["node.gpus=4"], "node.gpus is 4"),
    ],
)
def test_mistakes_name_the_key(name: str, overrides: list[str] | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_node(name, overrides=overrides)


def test_a_link_that_is_not_there_is_refused() -> None:
    with pytest.raises(NodeError, match="there is no link 'gpu0-switch1'; did you mean gpu0-switch0"):
        load_node(overrides=['links.down=["gpu0-switch1"]'])


def test_a_file_of_ones_own(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "mine.toml"
    file.write_text('base = "hgx_h200"\n[nvlink]\nlinks = 4\n')
    node = load_node(file)
    assert node.config.nvlink.links == 4 and node.config.source("nvlink.links") == "user"
    file.write_text('base = "hgx_h200"\n[nvlink]\nlink = 4\n')
    with pytest.raises(ConfigError, match=r"mine.toml: nvlink.link: unknown key; did you mean 'nvlink.links'"):
        load_node(file)
