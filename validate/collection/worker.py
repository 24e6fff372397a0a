"""Count, under Nsight Compute, what built programs of public collections launch.

    python3 -m validate.collection.worker FOLDER OUT [--seconds N] [--part K/N] [--repeats N]

Needs ncu, a GPU, and nothing of Python beyond its standard library. FOLDER is what `validate collection build` has
written. OUT is written anew after each program: JSON, compressed.

Each program runs once with all counters, and then `--repeats` times with cycles and instructions alone, as long as the
time lasts.
Of each kernel its first launch is profiled, on cold caches and with clocks left as they are; of a program no more than
`MOST_LAUNCHES`.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from validate.metrics import CYCLES, PIPES, RECORDED

MANIFEST = "manifest.json"
FORMAT = 1
MOST_LAUNCHES = 6
_METRICS = [*RECORDED, *(f"sm__inst_executed_pipe_{pipe}.sum" for pipe in PIPES)]
_AGAIN = [CYCLES, "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum"]
"""Of the runs after the first: how cycles vary, and whether the program does the same each time."""
_PROGRAM_SECONDS = 30.0
_SMI = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu"


def record(
    folder: Path, out: Path, *, seconds: float, part: tuple[int, int] = (1, 1), repeats: int = 1
) -> None:
    """Record what is in the folder. part: (k, n), every n-th program from the k-th on."""
    started = time.monotonic()
    manifest = json.loads((folder / MANIFEST).read_text())["programs"]
    names = list(manifest)[part[0] - 1 :: part[1]]
    document: dict[str, Any] = {
        "format": FORMAT,
        "provenance": {
            "date": datetime.date.today().isoformat(),
            "ncu": _said(["ncu", "--version"]).rpartition("Version")[2].strip(),
            "smi": _said(["nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader"]).strip(),
            "cache_control": "all",
            "clock_control": "none",
        },
        "metrics": _METRICS,
        "programs": {},
    }

    def left() -> float:
        return seconds - (time.monotonic() - started)

    for turn in range(1 + repeats):
        for name in names:
            known = document["programs"].get(name, {})
            if left() < 5.0 or (turn and known.get("lines", 0) < 1):
                continue
            run = _profile(
                folder, manifest[name], _AGAIN if turn else _METRICS, min(_PROGRAM_SECONDS, left())
            )
            if turn:
                known["again"].append(run)
            else:
                document["programs"][name] = run | {
                    "sha256": manifest[name]["sha256"],
                    "arguments": manifest[name]["arguments"],
                    "again": [],
                }
            print(
                f"[{time.monotonic() - started:6.1f} s] {name:36s} status {run['status']}, {run['lines']} launches",
                flush=True,
            )
            _write(document, out)
    missing = [name for name in names if name not in document["programs"]]
    print(f"no time was left for {', '.join(missing) or 'none'}")


def _profile(folder: Path, program: dict[str, Any], metrics: list[str], timeout_s: float) -> dict[str, Any]:
    """One run under ncu. status: the program's, None if it took too long. lines: launches in `csv`."""
    home = folder.resolve() / program["folder"]
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "ncu.csv")
        line = ["ncu", "--clock-control", "none", "--cache-control", "all", "--csv", "--page", "raw"]
        line += ["--print-units", "base", "--print-kernel-base", "mangled", "--kernel-name-base", "mangled"]
        line += ["--kernel-id", ":::1", "--launch-count", str(MOST_LAUNCHES), "--log-file", str(log)]
        line += ["--metrics", ",".join(metrics), str(home / program["executable"]), *program["arguments"]]
        began = time.monotonic()
        status, printed = _run(line, home, folder.resolve() / "lib", timeout_s)
        csv = log.read_text(errors="replace") if log.exists() else ""
    lines = sum(each.startswith('"') and each[1:2].isdigit() for each in csv.splitlines())
    return {
        "status": status,
        "seconds": round(time.monotonic() - began, 2),
        "lines": lines,
        "csv": csv,
        "printed": printed[-600:],
    }


def _run(line: list[str], home: Path, libraries: Path, timeout_s: float) -> tuple[int | None, str]:
    """Status and output; at the time limit all that the command has started is ended."""
    path = ":".join([str(libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")]), *_cuda_libraries()])
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            line, cwd=home, env=os.environ | {"LD_LIBRARY_PATH": path}, stdin=subprocess.DEVNULL, stdout=said,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            status: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        said.seek(0)
        return status, said.read().decode(errors="replace")


def _cuda_libraries() -> list[str]:
    """Where the runtime of the installed toolkit may lie."""
    nvcc = shutil.which("nvcc")
    roots = [Path(nvcc).resolve().parents[1]] if nvcc else []
    roots += [Path("/usr/local/cuda")]
    return [str(each) for root in roots for each in (root / "lib64", root / "lib") if each.is_dir()]


def _said(line: list[str]) -> str:
    try:
        return subprocess.run(line, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def _write(document: dict[str, Any], out: Path) -> None:
    made = out.with_name(out.name + ".new")
    with gzip.open(made, "wt", compresslevel=4) as stream:
        json.dump(document, stream)
    os.replace(made, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument(
        "--part", type=lambda text: tuple(map(int, text.split("/"))), default=(1, 1), metavar="K/N"
    )
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    record(options.folder, options.out, seconds=options.seconds, part=options.part, repeats=options.repeats)
