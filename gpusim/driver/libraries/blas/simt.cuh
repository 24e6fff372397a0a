// What threads do with multiply-adds of a block's product, TILE_M x TILE_N x TILE_K of numbers TA in memory: a thread has
// EACH x EACH sums, SLICES groups of threads share a tile's sum over k, or those of PARTS blocks, a cluster.
// The tile of A lies in shared memory by columns, that of B by rows.
constexpr int PER_SLICE = TILE_M * TILE_N / (EACH * EACH), THREADS = SLICES * PER_SLICE;
typedef decltype(wide(TA())) Factor;
constexpr int PADDING = 16 / sizeof(Factor);
template <int ROWS> constexpr int TILE_BYTES = TILE_K * (ROWS + PADDING) * sizeof(Factor);

// A thread's part of a block's tile: EACH rows and columns, in groups of four that lie side by side.
struct Product {
    static constexpr int GROUP = EACH < 4 ? EACH : 4, GROUPS = EACH / GROUP, ACROSS = TILE_N / EACH, DOWN = TILE_M / EACH;
    Factor sum[EACH][EACH];
    int slice, row0, column0;

    __device__ Product() : sum{} {
        int thread = threadIdx.x % PER_SLICE;
        slice = threadIdx.x / PER_SLICE, row0 = thread / ACROSS * GROUP, column0 = thread % ACROSS * GROUP;
    }
    // The compiler would load right before it multiplies, and wait; what is volatile stays where it is.
    __device__ static void take(Factor *to, const Factor *from) {
        if constexpr (sizeof(Factor) * GROUP == 16) {
            uint4 &words = *(uint4 *)to;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "r"((u32)__cvta_generic_to_shared(from)));
        } else {
            for (int each = 0; each < GROUP; each++) to[each] = from[each];
        }
    }
    __device__ static int place(int each, int apart) { return each / GROUP * apart * GROUP + each % GROUP; }
    __device__ void add(const char *tile_a, const char *tile_b) {
        const Factor *a = (const Factor *)tile_a + slice * (TILE_K / SLICES) * (TILE_M + PADDING) + row0;
        const Factor *b = (const Factor *)tile_b + slice * (TILE_K / SLICES) * (TILE_N + PADDING) + column0;
        Factor of_a[2][EACH], of_b[2][EACH];
#pragma unroll
        for (int k = 0; k <= TILE_K / SLICES; k++, a += TILE_M + PADDING, b += TILE_N + PADDING) {
            if (k < TILE_K / SLICES)
#pragma unroll
                for (int group = 0; group < GROUPS; group++) {
                    take(of_a[k % 2] + group * GROUP, a + place(group * GROUP, DOWN));
                    take(of_b[k % 2] + group * GROUP, b + place(group * GROUP, ACROSS));
                }
            if (k > 0)
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    for (int j = 0; j < EACH; j++)
                        sum[i][j] = sum[i][j] + of_a[(k + 1) % 2][i] * of_b[(k + 1) % 2][j];
        }
    }
    // The slices' sums become one, in order, so that it is the same each time.
    __device__ void join(char *tile) {
        Factor *other = (Factor *)tile + threadIdx.x % PER_SLICE;
        for (int from = 1; from < SLICES; from++) {
            __syncthreads();
            if (slice == from)
#pragma unroll
                for (int each = 0; each < EACH * EACH; each++) other[each * PER_SLICE] = sum[each / EACH][each % EACH];
            __syncthreads();
            if (slice == 0)
#pragma unroll
                for (int each = 0; each < EACH * EACH; each++)
                    sum[each / EACH][each % EACH] = sum[each / EACH][each % EACH] + other[each * PER_SLICE];
        }
    }
    // So do those of a cluster's blocks.
    __device__ void gather(char *tile) {
        u32 own = (u32)__cvta_generic_to_shared(tile + threadIdx.x % PER_SLICE * sizeof(Factor));
        __syncthreads();
        if (slice == 0 && blockIdx.z % PARTS > 0)
#pragma unroll
            for (int each = 0; each < EACH * EACH; each++)
                ((Factor *)tile)[each * PER_SLICE + threadIdx.x] = sum[each / EACH][each % EACH];
        meet_cluster();
        if (slice == 0 && blockIdx.z % PARTS == 0)
            for (int from = 1; from < PARTS; from++) {
                u32 there;
                asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(from));
#pragma unroll
                for (int each = 0; each < EACH * EACH; each++) {
                    float value;
                    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                        : "=f"(value) : "r"(there + each * PER_SLICE * (int)sizeof(Factor)));
                    sum[each / EACH][each % EACH] = sum[each / EACH][each % EACH] + Factor(value);
                }
            }
        meet_cluster();
    }
    template <class W> __device__ void write(W &to, int i0, int j0) {
        if (slice > 0 || blockIdx.z % PARTS > 0) return;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            for (int j = 0; j < EACH; j += 2)
                to.put(i0 + row0 + place(i, DOWN), j0 + column0 + place(j, ACROSS), {sum[i][j], sum[i][j + 1]});
    }
};
