"""Regions of memory on a GPU, real or simulated, and the launches that are counted on both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from validate.gpu import PolicyWindow

CUBIN = Path(__file__).with_name("kernels.cubin")
RESULTS = Path(__file__).parent / "results"
MB = 1 << 20
TILE, HOT_MB, STREAM_MB, OTHER_MB = 16 << 10, 128, 512, 256
POLICIES = {"normal": 0x1000 << 48, "first": 0x12F0 << 48, "last": 0x14F0 << 48}
"""Words of createpolicy, by what is evicted when."""
FAMILIES = ("working_set", "sliding", "loads")


class L2Lab:
    """Regions of memory of the GPU. most: bytes of L2 that can be set aside. other_mb: what fills L2 before a launch
    that is compared. labels: of what was launched."""

    def __init__(self, gpu: Any, most: int, other_mb: int = OTHER_MB) -> None:
        self.gpu, self.most, self.other_mb = gpu, most, other_mb
        self.hot, self.stream, self.other = (gpu.alloc(each * MB) for each in (HOT_MB, STREAM_MB, other_mb))
        self.sink = gpu.alloc(4096)
        self.window: PolicyWindow | None = None
        self.labels: list[str] = []

    def launch(self, name: str, grid: int, words: Sequence[Any], label: str) -> None:
        """Launch a kernel of 256 threads a block."""
        kernel = self.gpu.function(CUBIN.read_bytes(), name)
        self.gpu.launch(kernel, (grid,), (256,), words, window=self.window)
        self.gpu.synchronize()
        self.labels.append(label)

    def begin(self, set_aside: int = 0) -> None:
        """No window, nothing persisting, other data in L2."""
        self.window = None
        self.gpu.reset_persisting()
        self.gpu.set_aside(set_aside)
        self.touch(self.other, self.other_mb * MB, "begin")

    def touch(self, base: int, nbytes: int, label: str, kind: str = "normal", policy: int = 0) -> None:
        """Read a region once."""
        self.launch(f"touch_{kind}", nbytes // TILE, (*map(np.uint64, (base, policy, self.sink)),), label)

    def mixed(self, hot_bytes: int, total: int, label: str) -> None:
        """Read `total` bytes of the stream and as many of the hot region, over and over."""
        words = (np.uint64(self.hot), np.uint32(hot_bytes // TILE), np.uint64(self.stream), np.uint64(self.sink))
        self.launch("mixed", total // TILE, words, label)

    def run(self, group: str, turns: int) -> None:
        """The launches of a group, each labelled with its name and turn: later ones find what the first left."""
        kind, *values = group.split()
        if kind == "working_set":
            self.begin()
            for turn in range(turns):
                self.touch(self.hot, int(values[0]) * MB, f"{group} {turn}")
            return
        set_aside, hot = int(values[0]), int(values[1]) * MB
        self.begin(set_aside)
        if kind == "sliding":
            ratio = float(values[2])
            self.window = PolicyWindow(self.hot, hot, ratio) if ratio else None
            for turn in range(turns):
                self.mixed(hot, 128 * MB, f"{group} {turn}")
        else:
            for turn in range(2):
                self.touch(self.hot, hot, f"{group} {turn}", "hint", POLICIES[kind])
            self.touch(self.stream, 128 * MB, "stream")
            self.touch(self.hot, hot, f"{group} after")


def groups(most: int) -> Iterator[str]:
    """What is counted on a GPU of which so much L2 can be set aside."""
    yield from (f"working_set {mb}" for mb in (8, 16, 24, 32, 40, 44, 48, 52, 56, 60, 64, 72, 80, 120))
    for set_aside in (0, most // 3, 2 * most // 3, most):
        for mb in range(10, 70, 10):
            ratios = sorted({1.0, min(1.0, set_aside / (mb * MB))}) if set_aside else (0.0,)
            yield from (f"sliding {set_aside} {mb} {ratio:.6f}" for ratio in ratios)
    yield from (f"{kind} {kept} {mb}" for kind in POLICIES for kept in (0, most) for mb in (20, 40))


def family(name: str) -> str:
    """Which experiment a launch belongs to."""
    first = name.partition(" ")[0]
    return first if first in FAMILIES else "loads"
