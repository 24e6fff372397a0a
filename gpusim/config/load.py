"""Reading configurations: names, inheritance, overrides, and one clear error for everything that can be wrong.

A file is TOML. `base = "h200"` (a shipped name, or a path relative to the file) inherits, and only differences are
listed. A value is `{ value = 23, source = "..." }`; a file of the user's may also say plainly `23`, whose source is
"user". Descriptions of nodes (`gpusim.node`) are read in the same way; see `Kind`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from gpusim.config.models import GPUConfig, describe, describe_keys, unit_of, unknown
from gpusim.config.sections import Section
from gpusim.errors import ConfigError, nearest

Leaf = tuple[Any, str]
"""A value and its source."""
Overrides = Mapping[str, Any] | Iterable[str] | None


class Kind(NamedTuple):
    """A kind of description. model: all sections together, with `source(key)` and `items()`; folder: of the shipped
    ones; noun and example: what errors call one, and an override of it."""

    model: type[Section]
    folder: Path
    noun: str
    example: str

    def names(self) -> tuple[str, ...]:
        """Of the shipped ones, sorted."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.toml")))


GPU = Kind(GPUConfig, Path(__file__).parent, "configuration", "sm.count=66")
_LARGEST_FILE_BYTES = 1 << 20
_REASONS = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must not be below {ge:g}",
    **dict.fromkeys(("int_type", "int_from_float"), "must be a whole number{of}"),
    **dict.fromkeys(("float_type", "finite_number"), "must be a number{of}"),
    "bool_type": "must be true or false",
    **dict.fromkeys(("missing", "too_long"), "must have three components"),
}
"""The complaint, by pydantic's name for it; `of` is the unit."""


def shipped_names() -> tuple[str, ...]:
    """Names of the configurations that come with gpusim, sorted."""
    return GPU.names()


def load_config(config: str | Path | GPUConfig = "h200", overrides: Overrides = None) -> GPUConfig:
    """Return the configuration of a shipped name, a TOML file or a `GPUConfig`, with `overrides` applied.

    overrides: {"sm.count": 66}, nested {"sm": {"count": 66}}, or strings "sm.count=66" whose value is read as TOML (a
        bare word is a string, so that `issue.policy=lrr` needs no quotes). Their source becomes "override".

    Raises ConfigError, naming the dotted key and the nearest real one, for an unknown name, key, unit or bad value.
    """
    return load(GPU, config, overrides)


def load(kind: Kind, config: Any, overrides: Overrides = None) -> Any:
    """Return a description of any kind, as `load_config` does; `config` is a name, a path or a `kind.model`."""
    if not isinstance(config, kind.model):
        path = _find(config, kind)
        if path.parent == kind.folder:
            config = _shipped(path.stem, kind)
    if not overrides and isinstance(config, kind.model):
        return config
    found, errors = _Reader(kind).read(config, overrides)
    if errors:
        raise errors[0] from None
    return found


def load_collecting(config: str | Path, overrides: Overrides = None) -> tuple[GPUConfig | None, list[ConfigError]]:
    """The configuration and everything that is wrong with it, instead of an error for the first thing.

    None for the configuration if there is anything. What keeps the rest from being read (no such file, not TOML, an
    override that is not `key=value`) is the last error then.
    """
    return _Reader(GPU).read(config, overrides)


def own_sources(config: str | Path) -> tuple[dict[str, str], str | None]:
    """Sources of a file itself, without its base: {dotted key: source}, and the base it names."""
    tree = parse_file(_find(config, GPU))
    base = tree.pop("base", None)
    reader = _Reader(GPU)
    sources = {key: source or "user" for key, _, source in reader.flatten(tree, "", None)}
    if reader.errors:
        raise reader.errors[0]
    return sources, base


def diff(a: GPUConfig, b: GPUConfig) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, in file order, as {dotted key: (value in a, value in b)}. Sources do not count."""
    other = dict(b.items())
    return {key: (value, other[key]) for key, value in a.items() if value != other[key]}


def unknown_key(key: str) -> ConfigError:
    """The error for a dotted key that no configuration of a GPU has."""
    return unknown(key, describe_keys())


def _leaves(config: Any) -> dict[str, Leaf]:
    sources = config._sources  # once: pydantic looks a private attribute up in ten steps
    return {key: (value, sources[key]) for key, value in config.items()}


@cache
def _shipped(name: str, kind: Kind) -> Any:
    found, errors = _Reader(kind).read(name, None)
    if errors:
        raise errors[0]
    return found


def _find(name: str | Path, kind: Kind, relative_to: Path = Path()) -> Path:
    """Path of a shipped name or of a file; a name with a suffix or a separator is always a file."""
    text = str(name)
    if text in kind.names():
        return kind.folder / f"{text}.toml"
    path = Path(text)
    try:
        path = relative_to / path.expanduser()
        if path.is_file():
            return path
        if text.lower() in kind.names():
            return kind.folder / f"{text.lower()}.toml"
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, the home of nobody, a zero byte
        raise ConfigError(f"no {kind.noun} file: {str(error)[:200]}") from None
    if path.suffix or len(Path(text).parts) > 1:
        raise ConfigError(f"no {kind.noun} file {str(path)!r}")
    reason = f"no {kind.noun} {text!r}: it is neither a file nor one of {', '.join(kind.names())}"
    if path.with_suffix(".toml").is_file():
        raise ConfigError(reason, suggestion=f"{text}.toml")
    # What looks like the name of a product, such as b300, is another machine and no slip of the pen.
    product = re.fullmatch(r"[a-z]+\d+[a-z]*", text.lower())
    raise ConfigError(reason, suggestion=None if product else nearest(text.lower(), kind.names(), 0.5))


def parse_file(path: Path) -> dict[str, Any]:
    """A file as TOML. Raises ConfigError, which names it."""
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > _LARGEST_FILE_BYTES):
            raise ConfigError(f"not a file of at most {_LARGEST_FILE_BYTES:,} bytes", where=str(path))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=str(path)) from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # besides syntax: numbers and nesting beyond what Python reads
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from None


class _Reader:
    """Reads one description. errors: what is wrong with single keys, which are then left out."""

    def __init__(self, kind: Kind):
        self.kind, self.keys = kind, describe(kind.model)
        self.errors: list[ConfigError] = []

    def read(self, config: Any, overrides: Overrides) -> tuple[Any, list[ConfigError]]:
        """The checked tree, None if there are errors, and these."""
        found = where = None
        try:
            if isinstance(config, self.kind.model):
                leaves = _leaves(config)
            else:
                path = _find(config, self.kind)
                leaves = self.file(path, ())
                where = None if path.parent == self.kind.folder else str(path)
            for key, value in self.overrides(overrides):
                if key not in self.keys:
                    raise unknown(key, self.keys)
                leaves[key] = (_frozen(value), "override")
            found = self.build(leaves, where)
        except ConfigError as error:
            self.errors.append(error)
        return (None if self.errors else found), self.errors

    def file(self, path: Path, seen: tuple[Path, ...]) -> dict[str, Leaf]:
        """All values of a file and of those it is based on, by dotted key."""
        path = path.resolve()
        if path in seen:
            raise ConfigError(f"base goes round in a circle: {' -> '.join(p.name for p in (*seen, path))}")
        tree, where = parse_file(path), str(path)
        base, shipped = tree.pop("base", None), path.parent == self.kind.folder
        leaves: dict[str, Leaf] = {}
        if base is not None:
            if not isinstance(base, str):
                reason = f"must be the name of a {self.kind.noun} or a path, got {base!r}"
                raise ConfigError(reason, key="base", where=where)
            below = _find(base, self.kind, path.parent)
            if below.parent == self.kind.folder and not shipped:
                leaves = _leaves(_shipped(below.stem, self.kind))
            else:
                leaves = self.file(below, (*seen, path))
        for key, value, source in self.flatten(tree, "", where):
            if key not in self.keys:
                self.errors.append(unknown(key, self.keys, where))
            elif source is None and shipped:
                self.errors.append(ConfigError("a shipped value needs a source", key=key, where=where))
            else:
                leaves[key] = (_frozen(value), source or "user")
        return leaves

    def flatten(self, tree: Mapping[str, Any], prefix: str, where: str | None) -> Iterator[tuple[str, Any, str | None]]:
        """Leaves of a nested mapping as (dotted key, value, source or None)."""
        for name, value in tree.items():
            key = prefix + name
            if not isinstance(value, Mapping):
                yield key, value, None
            elif key in self.keys:
                extra, source = sorted(set(value) - {"value", "source"}), value.get("source", "user")
                reason = ""
                if "value" not in value:
                    reason = "has no value"
                elif extra:
                    reason = f"only value and source may stand here, not {', '.join(extra)}"
                elif not isinstance(source, str) or not source.strip():
                    reason = "source must be a text"
                if reason:
                    self.errors.append(ConfigError(reason, key=key, where=where))
                else:
                    yield key, value["value"], value.get("source")
            elif "value" in value:
                self.errors.append(unknown(key, self.keys, where))
            else:
                yield from self.flatten(value, key + ".", where)

    def overrides(self, overrides: Overrides) -> Iterator[tuple[str, Any]]:
        """Keys and values of overrides, as `load_config` takes them."""
        if isinstance(overrides, Mapping):
            yield from ((key, value) for key, value, _ in self.flatten(overrides, "", None))
            return
        for text in [overrides] if isinstance(overrides, str) else overrides or ():
            key, equals, value = text.partition("=")
            key, value = key.strip(), value.strip()
            if not equals or not key or not value:
                raise ConfigError(f"an override is spelled key=value, such as {self.kind.example}, not {text!r}")
            if key not in self.keys:
                raise unknown(key, self.keys)
            try:
                yield key, tomllib.loads(f"value = {value}")["value"]
            except (ValueError, RecursionError):
                if not re.fullmatch(r"[A-Za-z_][\w-]*", value):
                    raise ConfigError(_not_toml(key, value[:100]), key=key) from None
                yield key, value

    def build(self, leaves: Mapping[str, Leaf], where: str | None) -> Any:
        """The checked tree, None if there are errors."""
        missing = [key for key in self.keys if key not in leaves]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ConfigError(f"has no value{more}; name a base to inherit from", key=missing[0], where=where)
        tree: dict[str, Any] = {}
        for key in self.keys:
            *sections, name = key.split(".")
            table = tree
            for section in sections:
                table = table.setdefault(section, {})
            table[name] = leaves[key][0]
        try:
            config = self.kind.model.model_validate(tree)
        except ValidationError as error:
            self.errors += (_invalid(each, where) for each in error.errors(include_url=False))
            return None
        config._sources.update({key: leaves[key][1] for key in self.keys})  # type: ignore[attr-defined]
        return config


def _not_toml(key: str, value: str) -> str:
    """Why a text is refused, which may be a number with a unit behind it."""
    found, unit = re.fullmatch(r"(\d+\.?\d*) ?(?:([KMGT])i?B|[A-Za-z/]+)", value), unit_of(key)
    if not found or not unit:
        return f"not a TOML value: {value}"
    meant, power = "", "_KMGT".find(found[2] or "?")
    if power > 0 and unit == "bytes":
        sizes = [(float(found[1]) * kilo**power, f"{found[1]} {found[2]}{i}B") for kilo, i in ((1024, "i"), (1000, ""))]
        meant = ": " + ", ".join(f"{size:.0f} for {name}" for size, name in sizes)
    return f"is a number alone, of {unit}, not {value}{meant}"


def _invalid(error: Mapping[str, Any], where: str | None) -> ConfigError:
    """One line for a thing that is wrong, with its dotted path."""
    path = [str(part) for part in error["loc"]]
    index = "".join(f"[{part}]" for part in path if part.isdigit())
    key = ".".join(part for part in path if not part.isdigit())
    message, details, unit = error["msg"], error.get("ctx", {}), unit_of(key)
    if error["type"] == "value_error":
        reason = str(details["error"])
    elif error["type"] in _REASONS:
        reason = _REASONS[error["type"]].format(of=f" of {unit}" if unit else "", **details)
    else:
        reason = f"{message[0].lower()}{message[1:]}"
    if error["type"] != "value_error":
        reason += f", got {error['input']!r}"
    return ConfigError(reason, key=(key + index) or None, where=where)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
