// What the measurements of L2's replacement classes run. Blocks of 256 threads; a block takes tiles of 16 KB, four
// vectors of 16 bytes for each thread, so a region is a whole number of tiles.
typedef unsigned int u32;
typedef unsigned long long u64;

#define VECTORS 1024
#define READ(name, load)                                                                                           \
    static __device__ __forceinline__ u32 read_##name(const uint4 *at, u64 policy) {                              \
        uint4 v;                                                                                                   \
        asm volatile(load : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at), "l"(policy));                    \
        return v.x ^ v.y ^ v.z ^ v.w;                                                                              \
    }
READ(normal, "ld.global.v4.u32 {%0, %1, %2, %3}, [%4];")
READ(hint, "ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;")
READ(l1_last, "ld.global.L1::evict_last.v4.u32 {%0, %1, %2, %3}, [%4];")
READ(l1_first, "ld.global.L1::evict_first.v4.u32 {%0, %1, %2, %3}, [%4];")

#define FOR_TILE(base, tile) \
    const uint4 *at = (base) + (u64)(tile)*VECTORS + threadIdx.x; \
    _Pragma("unroll") for (int k = 0; k < VECTORS; k += 256)
#define SINK(x) if ((x) == 0x12345678u) *sink = (x)

// Block b reads tile b of a region once.
#define TOUCH(name)                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) touch_##name(const uint4 *data, u64 policy, u32 *sink) { \
        u32 x = 0;                                                                                      \
        FOR_TILE(data, blockIdx.x) x ^= read_##name(at + k, policy);                                    \
        SINK(x);                                                                                        \
    }
TOUCH(normal)
TOUCH(hint)
TOUCH(l1_last)
TOUCH(l1_first)

// Block b reads tile b of a stream and tile b of a hot region, which begins anew when it ends.
extern "C" __global__ void __launch_bounds__(256) mixed(const uint4 *hot, u32 hot_tiles, const uint4 *stream, u32 *sink) {
    u32 x = 0;
    { FOR_TILE(hot, blockIdx.x % hot_tiles) x ^= read_normal(at + k, 0); }
    { FOR_TILE(stream, blockIdx.x) x ^= read_normal(at + k, 0); }
    SINK(x);
}

// The same by policies of each load.
extern "C" __global__ void __launch_bounds__(256)
    mixed_hint(const uint4 *hot, u32 hot_tiles, const uint4 *stream, u32 *sink, u64 hot_policy, u64 stream_policy) {
    u32 x = 0;
    { FOR_TILE(hot, blockIdx.x % hot_tiles) x ^= read_hint(at + k, hot_policy); }
    { FOR_TILE(stream, blockIdx.x) x ^= read_hint(at + k, stream_policy); }
    SINK(x);
}

// Block b doubles what tiles b hold, as the CUDA guide's example does.
extern "C" __global__ void __launch_bounds__(256) update(uint4 *hot, u32 hot_tiles, uint4 *stream) {
    for (int which = 0; which < 2; ++which) {
        uint4 *at = (which ? stream + (u64)blockIdx.x * VECTORS : hot + (u64)(blockIdx.x % hot_tiles) * VECTORS) + threadIdx.x;
#pragma unroll
        for (int k = 0; k < VECTORS; k += 256) {
            uint4 v = at[k];
            at[k] = make_uint4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
        }
    }
}

// Block b writes tile b.
extern "C" __global__ void __launch_bounds__(256) fill(uint4 *data) {
    uint4 *at = data + (u64)blockIdx.x * VECTORS + threadIdx.x;
#pragma unroll
    for (int k = 0; k < VECTORS; k += 256) at[k] = make_uint4(k, k, k, k);
}

// One lane of each block reads one line after the other and writes what each took in cycles, 0 for those whose number
// has the highest bit: they only bring the page's translation.
extern "C" __global__ void probe(const u32 *data, const u32 *lines, u32 count, unsigned short *cycles) {
    u32 each = (count + gridDim.x - 1) / gridDim.x, last = min((blockIdx.x + 1) * each, count), x = 0;
    for (u32 i = blockIdx.x * each; i < last; ++i) {
        u32 line = lines[i], v;
        const u32 *at = data + (u64)(line & 0x7fffffff) * 32 + (x & 1 ? 0 : 0);
        long long start, stop;
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(start) : "r"(line) : "memory");
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
        asm volatile("{ .reg .pred p; setp.eq.u32 p, %1, 0x12345678; mov.u64 %0, %%clock64; @p add.u64 %0, %0, 1; }"
                     : "=l"(stop) : "r"(v) : "memory");
        x ^= v;
        cycles[i] = line >> 31 ? 0 : (unsigned short)min(stop - start, 65535LL);
    }
}

// Policies that createpolicy makes: 7 words for each fraction, and 5 for ranges.
#define FRACTIONAL(i, a, b) asm volatile("createpolicy.fractional" a b ".b64 %0, %1;" : "=l"(out[i]) : "f"(fraction))
extern "C" __global__ void policies(u64 *out, float fraction) {
    FRACTIONAL(0, ".L2::evict_last", ".L2::evict_unchanged");
    FRACTIONAL(1, ".L2::evict_last", ".L2::evict_first");
    FRACTIONAL(2, ".L2::evict_first", ".L2::evict_unchanged");
    FRACTIONAL(3, ".L2::evict_normal", ".L2::evict_unchanged");
    FRACTIONAL(4, ".L2::evict_normal", ".L2::evict_first");
    FRACTIONAL(5, ".L2::evict_unchanged", ".L2::evict_unchanged");
    FRACTIONAL(6, ".L2::evict_first", ".L2::evict_first");
}
#define RANGE(i, a, b) \
    asm volatile("createpolicy.range.global" a b ".b64 %0, [%1], %2, %3;" : "=l"(out[i]) : "l"(base), "r"(primary), "r"(total))
extern "C" __global__ void ranges(u64 *out, const void *base, u32 primary, u32 total) {
    RANGE(0, ".L2::evict_last", ".L2::evict_unchanged");
    RANGE(1, ".L2::evict_last", ".L2::evict_first");
    RANGE(2, ".L2::evict_first", ".L2::evict_unchanged");
    RANGE(3, ".L2::evict_normal", ".L2::evict_unchanged");
    RANGE(4, ".L2::evict_normal", ".L2::evict_first");
}

// The word in front of the parameters, which loads without a policy use as their descriptor: the cubin is changed so that
// this parameter is read from there.
extern "C" __global__ void descriptor(u64 word, u64 *out) { out[0] = word; }
