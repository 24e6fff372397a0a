"""Measures every recorded place of the lab's experiments on a GPU: `python -m validate.play.measure OUT.json.gz`.

A launch is repeated, and the median of its cycles counts. `pixels` is measured by ncu, with cold caches: so this
program runs itself under it (`--pixels`). Needs CuPy and ncu, a minute of a GPU, and nothing of the simulator.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.lab import play

REPEATS = 5
_METRIC = "gpc__cycles_elapsed.max"


def launches(name: str, repeats: int) -> list[list[int]]:
    """Cycles of each launch of each place."""
    import cupy

    module = cupy.RawModule(path=str(play.CUBIN))
    found = []
    arrays: dict[Any, Any] = {}
    for place in play.EXPERIMENTS[name].places():
        launch = play.launch_of(name, place)
        arguments = []
        for number, each in enumerate(launch.arguments):
            if isinstance(each, int):
                arguments.append(np.int32(each))
                continue
            if (number, each) not in arrays:
                arrays[number, each] = cupy.zeros(each[1], each[0])
            arguments.append(arrays[number, each])
        kernel = module.get_function(launch.entry)
        cycles = []
        for _ in range(repeats):
            kernel(launch.grid, launch.block, tuple(arguments))
            if name != "pixels":
                cycles.append(play.took(cupy.asnumpy(arguments[0])))
        cupy.cuda.Device().synchronize()
        found.append(cycles)
    return found


def pixels() -> list[int]:
    """Cycles of the launches of `pixels`, each profiled three times."""
    command = [
        "ncu",
        "--clock-control",
        "none",
        "--metrics",
        _METRIC,
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
    ]
    command += ["-k", "pixels", sys.executable, "-m", "validate.play.measure", "-", "--pixels"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    text = done.stdout[done.stdout.find('"ID"') :]
    rows = [row for row in csv.DictReader(io.StringIO(text)) if (row.get("ID") or "").isdigit()]
    values = [int(float(row[_METRIC].replace(",", ""))) for row in rows]
    places = len(list(play.EXPERIMENTS["pixels"].places()))
    if len(values) != 3 * places:
        raise SystemExit(
            f"ncu: {len(values)} launches of {3 * places}: {done.stdout[-500:]} {done.stderr[-500:]}"
        )
    return [int(statistics.median(values[3 * k : 3 * k + 3])) for k in range(places)]


def main(path: Path) -> None:
    """Everything, into one file."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    about: dict[str, Any] = {
        "gpu": properties["name"].decode(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "date": time.strftime("%Y-%m-%d"),
        "measured": f"SM clock around the loop, median of {REPEATS} launches; pixels: {_METRIC} by ncu, cold caches, "
        "median of 3",
    }
    experiments: dict[str, list[int]] = {}
    for name in play.EXPERIMENTS:
        start = time.perf_counter()
        if name == "pixels":
            experiments[name] = pixels()
        else:
            experiments[name] = [int(statistics.median(each)) for each in launches(name, REPEATS)]
        print(
            f"{name:<10}{len(experiments[name]):>7} places{time.perf_counter() - start:>7.1f} s", flush=True
        )
    text = json.dumps({"about": about, "experiments": experiments}, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(about, path.stat().st_size, "bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--pixels", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pixels:
        launches("pixels", 3)
    else:
        main(options.path)
