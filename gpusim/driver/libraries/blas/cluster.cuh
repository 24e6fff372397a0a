// Waits for all threads of the blocks of a cluster; what they have written is seen then.
__device__ inline void meet_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
__device__ inline u32 shared_address(const void *at) { return (u32)__cvta_generic_to_shared(at); }
#if __CUDA_ARCH__ >= 900
// What lies at this place of shared memory in another block of the cluster.
__device__ inline uint4 of_block(u32 at, u32 rank) {
    uint4 words;
    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(at) : "r"(rank));
    asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "r"(at) : "memory");
    return words;
}
#endif
