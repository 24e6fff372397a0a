"""Measured numbers of the suite, one JSON file for each GPU in `validate/microbench/results/`.

A file holds 'recordings' (for each the GPU, driver, clocks, versions, date, repeats) and 'benches': of each its unit,
the digest of the machine code that ran, and for each case its numbers: [median, least, greatest] of all repeats.
Cards of one type differ, in which SMs are near which half of L2 for one, so results join recordings of several.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from validate.gpu import compact_text, read_json
from validate.microbench import images
from validate.microbench.bench import Bench, benches

FOLDER = Path(__file__).parent / "results"


class NoResult(LookupError):
    """The numbers asked for were not measured, or not with today's machine code."""


@dataclass(frozen=True)
class Number:
    """A measured number: median, least and greatest of the repeats."""

    median: float
    least: float
    greatest: float

    @property
    def spread(self) -> float:
        """Largest distance of a repeat from the median."""
        return max(self.greatest - self.median, self.median - self.least)


def gpu_of(configuration: str) -> str:
    """The GPU whose results a configuration is compared with: its own, or the H200's where it has none."""
    return configuration if (FOLDER / f"{configuration}.json").exists() else "h200"


def load(gpu: str = "h200") -> dict[str, Any]:
    """The document of a GPU, or of a file. Raises NoResult."""
    path = Path(gpu) if gpu.endswith(".json") else FOLDER / f"{gpu}.json"
    if not path.exists():
        raise NoResult(f"no microbenchmarks of {gpu}; 'python -m validate microbench measure' makes some")
    return read_json(path)  # type: ignore[no-any-return]


def numbers(document: dict[str, Any], bench: Bench, key: str) -> dict[str, Number]:
    """The numbers of one case. Raises NoResult, also if the benchmark's machine code is another one now."""
    entry = document["benches"].get(bench.name)
    if entry is None or key not in entry["cases"]:
        raise NoResult(f"{bench.name}, {key}: not measured")
    if entry["code_sha256"] != images.code_of(bench):
        raise NoResult(f"{bench.name}: measured with other machine code than the image holds now")
    return {name: Number(*values) for name, values in entry["cases"][key].items()}


def join(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document out of several recordings: of each number the median of the medians, the least and the greatest of
    all that hold its benchmark. Raises ValueError if a benchmark's machine code is not the same in all of these."""
    benches: dict[str, Any] = {}
    for name in dict.fromkeys(name for document in documents for name in document["benches"]):
        others = [document["benches"][name] for document in documents if name in document["benches"]]
        entry = others[0]
        if any(other["code_sha256"] != entry["code_sha256"] for other in others):
            raise ValueError(f"{name}: not measured with the same machine code in all recordings")
        cases = {}
        for key, found in entry["cases"].items():
            rows = {each: [other["cases"][key][each] for other in others] for each in found}
            cases[key] = {each: _joined(values) for each, values in rows.items()}
        benches[name] = {**entry, "cases": cases}
    return {"recordings": [each for document in documents for each in document["recordings"]], "benches": benches}


def _joined(values: Sequence[list[float]]) -> list[float]:
    medians, least, greatest = zip(*values, strict=True)
    return [median(medians), min(least), max(greatest)]


def command(options: argparse.Namespace) -> int:
    """`validate microbench join`."""
    joined = join([*map(read_json, options.recordings)])
    order = {name: place for place, name in enumerate(benches())}
    joined["benches"] = dict(sorted(joined["benches"].items(), key=lambda each: order[each[0]]))
    (FOLDER / f"{options.gpu}.json").write_text(compact_text(joined))
    return 0
