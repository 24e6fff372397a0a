"""Thread block clusters: who is in one, its barrier, and shared memory of its other blocks."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import CyclesExceeded, KernelError, LaunchError, MemoryAccessError
from tests.gpusim.kernels import Kernels

DATA = Path(__file__).parent / "data"
# As cooperative groups have it, whose header takes two seconds; tests/gpusim/test_api_kernels.py includes it.
HEAD = """
struct Cluster {
  __device__ unsigned block_rank() { return __clusterRelativeBlockRank(); }
  __device__ void sync() { __cluster_barrier_arrive(); __cluster_barrier_wait(); }
  template <class T> __device__ T *map_shared_rank(T *p, int rank) { return (T *)__cluster_map_shared_rank(p, rank); }
};
"""
KERNELS = Kernels(HEAD, "sm_90")
EXCHANGE = """
// Every block reads a neighbour's row backwards, adds to another's and writes a byte into a third's.
extern "C" __global__ void __cluster_dims__(CX, CY, 1)
exchange_CX_CY(const int *in, int *out, int *who, unsigned char *bytes) {
  __shared__ int row[64];
  __shared__ unsigned char marks[64];
  __shared__ unsigned long long sum;
  Cluster cluster;
  unsigned rank = cluster.block_rank(), blocks = __clusterSizeInBlocks();
  int t = threadIdx.x, block = blockIdx.x + gridDim.x * blockIdx.y;
  row[t] = in[64 * block + t];
  if (t == 0) sum = 0;
  cluster.sync();
  int value = cluster.map_shared_rank(row, (rank + 1) % blocks)[63 - t];
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(row, (rank + 2) % blocks) + t, value);
  atomicAdd(cluster.map_shared_rank(&sum, 0), (unsigned long long)value << 20);
  cluster.map_shared_rank(marks, (rank + 1) % blocks)[t] = (unsigned char)(rank + t);
  cluster.sync();
  out[64 * block + t] = row[t] + (int)(*cluster.map_shared_rank(&sum, 0) >> 20) * 1000;
  bytes[64 * block + t] = marks[t];
  if (t == 0) who[block] = rank | __clusterRelativeBlockIdx().x << 8 | __clusterRelativeBlockIdx().y << 16;
}
"""
KERNELS.add(
    'extern "C" __global__ void wait(int *out) '
    "{ long long then = clock64() + 20000; while (clock64() < then); out[blockIdx.x] = 1; }"
)
SHAPES = [(1, 1), (2, 1), (4, 1), (2, 2), (8, 2)]
for _across, _down in SHAPES:
    KERNELS.add(EXCHANGE.replace("CX", str(_across)).replace("CY", str(_down)))
NAMES = ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
PLACES = "\n".join(
    f'asm volatile("mov.u32 %0, %%{name}.{axis};" : "=r"(out[{3 * n + k}]));'
    for n, name in enumerate(NAMES)
    for k, axis in enumerate("xyz")
)
PLACE = f"""
extern "C" __global__ void DIMENSIONS place_NUMBER(unsigned *out) {{
  out += 13 * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  {PLACES}
  asm volatile("{{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }}" : "=r"(out[12]));
}}
"""


PLACED = [None, (2, 1, 1), (3, 2, 1), (1, 2, 2)]
for _number, _shape in enumerate(PLACED):
    _dimensions = f"__cluster_dims__{_shape}" if _shape else ""
    KERNELS.add(PLACE.replace("DIMENSIONS", _dimensions).replace("NUMBER", str(_number)))


@pytest.mark.parametrize("shape", PLACED)
def test_blocks_know_their_place(shape):
    """As an H200 told them for these grids. Without clusters each block is one."""
    grid, size = (6, 4, 2), shape or (1, 1, 1)
    kernel = KERNELS[f"place_{PLACED.index(shape)}"]
    out = np.zeros((grid[2], grid[1], grid[0], 13), np.uint32)
    gpusim.simulate(kernel, grid, 1, (out,), gpu="tiny", mode="functional")
    for z, y, x in np.ndindex(grid[::-1]):
        block = np.array((x, y, z))
        expected = (*(block // size), *(np.array(grid) // size), *(block % size), *size, shape is not None)
        assert out[z, y, x].tolist() == [int(each) for each in expected]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gpu", ["tiny", "h200"])
def test_blocks_exchange_through_shared_memory(shape, gpu):
    across, down = shape
    grid = (2 * across, 3 * down)
    blocks = grid[0] * grid[1]
    rng = np.random.default_rng(3)
    values = rng.integers(0, 50, (blocks, 64)).astype(np.int32)
    out, who, marks = np.zeros_like(values), np.zeros(blocks, np.uint32), np.zeros((blocks, 64), np.uint8)
    gpusim.simulate(KERNELS[f"exchange_{across}_{down}"], grid, 64, (values, out, who, marks), gpu=gpu)

    def block_of(cluster_x, cluster_y, rank):
        x, y = cluster_x * across + rank % across, cluster_y * down + rank // across
        return x + grid[0] * y

    size = across * down
    lanes = np.arange(64)
    for cluster_y in range(3):
        for cluster_x in range(2):
            members = [block_of(cluster_x, cluster_y, rank) for rank in range(size)]
            rows = values[members]
            read = rows[(np.arange(size) + 1) % size][:, ::-1]
            expected = rows.copy()
            for rank in range(size):
                expected[(rank + 2) % size] += read[rank]
            assert (out[members] == expected + 1000 * int(read.sum())).all()
            for rank, block in enumerate(members):
                assert who[block] == rank | rank % across << 8 | rank // across << 16
                assert (marks[members[(rank + 1) % size]] == (rank + lanes) % 256).all()


KERNELS.add("""
// Two of three lanes write to other blocks' rows, each to that of another rank, and read another's back.
extern "C" __global__ void __cluster_dims__(4, 1, 1) scatter(int *out) {
  __shared__ int row[32];
  Cluster cluster;
  unsigned rank = cluster.block_rank(), t = threadIdx.x;
  row[t] = -1;
  cluster.sync();
  if (t % 3) cluster.map_shared_rank(row, (rank + t) % 4)[t] = 100 * rank + t;
  cluster.sync();
  out[32 * blockIdx.x + t] = t % 3 ? *cluster.map_shared_rank(row + t, (rank + t / 4) % 4) : row[t];
  cluster.sync();
}
""")


@pytest.mark.parametrize("gpu", ["tiny", "h200"])
def test_lanes_of_a_warp_that_mean_different_blocks(gpu):
    out = np.zeros((2, 4, 32), np.int32)
    gpusim.simulate(KERNELS["scatter"], 8, 32, (out,), gpu=gpu)
    for rank in range(4):
        for t in range(32):
            there = (rank + t // 4) % 4  # whose row[t] was written by the block t before it
            expected = 100 * ((there - t) % 4) + t if t % 3 else -1
            assert out[:, rank, t].tolist() == [expected] * 2


KERNELS.add("""
// A block copies its part by a bulk copy that an mbarrier waits for, and by cp.async, and passes both on.
extern "C" __global__ void __cluster_dims__(2, 1, 1) copy(const int *in, int *out, int off) {
  __shared__ alignas(128) int bulk[32];
  __shared__ alignas(16) int lanes[32];
  __shared__ unsigned long long done;
  int t = threadIdx.x;
  const int *from = in + 32 * blockIdx.x;
  unsigned to = (unsigned)__cvta_generic_to_shared(bulk), bar = (unsigned)__cvta_generic_to_shared(&done);
  unsigned mine = (unsigned)__cvta_generic_to_shared(lanes + t);
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
  __syncthreads();
  if (t == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" ::"r"(bar) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(to),
                 "l"(from), "r"(bar + off) : "memory");
  }
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;" ::"r"(mine), "l"(from + t) : "memory");
  unsigned over = 0;
  while (!over)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(over) : "r"(bar) : "memory");
  __syncthreads();
  out[32 * blockIdx.x + t] = bulk[31 - t] * 1000 + lanes[t];
}
""")


def test_asynchronous_copies_in_a_cluster():
    """Every block's own shared memory, by addresses that have its rank."""
    values = np.arange(128, dtype=np.int32)
    out = np.zeros_like(values)
    gpusim.simulate(KERNELS["copy"], 4, 32, (values, out, np.int32(0)))
    rows = values.reshape(4, 32)
    assert (out.reshape(4, 32) == rows[:, ::-1] * 1000 + rows).all()


@pytest.mark.parametrize(("off", "message"), [(4, "misaligned"), (1 << 20, "out of bounds")])
def test_a_copy_that_tells_no_mbarrier(off, message):
    values = np.arange(128, dtype=np.int32)
    with pytest.raises(MemoryAccessError, match=message):
        gpusim.simulate(KERNELS["copy"], 4, 32, (values, np.zeros_like(values), np.int32(off)))


KERNELS.add("""
extern "C" __global__ void __cluster_dims__(4, 1, 1) empty(int *out) { out[threadIdx.x] = 1; }
extern "C" __global__ void __cluster_dims__(2, 1, 1) left(int *out, int leave) {
  unsigned rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (rank == 0 && threadIdx.x < leave) return;
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  out[threadIdx.x + 32 * rank] = 7;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) not_all(int *out) {
  unsigned rank; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (rank == 0) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  else for (int k = 0; k < 2; ++k) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (rank == 0) while (*(volatile int *)out == 0) __nanosleep(1000);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) ended(int *out) {
  __shared__ int row[32];
  row[threadIdx.x] = 1;
  unsigned rank, own = (unsigned)__cvta_generic_to_shared(row + threadIdx.x), other, value;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (rank == 1) return;
  for (int k = 0; k < 40; ++k) __nanosleep(500);
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(other) : "r"(own));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(other) : "memory");
  out[threadIdx.x] = value;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) outside(int *out, int where, unsigned rank) {
  __shared__ int row[32];
  row[threadIdx.x] = 1;
  unsigned own = (unsigned)__cvta_generic_to_shared(row + threadIdx.x), other, value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own + where), "r"(rank));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(other) : "memory");
  out[threadIdx.x] = value;
}
""")


@pytest.mark.parametrize("leave", [16, 32])
def test_exited_threads_count_as_arrived(leave):
    """Some of a block, and all of it."""
    out = np.zeros(64, np.int32)
    gpusim.simulate(KERNELS["left"], 2, 32, (out, np.int32(leave)))
    assert (out == np.where(np.arange(64) < leave, 0, 7)).all()


@pytest.mark.parametrize(
    ("cluster", "grid", "options", "message"),
    [
        ((4, 1, 1), 6, {}, r"grid \(6, 1, 1\) is not a multiple of the cluster's \(4, 1, 1\) blocks"),
        ((17, 1, 1), 17, {}, "17 blocks, allowed at most 16"),
        ((2, 1, 1), 2, {"overrides": ["sm.max_cluster_blocks=1"]}, "has no clusters"),
        (
            (16, 1, 1),
            16,
            {"shared_bytes": 200_000, "gpu": "tiny"},
            "does not fit a GPC, which has room for 2",
        ),
    ],
)
def test_launches_that_cannot_be(cluster, grid, options, message):
    kernel = dataclasses.replace(KERNELS["empty"], cluster=cluster)
    with pytest.raises(LaunchError, match=message):
        gpusim.simulate(kernel, grid, 32, (np.zeros(64, np.int32),), **options)


def test_shared_memory_of_a_block_that_has_ended():
    with pytest.raises(KernelError, match="block 1 of the cluster, which does not exist or has ended") as error:
        gpusim.simulate(KERNELS["ended"], 2, 32, (np.zeros(64, np.int32),))
    assert error.value.block == (0, 0, 0)


def outside(where, rank):
    arguments = (np.zeros(64, np.int32), np.int32(where), np.uint32(rank))
    gpusim.simulate(KERNELS["outside"], 2, 32, arguments)


def test_outside_the_other_blocks_shared_memory():
    for where in (4096, 128, -1024):  # what the system keeps lies before the block's own
        with pytest.raises(MemoryAccessError, match=r"shared read of 4 bytes.*, outside the block's 128 bytes"):
            outside(where, 1)
    with pytest.raises(MemoryAccessError, match="misaligned"):
        outside(2, 1)


@pytest.mark.parametrize("rank", [2, 7, 15])
def test_a_rank_outside_the_cluster(rank):
    with pytest.raises(KernelError, match=f"block {rank} of the cluster, which does not exist") as caught:
        outside(0, rank)
    assert caught.value.thread == (0, 0, 0) and caught.value.instruction.startswith("LD")


def test_a_barrier_that_a_block_never_reaches():
    with pytest.raises(CyclesExceeded):
        gpusim.simulate(KERNELS["not_all"], 2, 32, (np.zeros(64, np.int32),), max_cycles=200_000)


def test_clusters_lie_as_on_an_h200():
    """So many SMs have so many blocks, in all but five of 256 recorded grids (of an eighth of them, here)."""
    shared = {1: 220_000, 2: 110_000, 3: 70_000, 5: 40_000}
    wrong = []
    for size, fit, blocks, recorded in json.loads((DATA / "cluster_places.json").read_text())["grids"][::8]:
        wait = dataclasses.replace(KERNELS["wait"], cluster=(size, 1, 1))
        record = gpusim.simulate(wait, blocks, 32, [np.zeros(blocks, np.int32)], shared_bytes=shared[fit]).record
        found = Counter(record.sm_blocks[record.sm_blocks > 0].tolist())
        if sorted(map(list, found.items())) != recorded:
            wrong.append((size, fit, blocks, found))
    assert len(wrong) <= 1, wrong


def test_clusters_lie_in_any_number_of_gpcs():
    place = KERNELS[f"place_{PLACED.index((2, 1, 1))}"]
    for gpcs in (1, 8, 40):
        arguments = [np.zeros(80 * 13, np.uint32)]
        how = {"shared_bytes": 200_000, "overrides": ["sm.count=80", f"sm.gpcs={gpcs}"]}
        assert (gpusim.simulate(place, 80, 32, arguments, **how).record.sm_blocks == 1).all(), gpcs


def test_clusters_of_two_fill_the_gpu():
    # An H200 has GPCs of 16 and of 18 SMs: 66 clusters of two at once, none of them split between GPCs.
    place = KERNELS[f"place_{PLACED.index((2, 1, 1))}"]
    record = gpusim.simulate(place, 132, 32, [np.zeros(132 * 13, np.uint32)], shared_bytes=200_000).record
    assert (record.sm_blocks == 1).all()
