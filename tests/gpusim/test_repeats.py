"""Launches that repeat are timed once (`mode="once"`), where what they do is the same; else they are timed."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda

import gpusim
import isa
from gpusim.engine.state import L, ms
from gpusim.errors import MemoryAccessError
from gpusim.host import repeats
from programs import images, registry

N = 1 << 17


@cuda.jit
def scale(values, factor, turns):
    i = cuda.grid(1)
    if i < values.size:
        x = values[i]
        for _ in range(turns):
            x = x * factor + 1
        values[i] = x


@cuda.jit
def as_told(values, turns):
    i = cuda.grid(1)
    x = values[i]
    for _ in range(turns[0]):
        x = x * 3 + 1
    values[i] = x


@cuda.jit
def shifted(values, by):
    i = cuda.grid(1)
    values[i + by[0]] += 1


def launched(device, kernel, *args):
    return device.launch(kernel, N // 256, 256, args).record


@pytest.fixture
def device():
    with gpusim.Device("h200", mode="once") as made:
        yield made


def test_what_repeats_is_executed_with_the_time_of_what_was_timed(device):
    values = device.to_device(np.arange(N, dtype=np.float32))
    records = [launched(device, scale, values, np.float32(1), np.int32(8)) for _ in range(5)]
    assert [each.mode for each in records[:2]] == ["detailed"] * 2  # the first one's code and data were in no cache
    assert [each.mode for each in records[-2:]] == ["once"] * 2
    assert records[-1].cycles == records[-2].cycles in {each.cycles for each in records[:3]}
    assert (records[-1].counters[:, :4] == records[0].counters[:, :4]).all()
    assert (values.copy_to_host() == np.arange(N, dtype=np.float32) + 40).all()


def test_it_takes_what_it_takes_when_every_launch_is_timed():
    cycles = {}
    for mode in ("detailed", "once"):
        with gpusim.Device("h200", mode=mode) as device:
            launch = registry.get("matmul/tiled").make(256, 1)
            args = [device.to_device(each) if isinstance(each, np.ndarray) else each for each in launch.args]
            runs = [device.launch(images.image("matmul/tiled"), launch.grid, launch.block, args) for _ in range(4)]
            cycles[mode] = [run.cycles for run in runs]
    assert runs[-1].record.mode == "once"
    # Two launches in turn differ by up to 2 %, though all but the first find everything in L2.
    assert cycles["once"] == pytest.approx(cycles["detailed"], rel=0.03)
    assert sum(cycles["once"]) == pytest.approx(sum(cycles["detailed"]), rel=0.005)


def test_scalars_tell_launches_apart(device):
    values = device.to_device(np.zeros(N, np.float32))
    short, long = (
        [launched(device, scale, values, np.float32(1), np.int32(turns)) for _ in range(3)] for turns in (8, 16)
    )
    assert long[0].mode == "detailed"
    assert long[-1].cycles > short[-1].cycles


def test_a_launch_that_does_something_else_is_undone_and_timed(device):
    values, turns = device.to_device(np.zeros(N, np.int64)), device.to_device(np.full(1, 8))
    before = [launched(device, as_told, values, turns) for _ in range(3)]
    assert before[-1].mode == "once"
    device.copy(turns, device.to_device(np.full(1, 12)))
    other = launched(device, as_told, values, turns)
    assert other.mode == "detailed"
    assert other.counters[:, 0].sum() > before[-1].counters[:, 0].sum()
    expected = (3 ** (3 * 8 + 12) - 1) // 2
    assert (values.copy_to_host() == expected).all()


def test_empty_caches_tell_launches_apart(device):
    values = device.to_device(np.zeros(N, np.float32))
    modes = []
    for _ in range(4):
        modes.append(launched(device, scale, values, np.float32(1), np.int32(8)).mode)
    device.flush_l2()
    assert modes[-1] == "once"
    assert launched(device, scale, values, np.float32(1), np.int32(8)).mode == "detailed"


def test_who_reads_clocks_is_timed_each_time(device, tmp_path):
    source = 'extern "C" __global__ void k(long long *v) { v[blockIdx.x * blockDim.x + threadIdx.x] += clock64() > 0; }'
    (tmp_path / "k.cu").write_text(source)
    values = device.to_device(np.zeros(N, np.int64))
    kernel = isa.load(tmp_path / "k.cu")
    assert {launched(device, kernel, values).mode for _ in range(4)} == {"detailed"}


def test_an_error_of_a_launch_that_repeats_is_told_as_of_any(device):
    values, by = device.to_device(np.zeros(N, np.float32)), device.to_device(np.zeros(1, np.int64))
    for _ in range(3):
        launched(device, shifted, values, by)
    assert launched(device, shifted, values, by).mode == "once"
    device.copy(by, device.to_device(np.full(1, N)))
    with pytest.raises(MemoryAccessError, match="past the end"):
        launched(device, shifted, values, by)
    assert (values.copy_to_host() == 4).all()


def test_a_launch_that_memory_holds_up_takes_what_it_takes_when_each_is_timed():
    cycles = {}
    for mode in ("detailed", "once"):
        with gpusim.Device("a10", mode=mode) as device:  # whose L2 holds a third of the array
            values = device.to_device(np.zeros(1 << 22, np.float32))
            what = scale, values.size // 256, 256, (values, np.float32(1), np.int32(1))
            runs = [device.launch(*what) for _ in range(4)]
            cycles[mode] = [run.cycles for run in runs]
    assert runs[-1].record.mode == "once"
    assert cycles["once"] == pytest.approx(cycles["detailed"], rel=0.02)


@pytest.mark.parametrize(
    ("moved", "issued", "share"), [(1.0, 1.0, 1.0), (0.9, 0.9, 0.9), (0.9, 1.0, math.inf), (0.7, 0.7, math.inf)]
)
def test_time_goes_with_what_memory_moves_where_it_is_the_bound(moved, issued, share):
    def found(times, turns):
        memory, counters = np.zeros(ms.COUNTERS, np.int64), np.zeros((4, L.COUNT_FIELDS), np.int64)
        memory[[ms.CNT_FILL_SECTORS, ms.CNT_WRITEBACK_SECTORS]] = 400_000 * times, 400_000 * times
        counters[:, L.COUNT_EXECUTED] = 1000 * turns
        return {"memory": memory, "counters": counters}

    config = SimpleNamespace(dram_bytes_per_cycle=32 * 100)
    run = SimpleNamespace(session=SimpleNamespace(config=config))
    timed = repeats.Timed(10_000, found(1, 1), warm=True)  # 80 of the 100 sectors that memory moves in a cycle
    assert repeats._share(timed, found(moved, issued), run) == pytest.approx(share)


def test_threads_change_nothing():
    found = []
    for threads in (1, 2):
        with gpusim.Device("h200", mode="once", threads=threads) as device:
            values = device.to_device(np.arange(N, dtype=np.float32))
            records = [launched(device, scale, values, np.float32(1), np.int32(8)) for _ in range(4)]
            found.append([(each.mode, each.cycles, each.counters.tobytes()) for each in records])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["matmul/tiled", "softmax/online", "histogram/global_atomics"])
def test_functional_runs_are_the_same_on_any_number_of_threads(name):
    found = []
    for threads in (1, 2, 3):
        launch = registry.get(name).make(256, 1)
        result = gpusim.simulate(
            images.image(name), launch.grid, launch.block, launch.args, "h200", threads=threads, mode="functional"
        )
        outputs = b"".join(each.tobytes() for each in launch.args if isinstance(each, np.ndarray))
        found.append((result.record.counters.tobytes(), outputs))
    assert found[0] == found[1] == found[2]
