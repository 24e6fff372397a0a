"""Values of a GPU's configuration out of its microbenchmarks: those that a benchmark isolates, and no others; and a
configuration of those that differ from another one's.

Each has its derivation here: a number as it is, the slope of a straight line through several (least squares), or the
last size before a cache is too small. `unsure` is what the derivation leaves open beyond the spread of the repeats,
such as the turns of a loop around the measured instructions.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusim.config import GPUConfig, load_config, shipped_names
from gpusim.config.create import new_file
from gpusim.results.interval import MEASURED, WIDENING, distance, judged, span_of
from validate import baseline
from validate.compared import HEAD, Compared, line
from validate.importer import gpu_name
from validate.microbench import results
from validate.microbench.bench import CALIBRATED, benches
from validate.microbench.results import Number
from validate.points import select

CLAIM = "microbenchmark"
"""Values whose source begins so must agree with what is derived; others say by their source where they come from."""

ROUNDED = 0.08
"""By what share a data sheet's number and the device's may differ and mean the same: sizes and clocks are rounded."""

Found = Mapping[Any, Number]
"""Measured numbers of some cases of a benchmark, by what the cases vary."""


@dataclass(frozen=True)
class BenchValue:
    """A value as the microbenchmarks have it, and how far the truth may be from it."""

    value: float
    spread: float


@dataclass(frozen=True)
class Value:
    """One value of the configuration: a row of `calibrated.toml`, which says what each field is."""

    key: str
    bench: str
    number: str
    derive: str
    case: str = "warps=1"
    over: Sequence[int] = (0,)
    unit: int = 1
    given: Mapping[str, Any] = field(default_factory=dict)
    less: Sequence[float | str] = ()
    per: Sequence[str] = ()
    unsure: float = 0.0
    unsure_cycles: float = 0.5

    def derived(self, document: Any, configured: Mapping[str, Any], known: Mapping[str, BenchValue]) -> BenchValue:
        """The value by results of its benchmark. known: values derived before. Raises results.NoResult, or KeyError
        without one of those."""
        bench = benches()[self.bench]
        cases = {self.unit * x: results.numbers(document, bench, self.case.format(x)) for x in self.over}
        found = {x: numbers[self.number] for x, numbers in cases.items()}
        made: BenchValue = globals()[self.derive](found, **self.given)
        less = sum(known[each].value if isinstance(each, str) else each for each in self.less)
        scale = configured[self.per[0]] / configured[self.per[1]] if self.per else 1.0
        return BenchValue(scale * (made.value - less), scale * made.spread)


def plain(found: Found) -> BenchValue:
    """Return the one number as it is."""
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


VALUES = tuple(Value(**row) for row in CALIBRATED)


def calibrate(config: GPUConfig, document: Any) -> list[Compared]:
    """Every value that a benchmark isolates and that was measured: as it is derived, and as it is configured. One that
    differs has a gap if its source does not claim to be measured."""
    configured, rows = dict(config.items()), list[Compared]()
    known: dict[str, BenchValue] = {}
    for value in VALUES:
        try:
            found = known[value.key] = value.derived(document, configured, known)
        except (results.NoResult, KeyError):
            continue
        now, source = float(configured[value.key]), config.source(value.key)
        room, scale = found.spread + max(value.unsure * found.value, value.unsure_cycles), abs(found.value) or 1.0
        other = abs(now - found.value) > room and not source.startswith(CLAIM)
        rows.append(
            Compared(
                group=value.bench, case=value.key, measured=found.value, simulated=now, scale=scale,
                limit=room / scale, spread=found.spread / scale, gap=source if other else None,
            )
        )  # fmt: skip
    return rows


def of_device(about: Mapping[str, Any], config: GPUConfig) -> list[Compared]:
    """What a device says of itself beside what is configured. Slices of L2 are taken to be as large as there, with as
    many channels of memory."""
    now, said = dict(config.items()), [("sm.count", "spec: device query", about["sm_count"])]
    if "l2_bytes" in about:
        slices = round(config.l2.slices * about["l2_bytes"] / config.l2.bytes)
        said += [
            ("l2.bytes", "spec: device query", about["l2_bytes"]),
            ("l2.slices", "assumed: with the size of L2", slices),
            ("dram.channels", "assumed: with the size of L2", config.dram.channels * slices // config.l2.slices),
            ("dram.bandwidth_gb_s", "spec: device query", 2 * about["memory_mhz"] * about["memory_bus_bits"] // 8000),
            ("dram.capacity_bytes", "spec: device query", about["memory_bytes"]),
        ]
    return [
        Compared(group=source, case=key, measured=each, simulated=now[key], limit=ROUNDED * (key != "sm.count"))
        for key, source, each in said
    ]


def launch_overhead(recorded: str, gpu: str, again: float) -> Compared:
    """What a launch takes by a GPU's baselines: how many more cycles no SM is active than in the configuration's (or
    the H200's), in the median of short programs, none that judges, less what the fence at the end takes (`again`)."""
    base, more = baseline.gpu_of(gpu), []
    for point in select():
        with suppress(baseline.MissingBaseline):
            mine, theirs = (baseline.measured(point, name) for name in (recorded, base))
            idle, before = (each.cycles.median - each["sm__cycles_active.max"] for each in (mine, theirs))
            if point.split == "train" and theirs["sm__cycles_active.max"] < 5_000:
                more.append(idle - before)
    now, there = load_config(gpu), load_config(base)
    idle = there.launch.overhead_cycles + statistics.median(more) + there.memory_instruction.fence_gpu_again_cycles
    return Compared(group=f"fitted: idle cycles, {len(more)} programs", case="launch.overhead_cycles", limit=0.02,
                    measured=idle - again, simulated=now.launch.overhead_cycles)  # fmt: skip


def rows_of(document: Any, gpu: str, recorded: str | None = None) -> list[Compared]:
    """What a device says of itself, its benchmarks on a GPU that is so, and its baselines, beside a configuration."""
    config, key = load_config(gpu), "memory_instruction.fence_gpu_again_cycles"
    said = of_device(document["recordings"][-1], config)
    found = calibrate(load_config(gpu, changes(said, config)), document)
    again = next((row.measured for row in found if row.case == key), dict(config.items())[key])
    return [*said, *([launch_overhead(recorded, gpu, again)] if recorded else []), *found]


def changes(rows: Sequence[Compared], config: GPUConfig) -> dict[str, Any]:
    """What differs, as a configuration has it."""
    now, found = dict(config.items()), {row.case: row.measured for row in rows if not row.within}
    return {key: round(new) if isinstance(now[key], int) else float(f"{new:.4g}") for key, new in found.items()}


def table(rows: Sequence[Compared], only_changes: bool = False) -> str:
    """A line for each value, and one that says which were not measured."""
    lines = [HEAD.replace("measured", " derived").replace(" simulated", "configured")]
    lines += [
        f"{line(row)}{f', source: {row.gap}' if row.gap else ''}" for row in rows if not (only_changes and row.within)
    ]
    missing = {value.key for value in VALUES} - {row.case for row in rows}
    return "\n".join([*lines, *([f"not measured: {', '.join(sorted(missing))}"] if missing else [])])


def nearest(about: Mapping[str, Any]) -> str:
    """The shipped configuration of a device's product, or else the nearest by architecture, then by SMs."""
    named, arch = gpu_name(about["gpu"]), int(about["compute_capability"].replace(".", ""))

    def away(name: str) -> tuple[float, ...]:
        config = load_config(name)
        sms = abs(math.log(config.sm.count / about["sm_count"]))
        return name != named, abs(int(config.gpu.arch[3:]) - arch), sms, (*MEASURED, name).index(name)

    return min(shipped_names(), key=away)


def expected(away: float) -> str:
    """In what interval around its prediction nine of ten kernels lie so far from a recorded machine, and on that."""
    low, high, _ = span_of("", judged())
    halves = [(high - low) / 2]
    halves.append(math.hypot(*halves, WIDENING * math.sqrt(away)))
    best, here = (" to ".join(f"{math.expm1((low + high) / 2 + k * each):+.1%}" for k in (-1, 1)) for each in halves)
    return f"9 of 10 kernels take {here} of what is predicted ({away:.2f} steps from a recorded GPU; on that, {best})"


def command(options: argparse.Namespace) -> int:
    """`validate calibrate`: with --check, status 1 if a value that claims to be measured differs."""
    document = results.load(options.results or results.gpu_of(options.gpu or "h200"))
    about = document["recordings"][-1]
    gpu = options.gpu or (nearest(about) if options.results else "h200")
    rows, config = rows_of(document, gpu, options.baseline), load_config(gpu)
    print(table(rows, bool(options.write)))
    if options.write:
        new, sheet = (changes(each, config) for each in (rows, of_device(about, config)))
        whose = f" on {about['gpu']}, {about['date']}"
        sources = {row.case: row.group if ":" in row.group else f"microbenchmark: {row.group}{whose}" for row in rows}
        options.write.write_text(new_file(about["gpu"], gpu, new, options.write, sources), "utf-8")
        # Measured on both GPUs: without what a launch takes, a calibrated one is as unsure as one by its data sheet.
        print(expected(0.0 if options.baseline else distance(load_config(gpu, sheet))))
    return 1 if options.check and any(row.verdict for row in rows) else 0
