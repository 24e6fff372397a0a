"""A launch and its data.

Read `launch` and `cuda` (one launch, described without any machine), `arena`, `memory` and `device_array` (device
memory), `arguments` (a kernel's parameters, and the program of a launch), `module` (a loaded cubin),
then `occupancy` (whether and how it fits).
"""

from gpusim.launch.cuda import CudaSource, Struct, TensorMap
from gpusim.launch.launch import Dim3, Launch, as_args, as_dim3

__all__ = ["CudaSource", "Dim3", "Launch", "Struct", "TensorMap", "as_args", "as_dim3"]
