"""The least time that a launch can take, which `gpusim.bound` finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """The least time that a launch can take on a machine.

    cycles: SM clock cycles from the start of the launch, its overhead included. by: the term that says so.
    terms: every term, {name: cycles}. time_us: the same in microseconds. gpu: name of the machine.
    waves: how often the grid fills the whole GPU, a broken number.
    """

    gpu: str
    cycles: int
    time_us: float
    by: str
    terms: dict[str, float]
    waves: float
    overhead_cycles: int

    def __str__(self) -> str:
        lines = [f"Bound {self.cycles:,} cycles = {self.time_us:.2f} us on {self.gpu}, by {self.by}"]
        for name, cycles in sorted(self.terms.items(), key=lambda each: -each[1]):
            share = cycles / max(self.cycles, 1)
            lines.append(f"  {name:22s} {'#' * round(20 * share):20s} {cycles:12,.0f}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return asdict(self)
