"""Runs one launch on a device: state in, record out, and errors told in the user's terms."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine.device import Device
from gpusim.engine.dispatcher import G_FIELDS
from gpusim.engine.grid import CyclesUsedUp, MachineStopped, NothingMoves
from gpusim.engine.machine import build_state, constant_banks
from gpusim.engine.parameters import VECTOR_BYTES, Memories, parameters
from gpusim.engine.retime import changes, retimed
from gpusim.engine.state import layout as L
from gpusim.engine.state.memory import SECTOR_BYTES
from gpusim.engine.warm import prepare_core
from gpusim.errors import LaunchError
from gpusim.host.fault import caller, fault, nothing_moves, out_of_cycles
from gpusim.host.syscalls import Host
from gpusim.launch import Launch
from gpusim.launch.compatibility import check_architecture
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.occupancy import check_cluster, check_dimensions, occupancy
from gpusim.results.record import LaunchRecord
from gpusim.results.result import Result
from gpusim.tracing.recorder import Recorder
from gpusim.tracing.trace import TraceOptions
from isa import Program
from isa import microops as M
from isa.instruction import INSTRUCTION_BYTES, Instruction
from isa.launch_values import launch_values, reads_launch_value
from isa.lower import Lowered, lower

#: Local memory that CUDA gives every thread beyond what the compiler counted, for recursion and calls by pointer.
_DEFAULT_STACK_BYTES = 1024
#: What blocks of a cooperative launch share: a size and the grid's barrier (cooperative_groups.h).
_WORKSPACE_BYTES = 64
#: CUDA programming guide, technical specifications per compute capability: 512 KB.
_MOST_LOCAL_BYTES = 512 << 10


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
    host: Host | None = None,
    cooperative: bool = False,
    checks: int = 0,
    trace: bool | TraceOptions | None = None,
    peers: Sequence[tuple[int, int, float, float, int, int]] = (),
) -> Result:
    """Simulate one launch whose arguments lie in `memory` already; on `device`, or on a new one with cold caches.

    program: linked (`gpusim.launch.module`), so that no address is left to write. host: serves system calls,
    None for one of this launch alone. cooperative: all blocks have to be resident at once, as they must
    anyhow if the kernel uses the workspace of grid-wide barriers.
    """
    options = TraceOptions.of(trace)
    check_architecture(program.arch, config.gpu.arch, program.name)
    lowered = lowered_once(program, config)
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
    shared_by_blocks = cooperative or reads_launch_value(program, launch_values(program.arch).environment + 4)
    if shared_by_blocks and launch.blocks > fits.blocks_per_sm * config.sm.count:
        raise LaunchError(
            f"a cooperative launch of {launch.blocks:,} blocks, of which the GPU holds "
            f"{fits.blocks_per_sm * config.sm.count:,} at once",
            kernel=program.name,
        )
    workspace = memory.alloc(_WORKSPACE_BYTES, "grid workspace") if shared_by_blocks else 0
    local_bytes = _local_bytes(program)
    shared = program.static_shared_bytes + launch.shared_bytes
    par = parameters(
        config,
        launch,
        lowered,
        fits,
        Memories(program.shared_base, program.shared_base + shared, local_bytes, memory.base),
        strict_barriers,
        program.cluster or (0, 0, 0),
        checks,
    )
    unit = config.sm.shared_unit_bytes  # in which %total_smem_size counts, says the PTX ISA
    par[L.P_SHARED_SIZE] = program.shared_base + -(-shared // unit) * unit
    banks = constant_banks(program, launch, parameter_bytes, local_bytes, config.sm.count, workspace)
    own = device is None
    device = device or Device(config, threads)
    memory_system = device.memory_system
    memory_system.set_peers(peers)
    views = memory_system.counters, memory_system.slice_sectors, memory_system.channel_sectors
    before = [view.copy() for view in views]
    try:
        recorder = Recorder(options, config, launch, par) if options is not None else None
        log = recorder.arrays if recorder is not None else None
        state = build_state(par, lowered, banks, memory, device.threads, device.spare, log)
    except MemoryError:
        raise LaunchError("the host has no room for the state of all resident threads", kernel=program.name) from None
    preparing = prepare_core(state, device.memory_system.state, np.zeros(G_FIELDS, np.int64))
    started = time.perf_counter()
    host = host or Host(memory)
    serve = partial(host.serve, place=partial(caller, state, program=program, launch=launch))
    constants = sum(len(content) for bank, content in program.constant_banks.items() if bank != 0)
    # Clusters go to the emptiest GPC wherever it is.
    blocks = launch.blocks if program.cluster is None else config.sm.count
    if device.memory_system.has_run(program.sha256):
        par[L.P_CONST_FAR] = config.constant.l2_latency_cycles
    device.memory_system.begin(blocks, program.sha256, len(program.instructions) * INSTRUCTION_BYTES, constants)
    calls = M.OP_SYSCALL in lowered.code[:, M.COL_OP]
    grid = device.submit(state, launch.blocks, max_cycles, progress, serve if calls else None, recorder)
    try:
        cycles = device.wait(grid)
    except MachineStopped as stopped:
        raise fault(state, stopped.sm, program, launch, memory) from None
    except CyclesUsedUp:
        raise out_of_cycles(grid, program, launch, max_cycles) from None
    except NothingMoves:
        raise nothing_moves(grid, program, launch, int(device.env.now)) from None
    finally:
        host.flush()
        if workspace:
            memory.free(workspace)
        if own:
            device.close()
    counters, slice_sectors, channel_sectors = (view - old for view, old in zip(views, before, strict=True))
    return Result(
        LaunchRecord(
            config=config,
            program=program,
            launch=launch,
            occupancy=fits,
            cycles=cycles,
            line=state.line[:, :-1].sum(axis=0),
            sm_active_cycles=state.sm[:, L.S_ACTIVE_CYCLES].copy(),
            sm_warp_cycles=state.sm[:, L.S_WARP_CYCLES].copy(),
            sm_issued=state.sm[:, L.S_ISSUED].copy(),
            sm_blocks=state.sm[:, L.S_LAUNCHED].copy(),
            memory=counters,
            slices=slice_sectors,
            channels=SECTOR_BYTES * channel_sectors,
            host_seconds=time.perf_counter() - started,
            host_threads=device.threads,
            compile_seconds=preparing,
            trace=recorder.finish(state, program, launch, config, grid.start, cycles) if recorder else None,
        )
    )


_lowered: OrderedDict[tuple[int, tuple[tuple[int, int], ...]], tuple[tuple[Instruction, ...], Lowered]] = OrderedDict()
_MOST_LOWERED = 128


def lowered_once(program: Program, config: GPUConfig) -> Lowered:
    """The program's rows, timed for the machine; from the last time if its instructions are the same objects, since
    constants may have changed."""
    later = changes(config, program.arch)
    key = id(program.instructions), tuple(later.items())
    if key not in _lowered:
        lowered = retimed(lower(program), later)
        _lowered[key] = program.instructions, lowered  # keeps the instructions, so nothing else gets their id
        if len(_lowered) > _MOST_LOWERED:
            _lowered.popitem(last=False)
    _lowered.move_to_end(key)
    return _lowered[key][1]


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
