"""Records the plans on this machine's GPU: `python -m validate streams measure OUT.json`.

What it writes has the form of `results/`: for each case of each experiment some runs, in which a grid is a list of
numbers (`lab.brief`) or of its blocks; copies have the times of their marks.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from validate import gpu
from validate.streams import managed, plans
from validate.streams.copying import CopyBench, copies_alone, overlap
from validate.streams.lab import RealLab

RESULTS = Path(__file__).parent / "results" / "h200.json.gz"
GRIDS: dict[str, tuple[Callable[[Any], plans.Plans], int]] = {
    "two_kernels_fit": (plans.two_kernels_fit, 2), "leftover": (plans.leftover, 1), "priority": (plans.priority, 0),
    "mixed": (plans.mixed, 1), "pairs": (plans.pairs, 0), "fillers": (plans.fillers, 1),
    "same_stream_gap": (plans.same_stream_gap, 0), "small_copies": (plans.small_copies, 0),
    "graphs": (plans.graphs, 0),
}  # fmt: skip
"""Experiments with grids, and how many runs of each case are kept with every block."""
EXPERIMENTS = (*GRIDS, "copies_alone", "overlap", "managed")
_FIELDS = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,pcie.link.gen.current,pcie.link.width.current"


def load(path: Path = RESULTS) -> dict[str, Any]:
    """A recording that was kept: {"about": ..., "experiments": {name: ...}}."""
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def experiment(lab: RealLab, name: str) -> dict[str, Any]:
    """One experiment on the GPU."""
    if name in GRIDS:
        make, whole = GRIDS[name]
        return {case: lab.repeat(plan, whole=whole) for case, plan in make(lab).items()}
    if name == "managed":
        return managed.measure(lab)
    bench = CopyBench(lab)
    if name == "copies_alone":
        return {case: [{"marks_us": {"end": bench.timed_us(plan)}} for _ in range(3)]
                for case, plan in copies_alone(bench).items()}  # fmt: skip
    return {case: {"iterations": count, "runs": [{"marks_us": {"all": bench.timed_us(plan)}} for _ in range(3)]}
            for case, (count, plan) in overlap(bench).items()}  # fmt: skip


def main(path: Path, only: Sequence[str], seconds: float) -> int:
    """Record the experiments (all if `only` is empty) within so many seconds; 1 if one failed, which is the last."""
    began, lab = time.perf_counter(), RealLab()
    about = lab.gpu.about() | gpu.provenance(_FIELDS) | {
        "timed": "ns: globaltimer as a block's first thread reads it at its start and end, from the end of the kernel "
        "that held everything back; us: events, or the host's clock where a name says host",
    }  # fmt: skip
    document: dict[str, Any] = {"about": about, "experiments": {}, "failures": {}}
    for name in only or EXPERIMENTS:
        if time.perf_counter() - began > seconds:
            document["failures"][name] = "no time left"
            continue
        try:
            document["experiments"][name] = experiment(lab, name)
        except gpu.GpuError as error:  # spoils the driver's context
            document["failures"][name] = str(error)
            break
        print(f"{name:<20}{len(document['experiments'][name]):>5} cases", flush=True)
    path.write_text(json.dumps(document, separators=(",", ":")), "utf-8")
    for name, failure in document["failures"].items():
        print(f"{name}: {failure}")
    return 1 if document["failures"] else 0
