"""What the notebooks share: tables of numbers, runs of bundled programs, and what a real H200 recorded of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gpusim
from programs import images, registry
from validate import baseline
from validate.points import SEED

CYCLES = "gpc__cycles_elapsed.max"


def run(name: str, size: int | None = None, **options: Any) -> gpusim.Result:
    """Simulate a bundled program, the very machine code that the H200 ran (a library's from its source, which takes the
    compiler), and check its output against NumPy.

    size: as the program counts it, None for its usual one. options: passed on to `gpusim.simulate`.
    """
    variant = registry.get(name)
    launch = variant.make(size or variant.default_size, SEED)
    expected = variant.reference(launch)
    shape = {"grid": launch.grid, "block": launch.block, "shared_bytes": launch.shared_bytes}
    kernel = images.image(name) if variant.image else launch.kernel
    result = gpusim.simulate(kernel, args=launch.args, **shape, **{"gpu": variant.gpu} | options)
    wrong = variant.mismatch(expected, variant.results(launch))
    assert wrong is None, wrong
    return result


def measured(name: str, size: int) -> baseline.Measurement:
    """What an H200 did: a recorded run, whose counters are read as `measured(...)["name of the metric"]`. Raises
    validate.baseline.MissingBaseline where there is no recording; no GPU is needed."""
    return baseline.load(name).at(size)


def beside(result: gpusim.Result, real: baseline.Measurement, metrics: Sequence[str]) -> None:
    """Print metrics of a simulated launch beside the recorded ones."""
    rows = [{"metric": name, "simulated": result.metrics[name], "H200": real[name]} for name in metrics]
    table(rows)


def table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of equal keys as a table: numbers to the right, texts to the left."""
    names = list(rows[0])
    cells = [[_text(row[name]) for name in names] for row in rows]
    widths = [max(len(line[k]) for line in [names, *cells]) for k in range(len(names))]
    right = [not isinstance(rows[0][name], str) for name in names]
    for line in [names, *cells]:
        parts = [text.rjust(w) if r else text.ljust(w) for text, w, r in zip(line, widths, right, strict=True)]
        print("  ".join(parts).rstrip())


def lines(result: gpusim.Result, *fields: str) -> None:
    """Print these fields of every source line that executes, in the order of the source."""
    found = sorted((each for each in result.source_lines if each.line), key=lambda each: each.line or 0)
    table([{name: getattr(each, name) for name in fields} | {"source": each.text} for each in found])


def _text(value: Any) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.2f}"
    return value if isinstance(value, str) else f"{value:,.0f}"
