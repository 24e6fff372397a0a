"""Several grids on a GPU at once, copies beside them, and the host between: one clock for all of it."""

import itertools

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim.engine.grid import EndedWithAnother
from gpusim.engine.state import layout as L
from gpusim.errors import CyclesExceeded, MemoryAccessError
from programs import images, registry
from tests.gpusim import bundled
from tests.gpusim import parameter_kernels as kernels


def chain(x, steps):
    i = cuda.grid(1)
    value = x[i]
    for _ in range(steps):
        value = value * np.float32(1.0001) + np.float32(1)
    x[i] = value


def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def out_of_bounds(x):
    x[cuda.grid(1) + 1_000_000] = 1


@pytest.fixture
def device():
    with gpusim.Device("tiny", threads=1) as made:
        yield made


def chains(device, count, blocks=1, steps=400):
    return [device.to_device(np.ones(128 * blocks, np.float32)) for _ in range(count)], blocks, np.int32(steps)


def span(device, launches):
    """Cycles from now until all of them are done."""
    start = device.event()
    start.record()
    begun = device.now_cycles
    launches()
    device.synchronize()
    return device.now_cycles - begun


FOUR_SMS = ["sm.count=4", "sm.gpcs=1"]


# --- results and counts ----------------------------------------------------------------------------------------------


def test_programs_beside_each_other_compute_and_count_what_they_do_alone():
    variants = [ladder[0] for ladder in registry.families().values()]
    variants = [each for each in variants if isinstance(each.kernel, type(add_one)) and not each.polls][::2]
    assert len(variants) > 10
    with gpusim.Device("h200", threads=2, overrides=FOUR_SMS) as device:
        pending, expected, launches = [], [], []
        for variant in variants:
            launch = variant.make(variant.test_size, 0)
            expected.append(variant.reference(launch))
            launches.append(launch)
            stream = device.stream()
            how = images.image(variant.name), launch.grid, launch.block, launch.args, launch.shared_bytes
            pending.append(device.launch(*how, stream=stream))
        device.synchronize()
    for variant, launch, want, each in zip(variants, launches, expected, pending, strict=True):
        assert variant.mismatch(want, variant.results(launch)) is None
        fields = [L.COUNT_EXECUTED, L.COUNT_THREADS, L.COUNT_PRED_ON, L.COUNT_SHARED_WAVEFRONTS]
        fields += [L.COUNT_SECTORS, L.COUNT_TAGS]
        together = each.result.record.counters
        alone = bundled.checked(variant.name, "h200", overrides=FOUR_SMS).record.counters
        assert (together[:, fields] == alone[:, fields]).all(), variant.name


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("fault", ["limit", "address"])
def test_the_launch_that_fails_is_blamed_and_not_one_beside_it(device, fault, first):
    arrays, blocks, steps = chains(device, 2, steps=2000)
    streams = [device.stream(), device.stream()]
    for which in (first, 1 - first):
        how = {"max_cycles": 1000} if which and fault == "limit" else {}
        kernel, args = (out_of_bounds, arrays[1:]) if which and fault == "address" else (chain, (arrays[which], steps))
        device.launch(kernel, blocks, 128, args, stream=streams[which], **how)
    with pytest.raises(CyclesExceeded if fault == "limit" else MemoryAccessError) as found:
        device.synchronize()
    if fault == "address":
        assert found.value.kernel == "out_of_bounds"
    device.launch(chain, blocks, 128, (arrays[0], steps), stream=streams[0])
    device.synchronize()


def test_streams_can_be_emptied_and_go_on(device):
    """Whatever was on its way: launches that share a hardware queue, copies, grids that have come and not begun."""
    engine = device.streams.engine
    arrays, blocks, steps = chains(device, 9)
    streams = [device.stream() for _ in range(9)]
    for after in (0, 1, 150, 400, 3000):
        for array, stream in zip(arrays, streams, strict=True):
            device.launch(chain, blocks, 128, (array, steps), stream=stream)
            device.launch(chain, blocks, 128, (array, steps), stream=stream)
        end = device.now_cycles + after
        while engine.env.peek() <= end:
            engine.env.step()
        engine.drop()
        assert not any(stream.pending for stream in engine.streams)
        for array, stream in zip(arrays, streams, strict=True):
            device.launch(chain, blocks, 128, (array, steps), stream=stream)
        device.synchronize()


# --- what waits for what ----------------------------------------------------------------------------------------------
def test_a_launch_on_an_idle_gpu_takes_longer_unless_it_is_the_first():
    with gpusim.Device("tiny", threads=1, overrides=["launch.again_cycles=5000"]) as device:
        (array, other), blocks, steps = chains(device, 2)
        streams = [device.stream() for _ in range(2)]

        def begin(stream, array):
            return device.launch(chain, blocks, 128, (array, steps), stream=stream)

        first, queued, beside = begin(streams[0], array), begin(streams[0], array), begin(streams[1], other)
        device.synchronize()
        on_idle, named = begin(streams[0], array), device.launch(chain, blocks, 128, (array, steps))
        assert [each.again for each in (first, queued, beside, on_idle)] == [False, False, False, True]
        longer = [each.cycles - queued.result.cycles for each in (on_idle.result, named)]
        assert longer == [pytest.approx(5000, abs=200)] * 2


def test_a_programmatic_launch_begins_early_and_waits_for_the_one_before(device):
    """Each of their threads adds 400, behind `griddepcontrol.wait`."""
    ends = []
    for programmatic in (False, True):
        out, stream = device.to_device(np.zeros(32, np.uint32)), device.stream()
        begun = device.now_cycles
        how = 4, 32, [out, np.int32(400)]
        for _ in range(5):
            device.launch(kernels.program("dependent"), *how, stream=stream, programmatic=programmatic)
        device.synchronize()
        ends.append(device.now_cycles - begun)
        assert out.copy_to_host()[0] == 5 * 4 * 32 * 400
        spans = [span for span in device.streams.engine.engines.spans if span.stream == stream.queue.number]
        pairs = list(itertools.pairwise(sorted((span.start, span.end) for span in spans if span.kind == "kernel")))
        assert len(pairs) == 4 and all((then[0] < first[1]) == programmatic for first, then in pairs)
        assert all(first[1] <= then[1] for first, then in pairs)
    assert ends[1] < ends[0]


@pytest.mark.parametrize("wait", [lambda device, stream: stream.synchronize(), lambda device, _: device.synchronize()])
def test_who_waits_for_a_stream_hears_of_its_launch_in_the_users_terms(device, wait):
    stream = device.stream()
    run = device.launch(out_of_bounds, 1, 32, (device.to_device(np.ones(32, np.float32)),), stream=stream)
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        wait(device, stream)
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        assert run.result


def test_a_launch_that_has_not_begun_outlives_the_error_of_another(device):
    failing, other, event = device.stream(), device.stream(), device.event()
    x, y = (device.to_device(np.ones(32, np.float32)) for _ in range(2))
    device.launch(out_of_bounds, 1, 32, (x,), stream=failing)
    event.record(failing)
    other.wait_event(event)
    run = device.launch(add_one, 1, 32, (y,), stream=other)
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        assert run.result
    assert run.result.cycles > 0 and (y.copy_to_host() == 2).all()


def test_a_programmatic_launch_behind_one_that_fails_is_ended_with_it(device):
    out, stream = device.to_device(np.zeros(32, np.uint32)), device.stream()
    device.launch(out_of_bounds, 1, 128, (out,), stream=stream)
    device.launch(kernels.program("dependent"), 4, 32, [out, np.int32(8)], stream=stream, programmatic=True)
    with pytest.raises(MemoryAccessError):
        device.synchronize()
    device.launch(kernels.program("dependent"), 4, 32, [out, np.int32(8)], stream=stream, programmatic=True)
    device.synchronize()


def test_a_graph_does_what_its_edges_allow(device):
    """A root, two branches side by side, and a copy that waits for both; started twice, it does it twice."""
    x, y = (device.to_device(np.zeros(128, np.float32)) for _ in range(2))
    seen, graph, stream = np.zeros(128, np.float32), device.graph(), device.stream()

    def launch(array, steps=2000):
        return lambda stream: device.launch(chain, 1, 128, (array, np.int32(steps)), stream=stream)

    root = graph.add(launch(x, 1))
    branches = [graph.add(launch(array), [root]) for array in (x, y)]
    graph.add(lambda stream: x.copy_to_host(seen, stream), branches)
    assert all(each.result.cycles > 1000 for each in graph.start(stream)[:3])
    device.synchronize()
    spans = device.streams.engine.engines.spans[-4:]
    assert [span.kind for span in spans] == ["kernel", "kernel", "kernel", "copy"]
    root_span, one, other, copy = spans
    assert root_span.end <= min(one.start, other.start) and max(one.end, other.end) <= copy.start
    assert max(one.start, other.start) < min(one.end, other.end)
    once = seen.copy()
    graph.start(stream)
    device.launch(add_one, 1, 128, (x,), stream=stream)
    device.synchronize()
    assert (seen > once).all() and (x.copy_to_host() == seen + 1).all()
    with pytest.raises(ValueError, match="own graph"):
        device.graph().add(launch(x), [root])


def test_a_copy_within_the_gpu_stands_in_the_queue_of_grids():
    with gpusim.Device("h200", threads=1, overrides=["sm.count=4", "sm.gpcs=1"]) as device:
        source, target = (device.device_array(1 << 20, np.float32) for _ in range(2))
        source.copy_to_device(np.arange(1 << 20, dtype=np.float32))
        arrays, _, steps = chains(device, 2, blocks=256, steps=200)
        before = len(device.timeline().spans)
        device.launch(chain, 256, 128, (arrays[0], steps), stream=device.stream())
        device.copy(target, source, stream=device.stream())
        device.launch(chain, 256, 128, (arrays[1], steps), stream=device.stream())
        device.synchronize()
        first, copy, second = sorted(device.timeline().spans[before:], key=lambda span: span.start)
        assert (first.kind, copy.kind, second.kind) == ("kernel", "copy", "kernel")
        assert (target.copy_to_host() == source.copy_to_host()).all()
        latency_us = device.config.dram.latency_cycles / device.config.gpu.clock_mhz
        moving_us = source.nbytes / (1e3 * device.streams.mover.copies.device_gb_s)
        assert copy.end - copy.start == pytest.approx(latency_us + moving_us, rel=0.01)
        # 256 blocks on four SMs are four waves: the copy waits until the last of them has started, not until its end.
        assert first.start + 0.5 * (first.end - first.start) < copy.start < first.end
        assert copy.end <= second.start


def test_a_copy_within_the_gpu_that_fails_is_blamed_itself(device):
    (x,), blocks, steps = chains(device, 1, blocks=8, steps=2000)
    source, target = (device.device_array(64, np.float32) for _ in range(2))
    first, second = device.stream(), device.stream()

    def fails():
        raise ValueError("nothing moves")

    device.launch(chain, blocks, 128, (x, steps), stream=first)
    device.streams.copy(second.queue, source.nbytes, None, True, fails)
    with pytest.raises(ValueError, match="nothing moves"):
        second.synchronize()
    with pytest.raises(EndedWithAnother):
        first.record().synchronize()
    device.copy(target, source, stream=second)
    device.synchronize()
    device.launch(add_one, 1, 64, (target,))
    assert (target.copy_to_host() == source.copy_to_host() + 1).all()
