// Kernels whose blocks write down where and when they ran. Each block has five numbers at stamps[5 * block]: SM,
// globaltimer at its start and at its end in ns, clock64 at its start, and clock64 at its end or what a kernel says.

#define DEVICE __device__ __forceinline__
enum { SM, START, END, CLOCK, LAST, STAMPS };

DEVICE long long now() {
    long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

DEVICE void begin(long long *stamps) {
    if (threadIdx.x == 0) {
        unsigned sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        long long *mine = stamps + STAMPS * blockIdx.x;
        mine[START] = now();
        mine[CLOCK] = clock64();
        mine[SM] = sm;
    }
}

DEVICE void end(long long *stamps) {
    __syncthreads();
    if (threadIdx.x == 0) {
        long long *mine = stamps + STAMPS * blockIdx.x;
        mine[LAST] = clock64();
        mine[END] = now();
    }
}

DEVICE void wait_cycles(long long cycles) {
    if (threadIdx.x == 0) {
        long long first = clock64();
        while (clock64() - first < cycles) {
        }
    }
}

// Block b takes cycles + step * (b % modulus).
extern "C" __global__ void spin(long long *stamps, int cycles, int step, int modulus) {
    begin(stamps);
    wait_cycles(cycles + (long long)step * (blockIdx.x % modulus));
    end(stamps);
}

// The same with programmatic dependent launch: early says when a dependent kernel may start. LAST: when the wait ended.
extern "C" __global__ void spin_dependent(long long *stamps, int cycles, int early) {
    begin(stamps);
    if (early) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    long long waited = now();
    wait_cycles(cycles);
    end(stamps);
    if (threadIdx.x == 0) stamps[STAMPS * blockIdx.x + LAST] = waited;
}

extern "C" __global__ void fma_chain(long long *stamps, float *out, int count) {
    begin(stamps);
    float v[8], a = 0.999f, b = 0.001f * threadIdx.x;
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = k + threadIdx.x;
    for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = fmaf(v[k], a, b);
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += v[k];
    if (sum == 12345.678f) out[threadIdx.x] = sum;
    end(stamps);
}

extern "C" __global__ void stream_copy(long long *stamps, float4 *to, const float4 *from, long long count) {
    begin(stamps);
    long long step = (long long)gridDim.x * blockDim.x, i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        float4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
        to[i] = a, to[i + step] = b, to[i + 2 * step] = c, to[i + 3 * step] = d;
    }
    for (; i < count; i += step) to[i] = from[i];
    end(stamps);
}

extern "C" __global__ void shared_work(long long *stamps, float *out, int count, int words) {
    extern __shared__ float tile[];
    begin(stamps);
    for (int i = threadIdx.x; i < words; i += blockDim.x) tile[i] = i;
    __syncthreads();
    float v[8] = {};
    int at = threadIdx.x;
    for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] += *(volatile float *)(tile + ((at + k * blockDim.x) & (words - 1)));
        at += 32;
    }
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += v[k];
    if (sum == 12345.678f) out[threadIdx.x] = sum;
    end(stamps);
}

extern "C" __global__ void saxpy_chunk(long long *stamps, float *y, const float *x, int count, int iterations) {
    begin(stamps);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float v = x[i];
        for (int k = 0; k < iterations; ++k) v = fmaf(v, 0.999f, 0.5f);
        y[i] = v;
    }
    end(stamps);
}

// Thread t touches every (threads)th of the places: place i is the word stride * (i * multiplier % places). It goes on
// once the word is there. With times, the time when each came goes to times[i]; with write, the word is written too.
extern "C" __global__ void touch(long long *stamps, volatile float *p, long long places, long long stride,
                                 long long multiplier, int write, long long *times) {
    begin(stamps);
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < places; i += gridDim.x * blockDim.x) {
        volatile float *word = p + stride * (i * multiplier % places);
        if (write == 2) {
            *word = 1.0f;
            __threadfence_system();
        } else {
            float value = *word;
            if (value == -12345.678f) ++i;
            if (write) *word = value + 1.0f;
        }
        if (times) times[i] = now();
    }
    end(stamps);
}

extern "C" __global__ void read_all(long long *stamps, const float4 *from, long long count, float *out) {
    begin(stamps);
    float sum = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        float4 v = from[i];
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 12345.678f) out[threadIdx.x] = sum;
    end(stamps);
}

extern "C" __global__ void write_all(long long *stamps, float4 *to, long long count) {
    begin(stamps);
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        to[i] = make_float4(1, 2, 3, 4);
    end(stamps);
}
