"""The vector `State.par`: what a launch tells the compiled core about the machine and about itself."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from gpusim.config import GPUConfig
from gpusim.config.sections import Pipe, Port
from gpusim.engine.grid import Seat
from gpusim.engine.memory.params import parity_pages
from gpusim.engine.sm.frontend import INSTRUCTION_BITS
from gpusim.engine.sm.policies import POLICIES
from gpusim.engine.state import layout as L
from gpusim.engine.state.memory import REPLACEMENTS
from gpusim.launch import Launch
from gpusim.launch.occupancy import Occupancy
from isa import microops as M
from isa.lower import Lowered

#: Where local memory seems to lie.
LOCAL_ADDRESS = 0x7D20_0000_0000
#: The widest access of a thread.
VECTOR_BYTES = 16

#: Parameters that are keys of the configuration as they are.
_KEYS = {
    L.P_SUB_PARTITIONS: "sm.sub_partitions", L.P_SM_COUNT: "sm.count",
    L.P_MAX_OUTSTANDING: "l1.max_outstanding_sectors", L.P_MAX_FLITS: "l1.max_outstanding_flits",
    L.P_LSU_INTERVAL: "pipes.lsu.initiation_cycles", L.P_QUEUE_DEPTH: "memory_instruction.queue_depth",
    L.P_STORE_QUEUE_DEPTH: "memory_instruction.store_queue_depth",
    L.P_SOURCE_RELEASE: "memory_instruction.load_source_release_cycles",
    L.P_STORE_RELEASE: "memory_instruction.store_source_release_cycles",
    L.P_SHARED_LOAD_RELEASE: "memory_instruction.shared_load_source_release_cycles",
    L.P_SHARED_STORE_RELEASE: "memory_instruction.shared_store_source_release_cycles",
    L.P_REGISTER_RELEASE: "memory_instruction.store_source_release_per_register_cycles",
    L.P_STORE_DRAIN: "memory_instruction.store_drain_cycles", L.P_CONST_FAR: "constant.memory_latency_cycles",
    L.P_CONST_RELEASE: "memory_instruction.constant_source_release_cycles", L.P_SHARED_LATENCY: "shared.latency_cycles",
    L.P_SHARED_WAY_LATENCY: "shared.wavefront_latency_cycles", L.P_SHARED_WAVEFRONT: "shared.wavefront_cycles",
    L.P_SHARED_ATOMIC_LATENCY: "shared.atomic_latency_cycles",
    L.P_SHARED_ATOMIC_INTERVAL: "shared.atomic_wavefront_cycles", L.P_BANKS: "shared.banks",
    L.P_L1_LATENCY: "l1.latency_cycles", L.P_L1_WAYS: "l1.ways",
    L.P_L1_TAGS_PER_CYCLE: "l1.tag_lookups_per_cycle", L.P_L1_DATA: "l1.data_bytes_per_cycle",
    L.P_BRANCH_LATENCY: "issue.branch_latency_cycles", L.P_INDIRECT_LATENCY: "issue.indirect_branch_latency_cycles",
    L.P_MEET_LATENCY: "issue.bsync_latency_cycles", L.P_MEET_AFTER: "issue.bsync_after_branch_cycles",
    L.P_OLD_GROUP: "issue.old_group_cycles", L.P_BAR_BASE: "issue.bar_base_cycles",
    L.P_BAR_INTERVAL: "issue.bar_per_warp_cycles", L.P_EXIT_CYCLES: "issue.exit_cycles",
    L.P_LAST_IN_LINE: "issue.last_in_line_cycles", L.P_BUSY_PERCENT: "issue.busy_unit_percent",
    L.P_XU_AHEAD: "pipes.xu_ahead_cycles", L.P_ENTRY: "memory_instruction.entry_cycles",
    L.P_STORE_LINE: "l1.store_line_cycles", L.P_CONST_ADDRESS: "constant.address_cycles",
    L.P_ICACHE_WAYS: "icache.ways", L.P_IL1_LATENCY: "icache.l1_latency_cycles",
    L.P_IL15_LATENCY: "icache.l15_latency_cycles", L.P_IL1_INTERVAL: "icache.l1_line_cycles",
    L.P_IL15_INTERVAL: "icache.l15_line_cycles", L.P_CODE_FAR: "icache.memory_latency_cycles",
    L.P_IL2_LATENCY: "icache.l2_latency_cycles", L.P_PREFETCH: "icache.prefetch_lines",
    L.P_CONST_LATENCY: "constant.load_latency_cycles", L.P_CONST_MISS: "constant.l15_latency_cycles",
    L.P_ADDRESS_INTERVAL: "memory_instruction.address_interval_cycles",
    L.P_SPECIAL_LATENCY: "memory_instruction.s2r_latency_cycles",
    L.P_SHUFFLE_LATENCY: "memory_instruction.shuffle_latency_cycles",
    L.P_VOTE_LATENCY: "memory_instruction.vote_latency_cycles",
    L.P_MATCH_LATENCY: "memory_instruction.match_latency_cycles",
    L.P_REDUX_LATENCY: "memory_instruction.redux_latency_cycles",
    L.P_MEMBAR_LATENCY: "memory_instruction.fence_gpu_latency_cycles",
    L.P_MEMBAR_AGAIN: "memory_instruction.fence_gpu_again_cycles",
    L.P_MEMBAR_SYSTEM: "memory_instruction.fence_system_latency_cycles",
    L.P_MEMBAR_CTA_LATENCY: "memory_instruction.fence_cta_latency_cycles", L.P_REFILL: "launch.refill_cycles",
    L.P_BLOCK_LAUNCH: "launch.block_launch_cycles", L.P_WARP_LAUNCH: "launch.warp_launch_cycles",
    L.P_BLOCK_SETUP: "launch.block_setup_cycles", L.P_BLOCK_LEAST: "launch.sm_block_cycles",
    L.P_EXIT_LATENCY: "launch.drain_cycles", L.P_TPC_SMS: "crossbar.sms_per_port",
    L.P_CLOCK_MHZ: "gpu.clock_mhz", L.P_CLUSTER_BARRIER: "shared.cluster_barrier_cycles",
    L.P_CLUSTER_WARP: "shared.cluster_barrier_per_warp_cycles", L.P_GPCS: "sm.gpcs",
    L.P_GROUP_COLUMNS: "pipes.group_columns_per_cycle", L.P_COPY_LAND: "memory_instruction.copy_land_cycles",
    L.P_BULK_STORE: "memory_instruction.bulk_store_start_cycles",
    L.P_BULK_START: "memory_instruction.bulk_start_cycles", L.P_GROUP_LEAST: "pipes.group_least_cycles",
    L.P_GROUP_LATENCY: "pipes.group_latency_cycles", L.P_MBARRIER_LATENCY: "shared.mbarrier_latency_cycles",
    L.P_MBARRIER_WAKE: "shared.mbarrier_wake_cycles", L.P_MBARRIER_WAIT: "shared.mbarrier_wait_cycles",
    L.P_WIDE_INTERVAL: "pipes.wide_initiation_cycles", L.P_WIDE_DISPATCH: "pipes.wide_dispatch_cycles",
    L.P_SHORT_SUMS: "pipes.tensor_short_sums_speedup", L.P_DATA_INTERVAL: "memory_instruction.data_interval_cycles",
}
_INDICES, _values_of_keys = np.array(list(_KEYS)), attrgetter(*_KEYS.values())


class Memories(NamedTuple):
    """Where a launch's memories begin and how many bytes they have: a block's shared memory from the system's part on,
    a thread's local memory, the arena of global memory."""

    shared_first: int
    shared_bytes: int
    local_bytes: int
    arena: int


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
    par = np.zeros(L.P_FIELDS, np.int64)
    par[_INDICES] = _values_of_keys(config)
    interval, latency = unit_timing(config)
    par[L.P_UNIT_INTERVAL : L.P_UNIT_INTERVAL + 16] = interval
    par[L.P_UNIT_LATENCY : L.P_UNIT_LATENCY + 16] = latency
    return par


def parameters(
    config: GPUConfig, launch: Launch,
    lowered: Lowered, occupancy: Occupancy,
    memories: Memories, strict_barriers: bool,
    cluster: tuple[int, int, int] = (0, 0, 0), checks: int = 0,
) -> np.ndarray:
    """The vector, see the P_* of `layout`. checks: CHECK_* of `engine.sm.shadow_clocks`."""
    par = machine_parameters(config)
    _put_caches(par, config, occupancy)
    _put_fetches(par, config, launch, lowered)
    par[L.P_RESIDENT] = occupancy.blocks_per_sm
    par[L.P_BLOCK_SLOTS] = occupancy.blocks_per_sm if any(cluster) else occupancy.block_slots
    par[L.P_WARP_SLOTS] = occupancy.warp_slots
    par[L.P_ROWS_PER_WARP] = lowered.rows_per_warp
    par[L.P_CONST_ROWS] = len(lowered.const_rows)
    par[L.P_UREG_BASE] = lowered.ureg_base
    par[L.P_BLOCK_X : L.P_BLOCK_Z + 1] = launch.block
    par[L.P_GRID_X : L.P_GRID_Z + 1] = launch.grid
    par[L.P_THREADS] = launch.threads_per_block
    par[L.P_WARPS] = occupancy.warps_per_block
    par[L.P_SHARED_FIRST], par[L.P_SHARED_BYTES], par[L.P_LOCAL_BYTES], par[L.P_MEMORY_BASE] = memories
    # Room for the rest of the last vector, which loads may read, whatever units the configuration has.
    stride = max(occupancy.shared_bytes_per_block, memories.shared_bytes)
    par[L.P_SHARED_STRIDE] = -(-stride // VECTOR_BYTES) * VECTOR_BYTES
    par[L.P_LOCAL_LINE] = LOCAL_ADDRESS >> 7
    par[L.P_POLICY] = POLICIES[config.issue.policy]
    par[L.P_STACK] = int(config.issue.reconvergence == "stack")
    par[L.P_STRICT_BARRIER] = int(strict_barriers)
    par[L.P_REMOTE_WAY] = config.remote_way_cycles
    par[L.P_CLUSTER_X : L.P_CLUSTER_Z + 1] = cluster
    par[L.P_CLUSTER_BLOCKS] = cluster[0] * cluster[1] * cluster[2]
    par[L.P_CHECKS] = checks
    par[L.P_CARVEOUT] = occupancy.carveout_bytes
    needed = occupancy.blocks_per_sm * occupancy.shared_bytes_per_block
    par[L.P_CARVEOUT_LEAST] = next((size for size in config.sm.shared_capacities_bytes if size >= needed), 0)
    again = par[L.P_MEMBAR_AGAIN]
    par[L.P_MEMBAR_NEAR] = max(again - config.l2.fabric_latency_cycles, 0) if config.l2.partitions > 1 else again
    par[L.P_PARITY_PAGES] = parity_pages(config) if config.l2.partitions == 2 else 0
    return par


def put_seat(par: np.ndarray, config: GPUConfig, occupancy: Occupancy, seat: Seat, constant_lines: int) -> None:
    """What a launch that shares the GPU sees of it: all slots of the SMs, and what of them it takes for a block.
    constant_lines: that a launch has in the constant caches' tables."""
    sm = config.sm
    par[L.P_WARP_SLOTS] = sm.max_warps // sm.sub_partitions
    par[L.P_BLOCK_SLOTS] = sm.max_blocks
    stride = sm.shared_bytes_per_block_max + sm.shared_reserved_bytes
    par[L.P_SHARED_STRIDE] = -(-stride // VECTOR_BYTES) * VECTOR_BYTES
    par[L.P_L1_MOST_SETS] = config.l1.sets(sm.unified_l1_bytes)
    par[L.P_SEAT] = seat.number
    par[L.P_CODE_LINE] = seat.code_line
    par[L.P_CONSTANT_LINE] = seat.number * constant_lines
    par[L.P_WARP_REGISTERS] = occupancy.registers_per_warp
    par[L.P_REGISTERS] = sm.registers_per_sub_partition
    par[L.P_BLOCK_SHARED] = occupancy.shared_bytes_per_block


def _put_caches(par: np.ndarray, config: GPUConfig, occupancy: Occupancy) -> None:
    """Sizes of caches and banks, in the units in which the core counts them."""
    constant, l1, icache = config.constant, config.l1, config.icache
    par[L.P_CONST_SHIFT] = constant.line_bytes.bit_length() - 1
    par[L.P_CONST_FIRST] = constant.l0_bytes // constant.line_bytes
    par[L.P_CONST_SECOND] = constant.l15_bytes // constant.line_bytes
    par[L.P_CONST_FETCH] = constant.fetch_bytes // constant.line_bytes
    par[L.P_BANK_SHIFT] = config.shared.bank_bytes.bit_length() - 1
    par[L.P_L1_SETS] = l1.sets(occupancy.l1_bytes)
    par[L.P_L1_REPLACEMENT] = REPLACEMENTS[l1.replacement]
    par[L.P_L1_WRITE_ALLOCATE] = int(l1.write_allocate)
    par[L.P_FLIT] = round(config.crossbar.flit_cycles * L.FLIT_PARTS)
    par[L.P_STORED_LINES] = l1.stored_lines
    par[L.P_STORED_CYCLES] = l1.stored_cycles
    par[L.P_L1_REQUEST] = l1.latency_cycles // 2
    par[L.P_L1_REPLY] = l1.latency_cycles - l1.latency_cycles // 2 - config.memory_instruction.entry_cycles
    par[L.P_ICACHE_SHIFT] = (icache.line_bytes >> INSTRUCTION_BITS).bit_length() - 1
    par[L.P_L0_LINES] = icache.l0_bytes // icache.line_bytes
    par[L.P_IL1_SETS] = icache.l1_bytes // icache.line_bytes // icache.ways
    par[L.P_LAUNCH_LINES] = icache.launch_bytes // icache.line_bytes
    par[L.P_IL15_SETS] = icache.l15_bytes // icache.line_bytes // icache.ways


def _put_fetches(par: np.ndarray, config: GPUConfig, launch: Launch, lowered: Lowered) -> None:
    """How long first lines of code and constants take, which the SMs of a GPC ask for at the same time."""
    icache = config.icache
    # What has been asked for before comes again only if L1.5 does not hold all code.
    fits = 16 * len(lowered.code) <= icache.l15_bytes
    par[L.P_IL2_INTERVAL] = icache.l15_line_cycles if fits else icache.l2_line_cycles
    queue = round(config.constant.miss_interval_cycles * min(launch.blocks, config.sm.count) / config.sm.gpcs)
    par[L.P_CONST_MISS_INTERVAL] = queue
    # The four sub-partitions' first lines wait for half of the others.
    par[L.P_IL2_QUEUE] = 3 * queue // 2
