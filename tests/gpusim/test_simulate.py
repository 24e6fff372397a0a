"""Whole runs on the tiny GPU: values, determinism, forward progress, and every kind of bad input."""

import math

import numpy as np
import pytest
from numba import cuda, int32

import gpusim
import isa
from gpusim.engine import processes
from gpusim.errors import (
    CyclesExceeded,
    DeadlockError,
    MemoryAccessError,
)
from tests.gpusim.kernels import Kernels

BLOCK = 64


def scale(x, factor, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * factor


def seven_in_dynamic_shared(x):
    tile = cuda.shared.array(0, int32)
    for k in range(7):
        tile[k] = k * k
    cuda.syncwarp()
    for k in range(7):
        x[k] = tile[k]


KERNELS = Kernels(r"""
#define KERNEL extern "C" __global__ void
#define BLOCK 64
#define T threadIdx.x
typedef unsigned long long u64;
KERNEL reverse_rows(int *x) {
  __shared__ int tile[BLOCK];
  x += BLOCK * blockIdx.x;
  tile[T] = x[T];
  __syncthreads();
  x[T] = tile[BLOCK - 1 - T];
}
KERNEL one_in_dynamic_shared(int *x, int at, int store) {
  extern __shared__ int tile[];
  if (store) tile[at] = 7;
  else x[0] = tile[at];
}
KERNEL half_wait_for_a_flag(int *x) {
  if (T >= BLOCK / 2) while (atomicAdd(x, 0) == 0);
  __syncthreads();
  x[T] = 1;
}
KERNEL endless(int *x) { while (x[0] == 0) atomicAdd(x + 1, 1); }
KERNEL mixed_atomics(int *counts, u64 *sums) {
  int i = blockIdx.x * blockDim.x + T;
  atomicAdd(counts + i % 7, 1);
  atomicMax(sums, (u64)i);
  atomicAdd(sums + 1, atomicAdd(sums + 2, 1ull));
}
KERNEL wait_in_two_places(int *x, unsigned low, unsigned high) {
  if (T < 16) {
    __syncwarp(low);
    x[T] = 1;
  } else {
    __syncwarp(high);
    x[T] = 2;
  }
}
KERNEL fetch(cudaTextureObject_t t, float *out) { out[0] = tex1Dfetch<float>(t, 1); }
__device__ __noinline__ double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }
KERNEL factorials(double *out) { out[T] = factorial(T % 12); }
""")


def run(kernel, grid, block, *args, **options):
    return gpusim.simulate(kernel, grid, block, args, gpu="tiny", **options)


def test_arrays_are_updated_in_place():
    x = np.arange(1000, dtype=np.float32)
    out = np.full(1000, np.nan, np.float32)
    result = run(scale, 8, 128, x, np.float32(3), out)
    assert (out == 3 * x).all()
    assert result.metrics["smsp__inst_executed.sum"] > 0
    assert result.cycles > 0 and result.time_us == pytest.approx(result.cycles / 1980)


def test_atomics_on_the_whole_device():
    counts, sums = np.zeros(7, np.int32), np.zeros(3, np.int64)
    run(KERNELS["mixed_atomics"], 20, BLOCK, counts, sums)
    n = 20 * BLOCK
    assert (counts == np.bincount(np.arange(n) % 7)).all()
    assert sums.tolist() == [n - 1, n * (n - 1) // 2, n]


def test_threads_and_repetition_do_not_change_a_cycle(monkeypatch):
    monkeypatch.setattr(processes, "WARPS_APART", 0)

    def once(threads):
        args = (np.zeros(7, np.int32), np.zeros(3, np.int64))
        result = gpusim.simulate(KERNELS["mixed_atomics"], 24, BLOCK, args, overrides=["sm.count=8"], threads=threads)
        return result.cycles, dict(result.metrics), [a.tobytes() for a in args], result.record.counters.tobytes()

    first = once(1)
    assert once(1) == first
    assert once(2) == first


def test_the_last_vector_of_dynamic_shared_memory():
    x = np.zeros(7, np.int32)
    result = run(seven_in_dynamic_shared, 1, 1, x, shared_bytes=28)
    assert any(each.mnemonic == "LDS.128" for each in result.record.program.instructions)
    assert x.tolist() == [0, 1, 4, 9, 16, 25, 36]
    with pytest.raises(MemoryAccessError, match="shared"):
        run(seven_in_dynamic_shared, 1, 1, x, shared_bytes=16)


def test_shared_memory_that_begins_later_than_the_configuration_says():
    """Hopper code's begins at 1 KiB, whether the GPU reserves it or not; the SMs are full of blocks."""
    x = np.arange(96 * BLOCK, dtype=np.int32).reshape(96, BLOCK)
    expected = x[:, ::-1].copy()
    run(KERNELS["reverse_rows"], 96, BLOCK, x, overrides=["sm.shared_reserved_bytes=0"])
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("store", [False, True])
def test_a_word_past_the_end_of_shared_memory(store):
    """Seven words end inside a unit of 16 bytes: only a wider load that begins inside may read the rest of it."""
    x = np.ones(1, np.int32)
    run(KERNELS["one_in_dynamic_shared"], 1, 1, x, np.int32(6), np.int32(store), shared_bytes=28)
    assert x[0] == store  # memory begins as zeros
    with pytest.raises(MemoryAccessError, match=f"shared {'write' if store else 'read'} of 4 bytes at address 0x41c"):
        run(KERNELS["one_in_dynamic_shared"], 1, 1, x, np.int32(7), np.int32(store), shared_bytes=28)


def test_a_deadlock_says_when_and_who_waits():
    """The halves of a warp wait for each other in two places. The same code with masks that name one half each says
    when: before its end, and after the launch overhead."""
    masks, mixed = (np.int32(0xFFFF), np.int32(-0x10000)), (np.int32(0x1FFFF), np.int32(-0xFFFF))
    overhead = gpusim.load_config("tiny").launch.overhead_cycles
    with gpusim.Device("tiny") as device:
        x = device.to_device(np.zeros(32, np.int32))
        apart = device.launch(KERNELS["wait_in_two_places"], 1, 32, (x, *masks))
        assert x.copy_to_host().tolist() == [1] * 16 + [2] * 16
        device.flush_l2()  # and the code: the second time it is cold, too
        for _ in range(2):
            start = device.now_cycles
            with pytest.raises(DeadlockError, match="deadlock at cycle") as caught:
                device.launch(KERNELS["wait_in_two_places"], 1, 32, (x, *mixed))
            assert overhead < caught.value.cycle < apart.cycles
            assert start + caught.value.cycle <= device.now_cycles + device.config.l2.lookahead_cycles
        low, high = sorted(caught.value.waiting)
        assert low.startswith("lanes 0x0000ffff wait at WARPSYNC of line")
        assert high.startswith("lanes 0xffff0000 wait at WARPSYNC of line")
        assert caught.value.instruction.startswith("WARPSYNC") and caught.value.line


def test_endless_loops_end_at_max_cycles():
    for kernel in ("endless", "half_wait_for_a_flag"):
        x = np.zeros(BLOCK, np.int32)
        with pytest.raises(CyclesExceeded, match="50,000"):
            run(KERNELS[kernel], 1, BLOCK, x, max_cycles=50_000)
        assert (x == 0).all()


def test_unknown_opcode_is_refused_before_anything_runs():
    out = np.zeros(4, np.float32)
    with pytest.raises(isa.UnknownInstruction, match="TLD") as caught:
        run(KERNELS["fetch"], 1, 32, np.uint64(1), out)
    assert "fetch" in str(caught.value) and "0x" in str(caught.value)


def test_recursion_to_a_depth_that_differs_between_lanes():
    out = np.zeros(64)
    run(KERNELS["factorials"], 1, 64, out)
    assert out.tolist() == [math.factorial(i % 12) for i in range(64)]
