// y = alpha * op(A) x + beta * y, and with one row and another place for the result a dot product, for one choice of
// types: T in memory, TS the scalars. Each block has `rows` rows, whose sums `256 / rows` threads share.
#include "types.cuh"

struct Gemv {
    const void *a, *x;
    void *y;
    const void *alpha_at, *beta_at;
    u64 alpha[2], beta[2];
    long long a_row, a_column, x_step, y_step, a_batch, x_batch, y_batch;
    int m, n, rows, conjugate_a;
};
typedef decltype(wide(TS())) Scalar;

template <class X> __device__ Scalar product(X x, X y) { return Scalar(x) * Scalar(y); }

extern "C" __global__ void __launch_bounds__(256) NAME(const Gemv p) {
    __shared__ Scalar sums[256];
    Scalar alpha = wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]));
    Scalar beta = wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    const T *a = (const T *)p.a + p.a_batch * blockIdx.y, *x = (const T *)p.x + p.x_batch * blockIdx.y;
    T *y = (T *)p.y + p.y_batch * blockIdx.y;
    // Threads that follow each other take what does in A.
    bool down = p.a_row == 1 && p.rows > 1;
    int sharing = 256 / p.rows, step = down ? p.rows : 1;
    int row = down ? threadIdx.x % p.rows : threadIdx.x / sharing;
    int part = down ? threadIdx.x / p.rows : threadIdx.x % sharing;
    long long i = (long long)blockIdx.x * p.rows + row;
    Scalar sum = Scalar(0);
    if (i < p.m && !is_zero(alpha))
        for (long long j = part; j < p.n; j += sharing) {
            auto of_a = wide(a[p.a_row * i + p.a_column * j]);
            sum = sum + product(p.conjugate_a ? conjugate(of_a) : of_a, wide(x[p.x_step * j]));
        }
    sums[threadIdx.x] = sum;
    for (int left = sharing / 2; left; left /= 2) {
        __syncthreads();
        if (part < left) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + left * step];
    }
    if (part || i >= p.m) return;
    T *to = y + p.y_step * i;
    Scalar value = alpha * sums[threadIdx.x];
    narrow(is_zero(beta) ? value : value + beta * Scalar(wide(*to)), *to);
}
