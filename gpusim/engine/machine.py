"""Sets up the compiled core's state for one launch: parameters from the configuration, rows for constants, free slots.

Local memory lies in a range of addresses of its own, so that its accesses find their way through the same caches.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.config import GPUConfig
from gpusim.config.lanes import lanes_of_row, row_cycles, rows_of_warp
from gpusim.config.sections import Pipe, Port
from gpusim.engine.sm.frontend import INSTRUCTION_BITS
from gpusim.engine.sm.group_matrix import TILE_WORDS
from gpusim.engine.sm.readiness import CONSTANT_NOWHERE
from gpusim.engine.sm.scheduler import POLICIES, ROOM
from gpusim.engine.sm.shadow import CHECK_INIT, CHECK_RACE, LANE_ROWS, RECORDS, WARP_ROWS
from gpusim.engine.sm.space import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from gpusim.engine.state import layout as L
from gpusim.engine.state.log import nothing_recorded
from gpusim.engine.state.memory import REPLACEMENTS, REQ_FIELDS
from gpusim.errors import LaunchError
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.occupancy import Occupancy
from isa import Program
from isa import microops as M
from isa.launch_values import LaunchValues, launch_values
from isa.lower import Lowered

BANKS = 5
BANK_BYTES = 1 << 16
LOCAL_ADDRESS = 0x7D20_0000_0000
#: The widest access of a thread.
VECTOR_BYTES = 16
#: Units that work for a warp and not for each of its lanes.
ONE_VALUE_UNITS = (M.UNIT_UNIFORM, M.UNIT_CBU, M.UNIT_ADU)
_SPIN_REACH = 16  # instructions before an ATOMS.CAST.SPIN in which its load is looked for


@dataclass(frozen=True)
class Capacity:
    """Room in the SM's queues per lookahead window: far more than its stages can fill."""

    requests: int = 4096
    events: int = 8192
    tokens: int = 4096
    deferred: int = 512


def constant_banks(
    program: Program, launch: Launch, parameters: bytes, local_bytes: int, sm_count: int, workspace: int = 0
) -> np.ndarray:
    """All constant banks of a launch, uint8 [BANKS, 65536]: launch values, parameters, the compiler's constants.

    workspace: device address of what blocks of a cooperative launch share, 0 for an ordinary launch.
    Raises LaunchError if parameters or constants do not fit their bank.
    """
    banks = np.zeros((BANKS, BANK_BYTES), np.uint8)
    used = {number: len(content) for number, content in program.constant_banks.items() if number < BANKS}
    used[0] = max(used.get(0, 0), program.parameter_base + len(parameters))
    for number, size in used.items():
        if size > BANK_BYTES:
            words = f"{size:,} bytes in constant bank {number}, which has {BANK_BYTES:,}"
            raise LaunchError(words, kernel=program.name)
    for number, content in program.constant_banks.items():
        if number < BANKS:
            banks[number, : len(content)] = np.frombuffer(content, np.uint8)

    def put(offset: int | None, value: int, size: int = 4) -> None:
        if offset is not None:
            banks[0, offset : offset + size] = np.frombuffer(value.to_bytes(size, "little"), np.uint8)

    where = launch_values(program.arch)
    for k in range(3):
        put(where.block + 4 * k, launch.block[k])
        put(where.grid + 4 * k, launch.grid[k])
    put(where.stack, local_bytes)
    put(where.dynamic_shared, launch.shared_bytes)
    put(where.grid_number, 1, 8)
    put(where.sm_count, sm_count)
    put(where.reserved_shared, program.shared_base)
    # Environment registers 1 and 2 hold the upper and the lower half, as cooperative_groups.h puts them together.
    put(where.environment + 4, workspace >> 32)
    put(where.environment + 8, workspace & 0xFFFFFFFF)
    put(where.shared_window, SHARED_WINDOW, 8)
    if program.cluster is not None:
        _put_cluster(put, where, program.cluster, launch.grid)
    put(where.local_window, LOCAL_WINDOW, 8)
    put(where.parameter_window, PARAMETER_WINDOW + program.parameter_base, 8)
    start = program.parameter_base
    banks[0, start : start + len(parameters)] = np.frombuffer(parameters, np.uint8)
    return banks


def _put_cluster(put: Callable[..., None], where: LaunchValues, cluster: Sequence[int], grid: Sequence[int]) -> None:
    """Writes the launch values of thread block clusters."""
    if where.cluster is None or where.clusters is None or where.cluster_reciprocals is None:
        return
    put(where.is_cluster, 1)
    put(where.cluster_blocks, cluster[0] * cluster[1] * cluster[2])
    for k in range(3):
        put(where.cluster + 4 * k, cluster[k])
        put(where.clusters + 4 * k, grid[k] // cluster[k])
    for k in (1, 2):
        # Rounded up, so that a multiple of the size times this never falls below the whole number.
        reciprocal = np.float32(1 / cluster[k])
        if float(reciprocal) * cluster[k] < 1:
            reciprocal = np.nextafter(reciprocal, np.float32(1))
        put(where.cluster_reciprocals + 4 * (k - 1), int(reciprocal.view(np.uint32)))


def constant_rows(lowered: Lowered, banks: np.ndarray) -> np.ndarray:
    """Values of the constant rows, uint32 [rows]: immediates and words of constant banks.

    Raises LaunchError for a bank that no launch fills.
    """
    rows = lowered.const_rows
    values = (rows[:, 1] & 0xFFFFFFFF).astype(np.uint32)
    words = banks.view(np.uint32)
    from_bank = rows[:, 0] == 1
    if (rows[from_bank, 1] >= BANKS).any():
        number = rows[from_bank, 1].max()
        raise LaunchError(f"the code reads constant bank {number}; banks 0 to {BANKS - 1} are modelled")
    values[from_bank] = words[rows[from_bank, 1], rows[from_bank, 2] // 4]
    return values


def unit_timing(config: GPUConfig) -> tuple[np.ndarray, np.ndarray]:
    """(cycles between two instructions, result latency) by unit number, int64 [16] each.

    The cycles are those of a row of lanes (`config.lanes`): a warp of 64 keeps a unit for each of its halves that runs.
    """
    pipes = config.pipes
    table: dict[int, Port] = {
        M.UNIT_FMA: pipes.fma,
        M.UNIT_FMAHEAVY: pipes.imad,
        M.UNIT_ALU: pipes.alu,
        M.UNIT_FP64: pipes.fp64,
        M.UNIT_HALF: pipes.half,
        M.UNIT_XU: pipes.xu,
        M.UNIT_LSU: pipes.lsu,
        M.UNIT_UNIFORM: pipes.uniform,
        M.UNIT_CBU: pipes.branch,
        M.UNIT_TENSOR: pipes.tensor,
        M.UNIT_ADU: pipes.popc,
        M.UNIT_TEX: pipes.lsu,
    }
    interval = np.ones(16, np.int64)
    latency = np.full(16, 4, np.int64)
    for unit, pipe in table.items():
        shared = unit in ONE_VALUE_UNITS
        interval[unit] = pipe.initiation_cycles if shared else row_cycles(config, pipe.initiation_cycles)
        if isinstance(pipe, Pipe):
            latency[unit] = pipe.latency_cycles
    interval[M.UNIT_LSU] = 1  # its queue takes an instruction a cycle; what follows is booked in `lsu`
    return interval, latency


def parameters(
    config: GPUConfig,
    launch: Launch,
    lowered: Lowered,
    occupancy: Occupancy,
    shared_first: int,
    shared_bytes: int,
    local_bytes: int,
    memory_base: int,
    strict_barriers: bool,
    cluster: tuple[int, int, int] = (0, 0, 0),
    checks: int = 0,
) -> np.ndarray:
    """The vector `State.par`, see the P_* of `layout`."""
    sm, issue, memory, l1 = config.sm, config.issue, config.memory_instruction, config.l1
    par = np.zeros(L.P_FIELDS, np.int64)
    parts = sm.sub_partitions
    par[L.P_SM_COUNT] = sm.count
    par[L.P_SUB_PARTITIONS] = parts
    par[L.P_BLOCK_SLOTS] = occupancy.blocks_per_sm
    par[L.P_WARP_SLOTS] = -(-occupancy.warps_per_sm // parts)
    par[L.P_ROWS_PER_WARP] = lowered.rows_per_warp
    par[L.P_CONST_ROWS] = len(lowered.const_rows)
    par[L.P_UREG_BASE] = lowered.ureg_base
    par[L.P_BLOCK_X : L.P_BLOCK_Z + 1] = launch.block
    par[L.P_GRID_X : L.P_GRID_Z + 1] = launch.grid
    par[L.P_THREADS] = launch.threads_per_block
    par[L.P_WARPS] = occupancy.warps_per_block
    par[L.P_LANES] = lanes_of_row(config)
    par[L.P_HALVES] = -(-launch.threads_per_block // lanes_of_row(config))
    par[L.P_OTHER_HALF] = (rows_of_warp(config) - 1) * sm.count * parts * par[L.P_WARP_SLOTS]
    par[L.P_SHARED_BYTES] = shared_bytes
    par[L.P_SHARED_FIRST] = shared_first
    # Room for the rest of the last vector, which loads may read, whatever units the configuration has.
    par[L.P_SHARED_STRIDE] = -(-max(occupancy.shared_bytes_per_block, shared_bytes) // VECTOR_BYTES) * VECTOR_BYTES
    par[L.P_LOCAL_BYTES] = local_bytes
    par[L.P_MEMORY_BASE] = memory_base
    par[L.P_LOCAL_LINE] = LOCAL_ADDRESS >> 7
    par[L.P_POLICY] = POLICIES[issue.policy]
    par[L.P_STRICT_BARRIER] = int(strict_barriers)
    par[L.P_MAX_OUTSTANDING] = l1.max_outstanding_sectors
    par[L.P_LSU_INTERVAL] = row_cycles(config, config.pipes.lsu.initiation_cycles)
    par[L.P_MAX_STORES] = l1.max_outstanding_stores
    par[L.P_QUEUE_DEPTH] = memory.queue_depth
    par[L.P_STORE_QUEUE_DEPTH] = memory.store_queue_depth
    par[L.P_SOURCE_RELEASE] = memory.load_source_release_cycles
    par[L.P_STORE_RELEASE] = memory.store_source_release_cycles
    par[L.P_SHARED_LOAD_RELEASE] = memory.shared_load_source_release_cycles
    par[L.P_SHARED_STORE_RELEASE] = memory.shared_store_source_release_cycles
    par[L.P_REGISTER_RELEASE] = memory.store_source_release_per_register_cycles
    par[L.P_STORE_DRAIN] = memory.store_drain_cycles
    constant = config.constant
    par[L.P_CONST_SHIFT] = constant.line_bytes.bit_length() - 1
    par[L.P_CONST_FIRST] = constant.l0_bytes // constant.line_bytes
    par[L.P_CONST_SECOND] = constant.l15_bytes // constant.line_bytes
    par[L.P_CONST_FETCH] = config.constant.fetch_bytes // config.constant.line_bytes
    par[L.P_CONST_FAR] = config.constant.memory_latency_cycles
    par[L.P_CONST_RELEASE] = memory.constant_source_release_cycles
    par[L.P_SHARED_LATENCY] = config.shared.latency_cycles
    par[L.P_SHARED_WAY_LATENCY] = config.shared.wavefront_latency_cycles
    par[L.P_SHARED_WAVEFRONT] = config.shared.wavefront_cycles
    par[L.P_SHARED_ATOMIC_LATENCY] = config.shared.atomic_latency_cycles
    par[L.P_SHARED_ATOMIC_INTERVAL] = config.shared.atomic_wavefront_cycles
    par[L.P_BANKS] = config.shared.banks
    par[L.P_BANK_SHIFT] = config.shared.bank_bytes.bit_length() - 1
    par[L.P_L1_LATENCY] = l1.latency_cycles
    par[L.P_L1_SETS] = l1.sets
    par[L.P_L1_WAYS] = l1.ways(occupancy.l1_bytes)
    par[L.P_L1_TAGS_PER_CYCLE] = l1.tag_lookups_per_cycle
    par[L.P_L1_DATA] = l1.data_bytes_per_cycle
    par[L.P_L1_REPLACEMENT] = REPLACEMENTS[l1.replacement]
    par[L.P_L1_WRITE_ALLOCATE] = int(l1.write_allocate)
    par[L.P_L1_REQUEST] = l1.latency_cycles // 2
    par[L.P_L1_REPLY] = l1.latency_cycles - l1.latency_cycles // 2 - 2
    par[L.P_BRANCH_LATENCY] = issue.branch_latency_cycles
    par[L.P_INDIRECT_LATENCY] = issue.indirect_branch_latency_cycles
    par[L.P_MEET_LATENCY] = issue.bsync_latency_cycles
    par[L.P_MEET_AFTER] = issue.bsync_after_branch_cycles
    par[L.P_OLD_GROUP] = issue.old_group_cycles
    par[L.P_BAR_BASE] = issue.bar_base_cycles
    par[L.P_BAR_INTERVAL] = issue.bar_per_warp_cycles
    icache = config.icache
    par[L.P_ICACHE_SHIFT] = (icache.line_bytes >> INSTRUCTION_BITS).bit_length() - 1
    par[L.P_L0_LINES] = icache.l0_bytes // icache.line_bytes
    par[L.P_IL1_SETS] = icache.l1_bytes // icache.line_bytes // icache.ways
    par[L.P_IL15_SETS] = icache.l15_bytes // icache.line_bytes // icache.ways
    par[L.P_ICACHE_WAYS] = icache.ways
    par[L.P_IL1_LATENCY] = icache.l1_latency_cycles
    par[L.P_IL15_LATENCY] = icache.l15_latency_cycles
    par[L.P_IL1_INTERVAL] = icache.l1_line_cycles
    par[L.P_IL15_INTERVAL] = icache.l15_line_cycles
    fits = 16 * len(lowered.code) <= icache.l15_bytes
    par[L.P_IL2_LATENCY] = icache.l2_latency_cycles
    par[L.P_IL2_INTERVAL] = icache.l15_line_cycles if fits else icache.l2_line_cycles
    par[L.P_PREFETCH] = icache.prefetch_lines
    par[L.P_CONST_LATENCY] = config.constant.load_latency_cycles
    par[L.P_CONST_MISS] = config.constant.l15_latency_cycles
    queue = round(config.constant.miss_interval_cycles * min(launch.blocks, sm.count) / sm.gpcs)
    par[L.P_CONST_MISS_INTERVAL] = queue
    par[L.P_IL2_LATENCY] += 3 * queue // 2  # the four sub-partitions' first lines wait for half of the others
    par[L.P_ADDRESS_INTERVAL] = memory.address_interval_cycles
    par[L.P_SPECIAL_LATENCY] = memory.s2r_latency_cycles
    par[L.P_SHUFFLE_LATENCY] = memory.shuffle_latency_cycles
    par[L.P_VOTE_LATENCY] = memory.vote_latency_cycles
    par[L.P_MATCH_LATENCY] = memory.match_latency_cycles
    par[L.P_REDUX_LATENCY] = memory.redux_latency_cycles
    par[L.P_MEMBAR_LATENCY] = memory.fence_gpu_latency_cycles
    par[L.P_MEMBAR_CTA_LATENCY] = memory.fence_cta_latency_cycles
    par[L.P_REFILL] = config.launch.refill_cycles
    par[L.P_BLOCK_LAUNCH] = config.launch.block_launch_cycles
    par[L.P_WARP_LAUNCH] = config.launch.warp_launch_cycles
    par[L.P_BLOCK_SETUP] = config.launch.block_setup_cycles
    par[L.P_BLOCK_LEAST] = config.launch.sm_block_cycles
    par[L.P_EXIT_LATENCY] = config.launch.drain_cycles
    par[L.P_CLOCK_MHZ] = config.gpu.clock_mhz
    par[L.P_CLUSTER_X : L.P_CLUSTER_Z + 1] = cluster
    par[L.P_CLUSTER_BLOCKS] = cluster[0] * cluster[1] * cluster[2]
    par[L.P_CLUSTER_BARRIER] = config.shared.cluster_barrier_cycles
    par[L.P_GPCS] = config.sm.gpcs
    par[L.P_GROUP_COLUMNS] = config.pipes.group_columns_per_cycle
    par[L.P_BULK_START] = memory.bulk_start_cycles
    par[L.P_GROUP_LEAST] = config.pipes.group_least_cycles
    par[L.P_CHECKS] = checks
    par[L.P_WIDE_INTERVAL] = row_cycles(config, config.pipes.wide_initiation_cycles)
    interval, latency = unit_timing(config)
    par[L.P_UNIT_INTERVAL : L.P_UNIT_INTERVAL + 16] = interval
    par[L.P_UNIT_LATENCY : L.P_UNIT_LATENCY + 16] = latency
    return par


LARGE_BYTES = 16 << 20
"""An array from here on is a mapping of its own. From 1 MiB on, small launches took 9 ms more: fresh pages."""


class Spare:
    """Arrays of the last launch, for the next one: fresh memory for every launch would cost the host more than a short
    launch itself. One launch at a time may use it."""

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any = np.int64) -> np.ndarray:
        """An array of this shape with any content, on a 64-byte boundary as the vector loads of executors need."""
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        kept = self._kept.get(name)
        if kept is None or kept.size < nbytes:
            kept = self._kept[name] = aligned_bytes(nbytes)
        return kept[:nbytes].view(dtype).reshape(shape)

    def zeros(self, name: str, shape: tuple[int, ...], rows: int, dtype: Any = np.int64) -> np.ndarray:
        """The same with zeros in its first `rows` rows."""
        array = self.take(name, shape, dtype)
        array[:rows] = 0
        return array


def build_state(
    par: np.ndarray,
    lowered: Lowered,
    banks: np.ndarray,
    memory: DeviceMemory,
    chunks: int,
    spare: Spare | None = None,
    log: dict[str, np.ndarray] | None = None,
) -> L.State:
    """All arrays of a launch, every slot free and every cache of the SMs cold.

    Blocks, but for those of clusters, go to SMs in order, so a grid smaller than the GPU leaves the last SMs without
    any: what only an SM with a block looks at is set up for the others alone. spare: memory of an earlier launch.
    log: arrays of a `tracing.recorder.Recorder`.
    """
    room, spare = Capacity(), spare or Spare()
    sms, parts, slots = int(par[L.P_SM_COUNT]), int(par[L.P_SUB_PARTITIONS]), int(par[L.P_WARP_SLOTS])
    in_order = par[L.P_CLUSTER_BLOCKS] == 0
    used = min(sms, int(np.prod(par[L.P_GRID_X : L.P_GRID_Z + 1]))) if in_order else sms
    warps = sms * parts * slots + int(par[L.P_OTHER_HALF])  # rows of lanes
    sm_warps = warps // sms
    values = constant_rows(lowered, banks)
    regs = spare.take("regs", (32 * (len(values) + warps * lowered.rows_per_warp),), np.uint32)
    regs[: 32 * len(values)] = np.repeat(values, 32)
    tables = memory.tables()
    shared = spare.zeros("shared", (sms, int(par[L.P_BLOCK_SLOTS] * par[L.P_SHARED_STRIDE])), used, np.uint8)
    local_words = sm_warps * int(par[L.P_LOCAL_BYTES] * par[L.P_LANES]) // 4
    whole = sms if par[L.P_OTHER_HALF] else used  # second halves lie behind the first ones of all SMs
    local = spare.zeros("local", (sms, max(local_words, 32)), whole, np.uint32)
    icache_lines = parts * par[L.P_L0_LINES] + (par[L.P_IL1_SETS] + par[L.P_IL15_SETS]) * par[L.P_ICACHE_WAYS]
    misses = int(par[L.P_MAX_OUTSTANDING]) + max(parts, 4) * ROOM
    constant = spare.take("constant", (sms, BANKS * BANK_BYTES >> int(par[L.P_CONST_SHIFT])))
    constant[:used] = CONSTANT_NOWHERE
    held = int(par[L.P_SUB_PARTITIONS]) * L.QUEUE_MOST
    code = checked_code(lowered, int(par[L.P_LANES]))
    checks = int(par[L.P_CHECKS])
    remembered = (sms, shared.shape[1], RECORDS) if checks & (CHECK_INIT | CHECK_RACE) else (1, 1, 1)
    races, inits = checks & CHECK_RACE, checks & CHECK_INIT
    block_slots, block_warps = int(par[L.P_BLOCK_SLOTS]), int(par[L.P_HALVES])
    clocks = (sms, block_slots, block_warps + WARP_ROWS, block_warps) if races else (1, 1, 1, 1)
    state = L.State(
        code=code,
        par=par,
        regs=regs,
        preds=spare.take("preds", (16 * warps,), np.uint32),
        warp=spare.zeros("warp", (warps, L.W_FIELDS), warps),
        split=spare.zeros("split", (warps, L.D_FIELDS), warps),
        ready=np.full((sms * parts, slots), L.NEVER, np.int64),
        turn=np.zeros((sms * parts, slots), np.int64),
        part=np.zeros((sms * parts, L.Q_FIELDS), np.int64),
        sm=np.zeros((sms, L.S_FIELDS), np.int64),
        block=spare.zeros("block", (sms, int(par[L.P_BLOCK_SLOTS]), L.B_FIELDS), sms),
        tags=spare.zeros("tags", (sms, int(par[L.P_L1_SETS] * par[L.P_L1_WAYS]), L.L_FIELDS), used),
        icache=spare.zeros("icache", (sms, int(icache_lines), 3), used),
        constant=constant,
        constant_order=spare.take("constant_order", (sms, int(par[L.P_CONST_FIRST] + par[L.P_CONST_SECOND]))),
        shared8=shared,
        shared32=shared.view(np.uint32),
        local8=local.reshape(-1).view(np.uint8),
        local32=local.reshape(-1),
        memory8=tables.arena,
        memory32=tables.arena.view(np.uint32),
        starts=tables.starts,
        ends=tables.ends,
        bank8=banks,
        bank32=banks.view(np.uint32),
        request=spare.take("request", (sms, room.requests, REQ_FIELDS)),
        requests=np.zeros(sms, np.int64),
        heap=spare.take("heap", (sms, room.events, 2)),
        token=spare.zeros("token", (sms, room.tokens, L.T_FIELDS), used),
        miss=spare.zeros("miss", (sms, misses, L.M_FIELDS), used),
        copy_targets=spare.take("copy_targets", (sms, 32 + 2 * int(par[L.P_BANKS]))),
        held=spare.take("held", (sms, held, L.H_FIELDS)),
        held_lines=spare.take("held_lines", (sms, held, L.HELD_LINES, 2)),
        held_values=spare.take("held_values", (sms, held, 8, 32), np.uint32),
        held_address=spare.take("held_address", (sms, held, 32)),
        deferred=spare.zeros("deferred", (sms, room.deferred, L.X_FIELDS), used),
        lanes=spare.take("lanes", (sms, room.deferred, 32)),
        values=spare.take("values", (sms, room.deferred, 8, 32), np.uint32),
        address=spare.take("address", (sms, 32)),
        touched=spare.take("touched", (sms, max(160, int(par[L.P_BANKS])), 2)),
        tile=spare.take("tile", (sms * TILE_WORDS,), np.uint32),
        done=spare.take("done", (sms, int(par[L.P_BLOCK_SLOTS]), 2)),
        line=np.zeros((chunks, len(code), L.N_FIELDS), np.int64),
        shadow=np.zeros(remembered, np.int64),
        lane_clock=np.zeros((warps, LANE_ROWS, 32) if races else (1, 1, 1), np.int64),
        warp_clock=np.zeros(clocks, np.int64),
        local_known=np.zeros(local.nbytes if inits else 1, np.uint8),
        unknown=tables.unknown if inits else np.zeros(1, np.uint8),
        **(log or nothing_recorded()),
    )
    state.part[:, L.Q_NEXT] = L.NEVER
    state.warp[:, L.W_BLOCK] = -1
    state.warp[:, L.W_AGE] = -1
    state.tags[:used, :, L.L_TAG] = -1
    state.icache[:used, :, 0] = -1
    state.token[:used, :, L.T_NEXT] = np.arange(1, room.tokens + 1)
    state.token[:used, -1, L.T_NEXT] = -1
    state.miss[:used, :, L.M_NEXT] = np.arange(1, misses + 1)
    return state


def checked_code(lowered: Lowered, lanes: int = 32) -> np.ndarray:
    """The program's rows, and behind them one that stops a run past the end of the code.

    Loads with which the compiler's loop for a floating-point atomic on shared memory begins (LDS, compute,
    ATOMS.CAST.SPIN with the loaded value, again if another lane was faster) are marked: they are half of an atomic, not
    a race. A shuffle is told if its warp has fewer than 32 `lanes`.
    """
    end = np.zeros((1, M.COLUMNS), np.int32)
    end[0, [M.COL_OP, M.COL_CLASS, M.COL_UNIT, M.COL_AUX0]] = M.OP_BPT, M.CLS_CONTROL, M.UNIT_CBU, M.BPT_CODE_END
    end[0, [M.COL_GUARD, M.COL_WBAR, M.COL_RBAR, M.COL_PD0, M.COL_PD1, M.COL_PS0, M.COL_PS1, M.COL_PS2]] = 7
    end[0, [M.COL_A, M.COL_B, M.COL_C, M.COL_CONST]] = -1
    code = np.concatenate([lowered.code, end])
    code[code[:, M.COL_OP] == M.OP_SHFL, M.COL_AUX1] = 32 - lanes
    spins = (code[:, M.COL_OP] == M.OP_ATOM) & (code[:, M.COL_AUX4] >> 8 == M.ATOMIC_CAST_SPIN)
    for k in np.flatnonzero(spins).tolist():
        for before in range(k - 1, max(k - _SPIN_REACH, -1), -1):
            if code[before, M.COL_OP] == M.OP_LOAD and code[before, M.COL_DST] == code[k, M.COL_B]:
                code[before, M.COL_SPIN] = 1
                break
    return code


def aligned_bytes(count: int) -> np.ndarray:
    """uint8 vector of any content that starts on a 64-byte boundary.

    A large one is a mapping of its own, whose memory the system has back when nobody uses it: the C library keeps what
    is freed in between other arrays, up to gigabytes in a process that simulates one machine after the other.
    """
    if count >= LARGE_BYTES:
        return np.frombuffer(mmap.mmap(-1, count), np.uint8)
    raw = np.empty(count + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + count]
