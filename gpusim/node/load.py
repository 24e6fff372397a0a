"""Reading descriptions of nodes: as for GPUs (`gpusim/config/load.py`), a TOML file of `{ value = , source = }` with
`base`, and overrides by dotted key."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpusim.config.load import _frozen, _invalid
from gpusim.config.models import _describe
from gpusim.errors import ConfigError
from gpusim.node.sections import NodeConfig

_SHIPPED = Path(__file__).parent


def shipped_nodes() -> tuple[str, ...]:
    """Names of the nodes that come with gpusim, sorted."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.toml")))


@cache
def describe_node_keys() -> Mapping[str, str]:
    """Every dotted key of a node and what it means, in file order."""
    return dict(_describe(NodeConfig, ""))  # type: ignore[arg-type]


def load_node_config(
    node: str | Path | NodeConfig, overrides: Mapping[str, Any] | Iterable[str] | None = None
) -> NodeConfig:
    """The description of a shipped name or a TOML file, with overrides as `gpusim.load_config` takes them.

    Raises ConfigError, naming the dotted key and the nearest real one.
    """
    if isinstance(node, NodeConfig):
        leaves = {key: (value, node.source(key)) for key, value in _items(node.model_dump(), "")}
    else:
        leaves = _read(_find(node, None), ())
    for key, value in _overrides(overrides):
        leaves[_known(key, None)] = (_frozen(value), "override")
    return _build(leaves)


def _items(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _items(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _find(name: str | Path, relative_to: Path | None) -> Path:
    text = str(name)
    if text in shipped_nodes():
        return _SHIPPED / f"{text}.toml"
    path = Path(text) if relative_to is None else relative_to / text
    if path.is_file():
        return path
    if path.suffix or len(Path(text).parts) > 1:
        raise ConfigError(f"no description of a node {text!r}")
    close = difflib.get_close_matches(text.lower(), shipped_nodes(), n=1, cutoff=0.5)
    known = ", ".join(shipped_nodes())
    raise ConfigError(
        f"no node {text!r}: it is neither a file nor one of {known}", suggestion=close[0] if close else None
    )


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, tuple[Any, str]]:
    path = path.resolve()
    if path in seen:
        raise ConfigError(f"base goes round in a circle: {' -> '.join(p.name for p in (*seen, path))}")
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot be read as TOML: {error}", where=str(path)) from None
    base = tree.pop("base", None)
    leaves = {} if base is None else _read(_find(base, path.parent), (*seen, path))
    shipped = path.parent == _SHIPPED
    for key, value, source in _flatten(tree, "", str(path)):
        if source is None and shipped:
            raise ConfigError("a shipped value needs a source", key=key, where=str(path))
        leaves[_known(key, str(path))] = (_frozen(value), source or "user")
    return leaves


def _flatten(
    tree: Mapping[str, Any], prefix: str, where: str | None
) -> Iterator[tuple[str, Any, str | None]]:
    for name, value in tree.items():
        key = prefix + name
        if not isinstance(value, Mapping):
            yield key, value, None
        elif key in describe_node_keys():
            if set(value) - {"value", "source"} or "value" not in value:
                raise ConfigError("takes value and source, nothing else", key=key, where=where)
            yield key, value["value"], value.get("source")
        else:
            yield from _flatten(value, key + ".", where)


def _overrides(overrides: Mapping[str, Any] | Iterable[str] | None) -> Iterator[tuple[str, Any]]:
    if overrides is None:
        return
    if isinstance(overrides, Mapping):
        for key, value, _ in _flatten(overrides, "", None):
            yield key, value
        return
    for text in [overrides] if isinstance(overrides, str) else overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and key and value):
            raise ConfigError(f"an override is spelled key=value, such as nvlink.links=12, not {text!r}")
        _known(key, None)
        try:
            yield key, tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            if not re.fullmatch(r"[A-Za-z_][\w-]*", value):
                raise ConfigError(f"not a TOML value: {value[:100]}", key=key) from None
            yield key, value


def _known(key: str, where: str | None) -> str:
    if key not in describe_node_keys():
        close = difflib.get_close_matches(key, describe_node_keys(), n=1, cutoff=0.6)
        raise ConfigError("unknown key", key=key, suggestion=close[0] if close else None, where=where)
    return key


def _build(leaves: Mapping[str, tuple[Any, str]]) -> NodeConfig:
    missing = [key for key in describe_node_keys() if key not in leaves]
    if missing:
        raise ConfigError("has no value; name a base to inherit from", key=missing[0])
    tree: dict[str, dict[str, Any]] = {}
    for key in describe_node_keys():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = leaves[key][0]
    try:
        config = NodeConfig.model_validate(tree)
    except ValidationError as error:
        raise _invalid(error, None) from None
    config._sources.update({key: leaves[key][1] for key in describe_node_keys()})
    return config
