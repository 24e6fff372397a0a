"""The limiter of a launch: the utilisation of every shared resource, and one sentence that follows from it.

A launch is limited by what is used most; where nothing is used much, by what its warps wait for. The rules, in
order, each with the number that decides it:

1. More than half of the cycles pass outside the blocks: launch overhead.
2. A resource is used to 60 % or more while blocks run: that resource. 60 % is where Nsight Compute's speed-of-light
   rule starts to call a unit well used.
3. SMs hold no warp for 40 % of that time: too few blocks, or a tail.
4. Otherwise latency: the costliest stall reason.

Where bank conflicts, uncoalesced accesses, local memory or divergence make up much of the work of the limiting part,
they are named instead of it, since removing them is what helps.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpusim.config.derived import peak_bytes_per_cycle
from gpusim.engine.parameters import unit_timing
from gpusim.engine.state import layout as L
from gpusim.results.counts import Counts, ratio
from gpusim.results.roofline import count_bytes
from gpusim.results.stalls import STALL_LIMITS, STALL_MEANINGS
from gpusim.units import counted
from isa import microops as M

BUSY = 0.6
"""Share of its peak from which a resource counts as the limit."""
IDLE_SMS = 0.6
"""Share of SM time with a resident warp, below which idle SMs are the limit."""
_WASTE = 0.3
"""Share of wavefronts or sectors beyond the ideal from which they are named as the cause."""
_FEW_THREADS = 20 / 32
"""Share of active threads per instruction below which divergence is named as the cause."""
_OF_MEMORY = ("lg_throttle", "long_scoreboard")

_PIPES = tomllib.loads(Path(__file__).with_name("pipes.toml").read_text("utf-8"))
PIPES, PIPE_COLOURS = (
    {getattr(M, f"UNIT_{unit}"): row[what] for unit, row in _PIPES.items()} for what in ("name", "colour")
)
"""Names and colours of the execution pipes, by their numbers in the lowered program."""


@dataclass(frozen=True)
class Limiter:
    """The limiter of a launch.

    kind: a short name, such as 'DRAM bandwidth'. sentence: the same with the numbers that say so.
    utilisation: share of its peak that each resource reaches while blocks run, 0 to 1, the most used first.
    """

    kind: str
    sentence: str
    utilisation: dict[str, float]


def running_cycles(counts: Counts) -> int:
    """Cycles of the launch without the launch overhead, at least 1."""
    return max(int(counts.record.cycles) - counts.record.config.launch.overhead_cycles, 1)


def pipe_cycles(counts: Counts) -> dict[str, int]:
    """Cycles that each execution pipe is occupied, summed over all sub-partitions; pipes without work left out."""
    interval, _ = unit_timing(counts.record.config)
    units = counts.code[:, M.COL_UNIT]
    cycles = counts.counters[:, L.COUNT_EXECUTED] * interval[units]
    op, halves = counts.code[:, M.COL_OP], counts.code[:, M.COL_AUX2] & 255 == 16
    halves |= (op == M.OP_QMMA) & (counts.code[:, M.COL_AUX1] >> 8 & M.SCALES_GIVEN != 0)
    short = (units == M.UNIT_TENSOR) & ((op == M.OP_IMMA) | np.isin(op, (M.OP_HMMA, M.OP_QMMA)) & halves)
    cycles[short] //= counts.record.config.pipes.tensor_short_sums_speedup
    busy = np.bincount(units, weights=cycles, minlength=len(interval))
    return {name: int(busy[unit]) for unit, name in PIPES.items() if busy[unit]}


def utilisation(counts: Counts, cycles: int) -> dict[str, float]:
    """Share of its peak that each resource reaches over `cycles` cycles of the whole GPU, the most used first."""
    config = counts.record.config
    sm_cycles = config.sm.count * cycles
    scheduler_cycles = sm_cycles * config.sm.sub_partitions
    peaks, moved = peak_bytes_per_cycle(config), count_bytes(counts)
    shares = {f"{level} bandwidth": ratio(moved[level], peaks[level] * cycles) for level in ("DRAM", "L2")}
    tags = counts.global_total(L.COUNT_TAGS) / config.l1.tag_lookups_per_cycle
    wavefronts = config.shared.wavefront_cycles * counts.total(L.COUNT_SHARED_WAVEFRONTS)
    shares["L1TEX data pipe"] = ratio(wavefronts + counts.global_total(L.COUNT_REQUESTS, M.OP_STORE), sm_cycles)
    shares["L1TEX tag stage"] = ratio(max(tags, counts.global_total(L.COUNT_REQUESTS)), sm_cycles)
    shares["issue slots"] = ratio(counts.issued, scheduler_cycles)
    for name, busy in pipe_cycles(counts).items():
        shares[f"{name} pipe"] = ratio(busy, scheduler_cycles)
    if cycles := counts.total(L.TMEM_CYCLES, counts.code[:, M.COL_OP] == M.OP_TMEM_PRODUCT):
        shares["tcgen05 pipe"] = ratio(cycles, sm_cycles)
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def find_limiter(counts: Counts) -> Limiter:
    """Return what limits a launch, by the rules of this module."""
    record = counts.record
    running = running_cycles(counts)
    shares = utilisation(counts, running)
    overhead = record.cycles - running
    name, share = next(iter(shares.items()))
    idle = ratio(counts.active_cycles, record.config.sm.count * running)
    if overhead > running:
        part = 100 * overhead / record.cycles
        kind = "launch overhead"
        sentence = (
            f"Launch overhead: {overhead:,} of {record.cycles:,} cycles ({part:.0f} %) pass before the first "
            f"block runs; {_busiest(shares)}."
        )
    elif share >= BUSY:
        kind, sentence = _resource(counts, name, share)
    elif idle < IDLE_SMS:
        kind, sentence = _idle_sms(counts, idle)
    else:
        kind, sentence = _latency(counts, shares)
    return Limiter(kind, sentence, shares)


def _busiest(shares: dict[str, float]) -> str:
    name, share = next(iter(shares.items()))
    reached = f"{100 * share:.0f}" if share >= 0.005 else "less than 1"
    return f"while blocks run, the busiest resource, the {name}, reaches {reached} % of its peak"


def _resource(counts: Counts, name: str, share: float) -> tuple[str, str]:
    """A resource that is used well, or what it is wasted on."""
    used = f"{100 * share:.0f} % of the {name} is used while blocks run"
    if wasted := _wasted(counts, name, used):
        return wasted
    warp_size = counts.record.config.gpu.warp_size
    threads = ratio(counts.total(L.COUNT_THREADS), counts.instructions)
    if (name == "issue slots" or name.endswith("pipe")) and threads < _FEW_THREADS * warp_size:
        return "divergence", f"Divergence: {used}, with {threads:.1f} of {warp_size} threads active per instruction."
    return name, f"{name[0].upper()}{name[1:]}: {used}."


def _idle_sms(counts: Counts, share: float) -> tuple[str, str]:
    record = counts.record
    used, total = int((record.sm_blocks > 0).sum()), record.config.sm.count
    where = f"there, {_waiting(counts)}" if any(_waits(counts).values()) else "there, warps never wait"
    if used < total:
        occupy = counted(record.launch.blocks, "block", "occupy")
        return "too few blocks", f"Too few blocks: {occupy} {used} of {total} SMs; {where}."
    waves = record.launch.blocks / (total * record.occupancy.blocks_per_sm)
    return "tail", (
        f"Tail: SMs hold a block for {100 * share:.0f} % of the time on average, "
        f"the grid is {waves:.2f} waves; {where}."
    )


def _waits(counts: Counts) -> dict[str, int]:
    """Warp cycles by reason, without those in which a warp could issue."""
    return {reason: n for reason, n in counts.stalls.items() if reason not in ("selected", "not_selected")}


def main_wait(counts: Counts) -> str:
    """The stall reason that warps wait longest for."""
    waits = _waits(counts)
    return max(waits, key=lambda name: waits[name])


def _waiting(counts: Counts) -> str:
    reason = main_wait(counts)
    part = ratio(counts.stalls[reason], sum(counts.stalls.values()))
    return f"warps spend {100 * part:.0f} % of their time waiting for {STALL_MEANINGS[reason]} ({reason})"


def _latency(counts: Counts, shares: dict[str, float]) -> tuple[str, str]:
    """Nothing is used much: what the warps wait for."""
    reason = main_wait(counts)
    if not counts.stalls[reason]:
        return "issue", f"Issue: warps never wait, yet {_busiest(shares)}."
    waiting = _waiting(counts)
    if wasted := _wasted(counts, reason, waiting):
        return wasted
    kind = STALL_LIMITS.get(reason, "latency")
    return kind, f"{kind[0].upper()}{kind[1:]}: {waiting}; {_busiest(shares)}."


def _wasted(counts: Counts, where: str, found: str) -> tuple[str, str] | None:
    """What much of the work of a resource, or of what a stall reason is about, is wasted on. found: what is known of
    that."""
    wavefronts, sectors = counts.total(L.COUNT_SHARED_WAVEFRONTS), counts.total(L.COUNT_SECTORS)
    conflicts = wavefronts - counts.total(L.COUNT_SHARED_IDEAL)
    excess, local = counts.excess(L.COUNT_SECTORS, L.COUNT_SECTORS_IDEAL), counts.total(L.COUNT_LOCAL_SECTORS)
    spilled, stack = ratio(local, local + sectors), counts.record.program.local_bytes
    for kind, places, share, numbers in (
        ("bank conflicts", ("L1TEX data pipe", "mio_throttle", "short_scoreboard"), ratio(conflicts, wavefronts),
         f"{conflicts:,} of {wavefronts:,} shared-memory wavefronts are excessive"),
        ("uncoalesced accesses", ("L2 bandwidth", "L1TEX tag stage", *_OF_MEMORY), ratio(excess, sectors),
         f"{excess:,} of {sectors:,} sectors of global memory are excessive"),
        ("local memory", ("DRAM bandwidth", "L2 bandwidth", *_OF_MEMORY), spilled,
         f"{100 * spilled:.0f} % of all sectors are local memory, of which a thread has {stack:,} bytes"),
    ):  # fmt: skip
        if where in places and share >= _WASTE:
            return kind, f"{kind[0].upper()}{kind[1:]}: {found}, and {numbers}."
    return None
