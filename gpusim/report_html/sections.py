"""The sections of the page: rows and bars of the table of quantities, and beside them tables, charts and strips."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpusim.config import GPUConfig
from gpusim.engine.state import layout as L
from gpusim.errors import LaunchError
from gpusim.launch.occupancy import occupancy
from gpusim.results.analysis import Analysis
from gpusim.results.counts import ratio
from gpusim.results.limiter import utilisation
from gpusim.results.quantities import shown
from gpusim.results.sentences import OPERATIONS, capital
from gpusim.results.table import PAGE, SECTIONS, Quantity, spelled
from gpusim.units import joule_text
from isa import microops as M

Row = dict[str, Any]
NAMES = tuple(name for name in SECTIONS if name != "nvlink")
"""All that a page may show, in its order."""
_COMPUTE = ("issue slots", "pipe")
_SHOWN = 4
_L2 = "lts__t_sectors_srcunit"


def make_sections(result: Analysis) -> list[dict[str, Any]]:
    """The sections: id, title, what it is about, rows, bars (rows in % of a peak) and what else one has: tables, a
    chart, loads (strips of a cell for each of many alike)."""
    found = []
    for name, section in SECTIONS.items():
        own = (each for each in shown(PAGE) if each.label and each.section == name)
        made = [(each.bar, row) for each in own if (row := _row(result, each)) is not None]
        more = _MORE[name](result) if name in _MORE else {}
        bars = [row for bar, row in made if bar] + more.pop("bars", [])
        head = {"id": name, "title": section.title, "about": section.about}
        parts = {"bars": bars, "rows": [row for bar, row in made if not bar], "tables": []} | more
        found += [head | parts] if any(parts.values()) else []
    return found


def _row(result: Analysis, quantity: Quantity) -> Row | None:
    value = quantity.value(result)
    return None if value is None else {
        "label": quantity.label, "value": value, "text": spelled(value, quantity.unit, "µ"),
        "meaning": f"{quantity.name}: {quantity.meaning}" if quantity.metric else quantity.meaning,
        "metric": quantity.name if quantity.metric else None,
    }  # fmt: skip


def _bar(label: str, share: float, meaning: str = "", text: str = "") -> Row:
    value = 100 * share
    return {"label": capital(label), "value": value, "text": text or f"{value:.1f} %", "meaning": meaning}


def _peaks(result: Analysis) -> Row:
    shares = utilisation(result.counts, max(result.cycles, 1))
    compute = {name: each for name, each in shares.items() if name.endswith(_COMPUTE) and name[:2] != "L1"}
    memory = {name: share for name, share in shares.items() if name not in compute}
    bars = []
    for title, units, most in (
        ("Compute (SM) Throughput", compute, _SHOWN), ("Memory Throughput", memory, len(memory)),
    ):  # fmt: skip
        name, share = next(iter(units.items()))  # the most used first
        bars.append(_bar(title, share, f"the busiest unit of its kind: {name}"))
        bars += [_bar(name, share) | {"inner": True} for name, share in list(units.items())[:most]]
    return {"bars": bars}


def _pipes(result: Analysis) -> Row:
    shares = utilisation(result.counts, max(result.counts.active_cycles // result.record.config.sm.count, 1))
    pipes = {name: share for name, share in shares.items() if name.endswith("pipe") and not name.startswith("L1TEX")}
    return {"bars": [_bar(name, share, "of its peak while its SM holds a warp") for name, share in pipes.items()]}


_PART_MEANINGS = {
    "static": "what the board takes whatever runs, over the whole duration",
    "launch": "to begin the launch and each of its warps",
    "issue": "to fetch, decode and issue warp instructions",
    "registers": "to read operands",
}


def _parts(result: Analysis) -> Row:
    parts = sorted(result.energy.parts.items(), key=lambda each: -each[1])
    shares = ((name, joules, ratio(joules, result.energy_j)) for name, joules in parts if joules)
    return {"bars": [
        _bar(name, share, _PART_MEANINGS.get(name, ""), f"{joule_text(joules, 'µ')}, {100 * share:.1f} %")
        for name, joules, share in shares
    ]}  # fmt: skip


def _memory(result: Analysis) -> Row:
    metrics, counts = result.metrics, result.counts
    shared: list[list[Any]] = []
    unified: list[list[Any]] = []
    for label, operation in OPERATIONS.items():
        fields = (L.COUNT_SHARED_REQUESTS, L.COUNT_SHARED_WAVEFRONTS, L.COUNT_SHARED_IDEAL)
        requests, wavefronts, ideal = (counts.shared_total(each, operation) for each in fields)
        if requests or wavefronts:
            shared.append([capital(label), requests, wavefronts, ideal, wavefronts - ideal])
        fields = (L.COUNT_REQUESTS, L.COUNT_SECTORS, L.COUNT_SECTORS_IDEAL, L.COUNT_HITS)  # type: ignore[assignment]
        asked, sectors, ideal, hits = (counts.global_total(each, operation) for each in fields)
        if asked:
            rate = f"{100 * hits / sectors:.1f} %" if operation == M.OP_LOAD and sectors else ""
            unified.append([capital(label), asked, sectors, round(sectors / asked, 2), ideal, rate])
    l2 = {
        "Reads": "tex_op_read", "Writes": "tex_op_write", "Atomics": "tex_op_atom", "Reductions": "tex_op_red",
        "From the other partition": "ltcfabric",
    }  # fmt: skip
    device = {"Read": "read", "Written": "write"}
    tables = {
        "Shared Memory": (("Requests", "Wavefronts", "Ideal", "Excessive (bank conflicts)"), shared),
        "L1/TEX Cache, global memory": (("Requests", "Sectors", "Sectors/Req", "Ideal sectors", "Hit rate"), unified),
        "L2 Cache": (("Sectors",), [[label, metrics[f"{_L2}_{each}.sum"]] for label, each in l2.items()]),
        "Device Memory": (("Bytes",), [[label, metrics[f"dram__bytes_{each}.sum"]] for label, each in device.items()]),
    }
    rates = {each.label: each.value(result) for each in shown(PAGE) if each.label.endswith("Hit Rate")}
    moved = {level: [f"{number:,} B", ""] for level, number in result.roofline.bytes.items()}
    peak = metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"]
    passed = metrics["memory_l1_wavefronts_shared"]
    return {
        "tables": [
            {"title": title, "head": ["", *head], "rows": rows} for title, (head, rows) in tables.items() if rows
        ],
        "shared": f"{sum(row[1] for row in shared):,} requests, {passed:,} wavefronts" if shared else "",
        "loads": [
            {"title": "Sectors looked up by each L2 slice", "noun": "slice", "unit": "sectors",
             "values": result.slices.tolist()},
            {"title": "Bytes read and written by each memory channel", "noun": "channel", "unit": "bytes",
             "values": result.channels.tolist()},
        ],
        "chart": [
            ["Kernel", f"{sum(row[1] for row in unified):,} global requests"], moved["L1"],
            ["L1/TEX", f"{rates['L1/TEX Hit Rate']:.1f} % hit rate"], moved["L2"],
            ["L2", f"{rates['L2 Hit Rate']:.1f} % hit rate"], moved["DRAM"],
            ["Device Memory", f"{peak:.1f} % of peak"],
        ],
    }  # fmt: skip


_MORE: Mapping[str, Callable[[Analysis], Row]] = {
    "speed-of-light": _peaks, "memory": _memory, "compute": _pipes, "energy": _parts,
}  # fmt: skip


_SHARED_STEP = 1024


def make_occupancy(result: Analysis) -> dict[str, Any]:
    """The document's `occupancy`. resources: of an SM, [name, what a block takes, what there is, unit, whether it
    limits]. curves: as below."""
    record, found = result.record, result.occupancy
    config, program, launch = record.config, record.program, record.launch
    sm, threads = config.sm, launch.threads_per_block
    static, dynamic = program.static_shared_bytes, launch.shared_bytes
    resources = (
        ("Warps", found.warps_per_block, sm.max_warps, "warps", {"warps", "threads"}),
        ("Blocks", 1, sm.max_blocks, "blocks", {"blocks"}),
        ("Registers", found.registers_per_warp * found.warps_per_block, sm.registers, "registers", {"registers"}),
        ("Shared memory", found.shared_bytes_per_block, sm.shared_bytes, "B", {"shared"}),
    )

    return {
        "blocks": found.blocks_per_sm, "warps": found.warps_per_sm, "most": sm.max_warps,
        "achieved": result.metrics["sm__warps_active.avg.per_cycle_active"],
        "resources": [
            [name, each, of, unit, not names.isdisjoint(found.limiters)] for name, each, of, unit, names in resources
        ],
        "curves": curves(config, threads, program.registers, static + dynamic),
    }  # fmt: skip


def curves(config: GPUConfig, threads: int, registers: int, shared: int) -> list[list[Any]]:
    """[title, unit, the launch's, most, [value, warps on an SM, ...]] of registers of a thread, and of threads and
    shared memory of a block, while the other two stay: the values at which the number of warps changes."""
    sm = config.sm
    shapes: tuple[tuple[str, str, int, range, Callable[[int], int]], ...] = (
        ("Registers per thread", "", registers, range(1, sm.max_registers_per_thread + 1),
         lambda n: _warps(config, threads, n, shared)),
        ("Threads per block", "", threads, range(1, sm.max_threads_per_block + 1, config.gpu.warp_size),
         lambda n: _warps(config, n, registers, shared)),
        ("Shared memory per block", "B", shared, range(0, sm.shared_bytes_per_block_max + 1, _SHARED_STEP),
         lambda n: _warps(config, threads, registers, n)),
    )  # fmt: skip
    return [[title, unit, here, values.stop - 1, _changes(values, of)] for title, unit, here, values, of in shapes]


def _warps(config: GPUConfig, threads: int, registers: int, shared: int) -> int:
    """Warps that an SM holds of such blocks, 0 where not one fits."""
    try:
        return occupancy(config, threads, registers, 0, shared).warps_per_sm
    except LaunchError:
        return 0


def _changes(values: Iterable[int], warps: Callable[[int], int]) -> list[int]:
    """[value, warps, ...] where the number of warps changes."""
    found: list[int] = []
    for value in values:
        now = warps(value)
        if not found or found[-1] != now:
            found += [value, now]
    return found
