"""The recorded counters of an H200 beside the simulated GPU: what a launch found in L2 of what it asked for.

Two shares: of the bytes asked for, what did not come from memory; of the sectors, what the slices that SMs ask had. A
launch is good if the first is within 0.1 of the H200's. What is known to be off is listed in `KNOWN`, and has to be.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.launch.launch import AccessWindow
from isa import load
from validate.compared import Compared, show
from validate.gpu import read_json

CUBIN = Path(__file__).with_name("kernels.cubin")
RESULTS = Path(__file__).parent / "results"
MB = 1 << 20
TILE, HOT_MB, STREAM_MB = 16 << 10, 128, 512
POLICIES = {"normal": 0x1000 << 48, "first": 0x12F0 << 48, "last": 0x14F0 << 48}
"""Words of createpolicy, by what is evicted when."""
COUNTERS = (
    *("lts__t_sectors_srcunit_tex_lookup_hit.sum", "lts__t_sectors_srcunit_tex_lookup_miss.sum"),
    "dram__bytes_read.sum",
)
"""Sectors that hit and missed, and bytes from memory."""
FOUND, HITS = "found in L2", "sectors that hit"
TOLERANCE = 0.1
SECTOR_BYTES = 32
OTHER_MB = 96
"""Size of the read that fills L2 before a point; the H200's runs read 256 MB, which has the same effect."""
KNOWN = {"sliding 39321600 40 0.937500 1", "sliding 39321600 40 1.000000 1", "normal 0 40 1", "last 0 40 1"}
"""40 MB that are read again: docs/known_gaps.md. An H200 had 0.68 and 0.76 of them in the last two, 0.83 and more in
others of the kind."""


def recording(gpu: str = "h200") -> dict[str, Any]:
    """Return the recording of a GPU."""
    return read_json(RESULTS / f"{gpu}.json")  # type: ignore[no-any-return]


def shares(found: Iterable[float]) -> tuple[float, float]:
    """(Share of bytes found in L2, share of sectors that hit) of sectors that hit and missed, and bytes from memory."""
    hit, miss, memory = found
    return 1 - memory / ((hit + miss) * SECTOR_BYTES), hit / (hit + miss)


class L2Lab:
    """Regions of memory of a simulated GPU, and launches; `counted` has the shares of each by its label."""

    def __init__(self, settings: Iterable[str] = ()) -> None:
        self.device = gpusim.Device("h200", overrides=list(settings))
        self.hot, self.stream, self.other = (
            self.device.memory.alloc(each * MB) for each in (HOT_MB, STREAM_MB, OTHER_MB)
        )
        self.sink = self.device.memory.alloc(4096)
        self.kernel = cache(partial(load, CUBIN, abi="c", arch=self.device.config.gpu.arch))
        self.counted: dict[str, tuple[float, float]] = {}

    def launch(self, name: str, grid: int, words: tuple[Any, ...], label: str) -> None:
        """Launch a kernel of 256 threads a block."""
        result = self.device.launch(self.kernel(name), grid, 256, words)
        self.counted[label] = shares(float(result.metrics[each]) for each in COUNTERS)

    def begin(self, set_aside: int = 0) -> None:
        """No window, nothing persisting, other data in L2."""
        self.device.window = None
        self.device.reset_persisting()
        self.device.set_aside_l2(set_aside)
        self.touch(self.other, OTHER_MB * MB, "begin")

    def touch(self, base: int, nbytes: int, label: str, kind: str = "normal", policy: int = 0) -> None:
        """Read a region once."""
        self.launch(f"touch_{kind}", nbytes // TILE, (*map(np.uint64, (base, policy, self.sink)),), label)

    def mixed(self, hot_bytes: int, total: int, label: str) -> None:
        """Read `total` bytes of the stream and as many of the hot region, over and over."""
        words = (np.uint64(self.hot), np.uint32(hot_bytes // TILE), np.uint64(self.stream), np.uint64(self.sink))
        self.launch("mixed", total // TILE, words, label)

    def run(self, group: str) -> None:
        """The launches of a group, labelled with its name and turn: later ones find what the first left."""
        kind, *values = group.split()
        if kind == "working_set":
            self.begin()
            for turn in range(2):
                self.touch(self.hot, int(values[0]) * MB, f"{group} {turn}")
            return
        set_aside, hot = int(values[0]), int(values[1]) * MB
        self.begin(set_aside)
        if kind == "sliding":
            ratio = float(values[2])
            if ratio:
                self.device.window = AccessWindow(self.hot, hot, ratio, "persisting", "streaming")
            for turn in range(2):
                self.mixed(hot, 128 * MB, f"{group} {turn}")
        else:
            for turn in range(2):
                self.touch(self.hot, hot, f"{group} {turn}", "hint", POLICIES[kind])
            self.touch(self.stream, 128 * MB, "stream")
            self.touch(self.hot, hot, f"{group} after")


def compare(only: str = "", settings: Iterable[str] = ()) -> Iterator[Compared]:
    """Simulate what was recorded, two launches of each group: both shares of each. only: a part of a launch's name;
    settings: as for `--set`."""
    measured = recording()["counters"]
    chosen = [name for name in measured if only in name]
    for group in dict.fromkeys(name.rpartition(" ")[0] for name in chosen):
        lab = L2Lab(settings)
        lab.run(group)
        lab.device.close()
        for label, simulated in lab.counted.items():
            if label in measured:
                gap = "docs/known_gaps.md" if label in KNOWN else None
                parts = (FOUND, TOLERANCE, gap), (HITS, math.inf, None)
                for (what, limit, why), of, ours in zip(parts, shares(measured[label]), simulated, strict=True):
                    yield Compared(group=what, case=label, measured=of, simulated=ours, limit=limit, gap=why, scale=1.0)


def command(options: argparse.Namespace) -> int:
    """`validate persisting`: status 1 if a launch is outside that is not known to be, or the other way round."""
    rows = show(compare(options.only, options.set))
    return 1 if not rows or any(row.verdict for row in rows) else 0
