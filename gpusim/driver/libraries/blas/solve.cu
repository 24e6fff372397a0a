// Systems of equations with matrices of type T, for each of a batch, blockIdx.y. FACTOR 1: A = P L U in its place, by
// one block. FACTOR 0: op(A) X = alpha B in B's place, a thread for each column of B, with A triangular or so factored.
#include "types.cuh"

typedef decltype(wide(T())) Value;
struct Solve {
    T *a, *b;
    T *const *a_list, *const *b_list;  // or the addresses of the matrices of the batch
    int *pivots, *info;
    const void *alpha_at;
    u64 alpha[2];
    long long a_row, a_column, b_row, b_column;
    int n, columns, conjugated, lower, unit, factored, transposed, from_unit;
};
template <class R> __device__ R inverse(R x) { return 1 / x; }
template <class R> __device__ complex<R> inverse(complex<R> x) {
    R size = x.re * x.re + x.im * x.im;
    return {x.re / size, -x.im / size};
}
template <class R> __device__ R size(R x) { return fabs(x); }
template <class R> __device__ R size(complex<R> x) { return fabs(x.re) + fabs(x.im); }

#if FACTOR
extern "C" __global__ void __launch_bounds__(256) NAME(const Solve p) {
    T *a = p.a_list[blockIdx.y];
    __shared__ int chosen, info;
    if (!threadIdx.x) info = 0;
    for (int k = 0; k < p.n; ++k) {
        __syncthreads();
        if (!threadIdx.x) {
            chosen = k;
            for (int i = k + 1; i < p.n && p.pivots; ++i)
                if (size(a[i + p.a_column * k]) > size(a[chosen + p.a_column * k])) chosen = i;
            if (p.pivots) p.pivots[(long long)blockIdx.y * p.n + k] = chosen + 1;
            if (is_zero(a[chosen + p.a_column * k]) && !info) info = k + 1;
        }
        __syncthreads();
        for (int j = threadIdx.x; j < p.n && chosen != k; j += 256) {
            T kept = a[k + p.a_column * j];
            a[k + p.a_column * j] = a[chosen + p.a_column * j];
            a[chosen + p.a_column * j] = kept;
        }
        __syncthreads();
        T pivot = a[k + p.a_column * k];
        for (int i = k + 1 + threadIdx.x; i < p.n && !is_zero(pivot); i += 256)
            a[i + p.a_column * k] = a[i + p.a_column * k] * inverse(pivot);
        __syncthreads();
        int left = p.n - k - 1;
        for (int e = threadIdx.x; e < left * left; e += 256) {
            int i = k + 1 + e % left, j = k + 1 + e / left;
            a[i + p.a_column * j] = a[i + p.a_column * j] + T(-1) * a[i + p.a_column * k] * a[k + p.a_column * j];
        }
    }
    __syncthreads();
    if (!threadIdx.x) p.info[blockIdx.y] = info;
}
#else
__device__ void triangular(const Solve &p, const T *a, T *b, Value alpha, int lower, int unit) {
    for (int s = 0; s < p.n; ++s) {
        int i = lower ? s : p.n - 1 - s;
        Value sum = alpha * b[p.b_row * i];
        for (int t = 0; t < s; ++t) {
            int k = lower ? t : p.n - 1 - t;
            Value of_a = a[p.a_row * i + p.a_column * k];
            sum = sum + Value(-1) * (p.conjugated ? conjugate(of_a) : of_a) * b[p.b_row * k];
        }
        Value on = a[(p.a_row + p.a_column) * i];
        b[p.b_row * i] = unit ? sum : sum * inverse(p.conjugated ? conjugate(on) : on);
    }
}

__device__ void exchange(const Solve &p, T *b, int k) {
    long long other = p.b_row * (p.pivots[(long long)blockIdx.y * p.n + k] - 1);
    T kept = b[p.b_row * k];
    b[p.b_row * k] = b[other];
    b[other] = kept;
}

extern "C" __global__ void __launch_bounds__(256) NAME(const Solve p) {
    int j = blockIdx.x * 256 + threadIdx.x;
    if (j >= p.columns) return;
    const T *a = p.a_list ? p.a_list[blockIdx.y] : p.a;
    T *b = (p.b_list ? p.b_list[blockIdx.y] : p.b) + p.b_column * j;
    Value one = Value(1);
    if (p.from_unit)
        for (int i = 0; i < p.n; ++i) b[p.b_row * i] = T(i == j);
    if (!p.factored) return triangular(p, a, b, wide(given<T>(p.alpha_at, p.alpha[0], p.alpha[1])), p.lower, p.unit);
    for (int k = 0; k < p.n && p.pivots && !p.transposed; ++k) exchange(p, b, k);
    triangular(p, a, b, one, 1, !p.transposed);  // of the transposed product U comes first, as a lower matrix
    triangular(p, a, b, one, 0, p.transposed);
    for (int k = p.n - 1; k >= 0 && p.pivots && p.transposed; --k) exchange(p, b, k);
    if (!j && p.info && p.from_unit) {
        int wrong = 0;
        for (int k = p.n - 1; k >= 0; --k)
            if (is_zero(a[(p.a_row + p.a_column) * k])) wrong = k + 1;
        p.info[blockIdx.y] = wrong;
    }
}
#endif
