// One thread starts the copy of a whole stage: TMA computes the addresses, swizzles, and tells an mbarrier how many bytes
// have come. The other 255 threads, and all registers that held addresses, are free to multiply.
#include "matmul_tile.cuh"

constexpr u32 STAGES = 3;

extern "C" __global__ void __launch_bounds__(256)
    tma(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, u32 *c, u32 n) {
  __shared__ alignas(8) u64 full[STAGES];
  const u32 begin = stages_begin(), t = threadIdx.x, lane = t % 32, steps = n / DEPTH;
  const u32 row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  auto load = [&](u32 step) {
    u32 stage = step % STAGES, barrier = shared_address(full + stage), to = begin + stage * STAGE_BYTES;
    arrive_and_expect(barrier, STAGE_BYTES);
    load_box(to, a, step * DEPTH, row, barrier);
    load_box(to + MATRIX_BYTES, b, step * DEPTH, column, barrier);
  };
  if (t == 0) {
    for (u32 i = 0; i < STAGES; i++) barrier_init(shared_address(full + i), 1);
    barriers_are_ready();
    for (u32 i = 0; i < STAGES - 1 && i < steps; i++) load(i);
  }
  __syncthreads();

  // Eight warps, two by four, of 64 x 32 outputs.
  const u32 warp_row = t / 128 * 64, warp_column = t / 32 % 4 * 32;
  const u32 left_row = warp_row + lane % 16, right_row = warp_column + lane % 8 + lane / 16 * 8;
  float sum[4][4][4] = {};
  Ring<STAGES> now;
  for (u32 step = 0; step < steps; step++, now.advance()) {
    wait(shared_address(full + now.stage), now.parity);
    __syncthreads();  // nobody reads the stage before this one any more: it can be filled
    if (t == 0 && step + STAGES - 1 < steps) load(step + STAGES - 1);
    u32 left = begin + now.stage * STAGE_BYTES, right = left + MATRIX_BYTES;
#pragma unroll
    for (u32 k = 0; k < DEPTH / 8; k += 2) {
      u32 fragment[4][4], other[2][4];
#pragma unroll
      for (u32 i = 0; i < 4; i++)
        load_matrices(fragment[i], left + (left_row + 16 * i) * 128 + ((k + lane / 16) ^ lane % 8) * 16);
#pragma unroll
      for (u32 j = 0; j < 2; j++)
        load_matrices(other[j], right + (right_row + 16 * j) * 128 + ((k + lane / 8 % 2) ^ lane % 8) * 16);
#pragma unroll
      for (u32 i = 0; i < 4; i++)
#pragma unroll
        for (u32 j = 0; j < 4; j++)
          multiply_warp(sum[i][j], fragment[i], other[j / 2][j % 2 * 2], other[j / 2][j % 2 * 2 + 1]);
    }
  }
#pragma unroll
  for (u32 i = 0; i < 4; i++)
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      u32 at = (row + warp_row + 16 * i + lane / 4) * (n / 2) + (column + warp_column) / 2 + 4 * j + lane % 4;
      c[at] = pack(sum[i][j][0], sum[i][j][1]);
      c[at + 4 * n] = pack(sum[i][j][2], sum[i][j][3]);
    }
}
