"""Measured numbers of the suite, one JSON file for each GPU in `validate/microbench/results/`.

A file holds 'provenance' (GPU, driver, clocks, versions, date, repeats) and 'benches': of each its unit, the digest of
the machine code that ran, and for each case its numbers, each as [median, least, greatest] of the repeats.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validate.microbench import images
from validate.microbench.bench import Bench

FOLDER = Path(__file__).parent / "results"


class NoResult(LookupError):
    """The numbers asked for were not measured, or not with today's machine code."""


@dataclass(frozen=True)
class Number:
    """What was measured: the median of the repeats, the least and the greatest."""

    median: float
    least: float
    greatest: float

    @property
    def spread(self) -> float:
        """Largest distance of a repeat from the median."""
        return max(self.greatest - self.median, self.median - self.least)


def load(gpu: str = "h200") -> dict[str, Any]:
    """The document of a GPU. Raises NoResult."""
    path = FOLDER / f"{gpu}.json"
    if not path.exists():
        raise NoResult(f"no microbenchmarks of {gpu}; 'python -m validate microbench measure' makes them")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def numbers(document: dict[str, Any], bench: Bench, key: str) -> dict[str, Number]:
    """The numbers of one case. Raises NoResult, also if the benchmark's machine code is another one now."""
    entry = document["benches"].get(bench.name)
    if entry is None or key not in entry["cases"]:
        raise NoResult(f"{bench.name}, {key}: not measured")
    if entry["code_sha256"] != images.code_of(bench):
        raise NoResult(f"{bench.name}: measured with other machine code than the image holds now")
    return {name: Number(*values) for name, values in entry["cases"][key].items()}


def number(document: dict[str, Any], bench: Bench, key: str, name: str) -> Number:
    """One number. Raises NoResult."""
    found = numbers(document, bench, key)
    if name not in found:
        raise NoResult(f"{bench.name}, {key}: no number '{name}'")
    return found[name]


def write(document: dict[str, Any], path: Path) -> None:
    """Write a document so that a number is a line."""
    parts = [f' "provenance": {json.dumps(document["provenance"], indent=2)}']
    benches = []
    for name, entry in document["benches"].items():
        cases = []
        for key, found in entry["cases"].items():
            rows = ",\n".join(f"    {json.dumps(each)}: {json.dumps(values)}" for each, values in found.items())
            cases.append(f"   {json.dumps(key)}: {{\n{rows}\n   }}")
        head = f'   "unit": {json.dumps(entry["unit"])},\n   "code_sha256": "{entry["code_sha256"]}",\n   "cases": {{\n'
        benches.append(f"  {json.dumps(name)}: {{\n{head}" + ",\n".join(cases) + "\n  }}")
    parts.append(' "benches": {\n' + ",\n".join(benches) + "\n }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
