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
    if (BACK) {  // all places of a channel, then the next's
        Finish finish(p);
        int many = min(p.free[0].count - place0, PLACES), of = t / many, at = t % many;
        for (; of < CHANNELS && channel0 + of < p.channels; of += 256 / many, at += 256 % many) {
            if (at >= many) at -= many, of++;
            int channel = channel0 + of, to = out + places[at].other + channel * p.out_channel;
            if (of < CHANNELS && channel < p.channels) finish.put(wide(tile[of][at]), group * p.channels + channel, to);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        int channel = channel0 + t % CHUNKS * CHUNK;
        const Place &place = places[(t + 256 * i) / CHUNKS];
        if (channel >= p.channels || !place.there()) continue;
        Chunk chunk;
#pragma unroll
        for (int each = 0; each < CHUNK; each++) chunk.of[each] = tile[t % CHUNKS * CHUNK + each][(t + 256 * i) / CHUNKS];
        *(Chunk *)((T *)p.out + out + place.other + channel * p.out_channel) = chunk;
    }
}
