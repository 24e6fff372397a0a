"""From what `run.sh` wrote on a GPU to the recording that is kept: `results/NAME.json`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
FLAGS = "nvcc 13.0 -arch=sm_90 -O3; ncu --clock-control none --cache-control none --replay-mode application"
_COUNTERS = {
    "hit": "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "miss": "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "memory": "dram__bytes_read.sum",
}
_RENAMED = {"properties": "pairs"}
"""What an earlier version called an experiment."""
_NEAR_BINS = 15  # of 25 cycles: what takes less was in the reader's own partition


def document(folder: Path) -> dict[str, Any]:
    """The recording: rows of all experiments, with `near` for the lines that a sample found in the partition that its
    reader asked, of the half of its lines that have their home there, and counters by launch."""
    raw = json.loads((folder / "persisting.json").read_text())
    launches = json.loads((folder / "persisting_launches.json").read_text())
    name, driver, *_ = (folder / "persisting_gpu.csv").read_text().strip().split(", ")
    found: dict[str, Any] = {
        "gpu": name,
        "driver": driver,
        "flags": FLAGS,
        "utc": raw["utc"],
        "properties": launches["properties"],
        "counters": _counters(folder / "persisting_ncu.csv", launches["launches"]),
    }
    for key, rows in raw.items():
        if isinstance(rows, list):
            found[_RENAMED.get(key, key)] = [_brief(row) for row in rows]
    return found


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    left_out = ("histogram_25", "cycles_8_zlib_base64", "cached", "lines")
    brief = {key: value for key, value in row.items() if key not in left_out}
    if "histogram_25" in row and sum(row["histogram_25"]):
        brief["near"] = round(2 * sum(row["histogram_25"][:_NEAR_BINS]) / sum(row["histogram_25"]), 4)
    return brief


def _counters(path: Path, launches: list[dict[str, str]]) -> dict[str, list[int]]:
    """[sectors that hit, sectors that missed, bytes from memory] by a launch's label. Raises ValueError if the table
    does not fit the launches."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row["ID"]]
    names = [row["Kernel Name"].partition("(")[0] for row in rows]
    if names != [each["kernel"].split()[0] for each in launches]:
        raise ValueError(f"{path} is not of these launches")
    return {
        each["kernel"].partition(" ")[2]: [round(float(row[name].replace(",", ""))) for name in _COUNTERS.values()]
        for row, each in zip(rows, launches, strict=True)
        if not each["kernel"].endswith((" begin", " stream"))
    }


def write(folder: Path, name: str) -> Path:
    """Keep a recording under a GPU's name."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    lines = [f" {json.dumps(key)}: {_rows(value)}" for key, value in document(folder).items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return path


def _rows(value: Any) -> str:
    """JSON with a line for each row or launch."""
    if isinstance(value, list):
        return "[\n  " + ",\n  ".join(json.dumps(each) for each in value) + "\n ]"
    if isinstance(value, dict):
        return "{\n  " + ",\n  ".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()) + "\n }"
    return json.dumps(value)
