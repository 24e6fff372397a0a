"""CUDA C++ as libraries and users write it: CUB's block algorithms, division, matching lanes."""

from functools import cache

import numpy as np
import pytest

import gpusim
from isa import Program, compile_cuda
from isa.listing import programs_from_cubin

CUB = """
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>

extern "C" __global__ void block_sum(const int* in, int* out) {
    using Reduce = cub::BlockReduce<int, 128>;
    __shared__ typename Reduce::TempStorage storage;
    int total = Reduce(storage).Sum(in[threadIdx.x]);
    if (threadIdx.x == 0) out[0] = total;
}
extern "C" __global__ void block_sort(const unsigned* in, unsigned* out) {
    using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
    __shared__ typename Sort::TempStorage storage;
    unsigned keys[4];
    for (int i = 0; i < 4; i++) keys[i] = in[threadIdx.x * 4 + i];
    Sort(storage).Sort(keys);
    for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = keys[i];
}
"""

PLAIN = """
extern "C" __global__ void doubles(const double* a, const double* b, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = a[i] / b[i]; out[n + i] = sqrt(fabs(a[i])); out[2 * n + i] = 1.0 / b[i]; }
}
extern "C" __global__ void singles(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = a[i] / b[i]; out[n + i] = sqrtf(fabsf(a[i])); out[2 * n + i] = __frcp_rn(b[i]); }
}
extern "C" __global__ void largest_alike(const int* group, const int* in, int* out) {
    int i = threadIdx.x;
    if (group[i] < 5) out[i] = __reduce_max_sync(__match_any_sync(__activemask(), group[i]), in[i]);
    out[128 + i] = __reduce_add_sync(__match_any_sync(~0u, group[i]), in[i]);
}
extern "C" __global__ void reads_its_own(volatile int* words, int* out) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, mixed = 0;
    for (int k = 0; k < 8; k++) words[32 * thread + k] = 8 * thread + k + 1;
    for (int k = 7; k >= 0; k--) mixed = 3 * mixed + words[32 * thread + k];
    out[thread] = mixed;
}
extern "C" __global__ void beside_reductions(int* words, int* out) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, *own = words + 8 * thread;
    atomicAdd(own, 5);
    own[1 + (thread & 3)] = thread;
    atomicMax(own + 6, thread);
    out[thread] = own[1 + (thread & 3)] + own[7];
}
"""


@cache
def programs(source: str) -> dict[str, Program]:
    return programs_from_cubin(compile_cuda(source, options=("-default-device",)))


def launch(source: str, name: str, *args: object, grid: int = 1, block: int = 128) -> None:
    gpusim.simulate(programs(source)[name], grid, block, args, gpu="tiny", overrides=["gpu.arch=sm_90"], threads=1)


def test_cub_adds_a_block(toolchain):
    values, out = np.random.default_rng(1).integers(-99, 99, 128).astype(np.int32), np.zeros(1, np.int32)
    launch(CUB, "block_sum", values, out)
    assert out[0] == values.sum()


def test_cub_sorts_a_block(toolchain):
    """By digits, of which it scans the counts."""
    values = np.random.default_rng(3).integers(0, 1 << 32, 512).astype(np.uint32)
    out = np.zeros_like(values)
    launch(CUB, "block_sort", values, out)
    np.testing.assert_array_equal(out, np.sort(values))


def test_reductions_of_lanes_that_match(toolchain):
    """WARPSYNC.EXCLUSIVE: each group of lanes reduces its own."""
    rng = np.random.default_rng(6)
    group, values = rng.integers(0, 7, 128).astype(np.int32), rng.integers(-999, 999, 128).astype(np.int32)
    out = np.zeros(256, np.int32)
    launch(PLAIN, "largest_alike", group, values, out)
    for lane in range(128):
        alike = values[lane // 32 * 32 :][:32][group[lane // 32 * 32 :][:32] == group[lane]]
        assert out[128 + lane] == alike.sum()
        assert group[lane] >= 5 or out[lane] == alike.max()


@pytest.mark.parametrize("name, kind, bits", [("doubles", np.float64, np.uint64), ("singles", np.float32, np.uint32)])
def test_division_and_roots_are_rounded_as_numpy_does(name, kind, bits, toolchain):
    """The compiler's sequences around MUFU, slow paths included: any bits, near overflow, denormal numbers."""
    rng = np.random.default_rng(5)
    n, width = 2048, bits(0).nbytes * 8
    a, b = (rng.integers(0, 1 << width, n, bits, endpoint=False).view(kind) for _ in range(2))
    a[: n // 4], b[: n // 4] = rng.standard_normal((2, n // 4)).astype(kind)
    special = np.array([0.0, -0.0, 1, np.inf, -np.inf, np.nan, np.finfo(kind).tiny, np.finfo(kind).max, 5e-324], kind)
    special = np.append(special, np.finfo(kind).smallest_subnormal)
    a[-500:], b[-500:] = rng.choice(special, (2, 500))
    a[n // 4 : n // 3], b[n // 3 : n // 2] = (rng.choice(special, size) for size in (n // 3 - n // 4, n // 2 - n // 3))
    out = np.zeros(3 * n, kind)
    launch(PLAIN, name, a, b, out, np.int32(n), grid=n // 128)
    with np.errstate(all="ignore"):
        want = np.concatenate([a / b, np.sqrt(np.abs(a)), kind(1) / b])
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(out), nan)
    np.testing.assert_array_equal(out.view(bits)[~nan], want.view(bits)[~nan])


@pytest.mark.parametrize("gpu", ["tiny", "h200"])
def test_a_thread_reads_what_it_has_written(gpu, toolchain):
    """Volatile accesses take effect at L2, as do all on lines of reductions; a load gets there sooner than a store."""
    thread = np.arange(256)
    words, out = np.zeros(32 * 256, np.int32), np.zeros(256, np.int32)
    gpusim.simulate(programs(PLAIN)["reads_its_own"], 2, 128, (words, out), gpu, threads=1)
    assert out.tolist() == sum(3**k * (8 * thread + k + 1) for k in range(8)).tolist()
    words, out = np.full(8 * 256, 7, np.int32), np.zeros(256, np.int32)
    gpusim.simulate(programs(PLAIN)["beside_reductions"], 2, 128, (words, out), gpu, threads=1)
    assert out.tolist() == (thread + 7).tolist()
