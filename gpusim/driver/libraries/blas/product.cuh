// What the kernels of products take, and what becomes of a sum: D = epilogue(alpha * sum + beta * C). TA, TB, TC, TD are
// types in memory, TS that of the scalars. EPILOGUE: there is one.
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
    // N elements that lie side by side, in each of P places. What a step reads is read for all of them at once.
    template <class X, int P, int N> __device__ void put(const int (&i)[P], const int (&j)[P], const X (&sum)[P][N]) {
        struct alignas(N * sizeof(TD)) Row { TD of[N]; };
        Scalar x[P][N];
        // Outside of D what lies at its end is read instead: a branch would wait for what it guards.
        auto each = [&](auto step) {
#pragma unroll
            for (int at = 0; at < P * N; at++) {
                int row = i[at / N] < p.m ? i[at / N] : p.m - 1, column = j[at / N] + at % N;
                x[at / N][at % N] = step(x[at / N][at % N], row, column < p.n ? column : p.n - 1);
            }
        };
        auto inside = [&](auto step) {
#pragma unroll
            for (int at = 0; at < P * N; at++)
                if (i[at / N] < p.m && j[at / N] + at % N < p.n)
                    x[at / N][at % N] = step(x[at / N][at % N], i[at / N], j[at / N] + at % N);
        };
#pragma unroll
        for (int at = 0; at < P * N; at++) x[at / N][at % N] = alpha * to_scalar(sum[at / N][at % N]);
        if (EPILOGUE && (p.scale_a || p.scale_b)) each([&](Scalar x, int i, int j) { return scaled(x, p, i, j); });
        if (c) {
            Scalar factor = EPILOGUE && p.scale_c ? beta * Scalar(*p.scale_c) : beta;
            each([&](Scalar x, int i, int j) { return x + factor * to_scalar(wide(c[p.c.row * i + j])); });
        }
        if (EPILOGUE && p.bias)
            each([&](Scalar x, int i, int j) { return x + to_scalar(wide(bias[p.bias_row * i + p.bias_column * j])); });
        if (EPILOGUE && p.epilogue & AUX) inside([&](Scalar x, int i, int j) { return with_aux(x, i, j); });
        else if (EPILOGUE && p.epilogue & (RELU | GELU)) each([&](Scalar x, int, int) { return activated(x, p.epilogue); });
        if (EPILOGUE && (p.largest || p.scale_d)) inside([&](Scalar x, int, int) { return finish(x, p), x; });
#pragma unroll
        for (int at = 0; at < P; at++) {
            Row row;
            TD *to = d + p.d.row * i[at] + j[at];
#pragma unroll
            for (int one = 0; one < N; one++) narrow(x[at][one], row.of[one]);
            if (i[at] >= p.m || j[at] >= p.n) continue;
            if ((u64)to % sizeof row == 0 && j[at] + N <= p.n) *(Row *)to = row;
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
