"""Measure what L2 keeps: `python -m validate.persisting.run OUT.json`, or with `--counters` under ncu.

Needs libcuda and NumPy.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from validate.persisting.experiments import EXPERIMENTS, FIRST, LAST, PLAIN, Rows, sizes
from validate.persisting.gpu import RealGpu
from validate.persisting.lab import MB, L2Lab


def counters(lab: L2Lab) -> list[dict[str, Any]]:
    """Few points, for a profiler: returns what was launched, in order."""
    for size in (8, 16, 24, 32, 40, 44, 48, 52, 56, 60, 64, 72, 80, 120):
        lab.begin()
        for turn in range(3):
            lab.touch(lab.hot, size * MB, label=f"working_set {size} {turn}")
    for set_aside in sizes(lab.most):
        for freq in range(10, 70, 10):
            for ratio in sorted({1.0, min(1.0, set_aside / (freq * MB))}) if set_aside else (0.0,):
                lab.begin(set_aside)
                if ratio:
                    lab.gpu.window(lab.hot, freq * MB, ratio)
                for turn in range(3):
                    lab.mixed(freq * MB, 128 * MB, label=f"sliding {set_aside} {freq} {ratio:.6f} {turn}")
    for kind, policy in (("normal", PLAIN), ("first", FIRST), ("last", LAST)):
        for set_aside in (0, lab.most):
            for size in (20, 40):
                lab.begin(set_aside)
                for turn in range(2):
                    lab.touch(lab.hot, size * MB, "hint", policy, label=f"{kind} {set_aside} {size} {turn}")
                lab.touch(lab.stream, 128 * MB, label="stream")
                lab.touch(lab.hot, size * MB, label=f"{kind} {set_aside} {size} after")
    return [{"kernel": each} for each in lab.gpu.launched]


def main() -> int:
    """Run the experiments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", choices=sorted(EXPERIMENTS))
    parser.add_argument("--counters", action="store_true", help="the points for a profiler; writes their labels")
    parser.add_argument("--seconds", type=float, default=120.0, help="give up after so long (default: %(default)s)")
    options = parser.parse_args()
    lab = L2Lab(RealGpu(str(Path(__file__).with_name("kernels.cubin"))))
    document: dict[str, Any] = {"properties": lab.properties, "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    if options.counters:
        document["launches"] = counters(lab)
        options.out.write_text(json.dumps(document))
        return 0
    started = time.monotonic()
    for name in options.only or EXPERIMENTS:
        rows: Rows = []
        document[name] = rows
        try:
            if time.monotonic() - started < options.seconds:
                EXPERIMENTS[name](lab, rows)
        except RuntimeError as error:
            document.setdefault("errors", []).append(f"{name}: {error}")
        print(f"{name}: {len(rows)} rows, {time.monotonic() - started:.1f} s", flush=True)
        options.out.write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
