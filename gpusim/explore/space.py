"""The space of machines and programs that a sweep goes through, and its file.

`Axis` is one thing that varies, `Space` all of them; `read_sweep` reads both from TOML: docs/exploring.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpusim.config import describe_keys
from gpusim.config.load import parse_file, unknown_key
from gpusim.errors import ConfigError, nearest
from gpusim.explore.point import PARAMETERS, Pairs, Point, plain
from gpusim.workload.request import Request

MOST_POINTS = 1_000_000
_MOST_LEVELS = 100_000
_RANGE_KEYS = ("low", "high", "step", "log")
_KEYS = {
    "program": (str, list, dict), "gpu": (str, list), "axes": (dict,), "metrics": (list,), "search": (dict,),
}  # fmt: skip
SEARCH_KEYS: Mapping[str, tuple[type, ...]] = {
    "goals": (list, str), "limits": (list, str), "trials": (int,), "sampler": (str,), "seed": (int,), "batch": (int,),
    "population": (int,), "derived": (dict,),
}  # fmt: skip
"""Keys of a file's table [search], which are options of `gpusim search` and arguments of `search` as well."""
_WORDS = {str: "a text", list: "a list", dict: "a table", int: "an integer"}
ProgramSpec = str | Mapping[str, Any]


@dataclass(frozen=True)
class Axis:
    """What varies ("gpu", a dotted key of the configuration, or a parameter of the program), and all its values."""

    name: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, given: Any) -> Axis:
        """The axis for what a file or a caller says: a value, a list of values, {low, high, step, log}, or an `Axis`.

        A range has both ends; step is the distance between neighbours, or with `log` their ratio. A range between two
        integers has integers only.

        Raises ConfigError for an empty list, a value that stands twice, or a range that means nothing.
        """
        if isinstance(given, Axis):
            return replace(given, name=name)
        try:
            return cls(name, (_range if isinstance(given, Mapping) else _list)(name, given))
        except ConfigError as error:
            raise ConfigError(error.reason, key=name) from None


def _value(name: str, value: Any) -> Any:
    # TOML has 1e6 as a float.
    whole = name == "size" and isinstance(value, float) and value.is_integer()
    return int(value) if whole else plain(value)


def _list(name: str, given: Any) -> tuple[Any, ...]:
    values = tuple(_value(name, each) for each in (given if isinstance(given, list | tuple | range) else [given]))
    if not values:
        raise ConfigError("has no values")
    if twice := [each for index, each in enumerate(values) if each in values[:index]]:
        raise ConfigError(f"has the value {twice[0]!r} twice")
    return values


def _range(name: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    unknown = [each for each in given if each not in _RANGE_KEYS]
    if unknown or not given.keys() >= {"low", "high", "step"}:
        wrong = f"{unknown[0]!r} is none of them" if unknown else "low, high and step are needed"
        raise ConfigError(f"a range has {', '.join(_RANGE_KEYS)}; {wrong}")
    log, ends = given.get("log", False), {each: _value(name, given[each]) for each in ("low", "high", "step")}
    for each, value in ends.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{each} must be a number, got {value!r}")
    if not isinstance(log, bool):
        raise ConfigError(f"log must be true or false, got {log!r}")
    low, high, step = ends.values()
    if not low < high:
        raise ConfigError(f"low must be below high, got {low} and {high}")
    if log and low <= 0:
        raise ConfigError(f"low must be positive where log is true, got {low}")
    if step <= (1 if log else 0):
        raise ConfigError(f"step must be {'above 1, it is a ratio' if log else 'positive'}, got {step}")
    steps = math.log(high / low, step) if log else (high - low) / step
    if steps >= _MOST_LEVELS:
        raise ConfigError(f"has {math.floor(steps) + 1:,} values, at most {_MOST_LEVELS:,} are allowed")
    found = (low * step**k if log else low + step * k for k in range(math.floor(steps + 1e-9) + 1))
    if isinstance(low, int) and isinstance(high, int):
        return tuple(dict.fromkeys(math.floor(value + 0.5) for value in found))
    return tuple(dict.fromkeys(float(f"{value:.12g}") for value in found))  # 0.1 + 2 * 0.1 is meant to be 0.3


class Space:
    """Axes over GPUs, keys of the configuration and parameters of programs; every program runs at every choice.

    programs: names; or mappings {"name": ..., "size": [...]} for a program that has parameters of its own, which take
        precedence over the axes. gpu: a name or several. axes: {name: value, list of values, {low, high, step, log},
        or Axis}; a name with a dot is a key of the configuration, others are parameters of the program as `gpusim run`
        has them.

    Raises ConfigError for whatever is wrong with that: an unknown key, parameter or range.
    """

    def __init__(
        self,
        programs: ProgramSpec | Iterable[ProgramSpec],
        gpu: str | Sequence[str] = "h200",
        axes: Mapping[str, Any] | None = None,
    ) -> None:
        given = [programs] if isinstance(programs, str | Mapping) else list(programs)
        self.programs: tuple[tuple[str, Pairs], ...] = tuple(itertools.chain.from_iterable(map(_program, given)))
        if not self.programs:
            raise ConfigError("a space needs at least one program")
        named = {"gpu": gpu} | dict(axes or {})
        self.axes: tuple[Axis, ...] = tuple(Axis.of(_known(name), value) for name, value in named.items())

    def grid(self) -> list[Point]:
        """Every combination; programs vary slowest, the last axis fastest."""
        levels = [axis.values for axis in self.axes]
        count = len(self.programs) * math.prod(map(len, levels))
        if count > MOST_POINTS:
            raise ConfigError(f"the grid has {count:,} points, at most {MOST_POINTS:,} are allowed")
        names = [axis.name for axis in self.axes]
        return self._points([dict(zip(names, row, strict=True)) for row in itertools.product(*levels)])

    def at(self, values: Mapping[str, Any]) -> list[Point]:
        """The points, one for each program, where the axes have these values: what a search tries next."""
        return self._points([{axis.name: values[axis.name] for axis in self.axes}])

    def _points(self, choices: Iterable[Mapping[str, Any]]) -> list[Point]:
        """One point per program and choice of values by axis; each point once."""
        points = []
        for program, own in self.programs:
            for choice in choices:
                config = {name: value for name, value in choice.items() if "." in name}
                shared = {name: value for name, value in choice.items() if name in PARAMETERS}
                points.append(Point(program, choice["gpu"], config, shared | dict(own)))
        return list({point.key: point for point in points}.values())


def _program(given: ProgramSpec) -> list[tuple[str, Pairs]]:
    """A program with each combination of its own parameters."""
    if isinstance(given, str):
        return [(given, ())]
    values = dict(given) if isinstance(given, Mapping) else {}
    name = values.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"a program is a name, or a table with a name, not {given!r}")
    for parameter in values:
        if parameter not in PARAMETERS:
            raise _unknown_parameter(parameter)
    levels = [Axis.of(parameter, value).values for parameter, value in values.items()]
    return [(name, tuple(zip(values, row, strict=True))) for row in itertools.product(*levels)]


def _known(name: str) -> str:
    if name == "gpu" or name in PARAMETERS or name in describe_keys():
        return name
    raise unknown_key(name) if "." in name else _unknown_parameter(name)


def _unknown_parameter(name: str) -> ConfigError:
    close = nearest(name, [*PARAMETERS, "gpu"])
    if close is None:
        return unknown_key(name)  # perhaps a key of the configuration without its section
    return ConfigError("unknown parameter of a program", key=name, suggestion=close)


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep's file. search: the options of `gpusim.explore.search.search` that it names."""

    space: Space
    metrics: tuple[str, ...] = ()
    search: Mapping[str, Any] = field(default_factory=dict)


def read_sweep(path: str | Path) -> Sweep:
    """The sweep of a file. Names of files in it are relative to it. Raises ConfigError, naming file and key."""
    try:
        return _sweep(parse_file(Path(path)), Path(path).parent)
    except ConfigError as error:
        raise ConfigError(error.reason, key=error.key, suggestion=error.suggestion, where=str(path)) from None


def _sweep(tree: dict[str, Any], folder: Path) -> Sweep:
    _check(tree, _KEYS, "")
    if "program" not in tree:
        raise ConfigError("is missing: the programs to run", key="program")
    programs = tree["program"] if isinstance(tree["program"], list) else [tree["program"]]
    gpus = tree.get("gpu", "h200")
    if not all(isinstance(each, str) for each in tree.get("metrics", [])):
        raise ConfigError("must be a list of names", key="metrics")
    space = Space(
        [_located(each, folder) for each in programs],
        [_located(each, folder) for each in ([gpus] if isinstance(gpus, str) else gpus)],
        dict(_leaves(tree.get("axes", {}), _RANGE_KEYS)),
    )
    return Sweep(space, tuple(tree.get("metrics", ())), _search(tree.get("search", {})))


def _search(table: dict[str, Any]) -> dict[str, Any]:
    """The options of a search."""
    _check(table, SEARCH_KEYS, "search.")
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
    """Check that a table has known keys alone, with values of their kinds. Raises ConfigError."""
    for key, value in table.items():
        if key not in known:
            reason = f"unknown key; there are {', '.join(known)}"
            raise ConfigError(reason, key=prefix + key, suggestion=nearest(key, known))
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


def _located(name: Any, folder: Path) -> Any:
    """A name as it is, or in a table of a program; a file's, relative to the folder."""
    if isinstance(name, Mapping):
        return dict(name) | {"name": _located(name.get("name"), folder)}
    is_file = isinstance(name, str) and (Request(name).file or name.endswith(".toml"))
    return str(folder / name) if is_file else name
