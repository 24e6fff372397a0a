// Two programs in CUDA C++, as a library that whole_programs.py calls: conjugate gradients on a sparse matrix, and
// records that are sorted, counted and chosen by CUB.
#include <cub/cub.cuh>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                          \
    do {                                                                     \
        cudaError_t error = (call);                                          \
        if (error != cudaSuccess) {                                          \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));   \
            abort();                                                         \
        }                                                                    \
    } while (0)

constexpr int SIDE = 256, ROWS = SIDE * SIDE, STEPS = 10, RECORDS = 1 << 18;

template <class T> T *array(size_t count, const std::vector<T> &from = {}) {
    T *made;
    CHECK(cudaMalloc(&made, count * sizeof(T)));
    if (from.empty())
        CHECK(cudaMemset(made, 0, count * sizeof(T)));
    else
        CHECK(cudaMemcpy(made, from.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    return made;
}

// y = A x, a thread for each row of a matrix in compressed rows; and the scalar product of x and y.
__global__ void multiply(const int *starts, const int *columns, const float *values, const float *x, float *y, float *xy) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = starts[row]; k < starts[row + 1]; ++k) sum += values[k] * x[columns[k]];
    y[row] = sum;
    using Reduce = cub::BlockReduce<float, 256>;
    __shared__ typename Reduce::TempStorage shared;
    float total = Reduce(shared).Sum(sum * x[row]);
    if (threadIdx.x == 0) atomicAdd(xy, total);
}

// x += (rr / pq) p and r -= (rr / pq) q; the sum of the new r's squares.
__global__ void descend(const float *rr, const float *pq, const float *p, const float *q, float *x, float *r, float *next) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float alpha = *rr / *pq, left = r[row] - alpha * q[row];
    x[row] += alpha * p[row];
    r[row] = left;
    using Reduce = cub::BlockReduce<float, 256>;
    __shared__ typename Reduce::TempStorage shared;
    float total = Reduce(shared).Sum(left * left);
    if (threadIdx.x == 0) atomicAdd(next, total);
}

__global__ void turn(const float *rr, const float *next, const float *r, float *p) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    p[row] = r[row] + *next / *rr * p[row];
}

static int *starts, *columns;
static float *values, *p, *q, *r, *x, *b, *sums;
static unsigned *keys, *sorted, *unique_keys, *counts, *chosen;
static float *weights, *moved, *running;
static int *found;
static void *scratch;
static size_t scratch_bytes = 64 << 20;

struct Square {
    __host__ __device__ float operator()(float a) const { return a * a; }
};

struct Often {
    __host__ __device__ bool operator()(unsigned count) const { return count > 4; }
};

extern "C" int prepare() {
    if (starts) return 0;
    std::vector<int> s(1), c;
    std::vector<float> v, ones(ROWS, 1.0f), w(RECORDS);
    for (int row = 0; row < ROWS; ++row) {
        int i = row / SIDE, j = row % SIDE;
        const int to[] = {i > 0 ? row - SIDE : -1, j > 0 ? row - 1 : -1, row, j + 1 < SIDE ? row + 1 : -1,
                          i + 1 < SIDE ? row + SIDE : -1};
        for (int k = 0; k < 5; ++k)
            if (to[k] >= 0) {
                c.push_back(to[k]);
                v.push_back(k == 2 ? 4.01f : -1.0f);
            }
        s.push_back(c.size());
    }
    starts = array<int>(s.size(), s), columns = array<int>(c.size(), c), values = array<float>(v.size(), v);
    p = array<float>(ROWS), q = array<float>(ROWS), r = array<float>(ROWS), x = array<float>(ROWS);
    b = array<float>(ROWS, ones), sums = array<float>(2 * STEPS + 1);
    std::vector<unsigned> k(RECORDS);
    unsigned state = 12345;
    for (int n = 0; n < RECORDS; ++n) {
        state = state * 1664525u + 1013904223u;
        k[n] = state >> 14, w[n] = (state & 1023) / 1024.0f;
    }
    keys = array<unsigned>(RECORDS, k), weights = array<float>(RECORDS, w);
    sorted = array<unsigned>(RECORDS), unique_keys = array<unsigned>(RECORDS), counts = array<unsigned>(RECORDS);
    chosen = array<unsigned>(RECORDS), moved = array<float>(RECORDS), running = array<float>(RECORDS);
    found = array<int>(2), scratch = array<char>(scratch_bytes);
    return 0;
}

extern "C" int gradients() {
    const int blocks = ROWS / 256;
    CHECK(cudaMemsetAsync(x, 0, ROWS * sizeof(float)));
    CHECK(cudaMemsetAsync(sums, 0, (2 * STEPS + 1) * sizeof(float)));
    CHECK(cudaMemcpyAsync(r, b, ROWS * sizeof(float), cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpyAsync(p, b, ROWS * sizeof(float), cudaMemcpyDeviceToDevice));
    CHECK(cub::DeviceReduce::TransformReduce(scratch, scratch_bytes, r, sums, ROWS, cuda::std::plus<>{},
                                             Square{}, 0.0f));
    for (int k = 0; k < STEPS; ++k) {
        float *rr = sums + 2 * k;
        multiply<<<blocks, 256>>>(starts, columns, values, p, q, rr + 1);
        descend<<<blocks, 256>>>(rr, rr + 1, p, q, x, r, rr + 2);
        turn<<<blocks, 256>>>(rr, rr + 2, r, p);
    }
    CHECK(cudaGetLastError());
    return 0;
}

extern "C" int sorting() {
    CHECK(cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, sorted, weights, moved, RECORDS, 0, 18));
    CHECK(cub::DeviceRunLengthEncode::Encode(scratch, scratch_bytes, sorted, unique_keys, counts, found, RECORDS));
    CHECK(cub::DeviceScan::InclusiveSum(scratch, scratch_bytes, moved, running, RECORDS));
    CHECK(cub::DeviceSelect::If(scratch, scratch_bytes, counts, chosen, found + 1, RECORDS, Often{}));
    CHECK(cub::DeviceHistogram::HistogramEven(scratch, scratch_bytes, keys, (int *)counts, 257, 0u, 1u << 18, RECORDS));
    CHECK(cub::DeviceReduce::Max(scratch, scratch_bytes, running, q, RECORDS));
    return 0;
}
