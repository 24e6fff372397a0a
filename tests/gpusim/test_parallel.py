"""Training schedules: laws that every one keeps, and numbers worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim
from gpusim.errors import NodeError
from gpusim.parallel import (
    CallCost,
    Communication,
    Layer,
    ParallelError,
    data_parallel,
    fully_sharded,
    pipeline,
    simulated,
    tensor_parallel,
)  # fmt: skip
from gpusim.parallel.machine import Sms
from gpusim.parallel.pipeline import order
from programs import layer as layer_kernels

MIB = 1 << 20


def stack(count: int = 8, forward: float = 100.0, backward: float = 200.0, **options) -> list[Layer]:
    sizes = {"parameter_bytes": 16 * MIB, "activation_bytes": 8 * MIB} | options
    return [Layer(f"layer {k}", forward, backward, **sizes) for k in range(count)]


class Fixed(Communication):
    """Every call takes the same time and takes SMs."""

    def __init__(self, time_us: float, channels: int = 0, gpus: int = 4):
        super().__init__(gpus)
        self.cost = CallCost(time_us, 0.0, channels)

    def collective(self, name: str, nbytes: int) -> CallCost:
        return self.cost

    def transfer(self, source: int, destination: int, nbytes: int) -> CallCost:
        return self.cost


ALL = {
    "data_parallel": data_parallel, "fully_sharded": fully_sharded,
    "pipeline": lambda layers, **options: pipeline(layers, 4, 8, **options),
}  # fmt: skip


# Without communication


@pytest.mark.parametrize("blocks", [(), (512,), (100, 300)])
def test_without_communication_a_step_is_its_compute(blocks):
    layers = stack(forward_blocks=blocks, backward_blocks=blocks)
    for each in (data_parallel, fully_sharded):
        schedule = each(layers, communication=Fixed(0.0, gpus=4))
        assert schedule.time_us == pytest.approx(8 * 300)
        assert schedule.utilisation == pytest.approx(1) and schedule.bubble == pytest.approx(0, abs=1e-9)
        assert schedule.exposed_communication_us == 0
    assert tensor_parallel(layers, communication=Fixed(0.0, gpus=4)).time_us == pytest.approx(8 * 300 / 4)
    assert pipeline(layers, 1, 3, communication=Fixed(0.0, gpus=1)).time_us == pytest.approx(3 * 8 * 300)


def test_one_gpu_has_nobody_to_talk_to():
    assert data_parallel(stack(), 1).time_us == pytest.approx(2400)
    assert fully_sharded(stack(), 1).link_bytes == {}


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("stages", "batches"), [(1, 1), (2, 1), (4, 8), (8, 3), (4, 16)])
def test_bubble_of_equal_stages(schedule, stages, batches):
    found = pipeline(stack(8), stages, batches, schedule, communication=Fixed(0.0, gpus=stages))
    assert found.bubble == pytest.approx((stages - 1) / (batches + stages - 1))
    assert found.time_us == pytest.approx(300 * 8 / stages * (batches + stages - 1))


def test_recomputation_costs_a_forward_pass():
    for each in (data_parallel, fully_sharded):
        assert each(stack(), recompute=True, communication=Fixed(0.0, gpus=4)).time_us == pytest.approx(8 * 400)
    found = pipeline(stack(), 4, 8, recompute=True, communication=Fixed(0.0, gpus=4))
    assert found.time_us == pytest.approx(2 * 400 * 11)
    assert found.utilisation == pytest.approx(0.75 * (1 - found.bubble)), "what is done again is not useful"


def test_forward_alone():
    layers = stack(backward=0.0)
    for each in ALL.values():
        schedule = each(layers, communication=Fixed(0.0, gpus=4))
        assert {event.kind for event in schedule.timeline} == {"forward"}
        assert max(schedule.memory_peak_bytes.values()) <= 8 * 16 * MIB


# With communication


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 300), st.floats(1, 300), st.integers(1, 60), st.integers(0, 700)), min_size=1, max_size=8
    ),
    st.floats(0, 400), st.integers(0, 40), st.integers(1, 50),
)  # fmt: skip
def test_overlap_is_never_slower_and_never_beats_compute(rows, time_us, channels, bucket):
    layers = []
    for k, (forward, backward, size, count) in enumerate(rows):
        blocks = (count,) if count else ()
        layers.append(Layer(f"{k}", forward, backward, size, forward_blocks=blocks, backward_blocks=blocks * 2))
    costs = Fixed(time_us, channels)
    compute = sum(layer.forward_us + layer.backward_us for layer in layers)
    for run, options in ((data_parallel, {"bucket_bytes": bucket}), (fully_sharded, {})):
        with_it = run(layers, communication=costs, **options)
        without = run(layers, communication=costs, overlap=False, **options)
        assert compute - 1e-6 <= with_it.time_us <= without.time_us + 1e-6
        for each in (with_it, without):
            assert 0 <= each.exposed_communication_us <= each.communication_us + 1e-6 <= each.time_us + 2e-6
            assert 0 <= each.utilisation <= 1 + 1e-9 and 0 <= each.bubble <= 1


def test_what_cannot_be_hidden():
    # Eight buckets of 50 us each: seven pass beside backward passes of 200 us, the last has nothing to hide behind.
    schedule = data_parallel(stack(), bucket_bytes=1, communication=Fixed(50))
    assert schedule.time_us == pytest.approx(2400 + 50)
    assert schedule.exposed_communication_us == pytest.approx(50)
    assert schedule.communication_us == pytest.approx(400)
    three = data_parallel(stack(), bucket_bytes=40 * MIB, communication=Fixed(50))
    assert [e.name for e in three.events(0, "reduce")] == ["layer 5-layer 7", "layer 2-layer 4", "layer 0-layer 1"]
    late = data_parallel(stack(), bucket_bytes=1, overlap=False, communication=Fixed(50))
    assert late.time_us == pytest.approx(2400 + 400) and late.exposed_communication_us == pytest.approx(400)
    # Longer than a backward pass: calls queue up behind each other.
    slow = data_parallel(stack(), bucket_bytes=1, communication=Fixed(300))
    assert slow.time_us == pytest.approx(8 * 100 + 200 + 8 * 300)


def test_gradients_are_summed_in_the_last_micro_batch():
    schedule = data_parallel(stack(), micro_batches=3, bucket_bytes=1, communication=Fixed(50))
    assert schedule.time_us == pytest.approx(3 * 2400 + 50)
    assert len(schedule.events(0, "reduce")) == 8 and min(e.start_us for e in schedule.events(0, "reduce")) > 4800


def test_a_gather_comes_before_its_layer():
    # Nothing ahead: every gather is waited for. One ahead: only the first of each pass.
    layers = stack(backward=200.0)
    none = fully_sharded(layers, prefetch=0, communication=Fixed(50))
    one = fully_sharded(layers, prefetch=1, communication=Fixed(50))
    assert one.time_us == pytest.approx(2400 + 3 * 50)
    assert none.time_us > one.time_us + 8 * 50
    for schedule in (none, one):
        for way, passes in (("forward", slice(0, 8)), ("backward", slice(8, 16))):
            gathers = schedule.events(0, "gather")[passes]
            for gather, compute in zip(gathers, schedule.events(0, way), strict=True):
                assert gather.name == compute.name and gather.end_us <= compute.start_us + 1e-9


def test_transfers_fill_and_drain_a_pipeline():
    found = pipeline(stack(4), 4, 1, communication=Fixed(10))
    assert found.time_us == pytest.approx(4 * 300 + 6 * 10)


def test_tensor_parallel_waits_for_every_collective():
    layers, costs = stack(4), Fixed(10)
    assert tensor_parallel(layers, split="columns", communication=costs).time_us == pytest.approx(300 + 4 * 10 + 3 * 10)
    assert tensor_parallel(layers, split="rows", communication=costs).time_us == pytest.approx(300 + 4 * 10)
    # In pairs: two all-reduces forward, one backward between the pairs.
    assert tensor_parallel(layers, communication=costs).time_us == pytest.approx(300 + 2 * 10 + 10)
    whole = tensor_parallel(layers, split="rows", whole=False, communication=costs)
    assert whole.time_us == pytest.approx(1200 + 4 * 10)


# SMs


def _run(blocks: int | None, held: int, until: float, time_us: float = 400.0, persistent: bool = False) -> float:
    env = simpy.Environment()
    sms = Sms(env, 100, 1000.0)

    def communicate():
        yield sms.hold(held)
        yield env.timeout(until)
        sms.release(held)

    if held:
        env.process(communicate())
    end = env.process(sms.run(time_us, blocks, persistent=persistent))
    env.run(until=end)
    return env.now


def test_blocks_take_turns_on_the_sms_that_are_left():
    assert _run(400, 0, 0) == pytest.approx(400)
    assert _run(None, 20, 1e6) == pytest.approx(500), "as much slower as there are fewer SMs"
    # Four turns of 100 us on 100 SMs are five on 80.
    assert _run(400, 20, 1e6) == pytest.approx(500)
    assert _run(100, 20, 1e6) == pytest.approx(800), "one turn becomes two"
    assert _run(100, 20, 30) == pytest.approx(430), "blocks that wait begin when the collective ends"
    assert _run(80, 20, 1e6) == pytest.approx(400), "SMs that were idle anyway"


def test_blocks_that_stay_have_two_tiles_of_their_own():
    def run(tiles: int, held: int, until: float = 1e6) -> float:
        return _run(tiles, held, until, time_us=100.0 * -(-tiles // 100), persistent=True)

    assert run(400, 0) == 400
    assert run(200, 20) == 400, "two turns of 80 blocks, then two of those that found no room"
    assert run(100, 20) == 200
    # 80 blocks do 360 tiles, the first of which are through after four turns; 20 others then do two each.
    assert run(400, 20) == 600
    # Long kernels hand out nearly all: 1,960 tiles to 80 blocks are 24.5 turns.
    assert run(2000, 20) == 2600
    assert run(200, 20, 30) == 230, "they begin when the collective ends"


@pytest.mark.parametrize(
    ("blocks", "persistent", "when"),
    [
        (400, False, 100),  # the end of the first turn
        (390, True, 400),  # ten blocks have no fourth tile and leave at 300, ten more are needed
    ],
)
def test_a_collective_waits_for_blocks_to_leave(blocks, persistent, when):
    env = simpy.Environment()
    sms = Sms(env, 100, 1000.0)
    got = []

    def communicate():
        yield env.timeout(10)
        yield sms.hold(20)
        got.append(env.now)

    env.process(communicate())
    env.run(until=env.process(sms.run(400, blocks, persistent=persistent)))
    assert got == [when]


def test_memory_that_a_collective_uses_is_not_there_for_a_kernel():
    env = simpy.Environment()
    sms = Sms(env, 100, 1.0)  # 1,000 bytes a microsecond
    sms.add_traffic(500.0)
    env.run(until=env.process(sms.run(100, None, 100 * 800)))
    assert env.now == pytest.approx(160)
    env.run(until=env.process(sms.run(100, None, 100 * 400)))
    assert env.now == pytest.approx(260), "there is enough for both"


def test_collectives_slow_compute_down():
    free = data_parallel(stack(), bucket_bytes=1, communication=Fixed(50, 0))
    taken = data_parallel(stack(), bucket_bytes=1, communication=Fixed(50, 33))
    # Seven calls pass beside compute; while one runs, a quarter of the SMs is missing.
    assert taken.time_us - free.time_us == pytest.approx(7 * 50 / 4)


# Memory and bytes


def test_memory_of_schedules():
    layers, state = stack(8), 8 * 16 * MIB * 8
    assert data_parallel(layers, communication=Fixed(1)).memory_peak_bytes[0] == state + 8 * 8 * MIB
    again = data_parallel(stack(8, output_bytes=MIB), recompute=True, communication=Fixed(1))
    assert again.memory_peak_bytes[0] == state + 8 * MIB + 7 * MIB
    sharded = fully_sharded(layers, communication=Fixed(1)).memory_peak_bytes[0]
    assert state / 4 < sharded < state / 4 + 8 * 8 * MIB + 4 * 16 * MIB
    pipes = {name: pipeline(layers, 4, 8, name, communication=Fixed(1)) for name in ("1f1b", "gpipe")}
    assert pipes["gpipe"].memory_peak_bytes == dict.fromkeys(range(4), state // 4 + 8 * 16 * MIB)
    assert pipes["1f1b"].memory_peak_bytes == {k: state // 4 + (4 - k) * 16 * MIB for k in range(4)}
    for schedule in pipes.values():
        assert schedule.memory[0][-1][1] == state // 4, "what was allocated for the step is free again"


def test_bytes_are_conserved():
    layers, n = stack(6), 4
    data = data_parallel(layers, n)
    gradients = 6 * 16 * MIB
    out = "gpu0.nvlink>switch0"
    assert data.link_bytes[out] == pytest.approx(2 * (n - 1) / n * gradients)
    assert sum(data_parallel(layers, n, bucket_bytes=1).link_bytes.values()) == pytest.approx(
        sum(data.link_bytes.values())
    )
    sharded = fully_sharded(layers, n)
    assert sharded.link_bytes[out] == pytest.approx(3 * (n - 1) / n * gradients), "two gathers and a scatter"
    kinds = [e.kind for e in sharded.timeline]
    assert (kinds.count("gather"), kinds.count("scatter")) == (12, 6)
    pipe = pipeline(layers, 2, 5, "gpipe")
    assert pipe.link_bytes[out] == 5 * 8 * MIB
    assert 0 < data.link_utilisation[out] < 1
    start, end, share = data.link_timeline(out)[0]
    assert start < end and 0 < share <= 1


def test_events_of_a_stream_do_not_overlap_and_runs_repeat():
    layers = stack(8, forward_blocks=(200,), backward_blocks=(300, 150))
    for each in (*ALL.values(), tensor_parallel):
        schedule = each(layers)
        assert each(layers).timeline == schedule.timeline
        for gpu in schedule.simulated:
            for stream in {e.stream for e in schedule.events(gpu)}:
                events = [e for e in schedule.events(gpu) if e.stream == stream]
                assert all(a.end_us <= b.start_us + 1e-9 for a, b in pairwise(events))
        assert "GPUs of HGX H200" in str(schedule)


def test_over_two_machines_the_network_is_what_a_pipeline_waits_for():
    layers = stack(16, activation_bytes=64 * MIB)
    near, far = pipeline(layers, 8, 8), pipeline(layers, 16, 8, node="two_nodes_ib")
    assert len(far.simulated) == 16
    sends = {gpu: far.events(gpu, "send")[0].time_us for gpu in (6, 7)}
    assert sends[7] > 4 * sends[6] and sends[6] == pytest.approx(near.events(6, "send")[0].time_us)
    assert any(".infiniband>" in name for name in far.link_bytes)


def test_stages_have_layers_and_an_order():
    assert order("1f1b", 1, 3, 3) == [
        ("forward", 0), ("forward", 1), ("backward", 0), ("forward", 2), ("backward", 1), ("backward", 2),
    ]  # fmt: skip
    assert [way for way, _ in order("gpipe", 0, 2, 3)] == ["forward"] * 3 + ["backward"] * 3
    for times, stages, longest in (
        ((4, 1, 1, 1, 1, 4), 3, {0: 8, 1: 8, 2: 8}),
        ((3, 1, 1, 1, 1), 3, {0: 6, 1: 4, 2: 4}),  # the most even
        ((4, 1, 1, 1, 1, 4), [1, 1, 4], {0: 8, 1: 2, 2: 14}),
    ):
        layers = [Layer(f"{k}", time, time) for k, time in enumerate(times)]
        assert pipeline(layers, stages, 1, communication=Fixed(0.0, gpus=3)).compute_us == longest


# Layers


SMALL = ["sm.count=8", "sm.gpcs=2"]


@pytest.mark.parametrize(("which", "shape"), [("weights", (512, 2304, 1024)), ("input", (1024, 1536, 512))])
def test_a_part_of_a_product_tells_the_time_of_the_whole(which, shape):
    config = gpusim.load_config("h200", SMALL)
    found = simulated.product_time(*shape, which, config)
    launch = layer_kernels.product(*shape, simulated.LAYOUTS[which], 8)
    whole = gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, config, launch.shared_bytes)
    assert found.time_us == pytest.approx(whole.time_us, rel=0.025)
    assert found.blocks * 128 * 256 == shape[0] * shape[1]


@pytest.mark.parametrize("which", simulated.LAYOUTS)
def test_products_of_a_layer_are_right(which):
    m, n, k = 264, 520, 200
    launch = layer_kernels.product(m, n, k, simulated.LAYOUTS[which], 8, rng=np.random.default_rng(1))
    gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, "h200", launch.shared_bytes, overrides=SMALL)
    a, b, c = ((each.array.astype(np.uint32) << 16).view(np.float32).astype(float) for each in launch.args[:3])
    left, right = ((x.T if across else x) for x, across in zip((a, b), simulated.LAYOUTS[which], strict=True))
    # The result is rounded to eight bits; a sum of 200 positive products is far more exact.
    assert np.allclose(c, left @ right.T, rtol=2.0**-8)


def test_a_layer_is_simulated_once(monkeypatch, tmp_path):
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    sizes = (256, 256, 128)
    first = Layer.product("p", *sizes, overrides=SMALL)
    monkeypatch.setattr(simulated, "simulate", None)
    assert Layer.product("p", *sizes, overrides=SMALL) == first
    assert (first.parameter_bytes, first.output_bytes) == (2 * 256 * 128, 2 * 256 * 128)
    assert first.forward_blocks == (2,) and first.backward_blocks == (2, 2) and first.persistent
    for changed in ({"overrides": [*SMALL, "gpu.clock_mhz=1500"]}, {"gpu": "h100", "overrides": SMALL}):
        with pytest.raises(TypeError):
            Layer.product("p", *sizes, **changed)


def test_a_layer_of_simulated_kernels():
    from programs.registry import get

    launch = get("vector_add").make(4096, 0)
    result = gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, gpu="tiny")
    layer = Layer.of_results("add", result, [result, result], parameter_bytes=64)
    assert layer.forward_us == result.time_us and layer.backward_us == 2 * result.time_us
    assert layer.forward_traffic == result.roofline.bytes["DRAM"]
    assert len(layer.backward_blocks) == 2 and layer.forward_blocks[0] >= 1
    assert data_parallel([layer], communication=Fixed(0.0, gpus=2)).time_us == pytest.approx(3 * result.time_us)


# What is refused


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: data_parallel([]), "needs a layer"),
        (lambda: data_parallel(["x"]), "gpusim.parallel.Layer"),
        (lambda: data_parallel(stack(), bucket_bytes=0), "bucket_bytes"),
        (lambda: data_parallel(stack(), micro_batches=1.5), "micro_batches"),
        (lambda: fully_sharded(stack(), prefetch=-1), "prefetch"),
        (lambda: pipeline(stack(3), 4), "4 stages for 3 layers"),
        (lambda: pipeline(stack(8), [3, 3]), "6 together, but there are 8"),
        (lambda: pipeline(stack(8), [8, 0]), "every stage needs a layer"),
        (lambda: pipeline(stack(8), 4, 0), "micro_batches"),
        (lambda: pipeline(stack(8), 4, 4, "zigzag"), "no schedule 'zigzag'; there are 1f1b, gpipe"),
        (lambda: pipeline(stack(8), 4, communication=Fixed(1, gpus=2)), "4 stages need 4 GPUs"),
        (lambda: pipeline(stack(9), 9), "8 GPUs, not 9"),
        (lambda: tensor_parallel(stack(), split="diagonal"), "no split 'diagonal'"),
        (lambda: Layer("bad", -1.0), "layer 'bad': forward_us"),
        (lambda: Layer("bad", float("nan")), "forward_us"),
        (lambda: Layer("bad", 1.0, forward_blocks=(0,)), "forward_blocks"),
        (lambda: Layer.product("bad", 8, 8, 12), "multiples of 8"),
        (lambda: Layer.product("bad", 8, 8, 8, gpu="a100"), "A100 80GB is sm_80"),
    ],
)
def test_errors(call, words):
    with pytest.raises((ParallelError, NodeError)) as caught:
        call()
    assert words in str(caught.value)
