// D = alpha A X + beta B, element by element, for one choice of types: T in memory, TS the scalars. Without X it is 1,
// without B it is 0; a vector is a matrix whose steps in one direction are 0.
#include "types.cuh"

struct Operand { void *first; long long row, column; };
struct Elements {
    Operand a, x, b, d;
    const void *alpha_at, *beta_at;
    u64 alpha[2], beta[2];
    int m, n, conjugated;  // bits: A, X, B
};
typedef decltype(wide(T())) Value;

__device__ T *at(const Operand &of, long long i, long long j) { return (T *)of.first + of.row * i + of.column * j; }
__device__ Value taken(const Operand &of, long long i, long long j, int conjugated) {
    Value value = wide(*at(of, i, j));
    return conjugated ? conjugate(value) : value;
}

extern "C" __global__ void __launch_bounds__(256) NAME(const Elements p) {
    Value alpha = Value(wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1])));
    Value beta = Value(wide(given<TS>(p.beta_at, p.beta[0], p.beta[1])));
    long long count = (long long)p.m * p.n, step = (long long)gridDim.x * 256;
    for (long long k = blockIdx.x * 256ll + threadIdx.x; k < count; k += step) {
        long long i = k % p.m, j = k / p.m;
        Value value = Value(0);
        if (!is_zero(alpha)) {
            value = alpha * taken(p.a, i, j, p.conjugated & 1);
            if (p.x.first) value = value * taken(p.x, i, j, p.conjugated & 2);
        }
        if (p.b.first && !is_zero(beta)) value = value + beta * taken(p.b, i, j, p.conjugated & 4);
        narrow(value, *at(p.d, i, j));
    }
}
