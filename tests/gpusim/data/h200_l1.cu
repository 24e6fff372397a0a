// Stores that wait and join, loads that meet, loads behind stores: kernels of which an H200's counters were recorded.
typedef unsigned long long u64;
typedef unsigned int u32;

__device__ __forceinline__ u32 clk() {
  u32 t;
  asm volatile("mov.u32 %0,%%clock;" : "=r"(t)::"memory");
  return t;
}

// a store, N others `apart` bytes behind each other, and the first again, without a gap
template <int N> __device__ void mid(char *base, int lane, int apart, int round, int rounds, u32 *out) {
  char *p = base + (threadIdx.x >> 5) * (1 << 22) + (threadIdx.x & 31) * lane;
  u32 t0 = clk();
  for (int r = 0; r < rounds; r++) {
    asm volatile("st.global.u32 [%0],%1;" ::"l"(p), "r"(r));
#pragma unroll
    for (int k = 1; k <= N; k++) asm volatile("st.global.u32 [%0],%1;" ::"l"(p + k * apart), "r"(r));
    asm volatile("st.global.u32 [%0],%1;" ::"l"(p), "r"(r));
    p += round;
    u32 t = clk();
    while (clk() - t < 1500) {}
  }
  if ((threadIdx.x & 31) == 0) out[threadIdx.x >> 5] = clk() - t0;
}
#define MID(N)                                                                                         \
  extern "C" __global__ void mid##N(char *base, int lane, int apart, int round, int rounds, u32 *out) { \
    mid<N>(base, lane, apart, round, rounds, out);                                                     \
  }
MID(1) MID(2) MID(3) MID(4) MID(8) MID(31)

// a store, then a load of what lies `sub` bytes in front of it, at once and later
extern "C" __global__ void st_then_ld(char *base, int lane, int sub, int round, int rounds, int warm, u32 *out) {
  char *p = base + (threadIdx.x >> 5) * (1 << 20) + (threadIdx.x & 31) * lane;
  u32 v = 0, t0 = clk();
  for (int r = 0; r < rounds; r++) {
    if (warm) {
      asm volatile("ld.global.u32 %0,[%1];" : "=r"(v) : "l"(p));
      u32 t = clk() + (v >> 31);
      while (clk() - t < 300) {}
    }
    asm volatile("st.global.u32 [%0],%1;" ::"l"(p + sub), "r"(r));
    asm volatile("ld.global.u32 %0,[%1];" : "=r"(v) : "l"(p));
    p += round + (v >> 31);
    u32 t = clk();
    while (clk() - t < 600) {}
    asm volatile("ld.global.u32 %0,[%1];" : "=r"(v) : "l"(p - round));
    t = clk() + (v >> 31);
    while (clk() - t < 600) {}
  }
  if ((threadIdx.x & 31) == 0) out[threadIdx.x >> 5] = clk() - t0 + (v >> 31);
}

struct P {
  int rounds, gap, lane, warp, round, mod, sub, subs;
  long long block;
  int warpgap, active;
};
#define PARAMS                                                                                                      \
  int rounds, int gap, int lane, int warp, int round, int mod, int sub, int subs, long long block, int warpgap, \
      int active
#define PP P p = {rounds, gap, lane, warp, round, mod, sub, subs, block, warpgap, active};
#define ADDR(r)                                                                                          \
  (base + (long long)blockIdx.x * p.block + (long long)(threadIdx.x >> 5) * p.warp +                     \
   (long long)(threadIdx.x & 31) * p.lane + (long long)((r) & (p.mod - 1)) * p.round)

__device__ __forceinline__ void wait_(int gap) {
  if (gap > 0) {
    u32 t = clock();
    while ((u32)clock() - t < (u32)gap) {}
  }
}

// all words of a lane's 32 bytes, one store behind the other
extern "C" __global__ void st8x32(char *base, u32 *out, PARAMS) {
  PP u32 t0 = clock();
  for (int r = 0; r < p.rounds; r++) {
    char *a = ADDR(r);
    u32 v = r;
    asm volatile("st.global.u32 [%0],%1; st.global.u32 [%0+4],%1; st.global.u32 [%0+8],%1; st.global.u32 [%0+12],%1; "
                 "st.global.u32 [%0+16],%1; st.global.u32 [%0+20],%1; st.global.u32 [%0+24],%1; "
                 "st.global.u32 [%0+28],%1;" ::"l"(a), "r"(v));
    wait_(p.gap);
  }
  if ((threadIdx.x & 31) == 0) out[blockIdx.x * 32 + (threadIdx.x >> 5)] = clock() - t0;
}

// `subs` stores `sub` bytes apart, again and again
extern "C" __global__ void st32(char *base, u32 *out, PARAMS) {
  PP u32 t0 = clock();
  if ((threadIdx.x & 31) < p.active)
    for (int r = 0; r < p.rounds; r++) {
      char *a = ADDR(r);
      for (int s = 0; s < p.subs; s++) {
        asm volatile("st.global.u32 [%0],%1;" ::"l"(a + (long long)s * p.sub), "r"(r));
      }
      wait_(p.gap);
    }
  if ((threadIdx.x & 31) == 0) out[blockIdx.x * 32 + (threadIdx.x >> 5)] = clock() - t0;
}

// loads that warps of a block make at the same time, or warp by warp `warpgap` cycles apart
extern "C" __global__ void ld_meet(char *base, u32 *out, PARAMS) {
  PP u32 t0 = clock();
  u32 sum = 0;
  for (int r = 0; r < p.rounds; r++) {
    char *a = ADDR(r);
    __syncthreads();
    wait_(p.warpgap * (threadIdx.x >> 5));
    u32 v;
    asm volatile("ld.global.u32 %0,[%1];" : "=r"(v) : "l"(a));
    sum += v;
    if (v == 12345) break;
  }
  if ((threadIdx.x & 31) == 0 || sum == 77) out[blockIdx.x * 32 + (threadIdx.x >> 5)] = clock() - t0;
}

// `subs` loads, none of which waits for another
extern "C" __global__ void ld_back(char *base, u32 *out, PARAMS) {
  PP u32 t0 = clock();
  u32 sum = 0;
  for (int r = 0; r < p.rounds; r++) {
    char *a = ADDR(r);
    u32 v[8];
#pragma unroll
    for (int s = 0; s < 8; s++) v[s] = 0;
#pragma unroll
    for (int s = 0; s < 8; s++)
      if (s < p.subs) asm volatile("ld.global.u32 %0,[%1];" : "=r"(v[s]) : "l"(a + s * p.sub));
#pragma unroll
    for (int s = 0; s < 8; s++) sum += v[s];
    if (sum == 12345) break;
    wait_(p.gap);
  }
  if ((threadIdx.x & 31) == 0 || sum == 77) out[blockIdx.x * 32 + (threadIdx.x >> 5)] = clock() - t0;
}

// every thread the sum of a row of its own
extern "C" __global__ void row_sum(char *base, u32 *out, PARAMS) {
  PP u32 t0 = clock();
  float s = 0;
  const float *a = (const float *)ADDR(0);
#pragma unroll 4
  for (int r = 0; r < p.rounds; r++) s += a[r];
  if (s != 77) out[blockIdx.x * 32 + (threadIdx.x >> 5)] = clock() - t0;
}

__device__ __forceinline__ u32 mix_(u32 x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

// random sectors of `mod` that are `round` bytes apart; `lane` lanes take words that follow each other
extern "C" __global__ void ld_rand(char *base, u32 *out, PARAMS) {
  PP u32 t0 = clock();
  u32 sum = 0;
  u32 id = (blockIdx.x * blockDim.x + threadIdx.x) / p.lane;
  base += (long long)blockIdx.x * p.block + (threadIdx.x % p.lane) * 4;
#pragma unroll 4
  for (int r = 0; r < p.rounds; r++) {
    u32 h = mix_(id * 0x9e3779b9U + r * 0x85ebca6bU) & (u32)(p.mod - 1);
    u32 v;
    asm volatile("ld.global.u32 %0,[%1];" : "=r"(v) : "l"(base + (u64)h * p.round));
    sum += v;
  }
  if ((threadIdx.x & 31) == 0 || sum == 77) out[blockIdx.x * 32 + (threadIdx.x >> 5)] = clock() - t0;
}
