// C = alpha op(A) op(B) + beta C for a batch of matrices, one tile of C for each block.
// Macros: ELEMENT_A, ELEMENT_B, ELEMENT_C, the elements' types; SUM, the type that is computed in.
#include <cupy/complex.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int TILE = 16;

template <typename T> struct Matrix {  // element (row, column) of the operand as op() sees it, strides in elements
    T* first;
    T* const* list;  // or the matrices of the batch one by one
    long long row, column, batch;
    int conjugate;

    __device__ T* at(long long number, long long i, long long j) const {
        return (list ? list[number] : first + number * batch) + i * row + j * column;
    }
};

template <typename T> __device__ T conjugated(T value) { return value; }
template <typename T> __device__ complex<T> conjugated(complex<T> value) { return conj(value); }

template <typename T>
__device__ SUM loaded(const Matrix<T>& matrix, long long number, int i, int j, int rows, int columns) {
    if (i >= rows || j >= columns) return SUM(0);
    SUM value = static_cast<SUM>(*matrix.at(number, i, j));
    return matrix.conjugate ? conjugated(value) : value;
}

extern "C" __global__ void matrix_product(
    int m, int n, int k, SUM alpha, SUM beta, long long first_of_batch,
    const Matrix<ELEMENT_A> a, const Matrix<ELEMENT_B> b, const Matrix<ELEMENT_C> c
) {
    __shared__ SUM tile_a[TILE][TILE + 1], tile_b[TILE][TILE + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int i = blockIdx.x * TILE + x, j = blockIdx.y * TILE + y;
    const long long number = first_of_batch + blockIdx.z;
    SUM sum = SUM(0);
    for (int start = 0; start < k; start += TILE) {
        tile_a[y][x] = loaded(a, number, i, start + y, m, k);
        tile_b[y][x] = loaded(b, number, start + x, j, k, n);
        __syncthreads();
        for (int step = 0; step < TILE; ++step) sum += tile_a[step][x] * tile_b[y][step];
        __syncthreads();
    }
    if (i >= m || j >= n) return;
    ELEMENT_C* result = c.at(number, i, j);
    SUM value = alpha * sum;
    if (beta != SUM(0)) value += beta * static_cast<SUM>(*result);
    *result = static_cast<ELEMENT_C>(value);
}
