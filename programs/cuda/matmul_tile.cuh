// What the kernels of `matmul_hopper` share: a block computes 128 x 128 outputs, 64 steps of the inner dimension at a
// time, from a ring of stages in shared memory. A stage holds 128 rows of `a` and 128 of `b` of 64 halves, 128 bytes: as
// wide as a swizzle, which exchanges the 16-byte pieces of a row by the row's number so that eight rows of one column
// lie in different banks.
#pragma once
#include "hopper.cuh"

constexpr u32 TILE = 128, DEPTH = 64, MATRIX_BYTES = TILE * DEPTH * 2, STAGE_BYTES = 2 * MATRIX_BYTES;

// The first multiple of 1,024 bytes in the block's dynamic shared memory: where a swizzle's pattern begins.
__device__ inline u32 stages_begin() {
  extern __shared__ unsigned char shared[];
  return (shared_address(shared) + 1023) & ~1023u;
}

// Where a ring of stages is: its next stage, and the parity of the phase that this stage is in.
template <u32 STAGES> struct Ring {
  u32 stage = 0, parity = 0;
  __device__ inline void advance() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
};

// Starts the four products of a warp group that 64 steps of the inner dimension take: 64 rows of `a` times all of `b`.
__device__ inline void multiply_stage(float (&sum)[64], u32 a, u32 b, bool first) {
  u64 left = descriptor(a), right = descriptor(b);
#pragma unroll
  for (u32 k = 0; k < DEPTH / 16; k++) multiply(sum, left + 2 * k, right + 2 * k, !first || k > 0);
}

// Writes 64 x 128 sums as halves to rows of `n`, two at a time; `c` is where the group's first row and column lie.
__device__ inline void store_sums(const float (&sum)[64], u32 *c, u32 n) {
  u32 lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
  for (u32 j = 0; j < 16; j++) {
    u32 column = 4 * j + lane % 4;
    c[row * (n / 2) + column] = pack(sum[4 * j], sum[4 * j + 1]);
    c[(row + 8) * (n / 2) + column] = pack(sum[4 * j + 2], sum[4 * j + 3]);
  }
}

// Writes 64 x 128 sums as halves to shared memory, for TMA: two boxes of 64 columns, swizzled like the inputs.
__device__ inline void stage_sums(const float (&sum)[64], u32 to) {
  u32 lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
  for (u32 j = 0; j < 16; j += 2) {
    u32 piece = (j % 8 + lane / 16) ^ row % 8;
    store_matrices(to + j / 8 * (64 * 128) + row * 128 + piece * 16, pack(sum[4 * j], sum[4 * j + 1]),
                   pack(sum[4 * j + 2], sum[4 * j + 3]), pack(sum[4 * j + 4], sum[4 * j + 5]),
                   pack(sum[4 * j + 6], sum[4 * j + 7]));
  }
}
