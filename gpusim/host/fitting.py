"""The fit of a launch on a GPU: its program's rows, blocks on an SM, local memory, and the engine's parameters."""

from __future__ import annotations

import numpy as np

from gpusim.config import GPUConfig
from gpusim.engine.parameters import VECTOR_BYTES, Memories, parameters
from gpusim.engine.retime import changes, retimed
from gpusim.engine.state import parameters as P
from gpusim.errors import LaunchError
from gpusim.host.options import LaunchOptions
from gpusim.launch import Launch
from gpusim.launch.occupancy import Occupancy, check_cluster, check_dimensions, occupancy
from isa import Program
from isa.launch_values import launch_values, reads_launch_value
from isa.lower import Lowered, lower

#: CUDA programming guide, technical specifications per compute capability: 512 KB.
_MOST_LOCAL_BYTES = 512 << 10
_MOST_RETIMED = 16


def lowered_once(program: Program, config: GPUConfig) -> Lowered:
    """The program's rows, timed for the machine; from the last time if its instructions are the same, since constants
    may have changed."""
    lowered = program.once("rows", lambda: lower(program))
    if not (later := changes(config, program.arch)):
        return lowered
    kept: dict[tuple[tuple[int, int], ...], Lowered] = program.once("retimed rows", dict)
    key = tuple(later.items())
    if key not in kept:
        if len(kept) == _MOST_RETIMED:
            del kept[next(iter(kept))]
        kept[key] = retimed(lowered, later)
    return kept[key]


def fit(config: GPUConfig, program: Program, launch: Launch, options: LaunchOptions) -> tuple[Occupancy, bool]:
    """Return the occupancy of an SM, and whether all blocks share a workspace. Raises LaunchError if the GPU does not
    take them."""
    check_dimensions(config, launch.grid, launch.block, program.name)
    shared = program.static_shared_bytes, launch.shared_bytes
    what = launch.threads_per_block, program.registers, *shared, program.max_threads, program.name
    workspace = launch_values(program.arch).environment + 4
    together = reads_launch_value(program, workspace) if options.cooperative is None else options.cooperative
    fits = occupancy(config, *what, -1 if together else options.carveout)  # a hint, unless all blocks have to fit
    if program.cluster is not None:
        check_cluster(config, program.cluster, launch.grid, fits.blocks_per_sm, program.name)
    if together and launch.blocks > fits.blocks_per_sm * config.sm.count:
        raise LaunchError(
            f"a cooperative launch of {launch.blocks:,} blocks, of which the GPU holds "
            f"{fits.blocks_per_sm * config.sm.count:,} at once",
            kernel=program.name,
        )
    return fits, together


def engine_parameters(
    config: GPUConfig,
    program: Program,
    launch: Launch,
    lowered: Lowered,
    fits: Occupancy,
    memory_base: int,
    options: LaunchOptions,
) -> np.ndarray:
    """The vector `State.par` of a launch. memory_base: where device memory begins."""
    shared = program.static_shared_bytes + launch.shared_bytes
    local = local_bytes(program, options.stack_bytes)
    memories = Memories(program.shared_base, program.shared_base + shared, local, memory_base)
    how = options.strict_barriers, program.cluster or (0, 0, 0), options.checks
    par = parameters(config, launch, lowered, fits, memories, *how)
    par[P.CARVEOUT_MOST] = fits.carveout_bytes if options.carveout >= 0 else config.sm.shared_bytes
    unit = config.sm.shared_unit_bytes  # in which %total_smem_size counts, says the PTX ISA
    par[P.SHARED_SIZE] = program.shared_base + -(-shared // unit) * unit
    return par


def local_bytes(program: Program, stack_bytes: int) -> int:
    """Local memory per thread: the compiler's stack, rounded to 16 bytes, and room for calls it could not count."""
    calls = program.once("calls", lambda: any(each.opcode in ("CALL", "BRX", "JMX") for each in program.instructions))
    if not 0 <= program.local_bytes <= _MOST_LOCAL_BYTES:
        raise LaunchError(
            f"{program.local_bytes:,} bytes of local memory per thread, allowed at most {_MOST_LOCAL_BYTES:,}",
            kernel=program.name,
        )
    return -(-program.local_bytes // VECTOR_BYTES) * VECTOR_BYTES + (stack_bytes if calls else 0)
