"""Pins: "this kernel on this GPU stays within so much of what was measured", or of what the model said last time.

`validate/pytest_pin.py` makes a fixture of it. A measurement is an export of Nsight Compute (`.csv`), a baseline
(`.json`), or plain numbers that say where they come from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import gpusim
from gpusim.results.metrics import METRICS
from validate import export
from validate.baseline import Baseline, Spread, plain
from validate.metrics import CYCLES
from validate.replay import Pair
from validate.score import number


class PinError(ValueError):
    """A pin is asked for in a way that says nothing, or what it names cannot be read."""


@dataclass(frozen=True)
class Reference:
    """What a launch is held to. source: where the numbers come from; values: by metric name."""

    source: str
    values: Mapping[str, Spread]


@dataclass(frozen=True)
class Check:
    """A metric against its reference. allowed: greatest absolute error, a share of the reference."""

    name: str
    reference: Spread
    predicted: float
    allowed: float

    @property
    def error(self) -> float:
        """Signed and relative; infinite where the reference is zero and the prediction is not."""
        ratio = Pair(self.reference.median, self.predicted).ratio
        return float("inf") if ratio is None else ratio - 1

    @property
    def holds(self) -> bool:
        """Whether the prediction is near enough."""
        return abs(self.error) <= self.allowed + 1e-12

    def __str__(self) -> str:
        spread = self.reference
        launches = f" ({number(spread.min)} to {number(spread.max)})" if spread.min != spread.max else ""
        return (
            f"{self.name}: {number(round(spread.median, 4))}{launches}, predicted {number(round(self.predicted, 4))}: "
            f"{self.error:+.2%}, allowed ±{self.allowed:.2%}"
        )


def reference_of(
    measured: Any, provenance: str, grid: Sequence[int], block: Sequence[int], kernel_name: str = ""
) -> Reference:
    """The reference that a user's `measured` means; see `pytest_pin.Pin`. Raises PinError."""
    if isinstance(measured, (str, Path)):
        path = Path(measured)
        if path.suffix == ".csv":
            return _of_export(path, kernel_name, grid, block)
        if path.suffix == ".json":
            return _of_baseline(path, grid, block)
        raise PinError(f"{path}: a measurement is an ncu export (.csv) or a baseline (.json)")
    values = measured if isinstance(measured, Mapping) else {CYCLES: measured}
    if not provenance.strip():
        raise PinError("say with provenance= where these numbers were measured: GPU, driver, tool, date")
    try:
        return Reference(provenance, {_known(name): Spread.of([float(value)]) for name, value in values.items()})
    except (TypeError, ValueError) as error:
        raise PinError(f"measured={measured!r}: {error}") from None


def checks(
    reference: Reference, metrics: Mapping[str, float], tolerance: float, allowed: Mapping[str, float]
) -> list[Check]:
    """The cycles with their tolerance, and every counter of `allowed` with its own. Raises PinError."""
    wanted = {CYCLES: tolerance} | dict(allowed)
    missing = [name for name in wanted if name not in reference.values]
    if missing:
        raise PinError(f"{reference.source} has no {', '.join(missing)}")
    return [Check(name, reference.values[name], metrics[_known(name)], share) for name, share in wanted.items()]


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
    values = {name: plain(round(float(result.metrics[_known(name)]), 6)) for name in dict.fromkeys((CYCLES, *names))}
    pins[key] = {"gpu": result.record.config.gpu.name, "gpusim": gpusim.__version__, "metrics": values}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", "utf-8")


def pinned(path: Path, key: str) -> Reference | None:
    """The numbers that were recorded under a key, None if there are none. Raises PinError."""
    found = read_pins(path).get(key)
    if found is None:
        return None
    try:
        values = {_known(name): Spread.of([value]) for name, value in found["metrics"].items()}
        return Reference(f"{path.name}, recorded with gpusim {found['gpusim']} for {found['gpu']}", values)
    except (KeyError, TypeError, AttributeError) as error:
        raise PinError(f"{path}: the pin of {key} is damaged: {error}") from None


def _of_export(path: Path, kernel_name: str, grid: Sequence[int], block: Sequence[int]) -> Reference:
    try:
        found = export.read(path, kernel_name, grid, block)
    except export.ExportError as error:
        raise PinError(str(error)) from None
    return Reference(f"{path.name}, {found.launches} launches profiled", found.counters)


def _of_baseline(path: Path, grid: Sequence[int], block: Sequence[int]) -> Reference:
    try:
        found = Baseline.model_validate_json(path.read_text("utf-8"))
    except (OSError, ValidationError) as error:
        raise PinError(f"{path} is no baseline: {error}") from None
    for each in found.sizes:
        if (each.launch.grid, each.launch.block) == (_three(grid), _three(block)):
            made = found.provenance
            source = f"{path.name}, {made.gpu}, driver {made.driver}, ncu {made.ncu}, {made.date}"
            return Reference(source, {name: each.spread(name) for name in each.counters})
    raise PinError(f"{path} has no launch with grid {_three(grid)} and block {_three(block)}")


def _three(size: Sequence[int]) -> tuple[int, ...]:
    return (*size, 1, 1, 1)[:3]


def _known(name: str) -> str:
    if name not in METRICS:
        raise PinError(f"gpusim has no metric {name!r}")
    return name
