// A query sees the keys up to its own place: see flash_attention.cuh.
#include "flash_attention.cuh"

extern "C" __global__ void __launch_bounds__(384, 1)
    causal(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
         const __grid_constant__ TensorMap o, u32 n) {
  attend<true>(q, k, v, o, n);
}
