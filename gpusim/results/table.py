"""Rows of the table of quantities, and the spelling of their numbers.

A result holds many things; each is declared once, as a `Quantity`. `gpusim.results.quantities` has all of them. The
terminal's report, the page, JSON and its schema, `gpusim diff`, the columns of sweeps, the lab and the reference page
are made of these rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpusim.units import joule_text, plural, rate_text, scaled

LESS, MORE = "less", "more"
TEXT, FACTS, PAGE, JSON, DIFF, SWEEP, LAB = "text", "facts", "page", "json", "diff", "sweep", "lab"
EVERYWHERE = frozenset({TEXT, PAGE, JSON, DIFF, SWEEP, LAB})
"""Places of a number of the launch. `FACTS` is the head of the page, whose room is small."""
_OF_A_METRIC = frozenset({PAGE, JSON, DIFF})


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of the page and of comparisons. name: its id; about: a sentence."""

    name: str
    title: str
    about: str


_SECTIONS = tomllib.loads(Path(__file__).with_name("sections.toml").read_text("utf-8"))
SECTIONS = {name: ReportSection(name, **row) for name, row in _SECTIONS.items()}
"""Sections by name, in the order of `sections.toml`."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One thing that a result holds.

    name: of the field in JSON, or Nsight Compute's. unit: '' for a plain number. formula: from the `Analysis` to its
    value, in plain values; of a `metric` from the `Counts`. meaning: one line. label: its name in a section of the page
    and in comparisons; a metric without one stands in no section of the page. better: LESS, MORE or ''. where: the
    places that have it. kind: the type of its value, for the schema. bar: the page draws it, in % of a peak.
    short: words for it in the lab, by default the label. column: in a sweep's table, by default the name.
    text: its lines in the terminal's report, from the `Analysis` and whether all findings are wanted; by default the
    label and the value. timed: whether a functional run lacks it. optional: None is left out of JSON.
    """

    name: str
    unit: str
    formula: Callable[[Any], Any]
    meaning: str
    label: str = ""
    section: str = ""
    better: str = ""
    where: frozenset[str] = EVERYWHERE
    kind: Any = float
    bar: bool = False
    short: str = ""
    column: str = ""
    text: Callable[[Any, bool], Iterable[str]] | None = None
    metric: bool = False
    timed: bool = True
    optional: bool = False

    def value(self, result: Any) -> Any:
        """Its value in an `Analysis`."""
        return result.metrics[self.name] if self.metric else self.formula(result)

    @property
    def bare(self) -> str:
        """The name without its unit: 'energy' of `energy_j`."""
        return self.name.removesuffix(f"_{self.unit.lower()}") if self.unit else self.name

    @property
    def head(self) -> str:
        """The label of a column of such numbers, with the unit that `number` leaves out."""
        return f"{self.label} ({self.unit})" if self.unit in ("us", "W", "%") else self.label


_COUNTED = ("cycle", "block", "thread", "warp", "sector", "request", "branch")


def number(value: float, unit: str, micro: str = "u") -> str:
    """A number in its unit, without the unit's name where that is a word. micro: the prefix of millionths."""
    if unit == "J":
        return joule_text(value, micro)
    if unit in ("us", "%"):
        return f"{value:,.2f}" if unit == "us" else f"{value:.1f}"
    whole = float(value).is_integer() or abs(value) >= 1000 or unit in ("W", "MHz", "cycle")
    return f"{value:,.0f}" if whole else f"{value:,.2f}"


def spelled(value: Any, unit: str, micro: str = "u") -> str:
    """A value with its unit, for a person."""
    if isinstance(value, str):
        return value
    if unit == "ns":
        return f"{value / 1000:.2f} {micro}s" if value >= 1000 else f"{value:.0f} ns"
    if unit == "byte/s":
        return rate_text(value)
    if unit == "FLOP":
        return f"{scaled(value)}FLOP"
    text = number(value, unit, micro)
    if unit.startswith("byte"):
        return f"{value:,.0f} B"
    if unit == "us":
        return f"{text} {micro}s"
    if not unit or unit == "J" or "/" in unit:
        return text
    return f"{text} {unit}{plural(value, unit) if unit in _COUNTED else ''}"


def metric_rows(section: str, *rows: Quantity) -> list[Quantity]:
    """Rows of metrics in a section: those with words for the lab stand there too."""
    return [
        replace(each, section=section, metric=True, where=_OF_A_METRIC | ({LAB} if each.short else set())
                | ({SWEEP} if each.column else set()))
        for each in rows
    ]  # fmt: skip
