"""The sections of the page: Nsight Compute's, in its order, with its names for sections and rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpusim.engine.state import layout as L
from gpusim.results.analysis import Analysis
from gpusim.results.counts import Counts, ratio
from gpusim.results.limiter import utilisation
from gpusim.results.metric_table import METRICS
from gpusim.units import joule_text
from isa import microops as M

Row = dict[str, Any]
SECTIONS = (
    "advice", "speed-of-light", "launch", "occupancy", "memory", "compute", "scheduler", "warp-state", "energy",
    "source", "warps", "stepper",
)  # fmt: skip
"""All that a page may show, in its order: the first, energy and the last two are no sections of Nsight Compute."""
_COMPUTE = ("issue slots", "pipe")
_SHOWN = 4


def make_sections(result: Analysis) -> list[dict[str, Any]]:
    """The sections: id, title, what it is about, rows, bars (rows in % of a peak) and tables."""
    counts = Counts(result.record)
    return [
        _speed_of_light(result, counts),
        _launch(result),
        _occupancy(result),
        _memory(result, counts),
        _compute(result, counts),
        _scheduler(result, counts),
        _warp_state(result),
        _energy(result),
        _source(result, counts),
    ]


def _section(
    name: str, title: str, about: str, rows: Iterable[Row], bars: Iterable[Row] = (), tables: Iterable[Any] = ()
) -> dict[str, Any]:
    return {
        "id": name, "title": title, "about": about, "rows": list(rows), "bars": list(bars), "tables": list(tables),
    }  # fmt: skip


def _row(label: str, value: Any, unit: str = "", meaning: str = "") -> Row:
    return {"label": label, "value": value, "unit": unit, "meaning": meaning, "metric": None}


def _metric(result: Analysis, label: str, name: str) -> Row:
    each = METRICS[name]
    return {
        "label": label, "value": result.metrics[name], "unit": each.unit, "meaning": each.meaning, "metric": name,
    }  # fmt: skip


def _rows(result: Analysis, table: Iterable[tuple[str, str]]) -> list[Row]:
    return [_metric(result, label, name) for label, name in table]


def _speed_of_light(result: Analysis, counts: Counts) -> dict[str, Any]:
    shares = utilisation(counts, max(int(result.record.cycles), 1))
    compute = {name: each for name, each in shares.items() if name.endswith(_COMPUTE) and name[:2] != "L1"}
    memory = {name: share for name, share in shares.items() if name not in compute}
    bars = [
        _row("Compute (SM) Throughput", 100 * max(compute.values()), "%", _busiest(compute)),
        *(_row(f"  {name[0].upper()}{name[1:]}", 100 * share, "%") for name, share in list(compute.items())[:_SHOWN]),
        _row("Memory Throughput", 100 * max(memory.values()), "%", _busiest(memory)),
        *(_row(f"  {name[0].upper()}{name[1:]}", 100 * share, "%") for name, share in memory.items()),
    ]
    rows = _rows(result, (
        ("Elapsed Cycles", "gpc__cycles_elapsed.max"),
        ("Duration", "gpu__time_duration.sum"),
        ("SM Active Cycles", "sm__cycles_active.avg"),
        ("DRAM Throughput", "dram__bytes.sum.per_second"),
    ))  # fmt: skip
    rows.append(_row("SM Frequency", result.record.config.gpu.clock_mhz, "MHz"))
    return _section(
        "speed-of-light", "GPU Speed Of Light Throughput",
        "How much of the peak of each unit the launch reaches, over its whole duration.", rows, bars,
    )  # fmt: skip


def _busiest(shares: dict[str, float]) -> str:
    return f"the busiest unit of its kind: {max(shares, key=lambda name: shares[name])}"


def _launch(result: Analysis) -> dict[str, Any]:
    rows = _rows(result, (
        ("Grid Size", "launch__grid_size"),
        ("Block Size", "launch__block_size"),
        ("Threads", "launch__thread_count"),
        ("Registers Per Thread", "launch__registers_per_thread"),
        ("Static Shared Memory Per Block", "launch__shared_mem_per_block_static"),
        ("Dynamic Shared Memory Per Block", "launch__shared_mem_per_block_dynamic"),
        ("Driver Shared Memory Per Block", "launch__shared_mem_per_block_driver"),
        ("Waves Per SM", "launch__waves_per_multiprocessor"),
    ))  # fmt: skip
    rows.append(_row("Shared Memory Configuration Size", result.occupancy.carveout_bytes, "byte"))
    blocks = result.record.sm_blocks
    rows.append(_row("SMs With Blocks", f"{int((blocks > 0).sum())} of {len(blocks)}"))
    return _section("launch", "Launch Statistics", "What was launched, and how it spreads over the SMs.", rows)


def _occupancy(result: Analysis) -> dict[str, Any]:
    bars = _rows(result, (
        ("Theoretical Occupancy", "sm__maximum_warps_per_active_cycle_pct"),
        ("Achieved Occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ))  # fmt: skip
    rows = _rows(result, (
        ("Block Limit SM", "launch__occupancy_limit_blocks"),
        ("Block Limit Registers", "launch__occupancy_limit_registers"),
        ("Block Limit Shared Mem", "launch__occupancy_limit_shared_mem"),
        ("Block Limit Warps", "launch__occupancy_limit_warps"),
        ("Achieved Active Warps Per SM", "sm__warps_active.avg.per_cycle_active"),
    ))  # fmt: skip
    rows.insert(4, _row("Theoretical Active Warps Per SM", result.occupancy.warps_per_sm, "warp"))
    rows.append(_row("Limited By", ", ".join(result.occupancy.limiters)))
    return _section(
        "occupancy", "Occupancy", "Warps resident on an SM, of the most that it holds.", rows, bars
    )


def _table(title: str, head: list[str], rows: list[list[Any]]) -> dict[str, Any]:
    return {"title": title, "head": head, "rows": rows}


_OPERATIONS = (
    ("Loads", "ld", M.OP_LOAD), ("Stores", "st", M.OP_STORE),
    ("Atomics", "atom", M.OP_ATOM), ("Reductions", "red", M.OP_RED),
)  # fmt: skip


def _memory(result: Analysis, counts: Counts) -> dict[str, Any]:
    metrics = result.metrics
    shared: list[list[Any]] = []
    unified: list[list[Any]] = []
    for label, _, operation in _OPERATIONS:
        requests = counts.shared_total(L.N_SHARED_REQUESTS, operation)
        wavefronts = counts.shared_total(L.N_SHARED_WAVEFRONTS, operation)
        ideal = counts.shared_total(L.N_SHARED_IDEAL, operation)
        if requests or wavefronts:
            shared.append([label, requests, wavefronts, ideal, wavefronts - ideal])
    for label, suffix, operation in _OPERATIONS:
        asked = metrics[f"l1tex__t_requests_pipe_lsu_mem_global_op_{suffix}.sum"]
        if asked:
            sectors = metrics[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{suffix}.sum"]
            hits = counts.global_total(L.N_HITS, operation)
            unified.append([
                label, asked, sectors, round(sectors / asked, 2), counts.global_total(L.N_SECTORS_IDEAL, operation),
                f"{100 * hits / sectors:.1f} %" if operation == M.OP_LOAD and sectors else "",
            ])  # fmt: skip
    l2 = [
        [label, metrics[f"lts__t_sectors_srcunit_tex_op_{name}.sum"]]
        for label, name in (("Reads", "read"), ("Writes", "write"), ("Atomics", "atom"), ("Reductions", "red"))
    ]
    l2.append(["From the other partition", metrics["lts__t_sectors_srcunit_ltcfabric.sum"]])
    near_hits = metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]
    hit, miss = (metrics[f"lts__t_sectors_srcunit_tex_lookup_{name}.sum"] for name in ("hit", "miss"))
    loads = metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    rows = [
        _metric(result, "Memory Throughput", "dram__bytes.sum.per_second"),
        _metric(result, "Max Bandwidth", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        _row("L1/TEX Hit Rate", 100 * ratio(near_hits, loads), "%", "sectors of global loads found in L1"),
        _row("L2 Hit Rate", 100 * ratio(hit, hit + miss), "%", "sectors that the slice holds or awaits"),
    ]  # fmt: skip
    tables = [
        _table("Shared Memory", ["", "Requests", "Wavefronts", "Ideal", "Excessive (bank conflicts)"], shared),
        _table("L1/TEX Cache, global memory",
               ["", "Requests", "Sectors", "Sectors/Req", "Ideal sectors", "Hit rate"], unified),
        _table("L2 Cache", ["", "Sectors"], l2),
        _table("Device Memory", ["", "Bytes"], [
            ["Read", metrics["dram__bytes_read.sum"]], ["Written", metrics["dram__bytes_write.sum"]],
        ]),
    ]  # fmt: skip
    section = _section(
        "memory", "Memory Workload Analysis", "Traffic at each level of the memory.", rows, (),
        [table for table in tables if table["rows"]],
    )  # fmt: skip
    moved = result.roofline.bytes
    passed = metrics["memory_l1_wavefronts_shared"]
    section["shared"] = f"{sum(row[1] for row in shared):,} requests, {passed:,} wavefronts" if shared else ""
    section["loads"] = [
        {"title": "Sectors looked up by each L2 slice", "noun": "slice", "unit": "sectors",
         "values": result.slices.tolist()},
        {"title": "Bytes read and written by each memory channel", "noun": "channel", "unit": "bytes",
         "values": result.channels.tolist()},
    ]
    section["chart"] = [
        ["Kernel", f"{sum(row[1] for row in unified):,} global requests"],
        [f"{moved['L1']:,} B", ""],
        ["L1/TEX", f"{100 * ratio(near_hits, loads):.1f} % hit rate"],
        [f"{moved['L2']:,} B", ""],
        ["L2", f"{100 * ratio(hit, hit + miss):.1f} % hit rate"],
        [f"{moved['DRAM']:,} B", ""],
        ["Device Memory", f"{metrics['dram__throughput.avg.pct_of_peak_sustained_elapsed']:.1f} % of peak"],
    ]
    return section


def _compute(result: Analysis, counts: Counts) -> dict[str, Any]:
    shares = utilisation(counts, max(counts.active_cycles // result.record.config.sm.count, 1))
    bars = [
        _row(f"{name[0].upper()}{name[1:]}", 100 * share, "%", "of its peak while its SM holds a warp")
        for name, share in shares.items()
        if name.endswith("pipe") and not name.startswith("L1TEX")
    ]
    rows = _rows(result, (
        ("Executed Ipc Active", "sm__inst_executed.avg.per_cycle_active"),
        ("Issue Slots Busy", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
        ("Executed Instructions", "smsp__inst_executed.sum"),
    ))  # fmt: skip
    rows += [_row(f"{kind} Operations", n, "FLOP") for kind, n in result.roofline.operations.items()]
    return _section(
        "compute", "Compute Workload Analysis", "What the execution pipes do while their SM holds a warp.", rows, bars
    )


def _scheduler(result: Analysis, counts: Counts) -> dict[str, Any]:
    partitions = result.record.config.sm.sub_partitions
    cycles = counts.active_cycles * partitions
    issue = result.metrics["smsp__issue_active.avg.pct_of_peak_sustained_active"]
    ready = counts.stalls["selected"] + counts.stalls["not_selected"]
    rows = [
        _row("Active Warps Per Scheduler", ratio(counts.warp_cycles, cycles), "warp"),
        _row("Eligible Warps Per Scheduler", ratio(ready, cycles), "warp", "warps that could issue, taken or not"),
        _row("Issued Warp Per Scheduler", ratio(counts.issued, cycles), "warp"),
        _row("No Eligible", max(100 - issue, 0.0), "%", "scheduler cycles without an issue"),
        _row("One or More Eligible", issue, "%", "scheduler cycles with an issue"),
    ]
    return _section(
        "scheduler", "Scheduler Statistics", "How many warps a scheduler has to choose from in each cycle.", rows
    )


def _warp_state(result: Analysis) -> dict[str, Any]:
    rows = _rows(result, (
        ("Warp Cycles Per Issued Instruction", "smsp__average_warp_latency_per_inst_issued.ratio"),
        ("Avg. Active Threads Per Warp", "smsp__thread_inst_executed_per_inst_executed.ratio"),
        ("Avg. Not Predicated Off Threads Per Warp", "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"),
    ))  # fmt: skip
    return _section(
        "warp-state", "Warp State Statistics",
        "What warps spend their cycles on, between one instruction and the next.", rows,
    )  # fmt: skip


_PART_MEANINGS = {
    "static": "what the board takes whatever runs, over the whole duration",
    "launch": "to begin the launch and each of its warps",
    "issue": "to fetch, decode and issue warp instructions",
    "registers": "to read operands",
}


def _energy(result: Analysis) -> dict[str, Any]:
    energy, limit = result.energy, result.record.config.energy.limit_w
    bars = [
        _row(f"{name[0].upper()}{name[1:]}", 100 * share, "%", _PART_MEANINGS.get(name, ""))
        | {"text": f"{joule_text(joules, 'µ')}, {100 * share:.1f} %"}
        for name, joules in sorted(energy.parts.items(), key=lambda each: -each[1])
        if (share := ratio(joules, energy.energy_j))
    ]
    rows = [
        _row("Energy", joule_text(energy.energy_j, "µ")),
        _row("Power", energy.power_w, "W", "in the mean over the duration"),
        _row("Power Limit", limit, "W", "of the board, over which its clock falls"),
    ]
    if energy.power_w > limit:
        meaning = "to which the limit lets the clock fall when launches follow each other for a second and more"
        rows.append(_row("Sustained SM Frequency", energy.sustained().clock_mhz, "MHz", meaning))
    about = "Where the joules of the launch go. Lines and instructions below have theirs without the static part."
    return _section("energy", "Energy", about, rows, bars)


def _source(result: Analysis, counts: Counts) -> dict[str, Any]:
    branches, divergent = counts.total(L.N_BRANCHES), counts.total(L.N_DIVERGENT)
    rows = [
        _row("Branch Instructions", branches, "inst"),
        _row("Branch Efficiency", 100 * ratio(branches - divergent, branches) if branches else 100.0, "%",
             "branches whose active threads all go to one target"),
        _metric(result, "Divergent Branches", "smsp__sass_branch_targets_threads_divergent.sum"),
        _metric(result, "Excessive Shared Wavefronts", "derived__memory_l1_wavefronts_shared_excessive"),
        _row("Excessive Global Sectors", counts.excess(L.N_SECTORS, L.N_SECTORS_IDEAL), "sector"),
    ]  # fmt: skip
    return _section(
        "source", "Source Counters", "What each line costs; open a line to see its machine code.", rows
    )
