"""Texts that stand in for the host's headers where NVRTC alone compiles: what kernels use of them."""

from __future__ import annotations

from pathlib import Path

from isa.toolchain import include_folders

COMMON = "gpusim_stand_in.h"
"""Included before everything, as nvcc includes CUDA's runtime header."""

_C = ("assert", "float", "limits", "math", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "time")
C_HEADERS = tuple(f"{each}.h" for each in _C)
# Names that CUDA or the text below declares globally and C++ headers in `std` too.
_IN_STD = """
    size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t
    abs fabs sqrt cbrt pow exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh erf erfc tgamma lgamma floor ceil round trunc rint nearbyint fmod fma fmin fmax fdim hypot
    copysign ldexp frexp modf isnan isinf isfinite signbit memcpy memset printf malloc free
"""
# The constants as in the C library.
_COMMON_TEXT = """
#include <cuda_runtime.h>
#include <cuda_device_runtime_api.h>
#include <cuda/std/climits>
#include <cuda/std/cfloat>
#include <cuda/std/cstdint>
typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned long ulong;
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define HUGE_VALF INFINITY
#define HUGE_VAL ((double)INFINITY)
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#ifndef _WIN32
#define __linux__ 1
#endif
#define RAND_MAX 2147483647
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
namespace std {
using nullptr_t = decltype(nullptr);
template <class T> constexpr __device__ const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> constexpr __device__ const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> constexpr __device__ void swap(T& a, T& b) {
  T c = static_cast<T&&>(a); a = static_cast<T&&>(b); b = static_cast<T&&>(c);
}
}
"""
# What CUDA has of the C++ library and of CUB, for functions on the GPU. It takes the compiler seconds.
_LIBRARY = ("array", "complex", "functional", "initializer_list", "limits", "numeric", "tuple", "utility")
_CUB_BLOCKS = ("reduce", "scan", "load", "store", "exchange", "radix_sort", "discontinuity", "histogram")
_CUB = (*(f"block/block_{each}" for each in _CUB_BLOCKS), "warp/warp_reduce", "warp/warp_scan")


def stand_in(name: str, rich: bool = False) -> str:
    """The text for a header of this name; rich: with what takes long to compile."""
    if name == COMMON:
        names = "".join(f"using ::{each};\n" for each in _IN_STD.split())
        library = "".join(f"#include <cuda/std/{each}>\n" for each in _LIBRARY if rich)
        return f"{_COMMON_TEXT}{library}namespace std {{\n{names}{'using namespace cuda::std;' if rich else ''}\n}}\n"
    if name == "cub/cub.cuh" and rich:
        return "".join(f"#include <cub/{each}.cuh>\n" for each in _CUB)
    space = name.partition("/")[0] if name.startswith(("thrust/", "cub/")) else "std"
    return f"namespace {space} {{}}\n"


def in_toolkit(name: str) -> bool:
    """Whether it is a header of CUDA's that NVRTC can read."""
    if name.startswith("thrust/") or name == "cub/cub.cuh":
        return False
    return any(Path(each, name).is_file() for each in include_folders())
