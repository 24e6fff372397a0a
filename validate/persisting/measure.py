"""Regions of memory on a GPU, real or simulated, and the launches that are counted on both.

`python -m validate.persisting.measure OUT.json` counts on this machine's GPU, in a minute or two. OUT.json is what
`results/` holds of a GPU. The program runs itself under ncu (`--launch`).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.results.profile import parse_profile
from validate import gpu
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


COUNTERS = (
    *("lts__t_sectors_srcunit_tex_lookup_hit.sum", "lts__t_sectors_srcunit_tex_lookup_miss.sum"),
    "dram__bytes_read.sum",
)
"""Sectors that hit and missed, and bytes from memory."""
_OPTIONS = ("--cache-control", "none", "--replay-mode", "application")
_TURNS = 3


def launch(labels: Path) -> None:
    """Launch all groups, and write their labels."""
    real = gpu.RealGpu()
    lab = L2Lab(real, real.attribute("MAX_PERSISTING_L2_CACHE_SIZE"))
    for group in groups(lab.most):
        lab.run(group, _TURNS)
    labels.write_text(json.dumps(lab.labels))


def main(out: Path) -> None:
    """Count, and write the recording. Raises ValueError if ncu did not count what was launched."""
    real = gpu.RealGpu()
    about = gpu.provenance("name,driver_version")
    names = {"l2_bytes": "L2_CACHE_SIZE", "persisting_max_bytes": "MAX_PERSISTING_L2_CACHE_SIZE",
             "window_max_bytes": "MAX_ACCESS_POLICY_WINDOW_SIZE", "sms": "MULTIPROCESSOR_COUNT"}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "labels.json")
        command = [sys.executable, "-m", "validate.persisting.measure", "--launch", str(labels)]
        counted = gpu.count(command, COUNTERS, timeout_s=240, options=_OPTIONS)
        launches = parse_profile(counted.csv)
        launched = json.loads(labels.read_text()) if labels.exists() else []
    if not launches or len(launches) != len(launched):
        raise ValueError(f"{len(launched)} launches made, {len(launches)} counted: {counted.printed[-2000:]}")
    document = {
        "gpu": about["smi"]["name"],
        "driver": about["smi"]["driver_version"],
        "flags": f"nvcc 13.0 -arch=sm_90 -O3; ncu --clock-control none {' '.join(_OPTIONS)}",
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "properties": {key: real.attribute(name) for key, name in names.items()},
        "counters": {
            label: [round(each.metrics[name]) for name in COUNTERS]
            for label, each in zip(launched, launches, strict=True)
            if label not in ("begin", "stream")
        },
    }
    out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(document['counters'])} launches")


if __name__ == "__main__":
    if sys.argv[1] == "--launch":
        launch(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
