// Kernels each of which pays for one thing: local memory, constants, atomics, fences, loops that spin.
extern "C" __global__ void indexed(const int *in, int *out) {
    int a[32], t = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
    for (int i = 0; i < 32; ++i) a[i] = in[(t + i) & 4095];
    for (int i = 0; i < 16; ++i) s += a[(in[t & 4095] + i * 5) & 31];
    out[t] = s;
}
extern "C" __global__ void doubles(const int *in, int *out) {
    volatile double a[8];
    int t = threadIdx.x;
    a[in[t] & 7] = t;
    a[(in[t] + 1) & 7] = 2;
    out[t] = (int)a[(in[t] + 2) & 7] + (int)a[in[t] & 7];
}
extern "C" __global__ void diverged(const int *in, int *out) {
    volatile int a[16];
    int t = threadIdx.x;
    a[t & 15] = t;
    if (t & 1) out[t] = a[in[t] & 15];
    else out[t] = a[(in[t] + t) & 15];
}
extern "C" __global__ void __launch_bounds__(1024, 2) spilled(const float *in, float *out) {
    float a[48], s = 0;
    int t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 48; ++i) a[i] = in[(t + i * 33) & 4095];
#pragma unroll
    for (int r = 0; r < 3; ++r)
#pragma unroll
        for (int i = 0; i < 48; ++i) a[i] = a[i] * a[(i * 7 + 5) % 48] + a[(i * 11 + 3) % 48];
#pragma unroll
    for (int i = 0; i < 48; ++i) s += a[i] * (i + 1);
    out[t] = s;
}
__constant__ int table[1024];
extern "C" __global__ void constants(const int *in, int *out, int mask) {
    int t = threadIdx.x, v = 0;
#pragma unroll 1
    for (int i = 0; i < 64; ++i) v += table[((t & mask) + i) & 1023];
    out[t] = v;
}
extern "C" __global__ void adds(const int *in, int *bins, int mask) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&bins[in[t & 4095] & mask], 1);
}
extern "C" __global__ void adds_shared(const int *in, int *out, int mask) {
    __shared__ int seen[1024];
    int t = threadIdx.x;
    seen[t] = 0;
    __syncthreads();
    for (int i = 0; i < 64; ++i) atomicAdd(&seen[(in[t] + t) & mask], t);
    __syncthreads();
    out[t] = seen[t];
}
extern "C" __global__ void fenced(const int *in, int *out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 16; ++i) {
        out[t + i * 4096] = i;
        __threadfence();
    }
}
extern "C" __global__ void waits(const int *in, volatile int *out) {
    if (blockIdx.x == 0) {
        for (int i = 0; i < 2000; ++i) out[1 + threadIdx.x] += i;
        __threadfence();
        if (threadIdx.x == 0) out[0] = 1;
    } else {
        while (out[0] == 0) {
        }
    }
}
