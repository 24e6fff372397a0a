"""The table of metrics: Nsight Compute's name, its unit, what it means, and how it follows from the counts.

Units are ncu's base units (`--print-units base`): ns, byte, cycle, %. Meanings follow the metrics reference and the
section files of Nsight Compute ("Nsight Compute, Profiling Guide: Metrics Reference"). Metrics that count what
instructions do (instructions, threads, divergence, sectors, wavefronts) are exact; those that contain cycles, cache
contents or memory traffic are the model's. A quotient without a denominator, such as sectors per request without
requests, is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from gpusim.engine.state import L, ms
from gpusim.errors import did_you_mean
from gpusim.launch.occupancy import LEAST_REGISTERS
from gpusim.results.counts import GLOBAL, LOCAL, SHARED, Counts, ratio
from gpusim.results.record import LaunchRecord
from gpusim.results.stalls import STALL_MEANINGS
from gpusim.results.table import LESS, MORE, Quantity, metric_rows
from isa import microops as M
from isa.opcodes import PIPES

Compute = Callable[[Counts], float]


TEX_SECTORS = (
    ms.CNT_TEX_READ_SECTORS,
    ms.CNT_TEX_WRITE_SECTORS,
    ms.CNT_TEX_ATOMIC_SECTORS,
    ms.CNT_TEX_REDUCTION_SECTORS,
)
"""Counters of the sectors that L1 asks of L2."""
DRAM_READ_SECTORS = (ms.CNT_FILL_SECTORS, ms.CNT_MERGE_SECTORS, ms.CNT_LAUNCH_SECTORS)
FABRIC_SECTORS = (
    ms.CNT_FABRIC_READ_SECTORS,
    ms.CNT_FABRIC_WRITE_SECTORS,
    ms.CNT_FABRIC_BARRIERS,
    ms.CNT_FABRIC_PROBES,
    ms.CNT_FABRIC_LAUNCH_SECTORS,
)
DRAM_WRITE_SECTORS = (ms.CNT_WRITEBACK_SECTORS,)

# --- computations that several rows share --------------------------------------------------------------------------


def _total(field: int) -> Compute:
    return lambda c: c.total(field)


def _on(spaces: tuple[int, ...], field: int, *operations: int) -> Compute:
    return lambda c: c.total(field, c.accesses(spaces, *operations))


def _theoretical(field: int) -> Compute:
    """Over accesses to global memory. Of asynchronous copies past L1, Nsight Compute leaves out those that are guarded
    and takes for sectors what `engine.sm.copy_cost` says."""

    def compute(c: Counts) -> int:
        code = c.code
        past = c.past_l1
        free = past & (code[:, M.COL_GUARD] == 7)
        of_copies = L.COUNT_PAST_L1 if field == L.COUNT_SECTORS else field
        return c.total(field, c.accesses(GLOBAL) & ~past) + c.total(of_copies, free)

    return compute


def _pred_on(opcode: str) -> Compute:
    return lambda c: c.opcode_total(L.COUNT_PRED_ON, opcode)


def _quotient(numerator: Compute, denominator: Compute) -> Compute:
    return lambda c: ratio(numerator(c), denominator(c))


def _stalled(reason: str) -> Compute:
    return lambda c: ratio(c.stalls[reason], c.issued)


def _memory(*counters: int) -> Compute:
    return lambda c: c.memory(*counters)


def _memory_bytes(*counters: int) -> Compute:
    return lambda c: c.memory_bytes(*counters)


def _conflicts(*operations: int) -> Compute:
    """Asynchronous copies through L1 count with all instructions, those past it do not, as on an H100."""

    def compute(c: Counts) -> int:
        rows = c.accesses(SHARED, *operations)
        if not operations:
            rows |= c.copies & ~c.past_l1
        return c.total(L.COUNT_SHARED_WAVEFRONTS, rows) - c.total(L.COUNT_SHARED_IDEAL, rows)

    return compute


def _shared_wavefronts(*operations: int) -> Compute:
    return lambda c: c.shared_total(L.COUNT_SHARED_WAVEFRONTS, *operations)


def _data_pipe_wavefronts(c: Counts) -> int:
    """Return the data pipe's wavefronts of shared memory, as recorded on an H200: besides those of loads, stores and
    atomics one each for reading a thread's index or lane, for a shuffle, for a load, store or atomic without any active
    lane, and for a barrier that completes. Bulk copies have none, copies past L1 only those that write zeros."""
    executed, code = L.COUNT_EXECUTED, c.code
    lane_registers = (M.SR_TID_X, M.SR_TID_Y, M.SR_TID_Z, M.SR_TID, M.SR_LANEID)
    special = (code[:, M.COL_OP] == M.OP_S2R) & np.isin(code[:, M.COL_AUX0], lane_registers)
    accesses = c.accesses((M.SPACE_GLOBAL, M.SPACE_SHARED, M.SPACE_GENERIC))
    accesses &= (code[:, M.COL_OP] != M.OP_BULK_COPY) | (code[:, M.COL_CLASS] != M.CLS_MEMORY)
    idle = sum(
        sign * c.total(field, accesses)
        for sign, field in ((1, executed), (-1, L.COUNT_REQUESTS), (-1, L.COUNT_SHARED_REQUESTS))
    )
    return (
        c.total(L.COUNT_SHARED_WAVEFRONTS, ~c.past_l1)
        + c.total(L.COUNT_ZEROS)
        + int(c.counters[:, L.COUNT_EXECUTED][special & (code[:, M.COL_UNIFORM] == 0)].sum())
        + int(c.counters[:, L.COUNT_EXECUTED][code[:, M.COL_OP] == M.OP_SHFL].sum())
        + max(idle, 0)
        + _barriers(c)
    )


def _barriers(c: Counts) -> int:
    """Return how many barriers of a block have completed; an H100 counts several without an access between as one."""
    waits = (c.code[:, M.COL_OP] == M.OP_BAR) & (c.code[:, M.COL_AUX0] != M.BAR_ARRIVE)
    return c.total(L.COUNT_EXECUTED, waits) // c.record.occupancy.warps_per_block


def _all_data_pipe_wavefronts(c: Counts) -> int:
    """Return the data pipe's wavefronts, as recorded on an H100: besides those of shared memory the turns of loads and
    stores, and one more for each barrier and each group of asynchronous copies that a warp closes; none for copies."""
    turns = c.total(L.COUNT_L1_DATA, ~c.copies) + c.total(L.COUNT_EXECUTED, c.code[:, M.COL_OP] == M.OP_LDGDEPBAR)
    return _data_pipe_wavefronts(c) + turns + _barriers(c)


def _seconds(c: Counts) -> float:
    return c.record.cycles / (c.record.config.gpu.clock_mhz * 1e6)


def _dram_bytes(c: Counts) -> int:
    return c.memory_bytes(*DRAM_READ_SECTORS, *DRAM_WRITE_SECTORS)


def _limit(*resources: str) -> Compute:
    return lambda c: min(c.record.occupancy.limits[resource] for resource in resources)


def _shared_rows() -> Iterator[Quantity]:
    for suffix, what, operations in (
        ("", "shared-memory instructions", ()),
        ("_op_ld", "shared loads", (M.OP_LOAD, M.OP_LDSM)),
        ("_op_st", "shared stores", (M.OP_STORE, M.OP_STSM)),
    ):
        also = "" if suffix else ", thread indices, shuffles, barriers and idle accesses, which share the pipe"
        collisions = "the hardware's counter also holds collisions in time"
        yield Quantity(
            f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared{suffix}.sum", "", _conflicts(*operations),
            f"wavefronts of {what} beyond the ideal; {collisions}", better=LESS,
        )  # fmt: skip
        yield Quantity(
            f"l1tex__data_pipe_lsu_wavefronts_mem_shared{suffix}.sum", "",
            _shared_wavefronts(*operations) if suffix else _data_pipe_wavefronts,
            f"wavefronts of {what}{also}; {collisions}", better=LESS,
            short="wavefronts of loads from shared memory" if suffix == "_op_ld" else "",
        )  # fmt: skip


_COUNTED = {
    "global": ((GLOBAL, L.COUNT_REQUESTS), (GLOBAL, L.COUNT_SECTORS)),
    # What generic addresses lead there has no instructions of its own.
    "local": (((*LOCAL, M.SPACE_GENERIC), L.COUNT_LOCAL_REQUESTS), ((*LOCAL, M.SPACE_GENERIC), L.COUNT_LOCAL_SECTORS)),
}
"""Spaces and counters of requests and of sectors."""


def _access_rows() -> Iterator[Quantity]:
    yield Quantity(
        "l1tex__data_pipe_lsu_wavefronts.sum", "",
        _all_data_pipe_wavefronts,
        "wavefronts of shared memory, thread indices, shuffles and barriers, and of loads and stores through L1",
    )  # fmt: skip
    for space, suffix, what, operation in (
        ("global", "ld", "global loads", M.OP_LOAD),
        ("global", "st", "global stores", M.OP_STORE),
        ("global", "atom", "global atomics that return a value", M.OP_ATOM),
        ("global", "red", "global reductions", M.OP_RED),
        ("local", "ld", "loads of local memory", M.OP_LOAD),
        ("local", "st", "stores to local memory", M.OP_STORE),
    ):
        tail = f"pipe_lsu_mem_{space}_op_{suffix}"
        requests, sectors = (_on(*each, operation) for each in _COUNTED[space])
        each = "instruction" if space == "global" else "word of a thread"
        yield Quantity(f"l1tex__t_requests_{tail}.sum", "request", requests, f"requests of {what}, one per {each}")
        short = "sectors of loads from global memory" if (space, suffix) == ("global", "ld") else ""
        yield Quantity(
            f"l1tex__t_sectors_{tail}.sum", "sector", sectors, f"sectors that {what} touch", better=LESS, short=short
        )
        yield Quantity(
            f"l1tex__average_t_sectors_per_request_{tail}.ratio", "sector/request", _quotient(sectors, requests),
            f"sectors per request of {what}; 4 is ideal for 32 threads of 4 bytes", better=LESS,
        )  # fmt: skip
        if space == "local":
            yield Quantity(
                f"smsp__inst_executed_op_local_{suffix}.sum", "inst",
                _on(LOCAL, L.COUNT_EXECUTED, operation), f"warp instructions that are {what}", better=LESS,
            )  # fmt: skip


def _stall_rows() -> Iterator[Quantity]:
    for reason in L.STALLS:
        name = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        yield Quantity(
            name, "warp", _stalled(reason), f"warps per issue that wait for {STALL_MEANINGS[reason]}",
            better="" if reason == "selected" else LESS,
        )  # fmt: skip


def _flop_rows() -> Iterator[Quantity]:
    for opcode in ("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA"):
        name = f"smsp__sass_thread_inst_executed_op_{opcode.lower()}_pred_on.sum"
        yield Quantity(name, "inst", _pred_on(opcode), f"{opcode} thread instructions whose guard predicate holds")


_PIPES = {
    "adu": "address divergence: constant loads, barriers, matches, registers that are the same for all threads",
    "alu": "integer, logic, comparison",
    "cbu": "convergence and branches that are not plain ones",
    "fma": "single precision, integer multiplication, half precision",
    "fma_type_fp16": "of those, half precision",
    "fmaheavy": "the heavy half of fma: all but single precision, and that while the light half is busy",
    "fp64": "double precision",
    "lsu": "memory, shuffles, registers that differ from thread to thread",
    "tensor": "matrix products",
    "tensor_op_dmma": "of those, of doubles",
    "tensor_op_gmma": "of those, of four warps",
    "tensor_op_hmma": "of those, of floating-point numbers up to 32 bits",
    "tensor_op_imma": "of those, of integers",
    "tex": "textures, and fences beyond the block",
    "tma": "bulk and tensor copies",
    "uniform": "uniform datapath",
    "xu": "special functions and conversions",
}


def _pipe(pipe: str, more: int = -1) -> Compute:
    return lambda c: c.pipe_total(pipe) + (c.total(more) if more >= 0 else 0)


def _pipe_rows() -> Iterator[Quantity]:
    for pipe in PIPES:
        for unit in ("sm", "smsp"):
            # Seen on an H200: the SM's name counts the turns of an instruction, the sub-partition's the instruction.
            turns = (unit, pipe) == ("sm", "adu")
            more = L.COUNT_HEAVY if pipe == "fmaheavy" else L.COUNT_TURNS if turns else -1
            meaning = f"warp instructions of {_PIPES[pipe]}"
            if turns:
                meaning += ", one turn for each value or address, and one more for constants that are not there"
            yield Quantity(f"{unit}__inst_executed_pipe_{pipe}.sum", "inst", _pipe(pipe, more), meaning)


# fmt: off
_ROWS = (
    *metric_rows("speed-of-light",
        Quantity("gpc__cycles_elapsed.max", "cycle", lambda c: int(c.record.cycles),
         "cycles from the start of the launch to its end, launch overhead included", "Elapsed Cycles", better=LESS),
        Quantity("gpu__time_duration.sum", "ns", lambda c: 1e9 * _seconds(c),
         "the same as time, at the configuration's SM clock", "Duration", better=LESS),
        Quantity("sm__cycles_active.avg", "cycle", lambda c: ratio(c.active_cycles, c.record.config.sm.count),
         "cycles in which an SM holds a warp, average over all SMs", "SM Active Cycles"),
        Quantity("sm__cycles_active.max", "cycle", lambda c: int(c.record.sm_active_cycles.max()),
         "the same, longest of the SMs"),
        Quantity("sm__cycles_active.min", "cycle", lambda c: int(c.record.sm_active_cycles.min()),
         "the same, shortest of the SMs"),
        Quantity("sm__cycles_active.sum", "cycle", lambda c: c.active_cycles, "the same, summed over all SMs")),
    *metric_rows("compute",
        Quantity("smsp__inst_executed.sum", "inst", lambda c: c.instructions, "warp instructions executed",
         "Executed Instructions", better=LESS, short="warp instructions", column="warp_instructions"),
        Quantity("sm__inst_executed.avg.per_cycle_active", "inst/cycle",
         lambda c: ratio(c.instructions, c.active_cycles),
         "warp instructions executed per active cycle of an SM", "Executed Ipc Active", better=MORE)),
    *metric_rows("warp-state",
        Quantity("smsp__thread_inst_executed.sum", "inst", _total(L.COUNT_THREADS),
         "thread instructions: active threads, summed over warp instructions"),
        Quantity("smsp__thread_inst_executed_pred_on.sum", "inst", _total(L.COUNT_PRED_ON),
         "the same, only threads whose guard predicate holds"),
        Quantity("smsp__thread_inst_executed_per_inst_executed.ratio", "thread/inst",
         lambda c: ratio(c.total(L.COUNT_THREADS), c.instructions), "active threads per warp instruction",
         "Avg. Active Threads Per Warp", better=MORE, short="lanes at work, of 32"),
        Quantity("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", "thread/inst",
         lambda c: ratio(c.total(L.COUNT_PRED_ON), c.instructions),
         "the same, only threads whose guard predicate holds",
         "Avg. Not Predicated Off Threads Per Warp", better=MORE)),
    *metric_rows("source",
        Quantity("smsp__sass_branch_targets_threads_divergent.sum", "branch", _total(L.COUNT_DIVERGENT),
         "executed branches whose active threads go to more than one target",
         "Divergent Branches", better=LESS, short="divergent branches")),
    *metric_rows("compute", *_flop_rows(), *_pipe_rows()),
    *metric_rows("source",
        Quantity("memory_l1_wavefronts_shared", "", _total(L.COUNT_SHARED_WAVEFRONTS),
         "wavefronts that the addresses of shared-memory instructions need", better=LESS),
        Quantity("memory_l1_wavefronts_shared_ideal", "", _total(L.COUNT_SHARED_IDEAL),
         "the same if no two threads met in a bank"),
        Quantity("derived__memory_l1_wavefronts_shared_excessive", "",
         lambda c: c.total(L.COUNT_SHARED_WAVEFRONTS) - c.total(L.COUNT_SHARED_IDEAL),
         "wavefronts beyond the ideal: bank conflicts", "Excessive Shared Wavefronts", better=LESS)),
    *metric_rows("memory", *_shared_rows()),
    *metric_rows("source",
        Quantity("memory_l1_tag_requests_global", "", _on(GLOBAL, L.COUNT_TAGS),
         "128-byte lines that global instructions look up, one L1 tag each"),
        Quantity("memory_l2_theoretical_sectors_global", "", _theoretical(L.COUNT_SECTORS),
         "32-byte sectors that global instructions touch: what they would ask of L2 if nothing hit L1", better=LESS),
        Quantity("memory_l2_theoretical_sectors_global_ideal", "", _theoretical(L.COUNT_SECTORS_IDEAL),
         "sectors that the same threads would touch at contiguous addresses")),
    *metric_rows("memory",
        *_access_rows(),
        Quantity("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", "sector",
         _on(GLOBAL, L.COUNT_HITS, M.OP_LOAD),
         "sectors of global loads found in L1, or already on their way to it", better=MORE),
        Quantity("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum", "sector",
         lambda c: c.global_total(L.COUNT_SECTORS, M.OP_LOAD) - c.global_total(L.COUNT_HITS, M.OP_LOAD),
         "the other sectors of global loads", better=LESS),
        Quantity("l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum", "sector",
         _on(LOCAL, L.COUNT_HITS, M.OP_LOAD), "sectors of loads of local memory found in L1, or on their way to it",
         better=MORE),
        Quantity("l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum", "sector",
         lambda c: c.total(L.COUNT_LOCAL_SECTORS, c.accesses(LOCAL, M.OP_LOAD))
         - _on(LOCAL, L.COUNT_HITS, M.OP_LOAD)(c), "the other sectors of loads of local memory", better=LESS),
        Quantity("lts__t_sectors_srcunit_tex.sum", "sector", _memory(*TEX_SECTORS),
         "sectors that L1 asks of L2: reads, writes, atomics and reductions", better=LESS),
        Quantity("lts__t_sectors_srcunit_tex_op_read.sum", "sector", _memory(ms.CNT_TEX_READ_SECTORS),
         "of these, reads"),
        Quantity("lts__t_sectors_srcunit_tex_op_write.sum", "sector", _memory(ms.CNT_TEX_WRITE_SECTORS),
         "of these, writes"),
        Quantity("lts__t_sectors_srcunit_tex_op_atom.sum", "sector", _memory(ms.CNT_TEX_ATOMIC_SECTORS),
         "of these, atomics that return a value"),
        Quantity("lts__t_sectors_srcunit_tex_op_red.sum", "sector", _memory(ms.CNT_TEX_REDUCTION_SECTORS),
         "of these, reductions"),
        Quantity("lts__t_sectors_srcunit_tex_lookup_hit.sum", "sector", _memory(ms.CNT_TEX_HIT_SECTORS),
         "sectors that the slice in the SM's own partition holds or awaits; writes always hit"),
        Quantity("lts__t_sectors_srcunit_tex_lookup_miss.sum", "sector", _memory(ms.CNT_TEX_MISS_SECTORS),
         "the others; a sector of the far partition without a near copy misses, whatever its home holds", better=LESS),
        Quantity("lts__t_sectors_srcunit_ltcfabric.sum", "sector", _memory(*FABRIC_SECTORS),
         "sectors that one partition asks of the other: reads, writes, atomics, what a launch reads, "
         "barriers at its end"),
        Quantity("lts__t_sectors_srcunit_ltcfabric_lookup_hit.sum", "sector",
         lambda c: c.memory(*FABRIC_SECTORS) - c.memory(ms.CNT_FABRIC_MISS_SECTORS), "of these, all but the misses"),
        Quantity("lts__t_sectors_srcunit_ltcfabric_lookup_miss.sum", "sector", _memory(ms.CNT_FABRIC_MISS_SECTORS),
         "of these, sectors that had to come from memory"),
        Quantity("lts__d_sectors_fill_device.sum", "sector", _memory(*DRAM_READ_SECTORS),
         "sectors that L2 gets from memory")),
    *metric_rows("nvlink",
        Quantity("nvlrx__bytes_data_user.sum", "byte", _memory(ms.CNT_PEER_RECEIVED_BYTES),
         "bytes that kernels read of other GPUs' memory"),
        Quantity("nvltx__bytes_data_user.sum", "byte", _memory(ms.CNT_PEER_SENT_BYTES),
         "bytes that kernels wrote to other GPUs' memory")),
    *metric_rows("memory",
        Quantity("dram__bytes_read.sum", "byte", _memory_bytes(*DRAM_READ_SECTORS), "bytes read from device memory"),
        Quantity("dram__bytes_write.sum", "byte", _memory_bytes(*DRAM_WRITE_SECTORS), "bytes written to device memory"),
        Quantity("dram__bytes.sum", "byte", _dram_bytes, "bytes read from and written to device memory",
         better=LESS, short="DRAM bytes"),
        Quantity("dram__bytes.sum.per_second", "byte/s", lambda c: ratio(_dram_bytes(c), _seconds(c)),
         "the same per second of the whole launch", "Memory Throughput", better=MORE),
        Quantity("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%",
         lambda c: 100 * ratio(_dram_bytes(c), c.record.cycles * c.record.config.dram_bytes_per_cycle),
         "the same as a share of the peak bandwidth", "Max Bandwidth", better=MORE)),
    *metric_rows("occupancy",
        Quantity("sm__maximum_warps_per_active_cycle_pct", "%", lambda c: 100 * c.record.occupancy.theoretical,
         "theoretical occupancy: what registers, shared memory and block size allow",
         "Theoretical Occupancy", better=MORE, bar=True),
        Quantity("sm__warps_active.avg.per_cycle_active", "warp/cycle", lambda c: ratio(c.warp_cycles, c.active_cycles),
         "resident warps per active cycle of an SM", "Achieved Active Warps Per SM", better=MORE),
        Quantity("sm__warps_active.avg.pct_of_peak_sustained_active", "%",
         lambda c: 100 * ratio(c.warp_cycles, c.active_cycles * c.record.config.sm.max_warps),
         "achieved occupancy: resident warps per active cycle, of the most that an SM holds",
         "Achieved Occupancy", better=MORE, bar=True, short="occupancy, %")),
    *metric_rows("compute",
        Quantity("smsp__issue_active.avg.pct_of_peak_sustained_active", "%",
         lambda c: 100 * ratio(c.issued, c.scheduler_cycles),
         "scheduler cycles that issue an instruction, of the cycles in which the scheduler holds a warp",
         "Issue Slots Busy", better=MORE)),
    *metric_rows("warp-state",
        Quantity("smsp__average_warp_latency_per_inst_issued.ratio", "cycle",
         lambda c: ratio(sum(c.stalls.values()), c.issued), "warp cycles per issued instruction, stalls included",
         "Warp Cycles Per Issued Instruction", better=LESS),
        *_stall_rows()),
    *metric_rows("launch",
        Quantity("launch__grid_size", "block", lambda c: c.record.launch.blocks, "blocks of the grid", "Grid Size"),
        Quantity("launch__block_size", "thread", lambda c: c.record.launch.threads_per_block, "threads per block",
         "Block Size"),
        Quantity("launch__thread_count", "thread", lambda c: c.record.launch.blocks * c.record.launch.threads_per_block,
         "threads of the grid", "Threads"),
        Quantity("launch__registers_per_thread", "register/thread",
         lambda c: max(c.record.program.registers, LEAST_REGISTERS),
         "registers per thread, 16 at least", "Registers Per Thread"),
        Quantity("launch__shared_mem_per_block_static", "byte/block", lambda c: c.record.program.static_shared_bytes,
         "shared memory that the kernel declares", "Static Shared Memory Per Block"),
        Quantity("launch__shared_mem_per_block_dynamic", "byte/block", lambda c: c.record.launch.shared_bytes,
         "shared memory that the launch adds", "Dynamic Shared Memory Per Block"),
        Quantity("launch__shared_mem_per_block_driver", "byte/block",
         lambda c: c.record.config.sm.shared_reserved_bytes,
         "shared memory that the system takes from each block", "Driver Shared Memory Per Block")),
    *metric_rows("occupancy",
        Quantity("launch__occupancy_limit_blocks", "block", _limit("blocks"),
         "blocks per SM at most, by the hardware's maximum", "Block Limit SM"),
        Quantity("launch__occupancy_limit_registers", "block", _limit("registers"),
         "blocks per SM at most, by registers", "Block Limit Registers"),
        Quantity("launch__occupancy_limit_shared_mem", "block",
         lambda c: c.record.occupancy.carveout_bytes // c.record.occupancy.shared_bytes_per_block,
         "blocks per SM at most, by the shared memory that the SM is set to", "Block Limit Shared Mem"),
        Quantity("launch__occupancy_limit_warps", "block", _limit("warps", "threads"),
         "blocks per SM at most, by warps", "Block Limit Warps")),
    *metric_rows("launch",
        Quantity("launch__waves_per_multiprocessor", "",
         lambda c: ratio(c.record.launch.blocks, c.record.config.sm.count * c.record.occupancy.blocks_per_sm),
         "how often the grid fills the whole GPU",
         "Waves Per SM")),
)
# fmt: on
METRICS = {each.name: each for each in _ROWS}
"""Every metric by its name, in the order of the table."""
assert len(METRICS) == len(_ROWS), "a metric stands in the table twice"


_TIMED = re.compile(
    "cycle|time|active|lookup|stalled|latency|lts__|dram__|nvl|fmaheavy|^sm__inst_executed_pipe_adu|lsu_wavefronts.sum"
)
"""Parts of the names of metrics that do not follow from instructions and addresses alone."""
_NOT_OF_MACHINES = re.compile("dispatch_stall|^sm__inst_executed_pipe_adu")  # not modelled by SimPy processes


class UnknownMetric(KeyError):
    """No metric has the name asked for; the message names the one that looks most like it."""

    def __init__(self, name: object, mode: str = "detailed"):
        self.name = name
        unknown = f"no metric named {name!r}{did_you_mean(str(name), METRICS)}"
        self.message = f"a {mode} run has no {name}" if name in METRICS else unknown
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message  # KeyError would show its repr, in quotes


class MetricValues(Mapping[str, float]):
    """The metrics of one launch, each computed when asked for. Counts are ints, everything else floats.

    A functional run has those that follow from instructions and addresses alone. A name that is not there raises
    UnknownMetric, a KeyError that names the nearest one.
    """

    def __init__(self, counts: Counts | LaunchRecord):
        self._counts = counts if isinstance(counts, Counts) else Counts(counts)
        self._known: dict[str, float] = {}
        record = self._counts.record
        none = _NOT_OF_MACHINES if record.machine else None if record.timed else _TIMED
        self._names = METRICS if none is None else {name: METRICS[name] for name in METRICS if not none.search(name)}

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise UnknownMetric(name, self._counts.record.machine or self._counts.record.mode)
        if name not in self._known:
            self._known[name] = METRICS[name].formula(self._counts)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"MetricValues({dict(self)!r})"
