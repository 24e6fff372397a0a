"""Causes that cost a launch time, each with its number and a remedy, the costliest first.

The limiter names one thing; here are all of them. A finding's `share` is the part of the launch's duration that its
cause takes, an upper bound of what removing it is worth:

- What occupies a unit (excessive wavefronts, sectors) is held against the duration on the SMs that have blocks.
- What warps wait for or do without need (barriers, loops, idle lanes) counts as its part of all warp cycles, which
  pass while blocks run; the launch overhead is a finding of its own.

Parts overlap: warps wait for memory while others wait at a barrier. They need not add up to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.results import memory_advice
from gpusim.results.counts import Counts, ratio
from gpusim.results.finding import Finding, LaunchSums, line_of, percent, where
from gpusim.results.limiter import BUSY, utilisation
from gpusim.results.record import LaunchRecord
from gpusim.units import counted
from isa import microops as M

LEAST = 0.001
"""Share of the duration below which nothing is said."""
_SECOND = 0.02
"""Share from which a second finding of a kind is worth a sentence."""
_LOOP_CONTROL = {"ISETP", "UISETP", "PLOP3", "BRA", "BSSY", "BSYNC", "BREAK"}
_SPIN = 24
"""Instructions of the longest loop that counts as one that spins."""
_WORK = ("selected", "not_selected", "wait", "branch_resolving", "dispatch_stall", "math_pipe_throttle")


def find(counts: Counts | LaunchRecord) -> list[Finding]:
    """Everything that costs a launch at least `LEAST` of its duration, the dearest first; of a kind at most two."""
    launch = LaunchSums(counts if isinstance(counts, Counts) else Counts(counts))
    kept: list[Finding] = []
    for rule in RULES:
        found = sorted((each for each in rule(launch) if each.share >= LEAST), key=lambda each: -each.share)
        kept += [each for k, each in enumerate(found[:2]) if k == 0 or each.share >= _SECOND]
    return sorted(kept, key=lambda each: -each.share)


def divergence(launch: LaunchSums) -> Iterator[Finding]:
    """Warp cycles of lanes that other lanes of their warp wait for, by line."""
    divergent = launch.counters[:, L.COUNT_DIVERGENT]
    if not divergent.any():
        return
    full = launch.record.launch.threads_per_block / launch.record.occupancy.warps_per_block
    for place, rows in launch.counts.lines.items():
        executed, threads = launch.counters[rows, L.COUNT_EXECUTED], launch.counters[rows, L.COUNT_THREADS]
        idle = 1 - threads / np.maximum(executed * full, 1)
        lost = float((launch.stalls[rows].sum(axis=1) * np.where(executed > 0, np.maximum(idle, 0), 0)).sum())
        before = divergent[: rows[-1] + 1]
        if lost <= 0 or not before.any():
            continue
        branch = int(np.argmax(before))
        active = ratio(int(threads[idle > 0].sum()), int(executed[idle > 0].sum()))
        share = launch.of_duration(lost)
        yield Finding("divergence", *place, active, share, (
            f"{where(place)} runs with {active:.1f} of {launch.warp_size} lanes active; {int(divergent[branch]):,} of "
            f"{int(launch.counters[branch, L.COUNT_BRANCHES]):,} executions of the branch of "
            f"{line_of(launch.place(branch))} diverge. Idle lanes cost {percent(share)} of the time. "
            "Let threads that do the same be neighbours, so that whole warps take one path."
        ))  # fmt: skip


def barriers(launch: LaunchSums) -> Iterator[Finding]:
    """Waits at barriers of the block, by the line of the barrier."""
    bars = np.flatnonzero(launch.counts.opcodes("BAR")).tolist()
    for place, cycles in launch.waits_behind("barrier", "BAR").items():
        executed = int(launch.counters[[bar for bar in bars if launch.place(bar) == place], L.COUNT_EXECUTED].sum())
        share, each = launch.of_duration(cycles), ratio(executed, launch.warps)
        yield Finding("barriers", *place, executed, share, (
            f"{where(place)}: each warp arrives {each:.1f} times at this barrier of the block ({executed:,} in all) "
            f"and waits there {percent(share)} of the time. Do more work between two barriers; between the threads of "
            "one warp syncwarp is enough, so that the last warp of a reduction can go on alone."
        ))  # fmt: skip


def loops(launch: LaunchSums) -> Iterator[Finding]:
    """Counters, tests and branches of loops, by the line that jumps back."""
    time, control = launch.waits(*_WORK), launch.counts.opcodes(*_LOOP_CONTROL)
    others = launch.counts.opcodes("BAR") | (launch.counts.code[:, M.COL_CLASS] == M.CLS_MEMORY)
    for first, row in launch.loops:
        executed, body = int(launch.counters[row, L.COUNT_EXECUTED]), np.arange(first, row + 1)
        own = np.array([launch.place(k) == launch.place(row) for k in body.tolist()])
        members = body[(control[body] | own) & ~others[body]]
        overhead, total = (int(launch.counters[rows, L.COUNT_EXECUTED].sum()) for rows in (members, body))
        share = launch.of_duration(float(time[members].sum()))
        yield Finding("loop overhead", *launch.place(row), overhead, share, (
            f"{where(launch.place(row))}: the loop goes round {ratio(executed, launch.warps):.1f} times "
            f"per warp; its counter, tests and branches are {overhead:,} of its {total:,} warp instructions and "
            f"{percent(share)} of the time. Make the number of rounds a constant, so that the compiler unrolls all of "
            "it, or unroll by hand."
        ))  # fmt: skip


def work_per_thread(launch: LaunchSums) -> Iterator[Finding]:
    """Blocks that pay for their common part once for each element or two that a thread loads.

    Half as many blocks take half the time where blocks follow each other. Where all of them run at once, time is saved
    as far as they share something: as much as the busiest resource is used.
    """
    bars = np.flatnonzero(launch.counts.opcodes("BAR") & (launch.counters[:, L.COUNT_EXECUTED] > 0)).tolist()
    each = ratio(launch.counts.global_total(L.COUNT_REQUESTS, M.OP_LOAD), launch.warps)
    if not bars or not 0 < each <= 2:
        return
    record, after = launch.record, slice(bars[0] + 1, None)
    count = int(launch.counters[after, L.COUNT_EXECUTED].sum())
    at_once = record.launch.blocks <= record.config.sm.count * record.occupancy.blocks_per_sm
    shared = min(next(iter(utilisation(launch.counts, launch.running).values())), 1.0) if at_once else 1.0
    share = launch.of_duration(float(launch.stalls[after].sum())) / 2 * shared
    yield Finding("work per thread", *launch.place(bars[0]), each, share, (
        f"{where(launch.place(bars[0]))}: each thread loads {each:.1f} times from global memory, and behind the first "
        f"barrier its warp executes {ratio(count, launch.warps):.0f} instructions, however little was loaded. Twice "
        f"the elements per thread, combined while loading, need half of them: {percent(share)} of the time."
        + (" All blocks run at once here; on a larger grid it is worth more." if at_once else "")
    ))  # fmt: skip


def spinning(launch: LaunchSums) -> Iterator[Finding]:
    """Short loops that do nothing but read a word again, until another warp has written it."""
    code, left = launch.counts.code, np.ones(len(launch.instructions), bool)
    for first, row in launch.loops:
        body = np.arange(first, row + 1)
        reads = body[code[body, M.COL_CLASS] == M.CLS_MEMORY]
        strong = (code[reads, M.COL_AUX3] & M.MEM_STRONG != 0) | (code[reads, M.COL_OP] == M.OP_ATOM)
        rounds = ratio(int(launch.counters[row, L.COUNT_EXECUTED]), launch.warps)
        if not left[row] or len(body) > _SPIN or not len(reads) or not strong.all() or rounds < 2:
            continue
        left[body] = False
        share = launch.of_duration(float(launch.stalls[body].sum()))
        place = launch.place(int(reads[0]))
        yield Finding("spin loops", *place, rounds, share, (
            f"{where(place)}: warps go round {rounds:.1f} times each until another one has written a word, "
            f"{percent(share)} of the time. Let one thread of a block wait and the others at a barrier, sleep between "
            "two looks, or end the kernel where all have to wait for all."
        ))  # fmt: skip


def fences(launch: LaunchSums) -> Iterator[Finding]:
    """Waits at memory fences, by the line of the fence."""
    for place, cycles in launch.waits_behind("membar", "MEMBAR", "ERRBAR", "CCTL", "FENCE").items():
        share = launch.of_duration(cycles)
        yield Finding("memory fences", *place, cycles, share, (
            f"{where(place)}: warps wait {percent(share)} of the time at a fence until their stores are seen. "
            "A narrower scope (__threadfence_block, a release store) waits for less, and one thread of a block may "
            "wait behind a barrier for all."
        ))  # fmt: skip


def overhead(launch: LaunchSums) -> Iterator[Finding]:
    """Cycles of the launch outside its blocks."""
    cycles = launch.cycles - launch.running
    yield Finding("launch overhead", None, None, cycles, cycles / launch.cycles, (
        f"{cycles:,} of {launch.cycles:,} cycles ({percent(cycles / launch.cycles)}) pass before the first block "
        "runs. More work per launch, or fewer launches, spread them."
    ))  # fmt: skip


def idle_sms(launch: LaunchSums) -> Iterator[Finding]:
    """SMs without a warp while others work."""
    record = launch.record
    total, used = record.config.sm.count, int((record.sm_blocks > 0).sum())
    idle = max(1 - ratio(launch.counts.active_cycles, total * launch.running), 0.0)
    waves = record.launch.blocks / (total * record.occupancy.blocks_per_sm)
    share = idle * launch.running / launch.cycles
    if used < total:
        what = f"{counted(record.launch.blocks, 'block', 'occupy')} {used} of {total} SMs"
        advice = "More, smaller blocks would use them all."
    else:
        what = f"The grid is {waves:.2f} waves, and SMs hold a warp for {percent(1 - idle)} of the time that blocks run"
        advice = "A multiple of whole waves, or blocks of even length, leave no tail."
    yield Finding("idle SMs", None, None, total - used, share, (
        f"{what}: idle SMs are {percent(share)} of the time. {advice}"
    ))  # fmt: skip


def instruction_fetch(launch: LaunchSums) -> Iterator[Finding]:
    """Waits for code and constants."""
    waits = launch.waits("no_instruction", "imc_miss")
    share, place = launch.of_duration(float(waits.sum())), launch.place(int(np.argmax(waits)))
    yield Finding("instruction fetch", *place, int(waits.sum()), share, (
        f"Warps wait {percent(share)} of the time for instructions and constants that are not in their caches yet, "
        f"most at {line_of(place)}. Longer launches run warm; less unrolling makes shorter code."
    ))  # fmt: skip


def busy_units(launch: LaunchSums) -> Iterator[Finding]:
    """Resources near their peak, which only less work relieves."""
    for name, used in utilisation(launch.counts, launch.running).items():
        if used >= BUSY:
            yield Finding("busy unit", None, None, used, used * launch.running / launch.cycles, (
                f"{name[0].upper()}{name[1:]} is used to {percent(used)} of its peak while blocks run. "
                "Only less of this work makes the launch faster."
            ))  # fmt: skip


def partial_warps(launch: LaunchSums) -> Iterator[Finding]:
    """Lanes that no thread of the block fills."""
    threads, warps = launch.record.launch.threads_per_block, launch.record.occupancy.warps_per_block
    lanes = warps * launch.warp_size
    share = (1 - threads / lanes) * launch.running / launch.cycles
    yield Finding("partial warps", None, None, lanes - threads, share, (
        f"Blocks of {threads:,} threads leave {lanes - threads} of {lanes} lanes empty. "
        f"Make the block a multiple of {launch.warp_size} threads."
    ))  # fmt: skip


RULES: tuple[Callable[[LaunchSums], Iterator[Finding]], ...] = (
    *memory_advice.RULES, divergence, barriers, loops, work_per_thread, spinning, fences, overhead, idle_sms,
    instruction_fetch, busy_units, partial_warps,
)  # fmt: skip
"""Every rule: a launch to its findings of one kind."""
