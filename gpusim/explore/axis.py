"""One thing that varies over a space: a list of values, or a range to choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpusim.errors import ConfigError
from gpusim.explore.point import plain

RANGE_KEYS = ("low", "high", "step", "log", "points")
_MOST_LEVELS = 100_000


@dataclass(frozen=True)
class Axis:
    """What one name ("gpu", a dotted key of the configuration, or a parameter of the program) may be.

    values: all of them, for a list; None for a range, from `low` to `high`, both included. A range of two integers has
    integers only. step: distance between neighbours, or with `log` their ratio; points: how many there are, evenly
    spaced, with `log` by ratio; neither: anything between, which random designs choose from and a grid cannot.
    """

    name: str
    values: tuple[Any, ...] | None = None
    low: float = 0
    high: float = 0
    step: float | None = None
    log: bool = False
    points: int | None = None

    @classmethod
    def of(cls, name: str, given: Any) -> Axis:
        """The axis for what a file or a caller says: a value, a list of values, {low, high, ...}, or an `Axis`.

        Raises ConfigError for an empty list, a value that stands twice, or a range that means nothing.
        """
        if isinstance(given, Axis):
            return cls(name, given.values, given.low, given.high, given.step, given.log, given.points)
        try:
            return cls._read(name, given)
        except ConfigError as error:
            raise ConfigError(error.reason, key=name) from None

    @classmethod
    def _read(cls, name: str, given: Any) -> Axis:
        if not isinstance(given, Mapping):
            values = tuple(plain(each) for each in (given if isinstance(given, list | tuple | range) else [given]))
            if not values:
                raise ConfigError("has no values", key=name)
            twice = [each for index, each in enumerate(values) if each in values[:index]]
            if twice:
                raise ConfigError(f"has the value {twice[0]!r} twice", key=name)
            return cls(name, values)
        unknown = [each for each in given if each not in RANGE_KEYS]
        if unknown or "low" not in given or "high" not in given:
            wrong = f"{unknown[0]!r} is none of them" if unknown else "low and high are needed"
            raise ConfigError(f"a range has {', '.join(RANGE_KEYS)}; {wrong}", key=name)
        axis = cls(name, **{each: plain(value) for each, value in given.items()})
        axis._check()
        return axis

    def _check(self) -> None:
        for each in ("low", "high", "step", "points"):
            value = getattr(self, each)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ConfigError(f"{each} must be a number, got {value!r}", key=self.name)
        if not isinstance(self.log, bool):
            raise ConfigError(f"log must be true or false, got {self.log!r}", key=self.name)
        if not self.low < self.high:
            raise ConfigError(f"low must be below high, got {self.low} and {self.high}", key=self.name)
        if self.log and self.low <= 0:
            raise ConfigError(f"low must be positive where log is true, got {self.low}", key=self.name)
        if self.step is not None and self.points is not None:
            raise ConfigError("step and points exclude each other", key=self.name)
        if self.step is not None and self.step <= (1 if self.log else 0):
            least = "above 1, it is a ratio" if self.log else "positive"
            raise ConfigError(f"step must be {least}, got {self.step}", key=self.name)
        if self.points is not None and (not isinstance(self.points, int) or self.points < 2):
            raise ConfigError(f"points must be an integer above 1, got {self.points}", key=self.name)
        if self._count() > _MOST_LEVELS:
            raise ConfigError(f"has {self._count():,} values, at most {_MOST_LEVELS:,} are allowed", key=self.name)

    @property
    def is_integer(self) -> bool:
        """Whether all values of a range are integers."""
        return self.values is None and isinstance(self.low, int) and isinstance(self.high, int)

    def levels(self) -> tuple[Any, ...] | None:
        """Every value that the axis can have, in order; None for a range without step or points."""
        if self.values is not None:
            return self.values
        if self.step is None and self.points is None:
            return None
        return tuple(dict.fromkeys(self._at(index) for index in range(self._count())))

    def at(self, share: float) -> Any:
        """The value at a share of the way through the axis, 0 to below 1: all parts of it are equally wide."""
        levels = self.levels()
        if levels is not None:
            return levels[min(int(share * len(levels)), len(levels) - 1)]
        # An integer has a width of one, so that both ends are as likely as what is between.
        low, high = (self.low - 0.5, self.high + 0.5) if self.is_integer and not self.log else (self.low, self.high)
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        return min(max(self._rounded(value), self.low), self.high)

    def _count(self) -> int:
        """How many steps a stepped range has, 0 for a continuous one."""
        if self.points is not None:
            return self.points
        if self.step is None:
            return 0
        steps = math.log(self.high / self.low, self.step) if self.log else (self.high - self.low) / self.step
        return math.floor(steps + 1e-9) + 1

    def _at(self, index: int) -> Any:
        if self.points is not None:
            if index == self.points - 1:
                return self.high  # not a rounding error beside it
            share = index / (self.points - 1)
            ratio = self.high / self.low if self.log else 0.0
            return self._rounded(self.low * ratio**share if self.log else self.low + (self.high - self.low) * share)
        assert self.step is not None
        return self._rounded(self.low * self.step**index if self.log else self.low + self.step * index)

    def _rounded(self, value: float) -> Any:
        # Twelve digits: 0.1 + 2 * 0.1 is meant to be 0.3.
        return math.floor(value + 0.5) if self.is_integer else float(f"{value:.12g}")
