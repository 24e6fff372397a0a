"""Counters of a real GPU, read from the CSV that Nsight Compute prints.

`ncu --csv --page raw` (from a run, or `--import` of a report) prints a row for each launch. The launches of one kernel
with one grid and block are measurements of one thing.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusim.errors import SimulationError
from gpusim.units import cut

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


class ProfileError(SimulationError):
    """A profile cannot be read, or does not say which launch is meant."""


@dataclass(frozen=True)
class ProfiledLaunch:
    """One kernel launch as ncu saw it; `metrics` maps names to values in base units (ns, byte, cycle)."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    metrics: dict[str, float]


@dataclass(frozen=True)
class ProfiledKernel:
    """Launches of one kernel with one grid and block; counters: by ncu's name, a number for each launch."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    launches: int
    counters: Mapping[str, list[float]]


def read_profile(
    path: Path, kernel: str = "", grid: Sequence[int] | None = None, block: Sequence[int] | None = None
) -> ProfiledKernel:
    """The launches of a CSV whose kernel's name contains a text, with that grid and block where they are given.

    Raises ProfileError if it cannot be read, or if these are launches of several kernels or sizes, or none.
    """
    try:
        found = parse_profile(path.read_text("utf-8", errors="replace"))
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}") from None
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from None
    if not found:
        raise ProfileError(f"{path} holds no table of ncu: export with --csv --page raw")
    chosen = [
        launch
        for launch in found
        if kernel in launch.kernel
        and (grid is None or launch.grid == three(grid))
        and (block is None or launch.block == three(block))
    ]
    kinds = list(dict.fromkeys((launch.kernel, launch.grid, launch.block) for launch in chosen or found))
    if not chosen or len(kinds) > 1:
        what = "launches of several kernels or sizes" if chosen else "no such launch"
        known = "; ".join(f"{cut(name, 60)}, grid {_text(g)}, block {_text(b)}" for name, g, b in kinds)
        raise ProfileError(f"{path} holds {what}: {known}")
    names = set.intersection(*(set(launch.metrics) for launch in chosen))
    counters = {name: [launch.metrics[name] for launch in chosen] for name in sorted(names)}
    return ProfiledKernel(*kinds[0], len(chosen), counters)


def parse_profile(text: str) -> list[ProfiledLaunch]:
    """The launches of a table, in base units whatever `--print-units` was; messages between the rows are passed over.

    Both of ncu's pages are read: the raw one with a column for each metric and a row of units, and what `ncu --csv`
    prints without `--page raw`, with a row for each metric; there the headings of its sections ("SM Frequency") count
    as metrics of that name. A value that is not a number (n/a, a name) is left out. Of a metric printed with
    instances, `12 (3; 9)`, the aggregate is kept.

    Raises ProfileError if the table is not one that ncu prints.
    """
    launches: dict[str, ProfiledLaunch] = {}
    units: dict[str, str] = {}
    for cells in _rows(text):
        if not cells["ID"].strip().isdecimal():
            units = units or cells  # the row of units stands first
            continue
        launch = launches.setdefault(
            cells["ID"],
            ProfiledLaunch(
                cells["Kernel Name"], _triple(cells.get("Grid Size", "")), _triple(cells.get("Block Size", "")), {}
            ),
        )
        if {"Metric Name", "Metric Unit", "Metric Value"} <= cells.keys():
            found = [(cells["Metric Name"], cells["Metric Value"], cells["Metric Unit"])]
        else:
            found = [(name, cell, units.get(name, "")) for name, cell in cells.items() if name not in _LAUNCH_COLUMNS]
        for name, cell, unit in found:
            value = _number(cell)
            if value is not None and name:
                launch.metrics[name] = value * scale_of(unit.strip())
    return list(launches.values())


def scale_of(unit: str) -> float:
    """Return the factor that brings a value in a unit to ncu's base unit: nanoseconds for times, else without prefix.

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


def three(size: Sequence[int]) -> tuple[int, ...]:
    """A grid or block as ncu prints it, in three dimensions."""
    return (*size, 1, 1, 1)[:3]


def _rows(text: str) -> Iterator[dict[str, str]]:
    """The rows of the table in a text, by the names of its header, the row of units among them."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), len(lines))
    table = csv.DictReader(lines[start:])
    try:
        if "Kernel Name" not in (table.fieldnames or ("Kernel Name",)):
            raise ProfileError("the table has no column of kernel names")
        for row in table:
            if None not in row and None not in row.values():  # else a message printed between rows
                yield row
    except csv.Error as error:
        raise ProfileError(f"the table is damaged: {error}") from None


def _number(cell: str) -> float | None:
    try:
        value = float(cell.split(" (")[0].replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _triple(cell: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in cell.strip("() ").split(",") if part.strip())
    except ValueError:
        raise ProfileError(f"the table has a size that is not one: {cell[:40]!r}") from None


def _text(size: Sequence[int]) -> str:
    return "x".join(map(str, size))
