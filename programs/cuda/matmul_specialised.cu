// Warps divide the work: one group only copies, two only multiply, and two mbarriers for each stage are all that they say
// to each other: `full` (the bytes are there) and `empty` (the eight other warps have read them). Nobody waits for a
// __syncthreads. The copying group needs few registers and gives the others the rest. The outputs leave by TMA, too.
#include "matmul_tile.cuh"

constexpr u32 STAGES = 4;

extern "C" __global__ void __launch_bounds__(384, 1)
    specialised(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                const __grid_constant__ TensorMap c, u32 n) {
  __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
  const u32 begin = stages_begin(), t = threadIdx.x, group = uniform(t / 128), steps = n / DEPTH;
  const u32 row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  if (t == 0) {
    for (u32 i = 0; i < STAGES; i++) barrier_init(shared_address(full + i), 1), barrier_init(shared_address(empty + i), 8);
    barriers_are_ready();
  }
  __syncthreads();
  Ring<STAGES> now;
  if (group == 2) {
    give_registers<40>();
    if (t / 32 % 4 == 0 && elected())
      for (u32 step = 0; step < steps; step++, now.advance()) {
        u32 barrier = shared_address(full + now.stage), to = begin + now.stage * STAGE_BYTES;
        wait(shared_address(empty + now.stage), now.parity ^ 1);
        arrive_and_expect(barrier, STAGE_BYTES);
        load_box(to, a, step * DEPTH, row, barrier);
        load_box(to + MATRIX_BYTES, b, step * DEPTH, column, barrier);
      }
    return;
  }
  take_registers<232>();
  float sum[64];
  u32 before = 0;
  for (u32 step = 0; step < steps; step++, now.advance()) {
    wait(shared_address(full + now.stage), now.parity);
    u32 at = begin + now.stage * STAGE_BYTES;
    hold(sum);
    products_begin();
    multiply_stage(sum, at + group * (MATRIX_BYTES / 2), at + MATRIX_BYTES, step == 0);
    products_commit();
    hold(sum);
    products_wait<1>();
    if (step > 0 && t % 32 == 0) arrive(shared_address(empty + before));
    before = now.stage;
  }
  products_wait<0>();
  hold(sum);
  u32 out = begin + STAGES * STAGE_BYTES + group * (64 * TILE * 2);
  stage_sums(sum, out);
  writes_are_visible();
  meet(1 + group, 128);
  if (t % 128 == 0) {
    store_box(c, column, row + 64 * group, out);
    store_box(c, column + 64, row + 64 * group, out + 64 * 128);
    stores_have_read();
  }
}
