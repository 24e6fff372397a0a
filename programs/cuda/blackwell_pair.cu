// Two blocks on neighbouring SMs multiply as one, 256 x 256 outputs: see blackwell_persistent.cuh.
#include "blackwell_persistent.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192, 1)
    pair(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
         const __grid_constant__ TensorMap c, u32 n) {
  persistent_product<2, 6>(a, b, c, n);
}
