// The order of elements, and what is known by it. Macros: RUN, which of these functions is the kernel, and those of
// `matrix.cuh`.
#include "../sparse/matrix.cuh"

struct Item {
    u64 key;
    u32 place, carried;
    __device__ bool before(const Item &other) const {
        return key != other.key ? key < other.key : place < other.place;
    }
};
constexpr int TILE = 512;
// The elements of A in their order, tile by tile, by lines or (turned) by indices. more: numbers that go with them.
__device__ void sort_tiles(const Params &p) {
    __shared__ Item tile[TILE];
    const i64 start = blockIdx.x * (i64)TILE;
    for (int t = threadIdx.x; t < TILE; t += blockDim.x) {
        const i64 e = start + t;
        tile[t] = {~0ull, u32(e), 0};
        if (e >= p.a.count) continue;
        const u64 line = p.a.line(e), index = p.a.index(e);
        tile[t] = {p.turned ? index << 32 | line : line << 32 | index, u32(e), p.more ? ((const u32 *)p.more)[e] : u32(e)};
    }
    for (int width = 2; width <= TILE; width *= 2)
        for (int distance = width / 2; distance; distance /= 2) {
            __syncthreads();
            for (int t = threadIdx.x; t < TILE / 2; t += blockDim.x) {
                const int low = 2 * t - (t & distance - 1), high = low + distance;
                const Item a = tile[low], b = tile[high];
                if (a.before(b) == ((low & width) == 0)) continue;
                tile[low] = b;
                tile[high] = a;
            }
        }
    __syncthreads();
    for (int t = threadIdx.x; t < TILE && start + t < p.a.count; t += blockDim.x) ((Item *)p.room)[start + t] = tile[t];
}
// Pairs of runs of n items, merged from the room into `more`: each item finds how many of the other run are before it.
__device__ void merge_runs(const Params &p) {
    const i64 e = thread(), pair = e / (2 * p.n) * 2 * p.n, middle = min(pair + p.n, p.m), end = min(middle + p.n, p.m);
    if (e >= p.m) return;
    const Item *items = (const Item *)p.room, mine = items[e];
    i64 low = e < middle ? middle : pair, high = e < middle ? end : middle;
    const i64 others = low;
    while (low < high) {
        const i64 half = (low + high) / 2;
        if (items[half].before(mine)) low = half + 1;
        else high = half;
    }
    ((Item *)p.more)[e + (low - others) - (e < middle ? 0 : p.n)] = mine;
}
// What is known of items in their order, where it is wanted: C's lines and indices, the numbers that went with them
// (more), the values of A.
__device__ void unpack(const Params &p) {
    const i64 e = thread();
    if (e >= p.m) return;
    const Item item = ((const Item *)p.room)[e];
    if (p.c.offsets) p.c.offsets[e] = IO((item.key >> 32) + p.c.base);
    if (p.c.indices) p.c.indices[e] = II((item.key & 0xffffffff) + p.c.base);
    if (p.more) ((u32 *)p.more)[e] = item.carried;
    if (p.c.values) ((TA *)p.c.values)[e] = ((const TA *)p.a.values)[item.place];
}
// Where each of m lines begins in A, which is COO; the line of each element; numbers from 0 on.
__device__ void compress(const Params &p) {
    for (i64 t = thread(); t <= p.m; t += threads()) p.c.offsets[t] = IO(p.a.first(t) + p.a.base);
}
__device__ void expand(const Params &p) {
    for (i64 t = thread(); t < p.a.count; t += threads()) p.c.offsets[t] = IO(p.a.line(t) + p.a.base);
}
__device__ void count_up(const Params &p) {
    for (i64 t = thread(); t < p.a.count; t += threads()) p.c.offsets[t] = IO(t);
}

extern "C" __global__ void NAME(const Params p) { RUN(p); }
