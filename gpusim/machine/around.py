"""What the parts of an SM see of the SM around them."""

from __future__ import annotations

from typing import Any, Protocol

import simpy

from gpusim.config import GPUConfig
from gpusim.machine.server import Server


class Around(Protocol):
    """A `sm.SM`. data: the data stage; port: its TPC's way into the crossbar; partition: of L2, that it asks; drained:
    cycle at which its last store is in L2; under_way: accesses of each block in its queues. The rest are its parts."""

    env: simpy.Environment
    config: GPUConfig
    number: int
    partition: int
    data: Server
    port: Server
    drained: float
    under_way: list[int]
    gpu: Any
    supply: Any
    shared: Any
    l1: Any
    memory: Any
    schedulers: list[Any]

    def left(self, slot: int) -> None: ...

    def barrier_reached(self, warp: Any, now: float) -> None: ...

    def warp_ends(self, scheduler: Any, warp: Any, now: float) -> None: ...
