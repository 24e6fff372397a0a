// Copies a tensor, NAME the kernel, so that channels lie together, each group's rounded up with zeros, or back (BACK). A
// block has 32 places of an image, or of a filter's row, and 32 channels of a group.
#include "../dnn/conv.cuh"

extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    __shared__ T tile[32][33];
    int group = blockIdx.x % p.groups, image = blockIdx.x / p.groups, row = image % p.rows;
    const T *from = (const T *)p.image + (image / p.rows * p.parts + row) * p.image_group;
    int out = image * p.out_group, place0 = blockIdx.y * 32, channel0 = blockIdx.z * 32;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Index &places = p.free[0];
    // Lanes follow each other where the tensor does.
    Place of_lane = place(places, place0 + lane);
#pragma unroll
    for (int each = warp; each < 32; each += 8) {
        int channel = channel0 + (BACK ? lane : each);
        Place at = BACK ? place(places, place0 + each) : of_lane;
        T value = {};
        if (row < p.parts && channel < p.x && at.there()) value = from[at.image + group * p.plain_group + channel * p.plain_channel];
        tile[BACK ? each : lane][BACK ? lane : each] = value;
    }
    __syncthreads();
#pragma unroll
    for (int each = warp; each < 32; each += 8) {
        int channel = channel0 + (BACK ? each : lane);
        Place at = BACK ? of_lane : place(places, place0 + each);
        if (channel >= p.channels || !at.there()) continue;
        int to = out + at.other + group * p.y + channel * p.out_channel;
        T value = tile[BACK ? lane : each][BACK ? each : lane];
        if (BACK) Finish(p).put(wide(value), group * p.channels + channel, to);
        else ((T *)p.out)[to] = value;
    }
}
