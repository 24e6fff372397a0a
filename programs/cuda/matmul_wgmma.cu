// Four warps multiply together, and read both matrices from shared memory themselves: no fragment passes through
// registers. Products run while the threads go on, so a group of them is always under way, and the stage that the group
// before it has read is filled again.
#include "matmul_tile.cuh"

constexpr u32 STAGES = 4;

extern "C" __global__ void __launch_bounds__(128)
    wgmma(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, u32 *c, u32 n) {
  __shared__ alignas(8) u64 full[STAGES];
  const u32 begin = stages_begin(), t = threadIdx.x, steps = n / DEPTH;
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

  float upper[64], lower[64];
  Ring<STAGES> now;
  for (u32 step = 0; step < steps; step++, now.advance()) {
    wait(shared_address(full + now.stage), now.parity);
    u32 left = begin + now.stage * STAGE_BYTES, right = left + MATRIX_BYTES;
    hold(upper), hold(lower);
    products_begin();
    multiply_stage(upper, left, right, step == 0);
    multiply_stage(lower, left + MATRIX_BYTES / 2, right, step == 0);
    products_commit();
    hold(upper), hold(lower);
    products_wait<1>();
    __syncthreads();  // all four warps have done with the stage before this one
    if (t == 0 && step + STAGES - 1 < steps) load(step + STAGES - 1);
  }
  products_wait<0>();
  hold(upper), hold(lower);
  store_sums(upper, c + (row * n + column) / 2, n);
  store_sums(lower, c + ((row + 64) * n + column) / 2, n);
}
