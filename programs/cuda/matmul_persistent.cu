// A block for each SM stays and takes tile after tile: see matmul_persistent.cuh.
#include "matmul_persistent.cuh"

extern "C" __global__ void __launch_bounds__(384, 1)
    persistent(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
               const __grid_constant__ TensorMap c, u32 n) {
  persistent_product<1>(a, b, c, n);
}
