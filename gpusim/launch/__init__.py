"""What is run and where its data lies.

Read `launch` (one launch, described without any machine), `arena`, `memory` and `device_array` (device memory),
`signatures` and `arguments` (a kernel's parameters), `program` (both for one launch), `module` (a loaded cubin), then
`occupancy` (whether and how it fits).
"""

from gpusim.launch.launch import Dim3, Launch, as_dim3

__all__ = ["Dim3", "Launch", "as_dim3"]
