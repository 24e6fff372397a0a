// Stable order of the elements of rows: tiles are sorted, and then merged in pairs until there is one.
// Macro KEY, the elements' type.
#include <cupy/complex.cuh>
#include <cuda_fp16.h>

// Whether a comes before b, in NumPy's order: what is not a number comes last.
template <typename T> __device__ bool before(T a, T b) { return a < b || (b != b && a == a); }

__device__ bool before(__half a, __half b) { return before(__half2float(a), __half2float(b)); }

template <typename T> __device__ bool before(complex<T> a, complex<T> b) {
    const T x = a.real(), y = a.imag(), u = b.real(), v = b.imag();
    const int not_in_a = 2 * (x != x) + (y != y), not_in_b = 2 * (u != u) + (v != v);
    if (not_in_a != not_in_b) return not_in_a < not_in_b;
    return before(x, u) || (!before(u, x) && before(y, v));
}

// Keys of a row's elements: `levels` rows of `count` keys, the last of which decides first.
struct Keys {
    const KEY* first;
    long long count;
    int levels;

    // Whether element i comes before element j; of equal ones, the one that was before.
    __device__ bool in_order(int i, int j) const {
        for (int level = levels - 1; level >= 0; --level) {
            const KEY a = first[level * count + i], b = first[level * count + j];
            if (before(a, b)) return true;
            if (before(b, a)) return false;
        }
        return i < j;
    }
};

// Tiles of 2 blockDim.x elements of each row, sorted by a bitonic network. grid: tiles of a row, rows.
extern "C" __global__ void sort_tiles(const KEY* first, int count, int levels, long long rows, long long* result) {
    extern __shared__ int indices[];
    const int thread = threadIdx.x, tile = 2 * blockDim.x, start = blockIdx.x * tile, size = min(tile, count - start);
    for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
        const Keys keys = {first + row * count + start, count, levels};
        for (int k = thread; k < tile; k += blockDim.x) indices[k] = k;
        for (int width = 2; width <= tile; width *= 2) {
            for (int distance = width / 2; distance > 0; distance /= 2) {
                __syncthreads();
                const int low = 2 * thread - (thread & (distance - 1)), high = low + distance;
                const int a = indices[low], b = indices[high];
                const bool sorted = a >= size || b >= size ? a < b : keys.in_order(a, b);  // none comes behind all
                if (sorted != ((low & width) == 0)) {
                    indices[low] = b;
                    indices[high] = a;
                }
            }
        }
        __syncthreads();
        for (int k = thread; k < size; k += blockDim.x) result[row * count + start + k] = start + indices[k];
        __syncthreads();
    }
}

// Runs of `width` indices of each row, merged in pairs; a thread writes `STEPS` of a pair, whose first ones it finds by
// how many of each run come before them. grid: threads of a row, rows.
constexpr int STEPS = 8;
extern "C" __global__ void merge_runs(
    const KEY* first, int count, int levels, long long rows, int width, const long long* from, long long* to
) {
    const int place = (blockIdx.x * blockDim.x + threadIdx.x) * STEPS, pair = place & -(2 * width);
    const int left_size = min(width, count - pair), right_size = min(width, count - pair - left_size);
    const int begin = place - pair, end = min(begin + STEPS, left_size + right_size);
    for (long long row = blockIdx.y; row < rows && place < count; row += gridDim.y) {
        const Keys keys = {first + row * count, count, levels};
        const long long *left = from + row * count + pair, *right = left + left_size;
        int low = max(0, begin - right_size), high = min(begin, left_size);
        while (low < high) {
            const int middle = (low + high) >> 1;
            if (keys.in_order(left[middle], right[begin - 1 - middle])) low = middle + 1;
            else high = middle;
        }
        int i = low, j = begin - low;
        for (int k = begin; k < end; ++k) {
            const bool take_left = j >= right_size || (i < left_size && keys.in_order(left[i], right[j]));
            to[row * count + pair + k] = take_left ? left[i++] : right[j++];
        }
    }
}

// The elements in their order. grid: threads of a row, rows.
extern "C" __global__ void gather(const KEY* from, int count, long long rows, const long long* order, KEY* to) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    for (long long row = blockIdx.y; row < rows && k < count; row += gridDim.y)
        to[row * count + k] = from[row * count + order[row * count + k]];
}
