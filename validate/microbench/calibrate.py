"""Values of a GPU's configuration out of its microbenchmarks: those that a benchmark isolates, and no others.

Each has its derivation here: a number as it is, the slope of a straight line through several (least squares), or the
last size before a cache is too small. `unsure` is what the derivation leaves open beyond the spread of the repeats,
such as the turns of a loop around the measured instructions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpusim.config import load_config
from validate.compared import HEAD, Compared, line
from validate.microbench import results
from validate.microbench.bench import benches
from validate.microbench.results import Number

CLAIM = "microbenchmark"
"""Values whose source begins so must agree with what is derived; others say by their source where they come from."""
_LOOP = 0.12
"""Share of a loop of 64 instructions that is the loop itself, at most: seven more instructions."""


Found = Mapping[Any, Number]
"""Measured numbers of some cases of a benchmark, by what the cases vary."""


@dataclass(frozen=True)
class BenchValue:
    """A value as the microbenchmarks have it, and how far the truth may be from it."""

    value: float
    spread: float


@dataclass(frozen=True)
class Value:
    """One value of the configuration: its key, which number of which cases of a benchmark it is derived from, and how.

    cases: by what they vary. unsure: share of the value that the derivation leaves open, `unsure_cycles` the same in
    cycles.
    """

    key: str
    bench: str
    cases: Mapping[Any, str]
    number: str
    derive: Callable[[Found], BenchValue]
    unsure: float = 0.0
    unsure_cycles: float = 0.5


def plain(found: Found) -> BenchValue:
    """The one number as it is."""
    (number,) = found.values()
    return BenchValue(number.median, number.spread)


def initiation(found: Found) -> BenchValue:
    """Cycles between two instructions of a sub-partition, from the SM's rate."""
    (number,) = found.values()
    return BenchValue(4 / number.median, 4 * number.spread / number.median**2)


def slope(found: Found, intercept: bool = False) -> BenchValue:
    """Return how much a number grows with what the cases vary, or where its line begins."""
    x, y = np.array(list(found)), np.array([number.median for number in found.values()])
    line = np.polyfit(x, y, 1)
    residue = float(np.abs(np.polyval(line, x) - y).max() / np.ptp(x))
    spread = max(number.spread for number in found.values()) / float(np.ptp(x))
    return BenchValue(float(line[1 if intercept else 0]), spread + residue)


def knee(found: Found) -> BenchValue:
    """Between the largest size at which the number is not a quarter above that of the smallest, and the next."""
    least = found[min(found)].median
    fits = max(size for size, number in found.items() if number.median <= 1.25 * least)
    next_size = min((size for size in found if size > fits), default=fits)
    return BenchValue((fits + next_size) / 2, (next_size - fits) / 2)


def middle(found: Found) -> BenchValue:
    """The mean over cases that differ in what does not matter, such as the SM; their range is the spread."""
    values = [number.median for number in found.values()]
    return BenchValue(float(np.mean(values)), float(max(values) - min(values)) / 2)


def depth(found: Found, issued: int, turns: int) -> BenchValue:
    """Entries of a sub-partition's queue when all four fill theirs: what a warp has issued less what has left by then,
    the four in turn at a cycle for each turn. The first four instructions, which the number leaves out, take 16."""
    (number,) = found.values()
    return BenchValue(issued - (number.median + 16) / (4 * turns), number.spread / (4 * turns))


def _latency(key: str, bench: str, case: str = "warps=1", **more: float) -> Value:
    return Value(key, bench, {0: case}, "latency", plain, **more)


def _rate(pipe: str, bench: str, warps: int = 8) -> Value:
    key = f"pipes.{pipe}.initiation_cycles"
    return Value(key, bench, {0: f"warps={warps}"}, "per_cycle", initiation, unsure=_LOOP)


def _strides(*degrees: int, warps: int = 4) -> dict[int, str]:
    return {degree: f"stride={degree} warps={warps}" for degree in degrees}


_BAR = {warps: f"warps={warps}" for warps in (1, 2, 4, 8, 16, 32)}
_PIPES = (("fma", "pipe_ffma"), ("imad", "pipe_imad"), ("alu", "pipe_lop3"), ("fp64", "pipe_dfma"))

VALUES: tuple[Value, ...] = (
    Value("gpu.clock_mhz", "sm_clock", {0: "one millisecond"}, "MHz", plain, unsure=0.005),
    *(_latency(f"pipes.{pipe}.latency_cycles", bench) for pipe, bench in (*_PIPES, ("xu", "pipe_mufu_ex2"))),
    *(_rate(*each) for each in _PIPES),
    _rate("xu", "pipe_mufu_ex2", 4),
    Value("issue.bar_base_cycles", "sync_barrier", _BAR, "each", partial(slope, intercept=True)),
    Value("issue.bar_per_warp_cycles", "sync_barrier", _BAR, "each", slope, unsure_cycles=0.1),
    # Unsure by the multiple of its scoreboard's clock that a chain is rounded to.
    _latency("memory_instruction.shuffle_latency_cycles", "pipe_shfl", unsure_cycles=0.75),
    _latency("memory_instruction.redux_latency_cycles", "pipe_redux"),
    Value("memory_instruction.queue_depth", "queue_lds", {0: "stride=32 warps=4"}, "issue of 40",
          partial(depth, issued=40, turns=32), unsure_cycles=1),
    _latency("shared.latency_cycles", "shared_load", "stride=1 warps=1"),
    Value("shared.wavefront_latency_cycles", "shared_load", _strides(1, 2, 4, 8, 16, 32, warps=1), "latency", slope,
          unsure_cycles=0.1),
    Value("shared.wavefront_cycles", "shared_load", _strides(4, 8, 16, 32), "an access", slope, unsure_cycles=0.1),
    _latency("shared.atomic_latency_cycles", "shared_add", "stride=1 warps=1"),
    Value("shared.atomic_wavefront_cycles", "shared_add", _strides(2, 8, 32), "an access", slope, unsure_cycles=0.1),
    Value("l1.latency_cycles", "l1_chase", {0: "KiB=208 in turn"}, "a load", plain),
    Value("constant.l0_bytes", "constant_chase", {1024 * kib: f"KiB={kib} words=1" for kib in (1, 2, 4, 8, 16, 32)},
          "a load", knee),
    # Unsure by the clock and the store that waits for the value.
    Value("l2.latency_near_cycles", "l2_latency", {sm: f"sm={sm}" for sm in (0, 2, 37, 90, 131)}, "mean", middle,
          unsure_cycles=10),
    Value("launch.block_interval_cycles", "block_rate", {0: "threads=512"}, "a block", plain, unsure_cycles=0.02),
)  # fmt: skip


def calibrate(gpu: str = "h200", measured: str = "h200") -> list[Compared]:
    """Every value that a benchmark isolates: as it is derived, and as it is configured. One that differs has a gap if
    its source does not claim to be measured. Raises results.NoResult, KeyError for a key that is none."""
    config = load_config(gpu)
    configured = dict(config.items())
    document = results.load(measured)
    rows = []
    for value in VALUES:
        bench = benches()[value.bench]
        cases = {x: results.number(document, bench, case, value.number) for x, case in value.cases.items()}
        found, now, source = value.derive(cases), float(configured[value.key]), config.source(value.key)
        room, scale = found.spread + max(value.unsure * found.value, value.unsure_cycles), abs(found.value) or 1.0
        other = abs(now - found.value) > room and not source.startswith(CLAIM)
        rows.append(
            Compared(
                group=value.bench, case=value.key, measured=found.value, simulated=now, scale=scale,
                limit=room / scale, spread=found.spread / scale, gap=source if other else None,
            )
        )  # fmt: skip
    return rows


def command(options: argparse.Namespace) -> int:
    """`validate calibrate`: with --check, status 1 if a value that claims to be measured differs."""
    rows = calibrate(options.gpu, options.results or results.gpu_of(options.gpu))
    print(HEAD.replace("measured", " derived").replace(" simulated", "configured"))
    for row in rows:
        print(f"{line(row)}{f', source: {row.gap}' if row.gap else ''}")
    return 1 if options.check and any(row.verdict for row in rows) else 0
