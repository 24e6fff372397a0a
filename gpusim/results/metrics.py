"""The table of metrics: Nsight Compute's name, its unit, what it means (`metrics.toml`), and how it follows from the
counts.

Units are ncu's base units (`--print-units base`): ns, byte, cycle, %. Meanings follow the metrics reference and the
section files of Nsight Compute ("Nsight Compute, Profiling Guide: Metrics Reference"). Metrics that count what
instructions do (instructions, threads, divergence, sectors, wavefronts) are exact; those that contain cycles, cache
contents or memory traffic are the model's. A quotient without a denominator, such as sectors per request without
requests, is 0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from gpusim.engine.state import L, ms
from gpusim.errors import did_you_mean
from gpusim.launch.occupancy import LEAST_REGISTERS
from gpusim.results.counts import GLOBAL, LOCAL, SHARED, Counts, ratio
from gpusim.results.record import LaunchRecord
from gpusim.results.stalls import STALL_MEANINGS
from gpusim.results.table import LESS, Quantity, metric_rows
from isa import microops as M
from isa.opcodes import PIPES

Compute = Callable[[Counts], float]
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


TEX_SECTORS = (
    *(ms.CNT_TEX_READ_SECTORS, ms.CNT_TEX_PREFETCH_SECTORS, ms.CNT_TEX_WRITE_SECTORS),
    *(ms.CNT_TEX_ATOMIC_SECTORS, ms.CNT_TEX_REDUCTION_SECTORS),
)
"""Counters of the sectors that L1 asks of L2."""
DRAM_READ_SECTORS = (ms.CNT_FILL_SECTORS, ms.CNT_MERGE_SECTORS, ms.CNT_LAUNCH_SECTORS)
FABRIC_SECTORS = (
    *(ms.CNT_FABRIC_READ_SECTORS, ms.CNT_FABRIC_WRITE_SECTORS, ms.CNT_FABRIC_BARRIERS),
    *(ms.CNT_FABRIC_PROBES, ms.CNT_FABRIC_LAUNCH_SECTORS),
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


def _conflicts(*operations: int) -> Compute:
    """Asynchronous copies through L1 count with all instructions, those past it do not, as on an H100."""

    def compute(c: Counts) -> int:
        rows, copies = c.accesses(SHARED, *operations), c.copies & ~c.past_l1 & (not operations)
        wavefronts = c.total(L.COUNT_SHARED_WAVEFRONTS, rows) + c.total(L.COUNT_SHARED_DATA, copies)
        return wavefronts - c.total(L.COUNT_SHARED_IDEAL, rows | copies)

    return compute


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
        c.total(L.COUNT_SHARED_WAVEFRONTS, ~c.copies)
        + c.total(L.COUNT_SHARED_DATA, c.copies)
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
            _on(SHARED, L.COUNT_SHARED_WAVEFRONTS, *operations) if suffix else _data_pipe_wavefronts,
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


def _pipe(pipe: str, more: int = -1) -> Compute:
    return lambda c: c.pipe_total(pipe) + (c.total(more) if more >= 0 else 0)


def _pipe_rows() -> Iterator[Quantity]:
    for pipe in PIPES:
        for unit in ("sm", "smsp"):
            # Seen on an H200: the SM's name counts the turns of an instruction, the sub-partition's the instruction.
            turns = (unit, pipe) == ("sm", "adu")
            more = L.COUNT_HEAVY if pipe == "fmaheavy" else L.COUNT_TURNS if turns else -1
            meaning = f"warp instructions of {_TABLE['pipes'][pipe]}"
            if turns:
                meaning += ", one turn for each value or address, and one more for constants that are not there"
            yield Quantity(f"{unit}__inst_executed_pipe_{pipe}.sum", "inst", _pipe(pipe, more), meaning)


_FORMULAS: dict[str, Compute] = {
    "gpc__cycles_elapsed.max": lambda c: int(c.record.cycles),
    "gpu__time_duration.sum": lambda c: 1e9 * _seconds(c),
    "sm__cycles_active.avg": lambda c: ratio(c.active_cycles, c.record.config.sm.count),
    "sm__cycles_active.max": lambda c: int(c.record.sm_active_cycles.max()),
    "sm__cycles_active.min": lambda c: int(c.record.sm_active_cycles.min()),
    "sm__cycles_active.sum": lambda c: c.active_cycles,
    "smsp__inst_executed.sum": lambda c: c.instructions,
    "sm__inst_executed.avg.per_cycle_active": lambda c: ratio(c.instructions, c.active_cycles),
    "smsp__thread_inst_executed.sum": _total(L.COUNT_THREADS),
    "smsp__thread_inst_executed_pred_on.sum": _total(L.COUNT_PRED_ON),
    "smsp__thread_inst_executed_per_inst_executed.ratio": lambda c: ratio(c.total(L.COUNT_THREADS), c.instructions),
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": lambda c: ratio(
        c.total(L.COUNT_PRED_ON), c.instructions
    ),
    "smsp__sass_branch_targets_threads_divergent.sum": _total(L.COUNT_DIVERGENT),
    "memory_l1_wavefronts_shared": _total(L.COUNT_SHARED_WAVEFRONTS),
    "memory_l1_wavefronts_shared_ideal": _total(L.COUNT_SHARED_IDEAL),
    "derived__memory_l1_wavefronts_shared_excessive": lambda c: (
        c.total(L.COUNT_SHARED_WAVEFRONTS) - c.total(L.COUNT_SHARED_IDEAL)
    ),
    "memory_l1_tag_requests_global": _on(GLOBAL, L.COUNT_TAGS),
    "memory_l2_theoretical_sectors_global": _theoretical(L.COUNT_SECTORS),
    "memory_l2_theoretical_sectors_global_ideal": _theoretical(L.COUNT_SECTORS_IDEAL),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": _on(GLOBAL, L.COUNT_HITS, M.OP_LOAD),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum": lambda c: (
        c.global_total(L.COUNT_SECTORS, M.OP_LOAD) - c.global_total(L.COUNT_HITS, M.OP_LOAD)
    ),
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum": _on(LOCAL, L.COUNT_HITS, M.OP_LOAD),
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum": lambda c: (
        c.total(L.COUNT_LOCAL_SECTORS, c.accesses(LOCAL, M.OP_LOAD)) - _on(LOCAL, L.COUNT_HITS, M.OP_LOAD)(c)
    ),
    "lts__t_sectors_srcunit_tex.sum": _memory(*TEX_SECTORS),
    "lts__t_sectors_srcunit_tex_op_read.sum": _memory(ms.CNT_TEX_READ_SECTORS),
    "lts__t_sectors_srcunit_tex_op_write.sum": _memory(ms.CNT_TEX_WRITE_SECTORS),
    "lts__t_sectors_srcunit_tex_op_atom.sum": _memory(ms.CNT_TEX_ATOMIC_SECTORS),
    "lts__t_sectors_srcunit_tex_op_red.sum": _memory(ms.CNT_TEX_REDUCTION_SECTORS),
    "lts__t_sectors_srcunit_tex_lookup_hit.sum": _memory(ms.CNT_TEX_HIT_SECTORS),
    "lts__t_sectors_srcunit_tex_lookup_miss.sum": _memory(ms.CNT_TEX_MISS_SECTORS),
    "lts__t_sectors_srcunit_ltcfabric.sum": _memory(*FABRIC_SECTORS),
    "lts__t_sectors_srcunit_ltcfabric_lookup_hit.sum": lambda c: (
        c.memory(*FABRIC_SECTORS) - c.memory(ms.CNT_FABRIC_MISS_SECTORS)
    ),
    "lts__t_sectors_srcunit_ltcfabric_lookup_miss.sum": _memory(ms.CNT_FABRIC_MISS_SECTORS),
    "lts__d_sectors_fill_device.sum": _memory(*DRAM_READ_SECTORS),
    "nvlrx__bytes_data_user.sum": _memory(ms.CNT_PEER_RECEIVED_BYTES),
    "nvltx__bytes_data_user.sum": _memory(ms.CNT_PEER_SENT_BYTES),
    "dram__bytes_read.sum": lambda c: c.memory_bytes(*DRAM_READ_SECTORS),
    "dram__bytes_write.sum": lambda c: c.memory_bytes(*DRAM_WRITE_SECTORS),
    "dram__bytes.sum": _dram_bytes,
    "dram__bytes.sum.per_second": lambda c: ratio(_dram_bytes(c), _seconds(c)),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": lambda c: (
        100 * ratio(_dram_bytes(c), c.record.cycles * c.record.config.dram_bytes_per_cycle)
    ),
    "sm__maximum_warps_per_active_cycle_pct": lambda c: 100 * c.record.occupancy.theoretical,
    "sm__warps_active.avg.per_cycle_active": lambda c: ratio(c.warp_cycles, c.active_cycles),
    "sm__warps_active.avg.pct_of_peak_sustained_active": lambda c: (
        100 * ratio(c.warp_cycles, c.active_cycles * c.record.config.sm.max_warps)
    ),
    "smsp__issue_active.avg.pct_of_peak_sustained_active": lambda c: 100 * ratio(c.issued, c.scheduler_cycles),
    "smsp__average_warp_latency_per_inst_issued.ratio": lambda c: ratio(sum(c.stalls.values()), c.issued),
    "launch__grid_size": lambda c: c.record.launch.blocks,
    "launch__block_size": lambda c: c.record.launch.threads_per_block,
    "launch__thread_count": lambda c: c.record.launch.blocks * c.record.launch.threads_per_block,
    "launch__registers_per_thread": lambda c: max(c.record.program.registers, LEAST_REGISTERS),
    "launch__shared_mem_per_block_static": lambda c: c.record.program.static_shared_bytes,
    "launch__shared_mem_per_block_dynamic": lambda c: c.record.launch.shared_bytes,
    "launch__shared_mem_per_block_driver": lambda c: c.record.config.sm.shared_reserved_bytes,
    "launch__occupancy_limit_blocks": _limit("blocks"),
    "launch__occupancy_limit_registers": _limit("registers"),
    "launch__occupancy_limit_shared_mem": lambda c: (
        c.record.occupancy.carveout_bytes // c.record.occupancy.shared_bytes_per_block
    ),
    "launch__occupancy_limit_warps": _limit("warps", "threads"),
    "launch__waves_per_multiprocessor": lambda c: ratio(
        c.record.launch.blocks, c.record.config.sm.count * c.record.occupancy.blocks_per_sm
    ),
}
_EACH = {
    "opcodes": _flop_rows, "pipes": _pipe_rows, "shared": _shared_rows, "accesses": _access_rows, "stalls": _stall_rows
}  # fmt: skip


def _rows() -> Iterator[Quantity]:
    for row in _TABLE["rows"]:
        section, each = row.pop("section"), row.pop("each", None)
        yield from metric_rows(section, *(_EACH[each]() if each else [Quantity(formula=_FORMULAS[row["name"]], **row)]))


_ROWS = tuple(_rows())
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
