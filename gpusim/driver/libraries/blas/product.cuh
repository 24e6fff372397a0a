// What the kernels of products take, and what becomes of a sum: D = epilogue(alpha * sum + beta * C). TA, TB, TC, TD are
// types in memory, TS that of the scalars. EPILOGUE: there is one.
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
    template <class X> __device__ void put(int i, int j, X sum) {
        Scalar x = value(to_scalar(sum), i, j);
        if (EPILOGUE) finish(x, p);
        narrow(x, d[p.d.row * i + j]);
    }
    // Elements that lie side by side in a row.
    template <class X, int N> __device__ void put(int i, int j, const X (&sum)[N]) {
        struct alignas(N * sizeof(TD)) { TD of[N]; } row;
        if (i >= p.m || j >= p.n) return;
        TD *to = d + p.d.row * i + j;
#pragma unroll
        for (int each = 0; each < N; each++)
            if (j + each < p.n) {
                Scalar x = value(to_scalar(sum[each]), i, j + each);
                if (EPILOGUE) finish(x, p);
                narrow(x, row.of[each]);
            }
        if ((u64)to % sizeof row == 0 && j + N <= p.n) *(decltype(row) *)to = row;
        else
#pragma unroll
            for (int each = 0; each < N; each++)
                if (j + each < p.n) to[each] = row.of[each];
    }
};
