// out[channel, free] = alpha * sum over red of plain[channel, red] * image[free, red] + beta * out + bias, for each group of
// channels. Forward and for the gradient of the image, free are places of what comes out, red those of the filter, and
// plain is the filter; for the filter's gradient, free are its places, red those of the gradient that is given, which is
// plain. Where image has nothing (padding), it is 0; no image is ever unrolled in memory.
// T is the type in memory, NAME the kernel, DIMS the dimensions of space, 2 or 3. MODE: TILES, products of tiles, TILE_M x
// TILE_N, by multiply-adds (EACH, SLICES: simt.cuh), where rows are channels, or those of image (IMAGE_ROWS); of an operand,
// lanes follow each other along k or along rows (IMAGE_ALONG_K, PLAIN_ALONG_K), and each loads IMAGE_WIDTH, PLAIN_WIDTH
// elements at once. JOIN adds the parts of sums that were shared between blocks. FEW is for a few channels. GROUPED is for
// channels that lie together, in groups of one or four (GROUP): a thread has four of them, of a run of places, or of a row of
// the filter's gradient (OF_FILTER); TAPS in a row, and from one to the next TAP_STEP places of image, STEP from one of the
// result to the next.
#include "../dnn/conv.cuh"
#include "cluster.cuh"

#define TILES 0
#define JOIN 1
#define FEW 2
#define GROUPED 3

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
// Elements that lie beside each other.
template <int COUNT> struct alignas(COUNT * sizeof(T)) Pack {
    static constexpr int WORD = COUNT * sizeof(T) < 16 ? COUNT * sizeof(T) : 16;
    typedef typename Bytes<WORD>::type Word;
    Word words[COUNT * sizeof(T) / WORD];

    __device__ void fetch(const T *at, bool there) {
#pragma unroll
        for (int i = 0; i < COUNT * sizeof(T) / WORD; i++) load(words[i], (const Word *)at + i, there);
    }
    __device__ Sum operator[](int i) const { return wide(((const T *)words)[i]); }
};

#if MODE == TILES
typedef T TA;
constexpr int TILE_K = SLICES * 64 / sizeof(T), PARTS = 1;
#include "simt.cuh"
constexpr int TILE_FREE = IMAGE_ROWS ? TILE_M : TILE_N, TILE_CHANNELS = IMAGE_ROWS ? TILE_N : TILE_M;

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
typedef Pack<4> Four;
constexpr int LANES = 8, ROWS = 32, WIDE = 4 * LANES;  // of a block: channels' fours, and runs (RUN places)
constexpr int ROW = TAPS * GROUP;                      // numbers of a filter's row
constexpr int LOW = TAP_STEP < 0 ? (TAPS - 1) * TAP_STEP : 0, HIGH = TAP_STEP < 0 ? 0 : (TAPS - 1) * TAP_STEP;

// What a run meets with all taps of a row: four channels of each place of image, or zeros.
struct Window {
    static constexpr int COUNT = (RUN - 1) * STEP + HIGH - LOW + 1;
    Four of[COUNT];

    __device__ Window(const T *image, int step, int x, int extent) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) of[i].fetch(image + i * step, (u32)(x + i) < extent);
    }
    __device__ Sum at(int place, int tap, int channel) const {
        return of[place * STEP + tap * TAP_STEP - LOW][channel];
    }
};

// Whether a run meets a row of taps.
__device__ inline bool meet(Place run, const Place &taps, const Conv &p) {
    run.x = -taps.x;
    return run.meets(taps, 1, p.y, p.z);
}

extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    int t = threadIdx.x, lane = t % LANES, row = t / LANES, part = blockIdx.z % p.parts, phase = blockIdx.z / p.parts;
    int channel0 = blockIdx.y * WIDE, channel = channel0 + 4 * lane, channels = p.groups * GROUP;
    const Index &free = p.free[phase], &red = p.red[phase], &places = OF_FILTER ? red : free;
    int width = places.digits[0].size, runs = (width + RUN - 1) / RUN, step = places.digits[0].image / STEP;
    const T *image = (const T *)p.image + channel, *plain = (const T *)p.plain;
    Finish finish(p);
#if OF_FILTER
    __shared__ __align__(16) Sum sums[ROWS][GROUP][WIDE];
    int all = red.count / width * runs, share = (all + p.parts - 1) / p.parts, last = min(all, (part + 1) * share);
    Place taps = place(free, blockIdx.x * ROW);
    Sum sum[TAPS][GROUP][4] = {};
    for (int number = part * share + row; number < last && channel < channels; number += ROWS) {
        int x = number % runs * RUN;
        Place run = place(red, number / runs * width + x);
        if (!meet(run, taps, p)) continue;
        Window window(image + (taps.image + run.image), step, taps.x + run.x, p.x);
        Four other[RUN];
#pragma unroll
        for (int i = 0; i < RUN; i++)
            other[i].fetch(plain + (channel + run.other + i * red.digits[0].other), x + i < width);
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
            for (int i = 0; i < RUN * GROUP * 4; i++) {
                int of_run = i / (GROUP * 4), from = i / 4 % GROUP, to = i % 4;
                sum[tap][from][to] += window.at(of_run, tap, GROUP == 1 ? to : from) * other[of_run][to];
            }
    }
    channel = channel0 + t % WIDE;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4 * GROUP; i++) sums[row][i / 4][4 * lane + i % 4] = sum[tap][i / 4][i % 4];
        __syncthreads();
        if (t >= WIDE * GROUP || channel >= channels) continue;
        Sum all = 0;
        for (int of = 0; of < ROWS; of++) all += sums[of][t / WIDE][t % WIDE];
        int number = blockIdx.x * ROW + tap * GROUP + t / WIDE;
        int at = channel / GROUP * p.out_group + channel % GROUP * p.out_channel + place(free, number).other;
        if (p.parts > 1) p.sums[(long long)part * p.span + at] = all;
        else finish.put(all, channel, at);
    }
#else
    constexpr int KEPT = ROW < 64 ? 64 / ROW : 1;  // rows of the filter, with as many taps as any phase has
    __shared__ Place ks[KEPT * ROW];
    __shared__ __align__(16) Sum plains[KEPT * ROW][WIDE];
    int number = blockIdx.x * ROWS + row, x = number % runs * RUN, taps = red.digits[1].size, rows = red.count / (taps * GROUP);
    Place run = place(free, number / runs * width + x);
    bool there = run.there() && channel < channels;
    Sum sum[RUN][4] = {};
    for (int row0 = 0; row0 < rows; row0 += KEPT) {
        __syncthreads();
        for (int i = t; i < KEPT * ROW; i += 256) {
            int of_row = row0 + i / ROW, tap = i % ROW / GROUP;
            ks[i] = place(red, tap < taps ? (of_row * taps + tap) * GROUP + i % GROUP : red.count);
        }
        __syncthreads();
        auto fetch = [&](int of_row) {
            const Place &at = ks[of_row * ROW];
            const T *from = image + (run.image + at.image + LOW * step);
            return Window(from, step, run.x + at.x + LOW, there && meet(run, at, p) ? p.x : 0);
        };
        Window next = fetch(0);
        for (int i = t; i < KEPT * ROW * WIDE; i += 256) {
            int of = channel0 + i % WIDE, from = of / GROUP * p.plain_group + of % GROUP * p.plain_channel;
            const Place &at = ks[i / WIDE];
            plains[i / WIDE][i % WIDE] = of < channels && at.there() ? wide(plain[from + at.other]) : 0;
        }
        __syncthreads();
        for (int of_row = 0; of_row < min(KEPT, rows - row0); of_row++) {
            Window window = next;
            if (of_row + 1 < min(KEPT, rows - row0)) next = fetch(of_row + 1);
#pragma unroll
            for (int i = 0; i < ROW * 4; i++) {
                Sum factor = plains[of_row * ROW + i / 4][4 * lane + i % 4];
#pragma unroll
                for (int each = 0; each < RUN; each++)
                    sum[each][i % 4] += window.at(each, i / 4 / GROUP, GROUP == 1 ? i % 4 : i / 4 % GROUP) * factor;
            }
        }
    }
#pragma unroll
    for (int each = 0; each < RUN; each++)
        if (there && x + each < width)
            finish.put(sum[each], channel, channel + run.other + each * free.digits[0].other, true);
#endif
}

#else
// CHANNELS of a group: EACH places of each of 32 lanes, whose sums eight threads share. Lanes follow each other where image
// does. All taps take RUN channels, then the next; a thread takes WIDTH at once. RUN is 1 where numbers are no channels.
constexpr int SLICES = 8, KEPT = 256 / RUN * RUN, NEXT = RUN > 1 ? SLICES * WIDTH : 1;

extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    __shared__ Place ks[KEPT / RUN];
    __shared__ __align__(16) Sum plains[KEPT][(CHANNELS + 3) / 4 * 4], sums[SLICES][CHANNELS][33];
    int t = threadIdx.x, lane = IMAGE_ALONG_K ? t / SLICES : t % 32, slice = IMAGE_ALONG_K ? t % SLICES : t / 32;
    int part = blockIdx.z % p.parts, group = blockIdx.z / p.parts % p.groups, phase = blockIdx.z / p.parts / p.groups;
    const Index &red = p.red[phase];
    int share = (red.count / RUN + p.parts - 1) / p.parts * RUN, first = part * share, last = min(red.count, first + share);
    int step = red.digits[0].image, channels = RUN > 1 ? red.digits[0].size : red.count;
    const T *image = (const T *)p.image + group * p.image_group, *plain = (const T *)p.plain + group * p.plain_group;
    Place free[EACH];
#pragma unroll
    for (int each = 0; each < EACH; each++) free[each] = place(p.free[phase], (blockIdx.x * EACH + each) * 32 + lane);
    Sum sum[EACH][CHANNELS] = {};
    for (int k0 = first; k0 < last; k0 += KEPT) {
        int count = min(last - k0, KEPT);
        __syncthreads();
        if (t < count) {
            int of_tap = (k0 + t) / RUN, taps = red.count / channels;
            Place own = place(red, of_tap % taps * channels + of_tap / taps * RUN + t % RUN);
            if (t % RUN == 0) ks[t / RUN] = own;
            // Chunks beside each other, a number of each: what lanes read together lies together.
#pragma unroll
            for (int i = 0; i < CHANNELS; i++)
                plains[t % WIDTH * (KEPT / WIDTH) + t / WIDTH][i] = wide(plain[i * p.plain_channel + own.other]);
        }
        __syncthreads();
        for (int run = RUN > 1 ? 0 : slice; run < count / RUN; run += RUN > 1 ? 1 : SLICES) {
            const Place &at = ks[run];
            bool there[EACH];
            const T *from[EACH];
#pragma unroll
            for (int each = 0; each < EACH; each++) {
                there[each] = free[each].meets(at, p.x, p.y, p.z);
                from[each] = image + (free[each].image + at.image);
            }
#pragma unroll 4
            for (int k = RUN > 1 ? slice * WIDTH : 0; k < RUN; k += NEXT) {
                Pack<WIDTH> of[EACH];
#pragma unroll
                for (int each = 0; each < EACH; each++) of[each].fetch(from[each] + k * step, there[each]);
#pragma unroll
                for (int one = 0; one < WIDTH; one++) {
                    const Sum *factors = plains[one * (KEPT / WIDTH) + (run * RUN + k) / WIDTH];
#pragma unroll
                    for (int i = 0; i < CHANNELS * EACH; i++)
                        sum[i % EACH][i / EACH] += of[i % EACH][one] * factors[i / EACH];
                }
            }
        }
    }
#pragma unroll
    for (int each = 0; each < EACH; each++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < CHANNELS; i++) sums[slice][i][lane] = sum[each][i];
        __syncthreads();
        for (int i = slice; i < CHANNELS && free[each].there(); i += SLICES) {
            Sum all = 0;
            for (int from = 0; from < SLICES; from++) all += sums[from][i][lane];
            int at = group * p.out_group + i * p.out_channel + free[each].other;
            if (p.parts > 1) p.sums[(long long)part * p.span + at] = all;
            else Finish(p).put(all, group * p.channels + i, at);
        }
    }
}
#endif
