"""The analytical bound: never above what is simulated or was measured, near it where a resource is busy, and made of
numbers that stand for the whole grid."""

import json
import statistics
from functools import cache

import numpy as np
import pytest

import gpusim
from gpusim.bound import bound, profile, quick_bound
from gpusim.bound.profile import kinds_of
from gpusim.bound.work import Amount
from gpusim.cli import main
from gpusim.errors import LaunchError, MemoryAccessError
from gpusim.launch import Launch
from programs import images, registry
from tests.gpusim import bundled
from tests.gpusim.kernels import Kernels

FLAT = {
    "sm.count": 3,
    "sm.gpcs": 1,
    "l2.fetch_bytes": 32,
    "l1.tag_lookups_per_cycle": 1,
    "launch.overhead_cycles": 0,
    "dram.refresh_cycles": 0,
    "issue.policy": "lrr",
}
OTHER = {
    "pipes.alu.latency_cycles": 2,
    "pipes.fma.latency_cycles": 9,
    "pipes.half.latency_cycles": 3,
    "icache.line_bytes": 256,
    "constant.line_bytes": 32,
    "l1.write_allocate": True,
    "shared.atomic_wavefront_cycles": 3,
    "l2.replacement": "fifo",
    "sm.sub_partitions": 2,
}
OTHERS = ("other", "flat")
PROGRAMS = [ladder[-1].name for ladder in registry.families().values() if ladder[-1].image]
"""Where each family with images leads."""
MACHINES = {
    "other": gpusim.load_config("tiny", OTHER),
    "h200": gpusim.load_config("h200"),
    "tiny": gpusim.load_config("tiny"),
    "flat": gpusim.load_config("tiny", FLAT),
}


KERNELS = Kernels("""
#define KERNEL extern "C" __global__ void
#define I (blockIdx.x * blockDim.x + threadIdx.x)
KERNEL in_place(float *x) { x[I] *= 2; }
KERNEL overwrite(float *x, float *y) {
    y[I] = 1;
    __syncthreads();
    x[I] = y[I ^ 32] + 1;  // what another warp of the block has written
}
KERNEL spread(float *x, float *y) { y[I] = x[I * 32]; }
KERNEL one_counter(float *x) { atomicAdd(x, threadIdx.x); }
KERNEL beyond(float *x) { x[I + 1000] = 1; }
KERNEL spins(volatile int *x) { while (x[0] < 1000000) x[0] += threadIdx.x + 1; }
KERNEL takes_turns(int *x) { x[atomicAdd(x, 1) % 8 + 1] += 1; }
KERNEL by_block(int *x) { for (int k = 0; k < blockIdx.x; k++) x[blockIdx.x] = x[blockIdx.x] * 3 + k; }
""")


def launch_of(name, size=None):
    """A bundled program with its recorded code and fresh inputs."""
    variant = registry.get(name)
    made = variant.make(size or variant.test_size, 0)
    return Launch(images.image(name), made.grid, made.block, made.args, made.shared_bytes)


def simulate(launch, config, **options):
    return bundled.simulate(launch, config, threads=1, **options)


# --- truth -----------------------------------------------------------------------------------------------------------


@cache
def ratio(name, machine):
    """Simulated cycles of a small program over its bound."""
    config = MACHINES[machine]
    launch = launch_of(name)
    least = bound(profile(launch), config).cycles
    return simulate(launch, config).cycles / least


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=PROGRAMS)
def test_no_program_takes_less_than_its_bound(number):
    """On the H200, and on one machine of no product or the other."""
    for machine in ("h200", OTHERS[number % 2]):
        assert ratio(PROGRAMS[number], machine) >= 1, (PROGRAMS[number], machine)


def test_the_bound_is_near():
    for machine, names in (("h200", PROGRAMS), (OTHERS[0], PROGRAMS[::2]), (OTHERS[1], PROGRAMS[1::2])):
        assert statistics.median(ratio(name, machine) for name in names) < 1.4


# --- the profile stands for the whole grid ---------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "size"), [("vector_add", 100_001), ("matmul/tiled", 128), ("stencil/tiled_2d", 256)])
def test_sampled_blocks_stand_for_the_grid(name, size):
    launch = launch_of(name, size)
    known, result = profile(launch), simulate(launch, MACHINES["h200"])
    assert known.sampled < launch.blocks == known.counts.sum()
    metrics = result.metrics
    assert known.total[Amount.ISSUES] == metrics["smsp__inst_executed.sum"]
    assert known.total[Amount.WAVEFRONTS] == metrics["memory_l1_wavefronts_shared"]
    stores = metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]
    assert known.total[Amount.WRITE_SECTORS] == stores
    arrays = {id(each): -(-each.nbytes // 32) for each in launch.args if isinstance(each, np.ndarray)}
    assert known.footprint.written == pytest.approx(arrays[id(launch.args[-1])])
    assert known.footprint.fetched[32] == pytest.approx(sum(arrays.values()) - known.footprint.written)


def test_a_grid_whose_blocks_differ_is_run_as_a_whole():
    launch = launch_of("mandelbrot", 64)
    known, result = profile(launch), simulate(launch, MACHINES["h200"])
    assert known.sampled == launch.blocks
    assert known.total[Amount.ISSUES] == result.metrics["smsp__inst_executed.sum"]
    assert len(set(known.amounts[:, Amount.ISSUES])) > 1


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (100, 1, 1), (9, 70, 1), (2, 5, 6), (40, 30, 20)])
def test_kinds_of_blocks_part_the_grid(grid):
    kinds = kinds_of(grid)
    assert sum(kind.blocks for kind in kinds) == np.prod(grid)
    for kind in kinds:
        for place in kind.places:
            assert all(first <= at <= last for at, (first, last) in zip(place, kind.ranges, strict=True))
    assert sum(len(kind.places) for kind in kinds) <= 64 or max(grid) <= 8


def test_memory_that_is_read_only_after_it_was_written_need_not_come():
    x = np.ones(1 << 15, np.float32)
    sectors = x.nbytes // 32
    assert profile(Launch(KERNELS["in_place"], 128, 256, (x,))).footprint.fetched[32] == sectors
    known = profile(Launch(KERNELS["overwrite"], 128, 256, (x, x.copy())))
    assert known.footprint.fetched == {32: 0, 64: 0, 128: 0}
    assert known.footprint.written == 2 * sectors


def test_a_sparse_read_fetches_what_a_miss_brings():
    x, y = np.ones(32 << 12, np.float32), np.ones(1 << 12, np.float32)
    fetched = profile(Launch(KERNELS["spread"], 64, 64, (x, y))).footprint.fetched
    assert fetched == {32: 1 << 12, 64: 2 << 12, 128: 4 << 12}


def test_atomics_on_one_address_wait_for_each_other():
    known = profile(Launch(KERNELS["one_counter"], 200, 64, (np.zeros(1, np.float32),)))
    config = MACHINES["h200"]
    requests = known.hot[0]
    result = gpusim.simulate(KERNELS["one_counter"], 200, 64, (np.zeros(1, np.float32),))
    assert requests == 200 * 64 or requests == result.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"]
    found = bound(known, config)
    assert found.by == "one line's atomics"
    assert found.cycles >= requests * config.l2.atomic_same_address_cycles


# --- terms follow the machine ----------------------------------------------------------------------------------------


def test_terms_follow_their_own_resource_and_no_other():
    known = profile(launch_of("matmul/tiled", 384))
    before = bound(known, "h200").terms
    for key, value, name, factor in (
        ("dram.bandwidth_gb_s", 2400, "DRAM", 2),
        ("shared.wavefront_cycles", 2, "L1 data", 2),
        ("sm.count", 66, "issue slots", 2),
        ("pipes.fma.initiation_cycles", 2, "FMA pipe", 2),
    ):
        after = bound(known, "h200", {key: value}).terms
        base = gpusim.load_config("h200").launch.overhead_cycles + 900  # start and latency, which do not change
        assert after[name] - base == pytest.approx(factor * (before[name] - base), rel=0.25, abs=500)
        if key != "sm.count":
            other = {each for each in before if abs(after.get(each, 0) - before[each]) > 1}
            assert other <= {name, "latency"}


def test_latency_is_that_of_the_chain():
    known = profile(launch_of("pointer_chase/dram"))
    near = bound(known, "h200").terms["latency"]
    far = bound(known, "h200", {"dram.latency_cycles": 740}).terms["latency"]
    loads = simulate(launch_of("pointer_chase/dram"), MACHINES["h200"]).metrics
    chain = loads["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    assert far - near == pytest.approx(100 * chain, rel=0.1)


def test_a_profile_holds_for_its_own_kind_of_machine():
    known = profile(launch_of("vector_add"))
    with pytest.raises(LaunchError, match=r"shared\.banks = 32"):
        bound(known, "h200", {"shared.banks": 16})
    with pytest.raises(LaunchError, match="threads per block"):
        bound(known, "h200", {"sm.max_threads_per_block": 64})


def test_a_profile_is_made_once():
    launch = launch_of("vector_add", 50_000)
    known = profile(launch)
    assert profile(launch_of("vector_add", 50_000)) is known
    assert profile(lambda: launch) is known
    launch.args[0][7] += 1
    assert profile(launch) is not known


def test_the_arguments_stay_as_they_are():
    launch = launch_of("vector_add")
    before = [np.copy(each) for each in launch.args]
    profile(launch)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, launch.args, strict=True))


def test_what_a_kernel_does_wrong_is_said():
    launch = Launch(KERNELS["beyond"], 100, 64, (np.ones(64, np.float32),))
    with pytest.raises(MemoryAccessError):
        profile(launch)
    found, why = quick_bound(launch, MACHINES["h200"])
    assert found is None and "out of bounds" in why


# --- where it is shown -----------------------------------------------------------------------------------------------


def test_report_shows_how_far_the_time_is_from_the_bound():
    result = simulate(launch_of("vector_add", 100_000), "h200", bound=True)
    expected = bound(profile(launch_of("vector_add", 100_000)), "h200")
    assert result.bound == expected
    times = f"{result.cycles / expected.cycles:.2f} x"
    assert f"Bound           {expected.cycles:,} cycles ({expected.by}), simulated {times}" in str(result)
    assert result.to_dict()["bound"]["cycles"] == expected.cycles
    without = simulate(launch_of("vector_add", 100_000), "h200")
    assert without.bound is None and "Bound" not in str(without) and without.to_dict()["bound"] is None
    assert without.cycles == result.cycles and without.why_no_bound == ""


@pytest.mark.parametrize(
    ("name", "grid", "reason"),
    [
        ("by_block", 100, "its blocks differ in what they execute"),
        ("by_block", (3, 3, 3), "its grid is so small"),
        ("takes_turns", 100, "its blocks may depend on what others do"),
        ("spins", 1, "its blocks take more than 100,000 cycles"),
    ],
)
def test_where_no_bound_is_found_the_reason_is_told(name, grid, reason):
    config = MACHINES["tiny"]
    launch = Launch(KERNELS[name], grid, 32, (np.zeros(128, np.int32),))
    found, why = quick_bound(launch, config)
    assert found is None and reason in why
    if name != "spins":
        result = simulate(launch, config, bound=True)
        assert result.bound is None and result.why_no_bound == why == result.to_dict()["why_no_bound"]
        assert f"Bound           not known at once: {reason}" in str(result)


def test_command_compares_machines(capsys):
    assert main(["bound", "vector_add", "--size", "100000", "--gpu", "h200", "--gpu", "tiny", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    here, there = document["bounds"]
    assert document["size"] == 100_000 and (here["gpu"], there["gpu"]) == ("NVIDIA H200", "tiny")
    assert here["cycles"] == int(max(here["terms"].values())) and here["cycles"] < there["cycles"]
    assert main(["bound", "vector_add", "--size", "100000", "--gpu", "h200", "--gpu", "tiny"]) == 0
    text = capsys.readouterr().out
    assert f"{here['cycles']:,}" in text and f"{there['cycles']:,}" in text and there["by"] in text
    assert main(["bound", "vector_add", "--set", "sm.count=none"]) == 2


def test_a_kernel_that_prints_prints_once(capsys):
    kernels = Kernels('extern "C" __global__ void prints() { printf("block %d\\n", blockIdx.x); }')
    assert gpusim.simulate(kernels["prints"], 2, 1, (), "tiny", bound=True).bound is not None
    assert capsys.readouterr().out == "block 0\nblock 1\n"
