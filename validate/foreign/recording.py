"""Jobs for a machine with a GPU, and what the repository keeps of their results: text and numbers, no machine code."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from gpusim.results.profile import parse_profile
from isa import Program
from validate.baseline import plain
from validate.foreign.launch import BuiltLaunch
from validate.foreign.worker import LAUNCHES
from validate.metrics import DIFFERENCES

Built = tuple[bytes, Program, BuiltLaunch]
_ROOT = Path(__file__).parents[1]


class RecordingRefused(ValueError):
    """Results that are not to be kept, and why."""


def write_job(folder: Path, cases: ModuleType, names: list[str], build: Callable[[str], Built]) -> None:
    """Build the named cases into `folder`, with all that the machine with the GPU needs.

    There, in the folder: python -m validate.foreign.worker . recorded.json.gz
    """
    points = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        cubin, _, points[name] = build(name)
        (folder / f"{points[name].code_sha256}.cubin").write_bytes(cubin)
    (folder / LAUNCHES).write_bytes(pickle.dumps((cases.__name__, points)))
    package = cases.__name__.split(".")[1]
    for file in ("__init__.py", "metrics.py", f"{package}/__init__.py", f"{package}/cases.py",
                 *(f"foreign/{each}.py" for each in ("__init__", "launch", "worker"))):  # fmt: skip
        target = folder / "validate" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_ROOT / file, target)


def keep(
    job: Path, recorded: Path, how: Callable[[str], dict[str, Any]], tools: Mapping[str, str]
) -> dict[str, Any]:
    """What the repository keeps of a recording. Raises RecordingRefused if a point is wrong or missing."""
    points = pickle.loads((job / LAUNCHES).read_bytes())[1]
    with gzip.open(recorded, "rt") as stream:
        found = json.load(stream)
    outputs = {row["point"]: row for row in found["plain"]}
    rows = found["counted"]
    launches = parse_profile(found["csv"])
    refused = [f"{name}: {outputs[name]['mismatch'] if name in outputs else 'was not launched'}"
               for name in points if name not in outputs or outputs[name]["mismatch"]]  # fmt: skip
    if refused or len(rows) != len(launches):
        raise RecordingRefused("\n".join(refused) or f"{len(rows)} launches made, {len(launches)} counted")
    document: dict[str, Any] = {
        "provenance": {**found["provenance"], "tools": dict(tools)},
        "points": {},
    }
    for name, launch in points.items():
        mine = [launch.metrics for row, launch in zip(rows, launches, strict=True) if row["point"] == name]
        for metrics in mine:
            metrics |= {new: metrics[a] - metrics[b] for new, (a, b) in DIFFERENCES.items()}
        facts = sorted(each for each in mine[0] if each.startswith("launch__"))
        wanted = [each for each in (*found["metrics"], *DIFFERENCES, *facts) if each in mine[0]]
        document["points"][name] = {
            "how": how(name),
            "launch": {
                key: getattr(launch, key) for key in ("symbol", "grid", "block", "cluster", "shared_bytes")
            },
            "code_sha256": launch.code_sha256,
            "inputs_sha256": outputs[name]["inputs_sha256"],
            "error": outputs[name]["error"],
            "counters": {
                each: _values([metrics[each] for metrics in mine]) for each in dict.fromkeys(wanted)
            },
        }
    return document


def text_of(document: Mapping[str, Any]) -> str:
    """A recording as it is kept: a line for each counter."""
    text = json.dumps(document, indent=1)
    return re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def _values(values: list[float]) -> Any:
    """One value, or that of each launch where they differ."""
    return plain(values[0]) if len(set(values)) == 1 else [plain(each) for each in values]
