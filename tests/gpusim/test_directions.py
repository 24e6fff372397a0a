"""Known directions: what a change of the machine does to small programs, in simulated cycles and in the bound."""

from itertools import pairwise

import numpy as np
import pytest

import gpusim
from gpusim.bound import bound, profile
from gpusim.launch import Launch
from tests.gpusim import bundled
from tests.gpusim.kernels import Kernels

# A machine on which only one thing happens at a time: few SMs, no overhead, memory that never refreshes.
PLAIN = {"launch.overhead_cycles": 0, "dram.refresh_cycles": 0, "launch.block_interval_cycles": 0.01}


KERNELS = Kernels("""
#define KERNEL extern "C" __global__ void
#define I (blockIdx.x * blockDim.x + threadIdx.x)
// Multiplications and additions that depend on each other, and one store.
KERNEL compute(float *y, int rounds) {
  float value = threadIdx.x;
  for (int k = 0; k < 16 * rounds; k++) value = value * 1.0001f + 0.5f;
  y[I] = value;
}
KERNEL copy(const float *x, float *y) { y[I] = x[I]; }
// Every block reads its part of x several times.
KERNEL sweep(const float *x, float *y, int words, int times) {
  float total = 0;
  for (int n = 0; n < times; n++)
    for (int k = I; k < words; k += gridDim.x * blockDim.x) total += x[k];
  y[I] = total;
}
""")


def run(launch, base, overrides):
    """Simulated result and bound of a launch."""
    config = gpusim.load_config(base, PLAIN | overrides)
    result = bundled.simulate(launch, config, threads=1)
    found = bound(profile(launch, config), config)
    assert found.cycles <= result.cycles
    return result, found


def steps(values, least):
    """Where a sequence falls by more than a share of itself: numbers of the later values."""
    return [k for k, (a, b) in enumerate(pairwise(values), 1) if b < (1 - least) * a]


def test_waves_appear_where_the_number_of_sms_crosses_a_divisor_of_the_grid():
    blocks = 12  # of 1,024 threads and much shared memory: one on an SM
    launch = Launch(KERNELS["compute"], blocks, 1024, (np.zeros(blocks * 1024, np.float32), np.int32(10)), 200_000)
    counts = list(range(2, 14))
    runs = [run(launch, "tiny", {"sm.count": count}) for count in counts]
    simulated, bounds = ([each[k].cycles for each in runs] for k in (0, 1))
    waves = [-(-blocks // count) for count in counts]
    expected = [k for k, (a, b) in enumerate(pairwise(waves), 1) if b < a]
    assert [counts[k] for k in expected] == [3, 4, 6, 12]
    assert steps(simulated, 0.1) == steps(bounds, 0.1) == expected
    # Between two steps more SMs change next to nothing.
    for k, (a, b) in enumerate(pairwise(simulated), 1):
        if k not in expected:
            assert b == pytest.approx(a, rel=0.03)


def copies():
    words = 1 << 17
    x = np.arange(words, dtype=np.float32)
    return Launch(KERNELS["copy"], words // 256, 256, (x, np.zeros_like(x)))


def test_a_bandwidth_bound_program_scales_with_bandwidth_and_not_with_sms():
    base = {"sm.count": 8, "dram.bandwidth_gb_s": 25}
    result, found = run(copies(), "tiny", base)
    assert found.by == "DRAM"
    twice, twice_bound = run(copies(), "tiny", base | {"dram.bandwidth_gb_s": 50})
    assert result.cycles / twice.cycles == pytest.approx(2, rel=0.15)
    assert found.cycles / twice_bound.cycles == pytest.approx(2, rel=0.15)
    more, more_bound = run(copies(), "tiny", base | {"sm.count": 16})
    assert more.cycles == pytest.approx(result.cycles, rel=0.1)
    assert more_bound.cycles == pytest.approx(found.cycles, rel=0.05)


def test_a_compute_bound_program_scales_with_sms_and_not_with_bandwidth():
    blocks = 64
    launch = Launch(KERNELS["compute"], blocks, 256, (np.zeros(blocks * 256, np.float32), np.int32(20)))
    result, found = run(launch, "tiny", {"sm.count": 4})
    assert found.by in ("FMA pipe", "issue slots")
    more, more_bound = run(launch, "tiny", {"sm.count": 8})
    assert result.cycles / more.cycles == pytest.approx(2, rel=0.15)
    assert found.cycles / more_bound.cycles == pytest.approx(2, rel=0.15)
    twice, twice_bound = run(launch, "tiny", {"sm.count": 4, "dram.bandwidth_gb_s": 200})
    assert twice.cycles == pytest.approx(result.cycles, rel=0.02)
    assert twice_bound.cycles == pytest.approx(found.cycles, rel=0.01)


def test_twice_the_l2_removes_the_traffic_of_what_then_fits():
    """192 KiB read four times: an L2 of 128 KiB fetches them again and again, one of 256 KiB once."""
    words, blocks = 3 << 14, 8
    x = np.ones(words, np.float32)
    launch = Launch(
        KERNELS["sweep"], blocks, 512, (x, np.zeros(blocks * 512, np.float32), np.int32(words), np.int32(4))
    )
    # No line is left: no L1.
    machine = {"sm.count": 4, "l1.reserved_lines": 4096, "dram.bandwidth_gb_s": 25, "l2.bytes": 1 << 17}
    small, small_bound = run(launch, "tiny", machine)
    large, large_bound = run(launch, "tiny", machine | {"l2.bytes": 2 << 17})
    read = {"small": small.metrics["dram__bytes_read.sum"], "large": large.metrics["dram__bytes_read.sum"]}
    assert read["small"] > 3 * x.nbytes
    assert read["large"] == pytest.approx(x.nbytes, rel=0.05)
    assert large.cycles < 0.6 * small.cycles
    # What has to come once is all that the bound counts, whatever the size.
    assert small_bound.terms["DRAM"] == large_bound.terms["DRAM"]
    assert profile(launch).footprint.fetched[32] == x.nbytes // 32
