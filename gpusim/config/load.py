"""Reading configurations: names, inheritance, overrides, and one clear error for everything that can be
wrong.

A file is TOML. `base = "h200"` (a shipped name, or a path relative to the file) inherits, and only
differences are listed. A value is `{ value = 23, source = "..." }`; a file of the user's may also say plainly
`23`, whose source is "user". Descriptions of nodes (`gpusim.node`) are read in the same way; see `Kind`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from gpusim.config.models import GPUConfig, describe_keys
from gpusim.config.sections import Section
from gpusim.errors import ConfigError

Leaf = tuple[Any, str]
"""A value and its source."""



class Kind(NamedTuple):
    """A kind of description. model: all sections together, with `source(key)` and `items()`; described: every dotted
    key and its meaning; folder: of the shipped ones; noun and example: what errors call one, and an override of it."""

    model: type[Section]
    described: Callable[[], Mapping[str, str]]
    folder: Path
    noun: str
    example: str

    def names(self) -> tuple[str, ...]:
        """Of the shipped ones, sorted."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.toml")))


GPU = Kind(GPUConfig, describe_keys, Path(__file__).parent, "configuration", "sm.count=66")
_LARGEST_FILE_BYTES = 1 << 20
_UNITS = {
    "cycles": "SM clock cycles",
    "bytes": "bytes",
    "mhz": "MHz",
    "us": "microseconds",
    "gbit_s": "10^9 bits a second",
    "gb_s": "10^9 bytes a second",
    "bytes_per_cycle": "bytes per SM clock cycle",
}
_OTHER_UNITS = (
    r"ns|us|ms|s|seconds|clk|clocks|cycle|ghz|hz|khz|kb|kib|mb|mib|gb|gib|tb|byte|bits|gbps|tb_s|gib_s|mb_s"
)
_UNIT = re.compile(rf"_(bytes_per_cycle|gb_s|gbit_s|cycles|bytes|mhz|{_OTHER_UNITS})$")


def shipped_names() -> tuple[str, ...]:
    """Names of the configurations that come with gpusim, sorted."""
    return GPU.names()


def load_config(
    config: str | Path | GPUConfig = "h200", overrides: Mapping[str, Any] | Iterable[str] | None = None
) -> GPUConfig:
    """Return the configuration of a shipped name, a TOML file or a `GPUConfig`, with `overrides` applied.

    overrides: {"sm.count": 66}, nested {"sm": {"count": 66}}, or strings "sm.count=66" whose value is read as
        TOML (a bare word is a string, so that `issue.policy=lrr` needs no quotes). Their source becomes
        "override".

    Raises ConfigError, naming the dotted key and the nearest real one, for an unknown name, key, unit or bad
    value.
    """
    return load(GPU, config, overrides)


def load(kind: Kind, config: Any, overrides: Mapping[str, Any] | Iterable[str] | None = None) -> Any:
    """The same for a description of any kind; `config` is a name, a path or a `kind.model`."""
    if isinstance(config, kind.model):
        if not overrides:
            return config
        leaves = {key: (value, config.source(key)) for key, value in config.items()}  # type: ignore[attr-defined]
        where = None
    else:
        path = _find(config, None, kind)
        if not overrides and path.parent == kind.folder:
            return _shipped(path.stem, kind)
        leaves = _read(path, (), None, kind)
        where = None if path.parent == kind.folder else str(path)
    for key, value in _overrides(overrides, kind):
        leaves[_known(key, None, kind)] = (_frozen(value), "override")
    return _build(leaves, where, None, kind)


def load_collecting(
    config: str | Path, overrides: Iterable[str] | None = None
) -> tuple[GPUConfig | None, list[ConfigError]]:
    """The configuration and everything that is wrong with it, instead of an error for the first thing.

    None for the configuration if there is anything. What keeps the rest from being read (no such file, not TOML, an
    override that is not `key=value`) is the only error then.
    """
    errors: list[ConfigError] = []
    try:
        path = _find(config, relative_to=None)
        leaves = _read(path, (), errors)
        for key, value in _overrides(overrides):
            leaves[_known(key)] = (_frozen(value), "override")
        where = None if path.parent == GPU.folder else str(path)
        found = _build(leaves, where, errors)
    except ConfigError as error:
        return None, [*errors, error]
    return (None if errors else found), errors


def own_sources(config: str | Path) -> tuple[dict[str, str], str | None]:
    """What a file itself says, without its base: {dotted key: source}, and the base it names."""
    tree = _parse(_find(config, relative_to=None))
    base = tree.pop("base", None)
    return {key: source or "user" for key, _, source in _flatten(tree, "", None)}, base


def diff(a: GPUConfig, b: GPUConfig) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, in file order, as {dotted key: (value in a, value in b)}. Sources do not
    count."""
    other = dict(b.items())
    return {key: (value, other[key]) for key, value in a.items() if value != other[key]}


def to_toml(config: GPUConfig) -> str:
    """See `GPUConfig.to_toml`."""
    lines: list[str] = []
    section = None
    for key, value in config.items():
        table, name = key.rsplit(".", 1)
        if table != section:
            lines += ["", f"[{table}]"] if lines else [f"[{table}]"]
            section = table
        lines.append(f"{name} = {{ value = {toml_value(value)}, source = {toml_value(config.source(key))} }}")
    return "\n".join(lines) + "\n"


def unknown_key(key: str, where: str | None = None, kind: Kind = GPU) -> ConfigError:
    """The error for a dotted key that does not exist; it names the nearest key, and the unit if that is what
    differs."""
    keys = kind.described()
    stem = _UNIT.sub("", key)
    for known in keys:
        unit = _UNIT.search(known)
        if unit and known != key and _UNIT.sub("", known) == stem:
            meant = _UNITS.get(unit[1], unit[1])
            return ConfigError(f"wrong unit, the key counts {meant}", key=key, suggestion=known, where=where)
    sections = sorted({known[: i.start()] for known in keys for i in re.finditer(r"\.", known)})
    if key in sections:
        return ConfigError(
            "is a section, not a value", key=key, suggestion=next(k for k in keys if k.startswith(key + "."))
        )
    close = difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
    if not close:
        # A key in the wrong section, or without one.
        last = key.rsplit(".", 1)[-1]
        tails = {known.rsplit(".", 1)[-1]: known for known in reversed(list(keys))}
        close = [tails[t] for t in difflib.get_close_matches(last, tails, n=1, cutoff=0.6)]
    reason = "unknown key" if close else f"unknown key; the sections are {', '.join(sections)}"
    return ConfigError(reason, key=key, suggestion=close[0] if close else None, where=where)


def unit_of(key: str) -> str:
    """The unit that a key's name carries, such as 'SM clock cycles'; '' where it has none."""
    unit = _UNIT.search(key.replace(".", "_"))
    return _UNITS.get(unit[1], "") if unit else ""


@cache
def _shipped(name: str, kind: Kind) -> Any:
    return _build(_read(kind.folder / f"{name}.toml", (), None, kind), None, None, kind)


def _find(name: str | Path, relative_to: Path | None, kind: Kind = GPU) -> Path:
    """Path of a shipped name or of a file; a name with a suffix or a separator is always a file."""
    text = str(name)
    if text in kind.names():
        return kind.folder / f"{text}.toml"
    path = Path(text)
    try:
        path = path.expanduser()
        if relative_to is not None and not path.is_absolute():
            path = relative_to / path
        if path.is_file():
            return path
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, the home of nobody, a zero byte
        raise ConfigError(f"no {kind.noun} file: {str(error)[:200]}") from None
    if path.suffix or len(Path(text).parts) > 1:
        raise ConfigError(f"no {kind.noun} file {str(path)!r}")
    close = difflib.get_close_matches(text.lower(), kind.names(), n=1, cutoff=0.5)
    raise ConfigError(
        f"no {kind.noun} {text!r}: it is neither a file nor one of {', '.join(kind.names())}",
        suggestion=close[0] if close else None,
    )


def _parse(path: Path) -> dict[str, Any]:
    """A file as TOML."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE_BYTES:
            raise ConfigError(f"not a file of at most {_LARGEST_FILE_BYTES:,} bytes", where=str(path))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # besides syntax: numbers and nesting beyond what Python reads
        raise ConfigError(f"not valid TOML: {error}", where=str(path)) from None


def _read(
    path: Path, seen: tuple[Path, ...], errors: list[ConfigError] | None = None, kind: Kind = GPU
) -> dict[str, Leaf]:
    """All values of a file and of those it is based on, by dotted key. errors: collects what is wrong with single
    keys, which are then left out; without it the first is raised."""
    path = path.resolve()
    if path in seen:
        raise ConfigError(f"base goes round in a circle: {' -> '.join(p.name for p in (*seen, path))}")
    tree = _parse(path)
    base = tree.pop("base", None)
    leaves: dict[str, Leaf] = {}
    if base is not None:
        if not isinstance(base, str):
            raise ConfigError(
                f"must be the name of a {kind.noun} or a path, got {base!r}", key="base", where=str(path)
            )
        leaves = _read(_find(base, path.parent, kind), (*seen, path), errors, kind)
    shipped = path.parent == kind.folder
    for key, value, source in _flatten(tree, "", str(path), errors, kind):
        if key not in kind.described():
            _report(unknown_key(key, str(path), kind), errors)
        elif source is None and shipped:
            _report(ConfigError("a shipped value needs a source", key=key, where=str(path)), errors)
        else:
            leaves[key] = (_frozen(value), source or "user")
    return leaves


def _report(error: ConfigError, errors: list[ConfigError] | None) -> None:
    if errors is None:
        raise error
    errors.append(error)


def _flatten(
    tree: Mapping[str, Any],
    prefix: str,
    where: str | None,
    errors: list[ConfigError] | None = None,
    kind: Kind = GPU,
) -> Iterator[tuple[str, Any, str | None]]:
    """Leaves of a nested mapping as (dotted key, value, source or None)."""
    for name, value in tree.items():
        key = prefix + name
        if not isinstance(value, Mapping):
            yield key, value, None
        elif "value" in value and key in kind.described():
            extra = sorted(set(value) - {"value", "source"})
            source = value.get("source")
            if extra:
                reason = f"only value and source may stand here, not {', '.join(extra)}"
                _report(ConfigError(reason, key=key, where=where), errors)
            elif source is not None and (not isinstance(source, str) or not source.strip()):
                _report(ConfigError("source must be a text", key=key, where=where), errors)
            else:
                yield key, value["value"], source
        elif key in kind.described():
            _report(ConfigError("has no value", key=key, where=where), errors)
        elif "value" in value:
            _report(unknown_key(key, where, kind), errors)
        else:
            yield from _flatten(value, key + ".", where, errors, kind)


def _overrides(
    overrides: Mapping[str, Any] | Iterable[str] | None, kind: Kind = GPU
) -> Iterator[tuple[str, Any]]:
    if overrides is None:
        return
    if isinstance(overrides, Mapping):
        for key, value, _ in _flatten(overrides, "", None, None, kind):
            yield key, value
        return
    for text in [overrides] if isinstance(overrides, str) else overrides:
        key, equals, value = text.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key or not value:
            raise ConfigError(f"an override is spelled key=value, such as {kind.example}, not {text!r}")
        _known(key, None, kind)
        try:
            yield key, tomllib.loads(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            if not re.fullmatch(r"[A-Za-z_][\w-]*", value):
                raise ConfigError(f"not a TOML value: {value[:100]}", key=key) from None
            yield key, value


def _known(key: str, where: str | None = None, kind: Kind = GPU) -> str:
    if key not in kind.described():
        raise unknown_key(key, where, kind)
    return key


def _build(
    leaves: Mapping[str, Leaf], where: str | None, errors: list[ConfigError] | None = None, kind: Kind = GPU
) -> Any:
    """The checked tree. errors: collects what is wrong with it, but for the last, which is raised."""
    missing = [key for key in kind.described() if key not in leaves]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConfigError(f"has no value{more}; name a base to inherit from", key=missing[0], where=where)
    tree: dict[str, Any] = {}
    for key in kind.described():
        *sections, name = key.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = leaves[key][0]
    try:
        config = kind.model.model_validate(tree)
    except ValidationError as error:
        *rest, last = error.errors(include_url=False)
        for each in rest:
            _report(_invalid(each, where), errors)
        raise _invalid(last, where) from None
    config._sources.update(  # type: ignore[attr-defined]
        {key: leaves[key][1] for key in kind.described()}
    )
    return config


def _invalid(first: Mapping[str, Any], where: str | None) -> ConfigError:
    """One line for a thing that is wrong, with its dotted path."""
    path = [str(part) for part in first["loc"]]
    index = "".join(f"[{part}]" for part in path if part.isdigit())
    key = ".".join(part for part in path if not part.isdigit())
    got = first["input"]
    limits = first.get("ctx", {})
    match first["type"]:
        case "greater_than":
            reason = f"must be greater than {limits['gt']:g}, got {got!r}"
        case "greater_than_equal":
            reason = f"must not be below {limits['ge']:g}, got {got!r}"
        case "int_type" | "int_from_float":
            reason = f"must be a whole number{_unit_hint(key)}, got {got!r}"
        case "float_type" | "finite_number":
            reason = f"must be a number{_unit_hint(key)}, got {got!r}"
        case "bool_type":
            reason = f"must be true or false, got {got!r}"
        case "missing" | "too_long":
            reason = f"must have three components, got {got!r}"
        case "value_error":
            reason = str(limits["error"])
        case _:
            message = first["msg"]
            reason = f"{message[0].lower()}{message[1:]}, got {got!r}"
    return ConfigError(reason, key=(key + index) or None, where=where)


def _unit_hint(key: str) -> str:
    unit = unit_of(key)
    return f" of {unit}" if unit else ""


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(part) for part in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'
    return repr(value)
