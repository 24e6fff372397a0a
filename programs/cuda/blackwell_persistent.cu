// A block for each SM stays and takes tile after tile of 128 x 256 outputs: see blackwell_persistent.cuh.
#include "blackwell_persistent.cuh"

extern "C" __global__ void __launch_bounds__(192, 1)
    persistent(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
               const __grid_constant__ TensorMap c, u32 n) {
  persistent_product<1, 4>(a, b, c, n);
}
