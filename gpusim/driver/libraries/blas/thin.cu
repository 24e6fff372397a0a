// D = epilogue(alpha * A B + beta * C) where D has at most FEW rows, or columns (TALL): every number of the other factor is
// read once, so its way from memory is what it takes. A block of 256 threads sums for 8 of the long side, a warp each,
// where k is contiguous there, else for as many as its lanes read words, and its warps take turns at k.
#include "product.cuh"

#if TALL
typedef TA TW; typedef TB TX;
#else
typedef TB TW; typedef TA TX;
#endif
typedef decltype(wide(TW())) Factor;
constexpr int WARPS = 8, PER = 16 / sizeof(TW), WORD = sizeof(TW) < 4 ? 4 / sizeof(TW) : 1;

__device__ inline Factor shuffled(Factor x, int distance) {
    u32 *words = (u32 *)&x;
    for (int k = 0; k < sizeof(Factor) / 4; k++) words[k] = __shfl_xor_sync(0xffffffff, words[k], distance);
    return x;
}

struct Thin {
    const TW *w;
    const TX *x;
    const Operand &of_w, &of_x;
    int length, few, ks, conjugate_w, conjugate_x;

    __device__ Factor taken(const TX *at) { Factor value = wide(*at); return conjugate_x ? conjugate(value) : value; }
    __device__ Factor kept(TW held) { Factor value = wide(held); return conjugate_w ? conjugate(value) : value; }

    // One of the long side, whose numbers lie side by side; lanes take chunks of 16 bytes.
    __device__ void along_k(Factor sum[FEW], int at) {
        const TW *row = w + of_w.row * at;
        bool whole = ((u64)row & 15) == 0;
        int lane = threadIdx.x % 32;
#pragma unroll 4
        for (int k = lane * PER; k < ks; k += 32 * PER) {
            uint4 chunk;
            TW *held = (TW *)&chunk;
            if (whole && k + PER <= ks) chunk = *(const uint4 *)(row + k);
            else
#pragma unroll
                for (int each = 0; each < PER; each++)
                    if (k + each < ks) held[each] = row[k + each];
#pragma unroll
            for (int each = 0; each < PER; each++)
                if (k + each < ks)
#pragma unroll
                    for (int n = 0; n < FEW; n++)
                        if (n < few) sum[n] = sum[n] + kept(held[each]) * taken(x + of_x.row * n + of_x.k * (k + each));
        }
        for (int n = 0; n < FEW; n++)
            for (int distance = 16; distance > 0; distance /= 2) sum[n] = sum[n] + shuffled(sum[n], distance);
    }
    // A word's numbers of the long side, for every eighth k.
    __device__ void across_k(Factor sum[WORD][FEW], int at) {
#pragma unroll 8
        for (int k = threadIdx.x / 32; k < ks; k += WARPS) {
            const TW *from = w + of_w.k * k + at;
#pragma unroll
            for (int n = 0; n < FEW; n++) {
                if (n >= few) continue;
                Factor value = taken(x + of_x.row * n + of_x.k * k);
#pragma unroll
                for (int each = 0; each < WORD; each++)
                    if (at + each < length) sum[each][n] = sum[each][n] + kept(from[each * of_w.row]) * value;
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS) NAME(const Gemm p) {
    __shared__ Factor parts[WARPS][WORD * FEW][32];
    Scalar alpha = wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]));
    Scalar beta = wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, ks = is_zero(alpha) ? 0 : p.k;
    for (int batch = blockIdx.z; batch < p.batches; batch += gridDim.z) {
        const TA *a = of_batch<const TA>(p.a.data, p.a.batch, batch, p.pointers);
        const TB *b = of_batch<const TB>(p.b.data, p.b.batch, batch, p.pointers);
#if TALL
        Thin thin{a, b, p.a, p.b, p.m, p.n, ks, p.conjugate_a, p.conjugate_b};
#else
        Thin thin{b, a, p.b, p.a, p.n, p.m, ks, p.conjugate_b, p.conjugate_a};
#endif
        Writer writer(p, batch, alpha, beta);
        if (thin.of_w.k == 1) {
            int at = blockIdx.x * WARPS + warp;
            Factor sum[FEW] = {};
            if (at >= thin.length) continue;
            thin.along_k(sum, at);
#pragma unroll
            for (int n = 0; n < FEW; n++)
                if (n < thin.few && lane == n) TALL ? writer.put(at, n, sum[n]) : writer.put(n, at, sum[n]);
            continue;
        }
        int at = (blockIdx.x * 32 + lane) * WORD;
        Factor sum[WORD][FEW] = {};
        thin.across_k(sum, at);
        for (int each = 0; each < WORD * FEW; each++) parts[warp][each][lane] = sum[each / FEW][each % FEW];
        __syncthreads();
        for (int each = warp; each < WORD * FEW; each += WARPS) {
            int place = at + each / FEW, n = each % FEW;
            if (place >= thin.length || n >= thin.few) continue;
            Factor all = parts[0][each][lane];
            for (int from = 1; from < WARPS; from++) all = all + parts[from][each][lane];
            TALL ? writer.put(place, n, all) : writer.put(n, place, all);
        }
        __syncthreads();
    }
}
