"""A sweep or a search as a TOML file: the space, the design, what to report, and with `[search]` what to look for.

docs/sweeps.md and docs/search.md describe it.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.errors import ConfigError
from gpusim.explore.axis import RANGE_KEYS
from gpusim.explore.point import Point
from gpusim.explore.space import Space
from gpusim.workload.request import COMPILED

_KEYS = {
    "program": (str, list, dict), "gpu": (str, list), "axes": (dict,), "together": (list,),
    "design": (str,), "points": (int,), "seed": (int,), "metrics": (list,), "search": (dict,),
}  # fmt: skip
_SEARCH_KEYS = {
    "goals": (list, str), "limits": (list, str), "sampler": (str,), "trials": (int,), "seed": (int,), "batch": (int,),
    "population": (int,), "derived": (dict,),
}  # fmt: skip
_WORDS = {str: "a text", list: "a list", dict: "a table", int: "an integer"}


@dataclass(frozen=True)
class Sweep:
    """What a file asks for. points: how many, for the designs random and lhs. search: the options of
    `gpusim.explore.search.search` that it names."""

    space: Space
    design: str = "grid"
    points: int | None = None
    seed: int = 0
    metrics: tuple[str, ...] = ()
    search: Mapping[str, Any] = field(default_factory=dict)

    def all_points(self) -> list[Point]:
        """The points of the design."""
        return self.space.points(self.design, self.points, self.seed)


def read_sweep(path: str | Path) -> Sweep:
    """The sweep of a file. Names of files in it are relative to it. Raises ConfigError, naming file and key."""
    try:
        tree = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        return _sweep(tree, Path(path).parent)
    except ConfigError as error:
        raise ConfigError(error.reason, key=error.key, suggestion=error.suggestion, where=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from None


def _sweep(tree: dict[str, Any], folder: Path) -> Sweep:
    _check(tree, _KEYS, "")
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
        dict(_leaves(tree.get("axes", {}), RANGE_KEYS)),
        together,
    )
    chosen = {name: tree[name] for name in ("design", "points", "seed") if name in tree}
    return Sweep(space, **chosen, metrics=tuple(tree.get("metrics", ())), search=_search(tree.get("search", {})))


def _search(table: dict[str, Any]) -> dict[str, Any]:
    """The options of a search."""
    _check(table, _SEARCH_KEYS, "search.")
    found = dict(table)
    for key in found.keys() & {"goals", "limits"}:
        found[key] = [found[key]] if isinstance(found[key], str) else found[key]
        if not all(isinstance(each, str) for each in found[key]):
            raise ConfigError("must be a list of texts", key=f"search.{key}")
    if "derived" in found:
        found["derived"] = dict(_leaves(found["derived"]))
        for key, value in found["derived"].items():
            if not isinstance(value, str):
                raise ConfigError(f"must name the key that it follows, got {value!r}", key=f"search.derived.{key}")
    return found


def _check(table: Mapping[str, Any], known: Mapping[str, tuple[type, ...]], prefix: str) -> None:
    """That a table has no other keys than these, with values of these kinds."""
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
            reason = f"unknown key; there are {', '.join(known)}"
            raise ConfigError(reason, key=prefix + key, suggestion=close[0] if close else None)
        if not isinstance(value, known[key]) or isinstance(value, bool):
            wanted = " or ".join(_WORDS[kind] for kind in known[key])
            raise ConfigError(f"must be {wanted}, got {value!r}", key=prefix + key)


def _leaves(tree: Mapping[str, Any], whole: tuple[str, ...] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values of nested tables by dotted name; a table with one of the keys `whole` is a value."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and not any(key in value for key in whole):
            yield from _leaves(value, whole, f"{prefix}{name}.")
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
    return f"{folder / path}{colon}{kernel}" if Path(path).suffix in (".py", ".toml", *COMPILED) else name
