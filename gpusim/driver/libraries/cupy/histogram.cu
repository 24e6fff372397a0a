// How many samples lie between each two of `bins` + 1 edges that rise, or, without edges, are each number below `bins`.
// A block counts in shared memory, in numbers as long as the result's, or in the result if `shared` is false.
// Macros: SAMPLE and EDGE, the types of samples and edges. grid: any.
constexpr int BLOCK = 384, ITEMS = sizeof(SAMPLE) > 4 ? 8 : 16;

__device__ int bin_of(SAMPLE sample, const EDGE* edges, int bins) {
    if (!edges) return sample >= 0 && sample < bins ? int(sample) : bins;
    int low = 0, high = bins + 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (EDGE(sample) >= edges[middle]) low = middle + 1;
        else high = middle;
    }
    return low ? low - 1 : bins;  // one that is not a number is in none, too
}

extern "C" __global__ void __launch_bounds__(BLOCK) histogram(
    const SAMPLE* samples, unsigned count, const EDGE* edges, int bins, bool shared, unsigned long long* result
) {
    extern __shared__ unsigned long long found[];
    for (int k = threadIdx.x; shared && k < bins; k += BLOCK) found[k] = 0;
    __syncthreads();
    for (unsigned first = blockIdx.x * BLOCK * ITEMS; first < count; first += gridDim.x * BLOCK * ITEMS) {
        int in[ITEMS];
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            const unsigned k = first + item * BLOCK + threadIdx.x;
            in[item] = k < count ? bin_of(samples[k], edges, bins) : bins;
        }
#pragma unroll
        for (int item = 0; item < ITEMS; ++item)
            if (in[item] < bins) atomicAdd(shared ? &found[in[item]] : &result[in[item]], 1);
    }
    __syncthreads();
    for (int k = threadIdx.x; shared && k < bins; k += BLOCK)
        if (found[k]) atomicAdd(&result[k], found[k]);
}
