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

// Products that do not depend on each other: `text` with sums %0 to %3, words of A %4 and of B %5.
#define PRODUCTS(name, type, letter, text)                                                                         \
    extern "C" __global__ void name(int rounds, unsigned *out)                                                     \
    {                                                                                                              \
        type c[8][4] = {};                                                                                         \
        unsigned a = threadIdx.x, b = threadIdx.x, first = clock_now();                                            \
        _Pragma("unroll 1") for (int k = 0; k < rounds; k++)                                                       \
        _Pragma("unroll") for (int u = 0; u < 128; u++)                                                            \
            asm volatile(text : "+" letter(c[u % 8][0]), "+" letter(c[u % 8][1]), "+" letter(c[u % 8][2]),         \
                         "+" letter(c[u % 8][3]) : "r"(a), "r"(b));                                                \
        type sum = 0;                                                                                              \
        for (int u = 0; u < 8; u++) sum += c[u][0] + c[u][1] + c[u][2] + c[u][3];                                  \
        out[2] = (unsigned)sum;                                                                                    \
        if (threadIdx.x == 0) {                                                                                    \
            out[0] = first;                                                                                        \
            out[1] = clock_now();                                                                                  \
        }                                                                                                          \
    }
#define FOUR "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3}"
#define TWO "{%0,%1}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1}"
#if __CUDA_ARCH__ >= 800
PRODUCTS(products, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " FOUR ";")
PRODUCTS(products_f16, unsigned, "r", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 " TWO ";")
PRODUCTS(products_tf32, float, "f", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " FOUR ";")
PRODUCTS(products_s8, int, "r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " FOUR ";")
#endif
#if defined(__CUDA_ARCH_FEAT_SM120_ALL)
PRODUCTS(products_e4m3, float, "f", "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e4m3.f32 " FOUR ";")
PRODUCTS(products_e4m3_f16, unsigned, "r", "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f16.e4m3.e4m3.f16 " TWO ";")
PRODUCTS(products_mxf8, float, "f", "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3."
         "e4m3.f32.ue8m0 " FOUR ", {%4}, {0, 0}, {%5}, {0, 0};")
PRODUCTS(products_nvf4, float, "f", "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1."
         "e2m1.f32.ue4m3 " FOUR ", {%4}, {0, 0}, {%5}, {0, 0};")
#endif

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
__device__ void wait_for(unsigned barrier, unsigned parity)
{
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }"
                 :: "r"(barrier), "r"(parity) : "memory");
}

__device__ bool elected()
{
    unsigned one;
    asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(one));
    return one;
}

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// Products of zeros in tensor memory: batches of `depth`, a multiple of four, each committed and waited for; `one_...`
// times the last of several that are waited for one by one. The second block of a pair waits for the end. `text` with D
// %0, descriptors of A %1 and B %2, the instruction's %3; A, metadata and scales in tensor memory at %4.
#define ALLOCATE(group)                                                                                             \
    __shared__ unsigned where;                                                                                      \
    if (threadIdx.x < 32) {                                                                                         \
        asm volatile("tcgen05.alloc.cta_group::" group ".sync.aligned.shared::cta.b32 [%0], 512;"                   \
                     :: "r"(shared_address(&where)) : "memory");                                                    \
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::" group ".sync.aligned;");                         \
    }                                                                                                               \
    __syncthreads();                                                                                                \
    unsigned memory = where;
#define FREE(group)                                                                                                 \
    __syncthreads();                                                                                                \
    if (threadIdx.x < 32)                                                                                           \
        asm volatile("tcgen05.dealloc.cta_group::" group ".sync.aligned.b32 %0, 512;" :: "r"(memory));
#define BOTH asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#define PRODUCT(text)                                                                                               \
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; " text " }"                                                  \
                 :: "r"(memory), "l"(a), "l"(b), "r"(descriptor), "r"(memory + 256) : "memory");
#define COMMIT(group, commit)                                                                                       \
    asm volatile("tcgen05.commit.cta_group::" group ".mbarrier::arrive::one.shared::cluster" commit                 \
                 :: "r"(place), "h"((short)3) : "memory");                                                          \
    wait_for(place, parity);                                                                                        \
    parity ^= 1;
#define KERNEL(name, group, before, both, body)                                                                     \
    extern "C" __global__ void before name(int rounds, int depth, unsigned descriptor, unsigned *out)               \
    {                                                                                                               \
        __shared__ __align__(1024) unsigned room[8192];                                                             \
        __shared__ unsigned long long barrier;                                                                      \
        unsigned place = shared_address(&barrier), parity = 0;                                                      \
        for (int k = threadIdx.x; k < 8192; k += blockDim.x) room[k] = 0;                                           \
        if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place));                 \
        asm volatile("fence.proxy.async;" ::: "memory");                                                            \
        ALLOCATE(group)                                                                                             \
        both                                                                                                        \
        if (threadIdx.x < 32 && blockIdx.x == 0 && elected()) {                                                     \
            unsigned long long a = shared_address(room) >> 4 | 8ull << 16 | 16ull << 32 | 1ull << 46, b = a + 512;  \
            asm volatile("" : "+r"(place), "+l"(a), "+l"(b));                                                       \
            unsigned long long first = clock64(), last = 0;                                                         \
            _Pragma("unroll 1") for (int k = 0; k < rounds; k++) { body }                                           \
            out[0] = first;                                                                                         \
            out[1] = last ? last : clock64();                                                                       \
        }                                                                                                           \
        both                                                                                                        \
        FREE(group)                                                                                                 \
    }
#define BATCH(name, group, before, both, commit, text)                                                              \
    KERNEL(batch_##name, group, before, both,                                                                       \
           _Pragma("unroll 1") for (int u = 0; u < depth; u += 4) { PRODUCT(text) PRODUCT(text) PRODUCT(text) PRODUCT(text) } \
           COMMIT(group, commit))                                                                                   \
    KERNEL(one_##name, group, before, both,                                                                         \
           first = clock64(); PRODUCT(text) COMMIT(group, commit) last = clock64();)
#define BATCH_OF_ONE(name, text) BATCH(name, "1", , , ".b64 [%0];", text)
#define BATCH_OF_TWO(name, text)                                                                                    \
    BATCH(name, "2", __cluster_dims__(2, 1, 1), BOTH, ".multicast::cluster.b64 [%0], %1;", text)
BATCH_OF_ONE(f16, "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;")
BATCH_OF_ONE(f16_ts, "tcgen05.mma.cta_group::1.kind::f16 [%0], [%4], %2, %3, p;")
BATCH_OF_ONE(tf32, "tcgen05.mma.cta_group::1.kind::tf32 [%0], %1, %2, %3, p;")
BATCH_OF_ONE(f8, "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;")
BATCH_OF_ONE(f8_sparse, "tcgen05.mma.sp.cta_group::1.kind::f8f6f4 [%0], %1, %2, [%4], %3, p;")
BATCH_OF_ONE(nvf4, "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%0], %1, %2, %3, [%4], [%4], p;")
BATCH_OF_ONE(copy, "tcgen05.cp.cta_group::1.128x256b [%0], %1;")
BATCH_OF_TWO(f16_pair, "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;")
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
BATCH_OF_ONE(i8, "tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %2, %3, p;")
#endif

// Loads and stores of tensor memory by four warps, each waited for.
#define SIXTEEN "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define MOVES(name, text)                                                                                           \
    extern "C" __global__ void name(int rounds, unsigned *out)                                                      \
    {                                                                                                               \
        ALLOCATE("1")                                                                                               \
        unsigned r[16] = {}, sum = 0, at = memory + ((threadIdx.x >> 5 & 3) << 21), first = clock_now();            \
        _Pragma("unroll 1") for (int k = 0; k < rounds; k++) {                                                      \
            asm volatile(text                                                                                       \
                         : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]),      \
                         "+r"(r[7]), "+r"(r[8]), "+r"(r[9]), "+r"(r[10]), "+r"(r[11]), "+r"(r[12]), "+r"(r[13]),    \
                         "+r"(r[14]), "+r"(r[15]) : "r"(at) : "memory");                                            \
            sum ^= r[0];                                                                                            \
        }                                                                                                           \
        out[2] = sum;                                                                                               \
        if (threadIdx.x == 0) {                                                                                     \
            out[0] = first;                                                                                         \
            out[1] = clock_now();                                                                                   \
        }                                                                                                           \
        FREE("1")                                                                                                   \
    }
MOVES(load_32x32, "tcgen05.ld.sync.aligned.32x32b.x16.b32 " SIXTEEN ", [%16]; tcgen05.wait::ld.sync.aligned;")
MOVES(load_16x64, "tcgen05.ld.sync.aligned.16x64b.x16.b32 " SIXTEEN ", [%16]; tcgen05.wait::ld.sync.aligned;")
#define EIGHT(text) text text text text text text text text
#define STORE "tcgen05.st.sync.aligned.32x32b."
MOVES(store_1, EIGHT(STORE "x1.b32 [%16], {%0}; tcgen05.wait::st.sync.aligned;"))
MOVES(store_16, EIGHT(STORE "x16.b32 [%16], " SIXTEEN "; tcgen05.wait::st.sync.aligned;"))
MOVES(store_64, EIGHT(STORE "x64.b32 [%16], {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%0,%1,%2,%3,%4,%5,%6,%7,%8,"
      "%9,%10,%11,%12,%13,%14,%15,%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,"
      "%11,%12,%13,%14,%15}; tcgen05.wait::st.sync.aligned;"))

// Every block has copies of `size` bytes under way in each of `stages` places, one after the other from memory.
extern "C" __global__ void bulk_stream(const char *data, int size, int stages, int count, unsigned *)
{
    extern __shared__ __align__(128) char room[];
    __shared__ unsigned long long barriers[8];
    if (threadIdx.x != 0) return;
    for (int k = 0; k < stages; k++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(barriers + k)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int k = 0; k < count + stages; k++) {
        unsigned barrier = shared_address(barriers + k % stages);
        if (k >= stages) wait_for(barrier, (k / stages - 1) & 1);
        if (k >= count) continue;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(size) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(shared_address(room + k % stages * size)),
                     "l"(data + ((size_t)k * gridDim.x + blockIdx.x) * size), "r"(size), "r"(barrier) : "memory");
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
