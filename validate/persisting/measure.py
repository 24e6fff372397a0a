"""Counts what L2 keeps on this machine's GPU: `python -m validate.persisting.measure OUT.json`.

OUT.json is what `results/` holds of a GPU. The program runs itself under ncu (`--launch`). Takes a minute or two.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from gpusim.results.profile import parse_profile
from validate import gpu
from validate.persisting.lab import L2Lab, groups

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
