// Stable radix sort of rows, from the lowest digit of 8 bits to the highest. A row that fits is sorted by a block. Of
// longer ones all digits are counted first, and there is a launch for each digit; its blocks tell each other in memory
// how many elements of each digit they have, so that each block learns how many come before its own.
// Macros: KIND, NumPy's letter: 'b', 'u', 'i', 'f', or 'c', which has two numbers; PART_BYTES, a number's size;
// ORDERED, whether indices are sorted, too.
template <int bytes> struct Unsigned { using type = unsigned char; };
template <> struct Unsigned<2> { using type = unsigned short; };
template <> struct Unsigned<4> { using type = unsigned; };
template <> struct Unsigned<8> { using type = unsigned long long; };
using Part = Unsigned<PART_BYTES>::type;
constexpr int DIGITS = 256, BLOCK = 384, WARPS = BLOCK / 32;
constexpr bool COMPLEX = KIND == 'c';
constexpr Part SIGN = Part(1) << (8 * sizeof(Part) - 1);
constexpr int FRACTION = sizeof(Part) == 8 ? 52 : sizeof(Part) == 4 ? 23 : sizeof(Part) == 2 ? 10 : 0;
constexpr Part INFINITE = SIGN - (Part(1) << FRACTION);

struct alignas(2 * sizeof(Part)) Pair { Part real, imaginary; };
template <bool pair> struct Chosen { using type = Part; };
template <> struct Chosen<true> { using type = Pair; };
using Key = Chosen<COMPLEX>::type;

constexpr int PASSES = COMPLEX ? 2 * sizeof(Part) + 1 : sizeof(Part);
constexpr int MOST = ORDERED ? 14 : 18, BYTES = ORDERED ? 96 : 120;  // of a thread
constexpr int ITEMS = sizeof(Key) * MOST > BYTES ? BYTES / sizeof(Key) : MOST, TILE = BLOCK * ITEMS;

__device__ bool is_nan(Part bits) { return Part(bits & ~SIGN) > INFINITE; }

// An unsigned integer that is ordered as the number: zeros are equal, and what is not a number comes last.
__device__ Part ordered(Part bits) {
    if (KIND == 'b' || KIND == 'u') return bits;
    if (KIND == 'i') return bits ^ SIGN;
    const Part number = bits ^ (bits & SIGN ? Part(~Part(0)) : SIGN);
    return is_nan(bits) ? Part(~Part(0)) : bits == SIGN ? SIGN : number;
}

__device__ unsigned digit(Part key, int pass) { return ordered(key) >> 8 * pass & DIGITS - 1; }

// NumPy puts pairs without NaNs first, then those with one in the imaginary part, in the real part, in both.
__device__ unsigned digit(Pair key, int pass) {
    if (pass == PASSES - 1) return 2 * is_nan(key.real) + is_nan(key.imaginary);
    return pass < sizeof(Part) ? digit(key.imaginary, pass) : digit(key.real, pass - sizeof(Part));
}

struct Shared {
    unsigned starts[DIGITS], offsets[DIGITS], sums[WARPS];
    union {
        unsigned counts[WARPS][DIGITS];
        Key keys[TILE];
        int order[TILE];
    };
};

// The sum of the values of the threads before this one.
__device__ unsigned sum_before(unsigned value, unsigned* sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = value;
    for (int distance = 1; distance < 32; distance *= 2) {
        const unsigned below = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += below;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    for (int k = 0; k < warp; ++k) sum += sums[k];
    return sum - value;
}

// A lane's element number `item`, in a tile in which each warp has as many of them in a row as it can.
__device__ int position(int item, int items) { return (threadIdx.x / 32 * items + item) * 32 + threadIdx.x % 32; }

// The lanes that have the same digit as this one. In PTX, since the compiler makes seven instructions of a bit.
__device__ unsigned lanes_with(unsigned digit) {
    unsigned same = ~0u;
#pragma unroll
    for (int bit = 1; bit < DIGITS; bit *= 2)
        asm("{ .reg .pred set; .reg .b32 lanes; and.b32 lanes, %1, %2; setp.ne.b32 set, lanes, 0;\n"
            "vote.sync.ballot.b32 lanes, set, 0xffffffff; @!set not.b32 lanes, lanes; and.b32 %0, %0, lanes; }"
            : "+r"(same) : "r"(digit), "r"(bit));
    return same;
}

// Turn digits into pairs of 16 bits, the digit and how many of the warp's elements before have it, and return how many
// of the tile's elements have digit threadIdx.x. shared.counts: how many of the warps before have each digit.
__device__ unsigned count_in_warps(unsigned (&places)[ITEMS], int items, Shared& shared) {
    const int lane = threadIdx.x % 32;
    unsigned* counts = shared.counts[threadIdx.x / 32];
    for (int k = lane; k < DIGITS; k += 32) counts[k] = 0;
    __syncwarp();
#pragma unroll
    for (int item = 0; item < ITEMS && item < items; ++item) {
        const unsigned same = lanes_with(places[item]);
        const unsigned before = __popc(same & (1u << lane) - 1), count = counts[places[item]];
        __syncwarp();
        if (before == 0) counts[places[item]] = count + __popc(same);
        __syncwarp();
        places[item] = places[item] << 16 | count + before;
    }
    __syncthreads();
    unsigned total = 0;
    for (int warp = 0; warp < WARPS && threadIdx.x < DIGITS; ++warp) {
        const unsigned count = shared.counts[warp][threadIdx.x];
        shared.counts[warp][threadIdx.x] = total;
        total += count;
    }
    return total;
}

// Turn those pairs into places in the sorted tile. shared.starts: the first place of each digit.
__device__ void place(unsigned (&places)[ITEMS], int items, unsigned total, Shared& shared) {
    const unsigned start = sum_before(total, shared.sums);
    if (threadIdx.x < DIGITS) shared.starts[threadIdx.x] = start;
    __syncthreads();
#pragma unroll
    for (int item = 0; item < ITEMS && item < items; ++item) {
        const unsigned digit = places[item] >> 16;
        places[item] = (places[item] & 0xffff) + shared.counts[threadIdx.x / 32][digit] + shared.starts[digit];
    }
    __syncthreads();
}

// Move what each thread holds to its place in the tile, and take what is there now.
template <class T>
__device__ void exchange(T (&values)[ITEMS], T* through, const unsigned (&places)[ITEMS], int items) {
#pragma unroll
    for (int item = 0; item < ITEMS && item < items; ++item) through[places[item]] = values[item];
    __syncthreads();
#pragma unroll
    for (int item = 0; item < ITEMS && item < items; ++item) values[item] = through[position(item, items)];
    __syncthreads();
}

// Sort rows of at most TILE elements, or indices by levels of keys, of which the last one decides first. grid: rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
sort_rows(const Key* from, Key* to, long long* result, int count, int levels) {
    __shared__ Shared shared;
    const int items = (count + BLOCK - 1) / BLOCK;
    const long long row = (long long)blockIdx.x * count;
    Key keys[ITEMS] = {};
    int order[ITEMS];
    unsigned places[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) order[item] = position(item, items);
    for (int level = 0; level < levels; ++level) {
#pragma unroll
        for (int item = 0; item < ITEMS && item < items; ++item)
            if (order[item] < count) keys[item] = from[row + (long long)level * count + order[item]];
        for (int pass = 0; pass < PASSES; ++pass) {
#pragma unroll
            for (int item = 0; item < ITEMS && item < items; ++item)
                places[item] = position(item, items) < count ? digit(keys[item], pass) : DIGITS - 1;
            place(places, items, count_in_warps(places, items, shared), shared);
            exchange(keys, shared.keys, places, items);
            if (ORDERED) exchange(order, shared.order, places, items);
        }
    }
#pragma unroll
    for (int item = 0; item < ITEMS && item < items; ++item) {
        const int k = position(item, items);
        if (k >= count) break;
        if (ORDERED) result[row + k] = order[item];
        else to[row + k] = keys[item];
    }
}

// Whether a comes before b, of keys whose numbers are ordered.
__device__ bool before(Part a, Part b) { return a < b; }

__device__ bool before(Pair a, Pair b) {
    constexpr Part NAN_PART = ~Part(0);
    const int not_in_a = 2 * (a.real == NAN_PART) + (a.imaginary == NAN_PART);
    const int not_in_b = 2 * (b.real == NAN_PART) + (b.imaginary == NAN_PART);
    if (not_in_a != not_in_b) return not_in_a < not_in_b;
    return a.real < b.real || (a.real == b.real && a.imaginary < b.imaginary);
}

__device__ Pair ordered(Pair key) { return {ordered(key.real), ordered(key.imaginary)}; }

// Sort rows of at most SHORT elements by one level of keys: a thread counts those that come before its own. grid: rows.
constexpr int SHORT = 128;
extern "C" __global__ void sort_short_rows(const Key* from, Key* to, long long* result, int count, int) {
    __shared__ Key keys[SHORT];
    const long long row = (long long)blockIdx.x * count;
    const int k = threadIdx.x;
    const Key own = k < count ? from[row + k] : Key{}, key = ordered(own);
    keys[k] = key;
    __syncthreads();
    if (k >= count) return;
    int place = 0;
    for (int other = 0; other < count; ++other)
        place += before(keys[other], key) || (other < k && !before(key, keys[other]));
    if (ORDERED) result[row + place] = k;
    else to[row + place] = own;
}

// Count the elements of each row by each digit. counts: rows x PASSES x DIGITS. grid: rows x blocks for each of them.
extern "C" __global__ void __launch_bounds__(BLOCK)
count_digits(const Key* from, int count, int blocks, unsigned* counts) {
    __shared__ unsigned found[PASSES * DIGITS];
    for (int k = threadIdx.x; k < PASSES * DIGITS; k += BLOCK) found[k] = 0;
    __syncthreads();
    const long long row = blockIdx.x / blocks;
#pragma unroll 4
    for (int k = blockIdx.x % blocks * BLOCK + threadIdx.x; k < count; k += blocks * BLOCK) {
        const Key key = from[row * count + k];
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) atomicAdd(&found[pass * DIGITS + digit(key, pass)], 1);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < PASSES * DIGITS; k += BLOCK)
        if (found[k]) atomicAdd(&counts[row * PASSES * DIGITS + k], found[k]);
}

// Replace numbers of elements by how many elements have a lower digit. grid: rows x PASSES.
extern "C" __global__ void __launch_bounds__(DIGITS) sum_counts(unsigned* counts) {
    __shared__ unsigned sums[WARPS];
    unsigned* count = counts + blockIdx.x * DIGITS + threadIdx.x;
    *count = sum_before(*count, sums);
}

// What a block has written of a digit: how many elements it has, or how many it and those before it have.
constexpr unsigned OWN = 1u << 30, ALL = 2u << 30, COUNT = OWN - 1;

// Sort rows by one digit. Blocks take tiles in the order of their start, so that those before are never waited for in
// vain. from_order: indices, or null for those in order; result: where they go in the end, until then null; gathers:
// keys are still where the indices say. starts: rows x PASSES x DIGITS. told: words that were 0, for each tile and
// digit. grid: tiles.
extern "C" __global__ void __launch_bounds__(BLOCK, 2) sort_by_digit(
    const Key* from, Key* to, const int* from_order, int* to_order, long long* result, bool gathers, int count,
    int tiles, int pass, unsigned* started, const unsigned* starts, volatile unsigned* told
) {
    __shared__ Shared shared;
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(started, 1);
    __syncthreads();
    const int row = ticket / tiles, tile = ticket % tiles, size = min(TILE, count - tile * TILE);
    const long long begin = (long long)row * count, first = begin + tile * TILE;
    Key keys[ITEMS] = {};
    int order[ITEMS];
    unsigned places[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        const int k = position(item, ITEMS);
        if (k < size) {
            if (ORDERED) order[item] = from_order ? from_order[first + k] : tile * TILE + k;
            keys[item] = from[ORDERED && gathers ? begin + order[item] : first + k];
        }
    }
#pragma unroll
    for (int item = 0; item < ITEMS; ++item)
        places[item] = position(item, ITEMS) < size ? digit(keys[item], pass) : DIGITS - 1;
    const unsigned total = count_in_warps(places, ITEMS, shared);
    told += (long long)ticket * DIGITS + threadIdx.x;
    if (threadIdx.x < DIGITS) *told = total | (tile ? OWN : ALL);
    place(places, ITEMS, total, shared);
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) shared.keys[places[item]] = keys[item];
    if (threadIdx.x < DIGITS) {
        unsigned before = 0, word = tile ? 0 : ALL;
        for (volatile unsigned* other = told; !(word & ALL); before += word & COUNT) {
            other -= DIGITS;
            do word = *other;
            while (!word);
        }
        if (tile) *told = before + total | ALL;
        before += starts[(row * PASSES + pass) * DIGITS + threadIdx.x];
        shared.offsets[threadIdx.x] = before - shared.starts[threadIdx.x];
    }
    __syncthreads();
    unsigned targets[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        const int k = item * BLOCK + threadIdx.x;
        const Key key = shared.keys[k];
        targets[item] = shared.offsets[digit(key, pass)] + k;
        if (to && k < size) to[begin + targets[item]] = key;
    }
    if (!ORDERED) return;
    __syncthreads();
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) shared.order[places[item]] = order[item];
    __syncthreads();
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        const int k = item * BLOCK + threadIdx.x;
        if (k >= size) continue;
        if (result) result[begin + targets[item]] = shared.order[k];
        else to_order[begin + targets[item]] = shared.order[k];
    }
}
