"""The recorded counters of an H200 beside the simulated GPU: what a launch found in L2 of what it asked for.

Two shares: of the bytes asked for, what did not come from memory; of the sectors, what the slices that SMs ask had. A
launch is good if the first is within 0.1 of the H200's. What is known to be off is listed in `KNOWN`, and has to be.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from validate.compared import Compared, show
from validate.persisting.measure import COUNTERS, CUBIN, FAMILIES, RESULTS, L2Lab, family
from validate.simulated_gpu import SimulatedGpu

FOUND, HITS = "found in L2", "sectors that hit"
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

    def launch(self, name: str, grid: int, words: Sequence[Any], label: str) -> None:
        result = self.gpu.run(self.gpu.function(CUBIN, name), grid, 256, words, self.window)
        self.counted[label] = shares(float(result.metrics[each]) for each in COUNTERS)


def compare(families: Iterable[str] = FAMILIES, only: str = "", settings: Iterable[str] = ()) -> Iterator[Compared]:
    """Simulate what was recorded, two launches of each group: both shares of each. only: a part of a launch's name;
    settings: as for `--set`."""
    measured = recording()["counters"]
    chosen = [name for name in measured if family(name) in families and only in name]
    for group in dict.fromkeys(name.rpartition(" ")[0] for name in chosen):
        lab = SimulatedL2Lab(settings)
        lab.run(group, turns=2)
        lab.gpu.device.close()
        for label, simulated in lab.counted.items():
            if label in measured:
                gap = "docs/known_gaps.md" if label in KNOWN else None
                parts = (FOUND, TOLERANCE, gap), (HITS, math.inf, None)
                for (what, limit, why), of, ours in zip(parts, shares(measured[label]), simulated, strict=True):
                    yield Compared(group=what, case=label, measured=of, simulated=ours, limit=limit, gap=why, scale=1.0)


def command(options: argparse.Namespace) -> int:
    """`validate persisting`: status 1 if a launch is outside that is not known to be, or the other way round."""
    rows = show(compare(options.families, options.only, options.set))
    return 1 if not rows or any(row.verdict for row in rows) else 0
