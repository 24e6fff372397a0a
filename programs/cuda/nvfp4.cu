// 4-bit floats with a scale for 16 of them, with a fraction: see fp4.cuh.
#include "fp4.cuh"

extern "C" __global__ void __launch_bounds__(128)
    nvfp4(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const unsigned char *scales_a,
          const unsigned char *scales_b, const __grid_constant__ TensorMap c, u32 n) {
  scaled_product<16>(a, b, scales_a, scales_b, c, n);
}
