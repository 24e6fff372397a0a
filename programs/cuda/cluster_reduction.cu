// Eight blocks of a cluster add up 16,384 elements. Each writes its sum into the shared memory of the first, so that a
// cluster, not a block, writes one number to memory.
#include "hopper.cuh"

constexpr u32 BLOCKS = 8, THREADS = 256, ITEMS = 8, WARPS = THREADS / 32;

__device__ inline float warp_sum(float x, u32 from) {
  for (u32 k = from; k > 0; k /= 2) x += __shfl_down_sync(0xffffffff, x, k);
  return x;
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS)
    cluster_reduction(const float *x, float *sums, u32 n) {
  __shared__ float warps[WARPS], blocks[BLOCKS];
  const u32 t = threadIdx.x, rank = cluster_rank();
  float total = 0;
#pragma unroll
  for (u32 k = 0; k < ITEMS; k++) {
    u32 i = (blockIdx.x * ITEMS + k) * THREADS + t;
    total += i < n ? x[i] : 0;
  }
  total = warp_sum(total, 16);
  if (t % 32 == 0) warps[t / 32] = total;
  __syncthreads();
  if (t < 32) {
    total = warp_sum(t < WARPS ? warps[t] : 0, WARPS / 2);
    if (t == 0) store_at(address_in(shared_address(blocks + rank), 0), total);
  }
  meet_cluster();
  if (rank == 0 && t < 32) {
    total = warp_sum(t < BLOCKS ? blocks[t] : 0, BLOCKS / 2);
    if (t == 0) sums[blockIdx.x / BLOCKS] = total;
  }
}
