"""Values of a GPU's configuration out of its microbenchmarks: those that a benchmark isolates, and no others.

Each has its derivation here: a number as it is, the slope of a straight line through several (least squares), or the
last size before a cache is too small. `unsure` is what the derivation leaves open beyond the spread of the repeats,
such as the turns of a loop around the measured instructions.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.config import load_config
from validate.compared import HEAD, Compared, line
from validate.microbench import results
from validate.microbench.bench import Bench, benches
from validate.microbench.results import Number

CLAIM = "microbenchmark"
"""Values whose source begins so must agree with what is derived; others say by their source where they come from."""

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
    unsure: float = 0.0
    unsure_cycles: float = 0.5

    def derived(self, document: Any, bench: Bench) -> BenchValue:
        """The value by results of its benchmark. Raises results.NoResult."""
        cases = {self.unit * x: results.numbers(document, bench, self.case.format(x)) for x in self.over}
        found = {x: numbers[self.number] for x, numbers in cases.items()}
        made: BenchValue = globals()[self.derive](found, **self.given)
        return made


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


VALUES = tuple(Value(**row) for row in tomllib.loads(Path(__file__).with_name("calibrated.toml").read_text())["values"])


def calibrate(gpu: str = "h200", measured: str = "h200") -> list[Compared]:
    """Every value that a benchmark isolates: as it is derived, and as it is configured. One that differs has a gap if
    its source does not claim to be measured. Raises results.NoResult, KeyError for a key that is none."""
    config = load_config(gpu)
    configured = dict(config.items())
    document = results.load(measured)
    rows = []
    for value in VALUES:
        found = value.derived(document, benches()[value.bench])
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


def command(options: argparse.Namespace) -> int:
    """`validate calibrate`: with --check, status 1 if a value that claims to be measured differs."""
    rows = calibrate(options.gpu, options.results or results.gpu_of(options.gpu))
    print(HEAD.replace("measured", " derived").replace(" simulated", "configured"))
    for row in rows:
        print(f"{line(row)}{f', source: {row.gap}' if row.gap else ''}")
    return 1 if options.check and any(row.verdict for row in rows) else 0
