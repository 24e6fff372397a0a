// Each block of a cluster keeps a quarter of the bins in its shared memory and counts for all four.
#include "hopper.cuh"

constexpr u32 BINS = 4096, BLOCKS = 4, THREADS = 256, OWN = BINS / BLOCKS;

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS)
    cluster_histogram(const u32 *values, u32 *bins, u32 n) {
  __shared__ u32 counts[OWN];
  const u32 t = threadIdx.x, rank = cluster_rank(), here = shared_address(counts);
  for (u32 i = t; i < OWN; i += THREADS) counts[i] = 0;
  meet_cluster();  // nobody counts in a block that has not cleared yet
#pragma unroll 4
  for (u32 i = blockIdx.x * THREADS + t; i < n; i += gridDim.x * THREADS) {
    u32 value = values[i];
    count_at(address_in(here + value % OWN * 4, value / OWN));
  }
  meet_cluster();
  for (u32 i = t; i < OWN; i += THREADS) atomicAdd(bins + rank * OWN + i, counts[i]);
}
