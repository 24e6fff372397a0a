"""The machine of SimPy processes: it computes and counts as the engine does, is about as fast, and can be changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim import machine
from gpusim.cli import main
from gpusim.engine.state import L
from gpusim.errors import DataRaceError, ModeError, SimulationError
from gpusim.workload.target import load_model
from programs import registry

MACHINES = Path(__file__).parents[2] / "docs/machines"
EXACT = [*range(L.COUNT_EXECUTED, L.COUNT_TAGS + 1), L.COUNT_SHARED_REQUESTS]
MOST_INSTRUCTIONS = 40_000
#: Programs that a launch's time decides: what they count differs, as it does between two GPUs.
IN_TURN = {"spin_lock/in_turn", "spin_lock/lanes"}


def both(name: str, size: int | None = None) -> tuple[gpusim.Result, gpusim.Result]:
    """A program's results on the engine and on the machine, whose outputs are the same and right."""
    results = []
    variant = registry.get(name)
    for model in ("engine", "simpy"):
        launch = variant.make(size or variant.test_size, 0)
        expected = variant.reference(launch)
        gpu = "h100" if variant.gpu == "h200" else variant.gpu
        what = launch.kernel, launch.grid, launch.block, launch.args, gpu, launch.shared_bytes
        results.append(gpusim.simulate(*what, signature=launch.signature, model=model))
        assert variant.mismatch(expected, variant.results(launch)) is None
        if results[0].record.counters[:, L.COUNT_EXECUTED].sum() > MOST_INSTRUCTIONS:
            pytest.skip("too large for the machine in a test")
    return results[0], results[1]


RATIOS: dict[str, float] = {}


@pytest.mark.parametrize("name", registry.names())
def test_it_computes_and_counts_as_the_engine_does(name):
    try:
        engine, simpy = both(name)
    except ModeError as refused:
        assert "does not model" in str(refused)
        pytest.skip(str(refused))
    if name not in IN_TURN:
        ours, theirs = simpy.record.counters[:, EXACT], engine.record.counters[:, EXACT]
        assert np.array_equal(ours, theirs)
    RATIOS[name] = simpy.cycles / engine.cycles
    assert 0.8 < RATIOS[name] < 1.2


def test_times_are_close_to_the_engines_in_the_mean():
    """Of the tests above, in one process."""
    if len(RATIOS) < 100:
        pytest.skip("needs the tests above")
    assert np.mean(np.abs(np.array(list(RATIOS.values())) - 1)) < 0.05


def test_every_cycle_of_a_warp_is_charged():
    for result in both("matmul/tiled"):
        stalls = result.record.counters[:, L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)].sum(axis=0)
        assert stalls[L.STALL_SELECTED] == result.record.counters[:, L.COUNT_EXECUTED].sum()
        assert stalls.sum() == pytest.approx(result.record.sm_warp_cycles.sum(), rel=0.001)


def test_a_run_repeats_cycle_for_cycle():
    assert both("reduction/shuffle")[1].cycles == both("reduction/shuffle")[1].cycles


@pytest.mark.parametrize("name", ["flash_attention/full", "cluster_reduction"])
def test_what_it_does_not_model_is_refused_by_name(name):
    with pytest.raises(ModeError, match=r"does not model (bulk and tensor copies|thread block clusters)"):
        cycles(name, "simpy")


def test_a_model_that_does_not_exist(capsys):
    assert main(["run", "vector_add", "--model", "simpi"]) == 2
    assert "there is no model 'simpi'; there are engine, simpy; did you mean simpy?" in capsys.readouterr().err
    assert main(["run", "vector_add", "--model", f"{MACHINES}/two_level.py:Absent"]) == 2


def test_what_only_the_engine_does_is_refused():
    launch = registry.get("vector_add").make(1024, 0)
    with pytest.raises(ModeError, match="without stop"):
        gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, "h100", model="simpy", mode="functional")


def test_metrics_are_there_or_said_not_to_be():
    """What an engine counts a machine counts too, or it has no metric of the name."""
    engine, simpy = both("matmul/tiled")
    for name, value in simpy.metrics.items():
        assert value or not engine.metrics[name] or "stalled" in name, name
    with pytest.raises(KeyError, match="a GPU run has no sm__inst_executed_pipe_adu"):
        simpy.metrics["sm__inst_executed_pipe_adu.sum"]


def test_a_trace_tells_every_issue_and_wait(tmp_path):
    launch = registry.get("transpose/tiled").make(64, 0)
    what = launch.kernel, launch.grid, launch.block, launch.args, "h100"
    result = gpusim.simulate(*what, model="simpy", trace=gpusim.TraceOptions(sms=range(4), blocks=[0]))
    trace, waited = result.trace, 0
    assert trace.complete and len(trace.issues) == result.record.counters[:, L.COUNT_EXECUTED].sum()
    assert (trace.blocks["end"] > trace.blocks["start"]).all() and (trace.warps["end"] <= result.cycles).all()
    for warp in trace.warps:
        issues = trace.issues[trace.issues["warp"] == warp["warp"]]
        stalls = trace.stalls[(trace.stalls["warp"] == warp["warp"]) & (trace.stalls["end"] <= issues["cycle"].max())]
        waited += (stalls["end"] - stalls["start"]).sum()
        assert issues["cycle"].max() - warp["start"] == (stalls["end"] - stalls["start"]).sum() + len(issues) - 1
    assert waited > 0
    trace.perfetto(tmp_path / "t.perfetto-trace")


def test_a_peers_memory_is_reached_over_nvlink():
    def copy(x, y):
        i = cuda.grid(1)
        y[i] = x[i]

    times = {}
    for model in ("engine", "simpy"):
        x, y = np.arange(65536, dtype=np.float32), np.zeros(65536, np.float32)
        result = gpusim.simulate(copy, 256, 256, (gpusim.node.on("gpu1", x), y), model=model)
        assert np.array_equal(x, y) and result.metrics["nvlrx__bytes_data_user.sum"] == x.nbytes
        times[model] = result.cycles
    assert times["simpy"] == pytest.approx(times["engine"], rel=0.05)


def test_sweeps_and_differences_take_models(capsys):
    hashed = f"{MACHINES}/hashed_banks.py:HashedBanks"
    assert main(["sweep", "transpose/tiled", "--size", "64", "--model", f"simpy,{hashed}", "--verify", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["points"]
    assert [row["model"] for row in rows] == ["simpy", hashed] and rows[1]["cycles"] < rows[0]["cycles"]
    assert rows[0]["cycles_low"] is None  # the interval is the engine's
    assert main(["diff", "transpose/tiled", "--size", "64", "--model", "simpy", "--model-b", hashed]) == 0
    assert "memory_l1_wavefronts_shared" not in capsys.readouterr().out  # counts are the engine's


def test_kernels_print(capfd):
    def says(x):
        i = cuda.grid(1)
        print(i, x[i])

    told = {}
    for model in ("engine", "simpy"):
        gpusim.simulate(says, 2, 4, [np.arange(8, dtype=np.int32)], "tiny", model=model)
        told[model] = sorted(capfd.readouterr().out.splitlines())
    assert told["simpy"] == told["engine"] == [f"{i} {i}" for i in range(8)]


def test_checks_find_what_they_find_on_the_engine():
    def races(y):
        tile = cuda.shared.array(64, np.float32)
        i = cuda.threadIdx.x
        tile[i] = i
        y[i] = tile[63 - i]

    with pytest.raises(DataRaceError, match="shared read of 4 bytes"):
        gpusim.simulate(races, 1, 64, [np.zeros(64, np.float32)], "tiny", model="simpy", check="racecheck")


def test_an_error_names_the_thread():
    def beyond(x):
        x[cuda.threadIdx.x + 1_000_000_000] = 1

    with pytest.raises(SimulationError, match="block"):
        gpusim.simulate(beyond, 1, 32, [np.zeros(32, np.float32)], "tiny", model="simpy")


def test_a_kernel_without_an_end_is_given_up():
    def spins(x):
        while x[0] == 0:
            x[1] += 1

    with pytest.raises(SimulationError, match="max_cycles"):
        gpusim.simulate(spins, 1, 32, [np.zeros(32, np.int32)], "tiny", model="simpy", max_cycles=20_000)


# --- machines of one's own --------------------------------------------------------------------------------------------


def cycles(name: str, model: str, size: int | None = None, **overrides: float) -> int:
    variant = registry.get(name)
    launch = variant.make(size or variant.test_size, 0)
    what = launch.kernel, launch.grid, launch.block, launch.args, "h100", launch.shared_bytes
    model_of = load_model(f"{MACHINES}/{model}" if ":" in model else model)
    expected = variant.reference(launch)
    result = gpusim.simulate(*what, signature=launch.signature, model=model_of, overrides=overrides)
    assert variant.mismatch(expected, variant.results(launch)) is None
    return result.cycles


def test_hashed_banks_take_a_transposes_conflicts():
    plain, padded, hashed = (
        cycles(*each, **{"dram.refresh_cycles": 0})
        for each in (
            ("transpose/tiled", "simpy"),
            ("transpose/padded", "simpy"),
            ("transpose/tiled", "hashed_banks.py:HashedBanks"),
        )
    )
    assert hashed < plain - 300 and abs(hashed - padded) < 300


def test_a_two_level_scheduler_changes_whose_turn_it_is():
    assert cycles("attention/fused", "two_level.py:TwoLevel") < cycles("attention/fused", "simpy")


def test_a_victim_cache_finds_lines_that_had_to_go():
    few = {"l1.reserved_lines": 1_780}
    plain, beside = (cycles("spmv/csr_scalar", each, **few) for each in ("simpy", "victim_cache.py:VictimCache"))
    assert beside < 0.95 * plain


def test_compressed_transfers_help_where_memory_is_the_limit():
    narrow = {"dram.bandwidth_gb_s": 100.0}
    plain, compressed = (
        cycles("vector_add", each, **narrow) for each in ("simpy", "compressed_memory.py:CompressedMemory")
    )
    assert compressed < plain


def test_a_run_can_be_stepped_and_looked_at():
    seen = []

    class Watched(machine.GPU):
        def run(self, until=None):
            super().run(until=400)
            self.step()
            seen.append(str(self.sms[0]))
            return super().run()

    launch = registry.get("vector_add").make(1024, 0)
    what = launch.kernel, launch.grid, launch.block, launch.args, "h100", launch.shared_bytes
    assert gpusim.simulate(*what, model=Watched).cycles > 2_000
    assert seen[0].startswith("SM 0 at cycle 4") and "warp 0 (block 0) at 0x" in seen[0]
