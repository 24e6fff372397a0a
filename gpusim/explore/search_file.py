"""A search as a TOML file: the space of a sweep, and a table `[search]` with what is looked for. docs/search.md."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.errors import ConfigError
from gpusim.explore.space import Space
from gpusim.explore.sweep_file import read_sweep

_KEYS: dict[str, tuple[type, ...]] = {
    "goals": (list, str), "limits": (list, str), "sampler": (str,), "trials": (int,), "seed": (int,), "batch": (int,),
    "population": (int,), "derived": (dict,),
}  # fmt: skip
_WORDS = {str: "a text", list: "a list", dict: "a table", int: "an integer"}


@dataclass(frozen=True)
class SearchFile:
    """What a file asks for. options: those of `gpusim.explore.search.search` that it names."""

    space: Space
    options: dict[str, Any] = field(default_factory=dict)


def read_search(path: str | Path) -> SearchFile:
    """The search of a file. Raises ConfigError, naming file and key."""
    space = read_sweep(path).space
    table = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("search", {})
    try:
        return SearchFile(space, dict(_options(table)))
    except ConfigError as error:
        raise ConfigError(error.reason, key=error.key, suggestion=error.suggestion, where=str(path)) from None


def _options(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.6)
            reason = f"unknown key; there are {', '.join(_KEYS)}"
            raise ConfigError(reason, key=f"search.{key}", suggestion=close[0] if close else None)
        right: bool = isinstance(value, _KEYS[key]) and not isinstance(value, bool)
        if not right:
            wanted = " or ".join(_WORDS[kind] for kind in _KEYS[key])
            raise ConfigError(f"must be {wanted}, got {value!r}", key=f"search.{key}")
        if key in ("goals", "limits"):
            values = [value] if isinstance(value, str) else value
            if not all(isinstance(each, str) for each in values):
                raise ConfigError("must be a list of texts", key=f"search.{key}")
            yield key, values
        elif key == "derived":
            yield key, dict(_derived(value, ""))
        else:
            yield key, value


def _derived(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Rules by dotted key, however the file nests them."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _derived(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            yield prefix + name, value
        else:
            raise ConfigError(f"must name the key that it follows, got {value!r}", key=f"search.derived.{prefix}{name}")
