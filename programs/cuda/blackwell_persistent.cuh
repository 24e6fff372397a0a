// A block per SM that computes tile after tile, or two on neighbouring SMs that compute one tile together. One warp copies,
// one multiplies, four convert and store. Tensor memory has room for the sums of two tiles, so that the products of the next
// tile run while the sums of this one leave. What Hopper had to have registers for is there at any time: no warp gives
// any to another.
#pragma once
#include "blackwell_tile.cuh"

constexpr u32 WIDTH = 256, COLUMNS = 512, WARPS = 4;

// BLOCKS: with two, a tile is 256 x 256. Each block copies its 128 rows of `a` and half of the rows of `b`, has the sums of
// its own rows, and reads the other half of `b` out of the other SM's shared memory. The first block starts all products.
template <u32 BLOCKS, u32 STAGES>
__device__ inline void persistent_product(const TensorMap &a, const TensorMap &b, const TensorMap &c, u32 n) {
  constexpr u32 BYTES = MATRIX_BYTES + WIDTH / BLOCKS * DEPTH * 2, PRODUCT = product_of_halves(BLOCKS * TILE, WIDTH);
  __shared__ alignas(8) u64 full[STAGES], empty[STAGES], ready[2], taken[2];
  __shared__ u32 columns;
  const u32 begin = stages_begin(), warp = uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
  const u32 steps = n / DEPTH, across = n / WIDTH, tiles = n / (BLOCKS * TILE) * across, rank = blockIdx.x % BLOCKS;
  if (warp == 0) take_columns<BLOCKS>(shared_address(&columns), COLUMNS);
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < STAGES; i++) barrier_init(shared_address(full + i), 1), barrier_init(shared_address(empty + i), 1);
    for (u32 i = 0; i < 2; i++) {
      barrier_init(shared_address(ready + i), 1);
      barrier_init(shared_address(taken + i), WARPS * BLOCKS);
    }
    barriers_are_ready();
  }
  before_arrival();
  __syncthreads();
  if (BLOCKS > 1) meet_cluster_only();
  after_wait();
  const u32 sums = columns;
  if (warp == WARPS && elected()) {
    Ring<STAGES> now;
    for (u32 tile = blockIdx.x / BLOCKS; tile < tiles; tile += gridDim.x / BLOCKS) {
      u32 row = (tile / across * BLOCKS + rank) * TILE, column = tile % across * WIDTH + rank * (WIDTH / BLOCKS);
      for (u32 step = 0; step < steps; step++, now.advance()) {
        u32 barrier = shared_address(full + now.stage), to = begin + now.stage * BYTES;
        wait(shared_address(empty + now.stage), now.parity ^ 1);
        if (rank == 0) arrive_and_expect(barrier, BLOCKS * BYTES);  // of both blocks
        if (BLOCKS == 1) {
          load_box(to, a, step * DEPTH, row, barrier);
          load_box(to + MATRIX_BYTES, b, step * DEPTH, column, barrier);
        } else {
          u32 first = address_in(barrier, 0);
          load_box_of_pair(to, a, step * DEPTH, row, first);
          load_box_of_pair(to + MATRIX_BYTES, b, step * DEPTH, column, first);
        }
      }
    }
  } else if (warp == WARPS + 1 && rank == 0 && elected()) {
    Ring<STAGES> now;
    Ring<2> half;
    for (u32 tile = blockIdx.x / BLOCKS; tile < tiles; tile += gridDim.x / BLOCKS, half.advance()) {
      wait(shared_address(taken + half.stage), half.parity ^ 1);
      for (u32 step = 0; step < steps; step++, now.advance()) {
        wait(shared_address(full + now.stage), now.parity);
        after_wait();
        u32 at = begin + now.stage * BYTES;
        multiply_stage<BLOCKS>(sums + half.stage * WIDTH, at, at + MATRIX_BYTES, PRODUCT, step == 0);
        products_tell<BLOCKS>(shared_address(empty + now.stage));
      }
      products_tell<BLOCKS>(shared_address(ready + half.stage));
    }
  } else if (warp < WARPS) {
    const u32 out = begin + STAGES * BYTES + warp * (2 * BOX_BYTES);
    Ring<2> half;
    for (u32 tile = blockIdx.x / BLOCKS; tile < tiles; tile += gridDim.x / BLOCKS, half.advance()) {
      u32 row = (tile / across * BLOCKS + rank) * TILE + 32 * warp, column = tile % across * WIDTH;
      wait(shared_address(ready + half.stage), half.parity);
      after_wait();
      for (u32 x = 0; x < WIDTH; x += 64) {
        u32 box = out + x / 64 % 2 * BOX_BYTES;
        if (lane == 0) older_stores_have_read<1>();
        __syncwarp();
        stage_columns(sums + (warp * 32 << 16) + half.stage * WIDTH + x, box);
        writes_are_visible();
        before_arrival();
        __syncwarp();
        if (lane > 0) continue;
        store_box(c, column + x, row, box);
        if (x < WIDTH - 64) continue;
        if (BLOCKS == 1) arrive(shared_address(taken + half.stage));
        else arrive_at(shared_address(taken + half.stage), 0);
      }
    }
    if (lane == 0) stores_have_read();
  }
  __syncwarp();
  before_arrival();
  __syncthreads();
  if (BLOCKS > 1) meet_cluster_only();  // nobody gives or leaves what the other block's products may still use
  after_wait();
  if (warp == 0) give_columns<BLOCKS>(sums, COLUMNS);
}
