// A convolution's sums by tensor cores (sm_80 and later), of tensors whose channels lie together, in chunks of 16 bytes:
// out[channel, free] as in `conv.cu`, NAME the kernel, TILE_M x TILE_N a block's part of it. Rows are free places
// (IMAGE_ROWS), or channels. All threads copy chunks of image and plain to a ring of STAGES, 128 bytes along k each, in which
// what lies outside is 0, as wgmma takes them (TYPES its instruction, on Hopper), or mma.sync. IMAGE_ALONG_K, PLAIN_ALONG_K:
// channels of the operand run along k. NEAR: image comes by way of L1, whose lines hold several places. PARTS blocks, a cluster,
// share a sum; what p.parts / PARTS of those have, `conv.cu` adds.
#include "../dnn/conv.cuh"
#include "cluster.cuh"

constexpr int LINE = 128, DEPTH = LINE / sizeof(T), CHUNK = 16 / sizeof(T), THREADS = 2 * TILE_M, BOX = LINE * DEPTH;
constexpr int TILE_FREE = IMAGE_ROWS ? TILE_M : TILE_N, TILE_CHANNELS = IMAGE_ROWS ? TILE_N : TILE_M;
constexpr int BYTES_A = TILE_M * LINE, BYTES = BYTES_A + (TILE_N < 64 ? 64 : TILE_N) * LINE, PITCH = 4 * TILE_N + 32;
constexpr int K_STEP = IMAGE_ALONG_K ? CHUNK : 1, PLACES = DEPTH / K_STEP;  // places of k that are kept, of a stage
#ifdef TYPES
constexpr bool LATE = true;  // a stage has been read when the next is
#else
constexpr bool LATE = false;
#endif
constexpr int AHEAD = STAGES - 1 - LATE;
static_assert(TILE_FREE <= THREADS && THREADS % PLACES == 0, "threads for places");

// The compiler would find out again and again where shared memory begins; what it cannot see through, it keeps.
__device__ inline u32 keep(u32 address) {
    asm volatile("" : "+r"(address));
    return address;
}
__device__ inline Place load_place(u32 at) {
    Place found;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(found.image), "=r"(found.other), "=r"(found.x), "=r"(found.y) : "r"(at));
#if DIMS == 3
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(found.z) : "r"(at + 16));
#endif
    return found;
}
// A chunk's place in a tile of 128 bytes along k, or across it boxes of 64 rows: eight lines are a piece of the swizzle.
// Floats lie along k however they came: no instruction takes them across.
template <bool ALONG_K> __device__ inline u32 place_of(int row, int k) {
    if (ALONG_K || sizeof(T) == 4) return row * LINE + ((k / CHUNK) ^ (row % 8)) * 16 + k % CHUNK * sizeof(T);
    return row / 64 * BOX + k * LINE + ((row % 64 / 8) ^ (k % 8)) * 16;
}

// How a thread copies an operand's tile: chunks along k, chunks across it, or floats across it, 8 x 4 a warp.
template <bool IMAGE, int ROWS, bool ALONG_K> struct Loader {
    static constexpr int WIDTH = ALONG_K || sizeof(T) == 2 ? CHUNK : 1, COUNT = ROWS * DEPTH / WIDTH / THREADS;
    static constexpr int GROUPS = ROWS / 8, WARPS = THREADS / 32, TURN = GROUPS > WARPS ? GROUPS / WARPS : 1;
    static constexpr int HELD = ALONG_K ? COUNT : WIDTH > 1 ? 1 : TURN;  // different rows
    static_assert(COUNT * WIDTH * THREADS == ROWS * DEPTH, "whole chunks for each thread");
    Place rows[IMAGE ? HELD : 1];
    int at[HELD];

    __device__ static int row(int number) {
        int t = threadIdx.x;
        if (ALONG_K) return t / 8 + number * (THREADS / 8);
        if (WIDTH > 1) return t % GROUPS * 8;
        return (t / 32 % GROUPS + number % TURN * WARPS) * 8 + t % 8;
    }
    __device__ static int k(int number) {
        int t = threadIdx.x;
        if (ALONG_K) return t % 8 * CHUNK;
        if (WIDTH > 1) return t / GROUPS + number * (THREADS / GROUPS);
        return (t / 32 / GROUPS + number / TURN * (WARPS > GROUPS ? WARPS / GROUPS : 1)) * 4 + t % 32 / 8;
    }
    // of_rows: places of the block's.
    __device__ Loader(const Conv &p, const Place *of_rows, int channel0) {
#pragma unroll
        for (int each = 0; each < HELD; each++) {
            int channel = channel0 + row(each);
            if (IMAGE) rows[each] = of_rows[row(each)];
            at[each] = IMAGE ? rows[each].image : channel < p.channels ? channel * p.plain_channel : -1;
        }
    }
    // A few chunks at a time: first where all of them are, so that none waits for another.
    __device__ void fetch(u32 tile, const T *data, const Conv &p, u32 ks) const {
        constexpr int MANY = COUNT < 8 ? COUNT : 8;
#pragma unroll
        for (int first = 0; first < COUNT; first += MANY) {
            const T *from[MANY];
            u32 bytes[MANY];
            Place at_k = load_place(ks + k(first) / K_STEP * sizeof(Place));
#pragma unroll
            for (int i = 0; i < MANY; i++) {
                int number = first + i, of_k = k(number);
                if (i > 0 && !ALONG_K) at_k = load_place(ks + of_k / K_STEP * sizeof(Place));
                bool there = IMAGE ? rows[number % HELD].meets(at_k, p.x, p.y, p.z) : (at[number % HELD] >= 0) & at_k.there();
                u32 distance = (u32)at[number % HELD] + (IMAGE ? at_k.image : at_k.other);  // added before it is widened
                if (!IMAGE && !ALONG_K && K_STEP > 1) distance += of_k % K_STEP * p.plain_k;
                from[i] = data + (int)distance;
                bytes[i] = there ? WIDTH * sizeof(T) : 0;
            }
#pragma unroll
            for (int i = 0; i < MANY; i++) {
                u32 to = tile + place_of<ALONG_K>(row(first + i), k(first + i));
                if (WIDTH > 1 && !(IMAGE && NEAR)) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from[i]), "r"(bytes[i]));
                else asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" :: "r"(to), "l"(from[i]), "r"(bytes[i]), "n"(WIDTH * sizeof(T)));
            }
        }
    }
};
typedef Loader<true, TILE_FREE, IMAGE_ALONG_K> Image;
typedef Loader<false, TILE_CHANNELS, PLAIN_ALONG_K> Plain;
constexpr bool A_ALONG_K = IMAGE_ROWS ? IMAGE_ALONG_K : PLAIN_ALONG_K, B_ALONG_K = IMAGE_ROWS ? PLAIN_ALONG_K : IMAGE_ALONG_K;

#ifdef TYPES
template <bool ALONG_K> __device__ u64 describe(u32 address) {
    return (u64)(address >> 4 & 0x3FFF) | (u64)(ALONG_K || sizeof(T) == 4 ? 1 : BOX / 16) << 16 | 64ull << 32 | 1ull << 62;
}
// Four warps have 64 rows: each sixteen, a thread of them two pairs of columns of eight.
struct Product {
    float sum[TILE_N / 2] = {};

    __device__ void hold() {  // in its registers while products are under way
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i++) asm volatile("" : "+f"(sum[i])::"memory");
    }
    // Returns when the stage before has been read.
    __device__ void add(u32 tile_a, u32 tile_b) {
        constexpr bool ACROSS_A = !A_ALONG_K && sizeof(T) == 2, ACROSS_B = !B_ALONG_K && sizeof(T) == 2;
        u64 a = describe<A_ALONG_K>(tile_a + threadIdx.x / 128 * 64 * LINE), b = describe<B_ALONG_K>(tile_b);
        float *d = sum;
        hold();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("{ .reg .pred p; setp.ne.u32 p, " ADD ", 0;\n"
                         "wgmma.mma_async.sync.aligned." TYPES " {" REGISTERS "}, " FACTORS "; }"
                : SUMS : "l"(a + (ACROSS_A ? 128 : 2) * i), "l"(b + (ACROSS_B ? 128 : 2) * i), "r"(1));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        hold();
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    __device__ void finish() {
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        hold();
    }
    template <class W> __device__ void write(W &to) {
        int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i += 2)
            to.put(row + i / 2 % 2 * 8, column + i / 4 * 8, {sum[i], sum[i + 1]});
    }
};
#else
#define MMA(SHAPE, OF)                                                                                                \
    asm("mma.sync.aligned." SHAPE ".row.col.f32." OF "." OF ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "     \
        "{%0, %1, %2, %3};"                                                                                           \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], f16) { MMA("m16n8k16", "f16"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], bf16) { MMA("m16n8k16", "bf16"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], tf32) { MMA("m16n8k8", "tf32"); }

constexpr int WARP_M = TILE_M / 2, WARP_N = 32 * TILE_N / TILE_M;
#include "fragments.cuh"
struct Product : Fragments<float> {
    // 16 rows and 32 bytes of k: words of the rows' halves for the first 16 bytes, then for the others; of B (BY_K), words
    // of both 16 bytes for the first 8 rows, then for the others.
    template <bool ALONG_K, bool BY_K> __device__ static void load(u32 words[4], u32 tile, int row, int k) {
        int number = threadIdx.x % 32, of_k = BY_K ? number / 8 % 2 : number / 16, of_row = BY_K ? number / 16 : number / 8 % 2;
        if (ALONG_K || sizeof(T) == 4)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                : "r"(tile + place_of<true>(row + 8 * of_row + number % 8, k + CHUNK * of_k)) : "memory");
        else
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                : "r"(tile + place_of<false>(row + 8 * of_row, k + 8 * of_k + number % 8)) : "memory");
        if (sizeof(T) == 4)  // to the nearest
#pragma unroll
            for (int each = 0; each < 4; each++) asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(words[each]));
    }
    __device__ void add(u32 tile_a, u32 tile_b) {
#pragma unroll
        for (int k = 0; k < DEPTH; k += 2 * CHUNK) {
            u32 a[M][4], b[N / 2][4];
#pragma unroll
            for (int i = 0; i < M; i++) load<A_ALONG_K, false>(a[i], tile_a, row0 + 16 * i, k);
#pragma unroll
            for (int j = 0; j < N / 2; j++) load<B_ALONG_K, true>(b[j], tile_b, column0 + 16 * j, k);
#pragma unroll
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) mma(sum[i][j], a[i], b[j / 2] + j % 2 * 2, T());
        }
    }
    __device__ void finish() {}
    template <class W> __device__ void write(W &to) { Fragments<float>::write(to, 0, 0); }
};
#endif

struct Rows {  // of sums in shared memory
    char *at;
    __device__ void put(int i, int j, const float (&pair)[2]) { *(float2 *)(at + i * PITCH + j * 4) = {pair[0], pair[1]}; }
};

#if PARTS > 1
#define CLUSTER __cluster_dims__(1, 1, PARTS)
#else
#define CLUSTER
#endif
extern "C" __global__ void __launch_bounds__(THREADS) CLUSTER NAME(const __grid_constant__ Conv p) {
    extern __shared__ char shared[];
    __shared__ Place rows[TILE_FREE], ks[THREADS];
    u32 begin = keep((shared_address(shared) + 1023) & ~1023u), places = keep(shared_address(ks));
    int part = blockIdx.z % p.parts, group = blockIdx.z / p.parts % p.groups, phase = blockIdx.z / p.parts / p.groups;
    const Index &free = p.free[phase], &red = p.red[phase];
    int free0 = blockIdx.x * TILE_FREE, channel0 = blockIdx.y * TILE_CHANNELS;
    if (free0 >= free.count) return;
    int all = (red.count + DEPTH - 1) / DEPTH, first = all * part / p.parts, steps = all * (part + 1) / p.parts - first;
    if (threadIdx.x < TILE_FREE) rows[threadIdx.x] = place(free, free0 + threadIdx.x);
    __syncthreads();
    const T *data = (const T *)p.image + group * p.image_group, *plain = (const T *)p.plain + group * p.plain_group;
    Image of_image(p, rows, 0);
    Plain of_plain(p, rows, channel0);
    Product product;
    u32 into = 0, from = 0;
    for (int step = -AHEAD; step < steps; step++) {
        int next = step + AHEAD, number = next * PLACES % THREADS;
        if (step >= 0) asm volatile("cp.async.wait_group %0;" :: "n"(AHEAD - 1) : "memory");
        __syncthreads();
        if (number == 0 && next < steps) {  // places for some steps
            ks[threadIdx.x] = place(red, (first * PLACES + next * PLACES + threadIdx.x) * K_STEP);
            __syncthreads();
        }
        if (next < steps) {
            u32 tile = begin + into * BYTES;
            of_image.fetch(IMAGE_ROWS ? tile : tile + BYTES_A, data, p, places + number * sizeof(Place));
            of_plain.fetch(IMAGE_ROWS ? tile + BYTES_A : tile, plain, p, places + number * sizeof(Place));
            if (++into == STAGES) into = 0;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (step < 0) continue;
        product.add(begin + from * BYTES, begin + from * BYTES + BYTES_A);
        if (++from == STAGES) from = 0;
    }
    product.finish();
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();  // the tiles' place is free
    Rows sums{shared + (begin - shared_address(shared))};
    product.write(sums);
#if PARTS > 1
    meet_cluster();
#else
    __syncthreads();
#endif
    Finish finish(p);
    float *to_sums = p.parts > PARTS ? p.sums + (long long)(part / PARTS) * p.span : 0;
    constexpr int PIECES = TILE_M / PARTS * TILE_N / 4;
    for (int piece = threadIdx.x; piece < PIECES; piece += THREADS) {
        int i = part % PARTS * (TILE_M / PARTS) + piece / (TILE_N / 4), j = piece % (TILE_N / 4) * 4;
        const Place &place = rows[IMAGE_ROWS ? i : j];
        int channel = channel0 + (IMAGE_ROWS ? j : i), at = group * p.out_group + channel * p.out_channel + place.other;
        if (!place.there() || channel >= p.channels) continue;
        float sum[4] = {};
#pragma unroll
        for (u32 each = 0; each < PARTS; each++) {
            u32 distance = i * PITCH + j * 4;
#if PARTS > 1
            uint4 words = of_block(begin + distance, each);
#else
            uint4 words = *(const uint4 *)(sums.at + distance);
#endif
#pragma unroll
            for (int one = 0; one < 4; one++) sum[one] += ((const float *)&words)[one];
        }
        if (to_sums) *(float4 *)(to_sums + at) = {sum[0], sum[1], sum[2], sum[3]};
        else finish.put(sum, group * p.channels + channel, at, IMAGE_ROWS);
    }
#if PARTS > 1
    meet_cluster();
#endif
}
