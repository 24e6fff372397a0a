"""What costs a launch its time, each cause with the number that says so and what to try, the dearest first.

The limiter names one thing; here are all of them. A finding's `share` is the part of the launch's duration that its
cause takes, an upper bound of what removing it is worth:

- What occupies a unit (excessive wavefronts, sectors) is held against the duration on the SMs that have blocks.
- What warps wait for or do without need (barriers, loops, idle lanes) counts as its part of all warp cycles, which
  pass while blocks run; the launch overhead is a finding of its own.

Parts overlap: warps wait for memory while others wait at a barrier. They need not add up to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gpusim.config.derived import peak_bytes_per_cycle
from gpusim.engine.state import layout as L
from gpusim.engine.state.memory import SECTOR_BYTES
from gpusim.results.counts import GLOBAL, SHARED, Counts, Place, ratio
from gpusim.results.limiter import BUSY, running_cycles, utilisation
from gpusim.results.record import LaunchRecord
from isa import microops as M

LEAST = 0.001
"""Share of the duration below which nothing is said."""
_SECOND = 0.02
"""Share from which a second finding of a kind is worth a sentence."""
_ARITHMETIC = {
    "FADD", "FMUL", "FFMA", "FMNMX", "DADD", "DMUL", "DFMA", "IADD3", "IMAD", "IMNMX", "VIMNMX", "LOP3", "HADD2",
}  # fmt: skip
_LOOP_CONTROL = {"ISETP", "UISETP", "PLOP3", "BRA", "BSSY", "BSYNC", "BREAK"}
_SHORT = {"LDS", "S2R", "S2UR", "SHFL", "MUFU", "LDSM", "ATOMS", "VOTE", "MATCH", "REDUX", "F2I", "I2F", "POPC"}
_WORK = ("selected", "not_selected", "wait", "branch_resolving", "dispatch_stall", "math_pipe_throttle")


@dataclass(frozen=True)
class Finding:
    """One cause of lost time.

    kind: a short name, such as 'bank conflicts'. file and line: where in the source, None for the whole launch.
    value: the number that decides it, in the unit that the sentence names. share: of the launch's duration, 0 to 1.
    sentence: what was found, with its numbers, and what to try.
    """

    kind: str
    file: str | None
    line: int | None
    value: float
    share: float
    sentence: str


class _Launch:
    """What the rules read, summed once."""

    def __init__(self, counts: Counts):
        self.counts, self.record, self.counters = counts, counts.record, counts.counters
        self.instructions = self.record.program.instructions
        self.warp_size = self.record.config.gpu.warp_size
        self.cycles = max(int(self.record.cycles), 1)
        self.running = running_cycles(counts)
        self.warps = self.record.launch.blocks * self.record.occupancy.warps_per_block
        self.sms = max(int((self.record.sm_blocks > 0).sum()), 1)
        self.stalls = self.counters[:, L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)]
        self.warp_cycles = max(int(self.stalls.sum()), 1)

    def of_duration(self, warp_cycles: float) -> float:
        """Share of the launch that these warp cycles stand for."""
        return warp_cycles / self.warp_cycles * self.running / self.cycles

    def waits(self, *reasons: str) -> np.ndarray:
        """Warp cycles by instruction for some stall reasons."""
        return self.stalls[:, [L.STALLS.index(reason) for reason in reasons]].sum(axis=1)

    def place(self, row: int) -> Place:
        """File and line of an instruction."""
        return self.instructions[row].file, self.instructions[row].line


def find(counts: Counts | LaunchRecord) -> list[Finding]:
    """Everything that costs a launch at least `LEAST` of its duration, the dearest first; of a kind at most two."""
    launch = _Launch(counts if isinstance(counts, Counts) else Counts(counts))
    kept: list[Finding] = []
    for rule in RULES:
        found = sorted((each for each in rule(launch) if each.share >= LEAST), key=lambda each: -each.share)
        kept += [each for k, each in enumerate(found[:2]) if k == 0 or each.share >= _SECOND]
    return sorted(kept, key=lambda each: -each.share)


def _line(place: Place) -> str:
    return "an unknown line" if place[1] is None else f"line {place[1]}"


def _where(place: Place) -> str:
    return "Instructions without a source line" if place[1] is None else f"Line {place[1]}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1f} %"


def bank_conflicts(launch: _Launch) -> Iterator[Finding]:
    """Wavefronts of shared memory beyond the ideal, by line."""
    shared = launch.counts.accesses(SHARED)
    cycles = launch.record.config.shared.wavefront_cycles
    for place, rows in launch.counts.lines.items():
        members = rows[shared[rows]]
        total = int(launch.counters[members, L.COUNT_SHARED_WAVEFRONTS].sum())
        excessive = total - int(launch.counters[members, L.COUNT_SHARED_IDEAL].sum())
        if excessive <= 0:
            continue
        each = ratio(total, int(launch.counters[members, L.COUNT_SHARED_REQUESTS].sum()))
        share = excessive * cycles / launch.sms / launch.cycles
        yield Finding("bank conflicts", *place, excessive, min(share, 1.0), (
            f"{_where(place)}: {excessive:,} of {total:,} shared-memory wavefronts are excessive"
            + (f" ({each:.1f} wavefronts per request)" if each else "")
            + f", {_percent(share)} of the time on the shared-memory data pipe. "
            "Pad the rows by one word, or let neighbouring threads use neighbouring words."
        ))  # fmt: skip


def uncoalesced(launch: _Launch) -> Iterator[Finding]:
    """Sectors of global memory beyond the ideal, by line."""
    config = launch.record.config
    bandwidth = min(launch.sms * config.crossbar.sm_reply_bytes_per_cycle, peak_bytes_per_cycle(config)["L2"])
    latency = config.l2.latency_near_cycles
    rows_global = launch.counts.accesses(GLOBAL)
    for place, rows in launch.counts.lines.items():
        members = rows[rows_global[rows]]
        ideal, sectors = launch.counters[members, L.COUNT_SECTORS_IDEAL], launch.counters[members, L.COUNT_SECTORS]
        excessive = int(np.maximum(sectors - ideal, 0).sum())
        if not excessive:
            continue
        worst = int(members[np.argmax(sectors - ideal)])
        total = int(sectors.sum())
        requests = int(launch.counters[worst, L.COUNT_REQUESTS])
        # What is worn out first: the way to L2; the sectors of loads and lines of stores that an SM may have on their
        # way, each for the latency of L2; slices, which merge a sector that is written in part.
        stores = launch.counts.code[members, M.COL_OP] != M.OP_LOAD
        over = np.maximum(sectors - ideal, 0)
        lines = np.maximum(launch.counters[members, L.COUNT_TAGS] - ideal * SECTOR_BYTES // config.l2.line_bytes, 0)
        in_flight = (
            float(over[~stores].sum()) / config.l1.max_outstanding_sectors
            + 2 * float(lines[stores].sum()) / config.l1.max_outstanding_flits  # a header and a sector
        )
        merging = float(over[stores].sum()) * config.l2.partial_write_cycles / config.l2.slices
        cycles = max(excessive * SECTOR_BYTES / bandwidth, in_flight * latency / launch.sms, merging)
        share = cycles / launch.cycles
        yield Finding("uncoalesced accesses", *place, excessive, min(share, 1.0), (
            f"{_where(place)}: {launch.instructions[worst].opcode} touches "
            f"{ratio(int(launch.counters[worst, L.COUNT_SECTORS]), requests):.1f} sectors per request where "
            f"{ratio(int(launch.counters[worst, L.COUNT_SECTORS_IDEAL]), requests):.1f} would do: {excessive:,} of "
            f"{total:,} sectors are excessive, {_percent(share)} of the time on the way to L2. Let neighbouring "
            "threads touch neighbouring addresses, through a tile in shared memory where rows become columns."
        ))  # fmt: skip


def divergence(launch: _Launch) -> Iterator[Finding]:
    """Warp cycles of lanes that other lanes of their warp wait for, by line."""
    divergent = launch.counters[:, L.COUNT_DIVERGENT]
    if not divergent.any():
        return
    full = launch.record.launch.threads_per_block / launch.record.occupancy.warps_per_block
    for place, rows in launch.counts.lines.items():
        executed = launch.counters[rows, L.COUNT_EXECUTED]
        threads = launch.counters[rows, L.COUNT_THREADS]
        idle = 1 - threads / np.maximum(executed * full, 1)
        lost = float((launch.stalls[rows].sum(axis=1) * np.where(executed > 0, np.maximum(idle, 0), 0)).sum())
        before = divergent[: rows[-1] + 1]
        if lost <= 0 or not before.any():
            continue
        branch = int(np.argmax(before))
        active = ratio(int(threads[idle > 0].sum()), int(executed[idle > 0].sum()))
        share = launch.of_duration(lost)
        yield Finding("divergence", *place, active, share, (
            f"{_where(place)} runs with {active:.1f} of {launch.warp_size} lanes active; {int(divergent[branch]):,} of "
            f"{int(launch.counters[branch, L.COUNT_BRANCHES]):,} executions of the branch of "
            f"{_line(launch.place(branch))} diverge. Idle lanes cost {_percent(share)} of the time. "
            "Let threads that do the same be neighbours, so that whole warps take one path."
        ))  # fmt: skip


def barriers(launch: _Launch) -> Iterator[Finding]:
    """Waits at barriers of the block, by the line of the barrier."""
    bars = np.flatnonzero(launch.counts.opcodes("BAR")).tolist()
    waits = launch.waits("barrier")
    if not bars or not waits.any():
        return
    cost: dict[Place, float] = {}
    for row in np.flatnonzero(waits).tolist():
        # The wait is counted at the instruction behind the barrier.
        place = launch.place(bars[max(int(np.searchsorted(bars, row)) - 1, 0)])
        cost[place] = cost.get(place, 0.0) + float(waits[row])
    for place, cycles in cost.items():
        executed = int(launch.counters[[bar for bar in bars if launch.place(bar) == place], L.COUNT_EXECUTED].sum())
        share = launch.of_duration(cycles)
        each = ratio(executed, launch.warps)
        yield Finding("barriers", *place, executed, share, (
            f"{_where(place)}: each warp arrives {each:.1f} times at this barrier of the block ({executed:,} in all) "
            f"and waits there {_percent(share)} of the time. Do more work between two barriers; between the threads of "
            "one warp syncwarp is enough, so that the last warp of a reduction can go on alone."
        ))  # fmt: skip


def loops(launch: _Launch) -> Iterator[Finding]:
    """Counters, tests and branches of loops, by the line that jumps back."""
    time = launch.waits(*_WORK)
    control = launch.counts.opcodes(*_LOOP_CONTROL)
    others = launch.counts.opcodes("BAR") | (launch.counts.code[:, M.COL_CLASS] == M.CLS_MEMORY)
    for row, each in enumerate(launch.instructions):
        target = next((o.value for o in each.operands if o.kind == "label"), None) if each.opcode == "BRA" else None
        executed = int(launch.counters[row, L.COUNT_EXECUTED])
        if not isinstance(target, int) or target >= each.address or not executed:
            continue
        body = np.arange(target // 16, row + 1)
        own = np.array([launch.place(k) == launch.place(row) for k in body.tolist()])
        members = body[(control[body] | own) & ~others[body]]
        overhead = int(launch.counters[members, L.COUNT_EXECUTED].sum())
        total = int(launch.counters[body, L.COUNT_EXECUTED].sum())
        share = launch.of_duration(float(time[members].sum()))
        yield Finding("loop overhead", *launch.place(row), overhead, share, (
            f"{_where(launch.place(row))}: the loop goes round {ratio(executed, launch.warps):.1f} times "
            f"per warp; its counter, tests and branches are {overhead:,} of its {total:,} warp instructions and "
            f"{_percent(share)} of the time. Make the number of rounds a constant, so that the compiler unrolls all of "
            "it, or unroll by hand."
        ))  # fmt: skip


def work_per_thread(launch: _Launch) -> Iterator[Finding]:
    """Blocks that pay for their common part once for each element or two that a thread loads.

    Half as many blocks take half the time where blocks follow each other. Where all of them run at once, time is saved
    as far as they share something: as much as the busiest resource is used.
    """
    bars = np.flatnonzero(launch.counts.opcodes("BAR") & (launch.counters[:, L.COUNT_EXECUTED] > 0)).tolist()
    loads = launch.counts.global_total(L.COUNT_REQUESTS, M.OP_LOAD)
    each = ratio(loads, launch.warps)
    if not bars or not 0 < each <= 2:
        return
    after = np.arange(len(launch.counters)) > bars[0]
    count = int(launch.counters[after, L.COUNT_EXECUTED].sum())
    record = launch.record
    at_once = record.launch.blocks <= record.config.sm.count * record.occupancy.blocks_per_sm
    shared = min(next(iter(utilisation(launch.counts, launch.running).values())), 1.0) if at_once else 1.0
    share = launch.of_duration(float(launch.stalls[after].sum())) / 2 * shared
    yield Finding("work per thread", *launch.place(bars[0]), each, share, (
        f"{_where(launch.place(bars[0]))}: each thread loads {each:.1f} times from global memory, and behind the first "
        f"barrier its warp executes {ratio(count, launch.warps):.0f} instructions, however little was loaded. Twice "
        f"the elements per thread, combined while loading, need half of them: {_percent(share)} of the time."
        + (" All blocks run at once here; on a larger grid it is worth more." if at_once else "")
    ))  # fmt: skip


def shared_exchange(launch: _Launch) -> Iterator[Finding]:
    """Partial results that go through shared memory from one step to the next."""
    chains = [row for row in range(len(launch.instructions)) if _accumulates(launch, row)]
    stores = int(launch.counters[chains, L.COUNT_EXECUTED].sum())
    if not stores:
        return
    loads = launch.counts.opcodes("LDS")
    accesses = loads | launch.counts.opcodes("STS")
    short = launch.waits("short_scoreboard", "mio_throttle").sum()
    executed = launch.counters[:, L.COUNT_EXECUTED]
    part = ratio(int(executed[loads].sum()), int(executed[launch.counts.opcodes(*_SHORT)].sum()))
    share = launch.of_duration(part * float(short) + float(launch.waits("selected", "wait")[accesses].sum()))
    share += launch.of_duration(float(launch.waits("barrier").sum())) / 2
    count = int(launch.counters[accesses, L.COUNT_EXECUTED].sum())
    place = launch.place(max(chains, key=lambda row: int(launch.counters[row, L.COUNT_EXECUTED])))
    yield Finding("shared-memory exchange", *place, count, share, (
        f"{_where(place)}: {stores:,} of {count:,} shared-memory instructions hand a partial result on to the next "
        f"step; with the waits for them and half of the barriers that is {_percent(share)} of the time. Lanes of a "
        "warp exchange registers by shuffles (shfl_down_sync) instead; one word per warp is left for shared memory."
    ))  # fmt: skip


def _accumulates(launch: _Launch, row: int) -> bool:
    """Whether an instruction stores to shared memory what arithmetic made of a word of shared memory."""
    store = launch.instructions[row]
    if store.opcode != "STS" or store.operands[-1].kind != "reg":
        return False
    adder = _writer(launch, row, store.operands[-1].index)
    if adder is None or launch.instructions[adder].opcode not in _ARITHMETIC:
        return False
    sources = [o.index for o in launch.instructions[adder].operands[1:] if o.kind == "reg"]
    writers = [_writer(launch, adder, source) for source in sources]
    return any(each is not None and launch.instructions[each].opcode == "LDS" for each in writers)


def _writer(launch: _Launch, row: int, register: int) -> int | None:
    """The last instruction before `row` in the listing that writes a register."""
    for index in range(row - 1, max(row - 64, -1), -1):
        operands = launch.instructions[index].operands
        if operands and operands[0].kind == "reg" and operands[0].index == register and (
            launch.instructions[index].opcode not in ("STS", "STG", "ST")
        ):  # fmt: skip
            return index
    return None


def memory_latency(launch: _Launch) -> Iterator[Finding]:
    """Waits for loads, by the line of the load."""
    waits = launch.waits("long_scoreboard", "lg_throttle")
    cost: dict[int, float] = {}
    for waiting in np.flatnonzero(waits).tolist():
        load = _producer(launch, waiting)
        cost[load] = cost.get(load, 0.0) + float(waits[waiting])
    by_line: dict[Place, float] = {}
    for row, cycles in cost.items():
        by_line[launch.place(row)] = by_line.get(launch.place(row), 0.0) + cycles
    resident = ratio(launch.counts.warp_cycles, launch.counts.active_cycles)
    for place, cycles in by_line.items():
        share = launch.of_duration(cycles)
        yield Finding("memory latency", *place, cycles, share, (
            f"{_where(place)}: warps wait {_percent(share)} of the time for its accesses to global or local memory, "
            f"with {resident:.1f} of {launch.record.config.sm.max_warps} warps on an SM to hide them. More warps, or "
            "several independent loads per thread before the first is used, hide more."
        ))  # fmt: skip


def _producer(launch: _Launch, row: int) -> int:
    """The access that an instruction waits for: the last one before it that sets a scoreboard of its wait mask."""
    mask = launch.instructions[row].control.wait_mask
    for index in range(row - 1, -1, -1):
        control = launch.instructions[index].control
        is_memory = launch.counts.code[index, M.COL_CLASS] == M.CLS_MEMORY
        if is_memory and control.write_barrier < 6 and mask >> control.write_barrier & 1:
            return index
    return row


def overhead(launch: _Launch) -> Iterator[Finding]:
    """Cycles of the launch outside its blocks."""
    cycles = launch.cycles - launch.running
    yield Finding("launch overhead", None, None, cycles, cycles / launch.cycles, (
        f"{cycles:,} of {launch.cycles:,} cycles ({_percent(cycles / launch.cycles)}) pass before the first block "
        "runs. More work per launch, or fewer launches, spread them."
    ))  # fmt: skip


def idle_sms(launch: _Launch) -> Iterator[Finding]:
    """SMs without a warp while others work."""
    record = launch.record
    total, used = record.config.sm.count, int((record.sm_blocks > 0).sum())
    idle = max(1 - ratio(launch.counts.active_cycles, total * launch.running), 0.0)
    waves = record.launch.blocks / (total * record.occupancy.blocks_per_sm)
    share = idle * launch.running / launch.cycles
    if used < total:
        what = f"{record.launch.blocks:,} blocks occupy {used} of {total} SMs"
        advice = "More, smaller blocks would use them all."
    else:
        held = _percent(1 - idle)
        what = f"The grid is {waves:.2f} waves, and SMs hold a warp for {held} of the time that blocks run"
        advice = "A multiple of whole waves, or blocks of even length, leave no tail."
    yield Finding("idle SMs", None, None, total - used, share, (
        f"{what}: idle SMs are {_percent(share)} of the time. {advice}"
    ))  # fmt: skip


def instruction_fetch(launch: _Launch) -> Iterator[Finding]:
    """Waits for code and constants."""
    waits = launch.waits("no_instruction", "imc_miss")
    share = launch.of_duration(float(waits.sum()))
    place = launch.place(int(np.argmax(waits)))
    yield Finding("instruction fetch", *place, int(waits.sum()), share, (
        f"Warps wait {_percent(share)} of the time for instructions and constants that are not in their caches yet, "
        f"most at {_line(place)}. Longer launches run warm; less unrolling makes shorter code."
    ))  # fmt: skip


def busy_units(launch: _Launch) -> Iterator[Finding]:
    """Resources near their peak, which only less work relieves."""
    for name, used in utilisation(launch.counts, launch.running).items():
        if used >= BUSY:
            yield Finding("busy unit", None, None, used, used * launch.running / launch.cycles, (
                f"{name[0].upper()}{name[1:]} is used to {_percent(used)} of its peak while blocks run. "
                "Only less of this work makes the launch faster."
            ))  # fmt: skip


def partial_warps(launch: _Launch) -> Iterator[Finding]:
    """Lanes that no thread of the block fills."""
    threads, warps = launch.record.launch.threads_per_block, launch.record.occupancy.warps_per_block
    lanes = warps * launch.warp_size
    share = (1 - threads / lanes) * launch.running / launch.cycles
    yield Finding("partial warps", None, None, lanes - threads, share, (
        f"Blocks of {threads:,} threads leave {lanes - threads} of {lanes} lanes empty. "
        f"Make the block a multiple of {launch.warp_size} threads."
    ))  # fmt: skip


RULES: tuple[Callable[[_Launch], Iterator[Finding]], ...] = (
    bank_conflicts, uncoalesced, divergence, barriers, loops, work_per_thread, shared_exchange, memory_latency,
    overhead, idle_sms, instruction_fetch, busy_units, partial_warps,
)  # fmt: skip
"""Every rule: a launch to its findings of one kind."""
