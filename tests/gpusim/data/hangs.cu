// Kernels that never end, and one that ends late.
__device__ unsigned shared(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void all_blocks(int *count, int *out, int blocks) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (*(volatile int *)count < blocks) {
        }
    }
    __syncthreads();
    out[blockIdx.x] = 1;
}
extern "C" __global__ void copies(const int *in, int *out, int announced, int arrivals) {
    __shared__ __align__(128) int data[256];
    __shared__ __align__(8) unsigned long long bar;
    int t = threadIdx.x;
    if (t == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared(&bar)),
                     "r"(arrivals));
    __syncthreads();
    if (t == 0) {
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(shared(&bar)),
                     "r"(announced)
                     : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(
                         shared(data)),
                     "l"(in), "r"(shared(&bar))
                     : "memory");
    }
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L; }" ::"r"(
                     shared(&bar))
                 : "memory");
    out[t] = data[t & 127];
}
extern "C" __global__ void late(volatile int *flag, int *out, long long cycles) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            for (long long k = 0; k < cycles; ++k) out[1] = (int)k;
            flag[0] = 1;
        }
    } else {
        while (flag[0] == 0) {
        }
    }
    out[0] = 1;
}
extern "C" __global__ void uncommitted(const float *in, float *out, int commits) {
    __shared__ float a[256];
    int t = threadIdx.x;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared(&a[t])), "l"(in + t) : "memory");
    if (commits) asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = a[255 - t];
}
