"""Pins: "this kernel on this GPU stays within so much of what was measured", or of what the model said last time.

`pytest_pin.py` makes a fixture of it. A measurement is a profile of Nsight Compute (`.csv`), a recording (`.json`), or
plain numbers that say where they come from.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpusim
from gpusim.difference import NotAResult, recorded
from gpusim.results.metrics import METRICS
from gpusim.results.profile import ProfileError, read_profile, three

CYCLES = "gpc__cycles_elapsed.max"


class PinError(ValueError):
    """A pin is asked for in a way that says nothing, or what it names cannot be read."""


@dataclass(frozen=True)
class Reference:
    """What a launch is held to. source: where the numbers come from; values: by metric, a number for each launch."""

    source: str
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class PinCheck:
    """A metric against its reference. allowed: greatest absolute error, a share of the reference."""

    name: str
    reference: Sequence[float]
    predicted: float
    allowed: float

    @property
    def median(self) -> float:
        """The median of the reference's launches stands for them."""
        return statistics.median(self.reference)

    @property
    def error(self) -> float:
        """Signed and relative; infinite where the reference is zero and the prediction is not."""
        if self.median:
            return self.predicted / self.median - 1
        return float("inf") if self.predicted else 0.0

    @property
    def holds(self) -> bool:
        """Whether the prediction is near enough."""
        return abs(self.error) <= self.allowed + 1e-12

    def __str__(self) -> str:
        least, greatest = min(self.reference), max(self.reference)
        launches = f" ({least:.10g} to {greatest:.10g})" if least != greatest else ""
        return (
            f"{self.name}: {round(self.median, 4):.10g}{launches}, predicted {round(self.predicted, 4):.10g}: "
            f"{self.error:+.2%}, allowed ±{self.allowed:.2%}"
        )


def reference_of(
    measured: Any, provenance: str, grid: Sequence[int], block: Sequence[int], kernel_name: str = ""
) -> Reference:
    """The reference that a user's `measured` means; see `pytest_pin.Pin`. Raises PinError."""
    if isinstance(measured, (str, Path)):
        path = Path(measured)
        if path.suffix == ".csv":
            return _of_profile(path, kernel_name, grid, block)
        if path.suffix == ".json":
            return _of_recording(path, grid, block)
        raise PinError(f"{path}: a measurement is an ncu export (.csv) or a recording (.json)")
    values = measured if isinstance(measured, Mapping) else {CYCLES: measured}
    if not provenance.strip():
        raise PinError("say with provenance= where these numbers were measured: GPU, driver, tool, date")
    try:
        return Reference(provenance, {_known(name): [float(value)] for name, value in values.items()})
    except (TypeError, ValueError) as error:
        raise PinError(f"measured={measured!r}: {error}") from None


def checks(
    reference: Reference, metrics: Mapping[str, float], tolerance: float, allowed: Mapping[str, float]
) -> list[PinCheck]:
    """The cycles with their tolerance, and every counter of `allowed` with its own. Raises PinError."""
    wanted = {CYCLES: tolerance} | dict(allowed)
    missing = [name for name in wanted if name not in reference.values]
    if missing:
        raise PinError(f"{reference.source} has no {', '.join(missing)}")
    return [PinCheck(name, reference.values[name], metrics[_known(name)], share) for name, share in wanted.items()]


def read_pins(path: Path) -> dict[str, Any]:
    """The pinned numbers of a file by test, empty if there is no file. Raises PinError."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise PinError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise PinError(f"{path} does not hold pins")
    return found


def write_pin(path: Path, key: str, result: gpusim.Result, names: Sequence[str]) -> None:
    """Record a run's numbers under a key, beside what the file holds already. Raises PinError."""
    pins = read_pins(path)
    values = {name: _plain(result.metrics[_known(name)]) for name in dict.fromkeys((CYCLES, *names))}
    pins[key] = {"gpu": result.record.config.gpu.name, "gpusim": gpusim.__version__, "metrics": values}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", "utf-8")


def pinned(path: Path, key: str) -> Reference | None:
    """The numbers that were recorded under a key, None if there are none. Raises PinError."""
    found = read_pins(path).get(key)
    if found is None:
        return None
    try:
        values = {_known(name): [float(value)] for name, value in found["metrics"].items()}
        return Reference(f"{path.name}, recorded with gpusim {found['gpusim']} for {found['gpu']}", values)
    except (KeyError, TypeError, AttributeError) as error:
        raise PinError(f"{path}: the pin of {key} is damaged: {error}") from None


def _of_profile(path: Path, kernel_name: str, grid: Sequence[int], block: Sequence[int]) -> Reference:
    try:
        found = read_profile(path, kernel_name, grid, block)
    except ProfileError as error:
        raise PinError(str(error)) from None
    return Reference(f"{path.name}, {found.launches} launches profiled", found.counters)


def _of_recording(path: Path, grid: Sequence[int], block: Sequence[int]) -> Reference:
    sizes = list(three(grid)), list(three(block))
    try:
        document = recorded.read(path)
        for each in document["sizes"]:
            if (each["launch"]["grid"], each["launch"]["block"]) == sizes:
                made = document["provenance"]
                source = f"{path.name}, {made['gpu']}, driver {made['driver']}, ncu {made['ncu']}, {made['date']}"
                return Reference(source, recorded.values_of(each))
    except NotAResult as error:
        raise PinError(str(error)) from None
    except KeyError as error:
        raise PinError(f"{path} is no recording: it has no {error}") from None
    raise PinError(f"{path} has no launch with grid {three(grid)} and block {three(block)}")


def _plain(value: float) -> float:
    """Six decimals, and an int where the value is whole, so that a file of pins is easy to read."""
    value = round(float(value), 6)
    return int(value) if value.is_integer() else value


def _known(name: str) -> str:
    if name not in METRICS:
        raise PinError(f"gpusim has no metric {name!r}")
    return name
