// A table that is read again and again while a stream goes past it, by loads that tell L2 what to do with their lines.
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 ROUNDS = 4, TIMES = 2;  // the stream of a round is so many times as long as the table
enum Policy { PLAIN, ALL_LAST, QUARTER_LAST, ALL_FIRST };

template <Policy policy>
__device__ u32 total(const uint4 *words, u32 end) {
  u64 told = 0;
  if (policy == ALL_LAST) asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(told));
  if (policy == QUARTER_LAST) asm("createpolicy.fractional.L2::evict_last.b64 %0, 0.25;" : "=l"(told));
  if (policy == ALL_FIRST) asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(told));
  u32 sum = 0;
#pragma unroll 1
  for (u32 k = blockIdx.x * blockDim.x + threadIdx.x; k < end; k += gridDim.x * blockDim.x) {
    uint4 four;
    if (policy == PLAIN)
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w) : "l"(words + k));
    else
      asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w) : "l"(words + k), "l"(told));
    sum += four.x + four.y + four.z + four.w;
  }
  return sum;
}

template <Policy of_table, Policy of_stream>
__device__ void rounds(const uint4 *table, const uint4 *stream, u32 *out, u32 words) {
  u32 sum = 0;
#pragma unroll 1
  for (u32 round = 0; round < ROUNDS; round++) {
    sum += total<of_table>(table, words / 4);
    sum += total<of_stream>(stream + round * TIMES * words / 4, TIMES * words / 4);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

#define KERNEL(name, of_table, of_stream)                                                                   \
  extern "C" __global__ void name(const uint4 *table, const uint4 *stream, u32 *out, u32 words) {            \
    rounds<of_table, of_stream>(table, stream, out, words);                                                 \
  }

KERNEL(normal, PLAIN, PLAIN)
KERNEL(too_much, ALL_LAST, PLAIN)
KERNEL(kept, QUARTER_LAST, PLAIN)
KERNEL(passing, PLAIN, ALL_FIRST)
