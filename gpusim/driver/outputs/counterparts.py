"""What kernels of the stand-ins stand for, and how far their times are from those of the library's own.

`counterparts.txt` has them by how kernels' names begin, from recordings of both on an H200; where it has zero of them,
none was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Counterpart:
    """A kind of kernels. begins: how their names do. measured: pairs that were measured. half, most: the distance, as
    a share of the library's time, within which half and nine in ten of them lie. low, high: the library's time over
    that of ours, of which one in ten is less, and one in ten more."""

    begins: str
    library: str
    measured: int
    half: float
    most: float
    low: float
    high: float

    def __str__(self) -> str:
        if not self.measured:
            return f"{self.begins}... stands for {self.library}: no counterpart measured"
        near = f"half of {self.measured:,} measured on an H200 are within {self.half:.0%} of it"
        return f"{self.begins}... stands for {self.library}: {near}, nine in ten within {self.most:.0%}"

    def span(self, cycles: float, low: float, high: float) -> tuple[float, float]:
        """The library's cycles, of a kernel of ours for which the model says between `low` and `high`: both errors are
        independent. What was not measured leaves them."""
        if not self.measured:
            return low, high
        middle = (math.log(low * high / cycles**2) + math.log(self.low * self.high)) / 2
        half = math.hypot(math.log(high / low), math.log(self.high / self.low)) / 2
        return cycles * math.exp(middle - half), cycles * math.exp(middle + half)


@cache
def _all() -> tuple[Counterpart, ...]:
    lines = resources.files("gpusim.driver.outputs").joinpath("counterparts.txt").read_text().splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return tuple(Counterpart(begins, library, int(n), *map(float, rest)) for begins, library, n, *rest in rows)


def counterpart_of(kernel: str) -> Counterpart | None:
    """What a kernel stands for; None for a program's own. The longest beginning counts."""
    found = (each for each in _all() if kernel.startswith(each.begins))
    return max(found, key=lambda each: len(each.begins), default=None)
