"""What one launch leaves behind: raw counts, from which `gpusim.result.Result` makes metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.config import GPUConfig
from gpusim.launch import Launch
from gpusim.occupancy import Occupancy
from isa import Program


@dataclass(frozen=True)
class LaunchRecord:
    """Counts of one launch. Arrays are int64.

    cycles: SM clock cycles from the start of the launch to its completion, launch overhead included.
    line: [instructions, layout.N_FIELDS] counters per instruction, see the N_* of `engine.layout`.
    sm_active_cycles: [SMs] cycles with at least one resident warp; sm_warp_cycles: [SMs] resident warps summed over
        cycles; sm_issued: [SMs] warp instructions; sm_blocks: [SMs] blocks run.
    memory: counters of the memory system, see the CNT_* of `engine.memory_state`.
    host_seconds: time the simulation took on the host, compilation of the core excluded; host_threads used for it.
    compile_seconds: time it took to load the compiled core, or to compile it.
    """

    config: GPUConfig
    program: Program
    launch: Launch
    occupancy: Occupancy
    cycles: int
    line: np.ndarray
    sm_active_cycles: np.ndarray
    sm_warp_cycles: np.ndarray
    sm_issued: np.ndarray
    sm_blocks: np.ndarray
    memory: np.ndarray
    host_seconds: float
    host_threads: int
    compile_seconds: float
