"""The recorded counters of an H200 beside the simulated GPU: what a launch found in L2 of what it asked for.

Two shares: of the bytes asked for, what did not come from memory; of the sectors, what the slices that SMs ask had. A
point is good if the first is within 0.1 of the H200's. What is known to be off is listed in `KNOWN`, and has to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from validate.persisting.build import CUBIN
from validate.persisting.importer import RESULTS
from validate.persisting.lab import MB, L2Lab
from validate.persisting.run import FIRST, LAST, PLAIN
from validate.persisting.simulated import SimulatedGpu

TOLERANCE = 0.1
SECTOR_BYTES = 32
FAMILIES = ("working_set", "sliding", "loads")
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


def compare(
    families: Iterable[str] = FAMILIES, only: str = "", settings: Iterable[str] = ()
) -> Iterator[ComparedLaunch]:
    """Simulate what was recorded, point by point. only: a part of a point's name; settings: as for `--set`."""
    measured = recording()["counters"]
    done: set[str] = set()
    for name in measured:
        group = name.rpartition(" ")[0]
        if family(name) not in families or only not in name or group in done:
            continue
        done.add(group)
        lab = L2Lab(SimulatedGpu(str(CUBIN), "h200", tuple(settings)), OTHER_MB)
        points = [(label, shares(found)) for label, found in simulate(lab, group)]
        lab.gpu.close()
        recorded = ((label, found) for label, found in points if label in measured)
        yield from (ComparedLaunch(label, shares(measured[label]), found) for label, found in recorded)


def family(name: str) -> str:
    """Which experiment a launch belongs to."""
    first = name.partition(" ")[0]
    return first if first in FAMILIES else "loads"


def simulate(lab: L2Lab, group: str) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Run the launches of a group in simulation: twice, the second finds what the first has left."""
    gpu = lab.gpu
    kind, *values = group.split()
    if kind == "working_set":
        lab.begin()
        for turn in range(2):
            lab.touch(lab.hot, int(values[0]) * MB, label=f"{group} {turn}")
    elif kind == "sliding":
        set_aside, hot, ratio = int(values[0]), int(values[1]) * MB, float(values[2])
        lab.begin(set_aside)
        gpu.window(lab.hot, hot if ratio else 0, ratio)
        for turn in range(2):
            lab.mixed(hot, 128 * MB, label=f"{group} {turn}")
    else:
        policy = {"normal": PLAIN, "first": FIRST, "last": LAST}[kind]
        set_aside, hot = int(values[0]), int(values[1]) * MB
        lab.begin(set_aside)
        for turn in range(2):
            lab.touch(lab.hot, hot, "hint", policy, label=f"{group} {turn}")
        lab.touch(lab.stream, 128 * MB, label="stream")
        lab.touch(lab.hot, hot, label=f"{group} after")
    for label, *found in gpu.counted:
        yield label.partition(" ")[2], (found[0], found[1], found[2])


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
