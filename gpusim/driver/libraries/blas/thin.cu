// D = epilogue(alpha * A B + beta * C) where D has at most FEW rows, or columns (TALL): every number of the other factor is
// read once, so its way from memory is what it takes. That long factor is called w here, the thin one x. A block of 256
// threads sums for 8 of the long side, a warp each, where k is contiguous in w (`along_k`), else for as many as its lanes
// read words, and its warps, and those of the PARTS blocks of a cluster, take turns at k (`across_k`).
// `matmul_library/thin` runs it as a program.
#include "product.cuh"

#if TALL
typedef TA TW; typedef TB TX;
#else
typedef TB TW; typedef TA TX;
#endif
typedef decltype(wide(TW())) Factor;
// WAYS: warps that take turns at k; PER: numbers of a load of 16 bytes; BATCH: such loads under way at once; WORD: numbers of
// w that a lane takes across k.
constexpr int WARPS = 8, WAYS = WARPS * PARTS, PER = 16 / sizeof(TW), BATCH = 4, WORD = sizeof(TW) < 4 ? 4 / sizeof(TW) : 1;

// That of the lane whose number differs in one bit; and that of one lane, for all.
__device__ inline Factor shuffled(Factor x, int distance) {
    u32 *words = (u32 *)&x;
    for (int k = 0; k < sizeof(Factor) / 4; k++) words[k] = __shfl_xor_sync(0xffffffff, words[k], distance);
    return x;
}

__device__ inline Factor from_lane(Factor x, int lane) {
    u32 *words = (u32 *)&x;
    for (int k = 0; k < sizeof(Factor) / 4; k++) words[k] = __shfl_sync(0xffffffff, words[k], lane);
    return x;
}

#if PARTS > 1
// What lies at the same place in another block of the cluster.
__device__ inline Factor of_block(Factor *at, int rank) {
    Factor x;
    u32 there, *words = (u32 *)&x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((u32)__cvta_generic_to_shared(at)), "r"(rank));
    for (int k = 0; k < sizeof(Factor) / 4; k++)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(words[k]) : "r"(there + 4 * k) : "memory");
    return x;
}
#define CLUSTER __cluster_dims__(1, 1, PARTS)
#else
__device__ inline Factor of_block(Factor *at, int) { return *at; }
#define CLUSTER
#endif

struct Thin {
    const TW *w;
    const TX *x;
    const Operand &of_w, &of_x;
    int length, few, ks, conjugate_w, conjugate_x;

    __device__ Factor taken(const TX *at) { Factor value = wide(*at); return conjugate_x ? conjugate(value) : value; }
    __device__ Factor kept(TW held) { Factor value = wide(held); return conjugate_w ? conjugate(value) : value; }

    // One of the long side, whose numbers lie side by side; lanes take chunks of 16 bytes, four at a time.
    __device__ void along_k(Factor sum[FEW], int at) {
        const TW *row = w + of_w.row * at;
        bool whole = (((u64)w | of_w.row * sizeof(TW) | (u64)x | of_x.row * sizeof(TX)) & 15) == 0;
        int k = threadIdx.x % 32 * PER;
        if (sizeof(TX) == sizeof(TW) && whole && of_x.k == 1) {
            for (; k + (BATCH - 1) * 32 * PER + PER <= ks; k += BATCH * 32 * PER) batch<BATCH>(sum, row, k);
            for (; k + PER <= ks; k += 32 * PER) batch<1>(sum, row, k);
        }
        for (; k < ks; k += 32 * PER)
            for (int each = k; each < k + PER && each < ks; each++)
#pragma unroll
                for (int n = 0; n < FEW; n++)
                    if (n < few) sum[n] = sum[n] + kept(row[each]) * taken(x + of_x.row * n + of_x.k * each);
#pragma unroll
        for (int n = 0; n < FEW; n++)
            for (int distance = 16; distance > 0; distance /= 2) sum[n] = sum[n] + shuffled(sum[n], distance);
    }
    // MANY chunks of a lane, all of which are asked for before the first is used.
    template <int MANY> __device__ void batch(Factor sum[FEW], const TW *row, int k) {
        uint4 of_row[MANY], beside[MANY][FEW];
#pragma unroll
        for (int m = 0; m < MANY; m++) {
            of_row[m] = *(const uint4 *)(row + k + m * 32 * PER);
#pragma unroll
            for (int n = 0; n < FEW; n++) beside[m][n] = *(const uint4 *)(x + of_x.row * (n < few ? n : 0) + k + m * 32 * PER);
        }
#pragma unroll
        for (int m = 0; m < MANY; m++)
            for (int each = 0; each < PER; each++)
                for (int n = 0; n < FEW; n++)
                    sum[n] = sum[n] + kept(((const TW *)&of_row[m])[each]) * taken((const TX *)&beside[m][n] + each);
    }
    // A word's numbers of the long side, for one k of WAYS: lanes load the others' numbers for 32 of them.
    __device__ void across_k(Factor sum[WORD][FEW], int at) {
        int lane = threadIdx.x % 32;
        for (int first = threadIdx.x / 32 + blockIdx.z % PARTS * WARPS; first < ks; first += 32 * WAYS) {
            int own = first + lane * WAYS;
            Factor held[FEW];
#pragma unroll
            for (int n = 0; n < FEW; n++)
                held[n] = own < ks && n < few ? taken(x + of_x.row * n + of_x.k * own) : Factor(0);
            for (int step = 0; step < 32 && first + step * WAYS < ks; step += 8) {
                TW words[8][WORD];
#pragma unroll
                for (int each = 0; each < 8; each++) {
                    int k = first + (step + each) * WAYS;
                    for (int word = 0; word < WORD; word++)
                        words[each][word] = k < ks && at + word < length ? w[of_w.k * k + of_w.row * (at + word)] : TW();
                }
#pragma unroll
                for (int each = 0; each < 8; each++)
                    for (int n = 0; n < FEW; n++) {
                        Factor value = from_lane(held[n], step + each);
                        for (int word = 0; word < WORD; word++) sum[word][n] = sum[word][n] + kept(words[each][word]) * value;
                    }
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS) CLUSTER NAME(const Gemm p) {
    __shared__ Factor parts[WARPS][WORD * FEW][32];
    Scalar alpha = wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]));
    Scalar beta = wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, ks = is_zero(alpha) ? 0 : p.k;
    for (int batch = blockIdx.z / PARTS; batch < p.batches; batch += gridDim.z / PARTS) {
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
            Factor all = parts[0][each][lane];
            for (int from = 1; from < WARPS; from++) all = all + parts[from][each][lane];
            if (PARTS > 1) parts[0][each][lane] = all;
            else if (place < thin.length && n < thin.few) TALL ? writer.put(place, n, all) : writer.put(n, place, all);
        }
        if (PARTS > 1) meet_cluster();
        for (int each = warp; PARTS > 1 && blockIdx.z % PARTS == 0 && each < WORD * FEW; each += WARPS) {
            int place = at + each / FEW, n = each % FEW;
            if (place >= thin.length || n >= thin.few) continue;
            Factor all = Factor(0);
            for (int from = 0; from < PARTS; from++) all = all + of_block(&parts[0][each][lane], from);
            TALL ? writer.put(place, n, all) : writer.put(n, place, all);
        }
        if (PARTS > 1) meet_cluster();
        __syncthreads();
    }
}
