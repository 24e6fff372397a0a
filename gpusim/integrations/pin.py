"""Pins: "this kernel on this GPU stays within so much of what was measured"; `pytest_pin.py` makes a fixture of it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.difference import recorded
from gpusim.errors import SimulationError
from gpusim.results.metrics import METRICS
from gpusim.results.profile import read_profile, three

CYCLES = "gpc__cycles_elapsed.max"
Counters = Mapping[str, Sequence[float]]
"""By metric, a number for each launch that was measured."""


class PinError(SimulationError):
    """A pin is asked for in a way that says nothing."""


def measured_counters(
    measured: Any, provenance: str, grid: Sequence[int], block: Sequence[int], kernel_name: str
) -> tuple[str, Counters]:
    """Return where the numbers of a user's `measured` come from, and the numbers; see `pytest_pin.Pin`.

    Raises PinError, and the errors of profiles and recordings that cannot be read.
    """
    if not isinstance(measured, Path):
        if not provenance.strip():
            raise PinError("say with provenance= where these numbers were measured: GPU, driver, tool, date")
        values = measured if isinstance(measured, Mapping) else {CYCLES: measured}
        try:
            return provenance, {name: [float(value)] for name, value in values.items()}
        except (TypeError, ValueError) as error:
            raise PinError(f"measured={measured!r}: {error}") from None
    if measured.suffix == ".csv":
        found = read_profile(measured, kernel_name, grid, block)
        return f"{measured.name}, {found.launches} launches profiled", found.counters
    if measured.suffix != ".json":
        raise PinError(f"{measured}: a measurement is an ncu export (.csv) or a recording (.json)")
    document, sizes = recorded.read(measured), (list(three(grid)), list(three(block)))
    for each in document["sizes"]:
        if (each["launch"]["grid"], each["launch"]["block"]) == sizes:
            made = document["provenance"]
            source = f"{measured.name}, {made['gpu']}, driver {made['driver']}, ncu {made['ncu']}, {made['date']}"
            return source, recorded.values_of(each)
    raise PinError(f"{measured} has no launch with grid {three(grid)} and block {three(block)}")


def check(name: str, source: str, measured: Counters, metrics: Mapping[str, float], allowed: float) -> tuple[bool, str]:
    """Return True if a prediction is within a share of the measured median, and a line on both. Raises PinError."""
    if name not in METRICS:
        raise PinError(f"gpusim has no metric {name!r}")
    if name not in measured:
        raise PinError(f"{source} has no {name}")
    values, predicted = measured[name], metrics[name]
    median = statistics.median(values)
    error = predicted / median - 1 if median else math.inf if predicted else 0.0
    launches = f" ({min(values):.10g} to {max(values):.10g})" if min(values) != max(values) else ""
    return abs(error) <= allowed + 1e-12, (
        f"{name}: {round(median, 4):.10g}{launches}, predicted {round(predicted, 4):.10g}: {error:+.2%}, "
        f"allowed ±{allowed:.2%}"
    )
