// A warp's part of a block's tile, in fragments of 16 x 8 as mma.sync has them: of TILE_N columns a warp has WARP_N, and
// WARP_M rows.
template <class Sum> struct Fragments {
    static constexpr int M = WARP_M / 16, N = WARP_N / 8, ACROSS = TILE_N / WARP_N;
    Sum sum[M][N][4];
    int row0, column0, group, lane;

    __device__ Fragments() : sum{} {
        int warp = threadIdx.x / 32;
        row0 = warp / ACROSS * WARP_M, column0 = warp % ACROSS * WARP_N;
        group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
    }
    template <class W> __device__ void write(W &to, int i0, int j0) {
#pragma unroll
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++)
                for (int part = 0; part < 4; part += 2)
                    to.put(i0 + row0 + 16 * i + group + 4 * part, j0 + column0 + 8 * j + 2 * lane,
                           {sum[i][j][part], sum[i][j][part + 1]});
    }
};
