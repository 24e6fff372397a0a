// What the GPUs of sm_100a add to CUDA C++: tensor memory, and matrix products that one thread starts. Each function is one
// PTX instruction (PTX ISA 9.0, section 9.7.16), or two where the second waits for the first. BLOCKS: 2 where the two
// blocks of a cluster act as one, else 1.
#pragma once
#include "hopper.cuh"

// ---- Tensor memory: 128 lanes of 512 columns of 32 bits in each SM. An address has the lane in its upper half and the
// column in its lower half. A warp reaches the 32 lanes of its number in its four.

// One warp takes columns, 32 or another power of two, for the block, and the address of the first comes to `where` in
// shared memory; blocks that come later wait until there are as many free.
template <int BLOCKS> __device__ inline void take_columns(u32 where, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;\n"
               "tcgen05.relinquish_alloc_permit.cta_group::%2.sync.aligned;"
               ::"r"(where), "r"(columns), "n"(BLOCKS) : "memory");
}
template <int BLOCKS> __device__ inline void give_columns(u32 first, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(first), "r"(columns), "n"(BLOCKS) : "memory");
}
// What other threads did to tensor memory is over, and seen, if before they arrived at the barrier that was waited for
// they have called the one, and after it this one calls the other. `products_tell` needs no call before it.
__device__ inline void before_arrival() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ inline void after_wait() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// 32 columns of a lane for each thread of a warp.
__device__ inline void load_columns(float (&column)[32], u32 address) {
#define TO_FOUR(d, i) "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3])
#define TO_SIXTEEN(d, i) TO_FOUR(d, i), TO_FOUR(d, i + 4), TO_FOUR(d, i + 8), TO_FOUR(d, i + 12)
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 " REGISTERS_32 ", [%32];\ntcgen05.wait::ld.sync.aligned;"
               : TO_SIXTEEN(column, 0), TO_SIXTEEN(column, 16) : "r"(address) : "memory");
}
// 32 rows of 16 bytes of shared memory become four columns, the same in the lanes of all four warps.
__device__ inline void copy_scales(u32 to, u64 from) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}

// ---- Products: `a` and `b` lie in shared memory, with K along their rows, and the sums of row i in lane i.

// Says what is multiplied: halves, with sums in single precision.
__device__ constexpr u32 product_of_halves(u32 rows, u32 columns) { return 1 << 4 | columns / 8 << 17 | rows / 16 << 24; }
// Packed 4-bit floats (E2M1) with scales, which are UE4M3 or powers of two (UE8M0). pair: which two of four scales in a
// column, 0 or 2, where a product needs two.
__device__ constexpr u32 product_of_fp4(u32 rows, u32 columns, bool powers, u32 pair) {
  return pair << 4 | 1 << 7 | 1 << 10 | columns / 8 << 17 | (u32)powers << 23 | rows / 128 << 27 | pair << 29;
}
// Describes rows of 128 bytes, swizzled: as for wgmma, but for a bit that says so.
__device__ inline u64 swizzled_rows(u32 address) { return descriptor(address) | 1ull << 46; }
// Describes rows of 16 bytes, one after the other.
__device__ inline u64 short_rows(u32 address) { return (u64)(address >> 4) | 1ull << 16 | 8ull << 32 | 1ull << 46; }

// `add` is 0 to begin new sums. Products of one thread to the same sums follow each other.
template <int BLOCKS> __device__ inline void multiply_halves(u32 sums, u64 a, u64 b, u32 what, u32 add) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, p; }"
               ::"r"(sums), "l"(a), "l"(b), "r"(what), "r"(add), "n"(BLOCKS) : "memory");
}
// 64 numbers of a row have one scale for each 32, or each 16, of them.
template <int SHARE>
__device__ inline void multiply_fp4(u32 sums, u64 a, u64 b, u32 what, u32 scales_a, u32 scales_b, u32 add) {
#define FP4(kind)                                                                                                \
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %6, 0;\n"                                                         \
               "tcgen05.mma.cta_group::1.kind::" kind " [%0], %1, %2, %3, [%4], [%5], p; }"                      \
               ::"r"(sums), "l"(a), "l"(b), "r"(what), "r"(scales_a), "r"(scales_b), "r"(add) : "memory")
  if (SHARE == 16) FP4("mxf4nvf4.block_scale.scale_vec::4X"); else FP4("mxf4.block_scale.scale_vec::2X");
}
// The mbarrier, of both blocks of a pair, hears when all products and copies that this thread has started are done.
template <int BLOCKS> __device__ inline void products_tell(u32 barrier) {
  if (BLOCKS == 1)
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
  else
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(barrier), "h"((unsigned short)3) : "memory");
}

// ---- Copies, and shared memory.

// As `load_box`, where the mbarrier may be that of the pair's other block.
__device__ inline void load_box_of_pair(u32 to, const TensorMap &map, u32 x, u32 y, u32 barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
               "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// Bytes that lie one after the other, a multiple of 16.
__device__ inline void load_bytes(u32 to, const void *from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// Until of this thread's stores all but the last so many have been read.
template <int PENDING> __device__ inline void older_stores_have_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
__device__ inline void store_piece(u32 to, u32 x, u32 y, u32 z, u32 w) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
