"""The vector `State.par`: what a launch tells the compiled core about the machine and about itself."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from gpusim.config import GPUConfig
from gpusim.config.sections import Pipe, Port
from gpusim.engine.grid import Seat
from gpusim.engine.memory.params import parity_pages
from gpusim.engine.sm.frontend import INSTRUCTION_BITS
from gpusim.engine.sm.policies import POLICIES
from gpusim.engine.state import L, P
from gpusim.errors import LaunchError
from gpusim.launch import Launch
from gpusim.launch.occupancy import Occupancy, cluster_groups
from gpusim.tensor_memory.execute import set_parameters
from isa import Program
from isa import microops as M
from isa.lower import Lowered

#: First address of local memory, as caches see it.
LOCAL_ADDRESS = 0x7D20_0000_0000
#: The widest access of a thread.
VECTOR_BYTES = 16

#: CUDA programming guide, technical specifications per compute capability: 512 KB.
_MOST_LOCAL_BYTES = 512 << 10

_KEYS = {number: key for number, key in enumerate(P.KEYS) if isinstance(key, str)}
_INDICES, _values_of_keys = np.array(list(_KEYS)), attrgetter(*_KEYS.values())
_DERIVED = {number: key for number, key in enumerate(P.KEYS) if key is not None and not isinstance(key, str)}


def unit_timing(config: GPUConfig) -> tuple[np.ndarray, np.ndarray]:
    """(cycles between two instructions, result latency) by unit number, int64 [16] each."""
    pipes = config.pipes
    table: dict[int, Port] = {
        **{M.UNIT_FMA: pipes.fma, M.UNIT_FMAHEAVY: pipes.imad, M.UNIT_ALU: pipes.alu, M.UNIT_FP64: pipes.fp64},
        **{M.UNIT_HALF: pipes.half, M.UNIT_XU: pipes.xu, M.UNIT_LSU: pipes.lsu, M.UNIT_UNIFORM: pipes.uniform},
        **{M.UNIT_CBU: pipes.branch, M.UNIT_TENSOR: pipes.tensor, M.UNIT_ADU: pipes.popc, M.UNIT_TEX: pipes.lsu},
    }
    interval = np.ones(16, np.int64)
    latency = np.full(16, 4, np.int64)
    for unit, pipe in table.items():
        interval[unit] = pipe.initiation_cycles
        if isinstance(pipe, Pipe):
            latency[unit] = pipe.latency_cycles
    interval[M.UNIT_LSU] = 1  # its queue takes an instruction a cycle; what follows is booked in `lsu`
    return interval, latency


def machine_parameters(config: GPUConfig) -> np.ndarray:
    """The part of the vector that keys of the configuration give, whatever is launched."""
    par = np.zeros(len(P.KEYS), np.int64)
    par[_INDICES] = _values_of_keys(config)
    for number, value_of in _DERIVED.items():
        par[number] = value_of(config)
    par[P.UNIT_INTERVAL : P.UNIT_LATENCY + 16] = np.concatenate(unit_timing(config))
    par[P.MODE] = L.BOOKS
    return par


def parameters(
    config: GPUConfig,
    program: Program,
    launch: Launch,
    lowered: Lowered,
    occupancy: Occupancy,
    memory_base: int,
    stack_bytes: int,
    carveout: int,
    strict_barriers: bool,
    checks: int,
) -> np.ndarray:
    """The vector, see `engine.state.parameters`. memory_base: where device memory begins. checks: CHECK_* of
    `engine.sm.shadow_clocks`; the others as of `host.options`."""
    shared, cluster = program.static_shared_bytes + launch.shared_bytes, program.cluster or (0, 0, 0)
    par = machine_parameters(config)
    # What has been asked for before comes again only if L1.5 does not hold all code.
    icache, code_bytes = config.icache, 16 * len(lowered.code)
    par[P.IL2_INTERVAL] = icache.l15_line_cycles if code_bytes <= icache.l15_bytes else icache.l2_line_cycles
    par[P.RESIDENT] = occupancy.blocks_per_sm
    clustered = min(occupancy.blocks_per_sm, config.sm.cluster_block_slots)
    par[P.BLOCK_SLOTS] = clustered if any(cluster) else occupancy.block_slots
    par[P.WARP_SLOTS] = occupancy.warp_slots
    par[P.ROWS_PER_WARP] = lowered.rows_per_warp
    par[P.CONST_ROWS] = len(lowered.const_rows)
    par[P.UREG_BASE] = lowered.ureg_base
    par[P.BLOCK_X : P.BLOCK_Z + 1] = launch.block
    par[P.GRID_X : P.GRID_Z + 1] = launch.grid
    par[P.THREADS] = launch.threads_per_block
    par[P.WARPS] = occupancy.warps_per_block
    par[P.SHARED_FIRST], par[P.SHARED_BYTES] = program.shared_base, program.shared_base + shared
    set_parameters(par, program, lowered.code)
    par[P.LOCAL_BYTES], par[P.MEMORY_BASE] = local_bytes(program, stack_bytes), memory_base
    unit = config.sm.shared_unit_bytes  # in which %total_smem_size counts, says the PTX ISA
    par[P.SHARED_SIZE] = program.shared_base + -(-shared // unit) * unit
    # Room for the rest of the last vector, which loads may read, whatever units the configuration has.
    stride = max(occupancy.shared_bytes_per_block, program.shared_base + shared)
    par[P.SHARED_STRIDE] = -(-stride // VECTOR_BYTES) * VECTOR_BYTES
    par[P.L1_SETS] = config.l1.sets(occupancy.l1_bytes)
    par[P.ICACHE_SHIFT] = (config.icache.line_bytes >> INSTRUCTION_BITS).bit_length() - 1
    par[P.LOCAL_LINE] = LOCAL_ADDRESS >> 7
    par[P.POLICY] = POLICIES[config.issue.policy]
    par[P.STACK] = int(config.issue.reconvergence == "stack")
    par[P.STRICT_BARRIER] = int(strict_barriers)
    par[P.CLUSTER_X : P.CLUSTER_Z + 1] = cluster
    par[P.CLUSTER_BLOCKS] = cluster[0] * cluster[1] * cluster[2]
    groups = cluster_groups(config)
    par[P.CLUSTER_GROUPS], par[P.CLUSTER_MOST] = len(groups), max(groups)
    par[P.CLUSTER_LISTED] = groups == config.sm.cluster_sms
    if par[P.CLUSTER_LISTED]:
        par[P.CLUSTER_BEGINS : P.CLUSTER_BEGINS + len(groups) + 1] = np.cumsum((0, *groups))
    par[P.CHECKS] = checks
    par[P.CARVEOUT] = occupancy.carveout_bytes
    par[P.CARVEOUT_MOST] = occupancy.carveout_bytes if carveout >= 0 else config.sm.shared_bytes
    par[P.CARVEOUT_LEAST] = occupancy.blocks_per_sm * occupancy.shared_bytes_per_block
    l2, again = config.l2, par[P.MEMBAR_AGAIN]
    par[P.REDUCTION_EXTRA] = l2.atomic_latency_cycles - l2.mean_latency_cycles
    par[P.MEMBAR_NEAR] = max(again - l2.fabric_latency_cycles, 0) if l2.partitions > 1 else again
    par[P.PARITY_PAGES] = parity_pages(config) if config.l2.partitions == 2 else 0
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


def put_seat(par: np.ndarray, config: GPUConfig, occupancy: Occupancy, seat: Seat, constant_lines: int) -> None:
    """Set the parameters of a launch that shares the GPU: all slots of the SMs, and what of them it takes for a block.
    constant_lines: that a launch has in the constant caches' tables."""
    sm = config.sm
    par[P.WARP_SLOTS] = sm.max_warps // sm.sub_partitions
    par[P.BLOCK_SLOTS] = sm.max_blocks
    stride = sm.shared_bytes_per_block_max + sm.shared_reserved_bytes
    par[P.SHARED_STRIDE] = -(-stride // VECTOR_BYTES) * VECTOR_BYTES
    par[P.L1_MOST_SETS] = config.l1.sets(sm.unified_l1_bytes)
    par[P.SEAT] = seat.number
    par[P.CONSTANT_LINE] = seat.number * constant_lines
    par[P.WARP_REGISTERS] = occupancy.registers_per_warp
    par[P.REGISTERS] = sm.registers_per_sub_partition
    par[P.BLOCK_SHARED] = occupancy.shared_bytes_per_block
