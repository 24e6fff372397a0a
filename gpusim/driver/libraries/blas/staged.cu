// D = epilogue(alpha * A B + beta * C) of floats, rows of D contiguous, by multiply-adds, as cuBLAS has it since Ampere: no
// clusters, no bulk copies. A block makes a tile of D, TILE_M x TILE_N. Its threads copy tiles of both factors, DEPTH of k,
// into a ring of STAGES, asynchronously, and multiply what came first; with one stage they wait for it. Read the kernel at
// the end first, then `Product`.
//
// Macros: NAME the kernel, EPILOGUE, TA to TS types, as `product.cuh` has them; WARPS_M x WARPS_N warps share a tile, LANES_M
// lanes of a warp lie below each other; VECTOR: numbers of a row of D that a lane has side by side. WIDE: numbers leave by 16
// bytes, else each by itself; they come so by WIDE_A and WIDE_B. ROWS_FIRST: blocks that follow each other lie below each
// other. PART: how blocks along z share a sum over k: WHOLE (there is one), PIECES (each writes its sum into `room`, and
// `reduce.cu` adds them), CHAIN (each adds its sum to what those before have left in `room`, in turn, and the last one writes
// D) or ONTO (each adds it to D, in turn).
#include "product.cuh"

__device__ inline int min(int x, int y) { return x < y ? x : y; }

enum { WHOLE, PIECES, CHAIN, ONTO };
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N, LANES_N = 32 / LANES_M, THREADS = 32 * WARPS_M * WARPS_N;
constexpr int M = WARP_M / LANES_M, N = WARP_N / LANES_N;  // a lane's sums
struct Shared { float *room; u32 *turns; };  // memory of the stand-in's own: sums, and whose turn it is, for each tile

template <int NUMBERS> __device__ void copy(u32 to, const float *from, bool there) {
    if (NUMBERS == 1)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to), "l"(from), "r"(4 * NUMBERS * there) : "memory");
    else asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(4 * NUMBERS * there) : "memory");
}
// The compiler would load right before it multiplies, and wait; what is volatile stays where it is.
template <int NUMBERS> __device__ void take(float *to, u32 from) {
    if constexpr (NUMBERS == 4)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
            : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(from));
    else asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(from));
}

// A factor's tile lies by k, with a gap, so that what comes along k goes to different banks.
template <int ROWS, bool ACROSS, bool WIDE_COPIES> struct Tile {
    static constexpr int PITCH = ROWS + (ACROSS ? 0 : 4), BYTES = 4 * DEPTH * PITCH;
    static constexpr int PER = WIDE_COPIES ? 4 : 1, LINE = (ACROSS ? ROWS : DEPTH) / PER, ALL = ROWS * DEPTH / PER;
    static constexpr int COUNT = (ALL + THREADS - 1) / THREADS;  // copies of a thread
    static_assert(LINE % THREADS == 0 || THREADS % LINE == 0, "whole turns");
    const float *at, *from;
    long long row, k, apart;
    int first_row, first_k;
    u32 inside = 0;  // bits of copies whose rows are there
    float held[STAGES == 1 ? COUNT : 1];

    __device__ static constexpr int along(int i) { return i * THREADS % LINE * PER; }
    __device__ static constexpr int down(int i) { return i * THREADS / LINE; }
    __device__ Tile(const Operand &x, int rows, int row0, int k0) : row(x.row), k(ACROSS ? x.k : 1) {
        int along = threadIdx.x % LINE * PER, down = threadIdx.x / LINE;
        first_row = ACROSS ? along : down, first_k = ACROSS ? down : along;
        at = from = (const float *)x.data + row * (row0 + first_row) + k * (k0 + first_k);
        apart = (ACROSS ? k : row) * (THREADS / LINE), k *= DEPTH;
        asm volatile("" : "+l"(apart), "+l"(k));  // in registers, which the compiler would not do
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (row0 + first_row + (ACROSS ? this->along(i) : this->down(i)) < rows) inside |= 1 << i;
    }
    __device__ static constexpr u32 place(int row, int k) { return 4 * (k * PITCH + row); }  // of a number
    // Copies of the next tile. left: of k.
    __device__ void copy_next(u32 tile, int left) {
        u32 to = tile + place(first_row, first_k), bits = inside;
        if (!ACROSS && first_k >= left) bits = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (ALL % THREADS > 0 && i == COUNT - 1 && i * THREADS + threadIdx.x >= ALL) continue;
            if (THREADS < LINE) from = at + row * along(i) + k / DEPTH * down(i);
            bool there = bits >> i & 1 && (!ACROSS || left >= DEPTH || first_k + down(i) < left);
            if (STAGES == 1) held[i] = there ? *from : 0;
            else copy<PER>(to + place_of(i), from, there);
            from += apart;
        }
        from = at += ACROSS ? k : DEPTH;
    }
    __device__ static constexpr u32 place_of(int i) { return ACROSS ? place(along(i), down(i)) : place(down(i), 0); }
    __device__ void store(u32 tile) {  // what threads hold, if they copy
        u32 to = tile + place(first_row, first_k);
#pragma unroll
        for (int i = 0; i < COUNT; i++) asm volatile("st.shared.f32 [%0], %1;" :: "r"(to + place_of(i)), "f"(held[i]) : "memory");
    }
};
typedef Tile<TILE_M, ACROSS_A, WIDE_A> TileA;
typedef Tile<TILE_N, ACROSS_B, WIDE_B> TileB;
constexpr u32 BYTES = TileA::BYTES + TileB::BYTES;

// A lane's sums: groups of VECTOR rows, and of VECTOR columns, that lie side by side. Lanes that differ in the lowest bit have
// the same columns, in the next one the same rows, so that two quarters of a warp are read at once.
struct Product {
    float sum[M][N] = {}, a[2][M], b[2][N];

    u32 left, right;  // where a lane's rows and columns begin in a stage

    __device__ Product() : left(TileA::place(row(0), 0)), right(TileA::BYTES + TileB::place(column(0), 0)) {
        asm volatile("" : "+r"(left), "+r"(right));  // in registers, which the compiler would not do
    }
    __device__ static int lane_m() { return threadIdx.x % 32 / (2 * LANES_N) * 2 + threadIdx.x % 2; }
    __device__ static int row(int i) { return threadIdx.x / 32 / WARPS_N * WARP_M + lane_m() * VECTOR + further(i, LANES_M); }
    __device__ static int column(int j) {
        return threadIdx.x / 32 % WARPS_N * WARP_N + threadIdx.x / 2 % LANES_N * VECTOR + further(j, LANES_N);
    }
    __device__ static constexpr int further(int i, int lanes) { return i / VECTOR * lanes * VECTOR + i % VECTOR; }
    __device__ void take_step(u32 tile, int k) {
#pragma unroll
        for (int i = 0; i < M; i += VECTOR) take<VECTOR>(a[k % 2] + i, tile + left + TileA::place(further(i, LANES_M), k));
#pragma unroll
        for (int j = 0; j < N; j += VECTOR) take<VECTOR>(b[k % 2] + j, tile + right + TileB::place(further(j, LANES_N), k));
    }
    __device__ void add(int k) {
#pragma unroll
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) sum[i][j] += a[k % 2][i] * b[k % 2][j];
    }
    // A row of each lane at a time comes to where lanes that follow each other take what does.
    __device__ void put(const Gemm &p, float *shared, int i0, int j0, Scalar alpha, Scalar beta, float *room, int part) {
        constexpr int SIDE = WIDE ? 4 : 1, HIGH = WARPS_M * LANES_M, EACH = HIGH * TILE_N / (THREADS * SIDE), LONG = TILE_N + 4;
        struct alignas(4 * SIDE) Some { float of[SIDE]; };
        int own = (threadIdx.x / 32 / WARPS_N * LANES_M + lane_m()) * LONG + column(0), pitch = (p.n + 3) / 4 * 4;
        Writer writer(p, 0, alpha, beta);
#pragma unroll
        for (int i = 0; i < M; i++) {
            __syncthreads();
            for (int j = 0; j < N; j++) shared[own + further(j, LANES_N)] = sum[i][j];
            __syncthreads();
#pragma unroll (EACH > 4 ? 1 : EACH)
            for (int each = 0; each < EACH; each++) {
                int at = (each * THREADS + threadIdx.x) * SIDE, line = at / TILE_N, column = j0 + at % TILE_N;
                int row = i0 + line / LANES_M * WARP_M + line % LANES_M * VECTOR + further(i, LANES_M);
                Some sums = *(Some *)(shared + line * LONG + at % TILE_N);
                if (PART != PIECES) writer.put(row, column, sums.of);
                else if (row < p.m && column < p.n) *(Some *)(room + ((long long)part * p.m + row) * pitch + column) = sums;
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) NAME(const Gemm p, const Shared shared) {
    extern __shared__ __align__(16) char tiles[];
    u32 ring = shared_address(tiles), *turn = shared.turns + 2 * (blockIdx.y * gridDim.x + blockIdx.x);
    int i0 = (ROWS_FIRST ? blockIdx.x : blockIdx.y) * TILE_M, j0 = (ROWS_FIRST ? blockIdx.y : blockIdx.x) * TILE_N;
    Scalar alpha = given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]), beta = given<TS>(p.beta_at, p.beta[0], p.beta[1]);
    int ks = is_zero(alpha) ? 0 : p.k, steps = (ks + DEPTH - 1) / DEPTH, part = blockIdx.z, parts = gridDim.z;
    int each = (steps + parts - 1) / parts, ahead = each * part, left = min(each, steps - ahead), last = ahead + left;
    TileA tile_a(p.a, p.m, i0, ahead * DEPTH);
    TileB tile_b(p.b, p.n, j0, ahead * DEPTH);
    u32 to = ring, tile = ring;
    auto next = [&](u32 stage) { return stage + BYTES < ring + STAGES * BYTES ? stage + BYTES : ring; };
    auto copy = [&] {
        if (ahead < last) tile_a.copy_next(to, ks - ahead * DEPTH), tile_b.copy_next(to + TileA::BYTES, ks - ahead * DEPTH);
        asm volatile("cp.async.commit_group;" ::: "memory");
        ahead++, to = next(to);
    };
    auto wait = [] {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES > 1 ? STAGES - 2 : 0) : "memory");
        __syncthreads();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) copy();
    Product product;
    if (STAGES > 1) wait();
    if (STAGES > 1 && left > 0) product.take_step(tile, 0);
    for (; left > 0; left--) {
        copy();
        if (STAGES == 1) {  // nothing comes while threads multiply
            tile_a.store(tile), tile_b.store(tile + TileA::BYTES);
            __syncthreads();
            product.take_step(tile, 0);
        }
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            if (k + 1 < DEPTH) product.take_step(tile, k + 1);
            else if (STAGES == 1) __syncthreads();
            else {
                wait();
                tile = next(tile);
                if (left > 1) product.take_step(tile, 0);
            }
            product.add(k);
        }
    }
    constexpr bool IN_TURN = PART == CHAIN || PART == ONTO;
    if (IN_TURN && part > 0) {
        if (threadIdx.x == 0)
            for (u32 whose = 0; whose != part;)
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(whose) : "l"(turn) : "memory");
        __syncthreads();
    }
    struct alignas(4 * VECTOR) Group { float of[VECTOR]; };
    Group *room = (Group *)shared.room + (long long)(blockIdx.y * gridDim.x + blockIdx.x) * (M * N / VECTOR) * THREADS;
    auto each_group = [&](auto step) {
#pragma unroll
        for (int i = 0; i < M * N / VECTOR; i++) step(((Group *)product.sum)[i], room[i * THREADS + threadIdx.x]);
    };
    if (PART == CHAIN && part > 0)
        each_group([](Group &sums, const Group &before) {
            for (int one = 0; one < VECTOR; one++) sums.of[one] += before.of[one];
        });
    if (PART == CHAIN && part < parts - 1) each_group([](const Group &sums, Group &after) { after = sums; });
    else product.put(p, (float *)tiles, i0, j0, alpha, PART == ONTO ? 1 : beta, shared.room, part);
    if (IN_TURN && part < parts - 1) {
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(turn), "r"(part + 1) : "memory");
    }
}
