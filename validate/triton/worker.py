"""Run built Triton launches on this machine's GPU: outputs against NumPy, and counters under Nsight Compute.

    python -m validate.triton.worker JOB RECORDED.json.gz

JOB is what `validate triton --job` wrote.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from validate import gpu
from validate.metrics import PIPES, RECORDED
from validate.triton import cases
from validate.triton.work import BuiltLaunch, Work, read_job
from validate.worker import DeviceKernel

REPEATS = 3
_SECONDS = 900.0


def run(real: gpu.RealGpu, built: BuiltLaunch, work: Work) -> dict[str, np.ndarray]:
    """Launch once with fresh arrays, and give back what they hold then. Raises GpuError."""
    with DeviceKernel(real, built.kernel, built.launch(built.arrays(work), work), cluster=built.cluster) as kernel:
        kernel.reset()
        kernel.run()
        real.synchronize()
        return {name: kernel.output(index) for name, index in built.outputs().items()}


def launch_all(job: Path, out: Path) -> None:
    """Launch every point `REPEATS` times, and write what came of it."""
    real, rows = gpu.RealGpu(), list[dict[str, Any]]()
    for name, built in read_job(job).items():
        work = cases.work_of(name)
        for _ in range(REPEATS):
            mismatch, error = work.mismatch(run(real, built, work))
            rows.append({"point": name, "inputs_sha256": work.digest(), "mismatch": mismatch, "error": error})
        print(f"{name:40s} {mismatch or 'ok'} {error:.2g}", flush=True)
    out.write_text(json.dumps(rows))


def record(job: Path, out: Path) -> int:
    """Launch and count every point; the status of ncu."""
    names = [*RECORDED, *(f"sm__inst_executed_pipe_{pipe}.sum" for pipe in PIPES)]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.json")
        again = [sys.executable, "-m", "validate.triton.worker", str(job), str(rows), "launch"]
        done = gpu.count(again, names, timeout_s=_SECONDS, options=["--cache-control", "all"])
        launched = json.loads(rows.read_text()) if rows.exists() else []
    about = gpu.provenance("name,driver_version,clocks.max.sm")
    origin = {"date": about["date"], "gpu": ", ".join(about["smi"].values()), "ncu": about["ncu"]}
    found = {"rows": launched, "csv": done.csv, "metrics": names, "provenance": origin | {"numpy": np.__version__}}
    with gzip.open(out, "wt") as stream:
        json.dump(found, stream)
    print(f"{len(launched)} launches made, {done.lines} counted; status {done.status}\n{done.printed[-2000:]}")
    return done.status or 0


if __name__ == "__main__":
    if len(sys.argv) > 3:
        launch_all(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        sys.exit(record(Path(sys.argv[1]), Path(sys.argv[2])))
