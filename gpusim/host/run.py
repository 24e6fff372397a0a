"""A launch ready to run on a machine, and how it is run without time; errors are told in the user's terms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.device import Engine
from gpusim.engine.endless import NeverEnds
from gpusim.engine.functional import run_functionally
from gpusim.engine.grid import CyclesUsedUp, Grid, Host, MachineStopped, NothingMoves, Seat
from gpusim.engine.machine import Spare, build_state, constant_banks, constant_lines
from gpusim.engine.memory.system import MemorySystem, PeerRow
from gpusim.engine.parameters import VECTOR_BYTES, Memories, parameters, put_seat
from gpusim.engine.state import layout as L
from gpusim.engine.state.memory import COUNTERS
from gpusim.engine.warm import prepare_core
from gpusim.errors import LaunchError
from gpusim.host.fault import caller, fault, never_ends, nothing_moves, out_of_cycles
from gpusim.host.lowering import lowered_once
from gpusim.host.options import LaunchOptions
from gpusim.host.recording import Recording
from gpusim.host.syscalls import SystemCalls
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.module import Modules
from gpusim.launch.occupancy import Occupancy, check_architecture, check_cluster, check_dimensions, occupancy
from gpusim.results.record import LaunchRecord
from gpusim.tracing.accel_launch import AccelSimLaunch
from gpusim.tracing.recorder import TraceRecorder
from gpusim.tracing.trace import Trace
from isa import Program
from isa import microops as M
from isa.instruction import INSTRUCTION_BYTES
from isa.launch_values import launch_values, reads_launch_value
from isa.lower import Lowered

#: Local memory that CUDA gives every thread beyond what the compiler counted, for recursion and calls by pointer.
_DEFAULT_STACK_BYTES = 1024
#: What blocks of a cooperative launch share: a size and the grid's barrier (cooperative_groups.h).
_WORKSPACE_BYTES = 64
#: CUDA programming guide, technical specifications per compute capability: 512 KB.
_MOST_LOCAL_BYTES = 512 << 10


class Machine:
    """A GPU with its memory, cold caches and so many host threads, and what launches on it share.

    beside: another GPU, whose clock and links it shares. peers: tells what lies on other GPUs when a launch begins.
    """

    peers: Callable[[], Sequence[PeerRow]] = staticmethod(tuple)

    def __init__(self, config: GPUConfig, memory: DeviceMemory, threads: int = 1, beside: Machine | None = None):
        self.config, self.memory, self.threads = config, memory, max(1, min(threads, config.sm.count))
        self.spare = Spare.get()
        self.modules = Modules(memory)
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
        self.spare.give_back()
        self.spare = Spare()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def ready_run(
    machine: Machine, program: Program, launch: Launch, parameter_bytes: bytes, options: LaunchOptions
) -> Iterator[tuple[ReadyRun, bool]]:
    """A launch ready to run, and whether all its blocks have to be on the GPU together; what is left to do behind it is
    done then."""
    config, memory = machine.config, machine.memory
    check_architecture(program.arch, config.gpu.arch, program.name)
    lowered = lowered_once(program, config)
    fits, shared_by_blocks = _fit(config, program, launch, options.cooperative)
    workspace = memory.alloc(_WORKSPACE_BYTES, "grid workspace") if shared_by_blocks else 0
    try:
        local_bytes = _local_bytes(program)
        par = _parameters(machine, program, launch, lowered, fits, local_bytes, options)
        banks = constant_banks(program, launch, parameter_bytes, local_bytes, config.sm.count, workspace)
        yield ReadyRun(machine, program, launch, options, lowered, fits, par, banks), shared_by_blocks
    finally:
        machine.calls.flush()
        if workspace:
            memory.free(workspace)


@dataclass(frozen=True)
class ReadyRun:
    """A launch that is ready to run, as a whole or some blocks of it."""

    machine: Machine
    program: Program
    launch: Launch
    options: LaunchOptions
    lowered: Lowered
    fits: Occupancy
    par: np.ndarray
    banks: np.ndarray

    def record(self, outcome: dict[str, Any]) -> LaunchRecord:
        """What the launch leaves behind."""
        return LaunchRecord(
            config=self.machine.config,
            program=self.program,
            launch=self.launch,
            occupancy=self.fits,
            code=self.lowered.code,
            mode=self.options.mode,
            **outcome,
        )

    def executed(
        self,
        together: bool,
        parts: Sequence[np.ndarray | None] = (None,),
        system: MemorySystem | None = None,
        recording: Recording | None = None,
        recorder: AccelSimLaunch | None = None,
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Runs blocks without time, all `together` if they may wait for each other. parts: numbers of blocks, as many
        in each, that are run one part after the other; None for all blocks. system: as for `run_functionally`.
        recording: is filled. recorder: takes the log. Returns what the record says of that, and the counters of a block
        of each part with numbers, in the mean."""
        options = self.options
        par = self.par.copy()
        par[L.P_MODE] = L.FUNCTIONAL if system is None else L.KEEPS_REQUESTS
        if recording is not None:
            par[L.P_MODE] = L.RECORDS
        # A timed run may be under way, with the memory that the machine has to spare.
        spare = self.machine.spare if system is None else Spare()
        state = self.state(par, None if parts[0] is None else parts[0].copy(), recorder, spare, recording, None)
        preparing = self.prepared(state, None, False)
        started = time.perf_counter()
        each = []
        for part in parts:
            count = self.launch.blocks if part is None else len(part)
            if part is not None:
                state.chosen[:] = part
            grid = Grid(simpy.Environment(), _ready, count, options.max_cycles, options.progress, recorder)
            grid.state, grid.host = state, self._host(state)
            with self.faults(grid):
                run_functionally(grid, together, system)
            if part is not None:
                each.append(state.counters[:, :-1].sum(axis=0))
        fields = {
            **counted(state),
            "cycles": 0,
            "memory": np.zeros(COUNTERS, np.int64),
            "host_seconds": time.perf_counter() - started,
            "host_threads": 1,
            "compile_seconds": preparing,
        }
        return fields, np.diff(each, axis=0, prepend=0) / count if each else np.zeros(0)

    def prepared(self, state: L.State, memory_state: np.ndarray | None, shared: bool) -> float:
        """Gets the core ready for this code, unless it is known to be. Returns the seconds this took."""
        started = time.perf_counter()
        kind = memory_state is None, shared, bool(self.par[L.P_CLUSTER_BLOCKS]), bool(self.par[L.P_CHECKS])
        self.lowered.once(("core is ready", *kind), lambda: prepare_core(state, memory_state, shared))
        return time.perf_counter() - started

    def seated(self, par: np.ndarray, seat: Seat | None) -> np.ndarray:
        """The parameters of a launch that shares the GPU, or has it for itself."""
        if seat is not None:
            put_seat(par, self.machine.config, self.fits, seat, constant_lines(par))
        return par

    def state(
        self,
        par: np.ndarray,
        chosen: np.ndarray | None,
        recorder: TraceRecorder | AccelSimLaunch | None,
        spare: Spare,
        recording: Recording | None,
        seat: Seat | None,
    ) -> L.State:
        machine = self.machine
        log = recorder.arrays if recorder is not None else None
        if seat is not None:
            spare = Spare()
        try:
            return build_state(
                par, self.lowered, self.banks, machine.memory, machine.threads, spare, log, chosen, recording, seat
            )
        except MemoryError:
            words = "the host has no room for the state of all resident threads"
            raise LaunchError(words, kernel=self.program.name) from None

    def begun(self, state: L.State, chosen: np.ndarray | None, grid: Grid, seat: Seat | None) -> None:
        """The launch's turn has come."""
        system, program = self.machine.engine.memory_system, self.program
        system.set_peers(self.options.peers or self.machine.peers())
        system.set_window(self.options.window)
        if seat is None or seat.beside is None:
            count = self.launch.blocks if chosen is None else len(chosen)
            # Clusters go to the emptiest GPC wherever it is, and launches beside others to where there is room.
            system.place(count if program.cluster is None and seat is None else self.machine.config.sm.count)
            state.sm[:, L.S_PARTITION] = system.partitions
        constants = sum(len(content) for bank, content in program.constant_banks.items() if bank != 0)
        system.fetch(program.sha256, len(program.instructions) * INSTRUCTION_BYTES, constants)
        grid.state, grid.host = state, self._host(state)

    def _host(self, state: L.State) -> Host | None:
        """What serves the kernel's calls of the host, if it has any."""
        if not self.lowered.once("calls the host", lambda: M.OP_SYSCALL in state.code[:, M.COL_OP]):
            return None
        place = partial(caller, state, program=self.program, launch=self.launch)
        return partial(self.machine.calls.serve, place=place)

    @contextmanager
    def faults(self, grid: Grid) -> Iterator[None]:
        """Tells in the user's terms what ends a launch early."""
        program, launch = self.program, self.launch
        try:
            yield
        except MachineStopped as stopped:
            raise fault(grid, stopped.sm, program, launch, self.machine.memory) from None
        except CyclesUsedUp:
            raise out_of_cycles(grid, program, launch, self.options.max_cycles) from None
        except NothingMoves:
            raise nothing_moves(grid, program, launch) from None
        except NeverEnds as found:
            raise never_ends(grid, found.warp, program, launch) from None

    def traced(self, recorder: TraceRecorder, state: L.State, start: int, cycles: int) -> Trace:
        config = self.machine.config
        return recorder.finish(state, self.lowered, self.program, self.launch, config, start, cycles)


def _ready(grid: Grid, seat: Seat | None) -> None:
    """A run without time has its state from the start."""


def counted(state: L.State) -> dict[str, np.ndarray]:
    """What SMs have counted."""
    return {
        "counters": state.counters[0, :-1] if len(state.counters) == 1 else state.counters[:, :-1].sum(axis=0),
        "sm_active_cycles": state.sm[:, L.S_ACTIVE_CYCLES].copy(),
        "sm_warp_cycles": state.sm[:, L.S_WARP_CYCLES].copy(),
        "sm_issued": state.sm[:, L.S_ISSUED].copy(),
        "sm_blocks": state.sm[:, L.S_LAUNCHED].copy(),
    }


def _fit(config: GPUConfig, program: Program, launch: Launch, cooperative: bool) -> tuple[Occupancy, bool]:
    """How the launch's blocks fill an SM, and whether all of them share a workspace. Raises LaunchError if the GPU does
    not take them."""
    check_dimensions(config, launch.grid, launch.block, program.name)
    fits = occupancy(
        config,
        launch.threads_per_block,
        program.registers,
        program.static_shared_bytes,
        launch.shared_bytes,
        program.max_threads,
        program.name,
    )
    if program.cluster is not None:
        check_cluster(config, program.cluster, launch.grid, fits.blocks_per_sm, program.name)
    together = cooperative or reads_launch_value(program, launch_values(program.arch).environment + 4)
    if together and launch.blocks > fits.blocks_per_sm * config.sm.count:
        raise LaunchError(
            f"a cooperative launch of {launch.blocks:,} blocks, of which the GPU holds "
            f"{fits.blocks_per_sm * config.sm.count:,} at once",
            kernel=program.name,
        )
    return fits, together


def _parameters(
    machine: Machine,
    program: Program,
    launch: Launch,
    lowered: Lowered,
    fits: Occupancy,
    local_bytes: int,
    options: LaunchOptions,
) -> np.ndarray:
    """The vector `State.par` of a launch."""
    config = machine.config
    shared = program.static_shared_bytes + launch.shared_bytes
    par = parameters(
        config,
        launch,
        lowered,
        fits,
        Memories(program.shared_base, program.shared_base + shared, local_bytes, machine.memory.base),
        options.strict_barriers,
        program.cluster or (0, 0, 0),
        options.checks,
    )
    unit = config.sm.shared_unit_bytes  # in which %total_smem_size counts, says the PTX ISA
    par[L.P_SHARED_SIZE] = program.shared_base + -(-shared // unit) * unit
    if options.mode != "functional" and machine.engine.memory_system.has_run(program.sha256):
        par[L.P_CONST_FAR] = config.constant.l2_latency_cycles
    return par


def _local_bytes(program: Program) -> int:
    """Local memory per thread: the compiler's stack, rounded to 16 bytes, and room for calls it could not count."""
    calls = program.once("calls", lambda: any(each.opcode in ("CALL", "BRX", "JMX") for each in program.instructions))
    if program.local_bytes == 0 and not calls:
        return 0
    if not 0 <= program.local_bytes <= _MOST_LOCAL_BYTES:
        raise LaunchError(
            f"{program.local_bytes:,} bytes of local memory per thread, allowed at most {_MOST_LOCAL_BYTES:,}",
            kernel=program.name,
        )
    return -(-program.local_bytes // VECTOR_BYTES) * VECTOR_BYTES + (_DEFAULT_STACK_BYTES if calls else 0)
