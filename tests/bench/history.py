"""Compares what `make bench` measured with the history of that, and appends to it for `make bench SAVE=1`.

A workload's ratio is the time of a unit of work over the time of the fixed loop, which ran in turn with it: it says
more than the rate where machines differ or are busy. Runs are compared with the last one on the same model of CPU.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

NUMBERS = ("family", "model")
"""What tells processors apart whose names a virtual machine hides."""
HISTORY = Path(__file__).with_name("history.csv")


@dataclass(frozen=True)
class Row:
    """One workload in one run. commit: with a + if there were changes beside it; rate: units per second."""

    date: str
    commit: str
    cpu: str
    workload: str
    unit: str
    rate: float
    ratio: float


def measured(report: dict[str, Any]) -> list[Row]:
    """The rows of what pytest-benchmark has written as JSON."""
    commit = report["commit_info"]["id"][:10] + "+" * report["commit_info"]["dirty"]
    processor = report["machine_info"]["cpu"]
    cpu = ", ".join(
        [processor.get("brand_raw", "unknown"), *(f"{n} {processor[n]}" for n in NUMBERS if n in processor)]
    )
    rows = []
    for each in report["benchmarks"]:
        extra, seconds = each["extra_info"], min(each["stats"]["data"])
        rate, ratio = extra["units"] / seconds, seconds / extra["units"] / min(extra["loops"])
        workload = each["params"]["name"]
        rows.append(Row(report["datetime"][:10], commit, cpu, workload, extra["unit"], rate, ratio))
    return rows


def read(path: Path) -> list[Row]:
    """A history, oldest first."""
    with path.open(newline="") as file:
        return [
            Row(**each | {"rate": float(each["rate"]), "ratio": float(each["ratio"])})
            for each in csv.DictReader(file)
        ]


def append(path: Path, rows: list[Row]) -> None:
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Row)], lineterminator="\n")
        for row in rows:
            writer.writerow(asdict(row) | {"rate": f"{row.rate:.4g}", "ratio": f"{row.ratio:.4g}"})


def table(rows: list[Row], history: list[Row]) -> str:
    """What was measured beside the last of the same workload on the same CPU; + is slower."""
    last = {(row.cpu, row.workload): row for row in history}
    lines = [f"{'':24}{'rate':>24}{'ratio':>9}{'last':>9}{'change':>9}  of"]
    for row in rows:
        line = f"{row.workload:24}{row.rate:9.4g} {row.unit + '/s':14}{row.ratio:9.4g}"
        before = last.get((row.cpu, row.workload))
        if before is not None:
            change = 100 * (row.ratio / before.ratio - 1)
            line += f"{before.ratio:9.4g}{change:+7.1f} %  {before.commit}, {before.date}"
        lines.append(line)
    return "\n".join(lines)


def main(report: str, *options: str) -> None:
    rows = measured(json.loads(Path(report).read_text()))
    print(f"On {rows[0].cpu}; ratio: time of a unit of work over that of the fixed loop, more is slower")
    print(table(rows, read(HISTORY)))
    if "--save" in options:
        append(HISTORY, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
