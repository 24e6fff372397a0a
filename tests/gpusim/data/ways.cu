// What SMs store to L2, add there and read out of it: those of which `on` says so, by their number, each in `lines` lines
// of its own, `rounds` times over. `took` gets the cycles of each.
#define KERNEL(name, threads, round)                                                                              \
  extern "C" __global__ __launch_bounds__(threads) void name(float *memory, int lines, int rounds,               \
                                                             const unsigned char *on, unsigned *took) {           \
    unsigned sm;                                                                                                  \
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));                                                                \
    if (!on[sm]) return;                                                                                          \
    float *own = memory + (size_t)sm * lines * 32, sum = 0;                                                       \
    __syncthreads();                                                                                              \
    long long before = clock64();                                                                                 \
    for (int again = 0; again < rounds; again++) {                                                                \
      round                                                                                                       \
    }                                                                                                             \
    if (sum == 12345.f) own[0] = sum;                                                                             \
    __syncthreads();                                                                                              \
    if (threadIdx.x == 0) took[sm] = (unsigned)(clock64() - before);                                              \
  }
KERNEL(store_line, 512, for (int i = threadIdx.x; i < lines * 8; i += 512)((float4 *)own)[i] = make_float4(1, 2, 3, 4);)
KERNEL(store_sector, 512, for (int i = threadIdx.x; i < lines * 8; i += 512) own[(i >> 3) * 32 + (i & 7)] = 1;)
KERNEL(store_word, 512, for (int i = threadIdx.x; i < lines; i += 512) own[(size_t)i * 32] = 1;)
KERNEL(reduce_word, 512, for (int i = threadIdx.x; i < lines; i += 512) atomicAdd((int *)own + (size_t)i * 32, 1);)
KERNEL(load_sector, 1024, _Pragma("unroll 8") for (int i = threadIdx.x; i < lines; i += 1024)
                              sum += __ldcg(own + (size_t)i * 32 + (i * 2654435761u >> 30) * 8);)
KERNEL(load_line, 1024, _Pragma("unroll 4") for (int i = threadIdx.x; i < lines * 8; i += 1024) {
  float4 value = __ldcg((float4 *)own + i);
  sum += value.x + value.y + value.z + value.w;
})

// Straight code of `size` KB, and other code of as much.
#define STRAIGHT(name, size)                                                                                      \
  extern "C" __global__ void name(unsigned *took, float *out) {                                                  \
    float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3;                                                       \
    long long before = clock64();                                                                                 \
    _Pragma("unroll") for (int i = 0; i < size * 16; i++) asm volatile(                                           \
        "fma.rn.f32 %0,%0,%1,%1; fma.rn.f32 %1,%1,%2,%2; fma.rn.f32 %2,%2,%3,%3; fma.rn.f32 %3,%3,%0,%0;"         \
        : "+f"(a), "+f"(b), "+f"(c), "+f"(d));                                                                    \
    took[blockIdx.x] = (unsigned)(clock64() - before);                                                            \
    if (a + b + c + d == 12345.f) out[0] = a;                                                                     \
  }
STRAIGHT(straight_16, 16)
STRAIGHT(straight_32, 32)
STRAIGHT(straight_96, 96)
STRAIGHT(other_2, 2)
STRAIGHT(other_32, 32)
STRAIGHT(other_64, 64)

extern "C" __global__ void update(float4 *memory, int n) {
  float4 *own = memory + (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float4 value = own[i];
    value.x *= 1.5f, value.y *= 1.5f, value.z *= 1.5f, value.w *= 1.5f;
    own[i] = value;
  }
}
extern "C" __global__ void read(float4 *memory, int n) {
  float4 *own = memory + (size_t)blockIdx.x * n;
  float sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float4 value = own[i];
    sum += value.x + value.y + value.z + value.w;
  }
  if (sum == 12345.f) memory[0].x = sum;
}
