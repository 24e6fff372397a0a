// One block per SM (or two SMs, as a cluster) that computes tile after tile. The copying group is ahead of the others by
// as many stages as there are, across the end of a tile too: while sums are converted and stored, the next tile's
// inputs arrive.
#pragma once
#include "matmul_tile.cuh"

constexpr u32 STAGES = 4;

// BLOCKS: of a cluster. With two, they compute tiles one above the other, which need the same rows of `b`: each block
// copies half of them into the shared memory of both, so that L2 is asked for a quarter less. A stage is free when the
// multiplying warps of both blocks have read it.
template <u32 BLOCKS>
__device__ inline void persistent_product(const TensorMap &a, const TensorMap &b, const TensorMap &c, u32 n) {
  __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
  const u32 begin = stages_begin(), t = threadIdx.x, group = uniform(t / 128), steps = n / DEPTH, across = n / TILE;
  const u32 rank = blockIdx.x % BLOCKS, pairs = across * across / BLOCKS;
  if (t == 0) {
    for (u32 i = 0; i < STAGES; i++) {
      barrier_init(shared_address(full + i), 1);
      barrier_init(shared_address(empty + i), 8 * BLOCKS);
    }
    barriers_are_ready();
  }
  if (BLOCKS > 1) meet_cluster_only(); else __syncthreads();
  Ring<STAGES> now;
  if (group == 2) {
    give_registers<40>();
    if (t / 32 % 4 == 0 && elected())
      for (u32 pair = blockIdx.x / BLOCKS; pair < pairs; pair += gridDim.x / BLOCKS) {
        u32 row = (pair / across * BLOCKS + rank) * TILE, column = pair % across * TILE;
        for (u32 step = 0; step < steps; step++, now.advance()) {
          u32 barrier = shared_address(full + now.stage), to = begin + now.stage * STAGE_BYTES;
          wait(shared_address(empty + now.stage), now.parity ^ 1);
          arrive_and_expect(barrier, STAGE_BYTES);
          load_box(to, a, step * DEPTH, row, barrier);
          if (BLOCKS == 1) {
            load_box(to + MATRIX_BYTES, b, step * DEPTH, column, barrier);
          } else {
            u32 half = rank * (MATRIX_BYTES / BLOCKS);
            load_box_for(to + MATRIX_BYTES + half, b, step * DEPTH, column + rank * (TILE / BLOCKS), barrier, (1 << BLOCKS) - 1);
          }
        }
      }
  } else {
    take_registers<232>();
    const u32 out = begin + STAGES * STAGE_BYTES + group * (64 * TILE * 2);
    for (u32 pair = blockIdx.x / BLOCKS; pair < pairs; pair += gridDim.x / BLOCKS) {
      u32 row = (pair / across * BLOCKS + rank) * TILE, column = pair % across * TILE;
      float sum[64];
      u32 before = 0;
      for (u32 step = 0; step <= steps; step++) {
        if (step < steps) {
          wait(shared_address(full + now.stage), now.parity);
          u32 at = begin + now.stage * STAGE_BYTES;
          hold(sum);
          products_begin();
          multiply_stage(sum, at + group * (MATRIX_BYTES / 2), at + MATRIX_BYTES, step == 0);
          products_commit();
          hold(sum);
          products_wait<1>();
        } else {
          products_wait<0>();
          hold(sum);
        }
        if (step > 0 && t % 32 < BLOCKS) {
          if (BLOCKS == 1) arrive(shared_address(empty + before));
          else arrive_at(shared_address(empty + before), t % 32);
        }
        before = now.stage;
        if (step < steps) now.advance();
      }
      if (t % 128 == 0) stores_have_read();
      meet(1 + group, 128);
      stage_sums(sum, out);
      writes_are_visible();
      meet(1 + group, 128);
      if (t % 128 == 0) {
        store_box(c, column, row + 64 * group, out);
        store_box(c, column + 64, row + 64 * group, out + 64 * 128);
      }
    }
    if (t % 128 == 0) stores_have_read();
  }
  if (BLOCKS > 1) meet_cluster_only();  // nobody leaves while another may still arrive at its barriers
}
