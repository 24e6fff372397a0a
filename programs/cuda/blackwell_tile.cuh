// What the kernels of `matmul_blackwell` share: stages as in `matmul_hopper`, products into tensor memory, and the way of
// sums from there to boxes of 32 rows and 64 columns.
#pragma once
#include "blackwell.cuh"
#include "matmul_tile.cuh"

constexpr u32 BOX_BYTES = 32 * 64 * 2;

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
