__constant__ int table[4] = {1, 2, 3, 4};
__device__ __forceinline__ void put(int *p, long i, int v) { p[i] = v; }  // put
__device__ __noinline__ int get(const int *p, long i) {
  int v;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(p + i));  // get
  return v;
}
__device__ __forceinline__ int thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
extern "C" {
__global__ void store_far(int *out, int where) { if (thread() == where) put(out, 1000, 1); out[thread()] = 1; }
__global__ void load_far(int *out, int where) { if (thread() == where) out[0] = get(out, 1000); }
__global__ void load_wide(int *out, const float4 *in, int where) {
  if (thread() == where) {
    float4 v = *in;  // wide
    out[0] = v.x + v.y + v.z + v.w;
  }
}
__global__ void add_far(int *out, int where) {
  if (thread() == where) out[1] = atomicAdd(out + 1000, 1);  // add
}
__global__ void reduce_far(int *out, int where) {
  if (thread() == where) atomicMax(out + 1000, 1);  // reduce
}
__global__ void shared_far(int *out, int index, int where) {
  __shared__ int s[64];
  s[threadIdx.x] = 1;
  if (thread() == where) s[index] = 2;  // shared
  __syncthreads();
  out[0] = s[5];
}
__global__ void dynamic_far(int *out, int index, int where) {
  extern __shared__ int d[];
  if (thread() == where) out[0] = d[index];  // dynamic
}
__global__ void shared_atomic_far(int *out, int index, int where) {
  __shared__ int s[64];
  if (thread() == where) atomicAdd(s + index, 2);  // shared atomic
  __syncthreads();
  out[0] = s[5];
}
__global__ void generic_far(int *out, long index, int where) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  int *p = threadIdx.x & 1 ? out : s;
  if (thread() == where) p[index] = 7;  // generic
}
__global__ void generic_mixed(int *out) {
  __shared__ int s[64];
  s[threadIdx.x] = 100 + threadIdx.x;
  out[64 + threadIdx.x] = threadIdx.x;
  __syncthreads();
  volatile int *p = threadIdx.x & 1 ? s : out + 64;
  out[threadIdx.x] = p[threadIdx.x];
}
__global__ void stack_far(int *out, int index, int where) {
  volatile int a[8];
  for (int i = 0; i < 8; i++) a[i] = i;
  if (thread() == where) a[index] = 1;  // stack
  out[thread()] = a[3];
}
__global__ void constant_far(int *out, int index, int where) {
  if (thread() == where) out[0] = table[index];  // constant
}

__global__ void copy(int *out, const int *in) { out[thread()] = in[thread()]; }  // copy
__global__ void partly(int *out, int n) {
  __shared__ int s[64];
  if (threadIdx.x < n) s[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];  // partly
}
__global__ void stack_partly(int *out, int n) {
  volatile int a[8];
  for (int i = 0; i < n; i++) a[i] = i;
  out[threadIdx.x] = a[threadIdx.x & 7];  // stack partly
}

__global__ void neighbour(int *out, int mode) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = t;  // written
  if (mode == 1) __syncthreads();
  if (mode == 2) __syncwarp();
  out[t] = s[t ^ 1];  // read
}
__global__ void read_then_write(int *out, int mode) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  int v = s[63 - t];  // early
  if (mode == 1) __syncthreads();
  s[t] = v + 1;  // late
  __syncthreads();
  out[t] = s[t];
}
__global__ void one_flag(int *out, int same) {
  __shared__ int flag;
  flag = same ? 1 : threadIdx.x;  // flag
  __syncthreads();
  out[threadIdx.x] = flag;
}
__global__ void bytes(int *out) {
  __shared__ unsigned char s[64];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void counted(int *out, int sync) {
  __shared__ int n;
  __shared__ float f;
  if (threadIdx.x == 0) n = 0, f = 0;
  __syncthreads();
  atomicAdd(&n, 1);  // count
  atomicAdd(&f, 1.0f);
  if (sync) __syncthreads();
  out[threadIdx.x] = n + f;  // total
}
__global__ void halves(int *out) {
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t < 16) {
    s[t] = t;
    __syncwarp(0xffff);
    out[t] = s[15 - t];
  } else {
    s[t] = 2 * t;
    __syncwarp(0xffff0000);
    out[t] = s[47 - t];
  }
  __syncwarp();
  out[t] += s[31 - t];
}
__global__ void pipe(int *out, int arrive) {
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t < 32) {
    s[t] = t;  // produced
    if (arrive) asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else {
    if (arrive) asm volatile("bar.sync 1, 64;" ::: "memory");
    out[t] = s[63 - t];  // consumed
  }
}
__global__ void locked(int *out) {
  __shared__ int lock, sum;
  if (threadIdx.x == 0) lock = sum = 0;
  __syncthreads();
  for (bool done = false; !done;) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      sum += threadIdx.x;
      __threadfence_block();
      atomicExch(&lock, 0);
      done = true;
    }
  }
  __syncthreads();
  out[threadIdx.x] = sum;
}

__global__ void branch_barrier(int *out, int n) {
  if (threadIdx.x < n) {
    __syncthreads();  // some
    out[0] = 1;
  } else {
    __syncthreads();  // others
    out[1] = 2;
  }
}
__global__ void odd_barrier(int *out, int threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads));  // odd
  out[threadIdx.x] = 1;
}
__global__ void named_mask(int *out, unsigned mask, int leave, int n) {
  int v = out[threadIdx.x];
  if (threadIdx.x == leave) return;
  if (threadIdx.x < n) {  // a branch: where ptxas thinks that lanes run together it drops the mask
    __syncwarp(mask);  // mask
    v += out[threadIdx.x ^ 3];
  }
  __syncthreads();
  out[threadIdx.x] = v;
}
__global__ void of_warp(int *out, int op, unsigned mask, int n, int apart) {
  int t = threadIdx.x, r = -1;
  if (t < n) {
    if (apart) for (int i = 0; i < t * 7 % 5; ++i) r = r * 3 + out[(t + i) & 31];
    switch (op) {
    case 0: r = __shfl_down_sync(mask, t, 1); break;
    case 1: r = __any_sync(mask, t == 3); break;
    case 2: { int all; r = __match_all_sync(mask, t / 64, &all); } break;
    case 3: r = __reduce_add_sync(mask, t); break;
    case 4: r = __ballot_sync(mask, t & 1); break;
    case 5: r = __match_any_sync(mask, t / 2); break;
    case 6: __syncwarp(mask); r = t; break;
    case 7: r = __reduce_max_sync(0xff, t); break;
    }
  }
  out[32 + t] = r;
}
}
