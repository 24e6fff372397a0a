"""Counters of a real GPU as a side of a comparison: a recording of a bundled program, or a user's profile.

A recording is a JSON file for one program: `provenance` says which GPU and tools, `sizes` is a list of measurements,
each with `size`, `seed`, `launch` and `counters` by Nsight Compute's names; a counter is a number, or a list with one
number for each launch. Those that come with gpusim lie in `validate/baselines/`, and beside this file once installed.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.difference.side import STALL, NotAResult, Run, numbers_of, stall_reasons
from gpusim.results.profile import ProfiledKernel

FOLDERS = (Path(__file__).parent / "recordings", Path(__file__).parents[2] / "validate" / "baselines")
"""Folders of recordings: in an installed gpusim, and in its repository."""
_CYCLES, _NS = "gpc__cycles_elapsed.max", "gpu__time_duration.sum"
_LAUNCH = {
    "dynamic shared bytes": "launch__shared_mem_per_block_dynamic",
    "static shared bytes": "launch__shared_mem_per_block_static",
    "registers per thread": "launch__registers_per_thread",
}
"""Facts of a launch, and the metric that tells each."""


class NotRecorded(NotAResult):
    """There is no recording of the program, or none at that size and seed."""


def recording_of(program: str, gpu: str = "h200") -> Path:
    """The file of a bundled program's recording. Raises NotRecorded."""
    family, _, name = program.partition("/")
    for folder in FOLDERS:
        path = folder / gpu / family / f"{name or family}.json"
        if path.is_file():
            return path
    raise NotRecorded(f"there is no recording of {program} on {gpu}")


def read(path: Path) -> dict[str, Any]:
    """A recording. Raises NotAResult."""
    try:
        document = json.loads(path.read_text("utf-8"))
        if document["format"] != 1:
            raise NotAResult(f"{path} is a recording of another format: {document['format']}")
        if not all(isinstance(each["counters"], dict) for each in document["sizes"]):
            raise TypeError("counters")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotAResult(f"{path} is no recording: {type(error).__name__} at {error}") from None
    return document


def points(document: dict[str, Any]) -> list[tuple[int, int]]:
    """(size, seed) of each measurement."""
    return [(each["size"], each["seed"]) for each in document["sizes"]]


def as_run(document: dict[str, Any], size: int, seed: int) -> Run:
    """The measurement at a size as a run. Raises NotRecorded."""
    found = next((each for each in document["sizes"] if (each["size"], each["seed"]) == (size, seed)), None)
    if found is None:
        known = ", ".join(f"size {at} with seed {with_seed}" for at, with_seed in points(document))
        raise NotRecorded(f"{document['variant']} was recorded at {known}, not at size {size:,} with seed {seed}")
    launch = {"program": document["variant"], "size": size, "seed": seed}
    launch |= {name: found["launch"][name] for name in ("grid", "block")}
    return run_of(document["variant"], document["provenance"]["gpu"], launch, values_of(found))


def values_of(measurement: Mapping[str, Any]) -> dict[str, list[float]]:
    """The counters of one of a recording's measurements, a number for each launch."""
    return {name: each if isinstance(each, list) else [each] for name, each in measurement["counters"].items()}


def profiled_run(profile: ProfiledKernel, title: str) -> Run:
    """Read a user's profile as a run. Raises NotAResult if the metric of cycles or of time is missing."""
    launch = {"grid": list(profile.grid), "block": list(profile.block)}
    return run_of(title, "the profiled GPU", launch, profile.counters)


def run_of(title: str, gpu: str, launch: dict[str, Any], values: Mapping[str, Sequence[float]]) -> Run:
    """Make a run of what was measured. Raises NotAResult if the metric of cycles or of time is missing."""
    missing = [name for name in (_CYCLES, _NS) if name not in values]
    if missing:
        raise NotAResult(f"{title} has no {' and no '.join(missing)}")
    metrics = {name: statistics.median(each) for name, each in values.items()}
    return Run(
        title=title,
        gpu=gpu,
        measured=True,
        launch=launch | {name: metrics[metric] for name, metric in _LAUNCH.items() if metric in metrics},
        configuration=None,
        numbers=numbers_of({"cycles": metrics[_CYCLES], "time_us": metrics[_NS] / 1000}),
        metrics={name: value for name, value in metrics.items() if not STALL.fullmatch(name)},
        stalls=stall_reasons(metrics),
        spread=(min(values[_CYCLES]), max(values[_CYCLES])),
    )
