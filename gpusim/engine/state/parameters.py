"""`State.par`, the parameters of a launch: one row each, in which stand its key in the configuration and its meaning.

A parameter's number is its row's place. A key is that of the configuration whose value it has, and is described there
(`gpusim config`), or a function of the configuration; rows without one `engine.parameters` sets for each launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpusim.engine.state.memory import REPLACEMENTS

if TYPE_CHECKING:  # a change of the configuration leaves compiled code as it is
    from gpusim.config import GPUConfig

#: Key of each parameter, by number.
KEYS: list[str | Callable[[GPUConfig], int] | None] = []
FLIT_PARTS = 64  # of a cycle
FRACTION = 256  # of a cycle too: what the dispatcher counts in, which takes note of a block every 1.19 cycles


def row(key: str | Callable[[GPUConfig], int] | None = None, count: int = 1) -> int:
    """Number of a new parameter, or of the first of `count`."""
    KEYS.extend([key] * count)
    return len(KEYS) - count


SM_COUNT = row("sm.count")
SUB_PARTITIONS = row("sm.sub_partitions")
WARP_SLOTS = row()  # warp slots per sub-partition that this launch can use
BLOCK_SLOTS = row()  # blocks of this launch of which an SM may hold some warps
RESIDENT = row()  # blocks of this launch that fit an SM
TPC_SMS = row("crossbar.sms_per_port")  # SMs of a TPC
ROWS_PER_WARP, CONST_ROWS, UREG_BASE = row(), row(), row()
BLOCK_X, BLOCK_Y, BLOCK_Z = row(), row(), row()
GRID_X, GRID_Y, GRID_Z = row(), row(), row()
THREADS = row()  # threads per block
WARPS = row()  # warps per block
SHARED_BYTES = row()  # shared memory a block may touch, the reserved kilobyte included
SHARED_SIZE = row()  # what it is told to have: in whole allocation units
SHARED_STRIDE = row()  # bytes between two blocks' shared memories in the state array
LOCAL_BYTES = row()  # local memory per thread
MEMORY_BASE = row()  # simulated address of the first byte of the arena
LOCAL_LINE = row()  # 128-byte line number at which local memory is placed
POLICY, STRICT_BARRIER = row(), row()
MAX_OUTSTANDING = row("l1.max_outstanding_sectors")  # L1 misses an SM may have in flight, in sectors
MAX_FLITS = row("l1.max_outstanding_flits")  # flits of stores and atomics that it may have
LSU_INTERVAL = row("pipes.lsu.initiation_cycles")
QUEUE_DEPTH, STORE_QUEUE_DEPTH = row("memory_instruction.queue_depth"), row("memory_instruction.store_queue_depth")
SOURCE_RELEASE = row("memory_instruction.load_source_release_cycles")
STORE_RELEASE = row("memory_instruction.store_source_release_cycles")
SHARED_LOAD_RELEASE = row("memory_instruction.shared_load_source_release_cycles")
SHARED_STORE_RELEASE = row("memory_instruction.shared_store_source_release_cycles")
STORE_DRAIN = row("memory_instruction.store_drain_cycles")
REGISTER_RELEASE = row("memory_instruction.store_source_release_per_register_cycles")
# Lines of a module's constants that are fetched at once.
CONST_FETCH = row(lambda config: config.constant.fetch_bytes // config.constant.line_bytes)
CONST_FAR = row("constant.memory_latency_cycles")  # how long that takes
CONST_RELEASE = row("memory_instruction.constant_source_release_cycles")
SHARED_LATENCY, SHARED_WAY_LATENCY = row("shared.latency_cycles"), row("shared.wavefront_latency_cycles")
SHARED_ATOMIC_LATENCY = row("shared.atomic_latency_cycles")
SHARED_ATOMIC_INTERVAL = row("shared.atomic_wavefront_cycles")
BANKS, SHARED_WAVEFRONT = row("shared.banks"), row("shared.wavefront_cycles")
BANK_SHIFT = row(lambda config: config.shared.bank_bytes.bit_length() - 1)
L1_LATENCY, L1_TAGS_PER_CYCLE = row("l1.latency_cycles"), row("l1.tag_lookups_per_cycle")
L1_SETS, L1_WAYS = row(), row("l1.ways")
L1_REQUEST = row(lambda config: config.l1.latency_cycles // 2)  # cycles from the tag stage to the edge of the SM
# Cycles from the edge of the SM to the register.
L1_REPLY = row(
    lambda config: config.l1.latency_cycles - config.l1.latency_cycles // 2 - config.memory_instruction.entry_cycles
)
BRANCH_LATENCY, INDIRECT_LATENCY = row("issue.branch_latency_cycles"), row("issue.indirect_branch_latency_cycles")
MEET_LATENCY, MEET_AFTER = row("issue.bsync_latency_cycles"), row("issue.bsync_after_branch_cycles")
OLD_GROUP = row("issue.old_group_cycles")
BAR_BASE, BAR_DATA = row("issue.bar_base_cycles"), row("issue.bar_data_cycles")
BAR_INTERVAL, EXIT_CYCLES = row("issue.bar_per_warp_cycles"), row("issue.exit_cycles")
LAST_IN_LINE = row("issue.last_in_line_cycles")  # further cycles of a branch to the last instruction of a line
BUSY_PERCENT = row("issue.busy_unit_percent")  # of a ready warp's wait for a busy unit, what is charged to the unit
XU_AHEAD, ENTRY = row("pipes.xu_ahead_cycles"), row("memory_instruction.entry_cycles")
# Cycles of a part of an atomic on that way, in FLIT_PARTS.
FLIT = row(lambda config: round(config.crossbar.flit_cycles * FLIT_PARTS))
STORE_LINE = row("l1.store_line_cycles")
CONST_ADDRESS = row("constant.address_cycles")  # cycles for each address of an indexed constant load
L0_LINES = row(lambda config: config.icache.l0_bytes // config.icache.line_bytes)
IL1_SETS = row(lambda config: config.icache.l1_bytes // config.icache.line_bytes // config.icache.ways)
IL15_SETS = row(lambda config: config.icache.l15_bytes // config.icache.line_bytes // config.icache.ways)
ICACHE_WAYS, PREFETCH = row("icache.ways"), row("icache.prefetch_lines")
IL1_LATENCY, IL15_LATENCY = row("icache.l1_latency_cycles"), row("icache.l15_latency_cycles")
IL1_INTERVAL, IL15_INTERVAL = row("icache.l1_line_cycles"), row("icache.l15_line_cycles")
IL2_LATENCY = row("icache.l2_latency_cycles")
IL2_INTERVAL = row()  # cycles between two lines that L1.5 has lost
# Lines of code that a launch brings near.
LAUNCH_LINES = row(lambda config: config.icache.launch_bytes // config.icache.line_bytes)
CODE_FAR = row("icache.memory_latency_cycles")  # how long a line beyond those takes the first time
IL2_FAR_INTERVAL = row("icache.l2_line_cycles")  # cycles between two of them
CONST_LATENCY, CONST_MISS = row("constant.load_latency_cycles"), row("constant.l15_latency_cycles")
ADDRESS_INTERVAL = row("memory_instruction.address_interval_cycles")
SPECIAL_LATENCY = row("memory_instruction.s2r_latency_cycles")
SHUFFLE_LATENCY = row("memory_instruction.shuffle_latency_cycles")
MATCH_LATENCY = row("memory_instruction.match_latency_cycles")
MATCH_VALUE = row("memory_instruction.match_value_cycles")  # further cycles for each further value of MATCH.ANY
REDUX_LATENCY = row("memory_instruction.redux_latency_cycles")
REDUCTION_EXTRA = row()  # cycles that a reduction is under way beyond a load
MEMBAR_LATENCY = row("memory_instruction.fence_gpu_latency_cycles")
MEMBAR_AGAIN = row("memory_instruction.fence_gpu_again_cycles")  # what a fence adds if L2 was asked for something
MEMBAR_NEAR = row()  # the same if all that was of the near partition
MEMBAR_SYSTEM = row("memory_instruction.fence_system_latency_cycles")
MEMBAR_CTA_LATENCY = row("memory_instruction.fence_cta_latency_cycles")
REFILL = row("launch.refill_cycles")  # cycles from a block's end until the dispatcher can replace it, at least
REFILL_SPREAD = row("launch.refill_spread_cycles")  # 1 + how much more at most
SM_START = row("launch.sm_start_cycles")  # cycles before the first block of a launch on an SM
BLOCK_LAUNCH = row("launch.block_launch_cycles")  # cycles from the arrival of a block at an SM to its first instruction
BLOCK_SETUP = row("launch.block_setup_cycles")
BLOCK_LEAST = row("launch.sm_block_cycles")  # least cycles between two blocks on the same SM
WARP_LAUNCH = row("launch.warp_launch_cycles")  # cycles between two warps of a block
EXIT_LATENCY = row("launch.drain_cycles")
CLOCK_MHZ = row("gpu.clock_mhz")
CLUSTER_BLOCKS = row()  # blocks of a thread block cluster, 0 without clusters; then its size in x, y, z
CLUSTER_X, CLUSTER_Y, CLUSTER_Z = row(), row(), row()
CLUSTER_BARRIER = row("shared.cluster_barrier_cycles")
CLUSTER_WARP = row("shared.cluster_barrier_per_warp_cycles")  # cycles from one warp's arrival there to the next one's
REMOTE_WAY = row("remote_way_cycles")  # cycles from an SM to another
CLUSTER_GROUPS = row()  # groups of SMs that clusters lie in
CLUSTER_MOST = row()  # SMs of the largest
# What the dispatcher takes for each, in 1/FRACTION cycles.
CLUSTER_INTERVAL = row(lambda config: round(config.launch.cluster_interval_cycles * FRACTION))
CLUSTER_LISTED = row()  # whether they are listed, at most 31
CLUSTER_BEGINS = row(count=32)  # the first SM of each that is, and the one behind the last
GROUP_COLUMNS = row("pipes.group_columns_per_cycle")  # columns that a product of four warps does in a cycle
GROUP_LEAST = row("pipes.group_least_cycles")  # its least cycles
GROUP_LATENCY = row("pipes.group_latency_cycles")
MBARRIER_LATENCY = row("shared.mbarrier_latency_cycles")  # cycles from a look at an mbarrier to its result
MBARRIER_WAKE = row("shared.mbarrier_wake_cycles")
MBARRIER_WAIT = row("shared.mbarrier_wait_cycles")  # cycles that a look waits for a phase at most
COPY_LAND = row("memory_instruction.copy_land_cycles")
BULK_STORE = row("memory_instruction.bulk_store_start_cycles")  # the same of one out of shared memory
BULK_START = row("memory_instruction.bulk_start_cycles")  # cycles from the issue of a bulk copy to its first request
TMEM = row()  # 1 if the launch uses tensor memory
TMEM_COLUMN_RATE, TMEM_OPERANDS = row("tensor_memory.columns_per_cycle"), row("tensor_memory.shared_bytes_per_cycle")
TMEM_PRODUCT, TMEM_PAIR = row("tensor_memory.product_latency_cycles"), row("tensor_memory.pair_latency_cycles")
TMEM_COMMIT, TMEM_PORT = row("tensor_memory.commit_latency_cycles"), row("tensor_memory.port_bytes_per_cycle")
TMEM_LOAD, TMEM_STORE = row("tensor_memory.load_latency_cycles"), row("tensor_memory.store_latency_cycles")
TMEM_COPY = row("tensor_memory.copy_bytes_per_cycle")
SHARED_FIRST = row()  # first byte of shared memory that is not the system's
CHECKS = row()  # what is checked on request: CHECK_* of engine.sm.shadow_clocks
WIDE_INTERVAL = row("pipes.wide_initiation_cycles")  # cycles between two multiplications with a 64-bit product
WIDE_DISPATCH = row("pipes.wide_dispatch_cycles")  # for which one keeps others from issuing
SHORT_SUMS = row("pipes.tensor_short_sums_speedup")
DATA_INTERVAL = row("memory_instruction.data_interval_cycles")
ICACHE_SHIFT = row()  # instructions of a line of the instruction caches: 1 << this
CONST_SHIFT = row(lambda config: config.constant.line_bytes.bit_length() - 1)
# Lines of the first and of the second level of the constant caches.
CONST_FIRST = row(lambda config: config.constant.l0_bytes // config.constant.line_bytes)
CONST_SECOND = row(lambda config: config.constant.l15_bytes // config.constant.line_bytes)
L1_DATA = row("l1.data_bytes_per_cycle")  # bytes that L1's data stage delivers in a cycle
L1_WAITING = row("l1.waiting_loads")
L1_REPLACEMENT = row(lambda config: REPLACEMENTS[config.l1.replacement])
L1_WRITE_ALLOCATE = row("l1.write_allocate")  # 1: what is stored is in L1 afterwards
STORED_LINES = row("l1.stored_lines")  # lines of stores that wait in the SM at most
STORED_CYCLES = row("l1.stored_cycles")  # and how long behind their turns
PARITY_PAGES = row()  # as in engine.state.memory, 0 unless L2 has two partitions
STACK = row()  # 1: lanes of a warp never give way to others, see engine.sm.convergence
WATCHED = row()  # 1 while warps note that they repeat themselves, see engine.endless
MODE = row()  # FUNCTIONAL, BOOKS or KEEPS
SEAT = row()  # number of the launch among those that are on the GPU at the same time
CODE_LINE = row()  # what its lines are further along in the instruction caches, and in those of constants
CONSTANT_LINE = row()
WARP_REGISTERS = row()  # registers that a warp takes of its sub-partition's REGISTERS
REGISTERS = row()  # 0: the slots of warps and blocks say all about what fits
BLOCK_SHARED = row()  # bytes of shared memory that a block takes of its SM's
CARVEOUT = row()  # what an SM that is idle is set to for it; the least and the most that it comes to another one for
CARVEOUT_LEAST = row()
CARVEOUT_MOST = row("sm.shared_bytes")
L1_MOST_SETS = row()  # of L1 with the least shared memory
DEPENDS = row()  # 1: warps wait at ACQBULK, for the end of the grid before
STOP_PC = row()  # with the bit STOPS of SM_LOG: instruction before which a warp stops the run; its block and its number
STOP_BLOCK = row()  # in the block, -1: any
STOP_WARP = row()
UNIT_INTERVAL = row(count=16)  # by unit: cycles between two instructions of a sub-partition
UNIT_LATENCY = row(count=16)  # by unit: result latency of variable-latency instructions
