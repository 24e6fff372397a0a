"""The table of what is shown of a result: a row for each thing that it holds, in the order of the terminal's report.

A new number is a row here (or, under a name of Nsight Compute's, in `metrics.toml`), and stands everywhere:
in the report, on the page, in T.JSON and its schema, in `gpusim diff`, in a column of sweeps, in the lab and on the
reference page. Where it shall not stand everywhere, its row says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Literal

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.launch.occupancy import Occupancy
from gpusim.results import SCHEMA_VERSION, sentences
from gpusim.results import table as T
from gpusim.results.analysis import Analysis, InstructionCosts, SourceLine, StallReason
from gpusim.results.counts import ratio
from gpusim.results.finding import Finding
from gpusim.results.interval import Interval
from gpusim.results.limiter import Limiter
from gpusim.results.metrics import METRICS
from gpusim.results.record import Bound, Sampling, Simulation
from gpusim.results.roofline import Roofline
from gpusim.results.sentences import line
from gpusim.results.table import EVERYWHERE, LESS, SECTIONS, Quantity, spelled

Dim3 = tuple[int, int, int]


def _field(name: str, kind: Any, formula: Callable[[Analysis], Any], meaning: str, **more: Any) -> Quantity:
    """A quantity of T.JSON that is no number of the launch; with `text` it is in the report too."""
    where = frozenset({T.JSON, T.TEXT} if "text" in more else {T.JSON})
    return Quantity(name, "", formula, meaning, kind=kind, where=where, **more)


def _sentence(name: str, label: str, formula: Callable[[Analysis], str] = str, **more: Any) -> Quantity:
    """A line of the report alone, which shows numbers of T.JSON side by side."""
    more.setdefault("text", line(label, formula))
    return Quantity(name, "", formula, label, kind=str, where=frozenset({T.TEXT}), **more)


def _on_page(section: str, label: str, unit: str, formula: Callable[[Analysis], Any], meaning: str = "") -> Quantity:
    """A quantity of the page alone, which leaves it out if its value is None."""
    return Quantity(f"{section}: {label}", unit, formula, meaning, label, section, where=frozenset({T.PAGE}))


def _each(costs: list[Any]) -> list[dict[str, Any]]:
    return [each.to_dict() for each in costs]


_NUMBER = EVERYWHERE | {T.FACTS}
_HEAD = (
    _field("schema_version", Literal[SCHEMA_VERSION],  # pyrefly: ignore[not-a-type]
           lambda r: SCHEMA_VERSION,
           "raised when a field goes or changes its meaning; a new field leaves it as it is", timed=False),
    _field("kernel", str, lambda r: r.kernel, "the kernel's name", text=sentences.kernel, timed=False),
    _field("gpu", str, lambda r: r.record.config.gpu.name, "the simulated GPU", timed=False),
    _sentence("launch", "Launch", sentences.launch, timed=False),
    _field("mode", Literal["detailed", "once", "sampled", "functional"], lambda r: r.record.mode,
           "how it was simulated; a functional run has no times", text=line("Mode", sentences.mode), timed=False),
    _field("grid", Dim3, lambda r: list(r.record.launch.grid), "blocks along x, y and z", timed=False),
    _field("block", Dim3, lambda r: list(r.record.launch.block), "threads along x, y and z", timed=False),
    _field("shared_bytes", int, lambda r: r.record.launch.shared_bytes,
           "dynamic shared memory of a block", timed=False),
    Quantity("local_bytes", "byte", lambda r: r.record.program.local_bytes, "local memory that the compiler gives a "
             "thread: spilled registers, and arrays", "Local Memory Per Thread", "launch", LESS,
             frozenset({T.JSON, T.PAGE}), int, timed=False),
    _field("configuration", dict[str, Any], lambda r: dict(r.record.config.items()),
           "the machine, by key", timed=False),
    _field("sampling", Sampling, lambda r: r.sampling and asdict(r.sampling), "what a sampled run did",
           text=line("Sampled", sentences.sampled), timed=False, optional=True),

    Quantity("cycles", "cycle", lambda r: r.cycles,
             "SM clock cycles from the start of the launch to its end, launch overhead included", "Cycles",
             "", LESS, _NUMBER - {T.PAGE}, int, short="cycles", text=line("Duration", sentences.duration)),
    Quantity("cycles_low", "cycle", lambda r: r.interval and r.interval.low, "the interval's lower end",
             where=frozenset({T.SWEEP})),
    Quantity("cycles_high", "cycle", lambda r: r.interval and r.interval.high, "the interval's upper end",
             where=frozenset({T.SWEEP})),
    Quantity("time_us", "us", lambda r: r.time_us, "the same in microseconds, at the configuration's SM clock",
             "Duration", better=LESS, where=_NUMBER - {T.PAGE, T.TEXT}),
    _field("interval", Interval | None, lambda r: r.interval and asdict(r.interval), "cycles between which nine of ten "
           "kernels of its kind lie", text=line("Interval", lambda r: str(r.interval or ""))),
    _field("bound", Bound | None, lambda r: r.bound and asdict(r.bound), "the least time that the launch can take",
           text=line("Bound", sentences.bound)),
    _field("why_no_bound", str | None, lambda r: r.why_no_bound or None, "why there is no bound, if it was asked for"),
    _field("limiter", Limiter, lambda r: asdict(r.limiter), "what limits the launch",
           text=line("Limited by", lambda r: r.limiter.sentence)),
    Quantity("limited_by", "", lambda r: r.limiter.kind, "what limits the launch", where=frozenset({T.SWEEP})),
    Quantity("why", "", lambda r: r.limiter.sentence, "the numbers that say so", where=frozenset({T.SWEEP})),
    Quantity("energy_j", "J", lambda r: r.energy_j, "what the board takes for the launch", "Energy", "energy", LESS,
             _NUMBER, short="energy", text=line("Energy", sentences.energy)),
    Quantity("power_w", "W", lambda r: r.power_w, "the same in the mean over the duration", "Power", "energy", LESS,
             _NUMBER - {T.TEXT}, column="launch_w"),
    Quantity("energy_delay", "J s", lambda r: r.energy_j * 1e-6 * r.time_us, "energy times duration",
             "Energy-Delay Product", "energy", LESS, frozenset({T.JSON, T.SWEEP})),
    _field("energy_parts", dict[str, float], lambda r: dict(r.energy.parts),
           "joules by unit; 'static' is what the board takes whatever runs, over the whole duration"),

    _sentence("throughput", "Throughput", text=sentences.throughput),
    _field("roofline", Roofline, lambda r: r.roofline.to_dict(), "arithmetic, traffic by level of memory, and peaks",
           text=sentences.roofline),
    _field("occupancy", Occupancy, lambda r: asdict(r.occupancy), "theoretical occupancy and what limits it",
           text=line("Occupancy", sentences.occupancy), timed=False),
    _sentence("divergence", "Divergence", sentences.divergence, timed=False),
    _sentence("conflicts", "Bank conflicts", sentences.conflicts, timed=False),
    _sentence("coalescing", "Coalescing", sentences.coalescing, timed=False),
    _sentence("caches", "Cache hit rates", sentences.caches),
    _field("metrics", dict[str, float], lambda r: dict(r.metrics),
           "by Nsight Compute's names, in the units that `gpusim list --metrics` says", timed=False),
)  # fmt: skip


def _hit_rate(result: Analysis, hits: str, *of: str) -> float:
    return 100 * ratio(result.metrics[hits], sum(result.metrics[each] for each in of))


def _per_scheduler(number: Callable[[Analysis], float]) -> Callable[[Analysis], float]:
    """Of an active cycle of a scheduler."""

    def formula(result: Analysis) -> float:
        return ratio(number(result), result.counts.active_cycles * result.record.config.sm.sub_partitions)

    return formula


def _operations(kind: str) -> Callable[[Analysis], int | None]:
    return lambda result: result.roofline.operations.get(kind)


def _efficiency(result: Analysis) -> float:
    branches, divergent = result.counts.total(L.COUNT_BRANCHES), result.counts.total(L.COUNT_DIVERGENT)
    return 100 * ratio(branches - divergent, branches) if branches else 100.0


def _sustained(result: Analysis) -> float | None:
    """Clock of a launch that is repeated, if the board's limit lowers it."""
    beyond = result.power_w > result.record.config.energy.limit_w
    return result.energy.sustained().clock_mhz if beyond else None


_LOADS, _L2 = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "lts__t_sectors_srcunit_tex_lookup"
_ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
_PAGE = (
    _on_page("speed-of-light", "SM Frequency", "MHz", lambda r: r.record.config.gpu.clock_mhz),
    _on_page("launch", "Shared Memory Configuration Size", "byte", lambda r: r.occupancy.carveout_bytes),
    _on_page("launch", "SMs With Blocks", "",
             lambda r: f"{np.count_nonzero(r.record.sm_blocks)} of {len(r.record.sm_blocks)}"),
    _on_page("occupancy", "Theoretical Active Warps Per SM", "warp", lambda r: r.occupancy.warps_per_sm),
    _on_page("occupancy", "Limited By", "", lambda r: ", ".join(r.occupancy.limiters)),
    _on_page("memory", "L1/TEX Hit Rate", "%", lambda r: _hit_rate(r, f"{_LOADS}_lookup_hit.sum", f"{_LOADS}.sum"),
             "sectors of global loads found in L1"),
    _on_page("memory", "L2 Hit Rate", "%",
             lambda r: _hit_rate(r, f"{_L2}_hit.sum", f"{_L2}_hit.sum", f"{_L2}_miss.sum"),
             "sectors that the slice holds or awaits"),
    *(_on_page("compute", f"{kind} Operations", "FLOP", _operations(kind))
      for kind in ("FP32", "FP64", "FP16", "tensor")),
    _on_page("scheduler", "Active Warps Per Scheduler", "warp", _per_scheduler(lambda r: r.counts.warp_cycles)),
    _on_page("scheduler", "Eligible Warps Per Scheduler", "warp",
             _per_scheduler(lambda r: r.counts.stalls["selected"] + r.counts.stalls["not_selected"]),
             "warps that could issue, taken or not"),
    _on_page("scheduler", "Issued Warp Per Scheduler", "warp", _per_scheduler(lambda r: r.counts.issued)),
    _on_page("scheduler", "No Eligible", "%", lambda r: max(100 - r.metrics[_ISSUE], 0.0),
             "scheduler cycles without an issue"),
    _on_page("scheduler", "One or More Eligible", "%", lambda r: r.metrics[_ISSUE], "scheduler cycles with an issue"),
    _on_page("energy", "Power Limit", "W", lambda r: r.record.config.energy.limit_w,
             "of the board, over which its clock falls"),
    _on_page("energy", "Sustained SM Frequency", "MHz", _sustained,
             "to which the limit lets the clock fall when launches follow each other for a second and more"),
    _on_page("source", "Branch Instructions", "inst", lambda r: r.counts.total(L.COUNT_BRANCHES)),
    _on_page("source", "Branch Efficiency", "%", _efficiency, "branches whose active threads all go to one target"),
    _on_page("source", "Excessive Global Sectors", "sector",
             lambda r: r.counts.excess(L.COUNT_SECTORS, L.COUNT_SECTORS_IDEAL)),
)  # fmt: skip
_TAIL = (
    _field("stall_reasons", dict[str, StallReason],
           lambda r: {reason: asdict(each) for reason, each in r.stall_reasons.items()},
           "what warps spent their time on, the costliest first", text=sentences.stalls),
    _field("source_lines", list[SourceLine], lambda r: _each(r.source_lines), "the costliest first",
           text=sentences.source, timed=False),
    _field("instructions", list[InstructionCosts], lambda r: _each(r.instructions), "in the order of addresses",
           timed=False),
    _field("advice", list[Finding], lambda r: [asdict(each) for each in r.advice],
           "what costs the launch its time and what to try, the dearest first", text=sentences.advice),
    _field("sm_blocks", list[int], lambda r: r.record.sm_blocks.tolist(), "blocks run by each SM"),
    _field("sm_active_cycles", list[int], lambda r: r.record.sm_active_cycles.tolist(),
           "cycles of each SM with a warp"),
    _field("simulation", Simulation, lambda r: asdict(r.simulation), "what the simulator itself took",
           text=sentences.simulation, timed=False),
)  # fmt: skip
QUANTITIES: dict[str, Quantity] = {each.name: each for each in (*_HEAD, *METRICS.values(), *_PAGE, *_TAIL)}
"""Every quantity by its name."""


def shown(place: str, timed: bool = True) -> Iterator[Quantity]:
    """The rows of a place, in order; timed: those of a run that knows of cycles."""
    return (each for each in QUANTITIES.values() if place in each.where and (timed or not each.timed))


def columns(result: Analysis) -> dict[str, Any]:
    """A result's columns in the table of a sweep, by their names."""
    return {each.column or each.name: each.value(result) for each in shown(T.SWEEP)}


def result_columns() -> list[str]:
    """Names of those columns."""
    return [each.column or each.name for each in shown(T.SWEEP)]


def to_dict(result: Analysis, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A result as plain Python values, for T.JSON. Numbers have the units of the attributes they stand for. without:
    names of rows that are left out."""
    rows = (each for each in shown(T.JSON, result.record.timed) if not each.metric and each.name not in without)
    found = ((each, each.value(result)) for each in rows)
    return {each.name: value for each, value in found if value is not None or not each.optional}


def render(result: Analysis, all_findings: bool = False) -> str:
    """The one-screen report as text of at most 100 columns and some 55 lines, without a line break at its end.
    all_findings: every finding of the advice, and not only the dearest."""
    lines = (
        text
        for each in shown(T.TEXT, result.record.timed)
        for text in (each.text(result, all_findings) if each.text else _plainly(each, result))
    )
    return "\n".join(each.rstrip() for each in lines)


def _plainly(quantity: Quantity, result: Analysis) -> Iterator[str]:
    return sentences.labelled(quantity.label, spelled(quantity.value(result), quantity.unit))


def reference() -> str:
    """The reference of all numbers of a result, as Markdown: a table for each section."""
    parts = []
    rows = [each for each in QUANTITIES.values() if each.metric or T.DIFF in each.where or T.SWEEP in each.where]
    for name, title in {"": "The launch", **{each.name: each.title for each in SECTIONS.values()}}.items():
        cells = [
            f"| `{each.name}` | {each.unit} | {each.meaning} | {each.better} | {each.label} |"
            for each in rows
            if each.section == name
        ]
        head = f"### {title}\n\n| name | unit | meaning | better | on the page |\n|---|---|---|---|---|\n"
        parts += [head + "\n".join(cells)] if cells else []
    return "\n\n".join(parts)
