"""Regions of memory on a GPU: read, written, and looked for in L2.

How a region's lines are found in L2 without counters: one lane of each of 528 blocks reads a sample of them, one after
the other, and takes the time of each; what comes from memory takes over 600 cycles.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from validate.persisting.gpu import uint, word

MB = 1 << 20
TILE, LINE, PAGE = 16 << 10, 128, 2 << 20
HOT_MB, STREAM_MB, OTHER_MB = 128, 512, 256
PROBES, EACH_CYCLES = 528, 8


class L2Lab:
    """Regions of memory of a GPU, real or simulated, and what is done with them. other_mb: what fills L2 before an
    experiment; 0: the GPU empties it."""

    def __init__(self, gpu: Any, other_mb: int = OTHER_MB) -> None:
        self.gpu, self.other_mb = gpu, other_mb
        self.hot = self.gpu.memory(HOT_MB * MB)
        self.stream = self.gpu.memory(STREAM_MB * MB)
        self.other = self.gpu.memory(max(other_mb, 1) * MB)
        self.lines = self.gpu.memory(4 << 20)
        self.cycles = self.gpu.memory(2 << 20)
        self.sink = self.gpu.memory(4096)
        self.properties = self.gpu.properties()
        self.most = self.properties["persisting_max_bytes"]

    def begin(self, set_aside: int = 0) -> int:
        """No window, nothing persisting, other data in L2."""
        self.gpu.window(0, 0)
        self.gpu.reset()
        kept = self.gpu.set_aside(set_aside)
        if self.other_mb:
            self.touch(self.other, self.other_mb * MB, label="begin")
        else:
            self.gpu.flush()
        return kept

    def touch(self, base: int, nbytes: int, kind: str = "normal", policy: int = 0, label: str = "") -> float:
        """Read a region once; us."""
        return self.gpu.launch(
            f"touch_{kind}", nbytes // TILE, 256, word(base), word(policy), word(self.sink), label=label
        )

    def fill(self, base: int, nbytes: int, label: str = "") -> float:
        """Write a region once; us."""
        return self.gpu.launch("fill", nbytes // TILE, 256, word(base), label=label)

    def mixed(self, hot_bytes: int, total: int, label: str = "") -> float:
        """Read `total` of the stream and as much of the hot region, over and over; us."""
        return self.gpu.launch(
            "mixed",
            total // TILE,
            256,
            word(self.hot),
            uint(hot_bytes // TILE),
            word(self.stream),
            word(self.sink),
            label=label,
        )

    def probe(self, base: int, nbytes: int, every: int = 16, whole: bool = False) -> dict[str, Any]:
        """Read one line of every so many; {"cached": share that took less than 600 cycles, ...}. Without a window."""
        self.gpu.window(0, 0)
        count = nbytes // LINE // every
        place = np.random.default_rng(1).integers(every, size=count) if every > 1 else np.zeros(count, np.int64)
        lines = (np.arange(count) * every + place).astype(np.uint32)
        each = -(-count // PROBES)
        page = lines.astype(np.int64) * LINE // PAGE
        blocks = np.arange(count) // each
        new = (np.diff(page, prepend=-1) != 0) | (np.diff(blocks, prepend=-1) != 0)
        self.gpu.put(self.lines, lines | (new.astype(np.uint32) << 31))
        self.gpu.launch(
            "probe", PROBES, 32, word(base), word(self.lines), uint(count), word(self.cycles), label="probe"
        )
        cycles = self.gpu.get(self.cycles, count, np.uint16)
        seen = cycles[cycles > 0]
        bins = np.histogram(seen, [*range(0, 1200, 25), 1 << 16])[0]
        found = {"cached": round(float((seen < 600).mean()), 4), "lines": int(seen.size), "histogram_25": bins.tolist()}
        if whole:
            packed = np.minimum(cycles // EACH_CYCLES, 255).astype(np.uint8)
            found["cycles_8_zlib_base64"] = base64.b64encode(zlib.compress(packed.tobytes(), 9)).decode()
        return found
