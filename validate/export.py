"""A profile of the user's own: the CSV that Nsight Compute exports, beside a simulation of the same launch.

`ncu --csv --page raw` (from a run, or `--import` of a report) prints a row for each launch. The launches of one kernel
with one grid and block are measurements of one thing: the median stands for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.results.metrics import METRICS
from validate import ncu
from validate.baseline import Spread, plain
from validate.metrics import CYCLES, EXACT, LAUNCH
from validate.replay import Pair
from validate.score import number

_EXACT = frozenset((*EXACT, *LAUNCH))


class ExportError(ValueError):
    """An export cannot be read, or does not say which launch is meant."""


@dataclass(frozen=True)
class Export:
    """Launches of one kernel with one grid and block, as profiled.

    counters: by ncu's name, those that gpusim has; unknown: the other names, which are passed over. rounding: by how
    much a counter that was printed with a prefix ("1.02 Kbyte") may be off.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    launches: int
    counters: Mapping[str, Spread]
    unknown: tuple[str, ...]
    rounding: Mapping[str, float]


@dataclass(frozen=True)
class Line:
    """A counter of both sides. exact: it follows from code and data alone, so it has to be equal."""

    name: str
    unit: str
    measured: Spread
    predicted: float
    exact: bool
    rounding: float = 0.0

    @property
    def pair(self) -> Pair:
        """Median of the measured, and the predicted value."""
        return Pair(self.measured.median, plain(self.predicted))

    @property
    def error(self) -> float | None:
        """Signed and relative; None where nothing was measured and something predicted."""
        return None if self.pair.ratio is None else self.pair.ratio - 1

    @property
    def differs(self) -> bool:
        """Whether it is one that has to be equal, and is not, as far as the export's digits go."""
        off = abs(self.pair.predicted - self.pair.measured)
        return self.exact and not self.pair.equal and off > self.rounding


def read(
    path: Path, kernel: str = "", grid: Sequence[int] | None = None, block: Sequence[int] | None = None
) -> Export:
    """The launches of an export whose kernel's name contains a text, with that grid and block where they are given.

    Raises ExportError if it cannot be read, or if these are launches of several kernels or sizes, or none.
    """
    try:
        found = ncu.parse_export(path.read_text("utf-8", errors="replace"))
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}") from None
    except ncu.NcuError as error:
        raise ExportError(f"{path}: {error}") from None
    if not found:
        raise ExportError(f"{path} holds no table of ncu: export with --csv --page raw")
    chosen = [
        launch
        for launch in found
        if kernel in launch.kernel
        and (grid is None or _three(grid) == _three(launch.grid))
        and (block is None or _three(block) == _three(launch.block))
    ]
    of = chosen or found
    kinds = list(dict.fromkeys((launch.kernel, _three(launch.grid), _three(launch.block)) for launch in of))
    if not chosen or len(kinds) > 1:
        what = "several kernels or sizes; choose with --kernel, --grid, --block" if chosen else "no such launch"
        listed = "; ".join(f"{_short(name)}, grid {_text(wide)}, block {_text(deep)}" for name, wide, deep in kinds)
        raise ExportError(f"{path} has {what}: {listed}")
    names = list(dict.fromkeys(name for launch in chosen for name in launch.metrics))
    return Export(
        kernel=chosen[0].kernel,
        grid=_three(chosen[0].grid),
        block=_three(chosen[0].block),
        launches=len(chosen),
        counters={
            name: Spread.of([launch.metrics[name] for launch in chosen if name in launch.metrics])
            for name in names
            if name in METRICS
        },
        unknown=tuple(name for name in names if name not in METRICS),
        rounding={name: step for launch in chosen for name, step in launch.rounding.items()},
    )


def lines(export: Export, metrics: Mapping[str, float]) -> list[Line]:
    """Every counter of the export with what a simulation made of it: cycles first, then the exact ones."""
    found = [
        Line(name, METRICS[name].unit, spread, metrics[name], name in _EXACT, export.rounding.get(name, 0.0))
        for name, spread in export.counters.items()
    ]
    return sorted(found, key=lambda line: (line.name != CYCLES, not line.exact))


def text(export: Export, found: Sequence[Line]) -> str:
    """The comparison as a table."""
    wide = max([len(line.name) for line in found], default=6)
    head = (
        f"{_short(export.kernel)}, grid {_text(export.grid)}, block {_text(export.block)}: {export.launches} "
        f"launch{'es' * (export.launches != 1)} profiled"
    )
    rows = [f"{'metric':{wide}s} {'unit':>15s} {'measured':>14s} {'spread':>7s} {'predicted':>14s} {'error':>9s}"]
    for line in found:
        error = "-" if line.error is None else f"{line.error:+.1%}"
        note = "  DIFFERS, must be equal" if line.differs else "  exact" if line.exact else ""
        rows.append(
            f"{line.name:{wide}s} {line.unit:>15s} {number(round(line.measured.median, 2)):>14s} "
            f"{line.measured.relative:7.1%} {number(round(line.predicted, 2)):>14s} {error:>9s}{note}"
        )
    exact = [line for line in found if line.exact]
    equal = len(exact) - sum(line.differs for line in exact)
    unknown = f"{len(export.unknown)} metrics of the export are unknown to gpusim"
    tail = f"{equal} of {len(exact)} exact counters equal; {unknown}"
    return "\n".join([head, *rows, tail])


def document(export: Export, found: Sequence[Line]) -> dict[str, Any]:
    """The comparison as plain values, for JSON."""
    return {
        "kernel": export.kernel,
        "grid": list(export.grid),
        "block": list(export.block),
        "launches": export.launches,
        "unknown": list(export.unknown),
        "metrics": {
            line.name: {
                "unit": line.unit,
                "measured": line.measured.model_dump(),
                "predicted": line.predicted,
                "error": line.error,
                "exact": line.exact,
                "differs": line.differs,
            }
            for line in found
        },
    }


def _three(size: Sequence[int]) -> tuple[int, ...]:
    return (*size, 1, 1, 1)[:3]


def _short(kernel: str) -> str:
    """A kernel's name; of a mangled one its beginning."""
    return kernel if len(kernel) <= 60 else f"{kernel[:57]}..."


def _text(size: Sequence[int]) -> str:
    return "x".join(map(str, size))
