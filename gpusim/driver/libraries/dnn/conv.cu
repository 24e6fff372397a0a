// out[channel, free] = alpha * sum over red of plain[channel, red] * image[free, red] + beta * out + bias, for each group of
// channels. Forward and for the gradient of the image, free are places of what comes out, red those of the filter, and
// plain is the filter; for the filter's gradient, free are its places, red those of the gradient that is given, which is
// plain. Where image has nothing (padding), it is 0; no image is ever unrolled in memory.
// T is the type in memory, NAME the kernel, DIMS the dimensions of space, 2 or 3. MODE: TILES, products of tiles, TILE_M x
// TILE_N, by tensor cores (TENSOR) or by multiply-adds (EACH, SLICES: simt.cuh), where rows are channels, or those of image
// (IMAGE_ROWS); of an operand, lanes follow each other along k or along rows (IMAGE_ALONG_K, PLAIN_ALONG_K), and each loads
// IMAGE_WIDTH, PLAIN_WIDTH elements at once. JOIN adds the parts of sums that were shared between blocks. THREADS_EACH has
// a thread for each element of a few channels, BLOCKS_EACH a block.
#include "types.cuh"
#include "cluster.cuh"

#define TILES 0
#define JOIN 1
#define THREADS_EACH 2
#define BLOCKS_EACH 3
constexpr int OUTSIDE = -(1 << 29);

// A number's digit, and what each unit of it adds to a place. Division by its size, of numbers below 2^31, is by
// multiplication (Granlund, Montgomery: Division by Invariant Integers using Multiplication, 1994).
struct Digit { u32 size, magic; int shift, image, other, x, y, z; };
struct Index { Digit digits[4]; int count, image, other, x, y, z; };  // the fastest digit comes first
struct Conv {
    const void *plain, *image, *added, *bias;
    void *out;
    float *sums;         // of parts, each of `span` elements
    int span, parts;     // parts of a sum over red
    int phases, groups, channels;
    int plain_channel, plain_group, image_group, out_channel, out_group;  // distances in elements
    int x, y, z;         // extents of image
    int relu;
    double alpha, beta;
    Index free[8], red[8];  // of each phase: places whose sums have the same part of the filter
};
typedef decltype(wide(T())) Sum;

// A place's part of an element's distance in image and in plain or out, and of its coordinates there. Outside if y is.
struct alignas(16) Place {
    int image, other, x, y;
#if DIMS == 3
    int z;
#endif
    __device__ bool there() const { return y > OUTSIDE / 2; }
    __device__ bool meets(const Place &other, int extent_x, int extent_y, int extent_z) const {
        bool inside = ((u32)(x + other.x) < extent_x) & ((u32)(y + other.y) < extent_y);
#if DIMS == 3
        inside &= (u32)(z + other.z) < extent_z;
#endif
        return inside;
    }
};
__device__ inline Place place(const Index &of, u32 number) {
    Place found;
    found.image = of.image, found.other = of.other, found.x = of.x, found.y = of.y;
#if DIMS == 3
    found.z = of.z;
#endif
    if (number >= of.count) {
        found.y = OUTSIDE;
        return found;
    }
#pragma unroll
    for (int each = 0; each <= DIMS; each++) {
        const Digit &digit = of.digits[each];
        u32 rest = each < DIMS ? (__umulhi(number, digit.magic) + number) >> digit.shift : 0;
        int value = number - rest * digit.size;
        found.image += value * digit.image, found.other += value * digit.other;
        found.x += value * digit.x, found.y += value * digit.y;
#if DIMS == 3
        found.z += value * digit.z;
#endif
        number = rest;
    }
    return found;
}
// What becomes of a sum.
struct Finish {
    Sum alpha, beta;
    const T *added, *bias;
    T *out;
    bool relu;

    __device__ Finish(const Conv &p) : alpha(p.alpha), beta(p.beta), relu(p.relu) {
        added = (const T *)p.added, bias = (const T *)p.bias, out = (T *)p.out;
    }
    __device__ void put(Sum sum, int channel, int at) const {
        Sum x = alpha * sum;
        if (beta != 0) x += beta * wide(added[at]);
        if (bias) x += wide(bias[channel]);
        narrow(relu && x < 0 ? 0 : x, out[at]);  // NaN stays
    }
};

#if MODE == TILES
typedef T TA;
#if TENSOR
constexpr int BYTES_K = SLICES * 64, TILE_K = BYTES_K / sizeof(T), WARP_M = TILE_M / 2, WARP_N = 32, THREADS = 2 * TILE_N;
#else
constexpr int TILE_K = SLICES * 64 / sizeof(T), PARTS = 1;
#include "simt.cuh"
#endif
constexpr int TILE_FREE = IMAGE_ROWS ? TILE_M : TILE_N, TILE_CHANNELS = IMAGE_ROWS ? TILE_N : TILE_M;

// What lies at an address, or zeros. Volatile, so that all loads of a tile are on their way before one is waited for.
#define LOAD(TYPE, LAST, KIND, ...)                                                                                   \
    __device__ inline void load(TYPE &to, const void *at, bool there) {                                               \
        to = TYPE();                                                                                                  \
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #LAST ", 0;\n @p ld.global." KIND ";\n}"                  \
            : __VA_ARGS__ : "l"(at), "r"((int)there));                                                                \
    }
typedef unsigned short u16;
LOAD(u16, 2, "u16 %0, [%1]", "+h"(to))
LOAD(u32, 2, "u32 %0, [%1]", "+r"(to))
LOAD(uint2, 3, "v2.u32 {%0, %1}, [%2]", "+r"(to.x), "+r"(to.y))
LOAD(uint4, 5, "v4.u32 {%0, %1, %2, %3}, [%4]", "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w))
template <int BYTES> struct Bytes { typedef uint4 type; };
template <> struct Bytes<2> { typedef u16 type; };
template <> struct Bytes<4> { typedef u32 type; };
template <> struct Bytes<8> { typedef uint2 type; };

// A tile's place in shared memory. Multiply-adds take columns. Tensor cores take tiles as they came, either way so that
// what a warp loads lies in different banks.
template <int ROWS, bool ALONG_K> struct Layout {
#if TENSOR
    static constexpr int K = ALONG_K ? sizeof(T) : ROWS * sizeof(T) + (sizeof(T) == 4 ? 32 : 16);
    static constexpr int ROW = ALONG_K ? BYTES_K + 16 : sizeof(T), BYTES = ALONG_K ? ROWS * ROW : TILE_K * K;
#else
    static constexpr int ROW = sizeof(Factor), K = (ROWS + PADDING) * ROW, BYTES = TILE_K * K;
#endif
};

// A tile of an operand on its way, in chunks of WIDTH elements.
template <bool IMAGE, int ROWS, bool ALONG_K, int WIDTH> struct Fetched {
    static constexpr int COUNT = ROWS * TILE_K / WIDTH / THREADS;
    // Lanes that follow each other along k; what multiply-adds take is written across, so few do, of one sector.
    static constexpr u32 LANES = TENSOR ? TILE_K / WIDTH : WIDTH < 8 ? 8 / WIDTH : 1;
    static_assert(COUNT * WIDTH * THREADS == ROWS * TILE_K, "whole chunks for each thread");
    typedef typename Bytes<WIDTH * sizeof(T)>::type Chunk;
    typedef Layout<ROWS, ALONG_K> Tile;
    Chunk held[COUNT];

    __device__ static int row(int number) {
        u32 chunk = number * THREADS + threadIdx.x;
        return ALONG_K ? chunk / LANES % ROWS : chunk % (ROWS / WIDTH) * WIDTH;
    }
    __device__ static int k(int number) {
        u32 chunk = number * THREADS + threadIdx.x;
        return ALONG_K ? (chunk % LANES + chunk / (LANES * ROWS) * LANES) * WIDTH : chunk / (ROWS / WIDTH);
    }
    __device__ void fetch(const T *data, const Conv &p, const Place *rows, const Place *ks, int channel0) {
        int x = p.x, y = p.y, z = p.z, channels = p.channels, step = p.plain_channel, at[COUNT];
        bool there[COUNT];
#pragma unroll
        for (int number = 0; number < COUNT; number++) {
            const Place &at_k = ks[k(number)], &at_row = rows[IMAGE ? row(number) : 0];
            int channel = channel0 + row(number);
            there[number] = IMAGE ? at_row.meets(at_k, x, y, z) : (channel < channels) & at_k.there();
            at[number] = IMAGE ? at_row.image + at_k.image : channel * step + at_k.other;
        }
#pragma unroll
        for (int number = 0; number < COUNT; number++) load(held[number], data + at[number], there[number]);
    }
    __device__ void store(char *tile) {
#pragma unroll
        for (int number = 0; number < COUNT; number++) {
            char *to = tile + row(number) * Tile::ROW + k(number) * Tile::K;
#if TENSOR
            if (sizeof(T) == 4)
                for (int each = 0; each < WIDTH; each++) {
                    u32 &word = ((u32 *)&held[number])[each];
                    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(__uint_as_float(word)));
                }
            *(Chunk *)to = held[number];
#else
            for (int each = 0; each < WIDTH; each++)
                *(Factor *)(to + each * (ALONG_K ? Tile::K : Tile::ROW)) = wide(((const T *)&held[number])[each]);
#endif
        }
    }
};
typedef Fetched<true, TILE_FREE, IMAGE_ALONG_K, IMAGE_WIDTH> Image;
typedef Fetched<false, TILE_CHANNELS, PLAIN_ALONG_K, PLAIN_WIDTH> Plain;

#if TENSOR
#define MMA(SHAPE, OF)                                                                                                \
    asm("mma.sync.aligned." SHAPE ".row.col.f32." OF "." OF ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "     \
        "{%0, %1, %2, %3};"                                                                                           \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], f16) { MMA("m16n8k16", "f16"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], bf16) { MMA("m16n8k16", "bf16"); }
__device__ inline void mma(float d[4], u32 a[4], u32 b[2], tf32) { MMA("m16n8k8", "tf32"); }

#include "fragments.cuh"
struct Product : Fragments<float> {
    static constexpr int STEP = 32 / sizeof(T);

    // 16 rows and 32 bytes of k: words of the rows' halves for the first 16 bytes, then for the others; of B (BY_K), words
    // of both 16 bytes for the first 8 rows, then for the others.
    template <class Tile, bool ALONG_K, bool BY_K> __device__ void load(u32 words[4], const char *tile, int row, int k) {
        if (sizeof(T) == 4) {
#pragma unroll
            for (int part = 0; part < 4; part++) {
                int of_k = BY_K ? part % 2 : part / 2, of_row = BY_K ? part / 2 : part % 2;
                words[part] = *(const u32 *)(tile + (row + group + 8 * of_row) * Tile::ROW + (k + lane + 4 * of_k) * Tile::K);
            }
            return;
        }
        int number = threadIdx.x % 32, of_k = BY_K ? number / 8 % 2 : number / 16, of_row = BY_K ? number / 16 : number / 8 % 2;
        int in_row = 8 * of_row + (ALONG_K ? number % 8 : 0), in_k = 8 * of_k + (ALONG_K ? 0 : number % 8);
        u32 at = (u32)__cvta_generic_to_shared(tile + (row + in_row) * Tile::ROW + (k + in_k) * Tile::K);
        if (ALONG_K)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
        else
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
    }
    __device__ void add(const char *tile_a, const char *tile_b) {
        constexpr bool A_ALONG_K = IMAGE_ROWS ? IMAGE_ALONG_K : PLAIN_ALONG_K;
        constexpr bool B_ALONG_K = IMAGE_ROWS ? PLAIN_ALONG_K : IMAGE_ALONG_K;
#pragma unroll
        for (int k = 0; k < TILE_K; k += STEP) {
            u32 a[M][4], b[N / 2][4];
#pragma unroll
            for (int i = 0; i < M; i++) load<Layout<TILE_M, A_ALONG_K>, A_ALONG_K, false>(a[i], tile_a, row0 + 16 * i, k);
#pragma unroll
            for (int j = 0; j < N / 2; j++)
                load<Layout<TILE_N, B_ALONG_K>, B_ALONG_K, true>(b[j], tile_b, column0 + 16 * j, k);
#pragma unroll
            for (int i = 0; i < M; i++)
                for (int j = 0; j < N; j++) mma(sum[i][j], a[i], b[j / 2] + j % 2 * 2, T());
        }
    }
};
#endif

struct Writer {
    const Finish to;
    const Place *free;                              // of the tile
    int channel0, channels, step, base, first;  // base: distance of the group; first: number of its first channel
    float *sums;

    __device__ void put(int i, int j, Sum sum) {
        const Place &place = free[IMAGE_ROWS ? i : j];
        int channel = channel0 + (IMAGE_ROWS ? j : i), at = base + channel * step + place.other;
        if (!place.there() || channel >= channels) return;
        if (sums) sums[at] = sum;
        else to.put(sum, first + channel, at);
    }
    __device__ void put(int i, int j, const Sum (&pair)[2]) { put(i, j, pair[0]), put(i, j + 1, pair[1]); }
};

extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ Conv p) {
    constexpr int BYTES_IMAGE = Image::Tile::BYTES, BYTES = BYTES_IMAGE + Plain::Tile::BYTES;
    constexpr bool TWO = 2 * BYTES + (TILE_FREE + THREADS) * sizeof(Place) <= 48 << 10;  // tiles of each
    __shared__ __align__(16) char tiles[TWO ? 2 * BYTES : BYTES];
    __shared__ Place rows[TILE_FREE], ks[THREADS];
    int part = blockIdx.z % p.parts, group = blockIdx.z / p.parts % p.groups, phase = blockIdx.z / p.parts / p.groups;
    const Index &free = p.free[phase], &red = p.red[phase];
    int free0 = blockIdx.x * TILE_FREE, channel0 = blockIdx.y * TILE_CHANNELS;
    if (free0 >= free.count) return;
    int steps = ((red.count + TILE_K - 1) / TILE_K + p.parts - 1) / p.parts;  // of a part
    int start = part * steps * TILE_K, end = red.count < start + steps * TILE_K ? red.count : start + steps * TILE_K;
    for (int row = threadIdx.x; row < TILE_FREE; row += THREADS) rows[row] = place(free, free0 + row);
    const T *data = (const T *)p.image + group * p.image_group, *plain = (const T *)p.plain + group * p.plain_group;
    Image next_image;
    Plain next_plain;
    Product product;
    char *tile = tiles, *other = tiles + (TWO ? BYTES : 0);
    for (int k0 = start - TILE_K; k0 < end; k0 += TILE_K) {
        bool more = k0 + TILE_K < end;
        int next = (k0 + TILE_K - start) % THREADS;
        if (more && next == 0) {  // places for some steps
            ks[threadIdx.x] = place(red, k0 + TILE_K + threadIdx.x);
            __syncthreads();
        }
        if (more) next_image.fetch(data, p, rows, ks + next, 0), next_plain.fetch(plain, p, rows, ks + next, channel0);
        if (k0 >= start) product.add(IMAGE_ROWS ? tile : tile + BYTES_IMAGE, IMAGE_ROWS ? tile + BYTES_IMAGE : tile);
        if (!TWO) __syncthreads();
        if (more) next_image.store(other), next_plain.store(other + BYTES_IMAGE);
        __syncthreads();
        char *done = tile;
        tile = other, other = done;
    }
#if !TENSOR
    product.join(tiles);
#endif
    float *sums = p.parts > 1 ? p.sums + (long long)part * p.span : 0;
    Writer writer{Finish(p), rows, channel0, p.channels, p.out_channel, group * p.out_group, group * p.channels, sums};
    product.write(writer, 0, 0);
}

#elif MODE == JOIN
extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    int at = blockIdx.x * 256 + threadIdx.x;
    if (at >= p.span) return;
    float sum = 0;
    for (int part = 0; part < p.parts; part++) sum += p.sums[(long long)part * p.span + at];
    Finish(p).put(sum, 0, at);
}

#else
// The element of a channel, counted over all groups, at a free place: first those that follow each other in memory.
__device__ inline Sum element(const Conv &p, int phase, int channel, const Place &free, int first, int step) {
    const Index &red = p.red[phase];
    int group = channel / p.channels;
    const T *image = (const T *)p.image + group * p.image_group + free.image;
    const T *plain = (const T *)p.plain + group * p.plain_group + channel % p.channels * p.plain_channel;
    Sum sum = 0;
    for (int k = first; k < red.count; k += step) {
        Place at = place(red, k);
        if (free.meets(at, p.x, p.y, p.z)) sum += wide(plain[at.other]) * wide(image[at.image]);
    }
    return sum;
}
extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    int phase = blockIdx.z, channels = p.groups * p.channels, count = p.free[phase].count;
    u32 number = MODE == THREADS_EACH ? blockIdx.x * 256 + threadIdx.x : blockIdx.x;
    if (number >= (u32)channels * count) return;
    int channel = CHANNELS_FIRST ? number % channels : number / count;
    Place free = place(p.free[phase], CHANNELS_FIRST ? number / channels : number % count);
    bool whole = MODE == THREADS_EACH;
    Sum sum = element(p, phase, channel, free, whole ? 0 : threadIdx.x, whole ? 1 : 256);
#if MODE == BLOCKS_EACH
    __shared__ Sum sums[256];
    sums[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x > 0) return;
    sum = sums[0];
#endif
    Finish(p).put(sum, channel, channel / p.channels * p.out_group + channel % p.channels * p.out_channel + free.other);
}
#endif
