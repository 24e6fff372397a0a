// Copies a factor, or both, to where bulk copies can take it: k along rows, each of which begins at a multiple of 16 bytes.
// A block takes 32 rows and 64 of k, SIZE bytes each, and turns them where k runs across what lies together.
#include "types.cuh"

#if SIZE == 1
typedef unsigned char T;
#elif SIZE == 2
typedef unsigned short T;
#else
typedef u32 T;
#endif
struct Pack { const T *from; long long row, k, batch; T *to; long long pitch, far; int rows, ks, batches, pad; };
struct Both { Pack of[2]; };

extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Both both) {
    int second = (int)blockIdx.z >= both.of[0].batches, batch = blockIdx.z - second * both.of[0].batches;
    const Pack &p = both.of[second];
    __shared__ T tile[32][65];
    constexpr int EACH = 32 * 64 / 256;
    const T *from = p.from + p.batch * batch;
    int first = blockIdx.y * 32, k0 = blockIdx.x * 64;
    if (first >= p.rows) return;
    bool along = p.k == 1;
    T held[EACH];
    for (int turn = 0; turn < 2; turn++) {
#pragma unroll
        for (int each = 0; each < EACH; each++) {
            int at = each * 256 + threadIdx.x, row = along || turn ? at / 64 : at % 32, k = along || turn ? at % 64 : at / 32;
            if (turn) held[each] = tile[row][k];
            else if (first + row < p.rows && k0 + k < p.ks) held[each] = from[p.row * (first + row) + p.k * (k0 + k)];
        }
#pragma unroll
        for (int each = 0; each < EACH; each++) {
            int at = each * 256 + threadIdx.x, row = along || turn ? at / 64 : at % 32, k = along || turn ? at % 64 : at / 32;
            if (!turn) tile[row][k] = held[each];
            else if (first + row < p.rows && k0 + k < p.ks)
                p.to[p.far * batch + p.pitch * (first + row) + k0 + k] = held[each];
        }
        __syncthreads();
    }
}
