"""Measured against predicted, number by number, with the list of those that are known to differ."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from validate.microbench import results, simulate, suite
from validate.microbench.bench import Bench, Case
from validate.microbench.results import Number

FOLDER = Path(__file__).parent
"""Where `known_gaps_GPU.json` lies. Benchmark to 'why' and 'numbers': name of each number that differs by more than is
allowed to its ratio, predicted by measured, when it was listed."""


@dataclass(frozen=True)
class ComparedNumber:
    """One number: what was measured, what the simulator predicts, and whether that is within what is allowed."""

    bench: str
    case: str
    name: str
    measured: float
    least: float
    greatest: float
    predicted: float
    within: bool
    known_gap: bool

    @property
    def ratio(self) -> float:
        """Predicted by measured."""
        return self.predicted / self.measured if self.measured else float("nan")

    @property
    def key(self) -> str:
        """The number's name within its benchmark."""
        return f"{self.case}: {self.name}"

    @property
    def verdict(self) -> str:
        """Empty if the number is as it should be: within what is allowed and not listed, or outside and listed."""
        if self.within:
            return "closed gap" if self.known_gap else ""
        return "" if self.known_gap else "off"


def compare(
    benches: Sequence[Bench],
    gpu: str = "h200",
    measured: str = "h200",
    overrides: Sequence[str] = (),
    *,
    slow: bool = True,
) -> Iterator[ComparedNumber]:
    """Simulate and compare, case by case, what was measured on that GPU at all. Raises results.NoResult."""
    document = results.load(measured)
    known = gaps(measured)
    benches = [bench for bench in benches if bench.name in document["benches"]]
    for bench, case, predicted in simulate.simulate(benches, gpu, overrides, slow=slow):
        yield from rows(bench, case, predicted, document, known)


def rows(
    bench: Bench, case: Case, predicted: dict[str, float], document: dict[str, Any], known: dict[str, Any]
) -> Iterator[ComparedNumber]:
    """One row for each number of a case. Raises results.NoResult."""
    listed = known.get(bench.name, {"numbers": {}})["numbers"]
    for name, number in results.numbers(document, bench, case.key).items():
        value = predicted[name]
        within = allowed(bench, number, value)
        found = (number.median, number.least, number.greatest, value, within)
        yield ComparedNumber(bench.name, case.key, name, *found, f"{case.key}: {name}" in listed)


def allowed(bench: Bench, number: Number, predicted: float) -> bool:
    """Whether a prediction is within the benchmark's tolerance of the median, or among the repeats."""
    room = bench.tolerance * abs(number.median) + bench.slack
    among = number.least - bench.slack <= predicted <= number.greatest + bench.slack
    return abs(predicted - number.median) <= room or among


def gaps(gpu: str = "h200") -> dict[str, Any]:
    """The list of known gaps of a GPU, empty if there is none."""
    file = _gaps_file(gpu)
    return json.loads(file.read_text()) if file.exists() else {}  # type: ignore[no-any-return]


def _gaps_file(gpu: str) -> Path:
    return FOLDER / f"known_gaps_{gpu}.json"


def update_gaps(found: Sequence[ComparedNumber], gpu: str = "h200") -> int:
    """List exactly those of these numbers that differ, keeping reasons and all numbers not among them; how many."""
    known = gaps(gpu)
    for row in found:
        entry = known.setdefault(row.bench, {"why": "", "numbers": {}})
        entry["numbers"].pop(row.key, None)
        if not row.within:
            entry["numbers"][row.key] = round(row.ratio, 2)
    known = {name: entry for name, entry in sorted(known.items()) if entry["numbers"]}
    _gaps_file(gpu).write_text(json.dumps(known, indent=1) + "\n")
    return sum(len(entry["numbers"]) for entry in known.values())


HEAD = f"{'measured':>10} {'spread':>8} {'predicted':>10} {'ratio':>6}"


def line(row: ComparedNumber) -> str:
    """A row of the table."""
    spread = row.greatest - row.least
    mark = row.verdict or ("known gap" if row.known_gap else "")
    text = f"{row.measured:10.4g} {spread:8.2g} {row.predicted:10.4g} {row.ratio:6.2f}"
    return f"{text}  {row.bench}, {row.case}: {row.name}{f'  <- {mark}' if mark else ''}"


def summary(found: Sequence[ComparedNumber]) -> str:
    """How many numbers are within what is allowed."""
    within = sum(row.within for row in found)
    wrong = sum(bool(row.verdict) for row in found)
    known = sum(row.known_gap and not row.within for row in found)
    return f"{len(found)} numbers: {within} within tolerance, {known} known gaps, {wrong} unexpected"


def document(found: Sequence[ComparedNumber]) -> list[dict[str, Any]]:
    """The rows in plain values, with ratio and verdict."""
    return [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in found]


def command(options: argparse.Namespace) -> int:
    """`validate microbench compare`: status 1 if a number is off that should not be, or the other way round."""
    measured = options.results or results.gpu_of(options.gpu)
    out = sys.stderr if options.json else sys.stdout
    print(HEAD, file=out)
    found = []
    for row in compare(suite.chosen(options), options.gpu, measured, options.set, slow=not options.fast):
        found.append(row)
        if options.full or row.verdict:
            print(line(row), file=out, flush=True)
    print(summary(found), file=out)
    if options.update_gaps:
        print(f"{update_gaps(found, measured)} known gaps listed", file=out)
        return 0
    if options.json:
        print(json.dumps(document(found), indent=1))
    return 1 if any(row.verdict for row in found) else 0
