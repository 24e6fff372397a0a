"""Goals and limits of a search: names, spellings, comparison."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpusim.config import load_config
from gpusim.errors import ConfigError, nearest
from gpusim.explore.cost import cost
from gpusim.explore.evaluate import ENERGIES

COSTS = ("area_mm2", "power_w")
"""Columns that are known before anything runs."""
OF_RUNS = ("time_us", "cycles", *ENERGIES)
"""Columns that every run has."""
COLUMNS = (*OF_RUNS, *COSTS)


@dataclass(frozen=True)
class Goal:
    """A column that is to be small, or with `larger` large."""

    name: str
    larger: bool = False

    @classmethod
    def of(cls, text: str | Goal) -> Goal:
        """From "time_us", "min time_us" or "max sm__inst_executed.avg.per_cycle_active". Raises ConfigError."""
        if isinstance(text, Goal):
            return text
        direction, _, name = text.strip().rpartition(" ")
        if direction.strip() not in ("", "min", "max"):
            raise ConfigError(f"a goal is a column, 'min COLUMN' or 'max COLUMN', not {text!r}")
        return cls(_known(name), direction.strip() == "max")

    def loss(self, value: float) -> float:
        """Return the number that is to be small."""
        return -value if self.larger and math.isfinite(value) else value

    def __str__(self) -> str:
        return f"max {self.name}" if self.larger else self.name


@dataclass(frozen=True)
class Limit:
    """A column that must be at most (or at least) a number."""

    name: str
    most: bool
    bound: float

    @classmethod
    def of(cls, text: str | Limit) -> Limit:
        """From "area_mm2 <= 600", or "power_w <= h200" for the cost of that configuration. Raises ConfigError."""
        if isinstance(text, Limit):
            return text
        parts = re.fullmatch(r"\s*(\S+?)\s*(<=|>=)\s*(\S+)\s*", text)
        if not parts:
            raise ConfigError(f"a limit is spelled 'COLUMN <= NUMBER' or 'COLUMN >= NUMBER', not {text!r}")
        name, sign, value = parts.groups()
        name = _known(name)
        try:
            bound = float(value)
        except ValueError:
            if name not in COSTS:
                raise ConfigError(f"only {' and '.join(COSTS)} can be held against a configuration, not {name}") \
                    from None  # fmt: skip
            bound = getattr(cost(load_config(value)), name)
        if not math.isfinite(bound):
            raise ConfigError(f"a limit is a finite number, not {value}")
        return cls(name, sign == "<=", bound)

    def holds(self, value: float) -> bool:
        """Return whether a value keeps the limit."""
        return value <= self.bound if self.most else value >= self.bound

    def excess(self, value: float) -> float:
        """By what share of the limit a value breaks it; not above 0 where it keeps it."""
        scale = abs(self.bound) or 1.0
        return (value - self.bound) / scale if self.most else (self.bound - value) / scale

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.most else '>='} {self.bound:g}"


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether losses `a` are nowhere above `b` and somewhere below."""
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))


def geometric_mean(values: Sequence[float]) -> float:
    """Of values that are not negative; 0 if one is."""
    if any(value <= 0 for value in values):
        return 0.0
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def _known(name: str) -> str:
    from gpusim.results.metrics import METRICS

    if name in COLUMNS or name in METRICS:
        return name
    close = nearest(name, [*COLUMNS, *METRICS], 0.5)
    raise ConfigError(f"no column {name!r}; there are {', '.join(COLUMNS)} and the metrics", suggestion=close)
