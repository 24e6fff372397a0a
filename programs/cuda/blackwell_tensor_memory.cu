// One thread does all the work but the last: it asks for stages by TMA and starts the products, 128 x 128 x 16 in one
// instruction, whose sums lie in tensor memory. No thread has a register for them until they are to be converted and stored.
#include "blackwell_tile.cuh"

constexpr u32 STAGES = 4, PRODUCT = product_of_halves(TILE, TILE);

extern "C" __global__ void __launch_bounds__(128)
    tensor_memory(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                  const __grid_constant__ TensorMap c, u32 n) {
  __shared__ alignas(8) u64 full[STAGES], empty[STAGES], done;
  __shared__ u32 columns;
  const u32 begin = stages_begin(), warp = uniform(threadIdx.x / 32), steps = n / DEPTH;
  const u32 row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  const u32 sums = begin_block<STAGES>(full, empty, &done, &columns, TILE, warp);
  if (warp == 0 && elected()) {
    auto load = [&](u32 step) {
      u32 stage = step % STAGES, barrier = shared_address(full + stage), to = begin + stage * STAGE_BYTES;
      arrive_and_expect(barrier, STAGE_BYTES);
      load_box(to, a, step * DEPTH, row, barrier);
      load_box(to + MATRIX_BYTES, b, step * DEPTH, column, barrier);
    };
    copy_and_multiply<STAGES>(steps, full, empty, &done, load, [&](u32 step, u32 stage) {
      u32 at = begin + stage * STAGE_BYTES;
      multiply_stage<1>(sums, at, at + MATRIX_BYTES, PRODUCT, step == 0);
    });
  }
  __syncwarp();
  wait(shared_address(&done), 0);
  after_wait();
  // All products have read their stages: the first is room for the outputs. Each warp stores the rows of its lanes.
  const u32 out = begin + warp * (2 * BOX_BYTES), first = sums + (warp * 32 << 16);
  stage_columns(first, out);
  stage_columns(first + 64, out + BOX_BYTES);
  writes_are_visible();
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    store_box(c, column, row + 32 * warp, out);
    store_box(c, column + 64, row + 32 * warp, out + BOX_BYTES);
    stores_have_read();
  }
  before_arrival();
  __syncthreads();
  after_wait();
  if (warp == 0) give_columns<1>(sums, TILE);
}
