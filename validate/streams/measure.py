"""Record everything on this machine's GPU: `python -m validate.streams.measure OUT.json [--only NAME ...]`.

It needs numpy and CUDA's driver, and nothing of the simulator. Every experiment runs in its own process, so that one
that fails takes no other with it; the file is written anew after each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from validate.streams import copying, gaps, managed, pairs, sharing, splits
from validate.streams.lab import Lab

Experiment = Callable[[Lab], dict[str, Any]]
EXPERIMENTS: dict[str, Experiment] = {
    "timer": sharing.timer,
    "one_kernel": sharing.one_kernel,
    "two_kernels_fit": sharing.two_kernels_fit,
    "leftover": sharing.leftover,
    "priority": sharing.priority,
    "carveout": sharing.carveout,
    "splits": splits.splits,
    "targets": splits.targets,
    "places": splits.places,
    "held_free": splits.held_free,
    "in_turn": splits.in_turn,
    "many_grids": sharing.many_grids,
    "many_grids_1": sharing.many_grids,
    "many_grids_32": sharing.many_grids,
    "same_stream_gap": gaps.same_stream_gap,
    "graphs": gaps.graphs,
    "forks": gaps.forks,
    "small_copies": gaps.small_copies,
    "split_change": gaps.split_change,
    "submission": gaps.submission,
    "mixed": sharing.mixed,
    "pairs": pairs.pairs,
    "fillers": pairs.fillers,
    "copies_alone": copying.copies_alone,
    "copies_and_kernels": copying.copies_and_kernels,
    "overlap": copying.overlap,
    "managed": managed.managed,
}
CONNECTIONS = {"many_grids_1": "1", "many_grids_32": "32"}
SECONDS = 60
"""For one experiment."""


def one(name: str, path: Path) -> None:
    """One experiment, in this process."""
    lab = Lab()
    about = lab.driver.about()
    try:
        found: dict[str, Any] = {"results": EXPERIMENTS[name](lab)}
    except Exception:  # what was found so far is lost, but what failed is told
        found = {"failed": traceback.format_exc()}
    path.write_text(json.dumps(found | {"about": about}), "utf-8")


def main(path: Path, only: list[str], seconds: float) -> int:
    """All of them (or some), each in its own process, within so many seconds together; 1 if one of them failed."""
    began = time.perf_counter()
    document: dict[str, Any] = {"about": provenance(), "experiments": {}, "failures": {}, "seconds": {}}
    part = path.with_suffix(".part")
    for name in only or EXPERIMENTS:
        start = time.perf_counter()
        left = seconds - (start - began)
        if left < 5:
            document["failures"][name] = "no time left"
            continue
        environment = {**os.environ, "CUDA_MODULE_LOADING": "EAGER"}
        environment.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        if name in CONNECTIONS:
            environment["CUDA_DEVICE_MAX_CONNECTIONS"] = CONNECTIONS[name]
        part.unlink(missing_ok=True)
        command = [sys.executable, "-m", "validate.streams.measure", str(part), "--one", name]
        try:
            done = subprocess.run(
                command, env=environment, timeout=min(SECONDS, left), capture_output=True, text=True
            )
            found = json.loads(part.read_text("utf-8")) if part.exists() else {"failed": done.stderr[-3000:]}
        except subprocess.TimeoutExpired:
            found = {"failed": "took too long"}
        document["about"] |= found.get("about", {})
        if "failed" in found:
            document["failures"][name] = found["failed"]
        else:
            document["experiments"][name] = found["results"]
        document["seconds"][name] = round(time.perf_counter() - start, 1)
        path.write_text(json.dumps(document, separators=(",", ":")), "utf-8")
        state = "FAILED" if "failed" in found else f"{len(found['results'])} cases"
        print(f"{name:<20}{document['seconds'][name]:>7.1f} s  {state}", flush=True)
    part.unlink(missing_ok=True)
    for name, failure in document["failures"].items():
        print(f"{name}: {failure.strip().splitlines()[-1] if failure.strip() else 'ended without a word'}")
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {time.perf_counter() - began:.0f} s")
    return 1 if document["failures"] else 0


def provenance() -> dict[str, Any]:
    """What it is measured on and how."""
    query = (
        "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,pcie.link.gen.current,pcie.link.width.current"
    )
    try:
        said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=20).stdout.strip().splitlines()[0]  # fmt: skip
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        said = str(error)
    return {
        "nvidia_smi": {"query": query, "said": said},
        "date": time.strftime("%Y-%m-%d"),
        "timed": "ns: globaltimer as a block's first thread reads it at its start and end, from the end of the kernel "
        "that held everything back; us: events, or the host's clock where a name says host",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", nargs="*", default=[], choices=tuple(EXPERIMENTS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=280, help="for all together (default: %(default)s)")
    parser.add_argument("--one", choices=tuple(EXPERIMENTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.path)
    else:
        sys.exit(main(options.path, options.only, options.seconds))
