// A product of 4-bit floats with a scale for each SHARE of them along K; a block computes 128 x 128 sums in single precision,
// and one thread does all but store them, as in blackwell_tensor_memory.cu. A stage has 256 numbers of 128 rows of either
// matrix, which are 128 bytes, and their scales, in tiles of 128 rows and four scales: of row r in bytes 16 (r % 32) +
// 4 (r / 32) and the next three, so that one copy puts them where products look for them, lane r % 32 of column r / 32.
#pragma once
#include "blackwell_tile.cuh"

constexpr u32 NUMBERS = 256, DEEP = 64, STAGE_COUNT = 4, SCALES_BYTES = 512, BOX = 32 * 128;

template <u32 SHARE>
__device__ inline void scaled_product(const TensorMap &a, const TensorMap &b, const unsigned char *scales_a,
                                      const unsigned char *scales_b, const TensorMap &c, u32 n) {
  constexpr u32 TILES = NUMBERS / SHARE / 4, SCALES = TILES * SCALES_BYTES, BYTES = STAGE_BYTES + 2 * SCALES;
  constexpr u32 EACH = 8 * TILES, COLUMNS = 256;  // sums, then the scales of each stage
  __shared__ alignas(8) u64 full[STAGE_COUNT], empty[STAGE_COUNT], done;
  __shared__ u32 columns;
  const u32 begin = stages_begin(), warp = uniform(threadIdx.x / 32), steps = n / NUMBERS;
  const u32 scales_begin = begin + STAGE_COUNT * STAGE_BYTES;
  const u32 sums = begin_block<STAGE_COUNT>(full, empty, &done, &columns, COLUMNS, warp);
  if (warp == 0 && elected()) {
    auto load = [&](u32 step) {
      u32 stage = step % STAGE_COUNT, barrier = shared_address(full + stage), to = begin + stage * STAGE_BYTES;
      u32 scales = scales_begin + stage * (2 * SCALES);
      arrive_and_expect(barrier, BYTES);
      load_box(to, a, step * (NUMBERS / 2), blockIdx.y * TILE, barrier);
      load_box(to + MATRIX_BYTES, b, step * (NUMBERS / 2), blockIdx.x * TILE, barrier);
      load_bytes(scales, scales_a + (blockIdx.y * steps + step) * SCALES, SCALES, barrier);
      load_bytes(scales + SCALES, scales_b + (blockIdx.x * steps + step) * SCALES, SCALES, barrier);
    };
    copy_and_multiply<STAGE_COUNT>(steps, full, empty, &done, load, [&](u32 step, u32 stage) {
      // A stage has columns of its own: copies wait for no product, but by `empty` for that which has read them.
      u32 scales = sums + TILE + stage * EACH, from = scales_begin + stage * (2 * SCALES);
#pragma unroll
      for (u32 i = 0; i < 2 * TILES; i++) copy_scales(scales + 4 * i, short_rows(from + i * SCALES_BYTES));
      u64 left = swizzled_rows(begin + stage * STAGE_BYTES), right = left + MATRIX_BYTES / 16;
#pragma unroll
      for (u32 k = 0; k < NUMBERS / DEEP; k++) {
        u32 first = k * DEEP / SHARE, at = scales + 4 * (first / 4);
        const u32 what = product_of_fp4(TILE, TILE, SHARE == 32, first % 4);
        multiply_fp4<SHARE>(sums, left + 2 * k, right + 2 * k, what, at, at + 4 * TILES, step > 0 || k > 0);
      }
    });
  }
  __syncwarp();
  wait(shared_address(&done), 0);
  after_wait();
  const u32 lane = threadIdx.x % 32, out = begin + warp * (4 * BOX);
  for (u32 x = 0; x < TILE; x += 32) {
    float sum[32];
    load_columns(sum, sums + (warp * 32 << 16) + x);
#pragma unroll
    for (u32 i = 0; i < 32; i += 4)
      store_piece(out + x / 32 * BOX + lane * 128 + (i / 4 ^ lane % 8) * 16, __float_as_uint(sum[i]),
                  __float_as_uint(sum[i + 1]), __float_as_uint(sum[i + 2]), __float_as_uint(sum[i + 3]));
  }
  writes_are_visible();
  __syncwarp();
  if (lane == 0) {
    for (u32 x = 0; x < TILE; x += 32) store_box(c, blockIdx.x * TILE + x, blockIdx.y * TILE + 32 * warp, out + x / 32 * BOX);
    stores_have_read();
  }
  before_arrival();
  __syncthreads();
  after_wait();
  if (warp == 0) give_columns<1>(sums, COLUMNS);
}
