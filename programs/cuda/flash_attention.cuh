// Attention without its matrix of scores, for 128 queries of one head. One warp group copies keys and values, 128 of each
// at a time; two others have 64 queries each. A group's scores are the sums of one product (wgmma, out of shared memory)
// and, as weights, the left operand of the next (wgmma, from registers): they never leave the registers. While one group
// computes exponentials, the tensor cores multiply for the other.
#pragma once
#include "hopper.cuh"

constexpr u32 DIM = 64, TILE = 128, STAGES = 2, TILE_BYTES = TILE * DIM * 2, HALF_BYTES = TILE_BYTES / 2;
constexpr float SCALE = 0.125f * 1.44269504f;  // 1 / sqrt(DIM), times log2(e): powers of two are what the hardware has
constexpr float LOWEST = -1e30f;

__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Over the four lanes that share a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

template <bool CAUSAL>
__device__ inline void attend(const TensorMap &q, const TensorMap &k, const TensorMap &v, const TensorMap &o, u32 n) {
  extern __shared__ unsigned char shared[];
  __shared__ alignas(8) u64 queries, keys[STAGES], values[STAGES], empty[STAGES];
  const u32 begin = (shared_address(shared) + 1023) & ~1023u, ring = begin + TILE_BYTES;
  const u32 t = threadIdx.x, group = uniform(t / 128), head = blockIdx.y * n;
  // A query sees what comes before it. Blocks with the most to do go first.
  const u32 first = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * TILE, tiles = CAUSAL ? first / TILE + 1 : n / TILE;
  if (t == 0) {
    barrier_init(shared_address(&queries), 1);
    for (u32 i = 0; i < STAGES; i++) {
      barrier_init(shared_address(keys + i), 1);
      barrier_init(shared_address(values + i), 1);
      barrier_init(shared_address(empty + i), 8);
    }
    barriers_are_ready();
  }
  __syncthreads();
  u32 stage = 0, parity = 0;
  auto advance = [&] {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  };
  if (group == 2) {
    give_registers<40>();
    if (t / 32 % 4 == 0 && elected()) {
      arrive_and_expect(shared_address(&queries), TILE_BYTES);
      load_box(begin, q, 0, head + first, shared_address(&queries));
      for (u32 tile = 0; tile < tiles; tile++, advance()) {
        u32 to = ring + stage * 2 * TILE_BYTES, row = head + tile * TILE;
        wait(shared_address(empty + stage), parity ^ 1);
        arrive_and_expect(shared_address(keys + stage), TILE_BYTES);
        load_box(to, k, 0, row, shared_address(keys + stage));
        arrive_and_expect(shared_address(values + stage), TILE_BYTES);
        load_box(to + TILE_BYTES, v, 0, row, shared_address(values + stage));
      }
    }
    return;
  }
  take_registers<232>();
  const u32 lane = t % 32, row = t / 32 % 4 * 16 + lane / 4, mine = begin + group * HALF_BYTES;
  float score[64], out[32] = {}, highest[2] = {LOWEST, LOWEST}, sum[2] = {};
  wait(shared_address(&queries), 0);
  for (u32 tile = 0; tile < tiles; tile++, advance()) {
    u32 at = ring + stage * 2 * TILE_BYTES;
    wait(shared_address(keys + stage), parity);
    u64 left = descriptor(mine), right = descriptor(at);
    hold(score);
    products_begin();
#pragma unroll
    for (u32 i = 0; i < DIM / 16; i++) multiply(score, left + 2 * i, right + 2 * i, i > 0);
    products_commit();
    products_wait<0>();
    hold(score);
    if (CAUSAL && tile == tiles - 1) {
#pragma unroll
      for (u32 i = 0; i < 64; i++) {
        u32 key = i / 4 * 8 + lane % 4 * 2 + i % 2, query = group * 64 + row + i / 2 % 2 * 8;
        if (key > query) score[i] = LOWEST;
      }
    }
#pragma unroll
    for (u32 half = 0; half < 2; half++) {  // rows `row` and `row` + 8
      float top = highest[half];
#pragma unroll
      for (u32 i = 0; i < 32; i++) top = fmaxf(top, score[i / 2 * 4 + half * 2 + i % 2]);
      top = row_max(top);
      float less = power_of_two((highest[half] - top) * SCALE), shift = -top * SCALE, total = 0;
      highest[half] = top;
#pragma unroll
      for (u32 i = 0; i < 32; i++) {
        float &weight = score[i / 2 * 4 + half * 2 + i % 2];
        weight = power_of_two(fmaf(weight, SCALE, shift));
        total += weight;
      }
      sum[half] = sum[half] * less + total;
#pragma unroll
      for (u32 i = 0; i < 16; i++) out[i / 2 * 4 + half * 2 + i % 2] *= less;
    }
    u32 weight[32];
#pragma unroll
    for (u32 i = 0; i < 32; i++) weight[i] = pack(score[2 * i], score[2 * i + 1]);
    wait(shared_address(values + stage), parity);
    u64 rows = descriptor(at + TILE_BYTES);
    hold(out);
    products_begin();
#pragma unroll
    for (u32 i = 0; i < TILE / 16; i++)  // sixteen keys, each a row of values
      multiply_registers(out, weight[4 * i], weight[4 * i + 1], weight[4 * i + 2], weight[4 * i + 3], rows + 128 * i);
    products_commit();
    products_wait<0>();
    hold(out);
    if (lane == 0) arrive(shared_address(empty + stage));
  }
  float scale[2] = {1 / row_sum(sum[0]), 1 / row_sum(sum[1])};
  // To where the group's queries were: all of its warps have done with them.
  meet(1 + group, 128);
#pragma unroll
  for (u32 j = 0; j < 8; j += 2)
    store_matrices(mine + (t / 32 % 4 * 16 + lane % 16) * 128 + ((j + lane / 16) ^ lane % 8) * 16,
                   pack(out[4 * j] * scale[0], out[4 * j + 1] * scale[0]),
                   pack(out[4 * j + 2] * scale[1], out[4 * j + 3] * scale[1]),
                   pack(out[4 * j + 4] * scale[0], out[4 * j + 5] * scale[0]),
                   pack(out[4 * j + 6] * scale[1], out[4 * j + 7] * scale[1]));
  writes_are_visible();
  meet(1 + group, 128);
  if (t % 128 == 0) {
    store_box(o, 0, head + first + group * 64, mine);
    stores_have_read();
  }
}
