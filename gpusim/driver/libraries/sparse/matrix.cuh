// Matrices as kernels get them. Macros: IO, II types of offsets (of COO: of the rows) and of indices; TA, TB, TC types of
// the sparse factor, the dense factor and the result; TS of the scalars.
#pragma once
#include "types.cuh"

typedef long long i64;
typedef decltype(wide(TS())) Sum;

// A matrix. A sparse one lies by lines, rows or columns; lines is 0 for COO, whose offsets are the lines of the elements,
// and count is how many blocks of block x block elements it has. row, column: elements to the next, in a dense one or a
// block; stride, line_stride: to the next of a batch.
struct Matrix {
    IO *offsets;
    II *indices;
    void *values;
    i64 lines, count, base, block, row, column, line_stride, stride;

    __device__ i64 start(i64 line) const { return offsets[line] - base; }
    __device__ i64 index(i64 e) const { return indices[e] - base; }
    __device__ i64 line(i64 e) const {  // the last one that begins at or before e
        if (!lines) return start(e);
        i64 low = 0, high = lines;
        while (high - low > 1) {
            i64 middle = (low + high) / 2;
            if (start(middle) <= e) low = middle;
            else high = middle;
        }
        return low;
    }
    __device__ i64 first(i64 line) const {  // the first element at or behind a line's begin; COO in the order of lines
        if (lines) return start(line);
        i64 low = 0, high = count;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (start(middle) < line) low = middle + 1;
            else high = middle;
        }
        return low;
    }
    __device__ Matrix of_batch(i64 batch, i64 bytes) const {
        Matrix found = *this;
        found.offsets += batch * line_stride;
        found.indices += batch * stride;
        found.values = (char *)values + batch * stride * bytes;
        return found;
    }
};
struct Params {
    Matrix a, b, c, x, y;
    const void *alpha_at, *beta_at;
    u64 alpha[2], beta[2];
    i64 m, n, k;
    void *room, *more;
    i64 turned;      // lines are columns of what is taken of the matrix
    i64 conjugated;  // bits: A, X, Y
};

__device__ i64 thread() { return blockIdx.x * (i64)blockDim.x + threadIdx.x; }
__device__ i64 threads() { return gridDim.x * (i64)blockDim.x; }
