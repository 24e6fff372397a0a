"""A sweep as a TOML file: the space, the design, and what to report. docs/sweeps.md describes it."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.errors import ConfigError
from gpusim.explore.axis import RANGE_KEYS
from gpusim.explore.point import Point
from gpusim.explore.space import Space

_KEYS = {
    "program": (str, list), "gpu": (str, list), "axes": (dict,), "together": (list,),
    "design": (str,), "points": (int,), "seed": (int,), "metrics": (list,),
    "search": (dict,),  # for `gpusim search`, see search_file
}  # fmt: skip
_FILES = (".py", ".cubin", ".ptx", ".cu", ".gpuprog", ".toml")


@dataclass(frozen=True)
class Sweep:
    """What a file asks for. points: how many, for the designs random and lhs."""

    space: Space
    design: str = "grid"
    points: int | None = None
    seed: int = 0
    metrics: tuple[str, ...] = ()

    def all_points(self) -> list[Point]:
        """The points of the design."""
        return self.space.points(self.design, self.points, self.seed)


def read_sweep(path: str | Path) -> Sweep:
    """The sweep of a file. Names of files in it are relative to it. Raises ConfigError, naming file and key."""
    try:
        tree = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from None
    try:
        return _sweep(tree, Path(path).parent)
    except ConfigError as error:
        raise ConfigError(error.reason, key=error.key, suggestion=error.suggestion, where=str(path)) from None


def _sweep(tree: dict[str, Any], folder: Path) -> Sweep:
    for key, value in tree.items():
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.6)
            hint = close[0] if close else None
            raise ConfigError(f"unknown key; there are {', '.join(_KEYS)}", key=key, suggestion=hint)
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            wanted = " or ".join(_WORDS[kind] for kind in _KEYS[key])
            raise ConfigError(f"must be {wanted}, got {value!r}", key=key)
    if "program" not in tree:
        raise ConfigError("is missing: the programs to run", key="program")
    programs = tree["program"] if isinstance(tree["program"], list) else [tree["program"]]
    gpus = tree.get("gpu", "h200")
    together = tree.get("together", [])
    if not all(isinstance(group, list) and all(isinstance(each, str) for each in group) for group in together):
        raise ConfigError("must be a list of lists of names", key="together")
    if not all(isinstance(each, str) for each in tree.get("metrics", [])):
        raise ConfigError("must be a list of names", key="metrics")
    space = Space(
        [_located_program(each, folder) for each in programs],
        [_located(each, folder) for each in ([gpus] if isinstance(gpus, str) else gpus)],
        dict(_axes(tree.get("axes", {}), "")),
        together,
    )
    metrics = tuple(tree.get("metrics", ()))
    return Sweep(space, tree.get("design", "grid"), tree.get("points"), tree.get("seed", 0), metrics)


_WORDS = {str: "a text", list: "a list", dict: "a table", int: "an integer"}


def _axes(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Axes of nested tables by dotted name; a table with keys of a range is an axis."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and not any(key in value for key in RANGE_KEYS):
            yield from _axes(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _located_program(program: Any, folder: Path) -> Any:
    if isinstance(program, Mapping):
        return dict(program) | {"name": _located(program.get("name"), folder)}
    return _located(program, folder)


def _located(name: Any, folder: Path) -> Any:
    """A name as it is; a file's, relative to the folder."""
    path, colon, kernel = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if isinstance(name, str) and not (colon and path.endswith(".py")):
        path, colon, kernel = name, "", ""
    return f"{folder / path}{colon}{kernel}" if Path(path).suffix in _FILES else name
