"""The GPU as SimPy processes, to be read in an afternoon and changed in ten lines.

It is the same machine as the compiled engine's, by the same numbers of the configuration and with the engine's own
executors, so results and counts are the engine's; only time is its own, told in fewer words. Read it from the inside
out: `instruction`, `execution` (what an instruction does), `warp`, `server` (what serves one after the other), `supply`
(code and constants), `pipes`, `shared`, `memory_pipe`, `global_path` with `l1`, `l2`, `slice`, `dram` and `nvlink`,
`scheduler` (whose turn it is, and what a warp's cycles are charged to), `sm`, `gpu` (blocks, SMs, the end), `run`. A
class names the classes that it is made of as its attributes: a subclass of `GPU` that names another one is another
machine.
"""

from gpusim.machine.dram import Channel as Channel
from gpusim.machine.execution import Executed as Executed
from gpusim.machine.gpu import GPU as GPU
from gpusim.machine.instruction import Decoded as Decoded
from gpusim.machine.l1 import L1Cache as L1Cache
from gpusim.machine.l2 import L2Cache as L2Cache
from gpusim.machine.memory_pipe import MemoryPipe as MemoryPipe
from gpusim.machine.nvlink import PeerLink as PeerLink
from gpusim.machine.scheduler import Scheduler as Scheduler
from gpusim.machine.server import Server as Server
from gpusim.machine.shared import SharedMemory as SharedMemory
from gpusim.machine.slice import Slice as Slice
from gpusim.machine.sm import SM as SM
from gpusim.machine.warp import Warp as Warp
