// What the kernels of products take, and what becomes of a sum: D = epilogue(alpha * sum + beta * C). TA, TB, TC, TD are
// types in memory, TS that of the scalars. EPILOGUE: what there is of it.
#include "types.cuh"
#include "cluster.cuh"

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
    int pointers, conjugate_a, conjugate_b;  // pointers: data are arrays of pointers
};
// Bits of EPILOGUE: those of cublasLtEpilogue_t, and scales of the factors and of the result.
enum { RELU = 2, BIAS = 4, DRELU = 8, GELU = 32, DGELU = 64, AUX = 128, SCALES = 1024, SCALED = 2048 };

typedef decltype(wide(TS())) Scalar;

template <class T> __device__ T *of_batch(const void *data, long long distance, int batch, int pointers) {
    return pointers ? ((T *const *)data)[batch] : (T *)data + distance * batch;
}

// --- the epilogue -----------------------------------------------------------------------------------------------------

template <class X> __device__ Scalar to_scalar(X x) { return Scalar(x); }

template <class X> __device__ X relu(X x) { return x; }
template <class X> __device__ X gelu(X x) { return x; }
__device__ inline float relu(float x) { return x < 0 ? 0 : x; }  // NaN stays
__device__ inline float tangent(float x) { return .7978845608f * (x + .044715f * x * x * x); }
__device__ inline float gelu(float x) {  // x / 2 * (1 + tanh)
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-2.8853900818f * tangent(x)));
    return __fdividef(x, 1 + power);
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
        aux = (char *)p.aux.data + (EPILOGUE & (RELU | DRELU) ? distance / 8 : distance * (long long)sizeof(TD));
        bias = (const TD *)p.bias + p.bias_batch * batch;
    }
    template <class X> __device__ X with_aux(X x, int i, int j) {
        long long at = p.aux.row * i + j;
        if (EPILOGUE & (RELU | DRELU)) {  // a bit for each element says whether it passed
            u32 *word = (u32 *)aux + at / 32, bit = 1u << at % 32;
            if (EPILOGUE & DRELU) return *word & bit ? x : X(0);
            x >= X(0) ? atomicOr(word, bit) : atomicAnd(word, ~bit);
        } else if (EPILOGUE & DGELU) {
            return x * gelu_slope(to_scalar(wide(((const TD *)aux)[at])));
        } else {
            narrow(x, ((TD *)aux)[at]);
        }
        return EPILOGUE & RELU ? relu(x) : EPILOGUE & GELU ? gelu(x) : x;
    }
    template <class R> __device__ complex<R> with_aux(complex<R> x, int, int) { return x; }
    // N numbers that lie side by side, of which `left` are there.
    template <class T, int N> __device__ static void take(T (&to)[N], const T *from, int left) {
        struct alignas(N * sizeof(T)) Row { T of[N]; };
        if (N > 1 && (u64)from % sizeof(Row) == 0 && left >= N) *(Row *)to = *(const Row *)from;
        else
#pragma unroll
            for (int one = 0; one < N; one++)
                if (one < left) to[one] = from[one];
    }
    // N elements that lie side by side, in each of P places. What a step reads is read for all of them at once.
    template <class X, int P, int N> __device__ void put(const int (&i)[P], const int (&j)[P], const X (&sum)[P][N]) {
        struct alignas(N * sizeof(TD)) Row { TD of[N]; };
        Scalar x[P][N];
        auto each = [&](auto step) {
#pragma unroll
            for (int at = 0; at < P * N; at++) x[at / N][at % N] = step(x[at / N][at % N], at / N, at % N);
        };
        auto inside = [&](auto step) {
            each([&](Scalar x, int at, int one) { return i[at] < p.m && j[at] + one < p.n ? step(x, i[at], j[at] + one) : x; });
        };
        each([&](Scalar, int at, int one) { return alpha * to_scalar(sum[at][one]); });
        if (EPILOGUE & SCALES && (p.scale_a || p.scale_b)) inside([&](Scalar x, int i, int j) { return scaled(x, p, i, j); });
        if (c) {
            alignas(16) TC before[P][N] = {};
            Scalar factor = EPILOGUE & SCALES && p.scale_c ? beta * Scalar(*p.scale_c) : beta;
#pragma unroll
            for (int at = 0; at < P; at++)
                if (i[at] < p.m) take(before[at], c + p.c.row * i[at] + j[at], p.n - j[at]);
            each([&](Scalar x, int at, int one) { return x + factor * to_scalar(wide(before[at][one])); });
        }
        if (EPILOGUE & BIAS) {
            alignas(16) TD added[P][N] = {};
#pragma unroll
            for (int at = 0; at < P; at++)
                if (p.bias_column) take(added[at], bias + j[at], p.n - j[at]);
                else if (i[at] < p.m)
                    for (int one = 0; one < N; one++) added[at][one] = bias[i[at]];
            each([&](Scalar x, int at, int one) { return x + to_scalar(wide(added[at][one])); });
        }
        if (EPILOGUE & AUX) inside([&](Scalar x, int i, int j) { return with_aux(x, i, j); });
        else if (EPILOGUE & RELU) each([&](Scalar x, int, int) { return relu(x); });
        else if (EPILOGUE & GELU) each([&](Scalar x, int, int) { return gelu(x); });
        if (EPILOGUE & SCALED) inside([&](Scalar x, int, int) { return finish(x, p), x; });
#pragma unroll
        for (int at = 0; at < P; at++) {
            Row row;
            TD *to = d + p.d.row * i[at] + j[at];
#pragma unroll
            for (int one = 0; one < N; one++) narrow(x[at][one], row.of[one]);
            if (i[at] >= p.m || j[at] >= p.n) continue;
            if (N == 1 || ((u64)to % sizeof row == 0 && j[at] + N <= p.n)) *(Row *)to = row;
            else
#pragma unroll
                for (int one = 0; one < N; one++)
                    if (j[at] + one < p.n) to[one] = row.of[one];
        }
    }
    template <class X, int N> __device__ void put(int i, int j, const X (&sum)[N]) {
        put<X, 1, N>({i}, {j}, (const X(&)[1][N])sum);
    }
    template <class X> __device__ void put(int i, int j, X sum) { put<X, 1, 1>({i}, {j}, {{sum}}); }
};
