// The gradient of a filter of 3 x 3 taps, one apart, from products for 16 points instead of 36 (Winograd's F(3 x 3, 2 x 2):
// Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, 2016), channels before places. NAME the kernel. A tile is
// 2 x 2 of the result's gradient and the 4 x 4 of image that its taps meet. SIZE 2, 4: of a channel of y or x all tiles for
// all points, [point, channel, tile], which lie in `room` behind each other; SIZE 3: the filter from the sums behind those,
// [point, channel of y, of x].
#include "types.cuh"

struct Winograd {
    const float *x, *y;
    float *w, *room;
    int batch, of_y, of_x, height, width, rows, columns, above, left, pitch;  // of images, of results; of a channel's tiles
};
constexpr int POINTS = 4, FROM = SIZE == 3 ? POINTS : SIZE, TO = SIZE == 3 ? 3 : POINTS;

// A row or a column for the points 0, 1, -1 and that far away, or back.
__device__ inline void turn(const float (&x)[FROM], float (&to)[TO]) {
#if SIZE == 4
    to[0] = x[0] - x[2], to[1] = x[1] + x[2], to[2] = x[2] - x[1], to[3] = x[1] - x[3];
#elif SIZE == 2
    to[0] = x[0], to[1] = (x[0] + x[1]) / 2, to[2] = (x[0] - x[1]) / 2, to[3] = x[1];
#else
    to[0] = x[0] + x[1] + x[2], to[1] = x[1] - x[2], to[2] = x[1] + x[2] - x[3];
#endif
}

__device__ inline void turn(const float (&x)[FROM][FROM], float (&to)[TO][TO]) {
    float half[TO][FROM];
#pragma unroll
    for (int j = 0; j < FROM; j++) {
        float column[FROM], turned[TO];
#pragma unroll
        for (int i = 0; i < FROM; i++) column[i] = x[i][j];
        turn(column, turned);
#pragma unroll
        for (int i = 0; i < TO; i++) half[i][j] = turned[i];
    }
#pragma unroll
    for (int i = 0; i < TO; i++) turn(half[i], to[i]);
}

extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Winograd p) {
    int t = threadIdx.x, number = blockIdx.x * 256 + t, channel = blockIdx.y;
    float of[FROM][FROM] = {}, to[TO][TO];
    long long of_point = SIZE == 3 ? p.of_y * p.of_x : (SIZE == 2 ? p.of_y : p.of_x) * p.pitch;
    float *room = p.room + number + 16ll * p.pitch * (SIZE == 2 ? 0 : SIZE == 4 ? p.of_y : p.of_y + p.of_x) + channel * p.pitch;
#if SIZE == 3
    __shared__ float taps[256 * 9];
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (number < of_point) of[i / POINTS][i % POINTS] = room[i * of_point];
    turn(of, to);
#pragma unroll
    for (int i = 0; i < 9; i++) taps[t * 9 + i] = to[i / 3][i % 3];
    __syncthreads();
    for (int i = t, first = blockIdx.x * 256 * 9; i < 256 * 9 && first + i < 9 * of_point; i += 256) p.w[first + i] = taps[i];
#else
    int rows = (p.rows + 1) / 2, columns = (p.columns + 1) / 2, tile = number / columns;
    int x = number % columns * 2 - (SIZE == 4) * p.left, y = tile % rows * 2 - (SIZE == 4) * p.above, image = tile / rows;
    if (number >= p.pitch) return;
    int height = SIZE == 4 ? p.height : p.rows, width = SIZE == 4 ? p.width : p.columns;
    const float *from = SIZE == 4 ? p.x + (image * p.of_x + channel) * height * width : p.y + (image * p.of_y + channel) * height * width;
#pragma unroll
    for (int i = 0; i < SIZE * SIZE; i++)
        if (image < p.batch && (u32)(x + i % SIZE) < width && (u32)(y + i / SIZE) < height)
            of[i / SIZE][i % SIZE] = from[(y + i / SIZE) * width + x + i % SIZE];
    turn(of, to);
#pragma unroll
    for (int i = 0; i < 16; i++) room[i * of_point] = to[i / POINTS][i % POINTS];
#endif
}
