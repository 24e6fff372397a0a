"""The terminal's lines of what is more than a number: sentences, bars and tables, from an `Analysis`.

`gpusim.results.quantities` says which stand in the report, and in which order. Text has at most `WIDTH` columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gpusim.engine.state import L, ms
from gpusim.results.analysis import Analysis, SourceLine
from gpusim.results.counts import Counts, ratio
from gpusim.results.limiter import pipe_cycles, running_cycles, utilisation
from gpusim.results.metrics import DRAM_READ_SECTORS, DRAM_WRITE_SECTORS
from gpusim.results.record import LaunchRecord
from gpusim.results.roofline import Roofline
from gpusim.units import aligned, byte_text, counted, cut, joule_text, rate_text, scaled
from isa import microops as M

WIDTH = 100
LABEL = 16
_BAR = 20
_TOP = 5
_FINDINGS = 4
_PARTS = 4


def line(label: str, sentence: Callable[[Analysis], str]) -> Callable[[Analysis, bool], Iterator[str]]:
    """The lines of a sentence, with a label beside it; none of an empty one."""

    def lines(result: Analysis, whole: bool) -> Iterator[str]:
        if text := sentence(result):
            yield from labelled(label, text)

    return lines


def labelled(label: str, text: str) -> Iterator[str]:
    """A label and text beside it, wrapped into the second column."""
    for k, each in enumerate(textwrap.wrap(text, WIDTH - LABEL) or [""]):
        yield f"{label if k == 0 else '':<{LABEL - 1}} {each}"


def kernel(result: Analysis, whole: bool) -> Iterator[str]:
    """The first line: what ran where."""
    gpu = result.record.config.gpu
    yield cut(f"{result.kernel} on {gpu.name}, {gpu.arch}")


def launch(result: Analysis) -> str:
    """Grid, block, and what a block takes of an SM."""
    record, launched = result.record, result.record.launch
    stack = f", {record.program.local_bytes:,} bytes of stack" if record.program.local_bytes else ""
    return (
        f"grid {_dim3(launched.grid)} x block {_dim3(launched.block)}: {counted(launched.blocks, 'block')}, "
        f"{counted(launched.blocks * record.occupancy.warps_per_block, 'warp')}; "
        f"{record.program.registers} registers{stack} per thread, {shared_words(record)}"
    )


def mode(result: Analysis) -> str:
    """Say what a functional run leaves out, and whose times those of another machine are."""
    if result.record.machine:
        return f"simpy: results and counts are the engine's, times those of {result.record.machine}"
    without = "" if result.record.timed else "functional: what the instructions do, without time and energy"
    return "once: with the time of an earlier launch that did the same" if result.record.mode == "once" else without


def duration(result: Analysis) -> str:
    """Cycles and time, and how much of them is overhead."""
    record = result.record
    overhead = record.cycles - running_cycles(result.counts)
    return (
        f"{record.cycles:,} cycles = {result.time_us:,.2f} us at {record.config.gpu.clock_mhz:,} MHz, "
        f"of which launch overhead {overhead:,} cycles"
    )


def bound(result: Analysis) -> str:
    """The least time, if it was asked for."""
    if result.bound is not None:
        times = ratio(result.cycles, result.bound.cycles)
        return f"{result.bound.cycles:,} cycles ({result.bound.by}), simulated {times:.2f} x"
    why = result.why_no_bound
    return f"not known at once: {why}; `gpusim bound` takes the time" if why else ""


def energy(result: Analysis) -> str:
    """Energy of the launch, where most of it goes, and what the board does about power that cannot last."""
    found, limit = result.energy, result.record.config.energy.limit_w
    parts = sorted(found.parts.items(), key=lambda each: -each[1])[:_PARTS]
    shares = ", ".join(f"{name} {100 * ratio(joules, found.energy_j):.0f} %" for name, joules in parts if joules)
    text = f"{joule_text(found.energy_j)} at {found.power_w:,.0f} W: {shares}"
    if found.power_w <= limit:
        return text
    clock = found.sustained().clock_mhz
    return f"{text}; above the board's {limit:,.0f} W, which repeated launches keep at {clock:,.0f} MHz"


def sampled(result: Analysis) -> str:
    """Say what a sampled run did."""
    if (sampling := result.sampling) is None:
        return ""
    if sampling.why_all:
        return f"no: {sampling.why_all}, so all are timed"
    outputs = "outputs are computed" if sampling.outputs else "outputs are not computed"
    return (
        f"{sampling.timed:,} of {sampling.blocks:,} blocks are timed, of which the GPU holds {sampling.resident:,} at "
        f"once; cycles within {100 * sampling.error:.0f} % of a detailed run in nine cases of ten; {outputs}"
    )


def throughput(result: Analysis, whole: bool) -> Iterator[str]:
    """A bar for each level of memory, the data pipe, issue slots and the busiest pipe."""
    counts = result.counts
    shares = utilisation(counts, max(int(result.record.cycles), 1))
    moved, peaks = result.roofline.bytes, result.roofline.peak_bytes_per_s
    yield ""
    yield "Throughput      of peak, over the whole duration"
    for level in ("DRAM", "L2"):
        rate = ratio(moved[level], result.roofline.seconds)
        text = f"{rate_text(rate)} of {rate_text(peaks[level])}, {byte_text(moved[level])}"
        yield _bar(level, shares[f"{level} bandwidth"], text)
    wavefronts = counts.total(L.COUNT_SHARED_WAVEFRONTS)
    yield _bar("L1TEX data pipe", shares["L1TEX data pipe"], f"{wavefronts:,} shared-memory wavefronts")
    yield _bar("Issue slots", shares["issue slots"], f"{counts.instructions:,} warp instructions")
    if pipes := pipe_cycles(counts):
        busiest = max(pipes, key=lambda name: pipes[name])
        yield _bar(f"{busiest} pipe", shares[f"{busiest} pipe"], "the busiest execution pipe")


def _bar(label: str, share: float, text: str) -> str:
    filled = min(round(share * _BAR), _BAR)
    return f"  {label:<{LABEL + 2}}{'#' * filled:.<{_BAR}} {100 * share:5.1f} %  {text}"


def roofline(result: Analysis, whole: bool) -> Iterator[str]:
    """Operations, intensity, and the share of the lowest roof."""
    yield ""
    yield from labelled("Roofline", _roofline(result.roofline))


def _roofline(found: Roofline) -> str:
    roof = f"{_percent(found.share_of_roof)} of the {found.roof} roof"
    if not found.operations:
        return f"no floating-point operations, so only the memory roofs apply: {roof}"
    kinds = ", ".join(f"{scaled(total)}FLOP {kind}" for kind, total in found.operations.items())
    levels = ", ".join(f"{level} {found.intensity(level):.2f}" for level in ("L1", "L2", "DRAM") if found.bytes[level])
    peak = found.peak_operations_per_s[found.kind or "FP32"]
    return (
        f"{kinds}; FLOP per byte: {levels or 'no memory traffic'}; {scaled(found.operations_per_s)}FLOP/s of "
        f"{scaled(peak)}FLOP/s {found.kind} peak; {roof}"
    )


def occupancy(result: Analysis) -> str:
    """Theoretical and achieved occupancy, and waves."""
    if not result.record.timed:
        return ""
    found, metrics = result.occupancy, result.metrics
    achieved = metrics["sm__warps_active.avg.pct_of_peak_sustained_active"]
    return (
        f"theoretical {100 * found.theoretical:.1f} % ({found.warps_per_sm} of {result.record.config.sm.max_warps} "
        f"warps, limited by {', '.join(found.limiters)}), achieved {achieved:.1f} % "
        f"({metrics['sm__warps_active.avg.per_cycle_active']:.1f} warps); "
        f"{metrics['launch__waves_per_multiprocessor']:.2f} waves"
    )


def divergence(result: Analysis) -> str:
    """Active threads, and branches that part them."""
    threads = result.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"]
    pred_on = result.metrics["smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"]
    branches, divergent = result.counts.total(L.COUNT_BRANCHES), result.counts.total(L.COUNT_DIVERGENT)
    parted = f"{divergent:,} of {counted(branches, 'branch')} divergent" if branches else "no branches"
    return (
        f"{threads:.2f} of {result.record.config.gpu.warp_size} threads active per instruction ({pred_on:.2f} with "
        f"predicate on); {parted}"
    )


def conflicts(result: Analysis) -> str:
    """Wavefronts of shared memory, and how many of them are excessive."""
    wavefronts, ideal = (result.counts.total(each) for each in (L.COUNT_SHARED_WAVEFRONTS, L.COUNT_SHARED_IDEAL))
    if not wavefronts:
        return "no shared-memory accesses"
    share = _percent(ratio(wavefronts - ideal, wavefronts))
    return f"{wavefronts:,} shared-memory wavefronts, ideal {ideal:,}: {wavefronts - ideal:,} excessive ({share})"


OPERATIONS = {"loads": M.OP_LOAD, "stores": M.OP_STORE, "atomics": M.OP_ATOM, "reductions": M.OP_RED}
"""Accesses to memory by what they do."""


def coalescing(result: Analysis) -> str:
    """Sectors per request beside the ideal, by operation."""
    parts = []
    for what, operation in OPERATIONS.items():
        fields = (L.COUNT_REQUESTS, L.COUNT_SECTORS, L.COUNT_SECTORS_IDEAL)
        requests, sectors, ideal = (result.counts.global_total(each, operation) for each in fields)
        if requests:
            each = f"{sectors / requests:.2f} (ideal {ideal / requests:.2f}, {counted(requests, 'request')})"
            parts.append(f"{what} {each}")
    return f"sectors per request: {', '.join(parts)}" if parts else "no global-memory accesses"


def caches(result: Analysis) -> str:
    """Hit rates of L1 and L2, and traffic of device memory."""
    counts = result.counts
    loads, hits = (counts.global_total(each, M.OP_LOAD) for each in (L.COUNT_SECTORS, L.COUNT_HITS))
    found, missed = counts.memory(ms.CNT_TEX_HIT_SECTORS), counts.memory(ms.CNT_TEX_MISS_SECTORS)
    parts = [f"L1 {_percent(hits / loads)} of {counted(loads, 'sector')} loaded"] if loads else []
    if found + missed:
        parts.append(f"L2 {_percent(found / (found + missed))} of {counted(found + missed, 'sector')}")
    parts.append(f"DRAM read {read_words(counts)}, written {byte_text(counts.memory_bytes(*DRAM_WRITE_SECTORS))}")
    return "; ".join(parts)


def stalls(result: Analysis, whole: bool) -> Iterator[str]:
    """The costliest stall reasons."""
    latency = result.metrics["smsp__average_warp_latency_per_inst_issued.ratio"]
    yield ""
    yield f"Stall reasons   {latency:.1f} warp cycles per issued instruction, of which"
    waits = {name: each for name, each in result.stall_reasons.items() if name != "selected" and each.cycles}
    for reason, each in list(waits.items())[:_TOP]:
        yield _bar(reason, each.share, f"{each.cycles_per_instruction:.1f} cycles")
    if not waits:
        yield "  none: every warp cycle issues"


def source(result: Analysis, whole: bool) -> Iterator[str]:
    """The costliest source lines; without times those with most instructions."""
    lines = [row for row in result.source_lines if row.instructions or row.cycles]
    yield ""
    if not result.record.timed:
        yield f"{'Source lines':<14}{'instructions':>14}{'threads':>9}  line"
        for row in sorted(lines, key=lambda row: -row.instructions)[:_TOP]:
            numbers = aligned((f"{row.instructions:,}", 28), (f"{row.threads_per_instruction:.1f}", 9))
            yield cut(f"{numbers}  {_place(row)}")
        return
    total = sum(row.cycles for row in lines)
    several = len({row.file for row in lines[:_TOP] if row.file}) > 1
    yield f"{'Source lines':<12}{'cycles':>12}{'instructions':>14}{'threads':>9}  {'main stall':<18} line"
    for row in lines[:_TOP]:
        numbers = aligned(
            (f"  {100 * ratio(row.cycles, total):5.1f} %", -9), (f"{row.cycles:,}", 15), (f"{row.instructions:,}", 14),
            (f"{row.threads_per_instruction:.1f}", 9),
        )  # fmt: skip
        where = f"{Path(row.file).name}:" if several and row.file else ""
        yield cut(f"{numbers}  {row.main_stall or '-':<18} {where}{_place(row)}")


def _place(row: SourceLine) -> str:
    return "no source line" if row.line is None else f"{row.line}: {row.text}"


def advice(result: Analysis, whole: bool) -> Iterator[str]:
    """The dearest findings, or all: the list with which the page begins, in its order."""
    every = result.advice
    findings = every if whole else every[:_FINDINGS]
    if every:
        yield ""
    for k, each in enumerate(findings):
        label = f"{'Advice' if k == 0 else '':<8}{100 * each.share:4.0f} %"
        yield from labelled(label, f"{capital(each.kind)}. {each.sentence}")
    if len(findings) < len(every):
        count = f"{len(findings)} of {counted(len(every), 'finding')}"
        yield from labelled("", f"{count}, more with --all (in Python: result.advice)")


def capital(text: str) -> str:
    """A text with a capital letter."""
    return text[:1].upper() + text[1:]


def simulation(result: Analysis, whole: bool) -> Iterator[str]:
    """Lines on the simulator's own speed."""
    record = result.record
    products = f", {scaled(result.matrix_rate)}FLOP/s of matrix products" if result.matrix_rate else ""
    yield ""
    yield from labelled(
        "Simulation",
        f"{result.counts.instructions:,} warp instructions in {record.host_seconds:.2f} s: {scaled(result.rate)}"
        f"instructions/s{products} on {counted(record.host_threads, 'host thread')}",
    )


def _dim3(value: tuple[int, ...]) -> str:
    return "(" + ", ".join(f"{each:,}" for each in value) + ")"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def render_profile(result: Analysis) -> str:
    """Return where the host's time went, part by part, and what more host threads could give."""
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


def shared_words(record: LaunchRecord) -> str:
    """Shared memory of a block, and how much of it the kernel has not asked for."""
    total, own = record.occupancy.shared_bytes_per_block, record.program.static_shared_bytes
    own += record.launch.shared_bytes
    kept = record.config.sm.shared_reserved_bytes
    told = f"{total:,} B of shared memory per block"
    if not kept or total <= own:
        return told
    if not own:
        return f"{told}, which the CUDA driver keeps for itself"
    rounded = f", in units of {record.config.sm.shared_unit_bytes:,}" if total > own + kept else ""
    return f"{told}: {own:,} of its own and {kept:,} that the CUDA driver keeps for itself{rounded}"


def read_words(counts: Counts) -> str:
    """Bytes read from device memory, and what of them the program has not asked for, or more than once."""
    record = counts.record
    read = counts.memory_bytes(*DRAM_READ_SECTORS)
    asked = counts.memory_bytes(ms.CNT_HOME_MISS_SECTORS)
    along = counts.memory_bytes(ms.CNT_FILL_SECTORS) - asked
    held = sum(int(getattr(each, "nbytes", 0)) for each in record.launch.args)
    again = max(asked - held, 0) if held and not record.program.local_bytes else 0
    parts = (
        (counts.memory_bytes(ms.CNT_LAUNCH_SECTORS), "the launch's own: code and constants"),
        (along, f"that came along, since memory is read {record.config.l2.fetch_bytes} B at a time"),
        (counts.memory_bytes(ms.CNT_MERGE_SECTORS), "for sectors written in part"),
        (again, "at least once more, as L2 had not kept them"),
    )
    told = ", ".join(f"{byte_text(nbytes)} {why}" for nbytes, why in parts if nbytes > 0)
    return byte_text(read) + (f" ({told})" if told else "")


def checked_words(counts: Counts, names: Iterable[str]) -> Iterator[str]:
    """For each check that found nothing, what it has looked at: a line each. names: as in `gpusim.CHECKS`."""
    shared = counts.shared_total(L.COUNT_SHARED_REQUESTS)
    bars = counts.opcode_total(L.COUNT_EXECUTED, "BAR", "WARPSYNC", "UCGABAR_ARV")
    reads = (M.OP_LOAD, M.OP_ATOM)
    read = counts.global_total(L.COUNT_REQUESTS, *reads) + counts.shared_total(L.COUNT_SHARED_REQUESTS, *reads)
    every = counts.global_total(L.COUNT_REQUESTS) + shared
    looked_at = {
        "memcheck": (every, "accesses to global or shared memory", "out of bounds, misaligned or to freed memory"),
        "initcheck": (read, "reads of global or shared memory", "of what nothing had been written to"),
        "racecheck": (shared, "accesses to shared memory", "in a race (it does not look at global memory)"),
        "synccheck": (bars, "barriers", "misused"),
    }
    for name in names:
        number, what, wrong = looked_at[name]
        yield f"{name}: none of {number:,} {what} is {wrong}" if number else f"{name}: the launch has no {what}"
