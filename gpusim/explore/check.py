"""What is wrong with points whatever the machine does: names that do not exist, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gpusim.config import describe_keys, load_config
from gpusim.config.load import unknown_key
from gpusim.errors import ConfigError
from gpusim.explore.evaluate import ENERGY, is_file
from gpusim.explore.point import BUNDLED_PARAMETERS, OWN_PARAMETERS, Point


def check_points(points: Iterable[Point], metrics: Sequence[str] = ()) -> None:
    """Check programs, GPUs, keys of the configuration, parameters and metrics by name.

    Values are not checked: one that a machine cannot have is its point's error. Raises ConfigError.
    """
    chosen = list(points)
    if not chosen:
        raise ConfigError("there are no points")
    for name in metrics:
        _check_metric(name)
    for gpu in dict.fromkeys(point.gpu for point in chosen):
        load_config(gpu)
    for key in dict.fromkeys(key for point in chosen for key, _ in point.config):
        if key not in describe_keys():
            raise unknown_key(key)
    for program, names in dict.fromkeys((p.program, tuple(name for name, _ in p.parameters)) for p in chosen):
        _check_program(program, names)


def _check_metric(name: str) -> None:
    from gpusim.results.metrics import METRICS, UnknownMetric

    if name not in METRICS and name != ENERGY:
        raise ConfigError(str(UnknownMetric(name)))


def _check_program(program: str, parameters: Sequence[str]) -> None:
    from gpusim.cli.target import registry

    if is_file(program):
        path = program.rpartition(":")[0] if program.rpartition(":")[0].endswith(".py") else program
        if not Path(path).is_file():
            raise ConfigError(f"no such file: {path}")
        known: Sequence[str] = OWN_PARAMETERS
    else:
        programs = registry()
        try:
            programs.get(program)
        except programs.UnknownProgram as error:
            raise ConfigError(f"{error.args[0]} (a file is spelled FILE.py:KERNEL or FILE.cubin)") from None
        known = BUNDLED_PARAMETERS
    for name in parameters:
        if name not in known:
            raise ConfigError(f"{name}: not a parameter of {program}, which takes {', '.join(known)}")
