// Waits for all threads of the blocks of a cluster; what they have written is seen then.
__device__ inline void meet_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
