// Kernels that each lean on one part of the machine; those of _CHAINS in parameter_kernels.py come before them.
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void k_empty(u32 *out) {}

// Lets the next grid begin and waits for the one before it.
extern "C" __global__ void k_dependent(u32 *out, int rounds) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int r = 0; r < rounds; r++) atomicAdd(out, 1);
}

// Of 16 products of matrices each needs the one before it.
extern "C" __global__ void k_tensor(u32 *out, int rounds) {
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  u32 a = threadIdx.x;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int k = 0; k < 16; k++)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                   "{%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};"
                   : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(a));
  }
  if (d0 == 1.5f) out[0] = 1;
}

// The same with sums of 16 bits, which do not need each other.
extern "C" __global__ void k_short_sums(u32 *out, int rounds) {
  u32 a = threadIdx.x, d[8] = {a, a + 1, a + 2, a + 3};
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int k = 0; k < 16; k++)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1},{%2,%2,%2,%2},{%2,%2},{%0,%1};"
                   : "+r"(d[k % 4]), "+r"(d[k % 4 + 4]) : "r"(a));
  }
  if (d[0] + d[1] + d[2] + d[3] == 1) out[0] = 1;
}

// Products of four warps out of shared memory, with few and with many columns.
extern "C" __global__ void k_group(u32 *out, int rounds) {
  __shared__ __align__(1024) u32 room[4096];
  u32 base;
  float d[16] = {};
  asm("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(base) : "l"(room));
  u64 left = (base & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32, right = left;
  __syncthreads();
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
      "%16,%17,p,1,1,0,0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(left), "l"(right));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  if (d[0] == 1.5f) out[0] = 1;
}

// A loop of many iterations of almost nothing; `steps` is the same for all lanes, so that its arithmetic is uniform.
extern "C" __global__ void k_loop(u32 *out, int rounds) {
  u32 a = threadIdx.x;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) asm volatile("add.u32 %0, %0, 1;" : "+r"(a));
  if (a == 12345) out[0] = 1;
}

extern "C" __global__ void k_uniform(u32 *out, int rounds) {
  int a = blockIdx.x + rounds, s = 0;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int k = 0; k < 16; k++) { a = (a << 3) ^ (a >> 5) ^ k; s += a; }
  }
  if (s == 12345) out[threadIdx.x] = s;
}

__device__ __noinline__ u32 twice(u32 a) { return a * a + 7; }

extern "C" __global__ void k_call(u32 *out, int rounds) {
  u32 a = threadIdx.x;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) a = twice(a);
  if (a == 12345) out[0] = 1;
}

#define FMA4(a) asm volatile("fma.rn.f32 %0,%0,%0,%0; fma.rn.f32 %0,%0,%0,%0; fma.rn.f32 %0,%0,%0,%0;" \
                             "fma.rn.f32 %0,%0,%0,%0;" : "+f"(a));
#define ADD12(a) asm volatile("add.f32 %0,%0,%0; add.f32 %0,%0,%0; add.f32 %0,%0,%0; add.f32 %0,%0,%0;" \
  "add.f32 %0,%0,%0; add.f32 %0,%0,%0; add.f32 %0,%0,%0; add.f32 %0,%0,%0; add.f32 %0,%0,%0; add.f32 %0,%0,%0;" \
  "add.f32 %0,%0,%0; add.f32 %0,%0,%0;" : "+f"(a));

// Half of the warp waits for the other half.
extern "C" __global__ void k_waiting(u32 *out) {
  if (threadIdx.x < 16)
    while (atomicAdd(out, 0) == 0);
  if (threadIdx.x == 31)
    atomicMax(out, 1);
}

// Lanes that part twice and meet twice.
extern "C" __global__ void k_nested(u32 *out, int rounds, int cut) {
  float a = threadIdx.x;
  int lane = threadIdx.x & 31;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    if (lane < cut) {
      FMA4(a) FMA4(a) FMA4(a)
      if (lane < cut / 2) { FMA4(a) FMA4(a) FMA4(a) } else { ADD12(a) }
      FMA4(a)
    } else {
      ADD12(a)
    }
  }
  if (a == 1.5f) out[0] = 1;
}

// Barriers that count for how many threads something holds.
extern "C" __global__ void k_counted(u32 *out, int rounds) {
  u32 a = threadIdx.x;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) a += __syncthreads_count(a & 1);
  if (a == 12345) out[0] = 1;
}

extern "C" __global__ void k_barrier(u32 *out, int rounds) {
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) __syncthreads();
}

// Registers that hold the numbers of threads and blocks, again and again.
extern "C" __global__ void k_special(u32 *out, int rounds) {
  u32 a = 0, b;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int k = 0; k < 8; k++) { asm volatile("mov.u32 %0, %%warpid;" : "=r"(b)); a += b; }
  }
  if (a == 12345) out[0] = 1;
}

// 512 instructions that follow each other, twice.
extern "C" __global__ void k_straight(u32 *out, int rounds) {
  float a = threadIdx.x, b = a, c = a, d = a;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int k = 0; k < 256; k++) {
      asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(a));
      asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(b));
      asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(c));
      asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(d));
    }
  }
  if (a + b + c + d == 1.5f) out[0] = 1;
}

__constant__ u32 table[4096];

// A chain of loads of constants, `step` words apart within `words`.
extern "C" __global__ void k_constants(u32 *out, int rounds, int step, int words) {
  u32 a = 0;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) a = (a + step + table[a]) & (words - 1);
  if (a == 12345) out[0] = a;
}

// A chain of loads of shared memory in which lanes are `stride` words apart.
extern "C" __global__ void k_shared_load(u32 *out, int rounds, int stride) {
  __shared__ u32 s[1056];
  for (int k = threadIdx.x; k < 1056; k += blockDim.x) s[k] = 0;
  __syncthreads();
  u32 a = (threadIdx.x & 31) * stride;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) a += ((volatile u32 *)s)[a & 1023];
  if (a == 12345) out[0] = 1;
}

// Independent stores to shared memory, each out of registers that the next one overwrites.
extern "C" __global__ void k_shared_store(u32 *out, int rounds) {
  __shared__ u32 s[1024];
  u32 a = threadIdx.x;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    #pragma unroll
    for (int k = 0; k < 8; k++) {
      ((volatile u32 *)s)[threadIdx.x] = a;
      asm volatile("mul.lo.u32 %0, %0, 3;" : "+r"(a));
    }
  }
  if (a == 12345) out[0] = s[a & 7];
}

extern "C" __global__ void k_shared_add(u32 *out, int rounds, int stride) {
  __shared__ u32 s[1024];
  u32 a = (threadIdx.x & 31) * stride;
  s[threadIdx.x] = 0;
  __syncthreads();
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) a = (a + atomicExch(s + (a & 1023), 0)) & 1023;
  if (a == 12345) out[0] = 1;
}

// Element i to element i, one after the other by neighbouring threads.
extern "C" __global__ void k_copy(u32 *out, const u32 *in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i];
}

// Threads read four words each, and nothing is written.
extern "C" __global__ void k_read(u32 *out, const uint4 *in, int n, int rounds) {
  u32 s = 0;
  for (int r = 0; r < rounds; r++)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
      uint4 v = __ldcg(in + i);
      s += v.x ^ v.y ^ v.z ^ v.w;
    }
  if (s == 12345) out[0] = s;
}

// The same through the L1 cache, lanes `stride` words apart.
extern "C" __global__ void k_gather(u32 *out, const u32 *in, int rounds, int stride, int words) {
  u32 s = 0, at = threadIdx.x * stride;
  #pragma unroll 4
  for (int r = 0; r < rounds; r++) {
    s += __ldca(in + (at & (words - 1)));
    at += blockDim.x * stride;
  }
  if (s == 12345) out[0] = s;
}

// Each thread reads what it has just stored.
extern "C" __global__ void k_reread(u32 *out, int rounds) {
  u32 s = 0;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    u32 *at = out + threadIdx.x + r * blockDim.x, v;
    asm volatile("st.global.u32 [%1], %2; ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(at), "r"(r) : "memory");
    s += v;
  }
  if (s == 12345) out[0] = s;
}

// Each thread stores the words of a sector of its own one after the other.
extern "C" __global__ void k_fields(u32 *out, int rounds) {
  for (int r = 0; r < rounds; r++) {
    u32 *at = out + 8 * (threadIdx.x + r * blockDim.x);
    #pragma unroll
    for (int k = 0; k < 8; k++) asm volatile("st.global.u32 [%0], %1;" :: "l"(at + k), "r"(r) : "memory");
  }
}

// Each thread stores to its word again, some hundred cycles later.
extern "C" __global__ void k_store_again(u32 *out, u32 rounds) {
  u32 a = rounds;
  for (u32 r = 0; r < rounds; r++) {
    asm volatile("st.global.u32 [%0], %1;" :: "l"(out + threadIdx.x), "r"(a) : "memory");
    #pragma unroll
    for (int k = 0; k < 32; k++) asm volatile("mul.lo.u32 %0, %0, 3;" : "+r"(a));
  }
}

// `way` 0: each address comes out of the L1 cache, 1: from beyond it.
extern "C" __global__ void k_chase(u32 *out, const u32 *next, int rounds, int way) {
  u32 a = threadIdx.x;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) a = way ? __ldcg(next + a) : __ldca(next + a);
  if (a == 0xffffffff) out[0] = a;
}

// Stores of words that lie `stride` words apart.
extern "C" __global__ void k_scatter(u32 *out, int rounds, int stride, int words) {
  u32 at = (blockIdx.x * blockDim.x + threadIdx.x) * stride;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    out[at & (words - 1)] = r;
    at += gridDim.x * blockDim.x * stride;
  }
}

extern "C" __global__ void k_wide_store(uint4 *out, int rounds) {
  uint4 v = make_uint4(threadIdx.x, 1, 2, 3);
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    out[(threadIdx.x + 32 * r) & 1023] = v;
    asm volatile("mul.lo.u32 %0, %0, 3; mul.lo.u32 %1, %1, 3;" : "+r"(v.x), "+r"(v.y));
  }
}

// Each address comes out of an atomic on the one before.
extern "C" __global__ void k_atomic_chase(u32 *out, int rounds) {
  u32 a = 0;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) a = atomicAdd(out + a, 0);
  if (a == 12345) out[0] = 1;
}

// Reductions: `spread` 0 to one address, 1 to whole lines, else to words that many apart.
extern "C" __global__ void k_reduce(u32 *out, int rounds, int spread, int words) {
  u32 at = (blockIdx.x * blockDim.x + threadIdx.x) * spread;
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    atomicAdd(out + (at & (words - 1)), 1);
    at += 32 * spread;
  }
}

extern "C" __global__ void k_reduce_floats(float *out, int rounds) {
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) atomicAdd(out, 1.0f);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) k_cluster(u32 *out, int rounds, int barriers) {
  __shared__ u32 s[32];
  u32 mine, far, v, rank;
  if (threadIdx.x < 32) s[threadIdx.x] = 0;
  if (threadIdx.x == 0) out[1] = rounds;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(mine) : "l"(s));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(mine), "r"(rank ^ 1));
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  #pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(far) : "memory");
    far += v;
  }
  #pragma unroll 1
  for (int r = 0; r < barriers; r++) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (far == 12345) out[0] = 1;
}

extern "C" __global__ void k_bulk(u32 *out, const u32 *in, int rounds) {
  __shared__ __align__(128) u32 s[128];
  __shared__ __align__(8) u64 bar;
  u32 at, b;
  asm("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(at) : "l"(s));
  asm("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(b) : "l"(&bar));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b) : "memory");
  __syncthreads();
  if (threadIdx.x == 0)
    for (int r = 0; r < rounds; r++) {
      asm volatile("{.reg .b64 st; .reg .pred w;"
        "mbarrier.arrive.expect_tx.shared.b64 st, [%0], 512;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 512, [%0];"
        "again: mbarrier.try_wait.parity.shared.b64 w, [%0], %3; @!w bra again;}"
        :: "r"(b), "r"(at), "l"(in), "r"(r & 1) : "memory");
    }
  __syncthreads();
  if (s[threadIdx.x & 127] == 12345) out[0] = 1;
}

extern "C" __global__ void k_bulk_store(u32 *out, u32 *to, int rounds) {
  __shared__ __align__(128) u32 s[128];
  u32 at;
  s[threadIdx.x & 127] = threadIdx.x;
  asm("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(at) : "l"(s));
  for (int r = 0; r < rounds; r++)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512; cp.async.bulk.commit_group;"
      "cp.async.bulk.wait_group 0;" :: "l"(to), "r"(at) : "memory");
}

extern "C" __global__ void k_copies(u32 *out, const u32 *in, int rounds) {
  __shared__ __align__(128) u32 s[4096];
  u32 at;
  asm("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(at) : "l"(s));
  at += 16 * threadIdx.x;
  for (int r = 0; r < rounds; r++) {
    for (int k = 0; k < 8; k++)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
        :: "r"(at), "l"(in + 4 * (threadIdx.x + k * blockDim.x)));
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
  }
  if (s[threadIdx.x] == 12345) out[0] = 1;
}
