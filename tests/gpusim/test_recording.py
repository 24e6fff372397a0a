"""Runs that read a recording instead of computing values: the same cycles and counts as those that compute."""

import numpy as np
import pytest

import gpusim
from gpusim.errors import MemoryAccessError
from gpusim.explore.evaluate import evaluate
from gpusim.explore.point import Point
from gpusim.host import recording
from programs import registry
from tests.gpusim import bundled
from tests.gpusim.kernels import Kernels

KERNELS = Kernels("""
#define KERNEL extern "C" __global__ void
KERNEL many(float *x, const int *n) { for (int k = 0; k < *n; k++) x[threadIdx.x] = x[threadIdx.x] * 3 + k; }
KERNEL beyond(float *x) { x[threadIdx.x] = 1; }
""")

RECORDED = (
    "vector_add", "matmul/tiled", "reduction/interleaved_divergent", "access/gather", "bank_conflict/32",
    "constant/ways32", "histogram/shared_atomics", "access/scatter_add", "softmax/online", "spill/local_array",
    "matmul_tensor/ldmatrix",
)  # fmt: skip


def simulated(name, replay, gpu="h200", **overrides):
    variant = registry.get(name)
    launch = variant.make(variant.test_size, 0)
    before = [np.asarray(each).tobytes() for each in launch.args]
    result = bundled.simulate(launch, gpu, replay=replay, overrides=overrides)
    return result, before == [np.asarray(each).tobytes() for each in launch.args]


def counts(result):
    record = result.record
    return record.cycles, record.counters.tolist(), record.memory.tolist(), record.slices.tolist()


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(recording, "_kept", type(recording._kept)())


@pytest.mark.parametrize("name", RECORDED)
def test_the_result_is_the_same_on_every_machine(name):
    machines = [{}, {"dram.latency_cycles": 900, "issue.policy": "lrr"}, {"sm.count": 7, "l2.ways": 8}]
    for overrides in machines:
        computed, _ = simulated(name, False, **overrides)
        replayed, unchanged = simulated(name, True, **overrides)
        assert counts(replayed) == counts(computed)
        assert unchanged
    assert len(recording._kept) == 1


def test_what_cannot_be_recorded_is_computed():
    name = "matmul_tensor/asynchronous"
    assert counts(simulated(name, True)[0]) == counts(simulated(name, False)[0])
    assert not recording._kept


def test_other_banks_and_other_inputs_are_other_recordings():
    simulated("transpose/tiled", True)
    simulated("transpose/tiled", True, **{"shared.banks": 16})
    assert len(recording._kept) == 2

    found = []
    for n in (3, 30):
        args = np.zeros(64, np.float32), np.array([n], np.int32)
        found.append(gpusim.simulate(KERNELS["many"], 1, 64, args, replay=True).metrics["smsp__inst_executed.sum"])
    assert found[1] > found[0] and len(recording._kept) == 4


def test_a_recording_that_is_too_long_is_none(monkeypatch):
    monkeypatch.setattr("gpusim.host.recording.MOST_WORDS", 256)
    replayed, unchanged = simulated("collatz/consecutive", True)
    assert counts(replayed) == counts(simulated("collatz/consecutive", False)[0])
    assert not recording._kept and unchanged


def test_a_sweep_executes_once():
    points = [Point("matmul/tiled", "h200", {"dram.latency_cycles": 400 + 50 * k}, {"size": 64}) for k in range(3)]
    rows = [evaluate(point) for point in points]
    assert len(recording._kept) == 1
    checked = [evaluate(point, verify=True) for point in points]
    assert [row["cycles"] for row in rows] == [row["cycles"] for row in checked]
    assert {row["error"] for row in rows + checked} == {None}


def test_errors_are_the_same():
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        gpusim.simulate(KERNELS["beyond"], 1, 128, (np.zeros(100, np.float32),), replay=True)
