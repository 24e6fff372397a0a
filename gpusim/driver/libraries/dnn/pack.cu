// Copies a tensor, NAME the kernel, so that channels lie together, each group's rounded up with zeros, or back (BACK). A
// block has CHANNELS of a group, and PLACES of an image, or of a filter's row. Where channels lie together a thread takes 16
// bytes of them; else lanes follow each other along the places.
#include "../dnn/conv.cuh"

constexpr int PLACES = 2048 / CHANNELS, CHUNK = 16 / sizeof(T), CHUNKS = CHANNELS / CHUNK, COUNT = PLACES * CHUNKS / 256;
struct alignas(16) Chunk { T of[CHUNK]; };

extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ Conv p) {
    __shared__ T tile[CHANNELS][PLACES + 2];
    __shared__ Place places[PLACES];
    int group = blockIdx.x % p.groups, image = blockIdx.x / p.groups, row = image % p.rows, t = threadIdx.x;
    int place0 = blockIdx.y * PLACES, channel0 = blockIdx.z * CHANNELS;
    const T *from = (const T *)p.image + (image / p.rows * p.parts + row) * p.image_group + group * p.plain_group;
    int out = image * p.out_group + group * p.y;
    if (t < PLACES) places[t] = place(p.free[0], place0 + t);
    __syncthreads();
    Place own = places[t % PLACES];
    T values[8] = {};
    if (BACK) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int at = (t + 256 * i) / CHUNKS, channel = channel0 + t % CHUNKS * CHUNK;
            if (channel < p.channels && places[at].there())
                *(Chunk *)(values + i * CHUNK) = *(const Chunk *)(from + places[at].image + channel);
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int channel = channel0 + (t + 256 * i) / PLACES;
            if (row < p.parts && channel < p.x && own.there()) values[i] = from[own.image + channel * p.plain_channel];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (BACK) tile[t % CHUNKS * CHUNK + i % CHUNK][(t + 256 * (i / CHUNK)) / CHUNKS] = values[i];
        else tile[(t + 256 * i) / PLACES][t % PLACES] = values[i];
    __syncthreads();
    Finish finish(p);
#pragma unroll
    for (int i = 0; i < (BACK ? 8 : COUNT); i++) {
        int of = (t + 256 * i) / PLACES, channel = BACK ? channel0 + of : channel0 + t % CHUNKS * CHUNK;
        const Place &place = BACK ? own : places[(t + 256 * i) / CHUNKS];
        if (channel >= p.channels || !place.there()) continue;
        int to = out + place.other + channel * p.out_channel;
        if (BACK) finish.put(wide(tile[of][t % PLACES]), group * p.channels + channel, to);
        else {
            Chunk chunk;
#pragma unroll
            for (int each = 0; each < CHUNK; each++) chunk.of[each] = tile[t % CHUNKS * CHUNK + each][(t + 256 * i) / CHUNKS];
            *(Chunk *)((T *)p.out + to) = chunk;
        }
    }
}
