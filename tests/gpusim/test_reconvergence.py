"""`issue.reconvergence = "stack"`: lanes that never give way. What ends there ends as with lanes that do; what cannot
end is said, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import DeadlockError, SpinDeadlock
from programs import registry
from tests.gpusim import bundled
from tests.gpusim.kernels import Kernels

KERNELS = Kernels("""
#define KERNEL extern "C" __global__ void
__device__ void until(int *word) { while (atomicAdd(word, 0) == 0); }
__device__ void much_later(int *word, int rounds) {
  unsigned x = threadIdx.x;
  for (int k = 0; k < rounds; k++) x = x * 1664525u + 1013904223u;
  if (x) atomicMax(word, 1);
}
// Half of the first warp waits for what the last does much later; the others wait for that half.
KERNEL another_warp(int *flag, int *out, int rounds) {
  int t = threadIdx.x;
  if (blockIdx.x == 0 && t < 32) {
    if (t < 16) until(flag);
    out[t] = flag[0];
  } else if (blockIdx.x == gridDim.x - 1 && t >= blockDim.x - 32) much_later(flag, rounds);
}
// As before, and the warp that does it has waited in turn, half of it, for what a third one does.
KERNEL handed_on(int *flag, int *out, int rounds) {
  int t = threadIdx.x;
  if (t < 32) {
    if (t & 1) until(flag);
    out[t] = 1;
  } else if (t < 64) {
    if (t & 1) until(flag + 1);
    atomicMax(flag, 1);
  } else much_later(flag + 1, rounds);
}
KERNEL until_late(int *out, unsigned long long cycles) {
  if (threadIdx.x < 16) {
    unsigned long long start = clock64();
    while (clock64() - start < cycles) __nanosleep(100);
  }
  out[threadIdx.x] = 1;
}
KERNEL until_told(volatile int *flag, int *out) {
  if (threadIdx.x < 16) while (flag[0] == 0);
  if (threadIdx.x == 31) flag[0] = 1;
  out[threadIdx.x] = 1;
}
// Half of the warp turns until it has counted, in memory alone.
KERNEL until_it_counts(int *count, int *out, int rounds) {
  if (threadIdx.x < 16) while (atomicAdd(count, 1) < rounds);
  out[threadIdx.x] = 1;
}
KERNEL all_wait(int *flag, int *out) {
  until(flag);
  out[threadIdx.x] = 1;
}
// The second warp waits at a barrier for the first, half of which waits for the other half.
KERNEL at_the_barrier(int *flag, int *out) {
  int t = threadIdx.x;
  if (t < 16) until(flag);
  if (t == 31) atomicMax(flag, 1);
  __syncthreads();
  out[t] = 1;
}
""")
STACK = ["issue.reconvergence=stack"]
MODES = pytest.mark.parametrize("mode", ["detailed", "functional"])


def run(kernel, grid, block, *args, mode="detailed", overrides=STACK, **options):
    return gpusim.simulate(
        kernel, grid, block, args, gpu="tiny", mode=mode, overrides=overrides, max_cycles=20_000_000, **options
    )


@MODES
@pytest.mark.parametrize("overrides", [[], STACK])
@pytest.mark.parametrize("name", ["spin_lock/lanes", "spin_lock/in_turn"])
def test_a_lock_between_lanes_hangs_on_the_stack_alone(name, overrides, mode):
    variant = registry.get(name)
    launch = variant.make(100, 0)
    expected = variant.reference(launch)
    if name.endswith("lanes") and overrides:
        with pytest.raises(SpinDeadlock, match="one program counter, as before Volta") as caught:
            run(launch.kernel, launch.grid, launch.block, *launch.args, mode=mode)
        error = caught.value
        assert isinstance(error, DeadlockError) and error.kernel == "lanes" and error.block is not None
        assert "atomic.cas" in Path(error.file).read_text().splitlines()[error.line - 1]
        assert error.warp in (0, 1) and error.parked.bit_count() == 1 and error.spinning & error.parked == 0
        assert any("BSYNC" in each for each in error.waiting)
        assert mode == "functional" or error.cycle < 50_000
        assert launch.args[1][0] == 0  # arrays are as they were
        return
    run(launch.kernel, launch.grid, launch.block, *launch.args, mode=mode, overrides=overrides)
    assert variant.mismatch(expected, variant.results(launch)) is None


PARTING = "divergence/2", "divergence/32", "mandelbrot", "collatz/consecutive", "reduction/interleaved_divergent"


@pytest.mark.parametrize("name", PARTING)
def test_other_programs_do_the_same(name):
    usual, stacked = (bundled.checked(name, overrides=how) for how in ([], STACK))
    assert usual.cycles == stacked.cycles and dict(usual.metrics) == dict(stacked.metrics)


def test_every_family_computes_the_same():
    for variant in (ladder[-1] for ladder in registry.families().values()):
        bundled.checked(variant.name, "h200", overrides=STACK, mode="functional")


@MODES
@pytest.mark.parametrize(
    ("name", "grid", "block"), [("another_warp", 1, 64), ("another_warp", 10, 256), ("handed_on", 1, 96)]
)
def test_who_waits_for_another_warp_is_not_reported(name, grid, block, mode):
    flag, out = np.zeros(2, np.int32), np.zeros(32, np.int32)
    run(KERNELS[name], grid, block, flag, out, np.int32(30_000), mode=mode)
    assert (out == 1).all()


def test_who_waits_for_a_time_is_not_reported():
    out = np.zeros(32, np.int32)
    run(KERNELS["until_late"], 1, 32, out, np.uint64(100_000))
    assert (out == 1).all()


def test_a_flag_of_the_same_warp_is_read_for_ever():
    """A lane that would set a flag waits behind those that read it, with plain loads."""
    flag, out = np.zeros(1, np.int32), np.zeros(32, np.int32)
    run(KERNELS["until_told"], 1, 32, flag, out, overrides=[])
    assert (out == 1).all() and flag[0] == 1
    with pytest.raises(SpinDeadlock) as caught:
        run(KERNELS["until_told"], 1, 32, np.zeros(1, np.int32), np.zeros(32, np.int32))
    assert caught.value.spinning == 0xFFFF and caught.value.parked == 0xFFFF0000


def test_who_changes_memory_is_not_reported():
    count, out = np.zeros(2, np.int32), np.zeros(32, np.int32)
    run(KERNELS["until_it_counts"], 1, 32, count, out, np.int32(500))
    assert (out == 1).all() and count[0] >= 500


def test_a_loop_without_divergence_is_none_of_the_stacks():
    with pytest.raises(DeadlockError, match=r"1 warp spin .* byte 0 of 'argument 0' .*, which nobody writes") as caught:
        run(KERNELS["all_wait"], 1, 32, np.zeros(1, np.int32), np.zeros(32, np.int32))
    assert not isinstance(caught.value, SpinDeadlock)


@MODES
def test_others_may_wait_at_a_barrier(mode):
    flag, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    run(KERNELS["at_the_barrier"], 1, 64, flag, out, mode=mode, overrides=[])
    assert (out == 1).all()
    with pytest.raises(SpinDeadlock) as caught:
        run(KERNELS["at_the_barrier"], 1, 64, np.zeros(1, np.int32), out, mode=mode)
    assert caught.value.spinning == 0xFFFF and caught.value.parked == 0xFFFF0000
