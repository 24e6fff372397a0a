// D = epilogue(alpha * A B + beta * C), rows of D contiguous, by threads that copy and multiply: for GPUs before Hopper, and
// for factors that bulk copies do not take. A block holds a tile of A and one of B in shared memory, 64 bytes of each row
// for each slice, and fetches the next into registers while it multiplies. `matmul_library/threads` runs it as a program.
//
// Macros, for one choice of types: TA, TB, TC, TD in memory, TS the scalars, NAME the kernel, TILE_M and TILE_N the block's
// part of D, EPILOGUE: there is one. MATRIX: tensor cores multiply (mma.sync), else multiply-adds do, of which a thread has
// EACH x EACH sums, and SLICES groups of threads share a tile's sum over k, or those of PARTS blocks, a cluster.
#include "product.cuh"

__device__ inline int min(int x, int y) { return x < y ? x : y; }

#if MATRIX
constexpr int TILE_K = 64 / sizeof(TA);
constexpr int WARP_M = TILE_M / 2, WARP_N = 32, THREADS = 2 * TILE_N;
#else
constexpr int TILE_K = SLICES * 64 / sizeof(TA);
#include "simt.cuh"
#endif

__device__ inline uint4 load_16(const void *at) {
    uint4 words;
    asm("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(at));
    return words;
}

// A tile on its way: ROWS x TILE_K elements in chunks of 16 bytes along the direction in which they lie.
template <class T, int ROWS> struct Fetched {
    static constexpr int PER = 16 / sizeof(T), ALONG_K = TILE_K / PER, COUNT = ROWS * ALONG_K / THREADS;
    static_assert(COUNT * THREADS == ROWS * ALONG_K, "whole chunks for each thread");
    uint4 held[COUNT];
    const T *at[COUNT];
    long long step;
    bool along_k, whole;  // whole: chunks inside lie at multiples of 16 bytes, and none is cut by the last row

    // Lanes that follow each other take chunks that do; where a column is contiguous, tensor cores' tiles are written
    // across, so there they take columns that do.
    __device__ static void place(int number, bool along_k, int &row, int &k) {
        int chunk = number * THREADS + threadIdx.x;
        if (along_k) row = chunk / 4 % ROWS, k = (chunk % 4 + chunk / (4 * ROWS) * 4) * PER;
        else if (MATRIX) row = chunk / TILE_K * PER, k = chunk % TILE_K;
        else row = chunk % (ROWS / PER) * PER, k = chunk / (ROWS / PER);
    }
    __device__ Fetched(const T *data, const Operand &from, int rows, int ks, int row0) {
        along_k = from.k == 1, step = from.k * TILE_K;
        long long pitch = along_k ? from.row : from.k;
        whole = (((u64)data | pitch * sizeof(T)) & 15) == 0 && (along_k || rows % PER == 0);
        for (int number = 0; number < COUNT; number++) {
            int row, k;
            place(number, along_k, row, k);
            row = row + row0 < rows ? row + row0 : rows - (along_k ? 1 : PER);  // outside: what is not written
            at[number] = data + from.row * (whole ? row : min(row, rows - 1)) + from.k * k;
        }
    }
    __device__ void skip(int k) {  // where a block begins that has only a part of k
        for (int number = 0; number < COUNT; number++) at[number] += step / TILE_K * k;
    }
    __device__ void fetch(const Operand &from, int rows, int ks, int row0, int k0) {
        if (whole && k0 + TILE_K <= ks) {
#pragma unroll
            for (int number = 0; number < COUNT; number++) held[number] = load_16(at[number]);
        } else {
#pragma unroll
            for (int number = 0; number < COUNT; number++) {
                int row, k;
                place(number, along_k, row, k);
                row += row0, k += k0;
                int left = along_k ? (row < rows ? ks - k : 0) : k < ks ? rows - row : 0;
                held[number] = part(at[number], along_k ? 1 : from.row, left);
            }
        }
        for (int number = 0; number < COUNT; number++) at[number] += step;
    }
    // A chunk number by number, zeros behind the last `left`; not inline, as it is seldom needed and long.
    __device__ static __noinline__ uint4 part(const T *at, long long apart, int left) {
        uint4 chunk = make_uint4(0, 0, 0, 0);
        T *one = (T *)&chunk;
#pragma unroll
        for (int each = 0; each < PER; each++)
            if (each < left) one[each] = at[apart * each];
        return chunk;
    }
};

#if MATRIX
template <class T> struct WordOf { typedef u32 type; };
template <> struct WordOf<double> { typedef double type; };
typedef WordOf<TA>::type Word;
constexpr int PITCH_BYTES = 80;  // so that a fragment's 32 words lie in 32 banks
constexpr int K_WORDS = 64 / sizeof(Word), PITCH = PITCH_BYTES / sizeof(Word);

template <class T> __device__ void round_words(uint4 &) {}
template <> __device__ inline void round_words<tf32>(uint4 &chunk) {
    u32 *words = (u32 *)&chunk;
    for (int k = 0; k < 4; k++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(words[k]) : "f"(__uint_as_float(words[k])));
}
template <class T, int ROWS> __device__ void store_tile(char *tile, Fetched<T, ROWS> &from, bool along_k, bool) {
#pragma unroll
    for (int number = 0; number < from.COUNT; number++) {
        int row, k;
        from.place(number, along_k, row, k);
        uint4 chunk = from.held[number];
        round_words<T>(chunk);
        if (along_k) *(uint4 *)(tile + row * PITCH_BYTES + k * sizeof(T)) = chunk;
        else
#pragma unroll
            for (int each = 0; each < from.PER; each++)
                *(T *)(tile + (row + each) * PITCH_BYTES + k * sizeof(T)) = ((const T *)&chunk)[each];
    }
}

#define MMA(SHAPE, OF_A, OF_B, OF_D, LETTER)                                                                          \
    asm("mma.sync.aligned." SHAPE ".row.col." OF_D "." OF_A "." OF_B "." OF_D                                         \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                            \
        : "+" LETTER(d[0]), "+" LETTER(d[1]), "+" LETTER(d[2]), "+" LETTER(d[3])                                      \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], f16, f16) { MMA("m16n8k16", "f16", "f16", "f32", "f"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], bf16, bf16) { MMA("m16n8k16", "bf16", "bf16", "f32", "f"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], tf32, tf32) { MMA("m16n8k8", "tf32", "tf32", "f32", "f"); }
__device__ inline void mma(int d[4], u32 a[4], u32 b[2], i8, i8) { MMA("m16n8k32", "s8", "s8", "s32", "r"); }
#if __CUDA_ARCH__ >= 890
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], e4m3, e4m3) { MMA("m16n8k32", "e4m3", "e4m3", "f32", "f"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], e4m3, e5m2) { MMA("m16n8k32", "e4m3", "e5m2", "f32", "f"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], e5m2, e4m3) { MMA("m16n8k32", "e5m2", "e4m3", "f32", "f"); }
#endif
__device__ inline void mma(double d[4], double a[4], double b[2], double, double) {
#pragma unroll
    for (int part = 0; part < 4; part++)
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(d[part % 2 * 2]), "+d"(d[part % 2 * 2 + 1]) : "d"(a[part]), "d"(b[part / 2]));
}

#include "fragments.cuh"
struct Product : Fragments<decltype(wide(TA()))> {
    __device__ void add(const char *tile_a, const char *tile_b) {
        const Word *a = (const Word *)tile_a + (row0 + group) * PITCH + lane;
        const Word *b = (const Word *)tile_b + (column0 + group) * PITCH + lane;
#pragma unroll
        for (int k = 0; k < K_WORDS; k += 8) {
            Word of_a[M][4], of_b[N][2];
#pragma unroll
            for (int i = 0; i < M; i++)
                for (int part = 0; part < 4; part++)
                    of_a[i][part] = a[(16 * i + part % 2 * 8) * PITCH + k + part / 2 * 4];
#pragma unroll
            for (int j = 0; j < N; j++)
                for (int part = 0; part < 2; part++) of_b[j][part] = b[8 * j * PITCH + k + part * 4];
#pragma unroll
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) mma(sum[i][j], of_a[i], of_b[j], TA(), TB());
        }
    }
};
template <int ROWS> constexpr int TILE_BYTES = ROWS * PITCH_BYTES;
#else
// Tiles lie here as columns of A and rows of B.
template <class T, int ROWS>
__device__ void store_tile(char *tile, Fetched<T, ROWS> &from, bool along_k, bool conjugated) {
    constexpr int PITCH = ROWS + PADDING;
    int row, k, apart = along_k ? PITCH : 1;
    from.place(0, along_k, row, k);
    Factor *to = (Factor *)tile + k * PITCH + row;
#pragma unroll
    for (int number = 0; number < from.COUNT; number++) {
        int next_row, next_k;
        from.place(number, along_k, next_row, next_k);
        Factor *first = to + (next_k - k) * PITCH + next_row - row;
#pragma unroll
        for (int each = 0; each < from.PER; each++) {
            Factor x = wide(((const T *)&from.held[number])[each]);
            first[each * apart] = conjugated ? conjugate(x) : x;
        }
    }
}

#endif

#if !MATRIX && PARTS > 1
#define CLUSTER __cluster_dims__(1, 1, PARTS)
#else
#define CLUSTER
#endif
extern "C" __global__ void __launch_bounds__(THREADS) CLUSTER NAME(const Gemm p) {
    constexpr int BYTES_A = TILE_BYTES<TILE_M>, BYTES = BYTES_A + TILE_BYTES<TILE_N>;
    constexpr bool TWO = 2 * BYTES <= 48 << 10;  // tiles of each, so that one is written while the other is read
    constexpr int OF_TILES = TWO ? 2 * BYTES : BYTES, OF_SUMS = SLICES * PARTS > 1 ? TILE_M * TILE_N * 4 : 0;
    __shared__ __align__(16) char tiles[OF_TILES > OF_SUMS ? OF_TILES : OF_SUMS];
    Scalar alpha = wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]));
    Scalar beta = wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    int i0 = blockIdx.y * TILE_M, j0 = blockIdx.x * TILE_N, ks = is_zero(alpha) ? 0 : p.k;
    for (int batch = blockIdx.z / PARTS; batch < p.batches; batch += gridDim.z / PARTS) {
        const TA *a = of_batch<const TA>(p.a.data, p.a.batch, batch, p.pointers);
        const TB *b = of_batch<const TB>(p.b.data, p.b.batch, batch, p.pointers);
        Fetched<TA, TILE_M> next_a(a, p.a, p.m, ks, i0);
        Fetched<TB, TILE_N> next_b(b, p.b, p.n, ks, j0);
        Product product;
        char *tile = tiles, *other = tiles + (TWO ? BYTES : 0);
        int steps = ((ks + TILE_K - 1) / TILE_K + PARTS - 1) / PARTS * TILE_K;  // of a block's part
        int start = blockIdx.z % PARTS * steps, end = start + steps < ks ? start + steps : ks;
        next_a.skip(start), next_b.skip(start);
        for (int k0 = start - TILE_K; k0 < end; k0 += TILE_K) {  // the first turn only fetches
            if (k0 + TILE_K < end) {
                next_a.fetch(p.a, p.m, ks, i0, k0 + TILE_K);
                next_b.fetch(p.b, p.n, ks, j0, k0 + TILE_K);
            }
            if (k0 >= start) product.add(tile, tile + BYTES_A);
            if (!TWO) __syncthreads();
            if (k0 + TILE_K < end) {
                store_tile<TA, TILE_M>(other, next_a, next_a.along_k, p.conjugate_a);
                store_tile<TB, TILE_N>(other + BYTES_A, next_b, next_b.along_k, p.conjugate_b);
            }
            __syncthreads();
            char *done = tile;
            tile = other, other = done;
        }
#if !MATRIX
        product.join(tiles);
        if (PARTS > 1) product.gather(tiles);
#endif
        Writer writer(p, batch, alpha, beta);
        product.write(writer, i0, j0);
        __syncthreads();
    }
}
