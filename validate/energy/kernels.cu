// The microbenchmarks of energy: kernels that do one thing for as long as they are told (`rounds`). Each has the parameters
// (data, out, rounds, a, b) and reads its operands from `data`, which holds zeros or random values: what a circuit
// takes depends on how many of its wires change. kernels.cubin.gz is their machine code, by nvcc 13.0 for sm_90a.
#define LANE (threadIdx.x & 31)
#define USE if ((v[0] ^ v[1] ^ v[2] ^ v[3]) == 12345) out[0] = 1;
#define FILL(where, count) for (unsigned k = threadIdx.x; k < count; k += blockDim.x) where[k] = data[k & 16383]

extern "C" __global__ void lds(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    __shared__ __align__(128) unsigned room[8192];
    FILL(room, 8192);
    __syncthreads();
    unsigned first = (unsigned)__cvta_generic_to_shared(room) + ((LANE * a * 4 + (threadIdx.x >> 5) * 128) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned at = first + ((r & 7) << 7);
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+0]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+256]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+512]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+768]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+1024]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+1280]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+1536]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+1792]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+2048]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+2304]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+2560]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+2816]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+3072]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+3328]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+3584]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+3840]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+4096]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+4352]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+4608]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+4864]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+5120]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+5376]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+5632]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+5888]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+6144]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+6400]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+6656]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+6912]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+7168]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+7424]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+7680]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.volatile.shared.u32 t, [%4+7936]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
    }
    USE
}

extern "C" __global__ void lds128(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    __shared__ __align__(128) unsigned room[8192];
    FILL(room, 8192);
    __syncthreads();
    unsigned first = (unsigned)__cvta_generic_to_shared(room) + ((LANE * a * 4 + (threadIdx.x >> 5) * 512) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned at = first + ((r & 7) << 7);
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+0]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+256]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+512]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+768]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+1024]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+1280]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+1536]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+1792]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+2048]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+2304]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+2560]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+2816]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+3072]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+3328]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+3584]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+3840]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+4096]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+4352]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+4608]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+4864]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+5120]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+5376]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+5632]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+5888]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+6144]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+6400]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+6656]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+6912]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+7168]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+7424]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+7680]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+7936]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
    }
    USE
}

extern "C" __global__ void sts(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    __shared__ __align__(128) unsigned room[8192];
    FILL(room, 8192);
    __syncthreads();
    unsigned first = (unsigned)__cvta_generic_to_shared(room) + ((LANE * a * 4 + (threadIdx.x >> 5) * 128) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned at = first + ((r & 7) << 7);
        asm volatile("st.shared.u32 [%4+0], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+256], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+512], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+768], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+1024], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+1280], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+1536], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+1792], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+2048], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+2304], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+2560], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+2816], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+3072], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+3328], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+3584], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+3840], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+4096], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+4352], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+4608], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+4864], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+5120], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+5376], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+5632], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+5888], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+6144], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+6400], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+6656], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+6912], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+7168], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+7424], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+7680], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.u32 [%4+7936], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
    }
    USE
}

extern "C" __global__ void sts128(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    __shared__ __align__(128) unsigned room[8192];
    FILL(room, 8192);
    __syncthreads();
    unsigned first = (unsigned)__cvta_generic_to_shared(room) + ((LANE * a * 4 + (threadIdx.x >> 5) * 512) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned at = first + ((r & 7) << 7);
        asm volatile("st.shared.v4.u32 [%4+0], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+256], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+512], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+768], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+1024], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+1280], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+1536], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+1792], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+2048], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+2304], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+2560], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+2816], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+3072], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+3328], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+3584], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+3840], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+4096], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+4352], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+4608], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+4864], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+5120], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+5376], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+5632], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+5888], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+6144], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+6400], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+6656], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+6912], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+7168], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+7424], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+7680], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("st.shared.v4.u32 [%4+7936], {%5, %5, %5, %5};" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
    }
    USE
}

extern "C" __global__ void reds(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    __shared__ __align__(128) unsigned room[8192];
    FILL(room, 8192);
    __syncthreads();
    unsigned first = (unsigned)__cvta_generic_to_shared(room) + ((LANE * a * 4 + (threadIdx.x >> 5) * 128) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned at = first + ((r & 7) << 7);
        asm volatile("red.shared.add.u32 [%4+0], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+256], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+512], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+768], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+1024], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+1280], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+1536], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+1792], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+2048], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+2304], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+2560], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+2816], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+3072], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+3328], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+3584], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+3840], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+4096], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+4352], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+4608], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+4864], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+5120], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+5376], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+5632], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+5888], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+6144], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+6400], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+6656], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+6912], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+7168], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+7424], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+7680], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
        asm volatile("red.shared.add.u32 [%4+7936], %5;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "r"(at), "r"(x));
    }
    USE
}

extern "C" __global__ void l1(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    const char *first = (const char *)(data + 4096 * (blockIdx.x & 3)) + ((LANE * a * 4 + (threadIdx.x >> 5) * 128) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        const char * at = first + ((r & 7) << 7);
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+0]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+256]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+512]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+768]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+1024]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+1280]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+1536]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+1792]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+2048]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+2304]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+2560]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+2816]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+3072]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+3328]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+3584]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+3840]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+4096]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+4352]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+4608]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+4864]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+5120]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+5376]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+5632]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+5888]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+6144]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+6400]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+6656]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+6912]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+7168]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+7424]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+7680]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t; ld.global.u32 t, [%4+7936]; xor.b32 %0, %0, t;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
    }
    USE
}

extern "C" __global__ void l1_128(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    const char *first = (const char *)(data + 4096 * (blockIdx.x & 3)) + ((LANE * a * 4 + (threadIdx.x >> 5) * 512) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        const char * at = first + ((r & 7) << 7);
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+0]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+256]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+512]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+768]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+1024]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+1280]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+1536]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+1792]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+2048]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+2304]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+2560]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+2816]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+3072]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+3328]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+3584]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+3840]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+4096]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+4352]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+4608]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+4864]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+5120]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+5376]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+5632]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+5888]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+6144]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+6400]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+6656]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+6912]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+7168]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+7424]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+7680]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
        asm volatile("{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+7936]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at), "r"(x));
    }
    USE
}

// a: bytes, less one, that are gone through again and again; another block takes a piece in each round. b: lanes go
// this many bytes apart.
#define STREAM(NAME, LINE, ...) \
    extern "C" __global__ void NAME(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) { \
        unsigned v[4] = {0, 0, 0, 0}, x = data[threadIdx.x], block = blockIdx.x; \
        unsigned long long mask = ((unsigned long long)a << 12) | 4095; \
        for (unsigned r = 0; r < rounds; r++) { \
            block = block + 1 == gridDim.x ? 0 : block + 1; \
            unsigned long long first = \
                (((unsigned long long)r * gridDim.x + block) * 8 * blockDim.x + threadIdx.x) * b; \
            _Pragma("unroll") for (int k = 0; k < 8; k++) { \
                char *at = (char *)out + ((first + (unsigned long long)k * blockDim.x * b) & mask); \
                asm volatile(LINE __VA_ARGS__); \
            } \
        } \
        USE \
    }
STREAM(read32, "{.reg .u32 t; ld.global.u32 t, [%1]; xor.b32 %0, %0, t;}", : "+r"(v[0]) : "l"(at))
STREAM(read128,
       "{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; "
       "xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}",
       : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at))
STREAM(write32, "st.global.u32 [%0], %1;", :: "l"(at), "r"(x))
STREAM(write128, "st.global.v4.u32 [%0], {%1, %1, %1, %1};", :: "l"(at), "r"(x))
STREAM(red32, "red.global.add.u32 [%0], %1;", :: "l"(at), "r"(x))


// Every block stays for rounds * 1000 cycles. a: its warps ask for the time, 1, or sleep, 0.
extern "C" __global__ void stay(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    long long start = clock64();
    while (clock64() - start < (long long)rounds * 1000)
        if (!a) __nanosleep(5000);
}
// All warps but one wait at a barrier, which sleeps.
extern "C" __global__ void barrier(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    long long start = clock64();
    if (threadIdx.x < 32)
        while (clock64() - start < (long long)rounds * 1000) __nanosleep(5000);
    __syncthreads();
}
extern "C" __global__ void loop(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned v = data[threadIdx.x], x = data[threadIdx.x + 32];
    _Pragma("unroll 1") for (unsigned r = 0; r < rounds; r++)
        asm volatile("lop3.b32 %0, %0, %1, %1, 0x69;" : "+r"(v) : "r"(x));
    if (v == 12345) out[0] = 1;
}
// Lanes of a warp take a branch of their own, `a` of them together, in turns.
extern "C" __global__ void diverge(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned v = data[threadIdx.x], lane = LANE;
    for (unsigned r = 0; r < rounds; r++) {
        if (lane < a) asm volatile("lop3.b32 %0, %0, %0, %0, 0x96;" : "+r"(v));
        else asm volatile("lop3.b32 %0, %0, %0, %0, 0x69;" : "+r"(v));
    }
    if (v == 12345) out[0] = 1;
}
extern "C" __global__ void empty(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {}
__constant__ unsigned constants[4096];
extern "C" __global__ void ldc(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned long long at = a + (r & 3) * 512;
        _Pragma("unroll") for (int k = 0; k < 64; k++)
            asm volatile("{.reg .u64 c; .reg .u32 t; mov.u64 c, constants; add.u64 c, c, %1; ld.const.u32 t, [c]; "
                         "xor.b32 %0, %0, t;}" : "+r"(v[k & 3]) : "l"(at + k * 4));
    }
    USE
}


extern "C" __global__ void op_iadd3(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .u32 t; add.u32 t, %0, %1; add.u32 %0, t, %2;}" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_lop3(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_shf(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("shf.l.wrap.b32 %0, %0, %1, %2;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_prmt(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("prmt.b32 %0, %0, %1, 0x3175;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_setsel(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .pred q; setp.lt.u32 q, %0, %1; selp.b32 %0, %2, %1, q;}" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_imad(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_imad_wide(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned long long v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .u32 t; cvt.u32.u64 t, %0; mad.wide.u32 %0, t, %1, %0;}" : "+l"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_dp4a(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("dp4a.u32.u32 %0, %0, %1, %2;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_popc(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .u32 t; popc.b32 t, %0; lop3.b32 %0, t, %1, %2, 0x96;}" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_fadd(
        const float *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    float v[8];
    float x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("sub.rn.f32 %0, %1, %0;" : "+f"(v[k & 7]) : "f"(x[k & 7]), "f"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_ffma(
        const float *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    float v[8];
    float x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(v[k & 7]) : "f"(x[k & 7]), "f"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_fmnmx(
        const float *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    float v[8];
    float x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .f32 t; min.f32 t, %0, %1; sub.rn.f32 %0, t, %2;}" : "+f"(v[k & 7]) : "f"(x[k & 7]), "f"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_hadd2(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("sub.rn.f16x2 %0, %1, %0;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_hfma2(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_dadd(
        const double *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    double v[8];
    double x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("sub.rn.f64 %0, %1, %0;" : "+d"(v[k & 7]) : "d"(x[k & 7]), "d"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_dfma(
        const double *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    double v[8];
    double x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(v[k & 7]) : "d"(x[k & 7]), "d"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_ex2(
        const float *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    float v[8];
    float x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .f32 t; ex2.approx.ftz.f32 t, %0; sub.rn.f32 %0, %1, t;}" : "+f"(v[k & 7]) : "f"(x[k & 7]), "f"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_i2f(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .f32 t; .reg .b32 s; cvt.rn.f32.s32 t, %0; mov.b32 s, t; lop3.b32 %0, s, %1, %2, 0x96;}" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_f2i(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .f32 t; .reg .s32 s; mov.b32 t, %0; cvt.rzi.s32.f32 s, t; lop3.b32 %0, s, %1, %2, 0x96;}" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_shfl(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_vote(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .pred q; .reg .u32 t; setp.ne.u32 q, %0, %1; vote.sync.ballot.b32 t, q, 0xffffffff; lop3.b32 %0, %0, t, %2, 0x96;}" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void op_clock(
        const unsigned *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {
    if ((threadIdx.x & 31) >= lanes) return;
    unsigned v[8];
    unsigned x[8], y[8];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < 64; k++)
            asm volatile("{.reg .u32 t; mov.u32 t, %clock; lop3.b32 %0, %0, t, %1, 0x96;}" : "+r"(v[k & 7]) : "r"(x[k & 7]), "r"(y[(k + k / 8) & 7]));
    }
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}

extern "C" __global__ void mma_f16(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned x[8], y[8];
    float c[4][4];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
    }
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) c[k][n] = 0;
    for (unsigned r = 0; r < rounds; r++)
        _Pragma("unroll") for (int k = 0; k < 16; k++) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[k & 3][0]), "+f"(c[k & 3][1]), "+f"(c[k & 3][2]), "+f"(c[k & 3][3]) : "r"(x[(k * 4 + 0) & 7]), "r"(x[(k * 4 + 1) & 7]), "r"(x[(k * 4 + 2) & 7]), "r"(x[(k * 4 + 3) & 7]), "r"(y[((k + k / 4) * 2 + 0) & 7]), "r"(y[((k + k / 4) * 2 + 1) & 7]));
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) if (c[k][n] == 12345) out[k] = 1;
}

extern "C" __global__ void mma_bf16(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned x[8], y[8];
    float c[4][4];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
    }
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) c[k][n] = 0;
    for (unsigned r = 0; r < rounds; r++)
        _Pragma("unroll") for (int k = 0; k < 16; k++) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[k & 3][0]), "+f"(c[k & 3][1]), "+f"(c[k & 3][2]), "+f"(c[k & 3][3]) : "r"(x[(k * 4 + 0) & 7]), "r"(x[(k * 4 + 1) & 7]), "r"(x[(k * 4 + 2) & 7]), "r"(x[(k * 4 + 3) & 7]), "r"(y[((k + k / 4) * 2 + 0) & 7]), "r"(y[((k + k / 4) * 2 + 1) & 7]));
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) if (c[k][n] == 12345) out[k] = 1;
}

extern "C" __global__ void mma_tf32(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned x[8], y[8];
    float c[4][4];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
    }
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) c[k][n] = 0;
    for (unsigned r = 0; r < rounds; r++)
        _Pragma("unroll") for (int k = 0; k < 16; k++) asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[k & 3][0]), "+f"(c[k & 3][1]), "+f"(c[k & 3][2]), "+f"(c[k & 3][3]) : "r"(x[(k * 4 + 0) & 7]), "r"(x[(k * 4 + 1) & 7]), "r"(x[(k * 4 + 2) & 7]), "r"(x[(k * 4 + 3) & 7]), "r"(y[((k + k / 4) * 2 + 0) & 7]), "r"(y[((k + k / 4) * 2 + 1) & 7]));
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) if (c[k][n] == 12345) out[k] = 1;
}

extern "C" __global__ void mma_s8(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned x[8], y[8];
    unsigned c[4][4];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
    }
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) c[k][n] = 0;
    for (unsigned r = 0; r < rounds; r++)
        _Pragma("unroll") for (int k = 0; k < 16; k++) asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+r"(c[k & 3][0]), "+r"(c[k & 3][1]), "+r"(c[k & 3][2]), "+r"(c[k & 3][3]) : "r"(x[(k * 4 + 0) & 7]), "r"(x[(k * 4 + 1) & 7]), "r"(x[(k * 4 + 2) & 7]), "r"(x[(k * 4 + 3) & 7]), "r"(y[((k + k / 4) * 2 + 0) & 7]), "r"(y[((k + k / 4) * 2 + 1) & 7]));
    for (int k = 0; k < 4; k++) for (int n = 0; n < 4; n++) if (c[k][n] == 12345) out[k] = 1;
}

extern "C" __global__ void mma_f64(const double *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    double x[8], y[8];
    double c[4][2];
    for (int k = 0; k < 8; k++) {
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
    }
    for (int k = 0; k < 4; k++) for (int n = 0; n < 2; n++) c[k][n] = 0;
    for (unsigned r = 0; r < rounds; r++)
        _Pragma("unroll") for (int k = 0; k < 16; k++) asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(c[k & 3][0]), "+d"(c[k & 3][1]) : "d"(x[(k * 1 + 0) & 7]), "d"(y[((k + k / 4) * 1 + 0) & 7]));
    for (int k = 0; k < 4; k++) for (int n = 0; n < 2; n++) if (c[k][n] == 12345) out[k] = 1;
}

extern "C" __global__ void wgmma_f16(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    extern __shared__ __align__(1024) unsigned dynamic[];
    FILL(dynamic, 16384);
    asm volatile("fence.proxy.async;");
    __syncthreads();
    unsigned x[4];
    float c[128];
    for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k];
    for (int k = 0; k < 128; k++) c[k] = 0;
    // Rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "WarpProduct Descriptor").
    unsigned at = (unsigned)__cvta_generic_to_shared(dynamic);
    unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4;
    for (unsigned r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int k = 0; k < 8; k++) asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %129, %128, 1, 1, 1, 0, 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]), "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127]) : "l"(y), "l"(y + 512));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int k = 0; k < 128; k++) if (c[k] == 12345) out[k] = 1;
}

extern "C" __global__ void wgmma_f16_n64(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    extern __shared__ __align__(1024) unsigned dynamic[];
    FILL(dynamic, 16384);
    asm volatile("fence.proxy.async;");
    __syncthreads();
    unsigned x[4];
    float c[32];
    for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k];
    for (int k = 0; k < 32; k++) c[k] = 0;
    // Rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "WarpProduct Descriptor").
    unsigned at = (unsigned)__cvta_generic_to_shared(dynamic);
    unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4;
    for (unsigned r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int k = 0; k < 8; k++) asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %33, %32, 1, 1, 1, 0, 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]) : "l"(y), "l"(y + 512));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int k = 0; k < 32; k++) if (c[k] == 12345) out[k] = 1;
}

extern "C" __global__ void wgmma_f16_registers(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    extern __shared__ __align__(1024) unsigned dynamic[];
    FILL(dynamic, 16384);
    asm volatile("fence.proxy.async;");
    __syncthreads();
    unsigned x[4];
    float c[128];
    for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k];
    for (int k = 0; k < 128; k++) c[k] = 0;
    // Rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "WarpProduct Descriptor").
    unsigned at = (unsigned)__cvta_generic_to_shared(dynamic);
    unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4;
    for (unsigned r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int k = 0; k < 8; k++) asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, {%129, %130, %131, %132}, %128, 1, 1, 1, 0;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]), "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127]) : "l"(y), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int k = 0; k < 128; k++) if (c[k] == 12345) out[k] = 1;
}

extern "C" __global__ void wgmma_tf32(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    extern __shared__ __align__(1024) unsigned dynamic[];
    FILL(dynamic, 16384);
    asm volatile("fence.proxy.async;");
    __syncthreads();
    unsigned x[4];
    float c[128];
    for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k];
    for (int k = 0; k < 128; k++) c[k] = 0;
    // Rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "WarpProduct Descriptor").
    unsigned at = (unsigned)__cvta_generic_to_shared(dynamic);
    unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4;
    for (unsigned r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int k = 0; k < 8; k++) asm volatile("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %129, %128, 1, 1, 1;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]), "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127]) : "l"(y), "l"(y + 512));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int k = 0; k < 128; k++) if (c[k] == 12345) out[k] = 1;
}

extern "C" __global__ void wgmma_e4m3(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    extern __shared__ __align__(1024) unsigned dynamic[];
    FILL(dynamic, 16384);
    asm volatile("fence.proxy.async;");
    __syncthreads();
    unsigned x[4];
    float c[128];
    for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k];
    for (int k = 0; k < 128; k++) c[k] = 0;
    // Rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "WarpProduct Descriptor").
    unsigned at = (unsigned)__cvta_generic_to_shared(dynamic);
    unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4;
    for (unsigned r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int k = 0; k < 8; k++) asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %129, %128, 1, 1, 1;" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]), "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127]) : "l"(y), "l"(y + 512));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int k = 0; k < 128; k++) if (c[k] == 12345) out[k] = 1;
}

extern "C" __global__ void wgmma_s8(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    extern __shared__ __align__(1024) unsigned dynamic[];
    FILL(dynamic, 16384);
    asm volatile("fence.proxy.async;");
    __syncthreads();
    unsigned x[4];
    unsigned c[128];
    for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k];
    for (int k = 0; k < 128; k++) c[k] = 0;
    // Rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "WarpProduct Descriptor").
    unsigned at = (unsigned)__cvta_generic_to_shared(dynamic);
    unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4;
    for (unsigned r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int k = 0; k < 8; k++) asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, %129, %128, 1;" : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]), "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]), "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]), "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]), "+r"(c[30]), "+r"(c[31]), "+r"(c[32]), "+r"(c[33]), "+r"(c[34]), "+r"(c[35]), "+r"(c[36]), "+r"(c[37]), "+r"(c[38]), "+r"(c[39]), "+r"(c[40]), "+r"(c[41]), "+r"(c[42]), "+r"(c[43]), "+r"(c[44]), "+r"(c[45]), "+r"(c[46]), "+r"(c[47]), "+r"(c[48]), "+r"(c[49]), "+r"(c[50]), "+r"(c[51]), "+r"(c[52]), "+r"(c[53]), "+r"(c[54]), "+r"(c[55]), "+r"(c[56]), "+r"(c[57]), "+r"(c[58]), "+r"(c[59]), "+r"(c[60]), "+r"(c[61]), "+r"(c[62]), "+r"(c[63]), "+r"(c[64]), "+r"(c[65]), "+r"(c[66]), "+r"(c[67]), "+r"(c[68]), "+r"(c[69]), "+r"(c[70]), "+r"(c[71]), "+r"(c[72]), "+r"(c[73]), "+r"(c[74]), "+r"(c[75]), "+r"(c[76]), "+r"(c[77]), "+r"(c[78]), "+r"(c[79]), "+r"(c[80]), "+r"(c[81]), "+r"(c[82]), "+r"(c[83]), "+r"(c[84]), "+r"(c[85]), "+r"(c[86]), "+r"(c[87]), "+r"(c[88]), "+r"(c[89]), "+r"(c[90]), "+r"(c[91]), "+r"(c[92]), "+r"(c[93]), "+r"(c[94]), "+r"(c[95]), "+r"(c[96]), "+r"(c[97]), "+r"(c[98]), "+r"(c[99]), "+r"(c[100]), "+r"(c[101]), "+r"(c[102]), "+r"(c[103]), "+r"(c[104]), "+r"(c[105]), "+r"(c[106]), "+r"(c[107]), "+r"(c[108]), "+r"(c[109]), "+r"(c[110]), "+r"(c[111]), "+r"(c[112]), "+r"(c[113]), "+r"(c[114]), "+r"(c[115]), "+r"(c[116]), "+r"(c[117]), "+r"(c[118]), "+r"(c[119]), "+r"(c[120]), "+r"(c[121]), "+r"(c[122]), "+r"(c[123]), "+r"(c[124]), "+r"(c[125]), "+r"(c[126]), "+r"(c[127]) : "l"(y), "l"(y + 512));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int k = 0; k < 128; k++) if (c[k] == 12345) out[k] = 1;
}
