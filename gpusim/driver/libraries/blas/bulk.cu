// D = epilogue(alpha * A B + beta * C), rows of D contiguous, of factors that bulk copies bring (Hopper and later), for one
// choice of types: TA and TB in memory, TC, TD, TS the scalars, NAME the kernel, TILE_M and TILE_N the block's part of D.
// ACROSS_A, ACROSS_B: k runs across what lies together in memory. A warp copies tiles of both factors, 128 bytes of k each,
// into a ring of STAGES; groups of four warps multiply them, 64 rows each: MATRIX on Hopper's tensor cores (TYPES the
// instruction's, of 32 bytes along k), else by multiply-adds of floats. In a cluster SHARE blocks lie below each other and
// copy a part of B's tile to all of them; PARTS share the sum over k, and each joins what all have of its rows. PROMOTE:
// what tensor cores add up in fewer bits is added to floats after each stage.
#include "product.cuh"

struct alignas(64) TensorMap { u64 words[16]; };

constexpr u32 LINE = 128, DEPTH = LINE / sizeof(TA), BOX = DEPTH * LINE;  // across k a box is as wide as a swizzle reaches
constexpr u32 BYTES_A = TILE_M * LINE, BYTES = BYTES_A + TILE_N * LINE;
constexpr u32 CONSUMERS = 2 * TILE_M, THREADS = CONSUMERS + 32;
constexpr u32 PITCH = 4 * TILE_N + 32;  // bytes of a row of sums: the four lanes of eight rows come to 32 banks
typedef decltype(wide(TA())) Sum;

__device__ inline u32 shared_address(const void *at) { return (u32)__cvta_generic_to_shared(at); }
__device__ inline void wait(u32 barrier, u32 parity) {
    u32 over;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
    } while (!over);
}
// Into this block or, where `blocks` is not 0, into those of the cluster whose bits are set.
__device__ inline void load_box(u32 to, const TensorMap &map, int x, int y, int batch, u32 barrier, u32 blocks) {
    if (blocks == 0)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3, %4}], [%5];"
            :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(batch), "r"(barrier) : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3, %4}], [%5], %6;"
            :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(batch), "r"(barrier), "h"((unsigned short)blocks) : "memory");
}
// Of COUNT rows of A or columns of B, from the first on.
template <bool ACROSS, int COUNT>
__device__ void load_tile(u32 to, const TensorMap &map, int k, int first, int batch, u32 barrier, u32 blocks = 0) {
    if (!ACROSS) load_box(to, map, k, first, batch, barrier, blocks);
    else
#pragma unroll
        for (int i = 0; i < COUNT / DEPTH; i++) load_box(to + i * BOX, map, first + DEPTH * i, k, batch, barrier, blocks);
}
#if MATRIX
// A tile's descriptor: eight rows of 128 bytes are a piece of the swizzle; across k a box of 64 is behind the other.
template <bool ACROSS> __device__ u64 describe(u32 address) {
    return (u64)(address >> 4 & 0x3FFF) | (u64)(ACROSS ? BOX / 16 : 1) << 16 | 64ull << 32 | 1ull << 62;
}
__device__ inline void multiply(Sum *d, u64 a, u64 b, u32 add) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, " ADD ", 0;\n"
                 "wgmma.mma_async.sync.aligned." TYPES " {" REGISTERS "}, " FACTORS "; }"
        : SUMS : "l"(a), "l"(b), "r"(add));
}
template <int N> __device__ void hold(Sum (&sum)[N]) {  // in its registers while a group of products is under way
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+" LETTER(sum[i])::"memory");
}

// A group's 64 rows: each warp has sixteen, a thread of them two pairs of columns of eight.
struct Product {
    static constexpr int TOGETHER = 2;  // sums that lie side by side
    Sum sum[TILE_N / 2] = {}, total[TILE_N / 2] = {};
    __device__ static u32 row(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
    __device__ static u32 column(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

    // Returns when the stage before has been read, or this one.
    __device__ void add(u32 tile_a, u32 tile_b) {
        u64 left = describe<ACROSS_A>(tile_a), right = describe<ACROSS_B>(tile_b);
        hold(sum);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 4; i++)
            multiply(sum, left + (ACROSS_A ? 128 : 2) * i, right + (ACROSS_B ? 128 : 2) * i, !PROMOTE || i > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        hold(sum);
        asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PROMOTE ? 0 : 1) : "memory");
        if (PROMOTE) {
            hold(sum);
#pragma unroll
            for (int i = 0; i < TILE_N / 2; i++) total[i] += sum[i];
        }
    }
    __device__ void finish() {
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        hold(sum);
        if (PROMOTE)
#pragma unroll
            for (int i = 0; i < TILE_N / 2; i++) sum[i] = total[i];
    }
};
#else
// A group's 64 rows: two by two warps, a thread has eight rows and every eighth column or, where they lie together, four.
struct Product {
    static constexpr int M = 8, N = TILE_N / 16, TOGETHER = ACROSS_B ? 4 : 1;
    Sum sum[M * N] = {};
    __device__ static u32 place(bool across, u32 lane, int i) { return across ? 4 * lane + i / 4 * 32 + i % 4 : lane + 8 * i; }
    __device__ static u32 down() { return threadIdx.x % 32 / 8 + threadIdx.x / 32 % 2 * 4; }
    __device__ static u32 row(int i) { return threadIdx.x / 128 * 64 + place(ACROSS_A, down(), i / N); }
    __device__ static u32 column(int i) {
        return threadIdx.x / 64 % 2 * (TILE_N / 2) + place(ACROSS_B, threadIdx.x % 8, i % N);
    }
    // The compiler would load right before it multiplies, and wait; what is volatile stays where it is.
    __device__ static void take(float *to, u32 from) {
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(from));
    }
    // Four of k, of COUNT rows or columns from the first on.
    template <bool ACROSS, int COUNT> __device__ static void take(float (&of)[COUNT * 4], u32 tile, u32 first, u32 lane, int k) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (!ACROSS) take(of + 4 * i, tile + (first + lane + 8 * i) * LINE + ((k / 4) ^ lane) * 16);
            else take(of + 4 * i, tile + (first + i / 4 * 32) * LINE + (k + i % 4) * LINE + (lane ^ (k + i % 4) % 8) * 16);
    }
    template <bool ACROSS> __device__ static float of(const float *taken, int i, int k) {
        return ACROSS ? taken[i / 4 * 16 + 4 * k + i % 4] : taken[4 * i + k];
    }
    __device__ void add(u32 tile_a, u32 tile_b) {
        float a[2][M * 4], b[2][N * 4];
        u32 column0 = threadIdx.x / 64 % 2 * (TILE_N / 2);
#pragma unroll
        for (int k = 0; k <= DEPTH; k += 4) {
            if (k < DEPTH) {
                take<ACROSS_A, M>(a[k / 4 % 2], tile_a, 0, down(), k);
                take<ACROSS_B, N>(b[k / 4 % 2], tile_b, column0, threadIdx.x % 8, k);
            }
            if (k > 0)
#pragma unroll
                for (int one = 0; one < 4; one++)
                    for (int i = 0; i < M; i++)
                        for (int j = 0; j < N; j++)
                            sum[i * N + j] += of<ACROSS_A>(a[(k / 4 + 1) % 2], i, one) * of<ACROSS_B>(b[(k / 4 + 1) % 2], j, one);
        }
    }
    __device__ void finish() {}
};
#endif
constexpr bool LATE = MATRIX && !PROMOTE;  // a stage has been read when the next is

// A warp has read a stage: those who copy into it may know.
__device__ inline void release(u32 barrier, u32 rank) {
    u32 lane = threadIdx.x % 32;
    if (SHARE == 1 && lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
    if (SHARE > 1 && lane < SHARE)
        asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                     "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there]; }" :: "r"(barrier), "r"(rank + lane) : "memory");
}
// `meet_cluster` for blocks that have nothing to tell each other but that they are there, without a fence.
__device__ inline void meet_cluster_only() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}

#if SHARE * PARTS > 1
#define CLUSTER __cluster_dims__(1, SHARE, PARTS)
#else
#define CLUSTER
#endif
extern "C" __global__ void __launch_bounds__(THREADS, MATRIX || TILE_M > 64 ? 1 : 2) CLUSTER
    NAME(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const Gemm p) {
    extern __shared__ char shared[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    u32 begin = (shared_address(shared) + 1023) & ~1023u, t = threadIdx.x, lane = t % 32;
    Scalar alpha = wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]));
    Scalar beta = wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    int i0 = blockIdx.y * TILE_M, j0 = blockIdx.x * TILE_N, batch = blockIdx.z / PARTS, part = blockIdx.z % PARTS;
    u32 share = blockIdx.y % SHARE, others = SHARE > 1 ? ((1 << SHARE) - 1) << SHARE * part : 0;
    int steps = is_zero(alpha) ? 0 : (p.k + DEPTH - 1) / DEPTH;
    int first = steps * part / PARTS, last = steps * (part + 1) / PARTS;
    if (t == CONSUMERS) {
        for (int i = 0; i < STAGES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(full + i)) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                :: "r"(shared_address(empty + i)), "r"(SHARE * CONSUMERS / 32) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    // Who copies need not wait for those who multiply in its own block.
    if (SHARE > 1) meet_cluster_only();
    else if (t >= CONSUMERS) asm volatile("bar.arrive 1, %0;" :: "n"(THREADS) : "memory");
    else asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory");
    u32 stage = 0, parity = 0;
    constexpr int TOGETHER = Product::TOGETHER;
    Product product;
    if (t >= CONSUMERS) {
        if (lane == 0)
            for (int step = first; step < last; step++) {
                u32 barrier = shared_address(full + stage), to = begin + stage * BYTES;
                wait(shared_address(empty + stage), parity ^ 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(BYTES) : "memory");
                load_tile<ACROSS_A, TILE_M>(to, map_a, step * DEPTH, i0, p.a.batch ? batch : 0, barrier);
                load_tile<ACROSS_B, TILE_N / SHARE>(to + BYTES_A + share * (TILE_N / SHARE) * LINE, map_b, step * DEPTH,
                                                    j0 + share * (TILE_N / SHARE), p.b.batch ? batch : 0, barrier, others);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
        __syncwarp();
    } else {
        u32 before = 0;
        for (int step = first; step < last; step++) {
            wait(shared_address(full + stage), parity);
            product.add(begin + stage * BYTES + t / 128 * 64 * LINE, begin + stage * BYTES + BYTES_A);
            if (!LATE) release(shared_address(empty + stage), part * SHARE);
            else if (step > first) release(shared_address(empty + before), part * SHARE);
            before = stage;
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        product.finish();
        if (LATE && SHARE > 1 && first < last) release(shared_address(empty + before), part * SHARE);
    }
    // The tiles' place is free: in all warps all products are done.
    asm volatile("bar.sync 2, %0;" :: "n"(THREADS) : "memory");
    Writer writer(p, batch, alpha, beta);
    if (MATRIX && PARTS == 1 && !EPILOGUE && sizeof(TD) > 1 && !writer.c) {
        // Each warp turns its sixteen rows, so that lanes that follow each other store what does.
        constexpr u32 PER = 16 / sizeof(TD), SIDE = (TILE_N + 8) * sizeof(TD);
        struct alignas(2 * sizeof(TD)) Pair { TD x, y; };
        if (SHARE > 1) meet_cluster_only();  // nobody leaves while another copies into its tiles
        if (t >= CONSUMERS) return;
        char *rows = shared + (begin - shared_address(shared)) + t / 32 * 16 * SIDE;
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i += 2) {
            Pair pair;
            narrow(alpha * to_scalar(product.sum[i]), pair.x), narrow(alpha * to_scalar(product.sum[i + 1]), pair.y);
            *(Pair *)(rows + product.row(i) % 16 * SIDE + product.column(i) * sizeof(TD)) = pair;
        }
        __syncwarp();
        bool aligned = (((u64)writer.d | p.d.row * sizeof(TD)) & 15) == 0;
#pragma unroll 4
        for (u32 piece = lane; piece < 16 * TILE_N / PER; piece += 32) {
            u32 line = piece / (TILE_N / PER), at = piece % (TILE_N / PER) * PER;
            int i = i0 + t / 32 * 16 + line, j = j0 + at;
            const TD *from = (const TD *)(rows + line * SIDE) + at;
            TD *to = writer.d + p.d.row * i + j;
            if (i >= p.m || j >= p.n) continue;
            if (aligned && j + (int)PER <= p.n) *(uint4 *)to = *(const uint4 *)from;
            else
                for (int each = 0; each < PER && j + each < p.n; each++) to[each] = from[each];
        }
        return;
    }
    if (t < CONSUMERS) {
        struct alignas(4 * TOGETHER) Group { Sum of[TOGETHER]; };
        char *at = shared + (begin - shared_address(shared));
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i += TOGETHER)
            *(Group *)(at + product.row(i) * PITCH + product.column(i) * 4) = *(Group *)(product.sum + i);
    }
    if (SHARE * PARTS > 1) meet_cluster();
    else __syncthreads();
    constexpr u32 PIECES = TILE_M / PARTS * TILE_N / 4, MANY = PIECES / CONSUMERS < 4 ? PIECES / CONSUMERS : 4;
    constexpr u32 AHEAD = MANY > 0 ? MANY : 1;  // pieces of four columns whose way from memory a thread waits for at once
    if (t < CONSUMERS)
        for (u32 piece = t; piece < PIECES; piece += AHEAD * CONSUMERS) {
            Sum all[AHEAD][4] = {};
            int i[AHEAD], j[AHEAD];
#pragma unroll
            for (u32 one = 0; one < AHEAD; one++) {
                u32 row = part * (TILE_M / PARTS) + (piece + one * CONSUMERS) / (TILE_N / 4);
                u32 column = (piece + one * CONSUMERS) % (TILE_N / 4) * 4;
                i[one] = i0 + row, j[one] = j0 + column;
#pragma unroll
                for (u32 from = 0; from < PARTS; from++) {
                    uint4 of;
                    u32 there = begin + row * PITCH + column * 4;
                    if (PARTS > 1)
                        asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(there) : "r"(from * SHARE + share));
                    asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                        : "=r"(of.x), "=r"(of.y), "=r"(of.z), "=r"(of.w) : "r"(there) : "memory");
#pragma unroll
                    for (int each = 0; each < 4; each++) all[one][each] += ((const Sum *)&of)[each];
                }
            }
            writer.put(i, j, all);
        }
    if (PARTS > 1) meet_cluster_only();
}
