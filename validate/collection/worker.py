"""Count, under Nsight Compute, what built programs of public collections launch.

    python -m validate.collection.worker FOLDER OUT [SECONDS]

FOLDER holds built programs and their `manifest.json`. OUT is written anew after each program: JSON, compressed.

Each program runs once with all counters, and then once with cycles and instructions alone, as long as the time lasts.
Of each kernel its first launch is profiled, on cold caches and with clocks left as they are; of a program no more than
`MOST_LAUNCHES`.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from validate import gpu
from validate.metrics import CYCLES, PIPES, RECORDED

MANIFEST = "manifest.json"
FORMAT = 1
MOST_LAUNCHES = 6
_METRICS = [*RECORDED, *(f"sm__inst_executed_pipe_{pipe}.sum" for pipe in PIPES)]
_AGAIN = [CYCLES, "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum"]
"""Of the second run: how cycles vary, and whether the program does the same each time."""
_PROGRAM_SECONDS = 30.0
_OPTIONS = (
    *("--cache-control", "all", "--print-kernel-base", "mangled", "--kernel-name-base", "mangled"),
    *("--kernel-id", ":::1", "--launch-count", str(MOST_LAUNCHES)),
)


def record(folder: Path, out: Path, seconds: float) -> None:
    """Record what is in the folder."""
    ends, manifest = time.monotonic() + seconds, json.loads((folder / MANIFEST).read_text())["programs"]
    found = gpu.provenance()
    about = {"date": found["date"], "ncu": found["ncu"], "smi": ", ".join(found["smi"].values()),
             "cache_control": "all", "clock_control": "none"}  # fmt: skip
    document: dict[str, Any] = {"format": FORMAT, "provenance": about, "metrics": _METRICS, "programs": {}}
    for again in (False, True):
        for name, program in manifest.items():
            known, left = document["programs"].get(name, {}), ends - time.monotonic()
            if left < 5.0 or (again and known.get("lines", 0) < 1):
                continue
            run = _profile(folder, program, _AGAIN if again else _METRICS, min(_PROGRAM_SECONDS, left))
            if again:
                known["again"].append(run)
            else:
                kept = {key: program[key] for key in ("sha256", "arguments")}
                document["programs"][name] = run | kept | {"again": []}
            print(f"{name:36s} status {run['status']}, {run['lines']} launches", flush=True)
            made = out.with_name(out.name + ".new")
            with gzip.open(made, "wt", compresslevel=4) as stream:
                json.dump(document, stream)
            os.replace(made, out)
    missing = [name for name in manifest if name not in document["programs"]]
    print(f"no time was left for {', '.join(missing) or 'none'}")


def _profile(folder: Path, program: dict[str, Any], metrics: list[str], timeout_s: float) -> dict[str, Any]:
    """One run under ncu. status: the program's, None if it took too long. lines: launches in `csv`."""
    home = folder.resolve() / program["folder"]
    libraries = os.pathsep.join(filter(None, [str(folder.resolve() / "lib"), os.environ.get("LD_LIBRARY_PATH")]))
    command, environment = [str(home / program["executable"]), *program["arguments"]], {"LD_LIBRARY_PATH": libraries}
    done = gpu.count(command, metrics, timeout_s=timeout_s, options=_OPTIONS, folder=home, environment=environment)
    return {"status": done.status, "seconds": round(done.seconds, 2), "lines": done.lines, "csv": done.csv,
            "printed": done.printed[-600:]}  # fmt: skip


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 480.0)
