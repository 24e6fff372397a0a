"""The record of one launch: raw counts, from which `results.analysis` makes metrics, its bound, and how it ran."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpusim.config import GPUConfig
from gpusim.launch import Launch
from gpusim.launch.occupancy import Occupancy
from gpusim.tracing.perfetto import Trace
from isa import Program


@dataclass(frozen=True)
class Sampling:
    """Extent of a sampled run. timed: blocks that it timed, of `blocks` in the grid, of which the GPU holds `resident`
    at once; places: in how many it executed blocks, as evidence that the others do the same.

    error: by what share the cycles may be off those of a detailed run, which nine runs of ten keep to. outputs: whether
    all blocks were executed, so that memory holds what the kernel computes. why_all: why all blocks were timed.
    """

    timed: int
    blocks: int
    resident: int
    places: int
    error: float
    outputs: bool = False
    why_all: str = ""


@dataclass(frozen=True)
class Bound:
    """The least time that a launch can take on a machine.

    cycles: SM clock cycles from the start of the launch, its overhead included. by: the term that says so.
    terms: every term, {name: cycles}. time_us: the same in microseconds. gpu: name of the machine.
    waves: how often the grid fills the whole GPU, a broken number.
    """

    gpu: str
    cycles: int
    time_us: float
    by: str
    terms: dict[str, float]
    waves: float
    overhead_cycles: int

    def __str__(self) -> str:
        lines = [f"Bound {self.cycles:,} cycles = {self.time_us:.2f} us on {self.gpu}, by {self.by}"]
        for name, cycles in sorted(self.terms.items(), key=lambda each: -each[1]):
            share = cycles / max(self.cycles, 1)
            lines.append(f"  {name:22s} {'#' * round(20 * share):20s} {cycles:12,.0f}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Simulation:
    """Speed of the simulation on the host. Compilation of its engine is apart; instructions are warp instructions."""

    host_seconds: float
    host_threads: int
    compile_seconds: float
    instructions_per_second: float


@dataclass(frozen=True)
class LaunchRecord:
    """Counts of one launch. Arrays are int64.

    code: the lowered program, int32 [instructions, COLUMNS], timed for the machine.
    cycles: SM clock cycles from the start of the launch to its completion, launch overhead included.
    counters: [instructions, layout.COUNT_FIELDS] counters per instruction, see the COUNT_* of `engine.state.layout`.
    sm_active_cycles: [SMs] cycles with at least one resident warp; sm_warp_cycles: [SMs] resident warps summed over
        cycles; sm_scheduler_cycles: [SMs] sub-partitions with one; sm_issued: [SMs] instructions; sm_blocks: [SMs] run.
    memory: counters of the memory system, see the CNT_* of `engine.state.memory`.
    slices: [L2 slices] sectors looked up; channels: [memory channels] bytes read and written.
    host_seconds: time the simulation took on the host, compilation of the core excluded; host_threads used for it.
    compile_seconds: time it took to load the compiled core, or to compile it.
    trace: what happened when, if it was asked for.
    mode: how the launch was run. A functional run has counted what instructions do, but has no times, no cycles and no
        traffic: those are zero.
    machine: the class of SimPy processes that it ran on, empty for the engine.
    host_parts: seconds of the host by part of the simulator. sampling: of a sampled run, how it was done.
    """

    config: GPUConfig
    program: Program
    launch: Launch
    occupancy: Occupancy
    code: np.ndarray
    cycles: int
    counters: np.ndarray
    sm_active_cycles: np.ndarray
    sm_warp_cycles: np.ndarray
    sm_scheduler_cycles: np.ndarray
    sm_issued: np.ndarray
    sm_blocks: np.ndarray
    memory: np.ndarray
    host_seconds: float
    host_threads: int
    compile_seconds: float
    slices: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    channels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    trace: Trace | None = None
    mode: str = "detailed"
    machine: str = ""
    host_parts: dict[str, float] = field(default_factory=dict)
    sampling: Sampling | None = None

    @property
    def timed(self) -> bool:
        """True if the run has cycles, which a functional one has not."""
        return self.mode != "functional"
