"""The difference of two runs: pairs of numbers, of findings and of source lines, each ordered by what changed most."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

from gpusim.difference.side import LineCost, Run
from gpusim.results.finding import Finding
from gpusim.results.quantities import QUANTITIES, shown
from gpusim.results.table import DIFF, SECTIONS, Quantity

ORDER = tuple(each.title for each in SECTIONS.values())
"""Titles of sections as the report orders them."""
LESS = 0.75
"""A finding that costs less than this part of what it cost before counts as less."""

VISIBLE = 0.005
"""Relative change from which a metric is shown at once."""
_ALIKE = 0.6
"""Lines whose texts have this much in common are one line, rewritten."""


@dataclass(frozen=True)
class Change:
    """One thing on both sides. a and b: None where a side does not have it."""

    name: str
    a: Any
    b: Any
    section: str = ""
    unit: str = ""

    @property
    def equal(self) -> bool:
        """True if both sides have the same value."""
        return self.a == self.b

    @property
    def ratio(self) -> float | None:
        """b by a; None without numbers, or where a is zero and b is not."""
        if not isinstance(self.a, int | float) or not isinstance(self.b, int | float):
            return None
        if not self.a:
            return None if self.b else 1.0
        return self.b / self.a

    @property
    def difference(self) -> float:
        """b less a, of numbers."""
        return (self.b or 0) - (self.a or 0)

    @property
    def weight(self) -> float:
        """By how much it changed relatively: 0 if not at all, infinite if it appeared or vanished."""
        if self.equal:
            return 0.0
        return abs(math.log(self.ratio)) if self.ratio and self.ratio > 0 else math.inf


def spelled(value: Any) -> str:
    """A value for a person: thousands separated, fractions to two decimals."""
    if isinstance(value, list | tuple):
        return f"({', '.join(map(spelled, value))})"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if float(value).is_integer():
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.005:
        return f"{value:.1g}"
    return f"{value / 1e9:,.2f} G" if abs(value) >= 1e9 else f"{value:,.2f}"


def times(change: Change) -> str:
    """The ratio: '0.79x', '=' if nothing changed, 'gone' or 'new' at zero."""
    if change.equal:
        return "="
    if change.ratio is None:
        return "new" if isinstance(change.b, int | float) and not change.a else ""
    return "gone" if change.ratio == 0 else f"{change.ratio:.2f}x"


def signed(value: float, digits: int = 0) -> str:
    """A difference with its sign, none for zero."""
    text = f"{value:+,.{digits}f}"
    return text.lstrip("+-") if float(text.replace(",", "")) == 0 else text


def cells(change: Change, spell: Callable[[float], str]) -> list[str]:
    """Both sides, their ratio and their difference as `spell` writes a number; of what one side has, that alone."""
    both = ["-" if each is None else spell(each) for each in (change.a, change.b)]
    if "-" in both:
        return [*both, "", ""]
    size = spell(abs(change.difference))
    sign = "" if size == spell(0) else "-" if change.difference < 0 else "+"
    return [*both, times(change), sign + size]


@dataclass(frozen=True)
class FindingChange:
    """One finding of the advice on both sides. a and b: the finding, None where a side lacks it. cycles_a and cycles_b:
    its cost in cycles, its share times the launch's."""

    kind: str
    a: Finding | None
    b: Finding | None
    cycles_a: float
    cycles_b: float

    @property
    def state(self) -> str:
        """'gone', 'new', 'less' or 'more' by a quarter at least, or 'same'."""
        if self.a is None or self.b is None:
            return "new" if self.a is None else "gone"
        if self.cycles_b <= LESS * self.cycles_a:
            return "less"
        return "more" if self.cycles_a <= LESS * self.cycles_b else "same"

    @property
    def saved(self) -> float:
        """Cycles that b saves, negative where it costs more."""
        return self.cycles_a - self.cycles_b

    @property
    def cells(self) -> list[str]:
        """The finding, its share of each side, what B saves, and its state."""
        shares = ("-" if each is None else f"{100 * each.share:.1f} %" for each in (self.a, self.b))
        return [str(self), *shares, signed(self.saved), self.state]

    def __str__(self) -> str:
        place = self.a or self.b
        where = "" if place is None or place.line is None else f" of line {place.line}"
        moved = self.a is not None and self.b is not None and self.a.line != self.b.line
        return f"{self.kind}{where}{f' (then {self.b.line})' if moved and self.b else ''}"


@dataclass(frozen=True)
class LineChange:
    """A source line on both sides; None on the side that does not have it."""

    a: LineCost | None
    b: LineCost | None

    @property
    def cycles(self) -> Change:
        """Warp cycles at the line."""
        return self.of("cycles")

    def of(self, name: str) -> Change:
        """One of the line's numbers, 0 where the line is missing."""
        return Change(name, getattr(self.a, name, 0), getattr(self.b, name, 0))

    @property
    def text(self) -> str:
        """The line as written."""
        return (self.a or self.b).text  # type: ignore[union-attr]  # one of them is there


@dataclass(frozen=True)
class Pairs:
    """Two runs and what differs between them. Everything is computed when first asked for."""

    a: Run
    b: Run

    @cached_property
    def numbers(self) -> dict[str, tuple[Quantity, Change]]:
        """Numbers of the launch by their bare names ('energy' of `energy_j`), with their rows of the table; None of a
        side that does not know one."""
        a, b = self.a.numbers, self.b.numbers
        return {
            each.bare: (each, Change(each.bare, a.get(each.name), b.get(each.name), unit=each.unit))
            for each in shown(DIFF)
            if not each.metric
        }

    @property
    def cycles(self) -> Change:
        """Cycles of the launch."""
        return self.numbers["cycles"][1]

    @property
    def energy(self) -> Change:
        """Joules of the launch; None of a side that was measured."""
        return self.numbers["energy"][1]

    @property
    def power(self) -> Change:
        """Watts in the mean over the launch, as above."""
        return self.numbers["power"][1]

    @cached_property
    def energy_parts(self) -> list[Change]:
        """Joules by unit, the largest difference first; empty if a side has none."""
        a, b = self.a.energy_parts or {}, self.b.energy_parts or {}
        found = [Change(name, a[name], b[name], unit="J") for name in a if name in b]
        return sorted((each for each in found if each.a or each.b), key=lambda each: -abs(each.difference))

    @cached_property
    def launch(self) -> list[Change]:
        """Differences between the launches, in the order of `Run.launch`, of facts that both sides have."""
        return list(_unequal(self.a.launch, self.b.launch))

    @cached_property
    def configuration(self) -> list[Change]:
        """Keys of the configuration that differ, empty where a side has none."""
        return list(_unequal(self.a.configuration or {}, self.b.configuration or {}))

    @cached_property
    def metrics(self) -> list[Change]:
        """Metrics that both sides have, by section in the report's order, the largest relative change first."""
        # A profiler prints two decimals: what was measured cannot differ by less.
        decimals = 2 if self.a.measured or self.b.measured else None
        found = [
            Change(
                name,
                _rounded(self.a.metrics[name], decimals),
                _rounded(self.b.metrics[name], decimals),
                SECTIONS[each.section].title,
                each.unit,
            )
            for name, each in QUANTITIES.items()
            if each.metric and name in self.a.metrics and name in self.b.metrics
        ]
        return sorted(found, key=lambda each: (ORDER.index(each.section), -each.weight))

    @cached_property
    def sections(self) -> list[tuple[str, list[Change], list[Change]]]:
        """Sections with their metrics that differ visibly, and with those that do not."""
        found = []
        for section, group in groupby(self.metrics, key=lambda each: each.section):
            parts: tuple[list[Change], list[Change]] = [], []
            for each in group:
                parts[each.weight <= VISIBLE].append(each)
            found.append((section, *parts))
        return found

    @cached_property
    def stalls(self) -> list[Change]:
        """Warp cycles per issued instruction by stall reason, the largest difference first."""
        names = dict.fromkeys((*self.a.stalls, *self.b.stalls))
        found = [Change(name, self.a.stalls.get(name, 0.0), self.b.stalls.get(name, 0.0)) for name in names]
        return sorted((each for each in found if each.a or each.b), key=lambda each: -abs(each.difference))

    @cached_property
    def lines(self) -> list[LineChange]:
        """Source lines of both sides in the order of the source, paired where their texts follow each other alike; a
        line that was rewritten but in part goes with what it became."""
        a, b = (sorted(run.lines, key=lambda row: (Path(row.file).name, row.line)) for run in (self.a, self.b))
        matcher = difflib.SequenceMatcher(None, [row.text for row in a], [row.text for row in b], autojunk=False)
        pairs: list[LineChange] = []
        for _, from_a, to_a, from_b, to_b in matcher.get_opcodes():
            old, new = a[from_a:to_a], b[from_b:to_b]
            if len(old) == len(new) and all(map(_alike, old, new)):
                pairs += map(LineChange, old, new)
            else:
                pairs += [LineChange(row, None) for row in old]
                pairs += [LineChange(None, row) for row in new]
        return pairs

    @property
    def changed_lines(self) -> list[LineChange]:
        """Lines whose cycles differ, the largest difference first; none where a side was measured."""
        if self.a.measured or self.b.measured:
            return []
        return sorted((e for e in self.lines if not e.cycles.equal), key=lambda each: -abs(each.cycles.difference))

    @cached_property
    def findings(self) -> list[FindingChange]:
        """Changes of the advice, the largest saving or cost first; empty if a side was measured, not simulated."""
        if self.a.measured or self.b.measured:
            return []
        kinds = dict.fromkeys(each.kind for each in (*self.a.findings, *self.b.findings))
        return sorted((each for kind in kinds for each in self._paired(kind)), key=lambda each: -abs(each.saved))

    def _paired(self, kind: str) -> Iterator[FindingChange]:
        """Findings of a kind: those of one line together, then the others in their order."""
        same = {(p.a.file, p.a.line): (p.b.file, p.b.line) for p in self.lines if p.a and p.b}
        before = [each for each in self.a.findings if each.kind == kind]
        after = [each for each in self.b.findings if each.kind == kind]
        pairs: list[tuple[Finding, Finding]] = []
        for old in list(before):
            if old.line is None or old.file is None:
                continue
            place = same.get((old.file, old.line))
            new = next((each for each in after if (each.file, each.line) == place), None)
            if new is not None:
                pairs.append((old, new))
                before.remove(old)
                after.remove(new)
        for a, b in (*pairs, *zip_longest(before, after)):
            cost_a, cost_b = (f.share * run.cycles if f else 0.0 for f, run in ((a, self.a), (b, self.b)))
            yield FindingChange(kind, a, b, cost_a, cost_b)


def _rounded(value: float, decimals: int | None) -> float:
    return value if decimals is None or isinstance(value, int) else round(value, decimals)


def _alike(a: LineCost, b: LineCost) -> bool:
    return a.text == b.text or difflib.SequenceMatcher(None, a.text, b.text).ratio() >= _ALIKE


def _unequal(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    for name, value in a.items():
        if name in b and _listed(value) != _listed(b[name]):
            yield Change(name, _listed(value), _listed(b[name]))


def _listed(value: Any) -> Any:
    """A value as JSON gives it back."""
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value
