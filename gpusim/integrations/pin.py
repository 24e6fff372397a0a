"""Pins: "this kernel on this GPU stays within so much of what was measured"; `pytest_pin.py` makes a fixture of it, and
`gpusim pin` runs a file of them."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from gpusim.difference import compare_results, recorded
from gpusim.errors import SimulationError, nearest
from gpusim.launch import Launch
from gpusim.result import Result
from gpusim.results.metrics import METRICS
from gpusim.results.profile import read_profile, three
from gpusim.simulation import simulate
from gpusim.units import counted

CYCLES = "gpc__cycles_elapsed.max"
Counters = Mapping[str, Sequence[float]]
"""By metric, a number for each launch that was measured."""


class PinError(SimulationError):
    """A pin is asked for in a way that says nothing, or a kernel leaves what it is pinned to."""


class Pin:
    """Simulates a launch and holds it to numbers. folder: paths of measurements are relative to it; pages: where the
    page of one that fails is written, under this name."""

    def __init__(self, folder: Path, pages: Path, name: str) -> None:
        self._folder, self._page = folder, pages / f"{re.sub(r'[^a-zA-Z0-9_.-]+', '-', name).strip('-')}.html"

    # many parameters: as `gpusim.simulate`, and what was measured.
    def __call__(
        self,
        kernel: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        *,
        measured: Any,
        tolerance: float | Literal["interval"] | None = None,
        gpu: Any = "h200",
        provenance: str = "",
        counters: Mapping[str, float] | Iterable[str] = (),
        kernel_name: str = "",
        **options: Any,
    ) -> Result:
        """The result of `gpusim.simulate`, once it is near enough.

        Args:
            kernel, grid, block, args, gpu, options: as `gpusim.simulate` takes them.
            measured: what hardware did: the path of an ncu export (`.csv`) or a baseline (`.json`), or cycles, or
                {metric: number}.
            tolerance: greatest error of the cycles, a share: 0.1 is a tenth; or "interval": measured cycles lie in the
                model's own interval (`result.interval`). It has to be said.
            provenance: where plain numbers were measured; has to be said for them.
            counters: further metrics, each with its tolerance; without tolerances they have `tolerance`'s.
            kernel_name: part of the kernel's name, where an export holds several of the same size.

        Raises PinError if it is not, and the errors of profiles and recordings that cannot be read.
        """
        if isinstance(measured, (str, Path)):
            measured = self._folder / measured
        launch = Launch(kernel, grid, block)
        shares = {CYCLES: tolerance}
        shares |= dict(counters) if isinstance(counters, Mapping) else dict.fromkeys(counters, tolerance)
        source, known = measured_counters(measured, provenance, launch.grid, launch.block, kernel_name)
        result = simulate(kernel, grid, block, args, gpu, **options)
        found = [check(name, source, known, result, share) for name, share in shares.items()]
        if not all(holds for holds, _ in found):
            lines = [f"{result.kernel} on {result.record.config.gpu.name} leaves what it is pinned to ({source})"]
            lines += [f"  {'ok   ' if holds else 'LEFT '} {text}" for holds, text in found]
            raise PinError("\n".join([*lines, *self._why(result, known)]))
        return result

    def _why(self, result: Result, known: Counters) -> list[str]:
        """Say where the predicted time goes, and what differs from the measurement where that says it."""
        self._page.parent.mkdir(parents=True, exist_ok=True)
        reasons = sorted(result.stall_reasons.items(), key=lambda each: -each[1].share)[:3]
        stalls = ", ".join(f"{name} {each.share:.0%}" for name, each in reasons)
        lines = [f"Predicted warps spend their time in {stalls}"]
        if costs := sorted(result.source_lines, key=lambda each: -each.cycles)[:1]:
            lines.append(f"Most of it at line {costs[0].line}: {costs[0].text.strip()}")
        try:
            difference = compare_results(recorded.run_of(result.kernel, "the GPU", {}, known), result)
        except recorded.NotAResult:  # some numbers, not a profile
            return [*lines, f"The report: {result.report_html(self._page)}"]
        lines += ["From the measurement (A) to the prediction (B):", *(f"  {text}" for text in difference.why)]
        return [*lines, f"The difference: {difference.report_html(self._page)}"]


def measured_counters(
    measured: Any, provenance: str, grid: Sequence[int], block: Sequence[int], kernel_name: str
) -> tuple[str, Counters]:
    """Return where the numbers of a user's `measured` come from, and the numbers; see `Pin`.

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
        return f"{measured.name}, {counted(found.launches, 'launch')} profiled", found.counters
    if measured.suffix != ".json":
        raise PinError(f"{measured}: a measurement is an ncu export (.csv) or a recording (.json)")
    document, sizes = recorded.read(measured), (list(three(grid)), list(three(block)))
    for each in document["sizes"]:
        if (each["launch"]["grid"], each["launch"]["block"]) == sizes:
            made = document["provenance"]
            source = f"{measured.name}, {made['gpu']}, driver {made['driver']}, ncu {made['ncu']}, {made['date']}"
            return source, recorded.values_of(each)
    raise PinError(f"{measured} has no launch with grid {three(grid)} and block {three(block)}")


def check(name: str, source: str, measured: Counters, result: Result, allowed: Any) -> tuple[bool, str]:
    """Return True if a prediction is within a share of the measured median, or that in the model's interval, and a line
    on both. Raises PinError."""
    if name not in METRICS:
        meant = nearest(name, METRICS)
        raise PinError(f"gpusim has no metric {name!r}{f'; did you mean {meant!r}?' if meant else ''}")
    if name not in measured:
        raise PinError(f"{source} has no {name}")
    if allowed != "interval" and not (isinstance(allowed, int | float) and 0 <= allowed <= 1):
        raise PinError(f"the tolerance of {name} is a share, such as 0.05 for 5 %, or 'interval', not {allowed!r}")
    values, predicted = measured[name], result.metrics[name]
    median = statistics.median(values)
    error = predicted / median - 1 if median else math.inf if predicted else 0.0
    launches = f" ({min(values):.10g} to {max(values):.10g})" if min(values) != max(values) else ""
    if allowed != "interval":
        holds, limits = abs(error) <= allowed + 1e-12, f"±{allowed:.2%}"
    elif (interval := result.interval) is None or name != CYCLES:
        raise PinError(f"the model has no interval for {name} of this launch; say a tolerance")
    else:
        holds, limits = interval.low <= median <= interval.high, f"{interval.low:,} to {interval.high:,} measured"
    off = f"{error:+.2%}" if not error or abs(error) >= 5e-5 else f"{predicted - median:+.10g}"
    text = f"{name}: {round(median, 4):.10g}{launches}, predicted {round(predicted, 4):.10g}: {off}"
    return holds, f"{text}, allowed {limits}"
