"""Runs one launch on a machine: state in, record out, and errors told in the user's terms."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import simpy

from gpusim.config import GPUConfig
from gpusim.engine.device import Engine
from gpusim.engine.dispatcher import G_FIELDS
from gpusim.engine.functional import run_functionally
from gpusim.engine.grid import CyclesUsedUp, Grid, Host, MachineStopped, NothingMoves
from gpusim.engine.machine import Spare, build_state, constant_banks
from gpusim.engine.parameters import VECTOR_BYTES, Memories, parameters
from gpusim.engine.state import layout as L
from gpusim.engine.state.memory import COUNTERS, SECTOR_BYTES
from gpusim.engine.warm import prepare_core
from gpusim.errors import LaunchError
from gpusim.host.fault import caller, fault, nothing_moves, out_of_cycles
from gpusim.host.lowering import lowered_once
from gpusim.host.options import LaunchOptions
from gpusim.host.syscalls import SystemCalls
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.module import Modules
from gpusim.launch.occupancy import Occupancy, check_architecture, check_cluster, check_dimensions, occupancy
from gpusim.results.record import LaunchRecord
from gpusim.tracing.recorder import TraceRecorder
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
    """A GPU with its memory, and what launches on it share. engine: as it is, None for a new one with cold caches and
    so many host threads."""

    def __init__(self, config: GPUConfig, memory: DeviceMemory, threads: int = 1, engine: Engine | None = None):
        self.config, self.memory = config, memory
        self.threads = engine.threads if engine is not None else max(1, min(threads, config.sm.count))
        self.spare = Spare.get()
        self.modules = Modules(memory)
        self.calls = SystemCalls(memory)
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """Made when first used: its processes refer to each other, so the sooner it is made before a run, the longer
        the collector leaves it, and all that a launch holds, behind."""
        self._engine = self._engine or Engine(self.config, self.threads)
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


def run_launch(
    machine: Machine, program: Program, launch: Launch, parameter_bytes: bytes, options: LaunchOptions
) -> LaunchRecord:
    """Simulate one launch of a linked program (`gpusim.launch.module`) whose arguments lie in the machine's memory."""
    config, memory = machine.config, machine.memory
    check_architecture(program.arch, config.gpu.arch, program.name)
    lowered = lowered_once(program, config)
    fits, shared_by_blocks = _fit(config, program, launch, options.cooperative)
    workspace = memory.alloc(_WORKSPACE_BYTES, "grid workspace") if shared_by_blocks else 0
    try:
        local_bytes = _local_bytes(program)
        par = _parameters(machine, program, launch, lowered, fits, local_bytes, options)
        banks = constant_banks(program, launch, parameter_bytes, local_bytes, config.sm.count, workspace)
        recorder = TraceRecorder(options.trace, config, launch, par) if options.trace is not None else None
        log = recorder.arrays if recorder is not None else None
        try:
            state = build_state(par, lowered, banks, memory, machine.threads, machine.spare, log)
        except MemoryError:
            words = "the host has no room for the state of all resident threads"
            raise LaunchError(words, kernel=program.name) from None
        if options.mode == "functional":
            outcome = _execute(machine, state, program, launch, options, shared_by_blocks)
        else:
            outcome = _time(machine, state, program, launch, options, recorder)
    finally:
        machine.calls.flush()
        if workspace:
            memory.free(workspace)
    return LaunchRecord(
        config=config,
        program=program,
        launch=launch,
        occupancy=fits,
        code=lowered.code,
        counters=state.counters[:, :-1].sum(axis=0),
        sm_active_cycles=state.sm[:, L.S_ACTIVE_CYCLES].copy(),
        sm_warp_cycles=state.sm[:, L.S_WARP_CYCLES].copy(),
        sm_issued=state.sm[:, L.S_ISSUED].copy(),
        sm_blocks=state.sm[:, L.S_LAUNCHED].copy(),
        mode=options.mode,
        **outcome,
    )


def _time(
    machine: Machine,
    state: L.State,
    program: Program,
    launch: Launch,
    options: LaunchOptions,
    recorder: TraceRecorder | None,
) -> dict[str, Any]:
    """Runs a launch in time. Returns what its record says of that."""
    system = machine.engine.memory_system
    system.set_peers(options.peers)
    views = system.counters, system.slice_sectors, system.channel_sectors
    before = [view.copy() for view in views]
    preparing = prepare_core(state, system.state, np.zeros(G_FIELDS, np.int64))
    started = time.perf_counter()
    grid, cycles = _run(machine, state, program, launch, recorder, options)
    counters, slice_sectors, channel_sectors = (view - old for view, old in zip(views, before, strict=True))
    code, start, config = state.code[:-1], grid.start, machine.config
    return {
        "cycles": cycles,
        "memory": counters,
        "slices": slice_sectors,
        "channels": SECTOR_BYTES * channel_sectors,
        "host_seconds": time.perf_counter() - started,
        "host_threads": machine.threads,
        "compile_seconds": preparing,
        "trace": recorder.finish(state, code, program, launch, config, start, cycles) if recorder else None,
    }


def _execute(
    machine: Machine, state: L.State, program: Program, launch: Launch, options: LaunchOptions, together: bool
) -> dict[str, Any]:
    """Runs a launch without time, all blocks `together` if they may wait for each other. Returns as `_time` does."""
    preparing = prepare_core(state, None, np.zeros(G_FIELDS, np.int64))
    started = time.perf_counter()
    serve = _host(machine, state, program, launch)
    grid = Grid(simpy.Environment(), state, launch.blocks, options.max_cycles, options.progress, serve)
    with _faults(grid, machine, program, launch, options):
        run_functionally(grid, together)
    return {
        "cycles": 0,
        "memory": np.zeros(COUNTERS, np.int64),
        "host_seconds": time.perf_counter() - started,
        "host_threads": 1,
        "compile_seconds": preparing,
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
    if options.mode == "functional":
        par[L.P_UNTIMED] = 1
    elif machine.engine.memory_system.has_run(program.sha256):
        par[L.P_CONST_FAR] = config.constant.l2_latency_cycles
    return par


def _run(
    machine: Machine,
    state: L.State,
    program: Program,
    launch: Launch,
    recorder: TraceRecorder | None,
    options: LaunchOptions,
) -> tuple[Grid, int]:
    """Hands the launch to the engine and waits for it; returns it and its cycles."""
    engine = machine.engine
    constants = sum(len(content) for bank, content in program.constant_banks.items() if bank != 0)
    # Clusters go to the emptiest GPC wherever it is.
    blocks = launch.blocks if program.cluster is None else machine.config.sm.count
    engine.memory_system.begin(blocks, program.sha256, len(program.instructions) * INSTRUCTION_BYTES, constants)
    serve = _host(machine, state, program, launch)
    grid = engine.submit(state, launch.blocks, options.max_cycles, options.progress, serve, recorder)
    with _faults(grid, machine, program, launch, options):
        return grid, engine.wait(grid)


def _host(machine: Machine, state: L.State, program: Program, launch: Launch) -> Host | None:
    """What serves the kernel's calls of the host, if it has any."""
    if M.OP_SYSCALL not in state.code[:, M.COL_OP]:
        return None
    return partial(machine.calls.serve, place=partial(caller, state, program=program, launch=launch))


@contextmanager
def _faults(
    grid: Grid, machine: Machine, program: Program, launch: Launch, options: LaunchOptions
) -> Iterator[None]:
    """Tells in the user's terms what ends a launch early."""
    try:
        yield
    except MachineStopped as stopped:
        raise fault(grid, stopped.sm, program, launch, machine.memory) from None
    except CyclesUsedUp:
        raise out_of_cycles(grid, program, launch, options.max_cycles) from None
    except NothingMoves:
        raise nothing_moves(grid, program, launch) from None


def _local_bytes(program: Program) -> int:
    """Local memory per thread: the compiler's stack, rounded to 16 bytes, and room for calls it could not count."""
    calls = any(each.opcode in ("CALL", "BRX", "JMX") for each in program.instructions)
    if program.local_bytes == 0 and not calls:
        return 0
    if not 0 <= program.local_bytes <= _MOST_LOCAL_BYTES:
        raise LaunchError(
            f"{program.local_bytes:,} bytes of local memory per thread, allowed at most {_MOST_LOCAL_BYTES:,}",
            kernel=program.name,
        )
    return -(-program.local_bytes // VECTOR_BYTES) * VECTOR_BYTES + (_DEFAULT_STACK_BYTES if calls else 0)
