"""Run built launches on this machine's GPU: outputs against NumPy, and counters under Nsight Compute.

    python -m validate.foreign.worker JOB RECORDED.json.gz

JOB is a folder as `validate.foreign.recording` writes it.
"""

from __future__ import annotations

import gzip
import importlib
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from validate import gpu
from validate.foreign.launch import BuiltLaunch, MapHole, Work, read_manifest
from validate.metrics import PIPES, RECORDED

REPEATS = 3
_SECONDS = 900.0


def run(real: gpu.RealGpu, cubin: bytes, launch: BuiltLaunch, work: Work) -> dict[str, np.ndarray]:
    """Launch once with fresh arrays, and give back what they hold then. Raises GpuError."""

    def encode(hole: MapHole, address: int) -> bytes:
        more = {"swizzle": hole.swizzle, "interleave": hole.interleave, "promotion": hole.promotion, "fill": hole.fill}
        return real.encode(hole.kind, address, hole.shape, hole.strides, hole.box, hole.steps, **more)

    arrays = launch.arrays(work)
    places = [real.alloc(array.nbytes) for array in arrays.values()]
    for place, array in zip(places, arrays.values(), strict=True):
        real.put(place, array)
    area = launch.fill(places, encode)
    words = [area[at : at + size] for at, size in launch.parameters]
    kernel = real.function(cubin, launch.symbol)
    real.launch(kernel, launch.grid, launch.block, words, launch.shared_bytes, cluster=launch.cluster)
    real.synchronize()
    found = {name: real.get(place, array.shape, array.dtype)
             for place, (name, array) in zip(places, arrays.items(), strict=True)}  # fmt: skip
    for place in places:
        real.free(place)
    return found


def launch_all(job: Path, out: Path, repeats: int, names: list[str]) -> None:
    """Launch points so many times each, and write what came of it; after an error of the driver no more are launched,
    since its context is spoilt."""
    package, points = read_manifest(job)
    cases, real = importlib.import_module(f"validate.{package}.cases"), gpu.RealGpu()
    rows: list[dict[str, Any]] = []
    for name in names:
        launch, work = points[name], cases.work_of(name)
        cubin = (job / f"{launch.code_sha256}.cubin").read_bytes()
        for _ in range(repeats):
            try:
                mismatch, error = work.mismatch(run(real, cubin, launch, work))
            except gpu.GpuError as failed:
                mismatch, error = str(failed), math.nan
            rows.append({"point": name, "inputs_sha256": work.digest(), "mismatch": mismatch, "error": error})
        print(f"{name:40s} {mismatch or 'ok'} {error:.2g}", flush=True)
        if math.isnan(error):
            break
    out.write_text(json.dumps(rows))


def record(job: Path, out: Path) -> int:
    """Check outputs, then count those points that run; the status of ncu."""
    waiting, plain = list(read_manifest(job)[1]), list[dict[str, Any]]()
    command = [sys.executable, "-m", "validate.foreign.worker", str(job)]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.json")
        while waiting:
            status, printed = gpu.run([*command, str(rows), "1", *waiting], _SECONDS)
            if status != 0:
                raise RuntimeError(printed)
            plain += json.loads(rows.read_text())
            waiting = waiting[waiting.index(plain[-1]["point"]) + 1 :]
        good = [row["point"] for row in plain if not math.isnan(row["error"])]
        names = [*RECORDED, *(f"sm__inst_executed_pipe_{pipe}.sum" for pipe in PIPES)]
        options, again = ["--cache-control", "all"], [*command, str(rows), str(REPEATS), *good]
        done = gpu.count(again, names, timeout_s=_SECONDS, options=options)
        about = gpu.provenance("name,driver_version,clocks.max.sm")
        found = {
            "plain": plain,
            "counted": json.loads(rows.read_text()),
            "csv": done.csv,
            "printed": done.printed[-4000:],
            "metrics": names,
            "provenance": {
                "date": about["date"],
                "gpu": ", ".join(about["smi"].values()),
                "ncu": about["ncu"],
                "numpy": np.__version__,
            },
        }
    with gzip.open(out, "wt") as stream:
        json.dump(found, stream)
    wrong = [row["point"] for row in plain if row["mismatch"]]
    print(f"wrong: {', '.join(wrong) or 'none'}; {done.lines} launches counted; status {done.status}")
    return done.status or 0


if __name__ == "__main__":
    if len(sys.argv) > 3:
        launch_all(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        sys.exit(record(Path(sys.argv[1]), Path(sys.argv[2])))
