"""Collectives: laws of the links, NCCL's own numbers, and errors that name the ranks."""

import re
from collections import Counter

import pytest

import gpusim
from gpusim.collectives import NAMES, CollectiveError, collective
from gpusim.collectives.choice import Communicator, choose
from gpusim.collectives.group import group_of
from gpusim.collectives.machine import cost_us
from gpusim.collectives.programs import pairs
from gpusim.node import load_node


def received(result):
    """Bytes that each rank receives."""
    steps = [step for step in result.steps if step.receives]
    return [sum(step.bytes for step in steps if step.rank == rank) for rank in range(result.ranks)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protocol", ["LL", "LL128", "Simple"])
def test_every_rank_receives_its_share(name, protocol):
    paired = name in ("all_to_all", "send_recv")
    if protocol == "LL128" and paired:
        pytest.skip("NCCL has no LL128 between pairs")
    for ranks in (2, 3):
        for nbytes in (ranks * 30_000, ranks * 160_000):
            result = collective(
                name, nbytes, ranks, root=ranks - 1, protocol=protocol, algorithm=None if paired else "ring", trace=True
            )
            others = nbytes * (ranks - 1) / ranks
            if name in ("broadcast", "reduce"):  # a chain, whose first rank receives nothing
                assert sorted(received(result)) == [0] + [nbytes] * (ranks - 1)
            else:
                share = {"all_reduce": 2 * others, "send_recv": nbytes}.get(name, others)
                # The pieces of an all-reduce's last loop are rounded up.
                assert received(result) == pytest.approx([share] * ranks, rel=0.05 if name == "all_reduce" else 0)


@pytest.mark.parametrize("gpus", [2, 5, 8])
@pytest.mark.parametrize("protocol", ["LL", "LL128", "Simple"])
def test_a_tree_hands_the_whole_buffer_up_and_down(gpus, protocol):
    result = collective("all_reduce", 400_000, gpus, algorithm="tree", protocol=protocol, trace=True)
    assert sum(received(result)) >= 2 * (gpus - 1) * 400_000
    assert min(received(result)) >= 400_000


def test_all_reduce_is_reduce_scatter_and_all_gather():
    both = sum(collective(name, 1 << 28, 8).time_us for name in ("reduce_scatter", "all_gather"))
    assert collective("all_reduce", 1 << 28, 8).time_us == pytest.approx(both, rel=0.1)


@pytest.mark.parametrize(
    "name, share", [("all_reduce", 2 * 7 / 8), ("all_gather", 7 / 8), ("reduce_scatter", 7 / 8), ("broadcast", 1)]
)
def test_each_link_carries_what_the_ring_says(name, share):
    nbytes = 16 << 20
    result = collective(name, nbytes, 8, algorithm="ring", protocol="Simple")
    out = [link for link in result.links if link.name.endswith(">switch0") and "gpu" in link.name]
    assert len(out) == (7 if name == "broadcast" else 8)
    for link in out:
        assert link.bytes == pytest.approx(nbytes * share, rel=0.001)


def test_larger_takes_longer_and_more_links_less():
    sizes = [4 << 10 << k for k in range(0, 19, 3)]
    times = [collective("all_reduce", nbytes, 8).time_us for nbytes in sizes]
    assert times == sorted(times)
    half = collective("all_reduce", 1 << 28, 8, overrides=["nvlink.links=9"])
    assert half.time_us == pytest.approx(2 * collective("all_reduce", 1 << 28, 8).time_us, rel=0.15)


def test_a_slow_network_card_is_named():
    usual = collective("all_reduce", 64 << 20, 16, "two_nodes_ib")
    slow = collective("all_reduce", 64 << 20, 16, "two_nodes_ib", overrides=["network.lane_gbit_s=12.5"])
    assert slow.time_us > 2 * usual.time_us
    assert "nic" in slow.bottleneck.name and "nic" in str(slow)


def test_what_a_block_did_is_in_order_and_whole():
    result = collective("all_gather", 1 << 20, 4, protocol="Simple", trace=True)
    assert sum(step.bytes for step in result.steps if step.sends) == pytest.approx(4 * 3 / 4 * (1 << 20), rel=0.01)
    for step in result.steps:
        assert 0 <= step.start_us <= step.end_us <= result.time_us
    assert result.utilisation.max() <= 1.5 and result.utilisation.min() >= 0
    assert result.time_us == collective("all_gather", 1 << 20, 4, protocol="Simple").time_us


def test_nccl_chooses_by_size():
    group = Communicator(8, 1, 90, 24, 30.0, "nvlink")
    protocols = [choose("all_reduce", 4 << 10 << k, group).protocol for k in range(19)]
    assert protocols[0] == "LL" and protocols[-1] == "Simple" and "LL128" in protocols
    assert sorted(protocols, key=["LL", "LL128", "Simple"].index) == protocols


def test_parts_make_up_the_whole():
    for ranks in (2, 3, 4, 8, 16):
        group = Communicator(ranks, 1, 90, 24, 30.0, "nvlink")
        for name in NAMES:
            for nbytes in (ranks * 4, 1000 * ranks * 4, 12345 * ranks * 16, 1 << 24):
                nbytes -= nbytes % (4 * ranks)
                whole = nbytes if name in ("all_reduce", "broadcast", "reduce", "send_recv") else nbytes // ranks
                parts = choose(name, nbytes, group).parts
                assert sum(parts) == whole and min(parts) > 0, (ranks, name, nbytes)


def test_turns_of_an_exchange_are_laid_evenly_over_channels():
    how = choose("all_to_all", 1 << 30, Communicator(4, 1, 90, 24, 30.0, "nvlink"))
    plan = pairs(how, range(4), 4, 32)
    assert how.channels == 16 and plan.blocks == 32
    senders = {sender for sender, _ in plan.connections}
    receivers = {receiver for _, receiver in plan.connections}
    assert len(senders) == len(receivers) == 4 * 3 * 16
    # Of four turns, one of which copies a rank's own piece, each channel has two.
    turns = Counter(plan.actors[a][:2] for a in range(len(plan.actors)) if a not in receivers)
    assert set(turns) == {(rank, channel) for rank in range(4) for channel in range(32)} and set(turns.values()) == {2}


def test_blocks_of_one_gpu_slow_each_other():
    few, many = (cost_us("Simple", 1, False, blocks) for blocks in (1, 24))
    assert 1.1 < many / few < 1.4
    assert cost_us("LL", 1, False, 1) == cost_us("LL", 1, False, 24)


def test_rings_of_a_mesh_follow_its_links():
    node = load_node("dgx1")
    (order,) = group_of(node).orders
    assert sorted(order) == list(range(8))
    for a, b in zip(order, order[1:] + order[:1], strict=True):
        assert all(node.links[k].kind == "nvlink" for k in node.path(node.gpus[a], node.gpus[b]))


def test_trees_reach_every_rank():
    for parents in group_of(load_node("two_nodes_ib", nodes=5)).parents:
        assert sum(parent < 0 for parent in parents) == 1
        for rank in range(len(parents)):
            seen = set()
            while rank >= 0:
                assert rank not in seen
                seen.add(rank)
                rank = parents[rank]
        assert max(parents.count(rank) for rank in range(len(parents))) <= 3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: collective("allreduce", 1024), "no collective 'allreduce'; there are all_reduce"),
        (lambda: collective("all_gather", 1004, 8), "all_gather of 8 ranks needs a multiple of 32 bytes, got 1004"),
        (lambda: collective("all_reduce", 0, 8), "needs a multiple of 4 bytes, got 0"),
        (lambda: collective("broadcast", 1024, 4, root=4), "root 4 is not one of the ranks 0 to 3"),
        (lambda: collective("broadcast", 1024, 4, algorithm="tree"), "broadcast has no tree"),
        (lambda: collective("all_reduce", 1024, 4, protocol="ll"), "no protocol 'll'; there are LL, LL128, Simple"),
        (lambda: collective("all_reduce", 1024, 1), "needs two ranks or more"),
    ],
)
def test_a_mistake_is_one_clear_error(call, message):
    with pytest.raises(CollectiveError, match=re.escape(message)):
        call()
    assert issubclass(CollectiveError, gpusim.SimulationError)
