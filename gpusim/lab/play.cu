// The kernels of Play. Each repeats one thing, and says by the SM's clock how long that took: times[2 * warp] is the
// cycle at which a warp began, times[2 * warp + 1] the one at which it ended. All is done twice, and the second time
// counts: then the instructions are there.

#define ROUNDS 32
#define COLUMNS 32

#define TWICE(WHAT)                                                                                                     \
    long long began, ended;                                                                                             \
    _Pragma("unroll 1") for (int time = 0; time < 2; time++) {                                                          \
        __syncthreads();                                                                                                \
        began = clock64();                                                                                              \
        WHAT                                                                                                            \
        ended = clock64();                                                                                              \
    }

// A load of so many bytes a lane. What it returns is zero and moves the address of the next one, which has to wait.
#define LOAD(NAME, TYPE, SPACE, WORDS, INTO, ADDRESS)                                                                   \
    __device__ unsigned NAME(const TYPE *at) {                                                                          \
        unsigned found;                                                                                                 \
        asm volatile("{ .reg .b32 x<4>; ld." SPACE "." WORDS " " INTO ", [%1]; mov.b32 %0, x0; }"                       \
                     : "=r"(found) : "l"(ADDRESS(at)) : "memory");                                                      \
        return found;                                                                                                   \
    }

// A column of a tile: lane after lane `stride` elements on, in rows of 32 elements and `pad` unused ones.
#define SHARED(BYTES, TYPE, WORDS, INTO)                                                                                \
    LOAD(shared##BYTES, TYPE, "volatile.shared", WORDS, INTO, __cvta_generic_to_shared)                                                                 \
    extern "C" __global__ void __launch_bounds__(1024) banks##BYTES(long long *times, int stride, int pad, int offset) {                        \
        __shared__ TYPE tile[2048];                                                                                     \
        for (int i = threadIdx.x; i < sizeof(tile) / 4; i += blockDim.x) ((unsigned *)tile)[i] = 0;                     \
        int element = threadIdx.x % 32 * stride + offset;                                                               \
        const TYPE *at = &tile[element / COLUMNS * (COLUMNS + pad) + element % COLUMNS];                                \
        TWICE(_Pragma("unroll 8") for (int round = 0; round < ROUNDS; round++) at += shared##BYTES(at);)                                    \
        if (at == nullptr) times[0] = 1;                                                                                \
        if (threadIdx.x % 32 == 0) times[threadIdx.x / 32 * 2] = began, times[threadIdx.x / 32 * 2 + 1] = ended;        \
    }

SHARED(1, unsigned char, "u8", "x0")
SHARED(2, unsigned short, "u16", "x0")
SHARED(4, unsigned, "u32", "x0")
SHARED(8, uint2, "v2.u32", "{x0, x1}")
SHARED(16, uint4, "v4.u32", "{x0, x1, x2, x3}")

// Lane after lane `stride` elements on in an array of zeros, read from L2: L1 is passed by, and the first time brings
// the lines. Warps read neighbouring parts.
#define GLOBAL(BYTES, TYPE, WORDS, INTO)                                                                                \
    LOAD(global##BYTES, TYPE, "global.cg", WORDS, INTO, __cvta_generic_to_global)                                                                \
    extern "C" __global__ void __launch_bounds__(1024) sectors##BYTES(long long *times, const TYPE *array, int stride, int offset) {            \
        const TYPE *at = &array[threadIdx.x * stride + offset];                                                         \
        TWICE(_Pragma("unroll 8") for (int round = 0; round < ROUNDS; round++) at += global##BYTES(at);)                                    \
        if (at == nullptr) times[0] = 1;                                                                                \
        if (threadIdx.x % 32 == 0) times[threadIdx.x / 32 * 2] = began, times[threadIdx.x / 32 * 2 + 1] = ended;        \
    }

GLOBAL(1, unsigned char, "u8", "x0")
GLOBAL(2, unsigned short, "u16", "x0")
GLOBAL(4, unsigned, "u32", "x0")
GLOBAL(8, uint2, "v2.u32", "{x0, x1}")
GLOBAL(16, uint4, "v4.u32", "{x0, x1, x2, x3}")

// Lanes go up to 32 ways, down a tree of branches; the leaf of a way works for `work` rounds, `more` further ones for
// each way before it.
template <int LEVEL> __device__ float tree(int way, float x, int rounds) {
    if (way >> LEVEL & 1) return tree<LEVEL - 1>(way, x + LEVEL, rounds);
    return tree<LEVEL - 1>(way, x - LEVEL, rounds);
}
template <> __device__ float tree<-1>(int way, float x, int rounds) {
#pragma unroll 1
    for (int round = 0; round < rounds; round++) x = x * x + 1.0f;
    return x;
}

extern "C" __global__ void __launch_bounds__(1024) ways(long long *times, float *out, int pattern, int ways, int work, int more) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int way = 0;
    if (pattern == 0) way = lane % ways;                  // neighbours go different ways
    if (pattern == 1) way = lane * ways / 32;             // neighbours go together
    if (pattern == 2) way = warp % ways;                  // a warp goes one way
    if (pattern == 3) way = lane * 19 / 4 * 7 % ways;     // as it comes
    float x = threadIdx.x;
    TWICE(x = tree<4>(way, x, work + more * way);)
    out[threadIdx.x] = x;
    if (lane == 0) times[warp * 2] = began, times[warp * 2 + 1] = ended;
}

// An if with its else, and a loop that each lane leaves after rounds of its own: line by line what the page shows. A side
// is long enough for the compiler to keep the branch, and what the loop tests is kept for its own line.
#define FOUR(OPERATION) OPERATION OPERATION OPERATION OPERATION
#define ADD(X) asm volatile(FOUR("add.rn.f32 %0, %0, 0f3F800000;") FOUR("add.rn.f32 %0, %0, 0f3F800000;") : "+f"(X))
#define HALVE(X) asm volatile(FOUR(FOUR("mul.rn.f32 %0, %0, 0f3F000000;")) : "+f"(X))
#define KEEP(N) asm volatile("" : "+r"(N))
#define SQUARE(X) asm volatile("fma.rn.f32 %0, %0, %0, 0f3F800000;" : "+f"(X))
__device__ __forceinline__ float lane_by_lane(float x, bool first, int rounds) {
    if (first)
        ADD(x);
    else
        HALVE(x);
    KEEP(rounds); _Pragma("unroll 1") while (rounds-- > 0) SQUARE(x);
    return x;
}

extern "C" __global__ void __launch_bounds__(1024) steps(long long *times, float *out, int condition, int rounds) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool first = condition == 0 ? lane < 8 : condition == 1 ? lane % 2 == 0 : condition == 2 ? lane == 0 : lane < 32;
    int own = rounds == 0 ? 4 : rounds == 1 ? lane / 4 : rounds == 2 ? lane % 4 : lane == 5 ? 12 : 1;
    float x = threadIdx.x;
    TWICE(x = lane_by_lane(x, first, own);)
    out[threadIdx.x] = x;
    if (lane == 0) times[warp * 2] = began, times[warp * 2 + 1] = ended;
}

// Each thread moves one pixel of an image, whose rows lie one after the other.
extern "C" __global__ void __launch_bounds__(1024) pixels(float *out, const float *in, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = 2.0f * in[y * width + x];
}
