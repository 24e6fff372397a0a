"""The one-screen report of a result: plain text, at most 100 columns and some 55 lines, in Nsight Compute's words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.results.analysis import Analysis
from gpusim.results.counts import Counts, ratio
from gpusim.results.explain import read_words, shared_words
from gpusim.results.limiter import pipe_cycles, running_cycles, utilisation
from gpusim.results.metric_table import DRAM_WRITE_SECTORS
from gpusim.results.record import Sampling
from gpusim.units import aligned, byte_text, joule_text, rate_text, scaled
from isa import microops as M

WIDTH = 100
_LABEL = 16
_BAR = 20
_TOP = 5
_FINDINGS = 3
_PARTS = 4


def render(result: Analysis, all_findings: bool = False) -> str:
    """The report as text, without a line break at its end. all_findings: every finding of the advice, and not only the
    dearest that have a line."""
    counts = Counts(result.record)
    if not result.record.timed:
        untimed = (
            _launch(result),
            _row("Mode", "functional: what the instructions do, without time and energy"),
            _divergence(result, counts),
            _shared(counts),
            _coalescing(result),
            _busiest(result),
            _simulation(result, counts),
        )
        return "\n".join(line.rstrip() for part in untimed for line in part)
    parts = (
        _head(result, counts),
        _throughput(result, counts),
        _roofline(result),
        _occupancy(result),
        _divergence(result, counts),
        _shared(counts),
        _coalescing(result),
        _caches(counts),
        _stalls(result),
        _source(result),
        _advice(result, all_findings),
        _simulation(result, counts),
    )
    return "\n".join(line.rstrip() for part in parts for line in part)


def _row(label: str, text: str) -> Iterator[str]:
    """A label and text beside it, wrapped into the second column."""
    lines = textwrap.wrap(text, WIDTH - _LABEL) or [""]
    for k, line in enumerate(lines):
        yield f"{label if k == 0 else '':<{_LABEL}}{line}"


def _launch(result: Analysis) -> Iterator[str]:
    record, launch = result.record, result.record.launch
    config = record.config
    yield _cut(f"{result.kernel} on {config.gpu.name}, {config.gpu.arch}", WIDTH)
    warps = launch.blocks * record.occupancy.warps_per_block
    yield from _row(
        "Launch",
        f"grid {_dim3(launch.grid)} x block {_dim3(launch.block)}: {_count(launch.blocks, 'block')}, "
        f"{_count(warps, 'warp')}; {record.program.registers} registers per thread, {shared_words(record)}",
    )


def _head(result: Analysis, counts: Counts) -> Iterator[str]:
    record, config = result.record, result.record.config
    yield from _launch(result)
    if record.sampling is not None:
        yield from _row("Sampled", _sampling(record.sampling))
    overhead = record.cycles - running_cycles(counts)
    yield from _row(
        "Duration",
        f"{record.cycles:,} cycles = {result.time_us:,.2f} us at {config.gpu.clock_mhz:,} MHz, "
        f"of which launch overhead {overhead:,} cycles",
    )
    yield from _row("Interval", str(result.interval))
    if result.bound is not None:
        yield from _row("Bound", f"{result.bound.cycles:,} cycles ({result.bound.by}), simulated "
                        f"{ratio(record.cycles, result.bound.cycles):.2f} x")  # fmt: skip
    elif result.why_no_bound:
        yield from _row("Bound", f"not known at once: {result.why_no_bound}; `gpusim bound` takes the time")
    yield from _row("Limited by", result.limiter.sentence)
    yield from _row("Energy", _energy(result))


def _energy(result: Analysis) -> str:
    """Of the launch, where most of it goes, and what the board does about power that cannot last."""
    energy, limit = result.energy, result.record.config.energy.limit_w
    parts = sorted(energy.parts.items(), key=lambda each: -each[1])[:_PARTS]
    shares = ", ".join(f"{name} {100 * ratio(joules, energy.energy_j):.0f} %" for name, joules in parts if joules)
    text = f"{joule_text(energy.energy_j)} at {energy.power_w:,.0f} W: {shares}"
    if energy.power_w <= limit:
        return text
    clock = energy.sustained().clock_mhz
    return f"{text}; above the board's {limit:,.0f} W, which repeated launches keep at {clock:,.0f} MHz"


def _sampling(sampling: Sampling) -> str:
    """What a sampled run did."""
    if sampling.why_all:
        return f"no: {sampling.why_all}, so all are timed"
    outputs = "outputs are computed" if sampling.outputs else "outputs are not computed"
    return (
        f"{sampling.timed:,} of {sampling.blocks:,} blocks are timed, of which the GPU holds {sampling.resident:,} at "
        f"once; cycles within {100 * sampling.error:.0f} % of a detailed run in nine cases of ten; {outputs}"
    )


def _throughput(result: Analysis, counts: Counts) -> Iterator[str]:
    shares = utilisation(counts, max(int(result.record.cycles), 1))
    moved, peaks = result.roofline.bytes, result.roofline.peak_bytes_per_s
    yield ""
    yield "Throughput      of peak, over the whole duration"
    for level in ("DRAM", "L2"):
        rate = ratio(moved[level], result.roofline.seconds)
        text = f"{rate_text(rate)} of {rate_text(peaks[level])}, {byte_text(moved[level])}"
        yield _bar(level, shares[f"{level} bandwidth"], text)
    wavefronts = counts.total(L.N_SHARED_WAVEFRONTS)
    yield _bar("L1TEX data pipe", shares["L1TEX data pipe"], f"{wavefronts:,} shared-memory wavefronts")
    yield _bar("Issue slots", shares["issue slots"], f"{counts.instructions:,} warp instructions")
    pipes = pipe_cycles(counts)
    if pipes:
        busiest = max(pipes, key=lambda name: pipes[name])
        yield _bar(f"{busiest} pipe", shares[f"{busiest} pipe"], "the busiest execution pipe")


def _bar(label: str, share: float, text: str) -> str:
    filled = min(round(share * _BAR), _BAR)
    return f"  {label:<{_LABEL + 2}}{'#' * filled:.<{_BAR}} {100 * share:5.1f} %  {text}"


def _roofline(result: Analysis) -> Iterator[str]:
    roofline = result.roofline
    yield ""
    if not roofline.operations:
        yield from _row("Roofline", "no floating-point operations, so only the memory roofs apply: "
                        f"{_percent(roofline.share_of_roof)} of the {roofline.roof} roof")  # fmt: skip
        return
    kinds = ", ".join(f"{scaled(total)}FLOP {kind}" for kind, total in roofline.operations.items())
    levels = ", ".join(
        f"{level} {roofline.intensity(level):.2f}" for level in ("L1", "L2", "DRAM") if roofline.bytes[level]
    )
    peak = roofline.peak_operations_per_s[roofline.kind or "FP32"]
    yield from _row(
        "Roofline",
        f"{kinds}; FLOP per byte: {levels or 'no memory traffic'}; {scaled(roofline.operations_per_s)}FLOP/s of "
        f"{scaled(peak)}FLOP/s {roofline.kind} peak; {_percent(roofline.share_of_roof)} of the {roofline.roof} roof",
    )


def _occupancy(result: Analysis) -> Iterator[str]:
    occupancy, metrics = result.occupancy, result.metrics
    most = result.record.config.sm.max_warps
    achieved = metrics["sm__warps_active.avg.pct_of_peak_sustained_active"]
    yield from _row(
        "Occupancy",
        f"theoretical {100 * occupancy.theoretical:.1f} % ({occupancy.warps_per_sm} of {most} warps, limited by "
        f"{', '.join(occupancy.limiters)}), achieved {achieved:.1f} % "
        f"({metrics['sm__warps_active.avg.per_cycle_active']:.1f} warps); "
        f"{metrics['launch__waves_per_multiprocessor']:.2f} waves",
    )


def _divergence(result: Analysis, counts: Counts) -> Iterator[str]:
    threads = result.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"]
    pred_on = result.metrics["smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"]
    branches, divergent = counts.total(L.N_BRANCHES), counts.total(L.N_DIVERGENT)
    warp_size = result.record.config.gpu.warp_size
    parted = f"{divergent:,} of {_count(branches, 'branch')} divergent" if branches else "no branches"
    yield from _row(
        "Divergence",
        f"{threads:.2f} of {warp_size} threads active per instruction ({pred_on:.2f} with predicate on); {parted}",
    )


def _shared(counts: Counts) -> Iterator[str]:
    wavefronts, ideal = counts.total(L.N_SHARED_WAVEFRONTS), counts.total(L.N_SHARED_IDEAL)
    if not wavefronts:
        yield from _row("Bank conflicts", "no shared-memory accesses")
        return
    excessive = wavefronts - ideal
    yield from _row(
        "Bank conflicts",
        f"{wavefronts:,} shared-memory wavefronts, ideal {ideal:,}: {excessive:,} excessive "
        f"({_percent(ratio(excessive, wavefronts))})",
    )


def _coalescing(result: Analysis) -> Iterator[str]:
    counts = Counts(result.record)
    parts = []
    for what, operation in (
        ("loads", M.OP_LOAD),
        ("stores", M.OP_STORE),
        ("atomics", M.OP_ATOM),
        ("reductions", M.OP_RED),
    ):
        requests = counts.global_total(L.N_REQUESTS, operation)
        if requests:
            sectors = counts.global_total(L.N_SECTORS, operation)
            ideal = counts.global_total(L.N_SECTORS_IDEAL, operation)
            parts.append(
                f"{what} {sectors / requests:.2f} (ideal {ideal / requests:.2f}, {_count(requests, 'request')})"
            )
    yield from _row(
        "Coalescing", f"sectors per request: {', '.join(parts)}" if parts else "no global-memory accesses"
    )


def _caches(counts: Counts) -> Iterator[str]:
    loads = counts.global_total(L.N_SECTORS, M.OP_LOAD)
    hits = counts.global_total(L.N_HITS, M.OP_LOAD)
    l2_hits, l2_misses = counts.memory(S.CNT_TEX_HIT_SECTORS), counts.memory(S.CNT_TEX_MISS_SECTORS)
    parts = [f"L1 {_percent(hits / loads)} of {_count(loads, 'sector')} loaded"] if loads else []
    if l2_hits + l2_misses:
        parts.append(
            f"L2 {_percent(l2_hits / (l2_hits + l2_misses))} of {_count(l2_hits + l2_misses, 'sector')}"
        )
    written = counts.memory_bytes(*DRAM_WRITE_SECTORS)
    parts.append(f"DRAM read {read_words(counts)}, written {byte_text(written)}")
    yield from _row("Cache hit rates", "; ".join(parts))


def _stalls(result: Analysis) -> Iterator[str]:
    metrics = result.metrics
    latency = metrics["smsp__average_warp_latency_per_inst_issued.ratio"]
    yield ""
    yield f"Stall reasons   {latency:.1f} warp cycles per issued instruction, of which"
    waits = [
        (reason, each)
        for reason, each in result.stall_reasons.items()
        if reason != "selected" and each.cycles
    ]
    for reason, each in waits[:_TOP]:
        yield _bar(reason, each.share, f"{each.cycles_per_instruction:.1f} cycles")
    if not waits:
        yield "  none: every warp cycle issues"


def _source(result: Analysis) -> Iterator[str]:
    lines = [row for row in result.source_lines if row.instructions or row.cycles]
    total = sum(row.cycles for row in lines)
    several = len({row.file for row in lines[:_TOP] if row.file}) > 1
    yield ""
    yield f"{'Source lines':<12}{'cycles':>12}{'instructions':>14}{'threads':>9}  {'main stall':<18} line"
    for row in lines[:_TOP]:
        where = "no source line" if row.line is None else f"{row.line}: {row.text}"
        if several and row.file:
            where = f"{Path(row.file).name}:{where}"
        numbers = aligned(
            (f"  {100 * ratio(row.cycles, total):5.1f} %", -9), (f"{row.cycles:,}", 15), (f"{row.instructions:,}", 14),
            (f"{row.threads_per_instruction:.1f}", 9),
        )  # fmt: skip
        yield _cut(f"{numbers}  {row.main_stall or '-':<18} {where}", WIDTH)


def _busiest(result: Analysis) -> Iterator[str]:
    """The source lines with most instructions."""
    lines = sorted((row for row in result.source_lines if row.instructions), key=lambda row: -row.instructions)
    yield ""
    yield f"{'Source lines':<14}{'instructions':>14}{'threads':>9}  line"
    for row in lines[:_TOP]:
        where = "no source line" if row.line is None else f"{row.line}: {row.text}"
        numbers = aligned((f"{row.instructions:,}", 28), (f"{row.threads_per_instruction:.1f}", 9))
        yield _cut(f"{numbers}  {where}", WIDTH)


def _advice(result: Analysis, all_findings: bool) -> Iterator[str]:
    """The dearest findings that have a line: what the launch as a whole lacks is said above."""
    every = result.advice
    findings = every if all_findings else [each for each in every if each.line is not None][:_FINDINGS]
    if every:
        yield ""
    for k, finding in enumerate(findings):
        label = "Advice" if k == 0 else ""
        yield from _row(f"{label:<8}{100 * finding.share:4.0f} %", f"{_capital(finding.kind)}. {finding.sentence}")
    if len(findings) < len(every):
        label = "" if findings else "Advice"
        count = f"{len(findings)} of {_count(len(every), 'finding')}"
        yield from _row(label, f"{count}, more with --all (in Python: result.advice)")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _simulation(result: Analysis, counts: Counts) -> Iterator[str]:
    record = result.record
    threads = _count(record.host_threads, "host thread")
    products = f", {scaled(result.matrix_rate)}FLOP/s of matrix products" if result.matrix_rate else ""
    yield ""
    yield from _row(
        "Simulation",
        f"{counts.instructions:,} warp instructions in {record.host_seconds:.2f} s: {scaled(result.rate)}"
        f"instructions/s{products} on {threads}",
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _count(number: int, noun: str) -> str:
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{plural}"


def _dim3(value: tuple[int, ...]) -> str:
    return "(" + ", ".join(f"{each:,}" for each in value) + ")"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def render_profile(result: Analysis) -> str:
    """Where the host's time went, part by part, and what more host threads could give."""
    record = result.record
    total, instructions = max(record.host_seconds, 1e-9), max(Counts(record).instructions, 1)
    lines = [f"{'Host time':<28}{'s':>8}{'share':>9}{'ns per instruction':>21}"]
    for part, seconds in sorted(record.host_parts.items(), key=lambda each: -each[1]):
        nanoseconds = 1e9 * seconds / instructions
        lines.append(f"  {part:<26}{seconds:>8.3f}{100 * seconds / total:>8.1f} %{nanoseconds:>19.1f}")
    serial = (record.host_parts["memory system"] + record.host_parts["between windows"]) / total
    if record.host_threads == 1:
        gains = ", ".join(f"{1 / (serial + (1 - serial) / n):.2f} x on {n}" for n in (2, 8, 64))
        lines.append(f"  {_percent(serial)} of it is serial: at most {gains} threads")
    return "\n".join(lines)
