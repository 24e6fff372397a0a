"""Values of a GPU's configuration out of its microbenchmarks: those that a benchmark isolates, and no others.

Each has its derivation here: a number as it is, the slope of a straight line through several (least squares), or the
last size before a cache is too small. `unsure` is what the derivation leaves open beyond the spread of the repeats,
such as the turns of a loop around the measured instructions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim.config import load_config
from validate.microbench import results, suite
from validate.microbench.results import Number

CLAIM = "microbenchmark"
"""Values whose source begins so must agree with what is derived; others say by their source where they come from."""
_LOOP = 0.12
"""Share of a loop of 64 instructions that is the loop itself, at most: seven more instructions."""


@dataclass(frozen=True)
class BenchValue:
    """A value as the microbenchmarks have it, and how far the truth may be from it."""

    value: float
    spread: float


@dataclass(frozen=True)
class Value:
    """One value of the configuration: its key, what it is derived from, and the derivation.

    unsure: share of the value that the derivation leaves open, `unsure_cycles` the same in cycles.
    """

    key: str
    bench: str
    derive: Callable[[Source], BenchValue]
    unsure: float = 0.0
    unsure_cycles: float = 0.5


class Source:
    """The measured numbers of one benchmark."""

    def __init__(self, document: dict[str, Any], bench: str) -> None:
        self._document = document
        self._bench = suite.benches()[bench]

    def __call__(self, case: str, name: str) -> Number:
        """One number. Raises results.NoResult."""
        return results.number(self._document, self._bench, case, name)


def _plain(case: str, name: str) -> Callable[[Source], BenchValue]:
    def derive(source: Source) -> BenchValue:
        number = source(case, name)
        return BenchValue(number.median, number.spread)

    return derive


def _initiation(case: str) -> Callable[[Source], BenchValue]:
    """Cycles between two instructions of a sub-partition, from the SM's rate."""

    def derive(source: Source) -> BenchValue:
        number = source(case, "per_cycle")
        return BenchValue(4 / number.median, 4 * number.spread / number.median**2)

    return derive


def _slope(cases: dict[int, str], name: str, intercept: bool = False) -> Callable[[Source], BenchValue]:
    """How much a number grows with what the cases vary, or where its line begins."""

    def derive(source: Source) -> BenchValue:
        found = {x: source(case, name) for x, case in cases.items()}
        x, y = np.array(list(found)), np.array([number.median for number in found.values()])
        line = np.polyfit(x, y, 1)
        residue = float(np.abs(np.polyval(line, x) - y).max() / np.ptp(x))
        spread = max(number.spread for number in found.values()) / float(np.ptp(x))
        return BenchValue(float(line[1 if intercept else 0]), spread + residue)

    return derive


def _knee(cases: dict[int, str], name: str) -> Callable[[Source], BenchValue]:
    """Between the largest size at which the number is not a quarter above that of the smallest, and the next."""

    def derive(source: Source) -> BenchValue:
        found = {size: source(case, name).median for size, case in cases.items()}
        least = found[min(found)]
        fits = max(size for size, value in found.items() if value <= 1.25 * least)
        next_size = min((size for size in found if size > fits), default=fits)
        return BenchValue((fits + next_size) / 2, (next_size - fits) / 2)

    return derive


def _range(cases: Sequence[str], name: str) -> Callable[[Source], BenchValue]:
    """The mean over cases that differ in what does not matter, such as the SM; their range is the spread."""

    def derive(source: Source) -> BenchValue:
        values = [source(case, name).median for case in cases]
        return BenchValue(float(np.mean(values)), float(max(values) - min(values)) / 2)

    return derive


def _depth(case: str, issued: int, turns: int) -> Callable[[Source], BenchValue]:
    """Entries of a sub-partition's queue when all four fill theirs: what a warp has issued less what has left by then,
    the four in turn at a cycle for each turn. The first four instructions, which the number leaves out, take 16."""

    def derive(source: Source) -> BenchValue:
        number = source(case, f"issue of {issued}")
        return BenchValue(issued - (number.median + 16) / (4 * turns), number.spread / (4 * turns))

    return derive


_BAR = {warps: f"warps={warps}" for warps in (1, 2, 4, 8, 16, 32)}
_DEGREES = (1, 2, 4, 8, 16, 32)
_ALONE = {degree: f"stride={degree} warps=1" for degree in _DEGREES}
_FOUR = {degree: f"stride={degree} warps=4" for degree in (4, 8, 16, 32)}

VALUES: tuple[Value, ...] = (
    Value("gpu.clock_mhz", "sm_clock", _plain("one millisecond", "MHz"), unsure=0.005),
    Value("pipes.fma.latency_cycles", "pipe_ffma", _plain("warps=1", "latency")),
    Value("pipes.fma.initiation_cycles", "pipe_ffma", _initiation("warps=8"), unsure=_LOOP),
    Value("pipes.imad.latency_cycles", "pipe_imad", _plain("warps=1", "latency")),
    Value("pipes.imad.initiation_cycles", "pipe_imad", _initiation("warps=8"), unsure=_LOOP),
    Value("pipes.alu.latency_cycles", "pipe_lop3", _plain("warps=1", "latency")),
    Value("pipes.alu.initiation_cycles", "pipe_lop3", _initiation("warps=8"), unsure=_LOOP),
    Value("pipes.fp64.latency_cycles", "pipe_dfma", _plain("warps=1", "latency")),
    Value("pipes.fp64.initiation_cycles", "pipe_dfma", _initiation("warps=8"), unsure=_LOOP),
    Value("pipes.xu.latency_cycles", "pipe_mufu_ex2", _plain("warps=1", "latency")),
    Value("pipes.xu.initiation_cycles", "pipe_mufu_ex2", _initiation("warps=4"), unsure=_LOOP),
    Value("issue.bar_base_cycles", "sync_barrier", _slope(_BAR, "each", intercept=True)),
    Value("issue.bar_per_warp_cycles", "sync_barrier", _slope(_BAR, "each"), unsure_cycles=0.1),
    Value(
        "memory_instruction.shuffle_latency_cycles",
        "pipe_shfl",
        _plain("warps=1", "latency"),
        unsure_cycles=0.75,  # the multiple of its scoreboard's clock that a chain is rounded to
    ),
    Value("memory_instruction.redux_latency_cycles", "pipe_redux", _plain("warps=1", "latency")),
    Value("memory_instruction.queue_depth", "queue_lds", _depth("stride=32 warps=4", 40, 32), unsure_cycles=1),
    Value("shared.latency_cycles", "shared_load", _plain("stride=1 warps=1", "latency")),
    Value("shared.wavefront_latency_cycles", "shared_load", _slope(_ALONE, "latency"), unsure_cycles=0.1),
    Value("shared.wavefront_cycles", "shared_load", _slope(_FOUR, "an access"), unsure_cycles=0.1),
    Value("shared.atomic_latency_cycles", "shared_add", _plain("stride=1 warps=1", "latency")),
    Value(
        "shared.atomic_wavefront_cycles",
        "shared_add",
        _slope({degree: f"stride={degree} warps=4" for degree in (2, 8, 32)}, "an access"),
        unsure_cycles=0.1,
    ),
    Value("l1.latency_cycles", "l1_chase", _plain("KiB=208 in turn", "a load")),
    Value(
        "constant.l0_bytes",
        "constant_chase",
        _knee({1024 * kib: f"KiB={kib} words=1" for kib in (1, 2, 4, 8, 16, 32)}, "a load"),
    ),
    Value(
        "l2.latency_near_cycles",
        "l2_latency",
        _range([f"sm={sm}" for sm in (0, 2, 37, 90, 131)], "mean"),
        unsure_cycles=10,  # the clock and the store that waits for the value
    ),
    Value("launch.block_interval_cycles", "block_rate", _plain("threads=512", "a block"), unsure_cycles=0.02),
)


@dataclass(frozen=True)
class CalibratedValue:
    """A value as it is configured and as it is derived."""

    key: str
    bench: str
    configured: float
    derived: float
    spread: float
    room: float
    source: str

    @property
    def agrees(self) -> bool:
        """Whether the configured value is the derived one, within what spread and derivation leave open."""
        return abs(self.configured - self.derived) <= self.room

    @property
    def wrong(self) -> bool:
        """Whether it claims to be measured, and is not what was."""
        return not self.agrees and self.source.startswith(CLAIM)


def calibrate(gpu: str = "h200", measured: str = "h200") -> list[CalibratedValue]:
    """Every value that a benchmark isolates. Raises results.NoResult, KeyError for a key that is none."""
    config = load_config(gpu)
    configured = dict(config.items())
    document = results.load(measured)
    rows = []
    for value in VALUES:
        found = value.derive(Source(document, value.bench))
        room = found.spread + max(value.unsure * found.value, value.unsure_cycles)
        now = float(configured[value.key])
        rows.append(
            CalibratedValue(value.key, value.bench, now, found.value, found.spread, room, config.source(value.key))
        )
    return rows


HEAD = f"{'key':44} {'now':>9} {'derived':>9} {'spread':>8}  benchmark"


def line(row: CalibratedValue) -> str:
    """A row of the table."""
    mark = "" if row.agrees else "  <- differs" if row.wrong else f"  <- differs, source: {row.source}"
    return f"{row.key:44} {row.configured:9.4g} {row.derived:9.4g} {row.spread:8.2g}  {row.bench}{mark}"


def command(options: argparse.Namespace) -> int:
    """`validate calibrate`: with --check, status 1 if a value that claims to be measured differs."""
    rows = calibrate(options.gpu, options.results or results.gpu_of(options.gpu))
    print("\n".join([HEAD, *map(line, rows)]))
    return 1 if options.check and any(row.wrong for row in rows) else 0
