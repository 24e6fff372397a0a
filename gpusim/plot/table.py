"""Rows of a sweep as the pictures read them: a pandas DataFrame, or any sequence of mappings with the same names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Rows = Any
"""A `pandas.DataFrame`, or an iterable of {column: value}."""

UNITS = {
    "cycles": "SM clock cycles",
    "bound_cycles": "SM clock cycles",
    "time_us": "µs",
    "bound_us": "µs",
    "warp_instructions": "warp instructions",
    "seconds": "s",
}
_SUFFIXES = {
    "_cycles": "SM clock cycles",
    "_bytes": "bytes",
    "_gb_s": "GB/s",
    "_mhz": "MHz",
    "_us": "µs",
    "_mm2": "mm²",
    "_w": "W",
}
_RESULTS = frozenset(("key", "gpu", "seconds", "error", "bound_by", "warp_instructions", "cycles", "time_us"))


def records(rows: Rows) -> list[dict[str, Any]]:
    """The rows that have no error, as dictionaries, with `bound_us` where there is a bound. Raises ValueError if none
    is left."""
    listed: Iterable[Mapping[str, Any]] = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    found = [dict(row) for row in listed if not isinstance(row.get("error"), str)]
    if not found:
        raise ValueError("no rows to draw: none, or all with an error")
    for row in found:
        if not missing(row.get("bound_cycles")) and row.get("cycles") and row.get("time_us"):
            row.setdefault("bound_us", row["bound_cycles"] * row["time_us"] / row["cycles"])
    return found


def missing(value: Any) -> bool:
    """Whether a table has nothing there: None or not a number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def check_columns(rows: Sequence[Mapping[str, Any]], *names: str) -> None:
    """Raise ValueError, naming the columns there are, for one that no row has."""
    there = sorted({name for row in rows for name in row})
    for name in names:
        if name not in there:
            raise ValueError(f"no column {name!r}; there are {', '.join(there)}")


def check_single(rows: Sequence[Mapping[str, Any]], *axes: str) -> None:
    """Raise ValueError if two rows agree in `axes`, naming a column that tells them apart."""
    seen: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        place = tuple(row.get(axis) for axis in axes)
        other = seen.setdefault(place, row)
        if other is not row:
            differing = [name for name in row if row[name] != other.get(name) and name not in (*axes, *_RESULTS)]
            inputs = [name for name in differing if "." in name or name in ("program", "size", "seed")]
            where = ", ".join(f"{axis} = {value}" for axis, value in zip(axes, place, strict=True))
            by = (inputs or differing or ["key"])[0]
            raise ValueError(f"two rows for {where}: choose rows by {by} first")


def label(name: str) -> str:
    """A column's name with its unit."""
    unit = UNITS.get(name) or next((unit for suffix, unit in _SUFFIXES.items() if name.endswith(suffix)), None)
    if name in ("l2.bytes", "dram.capacity_bytes"):
        unit = "bytes"
    shown = {"time_us": "time", "bound_us": "bound", "cycles": "time"}.get(name, name)
    return f"{shown}, {unit}" if unit else shown


def short(value: Any) -> str:
    """A value for a tick or a cell: three digits, powers of two in binary units."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    for factor, unit in ((1 << 30, " Gi"), (1 << 20, " Mi"), (1 << 10, " Ki")):
        if value >= 8 * factor and value % factor == 0:
            return f"{value // factor:,.0f}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
