"""Options of a run, beside the launch itself: one object for all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpusim.config import GPUConfig
from gpusim.engine.stop import Stop
from gpusim.errors import CheckError, LaunchError, ModeError, did_you_mean
from gpusim.launch.launch import AccessWindow, Launch
from gpusim.launch.occupancy import Occupancy, check_cluster, check_dimensions, occupancy
from gpusim.tracing.accel_sim import AccelSimTraces
from gpusim.tracing.recording import TraceOptions
from isa import Program
from isa.launch_values import launch_values, reads_launch_value

if TYPE_CHECKING:
    from gpusim.machine.gpu import GPU

#: Flags by the names that `check` takes, after compute-sanitizer's tools; memcheck is always on.
CHECKS = {"memcheck": 0, "initcheck": 1, "racecheck": 2, "synccheck": 4}

#: A launch may run this long unless `max_cycles` says otherwise: a minute of GPU time. An endless loop ends here.
DEFAULT_MAX_CYCLES = 100_000_000
#: CUDA gives a thread so much stack beyond what the compiler counted, for recursion and calls by pointer.
DEFAULT_STACK_BYTES = 1024

MODES = ("detailed", "once", "sampled", "functional")
EACH_IN_TIME = ("detailed", "once")
"""Modes in which every launch has all its cycles; in the second one that repeats has an earlier one's."""

Progress = Callable[[int, int, int, int], None]
"""Called now and then with (cycles, blocks finished, blocks in the grid, warp instructions issued)."""


@dataclass(frozen=True)
class LaunchOptions:
    """Options of a run.

    max_cycles: SM clock cycles after which it is given up, None for no limit. strict_barriers: a barrier that some
    threads have exited without reaching is an error. cooperative: all blocks have to be resident at once, and have
    the workspace of grid-wide barriers; None: if the kernel reads where that is. stack_bytes: of a thread's stack, for
    calls that the compiler could not count. checks: flags of `checks_of`. trace: what to record. mode: one of MODES.
    blocks: the only blocks that are run, by number; None for all. outputs: a sampled run executes the blocks that it
    does not time. window: address range whose accesses carry an L2 policy. carveout: the `preference` of
    `carveout_bytes`. programmatic: the launch may begin when the one before it in its stream lets it. alone: nothing
    else is on the GPU. accel_sim: where a functional run's instructions are written for another simulator. stop: where
    the run is stopped. model: a class of SimPy processes on which it is run instead of the engine.
    """

    max_cycles: int | None = DEFAULT_MAX_CYCLES
    strict_barriers: bool = True
    cooperative: bool | None = None
    stack_bytes: int = DEFAULT_STACK_BYTES
    checks: int = 0
    progress: Progress | None = None
    trace: TraceOptions | None = None
    window: AccessWindow | None = None
    carveout: int = -1
    programmatic: bool = False
    alone: bool = False
    mode: str = "detailed"
    blocks: tuple[int, ...] | None = None
    outputs: bool = False
    accel_sim: AccelSimTraces | None = None
    stop: Stop | None = None
    model: str | type[GPU] = "engine"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            meant = did_you_mean(self.mode, MODES)
            raise ModeError(f"there is no mode {self.mode!r}; there are {', '.join(MODES)}{meant}")
        if self.mode not in EACH_IN_TIME and self.trace is not None:
            raise ModeError(f"a {self.mode} run has no trace of what happened when")
        if self.mode != "functional" and self.accel_sim is not None:
            raise ModeError("instructions are written for other simulators in functional runs alone")
        elsewhere = self.stop or self.accel_sim or self.blocks or self.mode != "detailed"
        if self.model != "engine" and elsewhere:
            raise ModeError("the SimPy machine runs whole launches in detail, without stop")
        if self.stop is not None and (self.mode not in self.stop.modes or self.trace or self.accel_sim):
            raise ModeError("detailed runs can stop, functional ones before an instruction, without trace")

    def fit(self, config: GPUConfig, program: Program, launch: Launch) -> tuple[Occupancy, bool]:
        """Return the occupancy of an SM, and whether all blocks share a workspace. Raises LaunchError if the GPU does
        not take them."""
        check_dimensions(config, launch.grid, launch.block, program.name)
        shared = program.static_shared_bytes, launch.shared_bytes
        what = launch.threads_per_block, program.registers, *shared, program.max_threads, program.name
        workspace = launch_values(program.arch).environment + 4
        together = reads_launch_value(program, workspace) if self.cooperative is None else self.cooperative
        fits = occupancy(config, *what, -1 if together else self.carveout)  # a hint, unless all blocks have to fit
        if program.cluster is not None:
            check_cluster(config, program.cluster, launch.grid, fits.blocks_per_sm, program.name)
        if together and launch.blocks > fits.blocks_per_sm * config.sm.count:
            raise LaunchError(
                f"a cooperative launch of {launch.blocks:,} blocks, of which the GPU holds "
                f"{fits.blocks_per_sm * config.sm.count:,} at once",
                kernel=program.name,
            )
        return fits, together


def checks_of(check: str | Iterable[str]) -> int:
    """The engine's flags for names of checks: a text with commas, or several. Raises CheckError for an unknown one."""
    flags = 0
    for name in check.split(",") if isinstance(check, str) else check:
        if name not in CHECKS:
            raise CheckError(name, tuple(CHECKS))
        flags |= CHECKS[name]
    return flags


def host_threads(threads: int | None) -> int:
    """Host threads to use: as asked for, or one per core this process may run on, shared with pytest-xdist's others."""
    if threads is not None:
        return max(threads, 1)
    affinity = getattr(os, "sched_getaffinity", None)  # not on every platform
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(cores // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), 1)
