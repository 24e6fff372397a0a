// What the kernels of `matmul_blackwell` share: stages as in `matmul_hopper`, products into tensor memory, and the way of
// sums from there to boxes of 32 rows and 64 columns. Blocks in which one thread copies and multiplies share how they begin
// and what that thread does with `matmul_fp4` too.
#pragma once
#include "blackwell.cuh"
#include "matmul_tile.cuh"

constexpr u32 BOX_BYTES = 32 * 64 * 2;

// The block has the mbarriers of its stages, and one that says when all products are done, and so many columns of tensor
// memory. Returns the address of the first.
template <u32 STAGES> __device__ inline u32 begin_block(u64 *full, u64 *empty, u64 *done, u32 *columns, u32 count, u32 warp) {
  if (warp == 0) take_columns<1>(shared_address(columns), count);
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < STAGES; i++) barrier_init(shared_address(full + i), 1), barrier_init(shared_address(empty + i), 1);
    barrier_init(shared_address(done), 1);
    barriers_are_ready();
  }
  before_arrival();
  __syncthreads();
  after_wait();
  return *columns;
}

// load: asks for what a step multiplies, in stage step % STAGES. multiply: starts the products of a step, in that stage.
// While they run, the stage of those before them is filled again.
template <u32 STAGES, class Load, class Multiply>
__device__ inline void copy_and_multiply(u32 steps, u64 *full, u64 *empty, u64 *done, Load load, Multiply multiply) {
  for (u32 i = 0; i < STAGES && i < steps; i++) load(i);
  Ring<STAGES> now, before;
  for (u32 step = 0; step < steps; step++, now.advance()) {
    wait(shared_address(full + now.stage), now.parity);
    after_wait();
    multiply(step, now.stage);
    products_tell<1>(shared_address(empty + now.stage));
    if (step == 0) continue;
    if (step - 1 + STAGES < steps) {
      wait(shared_address(empty + before.stage), before.parity);
      load(step - 1 + STAGES);
    }
    before.advance();
  }
  products_tell<1>(shared_address(done));
}

// Starts the products that 64 steps of the inner dimension take.
template <int BLOCKS> __device__ inline void multiply_stage(u32 sums, u32 a, u32 b, u32 what, bool first) {
  u64 left = swizzled_rows(a), right = swizzled_rows(b);
#pragma unroll
  for (u32 k = 0; k < DEPTH / 16; k++) multiply_halves<BLOCKS>(sums, left + 2 * k, right + 2 * k, what, !first || k > 0);
}

// Writes 64 columns of sums as halves to shared memory, for TMA: a thread has a row, whose 16-byte pieces are swizzled.
__device__ inline void stage_columns(u32 sums, u32 to) {
  u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 begin = 0; begin < 64; begin += 32) {
    float sum[32];
    load_columns(sum, sums + begin);
#pragma unroll
    for (u32 i = 0; i < 32; i += 8)
      store_piece(to + lane * 128 + ((begin + i) / 8 ^ lane % 8) * 16, pack(sum[i], sum[i + 1]), pack(sum[i + 2], sum[i + 3]),
                  pack(sum[i + 4], sum[i + 5]), pack(sum[i + 6], sum[i + 7]));
  }
}
