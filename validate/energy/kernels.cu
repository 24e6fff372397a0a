// The microbenchmarks of energy: kernels that do one thing for as long as they are told (`rounds`). Each has the parameters
// (data, out, rounds, a, b) and reads its operands from `data`, which holds zeros or random values: what a circuit
// takes depends on how many of its wires change. kernels.cubin.gz is their machine code, by nvcc 13.0 for sm_90a.
#define KERNEL(NAME, TYPE) \
    extern "C" __global__ void NAME(const TYPE *data, unsigned *out, unsigned rounds, unsigned a, unsigned b)
#define LANE (threadIdx.x & 31)
#define USE if ((v[0] ^ v[1] ^ v[2] ^ v[3]) == 12345) out[0] = 1;
#define FILL(where, count) for (unsigned k = threadIdx.x; k < count; k += blockDim.x) where[k] = data[k & 16383]

// Accesses 256 bytes apart, 32 a round. SPAN: bytes that a warp's lanes reach if they are next to each other. LINE, END:
// PTX before and behind the offset.
#define ACCESS(OFFSET, REGISTER, LINE, END) \
    asm volatile(LINE #OFFSET END \
                 : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : REGISTER(at), "r"(x));
#define EIGHT(A, B, C, D, E, F, G, H, ...) \
    ACCESS(A, __VA_ARGS__) ACCESS(B, __VA_ARGS__) ACCESS(C, __VA_ARGS__) ACCESS(D, __VA_ARGS__) \
    ACCESS(E, __VA_ARGS__) ACCESS(F, __VA_ARGS__) ACCESS(G, __VA_ARGS__) ACCESS(H, __VA_ARGS__)
#define ROUNDS(TYPE, ...) \
    unsigned x = data[threadIdx.x], v[4] = {0, 0, 0, 0}; \
    for (unsigned r = 0; r < rounds; r++) { \
        TYPE at = first + ((r & 7) << 7); \
        EIGHT(0, 256, 512, 768, 1024, 1280, 1536, 1792, __VA_ARGS__) \
        EIGHT(2048, 2304, 2560, 2816, 3072, 3328, 3584, 3840, __VA_ARGS__) \
        EIGHT(4096, 4352, 4608, 4864, 5120, 5376, 5632, 5888, __VA_ARGS__) \
        EIGHT(6144, 6400, 6656, 6912, 7168, 7424, 7680, 7936, __VA_ARGS__) \
    } \
    USE
#define FIRST(SPAN) ((LANE * a * 4 + (threadIdx.x >> 5) * SPAN) & 4095)
#define SHARED(NAME, SPAN, LINE, END) \
    KERNEL(NAME, unsigned) { \
        __shared__ __align__(128) unsigned room[8192]; \
        FILL(room, 8192); \
        __syncthreads(); \
        unsigned first = (unsigned)__cvta_generic_to_shared(room) + FIRST(SPAN); \
        ROUNDS(unsigned, "r", LINE, END) \
    }
#define CACHED(NAME, SPAN, LINE, END) \
    KERNEL(NAME, unsigned) { \
        const char *first = (const char *)(data + 4096 * (blockIdx.x & 3)) + FIRST(SPAN); \
        ROUNDS(const char *, "l", LINE, END) \
    }
#define WORD "]; xor.b32 %0, %0, t;}"
#define FOUR "]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}"
SHARED(lds, 128, "{.reg .u32 t; ld.volatile.shared.u32 t, [%4+", WORD)
SHARED(lds128, 512, "{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {t0, t1, t2, t3}, [%4+", FOUR)
SHARED(sts, 128, "st.shared.u32 [%4+", "], %5;")
SHARED(sts128, 512, "st.shared.v4.u32 [%4+", "], {%5, %5, %5, %5};")
SHARED(reds, 128, "red.shared.add.u32 [%4+", "], %5;")
CACHED(l1, 128, "{.reg .u32 t; ld.global.u32 t, [%4+", WORD)
CACHED(l1_128, 512, "{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4+", FOUR)

// a: bytes, less one, that are gone through again and again; another block takes a piece in each round. b: lanes go
// this many bytes apart.
#define STREAM(NAME, LINE, ...) \
    KERNEL(NAME, unsigned) { \
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
KERNEL(stay, unsigned) {
    long long start = clock64();
    while (clock64() - start < (long long)rounds * 1000)
        if (!a) __nanosleep(5000);
}
// All warps but one wait at a barrier, which sleeps.
KERNEL(barrier, unsigned) {
    long long start = clock64();
    if (threadIdx.x < 32)
        while (clock64() - start < (long long)rounds * 1000) __nanosleep(5000);
    __syncthreads();
}
KERNEL(loop, unsigned) {
    unsigned v = data[threadIdx.x], x = data[threadIdx.x + 32];
    _Pragma("unroll 1") for (unsigned r = 0; r < rounds; r++)
        asm volatile("lop3.b32 %0, %0, %1, %1, 0x69;" : "+r"(v) : "r"(x));
    if (v == 12345) out[0] = 1;
}
// Lanes of a warp take a branch of their own, `a` of them together, in turns.
KERNEL(diverge, unsigned) {
    unsigned v = data[threadIdx.x], lane = LANE;
    for (unsigned r = 0; r < rounds; r++) {
        if (lane < a) asm volatile("lop3.b32 %0, %0, %0, %0, 0x96;" : "+r"(v));
        else asm volatile("lop3.b32 %0, %0, %0, %0, 0x69;" : "+r"(v));
    }
    if (v == 12345) out[0] = 1;
}
KERNEL(empty, unsigned) {}
__constant__ unsigned constants[4096];
KERNEL(ldc, unsigned) {
    unsigned v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned long long at = a + (r & 3) * 512;
        _Pragma("unroll") for (int k = 0; k < 64; k++)
            asm volatile("{.reg .u64 c; .reg .u32 t; mov.u64 c, constants; add.u64 c, c, %1; ld.const.u32 t, [c]; "
                         "xor.b32 %0, %0, t;}" : "+r"(v[k & 3]) : "l"(at + k * 4));
    }
    USE
}

// Arithmetic. a: lanes that take part. LINE: PTX on a value (%0) and two operands.
#define OPERANDS(TYPE, ...) \
    TYPE x[8], y[8]; \
    for (int k = 0; k < 8; k++) { \
        x[k] = data[(threadIdx.x * 16 + k) & 16383]; \
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383]; \
        __VA_ARGS__ \
    }
#define OP(NAME, TYPE, VALUE, CHANGED, READ, LINE) \
    KERNEL(op_##NAME, TYPE) { \
        if (LANE >= a) return; \
        VALUE v[8]; \
        OPERANDS(TYPE, v[k] = x[k];) \
        for (unsigned r = 0; r < rounds; r++) { \
            _Pragma("unroll") for (int k = 0; k < 64; k++) \
                asm volatile(LINE : CHANGED(v[k & 7]) : READ(x[k & 7]), READ(y[(k + k / 8) & 7])); \
        } \
        for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1; \
    }
OP(iadd3, unsigned, unsigned, "+r", "r", "{.reg .u32 t; add.u32 t, %0, %1; add.u32 %0, t, %2;}")
OP(lop3, unsigned, unsigned, "+r", "r", "lop3.b32 %0, %0, %1, %2, 0x96;")
OP(shf, unsigned, unsigned, "+r", "r", "shf.l.wrap.b32 %0, %0, %1, %2;")
OP(prmt, unsigned, unsigned, "+r", "r", "prmt.b32 %0, %0, %1, 0x3175;")
OP(setsel, unsigned, unsigned, "+r", "r", "{.reg .pred q; setp.lt.u32 q, %0, %1; selp.b32 %0, %2, %1, q;}")
OP(imad, unsigned, unsigned, "+r", "r", "mad.lo.u32 %0, %0, %1, %2;")
OP(imad_wide, unsigned, unsigned long long, "+l", "r", "{.reg .u32 t; cvt.u32.u64 t, %0; mad.wide.u32 %0, t, %1, %0;}")
OP(dp4a, unsigned, unsigned, "+r", "r", "dp4a.u32.u32 %0, %0, %1, %2;")
OP(popc, unsigned, unsigned, "+r", "r", "{.reg .u32 t; popc.b32 t, %0; lop3.b32 %0, t, %1, %2, 0x96;}")
OP(fadd, float, float, "+f", "f", "sub.rn.f32 %0, %1, %0;")
OP(ffma, float, float, "+f", "f", "fma.rn.f32 %0, %0, %1, %2;")
OP(fmnmx, float, float, "+f", "f", "{.reg .f32 t; min.f32 t, %0, %1; sub.rn.f32 %0, t, %2;}")
OP(hadd2, unsigned, unsigned, "+r", "r", "sub.rn.f16x2 %0, %1, %0;")
OP(hfma2, unsigned, unsigned, "+r", "r", "fma.rn.f16x2 %0, %0, %1, %2;")
OP(dadd, double, double, "+d", "d", "sub.rn.f64 %0, %1, %0;")
OP(dfma, double, double, "+d", "d", "fma.rn.f64 %0, %0, %1, %2;")
OP(ex2, float, float, "+f", "f", "{.reg .f32 t; ex2.approx.ftz.f32 t, %0; sub.rn.f32 %0, %1, t;}")
OP(i2f, unsigned, unsigned, "+r", "r", "{.reg .f32 t; .reg .b32 s; cvt.rn.f32.s32 t, %0; mov.b32 s, t; lop3.b32 %0, s, %1, %2, 0x96;}")
OP(f2i, unsigned, unsigned, "+r", "r", "{.reg .f32 t; .reg .s32 s; mov.b32 t, %0; cvt.rzi.s32.f32 s, t; lop3.b32 %0, s, %1, %2, 0x96;}")
OP(shfl, unsigned, unsigned, "+r", "r", "shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;")
OP(vote, unsigned, unsigned, "+r", "r", "{.reg .pred q; .reg .u32 t; setp.ne.u32 q, %0, %1; vote.sync.ballot.b32 t, q, 0xffffffff; lop3.b32 %0, %0, t, %2, 0x96;}")
OP(clock, unsigned, unsigned, "+r", "r", "{.reg .u32 t; mov.u32 t, %clock; lop3.b32 %0, %0, t, %1, 0x96;}")

// Products of a warp, sixteen a round. COUNT: accumulators of a thread.
#define MMA(NAME, TYPE, SUM, COUNT, LINE, ...) \
    KERNEL(NAME, TYPE) { \
        OPERANDS(TYPE) \
        SUM c[4][COUNT]; \
        for (int k = 0; k < 4; k++) for (int n = 0; n < COUNT; n++) c[k][n] = 0; \
        for (unsigned r = 0; r < rounds; r++) \
            _Pragma("unroll") for (int k = 0; k < 16; k++) asm volatile("mma.sync.aligned." LINE : __VA_ARGS__); \
        for (int k = 0; k < 4; k++) for (int n = 0; n < COUNT; n++) if (c[k][n] == 12345) out[k] = 1; \
    }
#define SUMS(HOW) HOW(c[k & 3][0]), HOW(c[k & 3][1]), HOW(c[k & 3][2]), HOW(c[k & 3][3])
#define FRAGMENTS " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#define LEFT(N) "r"(x[(k * 4 + N) & 7])
#define RIGHT(N) "r"(y[((k + k / 4) * 2 + N) & 7])
#define BOTH LEFT(0), LEFT(1), LEFT(2), LEFT(3), RIGHT(0), RIGHT(1)
MMA(mma_f16, unsigned, float, 4, "m16n8k16.row.col.f32.f16.f16.f32" FRAGMENTS, SUMS("+f") : BOTH)
MMA(mma_bf16, unsigned, float, 4, "m16n8k16.row.col.f32.bf16.bf16.f32" FRAGMENTS, SUMS("+f") : BOTH)
MMA(mma_tf32, unsigned, float, 4, "m16n8k8.row.col.f32.tf32.tf32.f32" FRAGMENTS, SUMS("+f") : BOTH)
MMA(mma_s8, unsigned, unsigned, 4, "m16n8k32.row.col.s32.s8.s8.s32" FRAGMENTS, SUMS("+r") : BOTH)
MMA(mma_f64, double, double, 2, "m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};",
    "+d"(c[k & 3][0]), "+d"(c[k & 3][1]) : "d"(x[k & 7]), "d"(y[(k + k / 4) & 7]))

// Products of four warps, eight a round: rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA,
// "Matrix Descriptor").
#define GROUP(NAME, SUM, COUNT, LINE, ...) \
    KERNEL(NAME, unsigned) { \
        extern __shared__ __align__(1024) unsigned dynamic[]; \
        FILL(dynamic, 16384); \
        asm volatile("fence.proxy.async;"); \
        __syncthreads(); \
        unsigned x[4]; \
        SUM c[COUNT]; \
        for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k]; \
        for (int k = 0; k < COUNT; k++) c[k] = 0; \
        unsigned at = (unsigned)__cvta_generic_to_shared(dynamic); \
        unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4; \
        for (unsigned r = 0; r < rounds; r++) { \
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); \
            _Pragma("unroll") for (int k = 0; k < 8; k++) \
                asm volatile("wgmma.mma_async.sync.aligned." LINE : __VA_ARGS__); \
            asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory"); \
        } \
        for (int k = 0; k < COUNT; k++) if (c[k] == 12345) out[k] = 1; \
    }
#define C4(HOW, N) HOW(c[N]), HOW(c[N + 1]), HOW(c[N + 2]), HOW(c[N + 3])
#define C32(HOW, N) C4(HOW, N), C4(HOW, N + 4), C4(HOW, N + 8), C4(HOW, N + 12), \
    C4(HOW, N + 16), C4(HOW, N + 20), C4(HOW, N + 24), C4(HOW, N + 28)
#define C128(HOW) C32(HOW, 0), C32(HOW, 32), C32(HOW, 64), C32(HOW, 96)
#define P32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define P128 P32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
GROUP(wgmma_f16, float, 128, "m64n256k16.f32.f16.f16 {" P128 "}, %129, %128, 1, 1, 1, 0, 0;",
      C128("+f") : "l"(y), "l"(y + 512))
GROUP(wgmma_f16_n64, float, 32, "m64n64k16.f32.f16.f16 {" P32 "}, %33, %32, 1, 1, 1, 0, 0;",
      C32("+f", 0) : "l"(y), "l"(y + 512))
GROUP(wgmma_f16_registers, float, 128, "m64n256k16.f32.f16.f16 {" P128 "}, {%129, %130, %131, %132}, %128, 1, 1, 1, 0;",
      C128("+f") : "l"(y), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]))
GROUP(wgmma_tf32, float, 128, "m64n256k8.f32.tf32.tf32 {" P128 "}, %129, %128, 1, 1, 1;",
      C128("+f") : "l"(y), "l"(y + 512))
GROUP(wgmma_e4m3, float, 128, "m64n256k32.f32.e4m3.e4m3 {" P128 "}, %129, %128, 1, 1, 1;",
      C128("+f") : "l"(y), "l"(y + 512))
GROUP(wgmma_s8, unsigned, 128, "m64n256k32.s32.s8.s8 {" P128 "}, %129, %128, 1;",
      C128("+r") : "l"(y), "l"(y + 512))
