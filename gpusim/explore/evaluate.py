"""A point to a row: simulate it, bound it, and say in a column what went wrong."""

from __future__ import annotations

import math
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from gpusim.config import GPUConfig, load_config, shipped_names
from gpusim.errors import SimulationError
from gpusim.explore.point import BUNDLED_PARAMETERS, OWN_PARAMETERS, Point
from isa.errors import IsaError

if TYPE_CHECKING:
    from gpusim.cli.target import Target
    from gpusim.result import Result

RESULTS = ("cycles", "time_us", "warp_instructions")
BOUNDS = ("bound_cycles", "bound_by")
ENERGY = "energy_j"
"""A column that may be asked for like a metric."""


class OutOfTime(Exception):
    """A point took longer than it may."""


def evaluate(
    point: Point,
    *,
    metrics: Sequence[str] = (),
    bound: bool | Literal["only"] = True,
    threads: int = 1,
    timeout_s: float | None = None,
    verify: bool = False,
) -> dict[str, Any]:
    """Run one point and return its row: flat, plain values, None for what there is not.

    Columns: `key`, `program`, `gpu`, the program's parameters by name (for a bundled program always size and seed), the
    changed keys of the configuration, `cycles`, `time_us`, `warp_instructions`, `bound_cycles` and `bound_by`
    (`gpusim.bound`), each of `metrics` by its name, `seconds` of the host, `error`.

    Args:
        metrics: names as in `result.metrics`, or ENERGY.
        bound: also the analytical bound; "only": nothing is simulated.
        threads: host threads of this one run.
        timeout_s: host seconds after which the run is given up, noticed between two windows of the simulation.
        verify: compare a bundled program's outputs with its NumPy reference; a difference is an error.

    Whatever is wrong with the point is one line in `error`; no exception but KeyboardInterrupt leaves here.
    """
    started = time.perf_counter()
    row = empty_row(point, metrics)
    error = None
    try:
        config = machine(point)
        target = find(point, config)
        found = {name: value for name in BUNDLED_PARAMETERS if (value := getattr(target, name)) is not None}
        row = {name: row[name] for name in ("key", "program", "gpu")} | found | row
        if bound:
            row |= _bound(target, config, bound == "only")
        if bound != "only":
            row |= _simulate(target, config, metrics, threads, timeout_s, verify)
    except (IsaError, OutOfTime) as wrong:
        error = str(wrong)
    except MemoryError:
        error = "this needs more memory than the host has"
    except Exception as wrong:  # a row with its error, never a lost sweep
        error = str(wrong) if type(wrong).__name__ == "UserError" else f"{type(wrong).__name__}: {wrong}"
    row["seconds"] = round(time.perf_counter() - started, 6)
    row["error"] = None if error is None else " ".join(error.split())
    return row


def empty_row(point: Point, metrics: Sequence[str]) -> dict[str, Any]:
    """The row of a point of which nothing is known yet."""
    return point.columns() | dict.fromkeys([*RESULTS, *BOUNDS, *metrics, "seconds", "error"])


def machine(point: Point) -> GPUConfig:
    """The configuration of a point. Raises ConfigError."""
    # A shipped one is read once; of a file of the user's nobody knows when it changes.
    base = load_config(point.gpu) if point.gpu in _shipped() else point.gpu
    return load_config(base, dict(point.config))


@cache
def _shipped() -> frozenset[str]:
    return frozenset(shipped_names())


def find(point: Point, config: GPUConfig) -> Target:
    """What a point runs, with fresh arguments. Raises what `gpusim run` would print."""
    from gpusim.cli.target import find_target

    options = _options(point)
    if not is_file(point.program):
        return find_target(options, config)
    name = (point.program, point.parameters, config.gpu.arch)
    if name not in _own:  # the file is executed once and not for every machine
        _own[name] = find_target(options, config)
    return _renewed(_own[name], options)


def is_file(program: str) -> bool:
    """Whether a program is a file of the user's, with or without the name of a kernel."""
    from gpusim.cli.target import COMPILED

    return program.rpartition(":")[0].endswith(".py") or program.lower().endswith((".py", *COMPILED))


_own: dict[tuple[Any, ...], Target] = {}
"""Kernels of the user's that this process has loaded."""


def _options(point: Point) -> Namespace:
    """The point as the options of the command line."""
    names = (*BUNDLED_PARAMETERS, *OWN_PARAMETERS)
    for name, _ in point.parameters:
        if name not in names:
            raise ValueError(f"unknown parameter {name!r}; there are {', '.join(dict.fromkeys(names))}")
    given: dict[str, Any] = dict.fromkeys(names) | {"seed": 0} | dict(point.parameters)
    for name in ("grid", "block"):
        value = given[name]
        if value is not None and not isinstance(value, str):  # 256 and (16, 16) are spelled "256" and "16,16"
            given[name] = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return Namespace(program=point.program, **given)


def _renewed(target: Target, options: Namespace) -> Target:
    """The target with arguments that no run has changed."""
    from gpusim.cli.spec import parse_arguments

    args = parse_arguments(options.args or "", options.seed)
    return replace(target, launch=replace(target.launch, args=args))


def _bound(target: Target, config: GPUConfig, alone: bool) -> dict[str, Any]:
    """The bound's columns. alone: what is wrong with the launch is raised here; else the simulation will say it."""
    from gpusim.bound import bound, profile

    try:
        found = bound(profile(target, config), config)
    except SimulationError:
        if alone:
            raise
        return {}
    return {"bound_cycles": int(found.cycles), "bound_by": found.by}


def _simulate(
    target: Target,
    config: GPUConfig,
    metrics: Sequence[str],
    threads: int,
    timeout_s: float | None,
    verify: bool,
) -> dict[str, Any]:
    from gpusim.cli.run import check_outputs
    from gpusim.simulation import simulate

    launch = target.launch
    expected = target.variant.reference(launch) if verify and target.variant else None
    result = simulate(
        launch.kernel,
        launch.grid,
        launch.block,
        launch.args,
        config,
        launch.shared_bytes,
        signature=launch.signature,
        threads=threads,
        progress=_watch(timeout_s),
    )
    check = check_outputs(target, expected)
    if check is not None and not check["equal"]:
        raise ValueError(f"wrong output: {check['message']}")
    values = {name: value if math.isfinite(value := _measured(result, name)) else None for name in metrics}
    return {
        "cycles": result.cycles,
        "time_us": result.time_us,
        "warp_instructions": int(result.metrics["smsp__inst_executed.sum"]),
    } | values


def _measured(result: Result, name: str) -> float:
    """A metric of a run, or its energy in joules (docs/cost_model.md)."""
    if name != ENERGY:
        return result.metrics[name]
    from gpusim.explore.cost import energy

    return sum(energy(result).values())


def _watch(timeout_s: float | None) -> Callable[[int, int, int], None] | None:
    """A callback of the simulation that ends it when its time is over."""
    if timeout_s is None:
        return None
    deadline = time.monotonic() + timeout_s

    def check(cycles: int, finished: int, blocks: int) -> None:
        if time.monotonic() > deadline:
            raise OutOfTime(f"not finished after {timeout_s:g} s: {finished:,} of {blocks:,} blocks, cycle {cycles:,}")

    return check
