// One of the three products of a layer: m x n outputs, sums over k, of two matrices of bf16. LEFT and RIGHT say of each
// factor whether k runs across its rows (1: a row holds all m, or n, of one k) or along them (0).
//
// Two blocks of a cluster compute tiles of 128 x 256 one above the other, each copying half of the right factor to both.
// A group of warps copies, two multiply. Clusters take tiles in groups of eight rows of clusters, so that what a wave
// needs of both factors is little; `clusters` is how many tiles of a cluster are computed, the first ones.
#include "hopper.cuh"

constexpr u32 ROWS = 128, COLUMNS = 256, DEPTH = 64, STAGES = 4, TOGETHER = 8;
constexpr u32 LEFT_BYTES = ROWS * DEPTH * 2, RIGHT_BYTES = COLUMNS * DEPTH * 2, STAGE_BYTES = LEFT_BYTES + RIGHT_BYTES;
constexpr u32 LINE = 64 * DEPTH * 2;  // bytes of a box of 64 x 64, as wide as a swizzle reaches

// Of a stage whose rows run along k: as `descriptor`. Across k: 64 rows of 128 bytes, a box of 64 columns behind the other.
template <bool ACROSS> __device__ inline u64 describe(u32 address) {
  if (!ACROSS) return descriptor(address);
  return (u64)(address >> 4 & 0x3FFF) | (u64)(LINE / 16) << 16 | 64ull << 32 | 1ull << 62;
}

#define SIXTY_FOUR(d, i) SIXTEEN(d, i), SIXTEEN(d, i + 16), SIXTEEN(d, i + 32), SIXTEEN(d, i + 48)

// 64 x 16 by 16 x 256; sums lie as `multiply` has them.
__device__ inline void multiply_wide(float (&sum)[128], u64 a, u64 b, u32 add) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %130, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"
               "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,"
               "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,"
               "%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,"
               "%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,"
               "%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, %131, %132; }"
               : SIXTY_FOUR(sum, 0), SIXTY_FOUR(sum, 64)
               : "l"(a), "l"(b), "r"(add), "n"(LEFT), "n"(RIGHT));
}

__device__ inline u32 pack_bf16(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Row and column of a tile of a cluster, in units of such tiles.
__device__ inline void place(u32 number, u32 down, u32 across, u32 &row, u32 &column) {
  u32 first = number / (TOGETHER * across) * TOGETHER, high = min(down - first, TOGETHER);
  row = first + number % (TOGETHER * across) % high;
  column = number % (TOGETHER * across) / high;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    layer_product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                  const __grid_constant__ TensorMap c, u32 m, u32 n, u32 k, u32 clusters) {
  extern __shared__ unsigned char shared[];
  __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
  const u32 begin = (shared_address(shared) + 1023) & ~1023u, t = threadIdx.x, group = uniform(t / 128);
  const u32 rank = blockIdx.x % 2, steps = (k + DEPTH - 1) / DEPTH;
  const u32 down = (m + 2 * ROWS - 1) / (2 * ROWS), across = (n + COLUMNS - 1) / COLUMNS;
  if (t == 0) {
    for (u32 i = 0; i < STAGES; i++) barrier_init(shared_address(full + i), 1), barrier_init(shared_address(empty + i), 16);
    barriers_are_ready();
  }
  meet_cluster_only();
  u32 stage = 0, parity = 0, row, column;
  if (group == 2) {
    give_registers<40>();
    if (t / 32 % 4 == 0 && elected())
      for (u32 tile = blockIdx.x / 2; tile < clusters; tile += gridDim.x / 2) {
        place(tile, down, across, row, column);
        row = (2 * row + rank) * ROWS, column *= COLUMNS;
        for (u32 step = 0; step < steps; step++) {
          u32 barrier = shared_address(full + stage), to = begin + stage * STAGE_BYTES, at = step * DEPTH;
          wait(shared_address(empty + stage), parity ^ 1);
          arrive_and_expect(barrier, STAGE_BYTES);
          if (LEFT) {
            for (u32 i = 0; i < ROWS / 64; i++) load_box(to + i * LINE, a, row + 64 * i, at, barrier);
          } else {
            load_box(to, a, at, row, barrier);
          }
          to += LEFT_BYTES + rank * (RIGHT_BYTES / 2);
          if (RIGHT) {
            for (u32 i = 0; i < COLUMNS / 128; i++)
              load_box_for(to + i * LINE, b, column + rank * (COLUMNS / 2) + 64 * i, at, barrier, 3);
          } else {
            load_box_for(to, b, at, column + rank * (COLUMNS / 2), barrier, 3);
          }
          if (++stage == STAGES) stage = 0, parity ^= 1;
        }
      }
  } else {
    take_registers<232>();
    const u32 out = begin + STAGES * STAGE_BYTES + group * (2 * LINE), lane = t % 32;
    for (u32 tile = blockIdx.x / 2; tile < clusters; tile += gridDim.x / 2) {
      place(tile, down, across, row, column);
      row = (2 * row + rank) * ROWS, column *= COLUMNS;
      float sum[128];
      u32 before = 0;
      for (u32 step = 0; step < steps; step++) {
        wait(shared_address(full + stage), parity);
        u32 at = begin + stage * STAGE_BYTES;
        u64 left = describe<LEFT>(at + group * LINE), right = describe<RIGHT>(at + LEFT_BYTES);
        hold(sum);
        products_begin();
#pragma unroll
        for (u32 i = 0; i < DEPTH / 16; i++)
          multiply_wide(sum, left + (LEFT ? 128 : 2) * i, right + (RIGHT ? 128 : 2) * i, step > 0 || i > 0);
        products_commit();
        hold(sum);
        products_wait<1>();
        if (step > 0 && lane < 2) arrive_at(shared_address(empty + before), lane);
        before = stage;
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
      products_wait<0>();
      hold(sum);
      if (lane < 2) arrive_at(shared_address(empty + before), lane);
#pragma unroll
      for (u32 half = 0; half < 2; half++) {
        if (t % 128 == 0) stores_have_read();
        meet(1 + group, 128);
        u32 line = t / 32 % 4 * 16 + lane % 16;
#pragma unroll
        for (u32 j = 0; j < 16; j += 2) {
          const float *s = sum + 64 * half + 4 * j;
          u32 to = out + j / 8 * LINE + line * 128 + ((j % 8 + lane / 16) ^ line % 8) * 16;
          store_matrices(to, pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]), pack_bf16(s[4], s[5]), pack_bf16(s[6], s[7]));
        }
        writes_are_visible();
        meet(1 + group, 128);
        if (t % 128 == 0)
          for (u32 i = 0; i < 2; i++) store_box(c, column + 128 * half + 64 * i, row + 64 * group, out + i * LINE);
      }
    }
    if (t % 128 == 0) stores_have_read();
  }
  meet_cluster_only();  // nobody leaves while another may still arrive at its barriers
}
