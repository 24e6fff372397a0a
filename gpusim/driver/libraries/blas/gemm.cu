// D = epilogue(alpha * A B + beta * C), rows of D contiguous, for one choice of types: TA, TB, TC, TD in memory, TS the
// scalars, NAME the kernel, TILE_M and TILE_N the block's part of D. MATRIX: tensor cores multiply (mma.sync), else
// multiply-adds do. EPILOGUE: there is one. A block holds a tile of A and one of B in shared memory, 64 bytes of each row, and fetches the next
// from global memory while it multiplies. This is `gpusim`'s stand-in for the library's own kernels, not their equal.
#include "types.cuh"

struct Operand { const void *data; long long row, k, batch; };  // distances in elements; row: of A's rows, B's columns
struct Output { void *data; long long row, batch; };
struct Gemm {
    Operand a, b;
    Output c, d, aux;
    const void *bias;
    long long bias_row, bias_column, bias_batch;
    const void *alpha_at, *beta_at;  // on the device, else 0 and the values follow
    u64 alpha[2], beta[2];
    const float *scale_a, *scale_b, *scale_c, *scale_d;
    float *largest;
    int scale_row, scale_column;  // distances of scales: 0 for one number
    int m, n, k, batches;
    int pointers, conjugate_a, conjugate_b, epilogue;  // pointers: data are arrays of pointers
};
enum { RELU = 2, DRELU = 8, GELU = 32, DGELU = 64, AUX = 128 };  // cublasLtEpilogue_t

typedef decltype(wide(TS())) Scalar;

template <class T> __device__ T *of_batch(const void *data, long long distance, int batch, int pointers) {
    return pointers ? ((T *const *)data)[batch] : (T *)data + distance * batch;
}

// --- the epilogue -----------------------------------------------------------------------------------------------------

template <class X> __device__ Scalar to_scalar(X x) { return Scalar(x); }

template <class X> __device__ X activated(X x, int) { return x; }
__device__ inline float tangent(float x) { return .7978845608f * (x + .044715f * x * x * x); }
__device__ inline float activated(float x, int epilogue) {
    if (epilogue & RELU) return x < 0 ? 0 : x;  // NaN stays
    if (epilogue & GELU) return .5f * x * (1 + tanhf(tangent(x)));
    return x;
}
template <class X> __device__ X gelu_slope(X x) { return x; }
__device__ inline float gelu_slope(float x) {
    float t = tanhf(tangent(x));
    return .5f * (1 + t) + .5f * x * (1 - t * t) * .7978845608f * (1 + 3 * .044715f * x * x);
}
template <class X> __device__ X scaled(X x, const Gemm &, int, int) { return x; }
__device__ inline float scaled(float x, const Gemm &p, int i, int j) {
    if (p.scale_a) x *= p.scale_a[(long long)p.scale_row * i];
    return p.scale_b ? x * p.scale_b[(long long)p.scale_column * j] : x;
}
template <class X> __device__ void finish(X &, const Gemm &) {}
__device__ inline void finish(float &x, const Gemm &p) {
    if (p.largest) atomicMax((int *)p.largest, __float_as_int(fabsf(x)));
    if (p.scale_d) x *= *p.scale_d;
}

struct Writer {
    const Gemm &p;
    const TC *c;
    TD *d;
    char *aux;
    const TD *bias;
    Scalar alpha, beta;

    __device__ Writer(const Gemm &p, int batch, Scalar alpha, Scalar beta) : p(p), alpha(alpha), beta(beta) {
        c = is_zero(beta) ? 0 : of_batch<const TC>(p.c.data, p.c.batch, batch, p.pointers);
        d = of_batch<TD>(p.d.data, p.d.batch, batch, p.pointers);
        long long distance = p.aux.batch * batch;
        aux = (char *)p.aux.data + (p.epilogue & (RELU | DRELU) ? distance / 8 : distance * (long long)sizeof(TD));
        bias = (const TD *)p.bias + p.bias_batch * batch;
    }
    __device__ Scalar value(Scalar product, int i, int j) {
        Scalar x = alpha * product;
        if (EPILOGUE) x = scaled(x, p, i, j);
        if (c) {
            Scalar before = to_scalar(wide(c[p.c.row * i + j]));
            x = x + beta * (EPILOGUE && p.scale_c ? before * Scalar(*p.scale_c) : before);
        }
        if (!EPILOGUE) return x;
        if (p.bias) x = x + to_scalar(wide(bias[p.bias_row * i + p.bias_column * j]));
        return p.epilogue & AUX ? with_aux(x, i, j) : activated(x, p.epilogue);
    }
    template <class X> __device__ X with_aux(X x, int i, int j) {
        long long at = p.aux.row * i + j;
        if (p.epilogue & (RELU | DRELU)) {  // a bit for each element says whether it passed
            u32 *word = (u32 *)aux + at / 32, bit = 1u << at % 32;
            if (p.epilogue & DRELU) return *word & bit ? x : X(0);
            x >= X(0) ? atomicOr(word, bit) : atomicAnd(word, ~bit);
        } else if (p.epilogue & DGELU) {
            return x * gelu_slope(to_scalar(wide(((const TD *)aux)[at])));
        } else {
            narrow(x, ((TD *)aux)[at]);
        }
        return activated(x, p.epilogue);
    }
    template <class R> __device__ complex<R> with_aux(complex<R> x, int, int) { return x; }
    // Two elements that lie side by side in a row.
    template <class X> __device__ void put(int i, int j, X first, X second) {
        struct alignas(2 * sizeof(TD)) Pair { TD x, y; } pair;
        if (i >= p.m || j >= p.n) return;
        TD *to = d + p.d.row * i + j;
        Scalar x = value(to_scalar(first), i, j);
        if (EPILOGUE) finish(x, p);
        narrow(x, pair.x);
        if (j + 1 < p.n) {
            Scalar y = value(to_scalar(second), i, j + 1);
            if (EPILOGUE) finish(y, p);
            narrow(y, pair.y);
            if ((u64)to % sizeof(Pair) == 0) *(Pair *)to = pair;
            else to[0] = pair.x, to[1] = pair.y;
        } else {
            to[0] = pair.x;
        }
    }
};

// --- tiles ------------------------------------------------------------------------------------------------------------

constexpr int TILE_K = 64 / sizeof(TA);
#if MATRIX
constexpr int WARP_M = TILE_M / 2, WARP_N = 32, THREADS = 2 * TILE_N;
#else
constexpr int THREADS = 256;
#endif

// A tile on its way: ROWS x TILE_K elements in chunks of 16 bytes along the direction in which they lie.
template <class T, int ROWS> struct Fetched {
    static constexpr int PER = 16 / sizeof(T), ALONG_K = TILE_K / PER, COUNT = ROWS * ALONG_K / THREADS;
    static_assert(COUNT * THREADS == ROWS * ALONG_K, "whole chunks for each thread");
    uint4 held[COUNT];

    // Lanes that follow each other take chunks that do; where a column is contiguous, tensor cores' tiles are written
    // across, so there they take columns that do.
    __device__ static void place(int number, bool along_k, int &row, int &k) {
        int chunk = number * THREADS + threadIdx.x;
        if (along_k) row = chunk / ALONG_K, k = chunk % ALONG_K * PER;
        else if (MATRIX) row = chunk / TILE_K * PER, k = chunk % TILE_K;
        else row = chunk % (ROWS / PER) * PER, k = chunk / (ROWS / PER);
    }
    __device__ void fetch(const T *data, const Operand &from, int rows, int ks, int row0, int k0) {
        bool along_k = from.k == 1;
        long long pitch = along_k ? from.row : from.k;
        bool whole = (((u64)data | pitch * sizeof(T)) & 15) == 0;
#pragma unroll
        for (int number = 0; number < COUNT; number++) {
            int row, k;
            place(number, along_k, row, k);
            row += row0, k += k0;
            int left = along_k ? (row < rows ? ks - k : 0) : k < ks ? rows - row : 0;
            const T *at = data + from.row * row + from.k * k;
            uint4 chunk = make_uint4(0, 0, 0, 0);
            if (whole && left >= PER) chunk = *(const uint4 *)at;
            else if (left > 0) {
                T *one = (T *)&chunk;
#pragma unroll
                for (int each = 0; each < PER; each++)
                    if (each < left) one[each] = at[along_k ? each : from.row * each];
            }
            held[number] = chunk;
        }
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

// A warp's part of a block's tile, in fragments of 16 x 8.
struct Product {
    static constexpr int M = WARP_M / 16, N = WARP_N / 8, ACROSS = TILE_N / WARP_N;
    decltype(wide(TA())) sum[M][N][4];
    int row0, column0, group, lane;

    __device__ Product() : sum{} {
        int warp = threadIdx.x / 32;
        row0 = warp / ACROSS * WARP_M, column0 = warp % ACROSS * WARP_N;
        group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
    }
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
    __device__ void write(Writer &to, int i0, int j0) {
#pragma unroll
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++)
                for (int part = 0; part < 4; part += 2)
                    to.put(i0 + row0 + 16 * i + group + 4 * part, j0 + column0 + 8 * j + 2 * lane, sum[i][j][part],
                           sum[i][j][part + 1]);
    }
};
template <int ROWS> constexpr int TILE_BYTES = ROWS * PITCH_BYTES;
#else
typedef decltype(wide(TA())) Factor;
constexpr int PADDING = 16 / sizeof(Factor);
template <int ROWS> constexpr int TILE_BYTES = TILE_K * (ROWS + PADDING) * sizeof(Factor);

// Tiles lie here as columns of A and rows of B.
template <class T, int ROWS>
__device__ void store_tile(char *tile, Fetched<T, ROWS> &from, bool along_k, bool conjugated) {
    Factor *to = (Factor *)tile;
#pragma unroll
    for (int number = 0; number < from.COUNT; number++) {
        int row, k;
        from.place(number, along_k, row, k);
#pragma unroll
        for (int each = 0; each < from.PER; each++) {
            Factor x = wide(((const T *)&from.held[number])[each]);
            to[(along_k ? k + each : k) * (ROWS + PADDING) + (along_k ? row : row + each)] = conjugated ? conjugate(x) : x;
        }
    }
}

// A thread's part of a block's tile: rows that follow each other, pairs of columns 32 apart.
struct Product {
    static constexpr int M = TILE_M / (THREADS / 16), PAIRS = TILE_N / 32;
    Factor sum[M][PAIRS][2];
    int row0, column0;

    __device__ Product() : sum{}, row0(threadIdx.x / 16 * M), column0(threadIdx.x % 16 * 2) {}
    __device__ void add(const char *tile_a, const char *tile_b) {
#pragma unroll
        for (int k = 0; k < TILE_K; k++) {
            const Factor *a = (const Factor *)tile_a + k * (TILE_M + PADDING) + row0;
            const Factor *b = (const Factor *)tile_b + k * (TILE_N + PADDING) + column0;
#pragma unroll
            for (int i = 0; i < M; i++)
                for (int j = 0; j < PAIRS; j++)
                    for (int part = 0; part < 2; part++) sum[i][j][part] = sum[i][j][part] + a[i] * b[32 * j + part];
        }
    }
    __device__ void write(Writer &to, int i0, int j0) {
#pragma unroll
        for (int i = 0; i < M; i++)
            for (int j = 0; j < PAIRS; j++)
                to.put(i0 + row0 + i, j0 + column0 + 32 * j, sum[i][j][0], sum[i][j][1]);
    }
};
#endif

extern "C" __global__ void __launch_bounds__(THREADS) NAME(const Gemm p) {
    __shared__ __align__(16) char tile_a[TILE_BYTES<TILE_M>], tile_b[TILE_BYTES<TILE_N>];
    Scalar alpha = wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]));
    Scalar beta = wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    int i0 = blockIdx.y * TILE_M, j0 = blockIdx.x * TILE_N, ks = is_zero(alpha) ? 0 : p.k;
    for (int batch = blockIdx.z; batch < p.batches; batch += gridDim.z) {
        const TA *a = of_batch<const TA>(p.a.data, p.a.batch, batch, p.pointers);
        const TB *b = of_batch<const TB>(p.b.data, p.b.batch, batch, p.pointers);
        Fetched<TA, TILE_M> next_a;
        Fetched<TB, TILE_N> next_b;
        Product product;
        next_a.fetch(a, p.a, p.m, ks, i0, 0);
        next_b.fetch(b, p.b, p.n, ks, j0, 0);
        for (int k0 = 0; k0 < ks; k0 += TILE_K) {
            store_tile<TA, TILE_M>(tile_a, next_a, p.a.k == 1, p.conjugate_a);
            store_tile<TB, TILE_N>(tile_b, next_b, p.b.k == 1, p.conjugate_b);
            __syncthreads();
            if (k0 + TILE_K < ks) {
                next_a.fetch(a, p.a, p.m, ks, i0, k0 + TILE_K);
                next_b.fetch(b, p.b, p.n, ks, j0, k0 + TILE_K);
            }
            product.add(tile_a, tile_b);
            __syncthreads();
        }
        Writer writer(p, batch, alpha, beta);
        product.write(writer, i0, j0);
    }
}
