"""`issue.reconvergence = "stack"`: lanes that never give way. What ends there ends as with lanes that do; what cannot
end is said, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import gpusim
import isa
from gpusim.errors import CyclesExceeded, DeadlockError, SpinDeadlock
from programs import images, registry

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


@pytest.mark.parametrize("name", ["divergence/2", "divergence/32", "mandelbrot", "collatz", "reduction/interleaved"])
def test_other_programs_do_the_same(name):
    family = registry.families()[name.partition("/")[0]]
    variant = next((each for each in family if each.name == name), family[0])
    launches = [variant.make(variant.test_size, 0) for _ in range(2)]
    expected = variant.reference(launches[0])
    kernel = images.image(variant.name)
    results = [
        run(kernel, each.grid, each.block, *each.args, overrides=how, shared_bytes=each.shared_bytes)
        for each, how in zip(launches, ([], STACK), strict=True)
    ]
    assert variant.mismatch(expected, variant.results(launches[1])) is None
    assert results[0].cycles == results[1].cycles
    assert dict(results[0].metrics) == dict(results[1].metrics)


def test_every_program_computes_the_same():
    for name in registry.names():
        if name != "spin_lock/lanes":
            variant = registry.get(name)
            launch = variant.make(variant.test_size, 0)
            expected, options = variant.reference(launch), {"shared_bytes": launch.shared_bytes, "mode": "functional"}
            gpusim.simulate(images.image(name), launch.grid, launch.block, launch.args, overrides=STACK, **options)
            assert variant.mismatch(expected, variant.results(launch)) is None


def flag_of_another_warp(flag, out, rounds):
    """Half of the first warp waits for what the second does much later; the others wait for that half."""
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0 and t < 32:
        if t < 16:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        out[t] = flag[0]
    elif cuda.blockIdx.x == cuda.gridDim.x - 1 and t >= cuda.blockDim.x - 32:
        x = np.uint32(t)
        for _ in range(rounds):
            x = x * np.uint32(1664525) + np.uint32(1013904223)
        if x != np.uint32(0):
            cuda.atomic.max(flag, 0, 1)


def handed_on(flag, out, rounds):
    """As before, and the warp that does it has waited in turn, half of it, for what a third one does."""
    t = cuda.threadIdx.x
    if t < 32:
        if t & 1:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        out[t] = 1
    elif t < 64:
        if t & 1:
            while cuda.atomic.add(flag, 1, 0) == 0:
                pass
        cuda.atomic.max(flag, 0, 1)
    else:
        x = np.uint32(t)
        for _ in range(rounds):
            x = x * np.uint32(1664525) + np.uint32(1013904223)
        if x != np.uint32(0):
            cuda.atomic.max(flag, 1, 1)


@MODES
@pytest.mark.parametrize(
    ("kernel", "grid", "block"), [(flag_of_another_warp, 1, 64), (flag_of_another_warp, 10, 256), (handed_on, 1, 96)]
)
def test_who_waits_for_another_warp_is_not_reported(kernel, grid, block, mode):
    flag, out = np.zeros(2, np.int32), np.zeros(32, np.int32)
    run(kernel, grid, block, flag, out, np.int32(30_000), mode=mode)
    assert (out == 1).all()


UNTIL_LATE = """
extern "C" __global__ void until_late(int *out, unsigned long long cycles) {
  if (threadIdx.x < 16) {
    unsigned long long start = clock64();
    while (clock64() - start < cycles) __nanosleep(100);
  }
  out[threadIdx.x] = 1;
}
extern "C" __global__ void until_told(volatile int *flag, int *out) {
  if (threadIdx.x < 16)
    while (flag[0] == 0);
  if (threadIdx.x == 31)
    flag[0] = 1;
  out[threadIdx.x] = 1;
}
"""


def test_who_waits_for_a_time_is_not_reported(tmp_path, toolchain):
    (tmp_path / "late.cu").write_text(UNTIL_LATE)
    out = np.zeros(32, np.int32)
    run(isa.load(tmp_path / "late.cu", entry="until_late"), 1, 32, out, np.uint64(100_000))
    assert (out == 1).all()


def test_a_flag_of_the_same_warp_is_read_for_ever(tmp_path, toolchain):
    """A lane that would set a flag waits behind those that read it, with plain loads."""
    (tmp_path / "told.cu").write_text(UNTIL_LATE)
    program = isa.load(tmp_path / "told.cu", entry="until_told")
    flag, out = np.zeros(1, np.int32), np.zeros(32, np.int32)
    run(program, 1, 32, flag, out, overrides=[])
    assert (out == 1).all() and flag[0] == 1
    with pytest.raises(SpinDeadlock) as caught:
        run(program, 1, 32, np.zeros(1, np.int32), np.zeros(32, np.int32))
    assert caught.value.spinning == 0xFFFF and caught.value.parked == 0xFFFF0000


def until_it_counts(count, out, rounds):
    """Half of the warp turns until it has counted, in memory alone."""
    t = cuda.threadIdx.x
    if t < 16:
        while cuda.atomic.add(count, 0, 1) < rounds:
            pass
    out[t] = 1


def test_who_changes_memory_is_not_reported():
    count, out = np.zeros(2, np.int32), np.zeros(32, np.int32)
    run(until_it_counts, 1, 32, count, out, np.int32(500))
    assert (out == 1).all() and count[0] >= 500


def all_wait(flag, out):
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    out[cuda.threadIdx.x] = 1


def test_a_loop_without_divergence_is_none_of_the_stacks():
    with pytest.raises(CyclesExceeded):
        gpusim.simulate(
            all_wait, 1, 32, (np.zeros(1, np.int32), np.zeros(32, np.int32)), gpu="tiny", overrides=STACK,
            max_cycles=100_000,
        )  # fmt: skip


def at_the_barrier(flag, out):
    """The second warp waits at a barrier for the first, half of which waits for the other half."""
    t = cuda.threadIdx.x
    if t < 16:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
    if t == 31:
        cuda.atomic.max(flag, 0, 1)
    cuda.syncthreads()
    out[t] = 1


@MODES
def test_others_may_wait_at_a_barrier(mode):
    flag, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    run(at_the_barrier, 1, 64, flag, out, mode=mode, overrides=[])
    assert (out == 1).all()
    with pytest.raises(SpinDeadlock) as caught:
        run(at_the_barrier, 1, 64, np.zeros(1, np.int32), out, mode=mode)
    assert caught.value.spinning == 0xFFFF and caught.value.parked == 0xFFFF0000
