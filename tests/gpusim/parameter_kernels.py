"""Small kernels that each lean on one part of the machine, for the tests that every parameter matters.

They are one source file, compiled once, so that a whole table of parameters costs one call of the compiler.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import gpusim
from gpusim.result import Result
from isa import Program
from isa.instruction import Control
from tests.gpusim import sass
from tests.gpusim.kernels import Kernels

_CHAINS = {  # one instruction whose result the next one needs, and the kind of its register
    "fma": ("fma.rn.f32 %0, %0, %0, %0;", "f"),
    "imad": ("mad.lo.s32 %0, %0, %0, %0;", "r"),
    "alu": ("prmt.b32 %0, %0, %0, %0;", "r"),
    "half": ("fma.rn.f16x2 %0, %0, %0, %0;", "r"),
    "fp64": ("fma.rn.f64 %0, %0, %0, %0;", "d"),
    "xu": ("ex2.approx.ftz.f32 %0, %0;", "f"),
    "wide": ("mul.hi.u32 %0, %0, %0;", "r"),
    "shuffle": ("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;", "r"),
    "vote": ("{.reg .pred p; setp.ne.u32 p, %0, 7; vote.sync.ballot.b32 %0, p, -1;}", "r"),
    "match": ("match.any.sync.b32 %0, %0, -1;", "r"),
    "redux": ("redux.sync.add.s32 %0, %0, -1;", "r"),
    "block_fence": ("membar.cta;", "r"),
    "gpu_fence": ("membar.gl;", "r"),
    "system_fence": ("membar.sys;", "r"),
}
_TYPES = {"f": "float", "r": "unsigned", "d": "double"}


def _chain(name: str, instruction: str, kind: str) -> str:
    body = f'asm volatile("{instruction}" : "+{kind}"(a) :: "memory");' * 16
    return f"""
    extern "C" __global__ void k_{name}(unsigned *out, int rounds) {{
      {_TYPES[kind]} a = threadIdx.x;
      #pragma unroll 1
      for (int r = 0; r < rounds; r++) {{ {body} }}
      if (a == 12345) out[0] = 1;
    }}"""


SOURCE = "".join(_chain(name, *how) for name, how in _CHAINS.items()) + r"""
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
"""


def _words(count: int, values: Any = 0) -> np.ndarray:
    return np.full(count, values, np.uint32)


def _stride(words: int, step: int) -> np.ndarray:
    """`next` of a chain that goes through `words` words in steps of `step` and comes back to where it began."""
    return ((np.arange(words) + step) % words).astype(np.uint32)


#: Machine code in which an instruction overwrites what the one before it reads, and waits for no more than that: before
#: it, what sets it up, then the two that are repeated.
_REUSE = {
    "reuse_global_load": ("", "LDG.E R4, desc[UR4][R2.64]", "IADD3 R2, R2, 0x0, RZ"),
    "reuse_global_store": ("", "STG.E desc[UR4][R2.64], R4", "IADD3 R4, R4, 0x1, RZ"),
    "reuse_global_vector": ("", "STG.E.128 desc[UR4][R2.64], R4", "IADD3 R4, R4, 0x1, RZ"),
    "reuse_shared_load": ("MOV R2, 0x400", "LDS R4, [R2]", "IADD3 R2, R2, 0x0, RZ"),
    "reuse_shared_store": ("MOV R2, 0x400", "STS [R2], R4", "IADD3 R4, R4, 0x1, RZ"),
    "reuse_constant_load": ("MOV R2, 0x210", "LDC R4, c[0x0][R2]", "IADD3 R2, R2, 0x0, RZ"),
}


#: What is launched, by name: kernel, blocks, threads of a block, its arguments behind `out`, words of `out`.
LAUNCHES: dict[str, tuple[str, int, int, Any, int]] = {
    **{name: (name, 1, 32, lambda: [4], 32) for name in _CHAINS},
    **{f"many_{name}": (name, 1, 1024, lambda: [4], 32) for name in _CHAINS},
    "tensor": ("tensor", 1, 32, lambda: [4], 32),
    "many_tensor": ("tensor", 1, 512, lambda: [4], 32),
    "many_short_sums": ("short_sums", 1, 512, lambda: [4], 32),
    "group": ("group", 1, 128, lambda: [8], 32),
    "loop": ("loop", 1, 32, lambda: [64], 32),
    "many_loop": ("loop", 1, 1024, lambda: [64], 32),
    "uniform": ("uniform", 1, 32, lambda: [8], 32),
    "call": ("call", 1, 32, lambda: [32], 32),
    "waiting": ("waiting", 1, 32, list, 32),
    "nested": ("nested", 1, 32, lambda: [16, 8], 32),
    "counted": ("counted", 1, 64, lambda: [32], 32),
    "barrier": ("barrier", 1, 256, lambda: [32], 32),
    "special": ("special", 1, 32, lambda: [16], 32),
    "many_special": ("special", 1, 512, lambda: [8], 32),
    "straight": ("straight", 1, 32, lambda: [2], 32),
    "many_straight": ("straight", 1, 512, lambda: [2], 32),
    "constants": ("constants", 1, 32, lambda: [64, 16, 256], 32),
    "far_constants": ("constants", 1, 32, lambda: [128, 16, 1024], 32),
    "shared_load": ("shared_load", 1, 32, lambda: [32, 1], 32),
    "shared_conflicts": ("shared_load", 1, 32, lambda: [32, 32], 32),
    "many_shared_conflicts": ("shared_load", 1, 512, lambda: [8, 8], 32),
    "shared_store": ("shared_store", 1, 1024, lambda: [4], 32),
    "shared_add": ("shared_add", 1, 32, lambda: [32, 1], 32),
    "many_shared_add": ("shared_add", 1, 512, lambda: [8, 8], 32),
    "copy": ("copy", 16, 256, lambda: [_words(1 << 16), 1 << 16], 1 << 16),
    "read": ("read", 8, 256, lambda: [_words(1 << 17), 1 << 15, 1], 32),
    "read_again": ("read", 8, 256, lambda: [_words(1 << 16), 1 << 14, 3], 32),
    "gather": ("gather", 1, 256, lambda: [_words(1 << 12), 16, 1, 1 << 12], 32),
    "gather_lines": ("gather", 2, 64, lambda: [_words(1 << 16), 16, 32, 1 << 16], 32),
    "together": ("gather", 4, 64, lambda: [_words(1 << 12), 16, 1, 1 << 12], 32),
    "twice": ("gather", 1, 256, lambda: [_words(1 << 14), 128, 1, 1 << 14], 32),
    "hits": ("gather", 1, 1024, lambda: [_words(1 << 12), 64, 1, 1 << 12], 32),
    "from_l2": ("gather", 1, 1024, lambda: [_words(1 << 15), 64, 1, 1 << 15], 32),
    "skewed": ("gather", 1, 512, lambda: [_words(1 << 13), 48, 33, 1 << 13], 32),
    "reread": ("reread", 1, 128, lambda: [8], 1024),
    "fields": ("fields", 1, 32, lambda: [8], 2048),
    "store_again": ("store_again", 1, 32, lambda: [16], 32),
    "sparse": ("gather", 1, 64, lambda: [_words(1 << 15), 8, 32, 1 << 15], 32),
    "chase_l1": ("chase", 1, 1, lambda: [_stride(256, 32), 64, 0], 32),
    "chase_l2": ("chase", 1, 1, lambda: [_stride(1024, 32), 96, 1], 32),
    "chase_row": ("chase", 1, 1, lambda: [_stride(1 << 12, 32), 64, 1], 32),
    "chase_pages": ("chase", 1, 1, lambda: [_stride(1 << 13, 1056), 600, 1], 32),
    "chase_together": ("chase", 4, 1, lambda: [_stride(1024, 32), 96, 1], 32),
    "chase_memory": ("chase", 1, 1, lambda: [_stride(1 << 18, 1056), 64, 1], 32),
    "scatter": ("scatter", 4, 256, lambda: [8, 32, 1 << 16], 1 << 16),
    "scatter_words": ("scatter", 2, 128, lambda: [16, 32, 1 << 17], 1 << 17),
    "wide_store": ("wide_store", 1, 32, lambda: [32], 4096),
    "atomic_chase": ("atomic_chase", 1, 1, lambda: [16], 32),
    "reduce_one": ("reduce", 2, 256, lambda: [8, 0, 1], 32),
    "reduce_lines": ("reduce", 2, 256, lambda: [8, 1, 1 << 12], 1 << 12),
    "reduce_words": ("reduce", 2, 256, lambda: [8, 33, 1 << 14], 1 << 14),
    "reduce_floats": ("reduce_floats", 2, 256, lambda: [8], 32),
    "cluster": ("cluster", 2, 32, lambda: [16, 0], 32),
    "many_cluster": ("cluster", 2, 1024, lambda: [16, 0], 32),
    "cluster_barrier": ("cluster", 2, 32, lambda: [0, 16], 32),
    "many_cluster_barrier": ("cluster", 2, 1024, lambda: [0, 16], 32),
    "bulk": ("bulk", 1, 128, lambda: [_words(128), 8], 32),
    "bulk_store": ("bulk_store", 1, 1, lambda: [_words(128), 16], 32),
    "copies": ("copies", 1, 32, lambda: [_words(1 << 10), 16], 32),
    "many_copies": ("copies", 1, 1024, lambda: [_words(1 << 15), 8], 32),
    **{name: (name, 1, 1, lambda: [], 64) for name in _REUSE},
    "empty": ("empty", 1, 32, lambda: [], 32),
    "empty_blocks": ("empty", 64, 64, lambda: [], 32),
    "full_blocks": ("fma", 16, 1024, lambda: [4], 32),
}


_KERNELS = Kernels(SOURCE)


def _reuse(name: str) -> Program:
    first, access, overwrite = _REUSE[name]
    text = ["S2R R0, SR_TID.X", f"IMAD.WIDE.U32 R2, R0, 0x10, c[0x0][{sass.PARAMETERS:#x}]", first]
    text += [access, overwrite] * 16
    made = sass.assemble("\n".join(text), static_shared_bytes=64)

    def control(each: Any) -> Any:
        if each.text.startswith(access.split()[0]):
            return replace(each, control=Control(1, False, 0, 1, 0, 0))
        if each.text == overwrite:
            return replace(each, control=Control(4, False, 7, 7, 1 << 1, 0))
        return each

    return replace(made, instructions=tuple(control(each) for each in made.instructions))


@cache
def program(kernel: str) -> Program:
    """A kernel of `SOURCE`, or one of those written as machine code."""
    return _reuse(kernel) if kernel in _REUSE else _KERNELS[f"k_{kernel}"]


def run_again(launch: str, overrides: Any) -> int:
    """Cycles of the second of two of the same launches on one device."""
    kernel, grid, block, arguments, words = LAUNCHES[launch]
    given = [np.int32(value) if isinstance(value, int) else value for value in arguments()]
    device = gpusim.Device("tiny", overrides=overrides)
    results = [device.launch(program(kernel), grid, block, [_words(words), *given]) for _ in range(2)]
    return results[1].cycles


def run_in_streams(what: str, overrides: Any) -> int:
    """Cycles that work of several streams takes, whose host needs no time for its calls: eight small grids at once;
    four streams of two grids; an event between grids; one that another stream waits for; a grid behind a copy;
    four grids of a graph; four or nine that wait for one; four that begin before the end of the one before."""
    calls = ("copy_call_us", "large_copy_call_us", "event_call_us", "launch_call_us")
    node = gpusim.node.load_node("hgx_h200", 1, overrides=[f"host.{name}=0" for name in calls])
    device = gpusim.Device("tiny", overrides=overrides, node=node, threads=1)
    out = device.to_device(_words(1 << 10))
    begun, streams = device.now_cycles, [device.stream() for _ in range(8)]

    def launch(stream: Any, rounds: int = 1) -> None:
        device.launch(program("fma"), 1, 32, [out, np.int32(rounds)], stream=stream)

    if what == "grids":
        for stream in streams:
            launch(stream)
    elif what == "twice":
        for stream in streams[:4]:
            launch(stream, 500)
            launch(stream, 500)
    elif what == "graph":
        graph, node = device.graph(), ()
        for _ in range(4):
            node = (graph.add(launch, node),)
        graph.start(streams[0])
    elif what in ("fork", "wide fork"):
        graph = device.graph()
        root = graph.add(launch)
        for _ in range(4 if what == "fork" else 9):
            graph.add(launch, [root])
        graph.start(streams[0])
    elif what == "dependent":
        for _ in range(4):
            device.launch(program("dependent"), 1, 32, [out, np.int32(8)], stream=streams[0], programmatic=True)
    elif what == "copy":
        out.copy_to_device(device.pinned_array(1 << 10, np.uint32), streams[0])
        launch(streams[0])
    else:
        launch(streams[0])
        event = streams[0].record()
        if what == "wait":
            streams[1].wait_event(event)
        launch(streams[1 if what == "wait" else 0])
    device.synchronize()
    return device.now_cycles - begun


def run(launch: str, overrides: Any = None, gpu: str = "tiny", **options: Any) -> Result:
    """One of `LAUNCHES` with cold caches."""
    kernel, grid, block, arguments, words = LAUNCHES[launch]
    given = [np.int32(value) if isinstance(value, int) else value for value in arguments()]
    return gpusim.simulate(program(kernel), grid, block, [_words(words), *given], gpu, overrides=overrides, **options)
