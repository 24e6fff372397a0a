// out[channel, free] = alpha * sum over red of plain[channel, red] * image[free, red] + beta * out + bias, for each group of
// channels. Forward and for the gradient of the image, free are places of what comes out, red those of the filter, and
// plain is the filter; for the filter's gradient, free are its places, red those of the gradient that is given, which is
// plain. Where image has nothing (padding), it is 0; no image is ever unrolled in memory.
// T is the type in memory, NAME the kernel, DIMS the dimensions of space, 2 or 3. MODE: TILES, products of tiles, TILE_M x
// TILE_N, by multiply-adds (EACH, SLICES: simt.cuh), where rows are channels, or those of image (IMAGE_ROWS); of an operand,
// lanes follow each other along k or along rows (IMAGE_ALONG_K, PLAIN_ALONG_K), and each loads IMAGE_WIDTH, PLAIN_WIDTH
// elements at once. JOIN adds the parts of sums that were shared between blocks. FEW is for a few channels. GROUPED, where channels lie together and groups have one or four (GROUP), has a
// thread for four channels of a place or, of a filter's gradient (OF_FILTER), 32 threads.
#include "../dnn/conv.cuh"
#include "cluster.cuh"

#define TILES 0
#define JOIN 1
#define FEW 2
#define GROUPED 3

#if MODE == TILES
typedef T TA;
constexpr int TILE_K = SLICES * 64 / sizeof(T), PARTS = 1;
#include "simt.cuh"
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

// A tile's place in shared memory: multiply-adds take columns.
template <int ROWS> struct Layout {
    static constexpr int ROW = sizeof(Factor), K = (ROWS + PADDING) * ROW, BYTES = TILE_K * K;
};

// A tile of an operand on its way, in chunks of WIDTH elements.
template <bool IMAGE, int ROWS, bool ALONG_K, int WIDTH> struct Fetched {
    static constexpr int COUNT = ROWS * TILE_K / WIDTH / THREADS;
    // Lanes that follow each other along k: few, of one sector, since what they bring is written across.
    static constexpr u32 LANES = WIDTH < 8 ? 8 / WIDTH : 1;
    static_assert(COUNT * WIDTH * THREADS == ROWS * TILE_K, "whole chunks for each thread");
    typedef typename Bytes<WIDTH * sizeof(T)>::type Chunk;
    typedef Layout<ROWS> Tile;
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
            for (int each = 0; each < WIDTH; each++)
                *(Factor *)(to + each * (ALONG_K ? Tile::K : Tile::ROW)) = wide(((const T *)&held[number])[each]);
        }
    }
};
typedef Fetched<true, TILE_FREE, IMAGE_ALONG_K, IMAGE_WIDTH> Image;
typedef Fetched<false, TILE_CHANNELS, PLAIN_ALONG_K, PLAIN_WIDTH> Plain;

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
    __syncthreads();
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
    product.join(tiles);
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

#elif MODE == GROUPED
struct alignas(4 * sizeof(T)) Four { T of[4]; };
constexpr int LANES = 8, ROWS = 32, WIDE = 4 * LANES;  // of a block: channels' fours, and places or parts of a sum
constexpr int EACH = OF_FILTER ? GROUP : 4, PLACES = OF_FILTER ? GROUP : ROWS * EACH;

extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    constexpr int KEPT = OF_FILTER ? 256 : 32;  // of red, whose places are kept
    __shared__ Place ks[KEPT], places[PLACES];
    __shared__ __align__(16) Sum plains[OF_FILTER ? 1 : KEPT][WIDE], sums[OF_FILTER ? ROWS : 1][EACH][WIDE];
    int t = threadIdx.x, lane = t % LANES, row = t / LANES, part = blockIdx.z % p.parts, phase = blockIdx.z / p.parts;
    int channel0 = blockIdx.y * WIDE, channel = channel0 + 4 * lane, channels = p.groups * GROUP;
    const Index &red = p.red[phase];
    if (t < PLACES) places[t] = place(p.free[phase], blockIdx.x * PLACES + t);
    int share = (red.count + p.parts - 1) / p.parts, first = part * share, last = min(red.count, first + share);
    __syncthreads();
    Place free[EACH];
#pragma unroll
    for (int each = 0; each < EACH; each++) {
        free[each] = places[OF_FILTER ? 0 : row + each * ROWS];
        if (channel >= channels) free[each].y = OUTSIDE;
    }
    const T *image = (const T *)p.image + channel, *plain = (const T *)p.plain;
    Sum sum[EACH][4] = {};
    for (int k0 = first; k0 < last; k0 += KEPT) {
        int count = min(last - k0, KEPT);
        if (k0 > first) __syncthreads();
        if (t < count) ks[t] = place(red, k0 + t);
        __syncthreads();
        if (!OF_FILTER) {
            for (int at = t; at < count * WIDE; at += 256) {
                int of = channel0 + at % WIDE, from = of / GROUP * p.plain_group + of % GROUP * p.plain_channel;
                plains[at / WIDE][at % WIDE] = of < channels ? wide(plain[from + ks[at / WIDE].other]) : 0;
            }
            __syncthreads();
#pragma unroll 2
            for (int k = 0; k < count; k += GROUP) {
                Place at = ks[k];
                Four of[EACH] = {};
#pragma unroll
                for (int each = 0; each < EACH; each++)
                    if (free[each].meets(at, p.x, p.y, p.z)) of[each] = *(const Four *)(image + (free[each].image + at.image));
#pragma unroll
                for (int i = 0; i < 4 * GROUP; i++) {
                    Sum factor = plains[k + i / 4][4 * lane + i % 4];
#pragma unroll
                    for (int each = 0; each < EACH; each++)
                        sum[each][i % 4] += wide(of[each].of[GROUP == 1 ? i : i / 4]) * factor;
                }
            }
        } else {
#pragma unroll 4
            for (int k = row; k < count; k += ROWS) {
                Place at = ks[k];
                Four of = {}, other = {};
                if (free[0].meets(at, p.x, p.y, p.z)) of = *(const Four *)(image + (free[0].image + at.image));
                if (channel < channels) other = *(const Four *)(plain + (channel + at.other));
#pragma unroll
                for (int i = 0; i < 4 * GROUP; i++)
                    sum[i / 4][i % 4] += wide(of.of[GROUP == 1 ? i : i / 4]) * wide(other.of[i % 4]);
            }
        }
    }
    Finish finish(p);
    if (!OF_FILTER) {
#pragma unroll
        for (int each = 0; each < EACH; each++)
            if (free[each].there()) finish.put(sum[each], channel, channel + free[each].other, true);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4 * EACH; i++) sums[row][i / 4][4 * lane + i % 4] = sum[i / 4][i % 4];
    __syncthreads();
    channel = channel0 + t % WIDE;
    if (t >= WIDE * EACH || channel >= channels) return;
    Sum all = 0;
    for (int of = 0; of < ROWS; of++) all += sums[of][t / WIDE][t % WIDE];
    int at = channel / GROUP * p.out_group + channel % GROUP * p.out_channel + places[t / WIDE].other;
    if (p.parts > 1) p.sums[(long long)part * p.span + at] = all;
    else finish.put(all, channel, at);
}

#else
// Of a group's few channels: 32 places, whose sums eight threads share. Lanes follow each other where image does.
extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    constexpr int KEPT = 256, SLICES = 8;
    __shared__ Place ks[KEPT];
    __shared__ __align__(16) Sum plains[KEPT][4], sums[SLICES][4][33];
    int t = threadIdx.x, lane = IMAGE_ALONG_K ? t / SLICES : t % 32, slice = IMAGE_ALONG_K ? t % SLICES : t / 32;
    int group = blockIdx.y, part = blockIdx.z % p.parts, phase = blockIdx.z / p.parts;
    const Index &red = p.red[phase];
    int share = (red.count + p.parts - 1) / p.parts, first = part * share, last = min(red.count, first + share);
    Place free = place(p.free[phase], blockIdx.x * 32 + lane);
    const T *image = (const T *)p.image + group * p.image_group, *plain = (const T *)p.plain + group * p.plain_group;
    Sum sum[4] = {};
    for (int k0 = first; k0 < last; k0 += KEPT) {
        __syncthreads();
        Place own = place(red, k0 + t);
        if (k0 + t >= last) own.y = OUTSIDE;
        ks[t] = own;
#pragma unroll
        for (int i = 0; i < 4; i++)
            plains[t][i] = i < p.channels && own.there() ? wide(plain[i * p.plain_channel + own.other]) : Sum(0);
        __syncthreads();
        int count = min(last - k0, KEPT);
#pragma unroll 8
        for (int k = slice; k < count; k += SLICES) {
            const Place &at = ks[k];
            T of = {};
            if (free.meets(at, p.x, p.y, p.z)) of = image[free.image + at.image];
#pragma unroll
            for (int i = 0; i < 4; i++) sum[i] += wide(of) * plains[k][i];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) sums[slice][i][lane] = sum[i];
    __syncthreads();
    if (slice >= p.channels || !free.there()) return;
    Sum all = 0;
    for (int from = 0; from < SLICES; from++) all += sums[from][slice][lane];
    int at = group * p.out_group + slice * p.out_channel + free.other;
    if (p.parts > 1) p.sums[(long long)part * p.span + at] = all;
    else Finish(p).put(all, group * p.channels + slice, at);
}
#endif
