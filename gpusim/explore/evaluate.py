"""A point to a row: simulate it, bound it, and say in a column what went wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpusim.config import GPUConfig, describe_keys, load_config
from gpusim.config.load import unknown_key
from gpusim.errors import ConfigError, SimulationError, WorkloadError
from gpusim.explore.interrupt import interrupted
from gpusim.explore.point import PARAMETERS, Point
from gpusim.results.quantities import columns, result_columns, shown
from gpusim.results.table import SWEEP
from gpusim.workload.request import BUNDLED_PARAMETERS, OWN_PARAMETERS, Request

if TYPE_CHECKING:
    from gpusim.result import Result
    from gpusim.workload.target import Target

ENERGIES = tuple(each.column or each.name for each in shown(SWEEP) if each.section == "energy")
"""Of a launch: joules; watts in the mean; joules times seconds."""
BOUNDS = ("bound_cycles", "bound_by")


class OutOfTime(Exception):
    """A point took longer than it may."""


def check_points(points: Iterable[Point], metrics: Sequence[str] = ()) -> None:
    """Check programs, GPUs, keys of the configuration, parameters and metrics by name, before anything runs.

    Values are not checked: one that a machine cannot have is its point's error. Raises ConfigError.
    """
    from gpusim.results.metrics import METRICS, UnknownMetric

    chosen = list(points)
    if not chosen:
        raise ConfigError("there are no points")
    for name in metrics:
        if name not in METRICS and name not in ENERGIES:
            raise ConfigError(str(UnknownMetric(name)))
    for gpu in dict.fromkeys(point.gpu for point in chosen):
        load_config(gpu)
    for key in dict.fromkeys(key for point in chosen for key, _ in point.config):
        if key not in describe_keys():
            raise unknown_key(key)
    for program, names in dict.fromkeys((p.program, tuple(name for name, _ in p.parameters)) for p in chosen):
        _check_program(program, names)


def _check_program(program: str, parameters: Sequence[str]) -> None:
    from gpusim.workload.target import find_variant

    file = Request(program).file
    if file is None:
        try:
            find_variant(program)
        except WorkloadError as error:
            raise ConfigError(str(error)) from None
    elif not Path(file).is_file():
        raise ConfigError(f"no such file: {file}")
    known = (*(BUNDLED_PARAMETERS if file is None else OWN_PARAMETERS), "model", "weight")
    for name in parameters:
        if name not in known:
            raise ConfigError(f"{name}: not a parameter of {program}, which takes {', '.join(known)}")


def evaluate(
    point: Point,
    *,
    metrics: Sequence[str] = (),
    bound: bool | Literal["only"] = True,
    threads: int = 1,
    timeout_s: float | None = None,
    verify: bool = False,
    stop: Callable[[], bool] = interrupted,
) -> dict[str, Any]:
    """Run one point and return its row: flat, plain values, None for what there is not.

    Columns: `key`, `program`, `gpu`, the program's parameters by name (for a bundled program always size and seed), the
    changed keys of the configuration, `cycles` and their interval (`gpusim.results.interval`), `time_us`,
    ENERGIES, `warp_instructions`, `bound_cycles` and `bound_by` (`gpusim.bound`), each of `metrics` by its name,
    `seconds` of the host, `error`.

    Args:
        metrics: names as in `result.metrics`. ENERGIES may be among them, and are there without.
        bound: also the analytical bound; "only": nothing is simulated.
        threads: host threads of this one run.
        timeout_s: host seconds after which the run is given up, noticed between two windows of the simulation.
        verify: compare a bundled program's outputs with its NumPy reference; a difference is an error.
        stop: asked between two windows whether to end with KeyboardInterrupt.

    Whatever is wrong with the point is one line in `error`; no exception but KeyboardInterrupt leaves here.
    """
    from gpusim.workload.target import load_model

    started = time.perf_counter()
    row = empty_row(point, metrics)
    error = None
    try:
        config = load_config(point.gpu, dict(point.config))
        target = find(point, config)
        found = {name: value for name in BUNDLED_PARAMETERS if (value := getattr(target, name)) is not None}
        row = {name: row[name] for name in ("key", "program", "gpu")} | found | row
        if bound:
            row |= _bound(target, config, bound == "only")
        if bound != "only":
            expected = target.expected() if verify else None
            watch = _watch(timeout_s, stop)
            model = load_model(dict(point.parameters).get("model", "engine"))
            result = target.simulate(config, threads=threads, progress=watch, model=model)
            check = target.check(expected)
            if check is not None and not check.equal:
                raise ValueError(f"wrong output: {check.message}")
            row |= _measured(result, metrics)
    except (SimulationError, OutOfTime) as wrong:
        error = str(wrong)
    except MemoryError:
        error = "this needs more memory than the host has"
    except Exception as wrong:  # a row with its error, never a lost sweep
        error = f"{type(wrong).__name__}: {wrong}"
    return row | {"seconds": round(time.perf_counter() - started, 6), "error": error and " ".join(error.split())}


def empty_row(point: Point, metrics: Sequence[str]) -> dict[str, Any]:
    """The row of a point of which nothing is known yet."""
    return point.columns() | dict.fromkeys([*result_columns(), *BOUNDS, *metrics, "seconds", "error"])


_own: dict[tuple[Any, ...], Target] = {}
"""Kernels of the user's that this process has loaded."""


def find(point: Point, config: GPUConfig) -> Target:
    """Find what a point runs, with fresh arguments. Raises what `gpusim run` would print."""
    from gpusim.workload.target import find_target

    request = _request(point)
    if request.file is None:
        return find_target(request, config)
    name = (point.program, point.parameters, config.gpu.arch)
    if name not in _own:  # the file is executed once and not for every machine
        _own[name] = find_target(request, config)
    return _own[name].renewed(request)


def _request(point: Point) -> Request:
    """256 and (16, 16) are spelled "256" and "16,16" there."""
    given = dict(point.parameters)
    for name in given:
        if name not in PARAMETERS:
            raise ConfigError(f"unknown parameter {name!r}; there are {', '.join(PARAMETERS)}")
    for name in ("grid", "block"):
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            given[name] = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return Request.of({"program": point.program, **given})


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


def _measured(result: Result, metrics: Sequence[str]) -> dict[str, Any]:
    """The columns of a run, its metrics among them."""
    values = {name: result.metrics[name] for name in metrics if name not in ENERGIES}
    return columns(result) | {name: value if math.isfinite(value) else None for name, value in values.items()}


def _watch(timeout_s: float | None, stop: Callable[[], bool]) -> Callable[[int, int, int, int], None]:
    """A callback of the simulation that ends it when its time is over, or when it is to stop."""
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s

    def check(cycles: int, finished: int, blocks: int, instructions: int) -> None:
        if stop():
            raise KeyboardInterrupt
        if time.monotonic() > deadline:
            raise OutOfTime(f"not finished after {timeout_s:g} s: {finished:,} of {blocks:,} blocks, cycle {cycles:,}")

    return check
