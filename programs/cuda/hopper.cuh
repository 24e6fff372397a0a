// What Hopper adds to CUDA C++: each function is one PTX instruction (PTX ISA 8.5, section 9.7), or the loop that a
// wait takes. Addresses of shared memory are 32 bits wide, as these instructions want them.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

// A CUtensorMap, which the driver fills in: where an array lies, its shape, and the box that one copy takes.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

__device__ inline u32 shared_address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// ---- mbarriers: a phase ends when as many threads have arrived as `init` says and all bytes expected are there.

__device__ inline void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers known to the units that copy, and to the other blocks of a cluster.
__device__ inline void barriers_are_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// This thread arrives, and so many bytes have to come before the phase can end.
__device__ inline void arrive_and_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// The same on the barrier at this address in another block of the cluster, by one that has written nothing for it to see:
// to release writes to a cluster takes a fence of some 1,000 cycles.
__device__ inline void arrive_at(u32 barrier, u32 rank) {
  asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(rank) : "memory");
}
// Waits until the phase of this parity has ended; of a new barrier, that of parity 1 has.
__device__ inline void wait(u32 barrier, u32 parity) {
  u32 over;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
  } while (!over);
}

// ---- TMA: one thread starts the copy of a box, whose first element is column x of row y.

__device__ inline void load_box(u32 to, const TensorMap &map, u32 x, u32 y, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// The same into all blocks of the cluster whose bits are set, each at the same address and with its own barrier.
__device__ inline void load_box_for(u32 to, const TensorMap &map, u32 x, u32 y, u32 barrier, unsigned short blocks) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(blocks) : "memory");
}
__device__ inline void store_box(const TensorMap &map, u32 x, u32 y, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n"
               "cp.async.bulk.commit_group;" ::"l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}
// Until shared memory of this thread's stores may be written again.
__device__ inline void stores_have_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
// What threads have written to shared memory is seen by TMA and wgmma, which come to it by another way.
__device__ inline void writes_are_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- wgmma: four warps multiply together, out of shared memory.

// Describes a matrix with rows of 128 bytes, swizzled, as a tensor map with swizzle 128B writes it: eight rows are 1,024
// bytes, where the next eight begin. The next 16 halves of the rows begin 32 bytes on, which is 2 here.
__device__ inline u64 descriptor(u32 address) { return (u64)(address >> 4 & 0x3FFF) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until no more than so many committed groups are under way.
template <int PENDING> __device__ inline void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from moving sums out of their registers while a group is under way.
template <int N> __device__ inline void hold(float (&sum)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(sum[i])::"memory");
}

#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(d, i) FOUR(d, i), FOUR(d, i + 4), FOUR(d, i + 8), FOUR(d, i + 12)
#define REGISTERS_32 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define REGISTERS_64 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60," \
  "%61,%62,%63}"

// 64 x 16 halves times the transpose of 128 x 16, both with K along their rows; `add` is 0 to begin new sums.
// Lane l of warp w has the sums of rows 16 w + l / 4 (and 8 more) in columns 8 j + 2 (l % 4) and the next one:
// 4 j and 4 j + 1 (4 j + 2 and 4 j + 3) of `sum`.
__device__ inline void multiply(float (&sum)[64], u64 a, u64 b, u32 add) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " REGISTERS_64 ", %64, %65, p, 1, 1, 0, 0; }"
               : SIXTEEN(sum, 0), SIXTEEN(sum, 16), SIXTEEN(sum, 32), SIXTEEN(sum, 48)
               : "l"(a), "l"(b), "r"(add));
}
// 64 x 16 halves in registers times 16 x 64 with K across its rows.
__device__ inline void multiply_registers(float (&sum)[32], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " REGISTERS_32 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : SIXTEEN(sum, 0), SIXTEEN(sum, 16) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));
}

// ---- Registers change hands between warp groups of a block.

template <int COUNT> __device__ inline void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> __device__ inline void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

// ---- The rest: barriers of some threads, clusters, halves, matrices of 8 x 8 halves.

// Waits for `threads` threads that name the barrier (1 to 15; 0 is that of __syncthreads).
__device__ inline void meet(u32 barrier, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// A value that is the same in all lanes of a warp, so that the compiler knows it and computes with it once.
__device__ inline u32 uniform(u32 value) { return __shfl_sync(0xffffffff, value, 0); }
// Whether this lane is the one of its warp that does what one thread has to do. The compiler knows that it is one.
__device__ inline bool elected() {
  u32 yes;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes));
  return yes;
}
__device__ inline u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same for blocks that have nothing to tell each other but that they are there, without a fence.
__device__ inline void meet_cluster_only() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// Address of shared memory that lies in another block of the cluster where `address` lies in this one.
__device__ inline u32 address_in(u32 address, u32 rank) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ inline void store_at(u32 there, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
}
__device__ inline void count_at(u32 there) {
  asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" ::"r"(there) : "memory");
}
__device__ inline u32 pack(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
// Four 8 x 8 matrices of halves; lane l names row l % 8 of matrix l / 8.
__device__ inline void load_matrices(u32 (&matrix)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3]) : "r"(address) : "memory");
}
__device__ inline void store_matrices(u32 address, u32 m0, u32 m1, u32 m2, u32 m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(address), "r"(m0), "r"(m1), "r"(m2), "r"(m3) : "memory");
}
// Adds the product of 16 x 16 by 16 x 8 halves, by one warp.
__device__ inline void multiply_warp(float *sum, const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : FOUR(sum, 0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
