"""Jobs for a machine with a GPU, and what the repository keeps of their results: text and numbers, no machine code."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpusim.results.profile import parse_profile
from isa import Program
from isa.listing import program_from_cubin
from validate.baseline import plain
from validate.foreign.launch import BuiltLaunch, NotBuilt, read_manifest, write_manifest
from validate.metrics import DIFFERENCES

Built = tuple[bytes, Program, BuiltLaunch]


class RecordingRefused(ValueError):
    """Results that are not to be kept, and why."""


def write_job(folder: Path, package: str, names: list[str], build: Callable[[str], Built]) -> None:
    """Build the named cases into `folder`, for `python -m validate.foreign.worker` on a machine with a GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    points = {}
    for name in names:
        cubin, _, points[name] = build(name)
        (folder / f"{points[name].code_sha256}.cubin").write_bytes(cubin)
    write_manifest(folder, package, points)


def load(folder: Path, name: str) -> Built:
    """A case out of a folder of kernels that were built elsewhere. Raises NotBuilt, and IsaError for a cubin that
    cannot be read."""
    points = read_manifest(folder)[1]
    if name not in points:
        raise NotBuilt(f"{folder} has no {name}")
    path = folder / f"{points[name].code_sha256}.cubin"
    cubin = path.read_bytes()
    return cubin, program_from_cubin(cubin, points[name].symbol, abi="c", path=path.name), points[name]


def keep(job: Path, recorded: Path, how: Callable[[str], dict[str, Any]], tools: Mapping[str, str]) -> dict[str, Any]:
    """What the repository keeps of a recording. Raises RecordingRefused if a point is wrong or missing."""
    points = read_manifest(job)[1]
    with gzip.open(recorded, "rt") as stream:
        found = json.load(stream)
    outputs = {row["point"]: row for row in found["plain"]}
    rows = found["counted"]
    launches = parse_profile(found["csv"])
    refused = [f"{name}: {outputs[name]['mismatch'] if name in outputs else 'was not launched'}"
               for name in points if name not in outputs or outputs[name]["mismatch"]]  # fmt: skip
    if refused or len(rows) != len(launches):
        raise RecordingRefused("\n".join(refused) or f"{len(rows)} launches made, {len(launches)} counted")
    document: dict[str, Any] = {"provenance": {**found["provenance"], "tools": dict(tools)}, "points": {}}
    for name, launch in points.items():
        mine = [launch.metrics for row, launch in zip(rows, launches, strict=True) if row["point"] == name]
        for metrics in mine:
            metrics |= {new: metrics[a] - metrics[b] for new, (a, b) in DIFFERENCES.items()}
        facts = sorted(each for each in mine[0] if each.startswith("launch__"))
        wanted = [each for each in (*found["metrics"], *DIFFERENCES, *facts) if each in mine[0]]
        document["points"][name] = {
            "how": how(name),
            "launch": {key: getattr(launch, key) for key in ("symbol", "grid", "block", "cluster", "shared_bytes")},
            "code_sha256": launch.code_sha256,
            "inputs_sha256": outputs[name]["inputs_sha256"],
            "error": outputs[name]["error"],
            "counters": {each: _values([metrics[each] for metrics in mine]) for each in dict.fromkeys(wanted)},
        }
    return document


def text_of(document: Mapping[str, Any]) -> str:
    """A recording as it is kept: a line for each counter."""
    text = json.dumps(document, indent=1)
    return re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def _values(values: list[float]) -> Any:
    """One value, or that of each launch where they differ."""
    return plain(values[0]) if len(set(values)) == 1 else [plain(each) for each in values]
