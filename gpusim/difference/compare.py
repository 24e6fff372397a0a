"""The difference of two runs with its views: sentences, text, JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpusim.difference import page, tables
from gpusim.difference.pairs import Change, Pairs
from gpusim.difference.side import Run, as_run
from gpusim.difference.why import sentences
from gpusim.result import Result
from gpusim.results import SCHEMA_VERSION


@dataclass(frozen=True)
class Difference(Pairs):
    """Two runs, what differs between them, and why."""

    @cached_property
    def why(self) -> list[str]:
        """Sentences that say what changed and why, each with its numbers."""
        return sentences(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON. `a` and `b` are what `Run` holds of each side."""
        return {
            "schema_version": SCHEMA_VERSION,
            "a": _run(self.a),
            "b": _run(self.b),
            **{name: _plain(change) for name, (_, change) in self.numbers.items()},
            "energy_parts": [_plain(each) | {"difference": each.difference} for each in self.energy_parts],
            "why": self.why,
            "launch": [_plain(each) for each in self.launch],
            "configuration": [_plain(each) for each in self.configuration],
            "metrics": [_plain(each) for each in self.metrics],
            "stalls": [_plain(each) | {"difference": each.difference} for each in self.stalls],
            "findings": [asdict(each) | {"state": each.state} for each in self.findings],
            "lines": [asdict(each) for each in self.lines],
        }

    def report_html(self, path: str | Path) -> Path:
        """Write the difference as one HTML page and return its path. Raises OSError if that cannot be done."""
        target = Path(path)
        target.write_text(page.render_page(self, self.why), "utf-8")
        return target

    def __str__(self) -> str:
        return tables.render(self, self.why)


def compare_results(
    a: Result | Mapping[str, Any] | Run,
    b: Result | Mapping[str, Any] | Run,
    title_a: str | None = None,
    title_b: str | None = None,
) -> Difference:
    """Say what differs between two runs, and why.

    a, b: results, or what `Result.to_dict` gave of them, from a file for one. title_a, title_b: what was run, by
    default the program's or the kernel's name. `print` shows the difference.

    Raises NotAResult for a mapping that is no result.
    """
    return Difference(as_run(a, title_a), as_run(b, title_b))


def _run(run: Run) -> dict[str, Any]:
    found = asdict(run)
    return found.pop("numbers") | found


def _plain(change: Change) -> dict[str, Any]:
    return {name: value for name, value in asdict(change).items() if value != ""} | {"ratio": change.ratio}
