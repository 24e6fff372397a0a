"""Run Nsight Compute's command line and read what it prints.

One `profile` call runs one program under `ncu` and gives one record per kernel launch, in launch order.
Clocks are left as they are (`--clock-control none`) and caches are flushed before every replay pass (ncu's
default), so each launch is measured cold. Values are in base units (ns, bytes, cycles).
"""

from __future__ import annotations

import csv
import io
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Columns of the raw page that describe the launch; every other column is a metric.
_LAUNCH_COLUMNS = {
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time"),
    *("Context", "Stream", "Block Size", "Grid Size", "Device", "CC"),
}

# Nanoseconds of each unit of time; versions before 2024 spell them out.
_TIMES = {
    f"{prefix}{name}": nanoseconds
    for prefix, nanoseconds in (("", 1e9), ("m", 1e6), ("u", 1e3), ("n", 1.0))
    for name in ("s", "second")
}
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}

_TABLE = ["--csv", "--page", "raw", "--print-units", "base"]


class NcuError(RuntimeError):
    """ncu could not be run, ran out of time, or printed no table. `.output` holds what it printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


@dataclass(frozen=True)
class ProfiledLaunch:
    """One kernel launch as ncu saw it; `index` counts from 0, `metrics` maps metric names to values in base units.

    `rounding`: of values that were printed with a prefix, by how much their two decimals may be off.
    """

    index: int
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    metrics: dict[str, float]
    rounding: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """All launches of one profiled program, ncu's own messages, and the wall time in seconds."""

    launches: list[ProfiledLaunch]
    output: str
    seconds: float


def command(
    program: Sequence[str],
    metrics: Sequence[str] = (),
    *,
    sections: Sequence[str] = (),
    report: str | Path | None = None,
    options: Sequence[str] = (),
    ncu: str = "ncu",
) -> list[str]:
    """The command line that profiles every launch of `program`, into a report file or as a table in CSV."""
    if not metrics and not sections:
        raise ValueError("profile at least one metric or section")
    line = [ncu, "--clock-control", "none"]
    line += ["--export", str(report), "--force-overwrite"] if report else _TABLE
    for section in sections:
        line += ["--section", section]
    if metrics:
        line += ["--metrics", ",".join(metrics)]
    return [*line, *options, *program]


def profile(
    program: Sequence[str],
    metrics: Sequence[str] = (),
    *,
    timeout_s: float,
    sections: Sequence[str] = (),
    report: str | Path | None = None,
    options: Sequence[str] = (),
    ncu: str = "ncu",
) -> Profile:
    """Run `program` under ncu and read the table of all its launches.

    With `report` (a path ending in `.ncu-rep`) the full report also stays on disk, for `source_page`.

    Raises:
        NcuError: ncu is missing, ran longer than `timeout_s`, or profiled no launch.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.log"
        extra = [*options, "--log-file", str(log)]
        line = command(program, metrics, sections=sections, report=report, options=extra, ncu=ncu)
        printed = _run(line, timeout_s)
        text = log.read_text(errors="replace") if log.exists() else ""
    if report and Path(report).exists():
        left = max(5.0, timeout_s - (time.monotonic() - started))
        text += "\n" + _run([ncu, "--import", str(report), *_TABLE], left)
    launches = parse_raw(text) or parse_raw(printed)
    output = "\n".join(part for part in (printed, _messages(text)) if part)
    if not launches:
        raise NcuError(f"ncu profiled no launch of {' '.join(program)}", output)
    return Profile(launches, output, time.monotonic() - started)


def source_page(report: str | Path, *, timeout_s: float = 60.0, ncu: str = "ncu") -> str:
    """CSV text of a report's source page: one row per machine instruction of every launch, counted."""
    options = ["--csv", "--page", "source", "--print-source", "sass", "--print-units", "base"]
    return _run([ncu, "--import", str(report), *options], timeout_s)


def parse_raw(text: str) -> list[ProfiledLaunch]:
    """Read the CSV of ncu's raw page: a header, a row of units, then a row per launch; messages are skipped.

    Values are returned in base units (ns, byte, cycle), whatever `--print-units` was. A value that is not a number
    (n/a, a name) is left out. Of a metric printed with instances, `12 (3; 9)`, the aggregate is kept.

    Raises:
        NcuError: the table is not one that ncu prints.
    """
    launches = []
    units: dict[str, str] = {}
    for cells in _rows(text):
        if not cells["ID"].strip().isdecimal():
            units = units or cells  # the row of units stands first
            continue
        launch = _launch(cells)
        for name, cell in cells.items():
            if name not in _LAUNCH_COLUMNS:
                _put(launch, name, cell, units.get(name, ""))
        launches.append(launch)
    return launches


def parse_export(text: str) -> list[ProfiledLaunch]:
    """Read a CSV that somebody else has exported: the raw page, or ncu's other page, which has a row per metric.

    As `parse_raw`. The other page is what `ncu --csv --metrics` prints without `--page raw`; the headings of its
    sections ("SM Frequency") count as metrics of that name.
    """
    rows = list(_rows(text))
    if not rows or not {"Metric Name", "Metric Unit", "Metric Value"} <= rows[0].keys():
        return parse_raw(text)
    launches: dict[str, ProfiledLaunch] = {}
    for cells in rows:
        if cells["ID"].strip().isdecimal():
            launch = launches.setdefault(cells["ID"], _launch(cells))
            _put(launch, cells["Metric Name"], cells["Metric Value"], cells["Metric Unit"])
    return list(launches.values())


def scale_of(unit: str) -> float:
    """What a value in a unit is multiplied by to be in ncu's base unit: nanoseconds for times, else without prefix.

    ncu's prefixes are powers of 1,000 (Kbyte, Gbyte/s, Mhz, usecond, cycle/nsecond); other units are base units.
    """
    above, _, below = unit.partition("/")
    time = _TIMES.get(above)
    scale = 1.0
    if time is not None and not below:
        scale = time
    elif len(above) > 1 and above[0] in _PREFIXES and above[1].islower():
        scale = _PREFIXES[above[0]]
    return scale * 1e9 / _TIMES[below] if below in _TIMES else scale


def _rows(text: str) -> Iterator[dict[str, str]]:
    """The rows of the table in a text, by the names of its header, the row of units among them."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    except csv.Error as error:
        raise NcuError(f"the table is damaged: {error}", text) from None
    header = rows[0]
    if "Kernel Name" not in header:
        raise NcuError("the table has no column of kernel names", text)
    for row in rows[1:]:
        if len(row) == len(header):  # else a message printed between rows
            yield dict(zip(header, row, strict=True))


def _launch(cells: Mapping[str, str]) -> ProfiledLaunch:
    return ProfiledLaunch(
        index=_index(cells["ID"]),
        kernel=cells["Kernel Name"],
        grid=_triple(cells.get("Grid Size", "")),
        block=_triple(cells.get("Block Size", "")),
        metrics={},
    )


def _put(launch: ProfiledLaunch, name: str, cell: str, unit: str) -> None:
    """Add a metric to a launch, unless the cell holds no number."""
    value, scale = _number(cell), scale_of(unit.strip())
    if value is not None and name:
        launch.metrics[name] = value * scale
        if scale > 1:
            launch.rounding[name] = 0.005 * scale


def complaints(output: str, metrics: Sequence[str]) -> list[str]:
    """Those of `metrics` that an ==ERROR== or ==WARNING== line of ncu names, in the order of `metrics`."""
    named: set[str] = set()
    for line in output.splitlines():
        if line.startswith(("==ERROR==", "==WARNING==")):
            named.update(line.replace(",", " ").replace("'", " ").replace('"', " ").split())
    named |= {word.rstrip(".:;") for word in named}
    return [metric for metric in metrics if metric in named]


def supported(
    program: Sequence[str], metrics: Sequence[str], *, timeout_s: float, ncu: str = "ncu"
) -> tuple[list[str], list[str]]:
    """Split `metrics` into those that ncu collects for `program` and those that it does not know.

    ncu refuses a whole run for one unknown name. The names it complains about are dropped; where it names
    none, the list is halved until the culprit stands alone. `program` should make one short launch. When
    `timeout_s` is used up, what was not yet tried counts as unknown.
    """
    deadline = time.monotonic() + timeout_s
    known: list[str] = []
    waiting = [list(metrics)]
    while waiting:
        group = waiting.pop(0)
        left = deadline - time.monotonic()
        if not group or left < 1.0:
            continue
        try:
            done = profile(program, group, timeout_s=left, ncu=ncu)
        except NcuError as error:
            bad = complaints(error.output, group)
            if bad:
                waiting.insert(0, [metric for metric in group if metric not in bad])
            elif len(group) > 1:
                half = len(group) // 2
                waiting[:0] = [group[:half], group[half:]]
            continue
        known += [metric for metric in group if metric in done.launches[0].metrics]
    return known, [metric for metric in metrics if metric not in known]


def _run(line: Sequence[str], timeout_s: float) -> str:
    """Standard output and error of a command; the process group it started is ended at the time limit."""
    try:
        process = subprocess.Popen(
            list(line),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise NcuError(f"cannot run {line[0]}: {error}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise NcuError(f"{line[0]} ran longer than {timeout_s:.0f} s", output) from error
    return output


def _messages(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("=="))


def _number(cell: str) -> float | None:
    try:
        value = float(cell.split(" (")[0].replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _index(cell: str) -> int:
    try:
        return int(cell)
    except ValueError:
        raise NcuError(f"the table has a launch number that is not one: {cell[:40]!r}") from None


def _triple(cell: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in cell.strip("() ").split(",") if part.strip())
    except ValueError:
        raise NcuError(f"the table has a size that is not one: {cell[:40]!r}") from None
