"""What is run and where its data lies.

Read `launch` (one launch, described without any machine), `signatures` and `arguments` (its parameters), `memory`
and `device_array` (device memory), `module` (a loaded cubin), then `occupancy` and `compatibility`.
"""

from gpusim.launch.launch import Dim3, Launch, as_dim3

__all__ = ["Dim3", "Launch", "as_dim3"]
