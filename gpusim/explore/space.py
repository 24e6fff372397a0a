"""The space of machines and programs that a sweep goes through, and the designs that choose points from it."""

from __future__ import annotations

import difflib
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpusim.config import describe_keys
from gpusim.config.load import unknown_key
from gpusim.errors import ConfigError
from gpusim.explore.axis import Axis
from gpusim.explore.point import PARAMETERS, Pairs, Point

DESIGNS = ("grid", "random", "lhs")
MOST_POINTS = 1_000_000
ProgramSpec = str | Mapping[str, Any]


class Space:
    """Axes over GPUs, keys of the configuration and parameters of programs; every program runs at every choice.

    programs: names; or mappings {"name": ..., "size": [...]} for a program that has parameters of its own, which take
        precedence over the axes. gpu: a name or several. axes: {name: value, list of values, {low, high, step | points,
        log}, or Axis}; a name with a dot is a key of the configuration, others are parameters of the program as
        `gpusim run` has them. together: groups of names whose axes go in step, the first values of each, then the
        second ones.

    Raises ConfigError for whatever is wrong with that: an unknown key, parameter or range.
    """

    def __init__(
        self,
        programs: ProgramSpec | Iterable[ProgramSpec],
        gpu: str | Sequence[str] = "h200",
        axes: Mapping[str, Any] | None = None,
        together: Iterable[Sequence[str]] = (),
    ) -> None:
        given = [programs] if isinstance(programs, str | Mapping) else list(programs)
        self.programs: tuple[tuple[str, Pairs], ...] = tuple(itertools.chain.from_iterable(map(_program, given)))
        if not self.programs:
            raise ConfigError("a space needs at least one program")
        named = {"gpu": gpu} | dict(axes or {})
        self.axes: tuple[Axis, ...] = tuple(Axis.of(_known(name), value) for name, value in named.items())
        self.groups: tuple[tuple[Axis, ...], ...] = self._grouped([tuple(names) for names in together])

    def grid(self) -> list[Point]:
        """Every combination; programs vary slowest, the last axis fastest."""
        levels = [[_levels(axis) for axis in group] for group in self.groups]
        count = len(self.programs)
        for group in levels:
            count *= len(group[0])
        if count > MOST_POINTS:
            raise ConfigError(f"the grid has {count:,} points, at most {MOST_POINTS:,} are allowed")
        choices = itertools.product(*[list(zip(*group, strict=True)) for group in levels])
        return self._points(list(itertools.chain.from_iterable(choice)) for choice in choices)

    def random(self, n: int, seed: int = 0) -> list[Point]:
        """n choices at random, each for every program; what is chosen twice is there once."""
        source = random.Random(f"random {seed}")
        return self._sampled([[source.random() for _ in self.groups] for _ in range(_positive(n))])

    def latin_hypercube(self, n: int, seed: int = 0) -> list[Point]:
        """n choices, each for every program, such that each axis, cut into n equal parts, is met once in each part."""
        source = random.Random(f"lhs {seed}")
        columns = []
        for _ in self.groups:
            parts = list(range(_positive(n)))
            source.shuffle(parts)
            columns.append([(part + source.random()) / n for part in parts])
        return self._sampled([list(row) for row in zip(*columns, strict=True)])

    def points(self, design: str = "grid", n: int | None = None, seed: int = 0) -> list[Point]:
        """The points of a design by name: one of DESIGNS. n is for random and lhs."""
        if design not in DESIGNS:
            close = difflib.get_close_matches(design, DESIGNS, n=1, cutoff=0.3)
            raise ConfigError(f"no design {design!r}; there are {', '.join(DESIGNS)}",
                              suggestion=close[0] if close else None)  # fmt: skip
        if design in ("random", "lhs"):
            if n is None:
                raise ConfigError(f"the design {design} needs a number of points")
            return self.random(n, seed) if design == "random" else self.latin_hypercube(n, seed)
        if n is not None:
            raise ConfigError(f"a number of points is for the designs random and lhs, not {design}")
        return self.grid()

    def at(self, values: Mapping[str, Any]) -> list[Point]:
        """The points, one for each program, where the axes have these values: what a search tries next."""
        return self._points([[values[axis.name] for axis in self._ordered()]])

    def _sampled(self, shares: Iterable[Sequence[float]]) -> list[Point]:
        rows = []
        for row in shares:
            pairs = zip(row, self.groups, strict=True)
            rows.append([axis.at(share) for share, group in pairs for axis in group])
        return self._points(rows)

    def _points(self, rows: Iterable[Sequence[Any]]) -> list[Point]:
        """One point per program and row of values in the order of `_ordered`; each point once."""
        names = [axis.name for axis in self._ordered()]
        choices = [dict(zip(names, row, strict=True)) for row in rows]
        points = []
        for program, own in self.programs:
            for choice in choices:
                config = {name: value for name, value in choice.items() if "." in name}
                shared = {name: value for name, value in choice.items() if name in PARAMETERS}
                points.append(Point(program, choice["gpu"], config, shared | dict(own)))
        return list({point.key: point for point in points}.values())

    def _ordered(self) -> list[Axis]:
        """The axes as the groups have them."""
        return list(itertools.chain.from_iterable(self.groups))

    def _grouped(self, together: list[tuple[str, ...]]) -> tuple[tuple[Axis, ...], ...]:
        """Axes that go in step, in the order of their first ones; an axis alone is a group of its own."""
        known = {axis.name: axis for axis in self.axes}
        member: dict[str, tuple[str, ...]] = {}
        for names in together:
            for name in names:
                if name not in known:
                    raise ConfigError("goes together with others, but is no axis", key=name)
                if name in member:
                    raise ConfigError("stands twice among what goes together", key=name)
                member[name] = names
            lengths = {name: len(_levels(known[name])) for name in names}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{name} has {count}" for name, count in lengths.items())
                raise ConfigError(f"axes that go together need as many values each: {told}")
        groups = dict.fromkeys(member.get(axis.name, (axis.name,)) for axis in self.axes)
        return tuple(tuple(known[name] for name in names) for names in groups)


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
    levels = [_levels(Axis.of(parameter, value)) for parameter, value in values.items()]
    return [(name, tuple(zip(values, row, strict=True))) for row in itertools.product(*levels)]


def _known(name: str) -> str:
    if name == "gpu" or name in PARAMETERS or name in describe_keys():
        return name
    raise unknown_key(name) if "." in name else _unknown_parameter(name)


def _unknown_parameter(name: str) -> ConfigError:
    close = difflib.get_close_matches(name, [*PARAMETERS, "gpu"], n=1, cutoff=0.6)
    if not close:
        return unknown_key(name)  # perhaps a key of the configuration without its section
    return ConfigError("unknown parameter of a program", key=name, suggestion=close[0])


def _levels(axis: Axis) -> tuple[Any, ...]:
    levels = axis.levels()
    if levels is None:
        raise ConfigError("a range without step or points has no list of values", key=axis.name)
    return levels


def _positive(n: int) -> int:
    if not 1 <= n <= MOST_POINTS:
        raise ConfigError(f"the number of points must be 1 to {MOST_POINTS:,}, got {n}")
    return n
