// D = epilogue(alpha * A B + beta * C), rows of D contiguous, of factors that asynchronous copies bring (Hopper and later).
// `programs/matmul_library.py` runs it step by step. Read the kernel at the end first, then `Product`, of which there are
// three: by wgmma, by mma.sync and by multiply-adds of floats.
//
// A block makes a tile of D, TILE_M x TILE_N. Its last warp copies tiles of both factors, 128 bytes of k each, into a ring
// of STAGES; groups of four warps multiply them, 64 rows each. Two mbarriers of each stage are all that they exchange:
// `full` says that its bytes have come, `empty` that all warps have read it. What does not lie at multiples of 16 bytes four
// warps copy number by number instead (not BULK).
//
// Macros, for one choice of types: TA and TB in memory, TC, TD, TS the scalars, NAME the kernel. ACROSS_A, ACROSS_B: k runs
// across what lies together in memory. MATRIX: tensor cores multiply, on Hopper by TYPES, the instruction's, of 32 bytes
// along k. SHARE blocks of a cluster lie below each other and copy a part of B's tile to all of them; PARTS share the sum
// over k, and each joins what all have of its rows. PROMOTE: what tensor cores add up in fewer bits is added to floats after
// each stage.
#include "product.cuh"

struct alignas(64) TensorMap { u64 words[16]; };

// A line is a row of a tile in shared memory, DEPTH numbers along k; across k a box is as wide as a swizzle reaches. Tiles
// are swizzled: the p-th 16 bytes of line r lie at place p ^ r % 8, so that those of eight lines are in 32 different banks.
constexpr u32 LINE = 128, DEPTH = LINE / sizeof(TA), BOX = DEPTH * LINE;
constexpr u32 BYTES_A = TILE_M * LINE, BYTES = BYTES_A + TILE_N * LINE;  // of a stage: A's tile, then B's
constexpr u32 CONSUMERS = 2 * TILE_M, COPIERS = BULK ? 32 : 128, THREADS = CONSUMERS + COPIERS;
typedef decltype(wide(TA())) Sum;
constexpr u32 PITCH = sizeof(Sum) * TILE_N + 32;  // bytes of a row of sums: the four lanes of eight rows come to 32 banks

// Until the phase of this parity is over: a barrier's phases are 0, 1, 0 ..., and before the first one "1" is over.
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
// Rows of A or columns of B that a block copies, of so many: what lies outside of a tensor takes longer to copy than what
// lies inside.
template <bool ACROSS> __device__ u32 copied(u32 of_tile, u32 all) {
    constexpr u32 STEP = ACROSS ? DEPTH : 8;
    return all < of_tile ? (all + STEP - 1) / STEP * STEP : of_tile;
}
template <bool ACROSS, u32 MOST>
__device__ void load_tile(u32 to, u32 count, const TensorMap &map, int k, int first, int batch, u32 barrier, u32 blocks = 0) {
    if (!ACROSS) load_box(to, map, k, first, batch, barrier, blocks);
    else
#pragma unroll
        for (u32 i = 0; i < MOST; i += DEPTH)
            if (i < count) load_box(to + i * LINE, map, first + i, k, batch, barrier, blocks);
}
// The same, number by number and always along k: a warp takes what lies together, or eight by four, so that it reads whole
// sectors and writes to all banks.
template <int COUNT> __device__ void load_numbers(u32 to, const Operand &from, int batch, int rows, int first, int ks, int k0) {
    u32 t = threadIdx.x % COPIERS, lane = t % 32;
    bool along = from.k == 1;
#pragma unroll
    for (int group = 0; group < COUNT; group += 32) {
        int row = group + (along ? t / DEPTH : t / 32 * 8 + lane % 8), k = along ? t % DEPTH : lane / 8;
        int down = along ? COPIERS / DEPTH : 0, right = along ? 0 : 4;
        const TA *data = (const TA *)from.data + from.batch * batch, *at = data + from.row * (first + row) + from.k * (k0 + k);
#pragma unroll
        for (int each = 0; each < DEPTH / 4; each++, row += down, k += right, at += from.row * down + from.k * right) {
            bool there = first + row < rows && k0 + k < ks;
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                :: "r"(to + row * LINE + (k * (u32)sizeof(TA) ^ row % 8 * 16)), "l"(there ? at : data),
                   "n"(sizeof(TA) < 4 ? 4 : sizeof(TA)), "r"(there ? (u32)sizeof(TA) : 0) : "memory");
        }
    }
}
#ifdef TYPES
#define WARPGROUPS true
// A tile's descriptor, in units of 16 bytes: its address, the distance of boxes of 64 across k, that of eight lines, after
// which the swizzle begins anew; and in the uppermost bits which swizzle, that of 128 bytes.
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
    __device__ void add(const char *tile_a, const char *tile_b) {
        u64 left = describe<ACROSS_A>(shared_address(tile_a)), right = describe<ACROSS_B>(shared_address(tile_b));
        hold(sum);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        // 32 bytes along k at a time: 2 units further in a line or, across k, 16 lines, which are 128 units.
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
#elif MATRIX
#define WARPGROUPS false
// A group's 64 rows: two by two warps, of fragments of 16 x 8. What lies where in them is free, as long as both factors have
// the same k: lanes take pairs of k, and rows in an order of which all words lie in different banks.
struct Product {
    static constexpr int M = 2, N = TILE_N / 16, TOGETHER = ACROSS_B ? 2 : 1;
    struct alignas(2 * sizeof(TA)) Pair { Sum first, second; };
    Sum sum[M * N * 4] = {};
    template <bool ACROSS> __device__ static u32 mixed(u32 i) {
        return ACROSS ? i : sizeof(TA) == 4 ? i % 4 * 2 + i / 4 : i % 2 * 4 + i / 2;
    }
    __device__ static u32 row0() { return threadIdx.x / 64 % 2 * 32 + mixed<ACROSS_A>(threadIdx.x % 32 / 4); }
    __device__ static u32 row(int i) { return threadIdx.x / 128 * 64 + row0() + i / (4 * N) * 16 + i / 2 % 2 * 8; }
    __device__ static u32 column0() { return threadIdx.x / 32 % 2 * (TILE_N / 2); }
    __device__ static u32 column(int i) { return column0() + i / 4 % N * 8 + mixed<ACROSS_B>(threadIdx.x % 4 * 2 + i % 2); }

    // COUNT times eight rows or columns from the first on, which is a lane's, and its two of eight of k.
    template <bool ACROSS, int COUNT> __device__ static void take(Pair (&to)[COUNT], const char *tile, u32 first, u32 k) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            u32 row = first + 8 * i, at = row % DEPTH * sizeof(TA), of_k = (k + threadIdx.x % 4 * 2) * sizeof(TA);
            if (!ACROSS) to[i] = *(const Pair *)(tile + row * LINE + (of_k ^ row % 8 * 16));
            else
                for (int each = 0; each < 2; each++) {
                    u32 line = k + threadIdx.x % 4 * 2 + each;
                    (&to[i].first)[each] = *(const Sum *)(tile + row / DEPTH * BOX + line * LINE + (at ^ line % 8 * 16));
                }
        }
    }
    template <class P> __device__ static void multiply(float *d, const P *a, P b) {
        const u32 *x = (const u32 *)a, *y = (const u32 *)&b;
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(x[0]), "r"(x[2]), "r"(x[1]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    }
    template <class P> __device__ static void multiply(double *d, const P *a, P b) {
        asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
            : "d"(a[0].first), "d"(a[1].first), "d"(a[0].second), "d"(a[1].second), "d"(b.first), "d"(b.second));
    }
    // Bulk copies round floats as tensor cores ask for.
    template <int COUNT> __device__ static void round(Pair (&of)[COUNT]) {
        if (BULK || sizeof(TA) != 4) return;
#pragma unroll
        for (int i = 0; i < 2 * COUNT; i++) asm("cvt.rna.tf32.f32 %0, %0;" : "+r"(((u32 *)of)[i]));
    }
    // What the next eight of k take is loaded before the last eight are multiplied.
    __device__ void add(const char *tile_a, const char *tile_b) {
        Pair a[2][2 * M], b[2][N];
        u32 column = column0() + mixed<ACROSS_B>(threadIdx.x % 32 / 4);
#pragma unroll
        for (int k = 0; k <= DEPTH; k += 8) {
            if (k < DEPTH) {
                take<ACROSS_A, 2 * M>(a[k / 8 % 2], tile_a, row0(), k);
                take<ACROSS_B, N>(b[k / 8 % 2], tile_b, column, k);
            }
            if (k > 0) round(a[(k / 8 + 1) % 2]), round(b[(k / 8 + 1) % 2]);
            if (k > 0)
#pragma unroll
                for (int i = 0; i < M; i++)
                    for (int j = 0; j < N; j++)
                        multiply(sum + (i * N + j) * 4, a[(k / 8 + 1) % 2] + 2 * i, b[(k / 8 + 1) % 2][j]);
        }
    }
    __device__ void finish() {}
};
#else
#define WARPGROUPS false
// A group's 64 rows: two by two warps, a thread has eight rows and every eighth column or, where they lie together, four.
struct Product {
    static constexpr int M = 8, N = TILE_N / 16, TOGETHER = ACROSS_B ? 4 : 1;  // a thread's rows and columns
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
    __device__ void add(const char *tile_a, const char *tile_b) {
        float a[2][M * 4], b[2][N * 4];
        u32 column0 = threadIdx.x / 64 % 2 * (TILE_N / 2);
#pragma unroll
        for (int k = 0; k <= DEPTH; k += 4) {
            if (k < DEPTH) {
                take<ACROSS_A, M>(a[k / 4 % 2], shared_address(tile_a), 0, down(), k);
                take<ACROSS_B, N>(b[k / 4 % 2], shared_address(tile_b), column0, threadIdx.x % 8, k);
            }
            if (k > 0)
#pragma unroll
                for (int one = 0; one < 4; one++)
                    for (int i = 0; i < M; i++)
                        for (int j = 0; j < N; j++)
                            sum[i * N + j] +=
                                of<ACROSS_A>(a[(k / 4 + 1) % 2], i, one) * of<ACROSS_B>(b[(k / 4 + 1) % 2], j, one);
        }
    }
    __device__ void finish() {}
};
#endif
constexpr bool LATE = WARPGROUPS && !PROMOTE;  // a stage has been read when the next is

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
#if BULK
    NAME(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const Gemm p) {
#else
    NAME(const Gemm p) {
#endif
    extern __shared__ char shared[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    u32 begin = (shared_address(shared) + 1023) & ~1023u, t = threadIdx.x, lane = t % 32;
    char *tiles = shared + (begin - shared_address(shared));
    Scalar alpha = wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]));
    Scalar beta = wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    int i0 = blockIdx.y * TILE_M, j0 = blockIdx.x * TILE_N, batch = blockIdx.z / PARTS, part = blockIdx.z % PARTS;
    // Ranks in the cluster are part * SHARE + share; `others` has a bit for each block that shares this one's columns.
    u32 share = blockIdx.y % SHARE, others = SHARE > 1 ? ((1 << SHARE) - 1) << SHARE * part : 0;
    int steps = is_zero(alpha) ? 0 : (p.k + DEPTH - 1) / DEPTH;
    int first = steps * part / PARTS, last = steps * (part + 1) / PARTS;
    if (t == CONSUMERS) {
        // A stage is full when who copies has arrived, with the bytes, and empty when all warps of the SHARE blocks have.
        for (int i = 0; i < STAGES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                :: "r"(shared_address(full + i)), "n"(BULK ? 1 : COPIERS) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                :: "r"(shared_address(empty + i)), "r"(SHARE * CONSUMERS / 32) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    // A warp that copies alone need not wait for those who multiply in its own block.
    if (SHARE > 1) meet_cluster_only();
    else if (BULK && t >= CONSUMERS) asm volatile("bar.arrive 1, %0;" :: "n"(THREADS) : "memory");
    else asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory");
    u32 stage = 0, parity = 0;
    constexpr int TOGETHER = Product::TOGETHER;
    Product product;
    if (t >= CONSUMERS) {
#if BULK
        u32 of_a = copied<ACROSS_A>(TILE_M, p.m), of_b = copied<ACROSS_B>(TILE_N / SHARE, p.n);
        u32 place_b = BYTES_A + share * (TILE_N / SHARE) * LINE;
        if (lane == 0)
            for (int step = first; step < last; step++) {
                u32 barrier = shared_address(full + stage), to = begin + stage * BYTES;
                wait(shared_address(empty + stage), parity ^ 1);
                // All bytes that will come, also those of B that the other blocks copy here.
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                    :: "r"(barrier), "r"((of_a + SHARE * of_b) * LINE) : "memory");
                load_tile<ACROSS_A, TILE_M>(to, of_a, map_a, step * DEPTH, i0, p.a.batch ? batch : 0, barrier);
                load_tile<ACROSS_B, TILE_N / SHARE>(to + place_b, of_b, map_b, step * DEPTH, j0 + share * (TILE_N / SHARE),
                                                    p.b.batch ? batch : 0, barrier, others);
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
#else
        for (int step = first; step < last; step++) {
            u32 to = begin + stage * BYTES;
            wait(shared_address(empty + stage), parity ^ 1);
            load_numbers<TILE_M>(to, p.a, batch, p.m, i0, p.k, step * DEPTH);
            load_numbers<TILE_N>(to + BYTES_A, p.b, batch, p.n, j0, p.k, step * DEPTH);
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared_address(full + stage)) : "memory");
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
#endif
        __syncwarp();
    } else {
        u32 before = 0;
        for (int step = first; step < last; step++) {
            wait(shared_address(full + stage), parity);
            product.add(tiles + stage * BYTES + t / 128 * 64 * LINE, tiles + stage * BYTES + BYTES_A);
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
    // Sums come to where lanes that follow each other take what does. A warp of tensor cores has sixteen whole rows.
    constexpr bool ALONE = WARPGROUPS && PARTS == 1;
    if (t < CONSUMERS) {
        struct alignas(sizeof(Sum) * TOGETHER) Group { Sum of[TOGETHER]; };
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i += TOGETHER)
            *(Group *)(tiles + product.row(i) * PITCH + product.column(i) * sizeof(Sum)) = *(Group *)(product.sum + i);
    }
    if (ALONE && SHARE > 1) meet_cluster_only();  // nobody leaves while another copies into its tiles
    if (ALONE) __syncwarp();
    else if (SHARE * PARTS > 1) meet_cluster();
    else __syncthreads();
    // WIDE columns are a piece, PIECES are shared by WITH threads.
    constexpr u32 WIDE = ALONE && sizeof(TD) <= 2 ? 8 : 4, ACROSS = TILE_N / WIDE;
    constexpr u32 ROWS = ALONE ? 16 : TILE_M / PARTS, WITH = ALONE ? 32 : CONSUMERS, PIECES = ROWS * ACROSS;
    // Pieces of columns whose way from memory a thread waits for at once.
    constexpr u32 EACH = PIECES / WITH, AHEAD = EACH == 0 ? 1 : EACH % 4 == 0 && WIDE == 4 ? 4 : EACH % 2 == 0 ? 2 : 1;
    static_assert(PIECES <= WITH || PIECES % (AHEAD * WITH) == 0, "whole turns");
    u32 row0 = ALONE ? t / 32 * 16 : part * ROWS;
    if (t < CONSUMERS)
        for (u32 piece = t % WITH; piece < PIECES; piece += AHEAD * WITH) {
            Sum all[AHEAD][WIDE] = {};
            int i[AHEAD], j[AHEAD];
#pragma unroll
            for (u32 one = 0; one < AHEAD; one++) {
                u32 row = row0 + (piece + one * WITH) / ACROSS, column = (piece + one * WITH) % ACROSS * WIDE;
                i[one] = i0 + row, j[one] = j0 + column;
#pragma unroll
                for (u32 from = 0; from < PARTS; from++)
#pragma unroll
                    for (u32 word = 0; word < WIDE * sizeof(Sum) / 16; word++) {
                        u32 at = row * PITCH + column * sizeof(Sum) + 16 * word;
                        uint4 of = PARTS > 1 ? of_block(begin + at, from * SHARE + share) : *(const uint4 *)(tiles + at);
#pragma unroll
                        for (u32 each = 0; each < 16 / sizeof(Sum); each++)
                            all[one][word * 16 / sizeof(Sum) + each] += ((const Sum *)&of)[each];
                    }
            }
            writer.put(i, j, all);
        }
    if (PARTS > 1) meet_cluster_only();  // nobody leaves while another reads its sums
}
