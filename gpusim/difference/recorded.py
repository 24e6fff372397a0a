"""What a real GPU did with a bundled program, read from the text of a recording.

A recording is a JSON file for one program: `provenance` says which GPU and tools, `sizes` is a list of measurements,
each with `size`, `seed`, `launch` and `counters` by Nsight Compute's names; a counter is a number, or a list with one
number for each launch. `validate/baselines/` holds those that come with gpusim.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
from pathlib import Path
from typing import Any

from gpusim.difference.side import NotAResult, Run, is_stall, stall_reasons

_CYCLES, _NS = "gpc__cycles_elapsed.max", "gpu__time_duration.sum"


class NotRecorded(NotAResult):
    """There is no recording of the program, or none at that size and seed."""


def recording_of(program: str, gpu: str = "h200") -> Path:
    """The file of a bundled program's recording. Raises NotRecorded."""
    package = importlib.util.find_spec("validate")
    family, _, name = program.partition("/")
    for folder in (package.submodule_search_locations or []) if package else []:
        path = Path(folder) / "baselines" / gpu / family / f"{name or family}.json"
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
        raise NotRecorded(
            f"{document['variant']} was recorded at {known}, not at size {size:,} with seed {seed}"
        )
    values = {name: each if isinstance(each, list) else [each] for name, each in found["counters"].items()}
    metrics = {name: statistics.median(each) for name, each in values.items()}
    launch = found["launch"]
    return Run(
        title=document["variant"],
        gpu=document["provenance"]["gpu"],
        measured=True,
        launch={
            "program": document["variant"],
            "size": size,
            "seed": seed,
            "grid": launch["grid"],
            "block": launch["block"],
            "dynamic shared bytes": launch["shared_bytes"],
            "static shared bytes": metrics["launch__shared_mem_per_block_static"],
            "registers per thread": metrics["launch__registers_per_thread"],
        },
        configuration=None,
        cycles=metrics[_CYCLES],
        time_us=metrics[_NS] / 1000,
        metrics={name: value for name, value in metrics.items() if not is_stall(name)},
        stalls=stall_reasons(metrics),
        spread=(min(values[_CYCLES]), max(values[_CYCLES])),
    )
