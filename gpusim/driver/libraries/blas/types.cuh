// Numbers as they lie in memory, what is computed with them, and how one becomes the other. No header is needed.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
struct e4m3 { unsigned char bits; };
struct e5m2 { unsigned char bits; };
struct tf32 { float value; };  // a float in memory, which a tensor core takes 19 bits of
typedef signed char i8;
typedef int i32;
typedef float f32;
typedef double f64;

template <class R> struct alignas(2 * sizeof(R)) complex {
    R re, im;
    __device__ complex() : re(0), im(0) {}
    __device__ complex(R re, R im = 0) : re(re), im(im) {}
};
typedef complex<float> c32;
typedef complex<double> c64;
template <class R> __device__ complex<R> operator+(complex<R> x, complex<R> y) { return {x.re + y.re, x.im + y.im}; }
template <class R> __device__ complex<R> operator*(complex<R> x, complex<R> y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class R> __device__ bool is_zero(complex<R> x) { return x.re == 0 && x.im == 0; }
template <class R> __device__ bool is_zero(R x) { return x == 0; }
template <class R> __device__ complex<R> conjugate(complex<R> x) { return {x.re, -x.im}; }
template <class R> __device__ R conjugate(R x) { return x; }

// A scalar that lies at an address of the device or, without one, came with the launch.
template <class T> __device__ T given(const void *at, u64 low, u64 high) {
    u64 words[2] = {low, high};
    return at ? *(const T *)at : *(const T *)words;
}

__device__ inline float half_value(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ inline float wide(f16 x) { return half_value(x.bits); }
__device__ inline float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline float wide(tf32 x) { return x.value; }
__device__ inline float wide(float x) { return x; }
__device__ inline double wide(double x) { return x; }
__device__ inline int wide(int x) { return x; }
__device__ inline int wide(i8 x) { return x; }
template <class R> __device__ complex<R> wide(complex<R> x) { return x; }
#if __CUDA_ARCH__ >= 890
__device__ inline float wide(e4m3 x) {
    u32 pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
    return half_value((unsigned short)pair);
}
__device__ inline float wide(e5m2 x) { return half_value((unsigned short)(x.bits << 8)); }
__device__ inline void narrow(float x, e4m3 &to) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
    to.bits = (unsigned char)pair;
}
__device__ inline void narrow(float x, e5m2 &to) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
    to.bits = (unsigned char)pair;
}
#endif
__device__ inline void narrow(float x, f16 &to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
__device__ inline void narrow(float x, bf16 &to) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
#else
    u32 bits = __float_as_uint(x);
    to.bits = x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
}
__device__ inline void narrow(float x, tf32 &to) { to.value = x; }
__device__ inline void narrow(float x, float &to) { to = x; }
__device__ inline void narrow(float x, int &to) { to = __float2int_rn(x); }
__device__ inline void narrow(float x, i8 &to) {
    int whole = __float2int_rn(x);
    to = (i8)(whole < -128 ? -128 : whole > 127 ? 127 : whole);
}
__device__ inline void narrow(int x, int &to) { to = x; }
__device__ inline void narrow(int x, float &to) { to = (float)x; }
__device__ inline void narrow(double x, double &to) { to = x; }
template <class R> __device__ void narrow(complex<R> x, complex<R> &to) { to = x; }
__device__ inline void narrow(complex<float> x, complex<double> &to) { to = {x.re, x.im}; }
