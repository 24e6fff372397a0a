"""Copies over a node: what is conserved, who waits for whom, who is held up by what, and what is refused."""

from __future__ import annotations

import pytest

from gpusim.errors import NodeError
from gpusim.node import Copy, NodeResult, System, describe_node_keys, load_node, shipped_nodes

MB = 1_000_000


def ring(system: System, nbytes: int = 64 * MB) -> list[Copy]:
    gpus = system.node.gpus
    return [system.copy(gpus[(k + 1) % len(gpus)], gpu, nbytes) for k, gpu in enumerate(gpus)]


def mixed(system: System) -> NodeResult:
    """Copies of many kinds at once, in streams that wait for each other."""
    streams = [system.stream(k % len(system.node.gpus)) for k in range(6)]
    event = system.event()
    for k, stream in enumerate(streams):
        system.copy(stream.gpu, "host", (k + 1) * 3 * MB, stream, pinned=k % 3 != 0)
        if k == 2:
            event.record(stream)
        other = system.node.gpus[(k + 1) % len(system.node.gpus)]
        system.copy(other, stream.gpu, (k + 2) * 5 * MB, stream)
        if k == 4:
            event.wait(stream)
        system.copy("host", stream.gpu, 2 * MB, stream, pinned=k != 1)
    system.synchronize(event)
    system.copy(0, 0, MB)
    return system.run()


@pytest.mark.parametrize("name", shipped_nodes())
def test_every_byte_crosses_every_link_of_its_path(name: str) -> None:
    result = mixed(System(name))
    wanted: dict[str, float] = {}
    for copy in result.copies:
        for link in copy.links:
            wanted[link] = wanted.get(link, 0.0) + copy.nbytes
    assert {link: use.bytes for link, use in result.links.items()} == pytest.approx(wanted)
    for use in result.links.values():
        assert 0 < use.utilisation <= 1 and use.shares.max() <= 1
        assert use.over_time(50).mean() == pytest.approx(use.utilisation)
        if not use.link.reverse:  # nothing else is on it, so its load says how much it carried
            moved = use.utilisation * use.total_us * use.link.bandwidth_gb_s * 1e3
            assert moved == pytest.approx(use.bytes)
    for copy in result.copies:
        assert copy.submitted_us <= copy.began_us < copy.ended_us <= result.time_us
        assert sum(copy.held_us.values()) <= copy.duration_us * (1 + 1e-9)


def test_a_copy_takes_start_up_latency_and_its_bytes() -> None:
    system = System()
    copy = system.copy(1, 0, 100 * MB)
    result = system.run()
    path = system.node.path("gpu0", "gpu1")
    moving = 100 * MB / system.node.bandwidth_gb_s(path) / 1e3
    start = system.node.config.copies.peer_start_us
    assert copy.duration_us == pytest.approx(start + system.node.latency_us(path) + moving)
    assert copy.bandwidth_gb_s == pytest.approx(100 * MB / copy.duration_us / 1e3)
    assert result.bottleneck == copy.bottleneck == "gpu0.nvlink>switch0"


def test_copies_into_one_gpu_share_its_links() -> None:
    system = System(overrides=["host.copy_call_us=0", "host.large_copy_call_us=0"])
    copies = [system.copy(0, k, 100 * MB) for k in (1, 2, 3)]
    result = system.run()
    alone = 100 * MB / 397.5 / 1e3
    for copy in copies:
        assert copy.duration_us == pytest.approx(3 * alone, rel=0.02)
        assert copy.bottleneck == "switch0.nvlink>gpu0"
    assert result.links["switch0.nvlink>gpu0"].bytes == pytest.approx(300 * MB)
    assert result.links["gpu2.nvlink>switch0"].shares.max() == pytest.approx(1 / 3, rel=0.01)


def test_copies_out_of_one_gpu_wait_for_its_copy_engine() -> None:
    def run(overrides: list[str]) -> NodeResult:
        system = System(overrides=overrides)
        for k in (1, 2):
            system.copy(k, 0, 100 * MB, system.stream(0))
        return system.run()

    result = run([])
    copies = result.copies
    assert copies[1].began_us == pytest.approx(copies[0].ended_us)
    assert copies[1].waited_us > 200 and result.engine_waits_us["gpu0.peer"] == pytest.approx(copies[1].waited_us)
    assert "wait" in str(result) and "copy engine gpu0.peer" in str(result)
    two = run(["copies.peer_engines=2"])
    assert two.copies[1].waited_us == 0 and two.time_us < result.time_us
    assert two.copies[0].duration_us > 1.5 * copies[0].duration_us  # they share its links instead


def test_below_one_pcie_switch_two_copies_share_the_uplink() -> None:
    """Two GPUs below one switch have half each; on two switches each has all."""

    def durations(*gpus: int) -> list[float]:
        system = System("pcie")
        copies = [system.copy(gpu, "host0", 100 * MB, system.stream(gpu)) for gpu in gpus]
        result = system.run()
        assert len(gpus) == 1 or (result.bottleneck == "bridge0.pcie>pcie0") == (gpus == (0, 1))
        return [copy.duration_us for copy in copies]

    (alone,) = durations(0)
    assert durations(0, 1) == pytest.approx([2 * alone] * 2, rel=0.02)
    assert durations(0, 2) == pytest.approx([alone] * 2, rel=0.02)


def test_both_directions_at_once_cost_little() -> None:
    system = System(gpus=2)
    there, back = system.copy(1, 0, 500 * MB), system.copy(0, 1, 500 * MB)
    system.run()
    alone = System(gpus=2)
    copy = alone.copy(1, 0, 500 * MB)
    alone.run()
    for each in (there, back):
        assert 1.0 < each.duration_us / copy.duration_us < 1.02


def test_streams_keep_order_and_events_join_them() -> None:
    system = System()
    a, b = system.stream(0), system.stream(1)
    first = system.copy(2, 0, 50 * MB, a)
    done = a.record()
    b.wait_event(done)
    behind = system.copy(3, 1, 50 * MB, b)
    free = system.copy(5, 4, 50 * MB)
    second = system.copy(2, 0, 50 * MB, a)
    called = []
    a.call(lambda: called.append(system.clock.now_us))
    system.run()
    assert done.time_us == first.ended_us and called[0] > second.ended_us
    assert behind.began_us == first.ended_us and second.began_us == first.ended_us
    assert free.began_us < first.ended_us
    with pytest.raises(ValueError, match="recorded"):
        done.elapsed_ms(system.event())


def test_a_wait_is_for_what_was_recorded_before_it() -> None:
    """As cudaStreamWaitEvent: not for a later record, and not at all without one."""
    system = System()
    a, b = system.stream(0), system.stream(1)
    event = system.event()
    event.wait(b)
    early = system.copy(3, 1, MB, b)
    system.copy(2, 0, 50 * MB, a)
    event.record(a)
    system.run()
    assert early.ended_us < event.time_us


def test_streams_take_turns_at_an_engine_and_events_belong_to_their_copies() -> None:
    system = System()
    a, b = system.stream(0), system.stream(0)
    first = system.copy(1, 0, 50 * MB, a)
    between = a.record()
    before = b.record()
    second = system.copy(2, 0, 50 * MB, b)
    third = system.copy(1, 0, 50 * MB, a)
    end = a.record()
    system.copy("host", 0, MB, a)  # of another engine, which is busy when `end` is reached
    system.copy("host", 0, 200 * MB, system.stream(0))
    system.run()
    assert end.time_us == third.ended_us
    assert between.time_us == before.time_us == first.ended_us
    assert second.began_us == first.ended_us and third.began_us == second.ended_us


def test_what_waits_for_an_event_keeps_no_engine() -> None:
    """Else the copy that it waits for could never begin."""
    system = System()
    a, b = system.stream(0), system.stream(0)
    system.kernel(50, a)
    system.kernel(60, b)
    needed = system.copy(1, 0, MB, b)
    event = b.record()
    a.record()
    a.wait_event(event)
    last = system.copy(1, 0, MB, a)
    system.run()
    assert 110 < needed.ended_us <= last.began_us


def test_a_stream_of_the_target_fetches_with_its_own_engine() -> None:
    system = System()
    sent = [system.copy(k, 0, 50 * MB, system.stream(0)) for k in (1, 2)]
    fetched = system.copy(3, 0, 50 * MB, system.stream(3))
    result = system.run()
    assert sent[1].waited_us > 100 and fetched.waited_us == 0
    assert set(result.engine_waits_us) == {"gpu0.peer", "gpu3.peer"}


def test_the_host_waits_where_it_is_told() -> None:
    system = System()
    stream = system.stream(0)
    first = system.copy(1, 0, 50 * MB, stream)
    stream.synchronize()
    system.pause(100)
    second = system.copy(3, 2, MB)
    result = system.run()
    assert second.submitted_us == pytest.approx(first.ended_us + 100)
    assert result.time_us == pytest.approx(second.ended_us)


def test_kernels_of_a_gpu_follow_each_other_and_overlap_with_copies() -> None:
    system = System()
    a, b = system.stream(0), system.stream(0)
    system.kernel(500, a)
    system.kernel(500, b)
    copy = system.copy(1, 0, 10 * MB, system.stream(0))
    ends = [a.record(), b.record()]
    system.run()
    assert ends[1].time_us - ends[0].time_us == pytest.approx(500)
    assert copy.ended_us < 100


def test_an_event_behind_a_kernel_waits_for_no_copy_engine() -> None:
    system = System()
    a, b = system.stream(0), system.stream(0)
    long = system.copy(1, 0, 500 * MB, b)
    system.kernel(50, a)
    end = a.record()
    late = system.copy(1, 0, MB, a)
    system.run()
    assert end.time_us < 100 < long.ended_us == late.began_us


def test_pageable_memory_goes_through_the_host() -> None:
    system = System()
    pinned = system.copy(0, "host", 64 * MB)
    system.synchronize()
    pageable = system.copy(0, "host", 64 * MB, pinned=False)
    after = system.copy(1, 0, MB, system.stream(0))
    result = system.run()
    assert pageable.duration_us > 3 * pinned.duration_us
    assert pageable.bottleneck == result.bottleneck == "host copying" and "host copying" in str(result)
    read = 64 * MB / system.node.config.copies.read_cached_gb_s / 1e3
    assert after.submitted_us - pageable.submitted_us == pytest.approx(read, rel=0.05), "the call returns late"
    both = {link: use.bytes for link, use in result.links.items()}
    assert both["pcie0.pcie>gpu0"] == pytest.approx(128 * MB)


def test_two_staging_buffers_keep_a_fast_host_waiting() -> None:
    system = System(overrides=["copies.read_cached_gb_s=10000"])
    copy = system.copy(0, "host", 64 << 20, pinned=False)
    after = system.copy(1, 0, MB, system.stream(0))
    system.run()
    config = system.node.config
    in_buffers = 2 * config.copies.staging_bytes / system.node.bandwidth_gb_s(system.node.path("host0", "gpu0")) / 1e3
    returned = after.submitted_us - config.host.large_copy_call_us
    assert copy.ended_us - returned == pytest.approx(in_buffers, rel=0.1)


def test_what_is_staged_through_host_memory_holds_both_engines() -> None:
    system = System("pcie")
    staged = system.copy(2, 0, 20 * MB, system.stream(0))
    engine = system.copy("host", 0, 20 * MB, system.stream(0))
    system.run()
    assert "bridge0.memory>host0" in staged.links and engine.began_us == staged.ended_us


def test_a_copy_within_a_gpu_uses_its_memory() -> None:
    system = System()
    copies = [system.copy(0, 0, 500 * MB, system.stream(0)) for _ in range(2)]
    result = system.run()
    assert copies[0].duration_us == pytest.approx(2 * 500 * MB / 2106e3, rel=0.1)
    assert set(result.links) == {"gpu0.memory"}


def test_machines_copy_over_their_nics() -> None:
    for name, slowest in (("two_nodes_ib", "infiniband"), ("two_nodes_sockets", "socket")):
        system = System(name)
        copies = ring(system)
        result = system.run()
        across = [copy for copy in copies if any("network0" in link for link in copy.links)]
        assert len(across) == 2
        assert all(result.links[copy.bottleneck].link.kind == slowest for copy in across)
        assert result.links[result.bottleneck].link.kind == slowest


def test_the_report_names_the_slow_link() -> None:
    system = System(overrides=['links.scale=[["gpu3.nvlink>switch0", 0.25]]'])
    ring(system)
    text = str(system.run())
    assert "Bottleneck  gpu3.nvlink>switch0 (nvlink, 99.4 GB/s" in text
    assert "gpu3 -> gpu4" in text and "8 copies, 512.0 MB" in text
    small = System()
    small.copy(1, 0, 4096)
    assert "of the copies' time is start-up and latency" in str(small.run())
    empty = System().run()
    assert "Nothing moved" in str(empty) and empty.bottleneck == "" and empty.time_us == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((9, 0, 1), "no device 'gpu9'"),
        (("gpu0", "hots", 1), "no device 'hots'"),
        (("host", "host", 1), "no GPU at either end"),
    ],
)
def test_mistakes_are_named(arguments: tuple[int | str, int | str, int], message: str) -> None:
    with pytest.raises(NodeError, match=message):
        System().copy(*arguments)


def test_other_mistakes_are_named() -> None:
    system = System(overrides=['links.down=["gpu3-switch0", "gpu3-pcie3"]'])
    with pytest.raises(NodeError, match="no way from gpu0 to gpu3"):
        system.copy(3, 0, 1)
    with pytest.raises(ValueError, match="-1 bytes"):
        system.copy(1, 0, -1)
    with pytest.raises(NodeError, match="not to host0"):
        system.stream("host0")
    with pytest.raises(ValueError, match="another system"):
        system.copy(1, 0, 1, System().stream(0))


def test_nothing_to_copy_still_takes_its_start_up() -> None:
    system = System()
    copy = system.copy(1, 0, 0)
    result = system.run()
    assert copy.ended_us > 0 and copy.bottleneck == "" and not result.links


@pytest.mark.parametrize("name", ["dgx1", "pcie"])
def test_twice_the_bandwidth_takes_half_the_time(name: str) -> None:
    """With nothing but links in the way: no start-up, no latency, no time for calls."""
    node = load_node(name)
    still = [key for key in describe_node_keys() if key.endswith("_us")]
    times = []
    for factor in (1, 2):
        scale = [[link.name, float(factor)] for link in node.links]
        system = System(node, overrides={**dict.fromkeys(still, 0.0), "links.scale": scale})
        copies = [*ring(system), *ring(system, 10 * MB)]
        copies += [system.copy(gpu, "host", 20 * MB, system.stream(gpu)) for gpu in system.node.gpus]
        system.run()
        times.append([copy.ended_us for copy in copies])
    assert times[1] == pytest.approx([each / 2 for each in times[0]])
