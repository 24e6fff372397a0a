"""Runs one launch on a device: state in, record out, and errors told in the user's terms."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine import layout as L
from gpusim.engine.device import CyclesUsedUp, Device, MachineStopped, NothingMoves
from gpusim.engine.dispatcher import G_FIELDS
from gpusim.engine.machine import build_state, constant_banks, parameters
from gpusim.engine.record import LaunchRecord
from gpusim.engine.warm import prepare_core
from gpusim.errors import LaunchError
from gpusim.fault import fault, nothing_moves, out_of_cycles
from gpusim.launch import Launch
from gpusim.memory import DeviceMemory
from gpusim.occupancy import check_dimensions, occupancy
from gpusim.result import Result
from isa import Program
from isa.lower import lower

#: Local memory that CUDA gives every thread beyond what the compiler counted, for recursion and calls by pointer.
_DEFAULT_STACK_BYTES = 1024


def run_launch(
    config: GPUConfig,
    program: Program,
    launch: Launch,
    memory: DeviceMemory,
    parameter_bytes: bytes,
    threads: int,
    max_cycles: int | None,
    strict_barriers: bool,
    progress: Callable[[int, int, int], None] | None,
    device: Device | None = None,
) -> Result:
    """Simulate one launch whose arguments lie in `memory` already; on `device`, or on a new one with cold caches."""
    lowered = lower(program)
    check_dimensions(config, launch.grid, launch.block, program.name)
    if program.cluster is not None:
        raise LaunchError("thread block clusters are not modelled", kernel=program.name)
    fits = occupancy(
        config,
        launch.threads_per_block,
        program.registers,
        program.static_shared_bytes,
        launch.shared_bytes,
        program.max_threads,
        program.name,
    )
    local_bytes = _local_bytes(program)
    shared = program.shared_base + program.static_shared_bytes + launch.shared_bytes
    par = parameters(config, launch, lowered, fits, shared, local_bytes, memory.base, strict_barriers)
    banks = constant_banks(program, launch, parameter_bytes, local_bytes)
    own = device is None
    device = device or Device(config, threads)
    before = device.memory_system.counters.copy()
    state = build_state(par, lowered, banks, memory, device.threads)
    preparing = prepare_core(state, device.memory_system.state, np.zeros(G_FIELDS, np.int64))
    started = time.perf_counter()
    grid = device.submit(state, launch.blocks, max_cycles, progress)
    try:
        cycles = device.wait(grid)
    except MachineStopped as stopped:
        raise fault(state, stopped.sm, program, launch, memory) from None
    except CyclesUsedUp:
        raise out_of_cycles(grid, program, launch, max_cycles) from None
    except NothingMoves:
        raise nothing_moves(grid, program, launch, int(device.env.now)) from None
    finally:
        if own:
            device.close()
    return Result(
        LaunchRecord(
            config=config,
            program=program,
            launch=launch,
            occupancy=fits,
            cycles=cycles,
            line=state.line.sum(axis=0),
            sm_active_cycles=state.sm[:, L.S_ACTIVE_CYCLES].copy(),
            sm_warp_cycles=state.sm[:, L.S_WARP_CYCLES].copy(),
            sm_issued=state.sm[:, L.S_ISSUED].copy(),
            sm_blocks=state.sm[:, L.S_LAUNCHED].copy(),
            memory=np.asarray(device.memory_system.counters - before),
            host_seconds=time.perf_counter() - started,
            host_threads=device.threads,
            compile_seconds=preparing,
        )
    )


def _local_bytes(program: Program) -> int:
    """Local memory per thread: the compiler's stack, rounded to 16 bytes, and room for calls it could not count."""
    calls = any(each.opcode in ("CALL", "BRX", "JMX") for each in program.instructions)
    if program.local_bytes == 0 and not calls:
        return 0
    return -(-program.local_bytes // 16) * 16 + (_DEFAULT_STACK_BYTES if calls else 0)
