"""One GPU of this process: its memory, its clock and caches, and what all launches on it share."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine.device import Engine
from gpusim.engine.launch_state import Spare
from gpusim.engine.memory.system import MemorySystem, PeerRow
from gpusim.host.options import LaunchOptions
from gpusim.host.syscalls import SystemCalls
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.module import Modules
from gpusim.launch.occupancy import Occupancy
from isa import Program
from isa.lower import Lowered


class ReadyLaunch(Protocol):
    """A `LaunchRun`, as its sample and `repeats` know it."""

    session: GpuSession
    program: Program
    launch: Launch
    parameter_bytes: bytes
    options: LaunchOptions
    lowered: Lowered
    fits: Occupancy
    began: int
    end: int

    def run_untimed(
        self, parts: Sequence[np.ndarray | None] = (None,), system: MemorySystem | None = None, in_step: bool = False
    ) -> tuple[dict[str, Any], np.ndarray]: ...


class GpuSession(AbstractContextManager["GpuSession"]):
    """A GPU with its memory, cold caches and so many host threads.

    beside: another GPU, whose clock and links it shares. peers: tells what lies on other GPUs when a launch begins.
    """

    def __init__(
        self,
        config: GPUConfig,
        memory: DeviceMemory,
        threads: int = 1,
        beside: GpuSession | None = None,
        peers: Callable[[], Sequence[PeerRow]] = tuple,
    ):
        self.config, self.memory, self.threads = config, memory, max(1, min(threads, config.sm.count))
        self.peers = peers
        self.spares: dict[int, Spare] = defaultdict(Spare, {0: Spare.get()})  # by the part of a grid
        self.modules = Modules(memory)
        self.timed: OrderedDict[Hashable, list[Any]] = OrderedDict()  # of `host.repeats`
        self.calls = SystemCalls(memory)
        self._engine: Engine | None = None
        self._beside = beside

    @property
    def engine(self) -> Engine:
        """Made when first used: its processes refer to each other, so the sooner it is made before a run, the longer
        the collector leaves it, and all that a launch holds, behind."""
        if self._engine is None:
            beside = self._beside.engine if self._beside is not None else None
            self._engine = Engine(self.config, self.threads, beside)
        return self._engine

    def close(self) -> None:
        """End the engine's host threads, and leave the memory of its launches to others."""
        if self._engine is not None:
            self._engine.close()
        self.spares[0].give_back()
        self.spares.clear()

    def __exit__(self, *_: object) -> None:
        self.close()
