"""The recorded counters of an H200 beside the simulated GPU: what a launch found in L2 of what it asked for.

Two shares: of the bytes asked for, what did not come from memory; of the sectors, what the slices that SMs ask had. A
point is good if the first is within 0.1 of the H200's. What is known to be off is listed in `KNOWN`, and has to be.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from validate.persisting.lab import CUBIN, FAMILIES, RESULTS, L2Lab, family
from validate.persisting.measure import COUNTERS
from validate.simulated_gpu import SimulatedGpu

TOLERANCE = 0.1
SECTOR_BYTES = 32
OTHER_MB = 96
"""What fills L2 before a point; the H200's runs took 256 MB, which leave the same."""
KNOWN = {
    *(f"working_set {size} 1" for size in (32, 44, 48, 52, 56, 60, 64, 72)),
    "sliding 0 20 0.000000 1", "sliding 0 30 0.000000 0", "sliding 0 30 0.000000 1", "sliding 13107200 20 1.000000 1",
    "sliding 26214400 30 1.000000 0", "sliding 26214400 30 1.000000 1",
}  # fmt: skip
"""Blocks that read what others have read: docs/known_gaps.md. With `l2.passed_first=false` 48 MB are off, and two
more by 0.100."""


@dataclass(frozen=True)
class ComparedLaunch:
    """A launch: shares found in L2 and hits of lookups, measured and simulated."""

    name: str
    measured: tuple[float, float]
    simulated: tuple[float, float]

    @property
    def error(self) -> float:
        """Of the first share."""
        return self.simulated[0] - self.measured[0]

    @property
    def verdict(self) -> str:
        """What is new about it: '' for nothing."""
        good = abs(self.error) <= TOLERANCE
        if good == (self.name in KNOWN):
            return "better than known" if good else "outside"
        return ""


def recording(gpu: str = "h200") -> dict[str, Any]:
    """What was measured on a GPU."""
    document: dict[str, Any] = json.loads((RESULTS / f"{gpu}.json").read_text())
    return document


def shares(found: Iterable[float]) -> tuple[float, float]:
    """(Share of bytes found in L2, share of sectors that hit) of sectors that hit and missed, and bytes from memory."""
    hit, miss, memory = found
    return 1 - memory / ((hit + miss) * SECTOR_BYTES), hit / (hit + miss)


class SimulatedL2Lab(L2Lab):
    """A lab on a simulated device; `counted` has the shares of each launch by its label."""

    def __init__(self, settings: Iterable[str] = ()) -> None:
        gpu = SimulatedGpu("h200", settings=tuple(settings))
        super().__init__(gpu, gpu.device.config.l2.persisting_max_bytes, OTHER_MB)
        self.counted: dict[str, tuple[float, float]] = {}

    def begin(self, set_aside: int = 0) -> None:
        self.window = None
        self.gpu.device.reset_persisting()
        self.gpu.device.set_aside_l2(set_aside)
        self.touch(self.other, self.other_mb << 20, "begin")

    def launch(self, name: str, grid: int, words: Sequence[Any], label: str) -> None:
        result = self.gpu.run(self.gpu.function(CUBIN, name), grid, 256, words, self.window)
        self.counted[label] = shares(float(result.metrics[each]) for each in COUNTERS)


def compare(
    families: Iterable[str] = FAMILIES, only: str = "", settings: Iterable[str] = ()
) -> Iterator[ComparedLaunch]:
    """Simulate what was recorded, point by point: two launches of each group. only: a part of a point's name;
    settings: as for `--set`."""
    measured = recording()["counters"]
    chosen = [name for name in measured if family(name) in families and only in name]
    for group in dict.fromkeys(name.rpartition(" ")[0] for name in chosen):
        lab = SimulatedL2Lab(settings)
        lab.run(group, turns=2)
        lab.gpu.device.close()
        for label, found in lab.counted.items():
            if label in measured:
                yield ComparedLaunch(label, shares(measured[label]), found)


def line(point: ComparedLaunch) -> str:
    """A row of the table."""
    (found, hits), (ours, our_hits) = point.measured, point.simulated
    return (
        f"{point.name:38} {found:7.3f} {ours:7.3f} {point.error:+7.3f}   {hits:7.3f} {our_hits:7.3f} "
        f"{our_hits - hits:+7.3f}   {point.verdict}".rstrip()
    )


HEAD = f"{'launch':38} {'H200':>7} {'ours':>7} {'error':>7}   {'hits':>7} {'ours':>7} {'error':>7}"


def summary(points: list[ComparedLaunch]) -> str:
    """Errors of both shares."""
    errors = sorted(abs(point.error) for point in points)
    hits = [abs(point.simulated[1] - point.measured[1]) for point in points]
    good = sum(error <= TOLERANCE for error in errors)
    return (
        f"{len(points)} launches, {good} within {TOLERANCE:g}: found in L2 off by {sum(errors) / len(errors):.3f} "
        f"in the mean, {errors[-1]:.3f} at most; hits by {sum(hits) / len(hits):.3f}, {max(hits):.3f}"
    )


def command(options: argparse.Namespace) -> int:
    """`validate persisting`: status 1 if something new is outside."""
    points = []
    print(HEAD)
    for point in compare(options.families, options.only, options.set):
        points.append(point)
        print(line(point), flush=True)
    if points:
        print(summary(points))
    return 1 if not points or any(point.verdict for point in points) else 0
