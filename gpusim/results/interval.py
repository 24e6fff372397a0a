"""Intervals around predicted cycles in which nine of ten kernels of a kind lie.

The kind of a kernel is what holds it up, by the counters of its own simulation. `judged.txt` has, of every point that
judges the model, its kind, the cycles that a GPU took and those predicted; `python -m validate intervals` writes it.
The interval is that of split conformal prediction: of n ratios of a kind the ones of ranks floor(0.05 (n + 1)) and
ceil(0.95 (n + 1)) times the prediction (Lei et al., "Distribution-Free Predictive Inference for Regression", 2018).
Such a pair holds 90 % of what is drawn as those n were, whatever their distribution; a bias of the model moves it. It
takes 19 points; a kind with fewer has the interval of all kinds, and what of its own lies outside of that.

A machine that was not measured is further from what is known. `distance` says by how much its configuration differs
from the nearest measured one, and the interval widens with it (`WIDENING`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from gpusim.config import GPUConfig, load_config
from gpusim.engine.state import layout as L
from gpusim.results.counts import Counts, ratio
from gpusim.results.limiter import BUSY, IDLE_SMS, main_wait, running_cycles, utilisation
from isa import microops as M

FILE = Path(__file__).with_name("judged.txt")
MEASURED = ("h200", "h100")
"""Configurations whose GPUs were asked."""
_TAIL = 5  # per cent on either side
WIDENING = 0.21
"""Half-width in logarithms that the root of the distance adds, independent of the error on measured machines: each step
away adds an error of its own. Fitted: nothing isolates it. It is the least with which nine of ten points of a GPU are
covered that its data sheet alone describes (`validate intervals`; two GPUs of one die, docs/accuracy.md)."""
_SHORT = 0.35
"""Share of the launch overhead in a kernel's cycles from which it and the first waves are most of what it shows."""
_SOME = 0.01
"""Share of a kernel's warp instructions from which it uses something."""


@dataclass(frozen=True)
class Judged:
    """A point that judges the model. measured, predicted: cycles."""

    gpu: str
    kind: str
    measured: float
    predicted: float
    point: str

    @property
    def ratio(self) -> float:
        """Logarithm of the measured by the predicted cycles."""
        return math.log(self.measured / self.predicted)

    @property
    def program(self) -> str:
        """The program that it is a launch of: points of one are not independent."""
        whole, kernel, _ = self.point.partition(":")
        return whole if kernel else whole.partition("@")[0].partition("/")[0]


@dataclass(frozen=True)
class Interval:
    """low, high: cycles between which nine of ten kernels lie. kind: of the kernel; points: how many judged kernels say
    so. distance: of the machine from the nearest measured one, 0 for those."""

    low: int
    high: int
    kind: str
    points: int
    distance: float

    def __str__(self) -> str:
        what = f"kernels of its kind ({self.kind}, {self.points} judged)"
        steps = f"{self.distance:.2f} steps from one that was (1: one part twice or half as large)"
        far = f", on a machine that was not measured, {steps}, which widens this"
        where = far if self.distance else ""
        return f"9 of 10 {what} take {self.low:,} to {self.high:,} cycles{where}"


def kind_of(counts: Counts) -> str:
    """Return the kind of a kernel: the first whose condition is true."""
    record = counts.record
    running = running_cycles(counts)
    shares = utilisation(counts, running)
    if ratio(record.cycles - running, record.cycles) > _SHORT:
        return "short launch"
    if _executed(counts, M.OP_LDGSTS, M.OP_BULK_COPY) or shares.get("Tensor pipe") or shares.get("tcgen05 pipe"):
        return "tensor cores, asynchronous copies"
    if _executed(counts, M.OP_ATOM, M.OP_RED):
        return "atomics"
    if max(shares["DRAM bandwidth"], shares["L2 bandwidth"]) >= BUSY:
        return "bandwidth"
    if _executed(counts, M.OP_BAR) or counts.shared_total(L.COUNT_EXECUTED) > _SOME * counts.instructions:
        return "shared memory, barriers"
    idle = ratio(counts.active_cycles, record.config.sm.count * running) < IDLE_SMS
    if idle or main_wait(counts) in ("long_scoreboard", "lg_throttle"):
        return "memory latency"
    return "arithmetic"


def _executed(counts: Counts, *operations: int) -> bool:
    """Return whether a share of the kernel that counts is of these operations."""
    found = sum(int(counts.counters[counts.code[:, M.COL_OP] == each, L.COUNT_EXECUTED].sum()) for each in operations)
    return found > _SOME * counts.instructions


@cache
def judged(path: Path = FILE) -> tuple[Judged, ...]:
    """All stored points."""
    rows = (line.split(None, 3) for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    found = []
    for gpu, measured, predicted, rest in rows:
        kind, _, point = rest.partition(" | ")
        found.append(Judged(gpu, kind, float(measured), float(predicted), point))
    return tuple(found)


def span(ratios: Iterable[float]) -> tuple[float, float] | None:
    """Logarithms between which nine of ten more of the same lie; None where there are too few to say."""
    ordered = sorted(ratios)
    more = len(ordered) + 1
    low, high = more * _TAIL // 100, -(-more * (100 - _TAIL) // 100)
    return (ordered[low - 1], ordered[high - 1]) if low >= 1 else None


def span_of(kind: str, points: Sequence[Judged]) -> tuple[float, float, int]:
    """The span of a kind, and how many of its points there are. Where they are too few for one, they and the span of
    all kinds together. Raises ValueError if even all are too few."""
    mine = [each.ratio for each in points if each.kind == kind]
    found = span(mine)
    if found is None:
        every = span(each.ratio for each in points)
        if every is None:
            raise ValueError(f"{len(points)} judged points are too few for an interval")
        found = min(every[0], *mine, every[0]), max(every[1], *mine, every[1])
    return *found, len(mine)


@lru_cache(256)
def distance(config: GPUConfig, measured: tuple[str, ...] = MEASURED) -> float:
    """Return the distance of a machine from the nearest measured one: the root of the summed squares of the logarithms
    to base 2 by which their numbers differ, of each section of the configuration the greatest alone, since one change
    of a machine shows in several keys. A difference in something that is no positive number counts as 1."""
    return min(_between(config, load_config(name)) for name in measured)


def _between(one: GPUConfig, other: GPUConfig) -> float:
    theirs = dict(other.items())
    most: dict[str, float] = {}
    for key, value in one.items():
        section = key.partition(".")[0]
        if key not in _NAMES and value != theirs[key]:
            most[section] = max(most.get(section, 0.0), _step(value, theirs[key]))
    return math.sqrt(sum(step * step for step in most.values()))


_NAMES = (
    "gpu.name", "gpu.arch", "gpu.dies", "dram.kind", "dram.capacity_bytes", "sm.max_cluster_blocks",
    "l2.lookahead_cycles", "l2.launch_hit_bytes",
)  # fmt: skip
"""Keys that say nothing of how long a kernel takes: names, limits, and what only counters show."""


def _step(value: object, other: object) -> float:
    numbers = [each for each in (value, other) if isinstance(each, (int, float)) and not isinstance(each, bool)]
    return abs(math.log2(numbers[0] / numbers[1])) if len(numbers) == 2 and min(numbers) > 0 else 1.0


def interval_of(counts: Counts, kind: str) -> Interval:
    """The interval of a timed run. What an unmeasured machine and sampling may be off by widens it, as independent
    errors do."""
    record = counts.record
    low, high, points = span_of(kind, judged())
    away = distance(record.config)
    sampled = math.log1p(record.sampling.error) if record.sampling is not None else 0.0
    middle, half = (low + high) / 2, math.hypot((high - low) / 2, WIDENING * math.sqrt(away), sampled)
    return Interval(
        int(record.cycles * math.exp(middle - half)),
        math.ceil(record.cycles * math.exp(middle + half)),
        kind,
        points,
        away,
    )
