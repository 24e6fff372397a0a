// Kernels of the published microbenchmarks, written anew from what their papers describe. Every kernel takes `out`,
// where thread 0 of each block puts the SM's clock before and after what is measured.

__device__ unsigned clock_now()
{
    unsigned c;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(c) :: "memory");
    return c;
}

// Loads whose result is the next address: nothing but the load is in the chain. Past the L1 with `cg`.
extern "C" __global__ void follow_pointers(const unsigned long long *start, int rounds, int before, int past_l1, unsigned *out)
{
    unsigned long long p = (unsigned long long)start;
    for (int k = 0; k < before; k++) {
        if (past_l1) asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(p) : "l"(p));
        else asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(p) : "l"(p));
    }
    unsigned first = clock_now();
    if (past_l1) {
#pragma unroll 1
        for (int k = 0; k < rounds; k++)
#pragma unroll
            for (int u = 0; u < 32; u++) asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(p) : "l"(p));
    } else {
#pragma unroll 1
        for (int k = 0; k < rounds; k++)
#pragma unroll
            for (int u = 0; u < 32; u++) asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(p) : "l"(p));
    }
    out[2] = (unsigned)p;
    out[0] = first;
    out[1] = clock_now();
}

// Loads whose result is the next index of an array: the address has to be worked out between two loads.
extern "C" __global__ void follow_indices(const int *next, int rounds, int before, unsigned *out)
{
    int i = 0;
    for (int k = 0; k < before; k++) i = next[i];
    out[2] = i;
    unsigned first = clock_now();
#pragma unroll 32
    for (int k = 0; k < rounds * 32; k++) i = next[i];
    out[3] = i;
    out[0] = first;
    out[1] = clock_now();
}

// The same two in shared memory.
extern "C" __global__ void follow_shared_indices(int rounds, unsigned *out)
{
    __shared__ unsigned long long next[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) next[k] = (k + 8) % 1024;
    __syncthreads();
    unsigned long long i = 0;
    unsigned first = clock_now();
#pragma unroll 32
    for (int k = 0; k < rounds * 32; k++) i = next[i];
    out[2] = (unsigned)i;
    out[0] = first;
    out[1] = clock_now();
}

extern "C" __global__ void follow_shared_addresses(int rounds, unsigned *out)
{
    __shared__ unsigned next[1024];
    unsigned base = (unsigned)__cvta_generic_to_shared(next);
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) next[k] = base + 4 * ((k + 8) % 1024);
    __syncthreads();
    unsigned p = base;
    unsigned first = clock_now();
#pragma unroll 1
    for (int k = 0; k < rounds; k++)
#pragma unroll
        for (int u = 0; u < 32; u++) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(p) : "r"(p));
    out[2] = p;
    out[0] = first;
    out[1] = clock_now();
}

// Chains of dependent instructions, and products that do not depend on each other.
#define CHAIN(name, type, text)                                                     \
    extern "C" __global__ void name(int rounds, type w, type v, unsigned *out)      \
    {                                                                               \
        unsigned first = clock_now();                                               \
        _Pragma("unroll 1") for (int k = 0; k < rounds; k++)                        \
        _Pragma("unroll") for (int u = 0; u < 128; u++) asm volatile(text);         \
        out[2] = (unsigned)v;                                                       \
        out[0] = first;                                                             \
        out[1] = clock_now();                                                       \
    }
CHAIN(chain_ffma, float, "fma.rn.f32 %0, %0, %1, %1;" : "+f"(v) : "f"(w))
CHAIN(chain_fadd, float, "add.f32 %0, %0, %1;" : "+f"(v) : "f"(w))
CHAIN(chain_imad, int, "mad.lo.s32 %0, %0, %1, %1;" : "+r"(v) : "r"(w))
CHAIN(chain_iadd, int, "add.s32 %0, %0, %1;" : "+r"(v) : "r"(w))
CHAIN(chain_dfma, double, "fma.rn.f64 %0, %0, %1, %1;" : "+d"(v) : "d"(w))
CHAIN(chain_hfma, int, "fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(v) : "r"(w))

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void products(int rounds, unsigned *out)
{
    float c[8][4] = {};
    unsigned a = threadIdx.x, b = threadIdx.x;
    unsigned first = clock_now();
#pragma unroll 1
    for (int k = 0; k < rounds; k++)
#pragma unroll
        for (int u = 0; u < 128; u++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(c[u % 8][0]), "+f"(c[u % 8][1]), "+f"(c[u % 8][2]), "+f"(c[u % 8][3]) : "r"(a), "r"(b));
    float sum = 0;
    for (int u = 0; u < 8; u++) sum += c[u][0];
    out[2] = (unsigned)sum;
    if (threadIdx.x == 0) {
        out[0] = first;
        out[1] = clock_now();
    }
}
#endif

// Every block reads words of its own again and again: out of L1 by fours of bytes, and past it by eights.
#define READ_AGAIN(name, type, load)                                                    \
    extern "C" __global__ void name(const type *data, int words, int rounds, unsigned *out) \
    {                                                                                   \
        const type *mine = data + (size_t)blockIdx.x * words + threadIdx.x;             \
        float sum = 0;                                                                  \
        for (int r = 0; r < rounds; r++)                                                \
            _Pragma("unroll 16") for (int k = 0; k < words; k += 1024) { load; }        \
        if (sum == 0.5f) out[0] = 0;                                                    \
    }
READ_AGAIN(read_l1, float, float v; asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(v) : "l"(mine + k)); sum += v)
READ_AGAIN(read_l2, float2, float v; float w;
           asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(v), "=f"(w) : "l"(mine + k)); sum += v + w)

// Loads out of L1 with a stride between the lanes of a warp; 64 addresses for all threads (gpu-benches, gpu-strides).
extern "C" __global__ void read_strided(const float *data, int stride, int none, int rounds, unsigned *out)
{
    const float *mine = data + threadIdx.x % 64 * stride;
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        mine += none;  // 0, but who compiles does not know
#pragma unroll
        for (int k = 0; k < 32; k += 4) sum += mine[k];
    }
    if (sum == 0.5f) out[0] = 0;
}

// Streams of all blocks together: read, and read, scale and write.
extern "C" __global__ void read_stream(const float2 *data, int n, unsigned *out)
{
    float sum = 0;
    int step = gridDim.x * blockDim.x;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) sum += data[i].x + data[i].y;
    if (sum == 0.5f) out[0] = 0;
}

extern "C" __global__ void scale_stream(const float2 *data, float2 *to, int n, unsigned *)
{
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = make_float2(1.2f * data[i].x, 1.2f * data[i].y);
}
